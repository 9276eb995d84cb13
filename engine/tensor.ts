/**
 * A tensor: a shape, an element type and a piece of a device's memory, contiguous and row-major; no strides, no views
 * but `reshape`. Values are never changed except through `assign`, `writeRows` and the optimisers, which count a
 * version so that a backward pass that would need an overwritten value is an error and not a wrong number.
 */
/// <reference lib="esnext.disposable" preserve="true" />
import type { Device } from "./device.ts";
import type { Buffer, TypedArray } from "./backends/backend.ts";
import { check, fail, OutOfMemoryError } from "./errors.ts";
import { bytesPerElement, showType, sizeOf, type DType, type Shape } from "./types.ts";
import { openScopes, register } from "./scope.ts";
import { showElements } from "./showElements.ts";

/** The origin of a tensor, while a gradient is being recorded (tape.ts). */
export interface GraphNode {
  readonly name: string;
  readonly params: unknown;
  readonly inputs: readonly Tensor[];
  readonly outputs: readonly Tensor[];
  /** The inputs' storage versions when the op ran. */
  readonly versions: readonly number[];
  /** One entry per input; see `OpDef.vjp`. */
  vjp(g: readonly (Tensor | null)[], needs: readonly boolean[]): readonly (Tensor | null)[];
}

/** Device memory shared by a tensor and its reshapes. */
export class Storage {
  readonly device: Device;
  /** The memory; only `moveTo` changes it. */
  buffer: Buffer;
  /** The number of handles on this memory; it is freed with the last one. */
  handles = 0;
  /** The number of times that it was written in place. */
  version = 0;
  /** The elements as they came from the host, where they are i32: index ops check their range without a read-back. */
  hostInts: Int32Array | undefined;

  /** @param memory the number of bytes to take, or memory that is to be freed with this */
  constructor(device: Device, memory: number | Buffer) {
    this.device = device;
    try {
      this.buffer = typeof memory === "number" ? device.backend.alloc(memory) : memory;
    } catch (error) {
      throw namingScopes(error);
    }
  }

  /**
   * Declares it read-only, so that the executor may move it out of a memory that is too small (backends/heap.ts). An op
   * that overwrites it nevertheless undoes this first (`thaw`).
   */
  freeze(): void {
    this.device.backend.readOnly?.(this.buffer, true);
  }

  /** Undoes `freeze`. */
  thaw(): void {
    this.device.backend.readOnly?.(this.buffer, false);
  }

  /** Replaces the memory by `buffer`, which holds the same values. */
  moveTo(buffer: Buffer): void {
    this.device.backend.free(this.buffer);
    this.buffer = buffer;
  }

  release(): void {
    if (--this.handles === 0) this.device.backend.free(this.buffer);
  }
}

/**
 * The error, with the bytes that each open scope holds: memory usually runs out because a scope holds too much, or
 * because there is none.
 */
export function namingScopes(error: unknown): unknown {
  if (!(error instanceof OutOfMemoryError)) return error;
  const scopes = openScopes().map(({ label, tensors }) => {
    const alive = [...tensors].filter((x): x is Tensor => x instanceof Tensor && !x.disposed);
    const storages = new Set(alive.map((x) => x.storage));
    const bytes = [...storages].reduce((sum, { buffer }) => sum + buffer.bytes, 0);
    return `${label} holds ${bytes} bytes in ${storages.size} tensors`;
  });
  return new OutOfMemoryError(`${error.message} (open scopes: ${scopes.join(" > ") || "none"})`, { cause: error });
}

/** The methods that typed arrays of all kinds have in common, which TypeScript does not see in a union of them. */
export interface Reducible {
  reduce(step: (total: number, value: number, index: number) => number, initial?: number): number;
  reduce<T>(step: (total: T, value: number, index: number) => T, initial: T): T;
}
/** The typed array that `read` gives for an element type; one of three where the type is not known. */
export type ElementsOf<D extends DType> = { f32: Float32Array; f64: Float64Array; i32: Int32Array }[D] & Reducible;

/**
 * A tensor: shape, element type, and memory on a device. Made by `tensor`, `zeros`, … and by every op; freed by the
 * scope that it was made in, by `dispose`, or at the end of the block of `using x = …`.
 */
export class Tensor<D extends DType = DType> {
  readonly shape: Shape;
  readonly dtype: D;
  /** The op that made this tensor, while a gradient is being recorded. */
  node: GraphNode | undefined;
  readonly #storage: Storage;
  #disposed = false;

  /** Not for users: see `tensor`, `zeros`, …. */
  constructor(storage: Storage, shape: Shape, dtype: D) {
    this.#storage = storage;
    this.shape = shape;
    this.dtype = dtype;
    storage.handles++;
    register(this);
  }

  get device(): Device {
    return this.#storage.device;
  }
  /** Number of elements. */
  get size(): number {
    return sizeOf(this.shape);
  }
  get rank(): number {
    return this.shape.length;
  }
  get disposed(): boolean {
    return this.#disposed;
  }
  /** The memory, or an error if it is gone. */
  get storage(): Storage {
    check(!this.#disposed, () => `${showType(this)} was used after its scope ended or it was disposed`);
    return this.#storage;
  }

  /** Frees the memory, unless a tensor that shares it lives on. Needed only for tensors made outside every `scope`. */
  dispose(): void {
    if (this.#disposed) return;
    // The node stays: a sweep that still needs this tensor must notice, and not take it for a constant.
    this.#disposed = true;
    this.#storage.release();
  }

  /** The elements, row-major. The copy is taken now: the tensor may be freed or overwritten right after the call. */
  async read(): Promise<ElementsOf<D>> {
    const bytes = this.size * bytesPerElement(this.dtype);
    return elements(this.dtype, await this.device.backend.read(this.storage.buffer, bytes));
  }

  /** As `read`, at once. WebGPU cannot wait for its queue: there this is an error. */
  readSync(): ElementsOf<D> {
    const { backend } = this.device;
    if (backend.readSync === undefined)
      fail(`readSync: the ${backend.kind} executor can only be read with \`await tensor.read()\``);
    return elements(this.dtype, backend.readSync(this.storage.buffer, this.size * bytesPerElement(this.dtype)));
  }

  /** The value of a tensor with one element. */
  async item(): Promise<number> {
    check(this.size === 1, () => `item: expected one element, got ${showType(this)}`);
    return (await this.read())[0]!;
  }

  /** @throws always: `JSON.stringify` would write a tensor without its values */
  toJSON(): never {
    fail(`${String(this)} has its values on a device: write what await x.read() gives`);
  }

  toString(): string {
    return `Tensor(${showType(this)} on ${this.device.backend.kind})`;
  }

  /** @throws always: `x + y` and `x > y` would be a text and a comparison of texts */
  valueOf(): never {
    fail(`${String(this)} is no number: write add(x, y) for x + y, gt(x, y) for x > y`);
  }

  /** The call at the end of the block of `using x = …`. */
  [Symbol.dispose](): void {
    this.dispose();
  }

  static {
    // The method that Node's `console.log` calls; defined by its key, so that no type of Node's is needed.
    Object.defineProperty(this.prototype, Symbol.for("nodejs.util.inspect.custom"), { value: inspected });
  }
}

/** The type, and the values if they can be read without waiting. */
function inspected(this: Tensor): string {
  const canRead = this.device.backend.readSync !== undefined;
  const rest = this.disposed
    ? "disposed"
    : canRead
      ? showElements(this.shape, this.readSync())
      : "(await x.read() has the values)";
  return `${String(this)} ${rest}`;
}

function elements<D extends DType>(dtype: D, bytes: ArrayBuffer): ElementsOf<D>;
function elements(dtype: DType, bytes: ArrayBuffer): ElementsOf<DType> {
  return dtype === "f32" ? new Float32Array(bytes) : dtype === "f64" ? new Float64Array(bytes) : new Int32Array(bytes);
}

/** Host values as the array that the device stores. */
export function toTypedArray(dtype: DType, values: ArrayLike<number>): TypedArray & { readonly length: number } {
  if (dtype === "f32") return values instanceof Float32Array ? values : Float32Array.from(values);
  if (dtype === "f64") return values instanceof Float64Array ? values : Float64Array.from(values);
  return values instanceof Int32Array ? values : Int32Array.from(values);
}
