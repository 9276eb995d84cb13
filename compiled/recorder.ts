/**
 * An executor that computes nothing: it notes what it is told to do, with addresses in a memory that does not exist
 * yet. What it has noted is a program of kernels for anybody who has such a memory.
 */
import { Allocator } from "../engine/backends/allocator.ts";
import type { BackendOf, BackendStats, Buffer, TypedArray } from "../engine/backends/backend.ts";
import { fail, OutOfMemoryError } from "../engine/errors.ts";
import type { Program, WasmKernel } from "../kernels/kernel.ts";
import type { Generators } from "../kernels/program.ts";
import * as families from "../kernels/wasm/index.ts";
import { type Call, DATA, INPUT } from "./format.ts";

/** All that 32-bit addresses reach. */
const MOST_BYTES = 2 ** 32;

interface Place extends Buffer {
  readonly address: number;
  isLive: boolean;
}

/** A call, with the buffers that it reads or writes, and what it writes if that is no input. */
interface Noted {
  readonly call: Call;
  readonly places: readonly Place[];
  readonly bytes?: Uint8Array<ArrayBuffer>;
}

/** An executor that notes its calls; see `noting`. */
export class Recorder implements BackendOf<"wasm"> {
  readonly kind = "wasm";
  readonly description = "a recorder of calls";
  readonly generators: Generators<WasmKernel> = { ...families };
  /** The modules of the kernels that occur, by their number in a call. */
  readonly kernels: Uint8Array<ArrayBuffer>[] = [];
  /** What is written and is no input, by its number in a call. */
  readonly data: Uint8Array<ArrayBuffer>[] = [];
  readonly #allocator = new Allocator(MOST_BYTES, MOST_BYTES);
  readonly #numbers = new Map<string, number>();
  #noted: Noted[] = [];
  #inputs: readonly TypedArray[] = [];

  /** The bytes of memory that the programs need. */
  get bytes(): number {
    return this.#allocator.top;
  }

  /**
   * Runs `body` and notes its calls.
   * @param inputs arrays that are filled anew each time that the program is run; others that are written are data
   * @param kept which calls count: all, or those whose memory is still there at the end. The latter leave what `body`
   *   has made once and for all
   */
  noting<R>(
    inputs: readonly TypedArray[],
    kept: "all" | "lasting",
    body: () => R,
  ): { readonly result: R; readonly calls: readonly Call[] } {
    [this.#noted, this.#inputs] = [[], inputs];
    const result = body();
    const isLasting = ({ places }: Noted): boolean => places.every(({ isLive }) => isLive);
    const noted = this.#noted.filter((one) => kept === "all" || isLasting(one));
    return { result, calls: noted.map(({ call, bytes }) => (bytes ? [...call, this.data.push(bytes) - 1] : call)) };
  }

  /** The address of a buffer. */
  addressOf(buffer: Buffer): number {
    return (buffer as Place).address;
  }

  alloc(bytes: number): Place {
    const address = this.#allocator.alloc(bytes);
    if (address === undefined) throw new OutOfMemoryError(`compileModel: ${bytes} bytes more are over 4 GiB`);
    return { bytes, address, isLive: true };
  }

  part(): never {
    return fail("compileModel: memory in parts belongs to training");
  }

  free(buffer: Buffer): void {
    const place = buffer as Place;
    place.isLive = false;
    this.#allocator.free(place.address, place.bytes);
  }

  write(buffer: Buffer, array: TypedArray): void {
    const place = buffer as Place;
    const input = this.#inputs.indexOf(array);
    if (input >= 0) return void this.#noted.push({ call: [INPUT, place.address, input], places: [place] });
    // A copy, as the caller may write other numbers into the array.
    const bytes = new Uint8Array(array.byteLength);
    bytes.set(new Uint8Array(array.buffer, array.byteOffset, array.byteLength));
    this.#noted.push({ call: [DATA, place.address], places: [place], bytes });
  }

  run({ temps, steps }: Program<WasmKernel>, buffers: readonly Buffer[]): void {
    const own = temps.map((bytes) => this.alloc(bytes));
    const places = [...(buffers as readonly Place[]), ...own];
    for (const { kernel, buffers: used } of steps) {
      const addresses = used.map((b) => places[b]!.address);
      const call = [this.#numberOf(kernel), ...addresses, ...kernel.scalars, 0, kernel.units];
      this.#noted.push({ call, places: buffers as readonly Place[] });
    }
    for (const place of own.toReversed()) this.free(place);
  }

  #numberOf(kernel: WasmKernel): number {
    const known = this.#numbers.get(kernel.key);
    if (known !== undefined) return known;
    this.#numbers.set(kernel.key, this.kernels.length);
    return this.kernels.push(kernel.module()) - 1;
  }

  read(): never {
    return fail("compileModel: nothing is computed, so there is nothing to read");
  }

  async synchronize(): Promise<void> {}

  stats(): BackendStats {
    const { top } = this.#allocator;
    const [liveBytes, liveBuffers, compiledKernels] = [top, 0, this.kernels.length];
    return { liveBytes, liveBuffers, peakBytes: top, reservedBytes: top, compiledKernels };
  }

  dispose(): void {}
}
