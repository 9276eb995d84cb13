/**
 * Captured work: work that is done many times with other numbers, such as a step of decoding. `capture` runs it and
 * records its calls of the executor: memory taken, arrays of the host written, programs run, memory given back.
 * `replay` makes the same calls again, in the same order, and so gets the same bits. It leaves out everything between
 * the work and the executor: type rules, tensors, scopes, the making of programs. On a small model that takes longer
 * than the kernels.
 *
 * CUDA graphs (`torch.cuda.graph`) do the same, with one difference: memory is taken and given back anew in each
 * replay, so that captured work holds no memory of the device, and about a kilobyte per call of the host's.
 *
 * These may differ from one replay to the next: the elements of the inputs, the tensors themselves (of the same types),
 * and the elements of the typed arrays that the work makes tensors of, which are read again if they have the tensor's
 * own type (others are converted once). All else is as it was captured: shapes, parameters of ops, decisions of the
 * work on the host. Checks of values are not made again, and nothing is recorded for a gradient.
 */
import type { Backend, Buffer, TypedArray } from "./backends/backend.ts";
import { check } from "./errors.ts";
import { recordingOutside } from "./tape.ts";
import { Storage, Tensor, namingScopes } from "./tensor.ts";
import { type DType, type Shape, showType } from "./types.ts";

/** A call of the executor. Buffers are named by their place in a table, which each replay fills anew. */
type Step =
  | { readonly call: "alloc"; readonly place: number; readonly bytes: number }
  | { readonly call: "write"; readonly place: number; readonly data: TypedArray }
  // The program is one of this executor's, and only this executor runs it again.
  | { readonly call: "run"; readonly program: never; readonly places: readonly number[]; readonly label: () => string }
  | { readonly call: "readOnly"; readonly place: number; readonly is: boolean }
  | { readonly call: "free"; readonly place: number };

/** Captured work; see `capture`. */
export class Captured {
  readonly #steps: readonly Step[];
  /** The buffers that are neither inputs nor taken by the work, at their places. */
  readonly #constants: readonly (Buffer | undefined)[];
  /** The bytes of each input. */
  readonly #bytes: readonly number[];
  readonly #result: { readonly place: number; readonly shape: Shape; readonly dtype: DType };

  constructor(notes: Notes, result: Tensor) {
    this.#steps = notes.steps;
    this.#constants = notes.constants;
    this.#bytes = notes.bytes;
    this.#result = { place: notes.placeOf(result.storage.buffer), shape: result.shape, dtype: result.dtype };
  }

  /** The number of its calls of the executor. */
  get calls(): number {
    return this.#steps.length;
  }

  /**
   * Does the work again. @param inputs of the types of the captured ones
   * @returns the result of the work, in the current scope
   * @throws if the inputs differ in number or size from the captured ones, or if a gradient is being recorded
   */
  replay(inputs: readonly Tensor[]): Tensor {
    check(!recordingOutside(), () => "replay: what is done again is not recorded, and a gradient is being recorded");
    const { device } = inputs[0]!;
    const buffers = [...this.#constants];
    inputs.forEach((x, i) => (buffers[i] = x.storage.buffer));
    check(
      inputs.length === this.#bytes.length && this.#bytes.every((bytes, i) => buffers[i]!.bytes === bytes),
      () => `replay: captured with inputs of ${this.#bytes.join(", ")} bytes, got ${inputs.map(showType).join(", ")}`,
    );
    let done = 0;
    try {
      for (; done < this.#steps.length; done++) perform(this.#steps[done]!, device.backend, buffers);
    } catch (error) {
      freeWhatIsLeft(this.#steps.slice(0, done), device.backend, buffers);
      throw namingScopes(error);
    }
    const { place, shape, dtype } = this.#result;
    return new Tensor(new Storage(device, buffers[place]!), shape, dtype);
  }
}

function perform(step: Step, backend: Backend, buffers: (Buffer | undefined)[]): void {
  switch (step.call) {
    case "alloc":
      buffers[step.place] = backend.alloc(step.bytes);
      break;
    case "write":
      backend.write(buffers[step.place]!, step.data);
      break;
    case "run":
      backend.run(
        step.program,
        step.places.map((place) => buffers[place]!),
        step.label,
      );
      break;
    case "readOnly":
      backend.readOnly?.(buffers[step.place]!, step.is);
      break;
    case "free":
      backend.free(buffers[step.place]!);
  }
}

function freeWhatIsLeft(done: readonly Step[], backend: Backend, buffers: readonly (Buffer | undefined)[]): void {
  const left = new Set<number>();
  for (const step of done) {
    if (step.call === "alloc") left.add(step.place);
    else if (step.call === "free") left.delete(step.place);
  }
  for (const place of left) backend.free(buffers[place]!);
}

/** Calls that no replay could make: cut up memory that outlives it, wait for a result. */
const ONLY_ONCE: ReadonlySet<string | symbol> = new Set(["part", "read", "readSync", "synchronize"]);

/** The record of some work's calls while it runs. */
class Notes {
  readonly steps: Step[] = [];
  readonly constants: (Buffer | undefined)[];
  readonly bytes: readonly number[];
  /** False once it has made a call that cannot be repeated: read a result, or freed memory that it had not made. */
  canRepeat = true;
  readonly #places = new Map<Buffer, number>();
  /** The buffers that it has taken and not given back. */
  readonly #taken = new Set<Buffer>();

  constructor(inputs: readonly Buffer[]) {
    inputs.forEach((buffer, place) => this.#places.set(buffer, place));
    this.constants = inputs.map(() => undefined);
    this.bytes = inputs.map(({ bytes }) => bytes);
  }

  placeOf(buffer: Buffer): number {
    return this.#places.get(buffer) ?? this.#newPlace(buffer, buffer);
  }

  /** Whether only `result` is left of its buffers, so that a replay leaves no other either. */
  leavesOnly(result: Buffer): boolean {
    return this.#taken.size === 1 && this.#taken.has(result);
  }

  /** The executor, which records the calls. */
  of(backend: Backend): Backend {
    const noted: Partial<Record<keyof Backend, unknown>> = {
      alloc: (bytes: number): Buffer => {
        const buffer = backend.alloc(bytes);
        this.#taken.add(buffer);
        this.steps.push({ call: "alloc", place: this.#newPlace(buffer, undefined), bytes });
        return buffer;
      },
      write: (buffer: Buffer, data: TypedArray): void => {
        backend.write(buffer, data);
        this.steps.push({ call: "write", place: this.placeOf(buffer), data });
      },
      run: (program: never, buffers: readonly Buffer[], label: () => string): void => {
        backend.run(program, buffers, label);
        const text = label(); // now, because `label` keeps the op's tensors
        const places = buffers.map((buffer) => this.placeOf(buffer));
        this.steps.push({ call: "run", program, places, label: () => text });
      },
      ...(backend.readOnly && {
        readOnly: (buffer: Buffer, is: boolean): void => {
          backend.readOnly!(buffer, is);
          this.steps.push({ call: "readOnly", place: this.placeOf(buffer), is });
        },
      }),
      free: (buffer: Buffer): void => {
        backend.free(buffer);
        if (!this.#taken.delete(buffer)) this.canRepeat = false;
        this.steps.push({ call: "free", place: this.placeOf(buffer) });
      },
    };
    return new Proxy(backend, {
      get: (target, name) => {
        if (ONLY_ONCE.has(name)) this.canRepeat = false;
        const value: unknown = noted[name as keyof Backend] ?? Reflect.get(target, name, target);
        if (typeof value !== "function") return value;
        return value.bind(target) as unknown; // its private fields are the executor's, not the proxy's
      },
    });
  }

  #newPlace(buffer: Buffer, constant: Buffer | undefined): number {
    const place = this.constants.length;
    this.#places.set(buffer, place);
    this.constants.push(constant);
    return place;
  }
}

/**
 * Runs `body` and records its calls of the executor.
 * @param inputs the tensors that it reads or overwrites and that may be others in a replay, at least one. Other tensors
 *   that it
 *   reads and did not make must stay alive. All are on one device
 * @returns its result, and the captured work, which is absent if it cannot be replayed, because `body` read a result,
 *   freed a tensor that it had not made, or made one that outlives it
 */
export function capture(
  inputs: readonly Tensor[],
  body: () => Tensor,
): { readonly result: Tensor; readonly captured: Captured | undefined } {
  const notes = new Notes(inputs.map((x) => x.storage.buffer));
  const { device } = inputs[0]!;
  const result = device.withBackend(notes.of(device.backend), body);
  const canReplay = notes.canRepeat && notes.leavesOnly(result.storage.buffer);
  return { result, captured: canReplay ? new Captured(notes, result) : undefined };
}
