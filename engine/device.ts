/**
 * A device is an executor with its memory. `await device("auto")` picks one; the first device made becomes the default
 * for `tensor`, `zeros`, …, and `setDevice` changes that.
 *
 * Executors with kernels are imported when they are asked for, and with them their generators: a page that a bundler
 * split into chunks loads the one that it uses.
 */
import type { Backend, BackendKind, Buffer } from "./backends/backend.ts";
import type { Schedules } from "../kernels/kernel.ts";
import { programOf } from "../kernels/program.ts";
import { createReferenceBackend } from "./backends/reference.ts";
import type { WebgpuOptions } from "./backends/webgpu.ts";
import { probeWebgpu } from "./backends/webgpu-api.ts";
import { check, fail } from "./errors.ts";
import type { Elements, Executable } from "./executable.ts";
import { checkKeys, showValue } from "./options.ts";
import { type DType, type FloatType, showType, type TensorType } from "./types.ts";

interface Operand extends TensorType {
  readonly storage: { readonly buffer: Buffer };
}

/** An executor with its memory, made by `device(…)`. Tensors of one device cannot meet those of another. */
export class Device {
  #backend: Backend;
  /** The default element type of float tensors. */
  readonly float: FloatType;

  constructor(backend: Backend, float: FloatType = "f32") {
    this.#backend = backend;
    this.float = float;
  }

  get backend(): Backend {
    return this.#backend;
  }

  get kind(): BackendKind {
    return this.backend.kind;
  }
  get description(): string {
    return this.backend.description;
  }
  /** The schedules that were measured for this device (`worldgrad/tune`); undefined if it has those of the tables. */
  get schedules(): Schedules | undefined {
    return this.backend.kind === "webgpu" ? this.backend.profile.schedules : undefined;
  }

  /** @throws if `dtype` is no element type, or none of this executor's */
  checkDtype(where: string, dtype: DType): void {
    if (dtype === "f32" || dtype === "i32") return;
    check(dtype === "f64", () => `${where}: expected the dtype "f32", "i32" or "f64", got ${showValue(dtype)}`);
    check(
      this.kind === "reference",
      () => `${where}: f64 exists on the reference executor only, this is ${this.description}`,
    );
  }

  /** Runs `op` from the inputs' memory into the outputs'. Enqueued, not awaited, where the executor is asynchronous. */
  execute<P>(op: Executable<P>, inputs: readonly Operand[], outputs: readonly Operand[], params: P): void {
    const { backend } = this;
    const operands = [...inputs, ...outputs];
    const buffers = operands.map((x) => x.storage.buffer);
    const call = { inputs, outputs, params };
    const label = (): string => `${op.name}(${inputs.map(showType).join(", ")})`;
    if (backend.kind === "wasm") {
      backend.run(programOf(op.kernel(call), buffers.length, backend.generators), buffers, label);
    } else if (backend.kind === "webgpu") {
      backend.run(programOf(op.kernel(call), buffers.length, backend.generators), buffers, label);
    } else {
      const program = (storage: readonly Uint8Array<ArrayBuffer>[]): void => {
        const views = storage.map((bytes, i) => viewOf(operands[i]!.dtype, bytes));
        op.reference(views.slice(0, inputs.length), views.slice(inputs.length), call);
      };
      backend.run(program, buffers, label);
    }
  }

  /** Runs `body`, which is synchronous, with `backend` in the place of the executor (capture.ts). */
  withBackend<R>(backend: Backend, body: () => R): R {
    const before = this.#backend;
    this.#backend = backend;
    try {
      return body();
    } finally {
      this.#backend = before;
    }
  }

  /** Waits until everything enqueued has been done; rejects with the first error. */
  synchronize(): Promise<void> {
    return this.backend.synchronize();
  }

  dispose(): void {
    this.backend.dispose();
    if (opened.delete(this)) open--;
    if (defaultDevice === this) defaultDevice = undefined;
  }
}

function viewOf(dtype: DType, { buffer, byteOffset, byteLength }: Uint8Array<ArrayBuffer>): Elements {
  if (dtype === "f64") return new Float64Array(buffer, byteOffset, byteLength / 8);
  return new (dtype === "f32" ? Float32Array : Int32Array)(buffer, byteOffset, byteLength / 4);
}

let defaultDevice: Device | undefined;
/** Devices that `device` has opened and nobody has disposed of: how many, and which. */
let open = 0;
let isTold = false;
const opened = new WeakSet<Device>();
const MANY = 16;

/** Makes `device` the default for tensors that are made without one. */
export function setDevice(device: Device): void {
  defaultDevice = device;
}

/** @throws if this is no device, such as the promise that `device` returns */
export function checkDevice(where: string, device: Device): void {
  const isPromise = (device as unknown) instanceof Promise;
  check(
    device instanceof Device,
    () => `${where}: expected a device, got ${isPromise ? "a promise; await device(…)" : showValue(device)}`,
  );
}

/** The default device, or an error that says how to get one. */
export function currentDevice(): Device {
  return defaultDevice ?? fail('no device: call `await device("auto")` first, or pass { device }');
}

/** Options of `device`. */
export interface DeviceOptions {
  /** Element type of the reference executor: f64 (default, the oracle) or f32. The others are f32. */
  readonly precision?: FloatType;
  /** Threads of the WebAssembly executor: see `WasmOptions`. */
  readonly threads?: number;
  /** Fused multiply-adds of the WebAssembly executor: see `WasmOptions`. */
  readonly fused?: boolean;
  /** Largest memory of the WebAssembly executor, in bytes: see `WasmOptions`. */
  readonly maxBytes?: number;
  /** Options of the WebGPU executor. */
  readonly webgpu?: WebgpuOptions;
  /** The receiver of the line in which `auto` names its executor and the reason; `console.info` unless given. */
  readonly log?: (line: string) => void;
}

/**
 * Makes a device, with threads and memory of its own until `dispose`: a program needs one. `auto`: WebGPU on a hardware
 * adapter that opens, else WebAssembly SIMD, else the reference; software adapters are taken only by name, because
 * WebAssembly is faster than they are.
 * @throws if the named executor does not exist here, with the reason
 */
export async function device(kind: "auto" | BackendKind = "auto", options: DeviceOptions = {}): Promise<Device> {
  const made = await create(kind, options);
  defaultDevice ??= made;
  opened.add(made);
  open++;
  if (open >= MANY && !isTold) {
    isTold = true;
    console.warn(
      `worldgrad: ${open} devices are open, each with threads and memory of its own. A program needs one: keep what ` +
        "`device` resolves to, and dispose() of those that are not needed any more",
    );
  }
  return made;
}

async function create(kind: "auto" | BackendKind, options: DeviceOptions): Promise<Device> {
  checkKeys("device", options, ["precision", "threads", "fused", "maxBytes", "webgpu", "log"]);
  const { precision = "f64", log = (line: string): void => console.info(line) } = options;
  check(
    precision === "f32" || precision === "f64",
    () => `device: precision must be "f32" or "f64", got "${String(precision)}"`,
  );
  switch (kind) {
    case "reference":
      return new Device(createReferenceBackend(precision), precision);
    case "wasm":
      return new Device(await (await import("./backends/wasm.ts")).createWasmBackend(options));
    case "webgpu":
      return new Device(await (await import("./backends/webgpu.ts")).createWebgpuBackend(options.webgpu));
    case "auto": {
      const gpu = await probeWebgpu();
      let reason = gpu.description;
      if (gpu.hardware) {
        const made = await attempt("webgpu", options);
        if (made instanceof Device) {
          log(`worldgrad: using webgpu, because there is a hardware adapter: ${gpu.description}`);
          return made;
        }
        // Drivers exist that list an adapter and then refuse to open it.
        reason = `the adapter ${gpu.description} gives no device: ${made.message}`;
      }
      const made = await attempt("wasm", options);
      if (made instanceof Device) {
        log(`worldgrad: using ${made.description}, because ${reason}`);
        return made;
      }
      log(`worldgrad: using the reference executor in f32 (slow), because ${made.message} and ${reason}`);
      return create("reference", { ...options, precision: "f32" });
    }
    default:
      return fail(`device: expected "auto", "wasm", "webgpu" or "reference", got "${String(kind)}"`);
  }
}

/** A device, or the error that gives the reason why there is none. */
function attempt(kind: BackendKind, options: DeviceOptions): Promise<Device | Error> {
  return create(kind, options).catch((error: unknown) => (error instanceof Error ? error : new Error(String(error))));
}
