/**
 * A device that shows what kernels do where nobody looks. Every buffer (temporaries of programs, too) is followed by
 * guard words and starts as garbage, both NaN: a write behind the end changes a guard, a read from there or of an
 * element that was not written shows as NaN in the result. Slow; for tests of kernels only.
 */
import type { Backend, BackendOf, Buffer, TypedArray } from "../../engine/backends/backend.ts";
import { Device } from "../../engine/device.ts";
import type { AdapterProfile, Program, WgslKernel } from "../../kernels/kernel.ts";
import { generatorsFor } from "../../kernels/wgsl/generators.ts";

/**
 * A NaN as f32, an index far outside every table as i32. Each buffer has its own, so that a kernel that copies behind
 * the ends of both its operands does not put back what was there.
 */
const guardOf = (number: number): number => 0x7fa00000 + (number % 0xfffff);
/** Words behind every buffer: more than a vector, a cache line or a row of the tests' shapes. */
const GUARD_WORDS = 64;

interface GuardedBuffer extends Buffer {
  readonly inner: Buffer;
  readonly guard: number;
}
type Kernels = BackendOf<"wasm"> | BackendOf<"webgpu">;

type Change = (program: Program<WgslKernel>) => Program<WgslKernel>;

export class GuardedDevice extends Device {
  readonly #inner: Kernels;
  /** Buffers since the last `verify`, with the op that they were given to last. */
  readonly #made: Map<GuardedBuffer, () => string>;

  /**
   * @param device what computes; it stays usable by itself
   * @param profile the profile for which WGSL is made, the device's own unless given
   * @param change what is run in the place of a WGSL program, for tests that plant mistakes
   */
  constructor(device: Device, profile?: AdapterProfile, change?: Change) {
    const { backend } = device;
    if (backend.kind === "reference") throw new Error("guarded: the reference executor has no kernels to guard");
    const made = new Map<GuardedBuffer, () => string>();
    super(guard(backend, made, profile, change));
    this.#inner = backend;
    this.#made = made;
  }

  /**
   * Reads the guards of everything made since the last call and gives the memory back.
   * @throws naming an op whose kernels wrote behind the end of a buffer
   */
  async verify(): Promise<void> {
    const buffers = [...this.#made];
    this.#made.clear();
    const after = await Promise.all(
      buffers.map(([buffer]) => this.#inner.read(buffer.inner, buffer.bytes + 4 * GUARD_WORDS)),
    );
    for (const [buffer] of buffers) this.#inner.free(buffer.inner);
    after.forEach((bytes, i) => {
      const [buffer, label] = buffers[i]!;
      const words = new Uint32Array(bytes, buffer.bytes);
      const at = words.findIndex((word) => word !== buffer.guard);
      if (at >= 0) throw new Error(`${label()} wrote ${at} words behind the end of a buffer of ${buffer.bytes} bytes`);
    });
  }

  /** The guarded device has no memory of its own; what it was made of is disposed by who made that. */
  override dispose(): void {}
}

function guard(
  inner: Kernels,
  made: Map<GuardedBuffer, () => string>,
  profile?: AdapterProfile,
  change: Change = (program) => program,
): Backend {
  const none = (): string => "no op";
  let number = 0;
  const alloc = (bytes: number): GuardedBuffer => {
    const buffer = { bytes, inner: inner.alloc(bytes + 4 * GUARD_WORDS), guard: guardOf(++number) };
    inner.write(buffer.inner, new Uint32Array(bytes / 4 + GUARD_WORDS).fill(buffer.guard));
    made.set(buffer, none);
    return buffer;
  };
  const innerOf = (buffer: Buffer): Buffer => (buffer as GuardedBuffer).inner;
  /** The program with temporaries of ours behind its operands. */
  const prepare = <K>(
    program: Program<K>,
    operands: readonly Buffer[],
    label: () => string,
  ): [Program<K>, Buffer[]] => {
    const all = [...operands, ...program.temps.map(alloc)] as GuardedBuffer[];
    for (const buffer of all) made.set(buffer, label);
    return [{ temps: [], steps: program.steps }, all.map(innerOf)];
  };
  const shared = {
    description: `${inner.description}, guarded`,
    alloc,
    part: (): never => {
      throw new Error("guarded: parts are not guarded");
    },
    free: (): void => undefined, // `verify` does it, after a look
    write: (buffer: Buffer, data: TypedArray): void => inner.write(innerOf(buffer), data),
    read: (buffer: Buffer, bytes: number): Promise<ArrayBuffer> => inner.read(innerOf(buffer), bytes),
    synchronize: (): Promise<void> => inner.synchronize(),
    stats: () => inner.stats(),
    dispose: (): void => undefined,
  };
  if (inner.kind === "wasm") {
    const run: BackendOf<"wasm">["run"] = (program, buffers, label) =>
      inner.run(...prepare(program, buffers, label), label);
    const readSync = (buffer: Buffer, bytes: number): ArrayBuffer => inner.readSync!(innerOf(buffer), bytes);
    return { ...shared, kind: "wasm", generators: inner.generators, run, readSync };
  }
  const run: BackendOf<"webgpu">["run"] = (program, buffers, label) =>
    inner.run(...prepare(change(program), buffers, label), label);
  const own = profile ?? inner.profile;
  return { ...shared, kind: "webgpu", generators: generatorsFor(own), run, profile: own };
}
