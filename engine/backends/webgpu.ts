/**
 * The WebGPU executor: runs WGSL programs on `navigator.gpu` in a browser or, in Node, on the optional package `webgpu` (Dawn).
 *
 * Commands are recorded into one open compute pass and submitted in batches: when something is read, when a buffer in use is
 * overwritten from the host, or after 256 dispatches. The queue runs in order, so freed storage is reused at once. All
 * uniforms of a batch go up in one write, and pipelines, layouts and bind groups are made once: small models on WebGPU are
 * bound by the host's work per dispatch (24–71 µs in arXiv 2604.02344), not by arithmetic.
 *
 * Errors of a GPU arrive late. The first one is kept, with the op it belongs to, and every later call rejects or throws it;
 * nothing is silently zero and nothing hangs. What this is not: it knows no op and no shape, and it cannot read synchronously.
 */
import type { AdapterProfile, Program, WgslKernel } from "../../kernels/kernel.ts";
import { check, fail, WorldgradError } from "../errors.ts";
import type { BackendOf, BackendStats, Buffer, TypedArray } from "./backend.ts";
import {
  adapterName,
  type GpuAdapter,
  type GpuBuffer,
  type GpuCommandEncoder,
  type GpuComputePass,
  type GpuDevice,
  type GpuRequest,
  isSoftware,
  MAP_READ,
  requestAdapter,
  USAGE,
} from "./webgpu-api.ts";
import { KernelCache, UNIFORM_ALIGNMENT } from "./webgpu-kernels.ts";
import { BufferPool, DeviceBuffer, sizeClass } from "./webgpu-pool.ts";

export interface WebgpuOptions extends GpuRequest {
  /** An adapter of your own; default: the browser's or Dawn's. */
  readonly adapter?: GpuAdapter;
  /** Options of Dawn's `create` in Node, such as `"backend=opengl"`. */
  readonly dawnFlags?: readonly string[];
  /** Overrides the choice of schedule that is made from the adapter's name. */
  readonly schedule?: AdapterProfile["schedule"];
}

export interface WebgpuStats extends BackendStats {
  readonly dispatches: number;
  readonly submits: number;
  /** Allocations served from the pool. */
  readonly bufferHits: number;
  readonly bindGroups: number;
  readonly bindGroupHits: number;
}

/** The contract of a backend, with more to count. */
export interface WebgpuBackend extends BackendOf<"webgpu"> {
  stats(): WebgpuStats;
}

/** WebGPU's defaults, which all kernels stay within; asked for by name because "compatibility" adapters default to less. */
const CORE_LIMITS = {
  maxStorageBuffersPerShaderStage: 8,
  maxComputeInvocationsPerWorkgroup: 256,
  maxComputeWorkgroupSizeX: 256,
  maxComputeWorkgroupSizeY: 256,
  maxComputeWorkgroupStorageSize: 16384,
};
/** Most workgroups along one axis: WebGPU's default limit. */
const MAX_GROUPS = 65535;
/** Dispatches per batch: enough to make submits cheap, few enough that the device starts while the host still records. */
const BATCH_DISPATCHES = 256;
const UNIFORM_BYTES = 2 * BATCH_DISPATCHES * UNIFORM_ALIGNMENT;

/**
 * Opens a device, with the adapter's largest buffers and no optional feature.
 *
 * @throws naming what to install or what is missing when there is no adapter
 * @example
 * const backend = await createWebgpuBackend();
 * backend.description; // "webgpu: nvidia ampere …, gpu schedule"
 */
export async function createWebgpuBackend(options: WebgpuOptions = {}): Promise<WebgpuBackend> {
  const adapter = options.adapter ?? (await requestAdapter(options, options.dawnFlags));
  const { maxStorageBufferBindingSize, maxBufferSize } = adapter.limits;
  const device = await adapter.requestDevice({
    requiredLimits: { ...CORE_LIMITS, maxStorageBufferBindingSize, maxBufferSize },
    label: "worldgrad",
  });
  const schedule = options.schedule ?? (isSoftware(adapter) ? "software" : "gpu");
  return new Webgpu(device, `webgpu: ${adapterName(adapter)}, ${schedule} schedule`, { schedule });
}

/**
 * Says whether there is a hardware adapter, without opening a device. Never throws.
 * @returns the adapter's name, or in a clause why there is none to use ("there is only a software WebGPU adapter: …")
 */
export async function probeWebgpu(options: WebgpuOptions = {}): Promise<{ hardware: boolean; description: string }> {
  try {
    if (options.adapter === undefined && hasNoGpuDevice()) {
      return { hardware: false, description: "this machine has no GPU device" };
    }
    const adapter = options.adapter ?? (await requestAdapter(options, options.dawnFlags));
    const name = adapterName(adapter);
    if (!isSoftware(adapter)) return { hardware: true, description: name };
    return { hardware: false, description: `there is only a software WebGPU adapter: ${name}` };
  } catch (error) {
    return { hardware: false, description: error instanceof Error ? error.message : String(error) };
  }
}

/**
 * Linux shows every GPU that a driver serves as a device file. Without one Dawn need not be asked: it would print its driver
 * loader's warnings to the terminal before it says no.
 */
function hasNoGpuDevice(): boolean {
  const node = (globalThis as { process?: { platform: string; getBuiltinModule?: (name: string) => unknown } }).process;
  const fs = node?.getBuiltinModule?.("node:fs") as { existsSync(path: string): boolean } | undefined;
  const offered = (globalThis as { navigator?: { gpu?: unknown } }).navigator?.gpu;
  if (node?.platform !== "linux" || fs === undefined || offered !== undefined) return false;
  return !["/dev/dri", "/dev/nvidia0", "/dev/dxg", "/dev/kgsl-3d0", "/dev/mali0"].some((path) => fs.existsSync(path));
}

class Webgpu {
  readonly kind = "webgpu";
  readonly description: string;
  readonly profile: AdapterProfile;
  readonly #device: GpuDevice;
  readonly #pool: BufferPool;
  readonly #kernels: KernelCache;

  readonly #uniformBuffer: GpuBuffer;
  readonly #uniforms = new DataView(new ArrayBuffer(UNIFORM_BYTES));
  #uniformBytes = 0;

  #encoder: GpuCommandEncoder | undefined;
  #pass: GpuComputePass | undefined;
  /** Op and kernel of every dispatch in the open batch, for errors. */
  #recorded: { label: () => string; key: string }[] = [];
  #batch = 0;
  #lastLabel: () => string = () => "none";
  #dispatches = 0;
  #submits = 0;

  /** Buffers for reading back, by size class. */
  readonly #staging = new Map<number, GpuBuffer[]>();
  /** Resolves when the errors of everything so far are known. */
  #checks: Promise<void> = Promise.resolve();
  #failure: WorldgradError | undefined;
  readonly #lost: Promise<void>;
  #disposed = false;

  constructor(device: GpuDevice, description: string, profile: AdapterProfile) {
    this.#device = device;
    this.description = description;
    this.profile = profile;
    this.#uniformBuffer = device.createBuffer({
      size: UNIFORM_BYTES,
      usage: USAGE.uniform | USAGE.copyDst,
      label: "uniforms",
    });
    this.#kernels = new KernelCache(device, this.#uniformBuffer, (message) => this.#watch(message));
    this.#pool = new BufferPool(device, (message) => this.#watch(message));
    device.addEventListener("uncapturederror", ({ error }) =>
      this.#fail(`webgpu: ${error.message} (after ${this.#lastLabel()})`),
    );
    this.#lost = device.lost.then(({ reason, message }) => {
      const cause = message === "" ? reason : `${reason}: ${message}`;
      this.#fail(`webgpu device was lost: ${cause}; last op: ${this.#lastLabel()}; rebuild from the last checkpoint`);
    });
  }

  alloc(bytes: number): Buffer {
    this.#assertUsable();
    if (this.#pool.shouldTrim(bytes)) {
      this.#flush(); // a submit that mentions a destroyed buffer fails as a whole
      this.#pool.trim();
      this.#kernels.dropGroups();
    }
    return this.#pool.alloc(bytes);
  }

  free(buffer: Buffer): void {
    if (!this.#disposed) this.#pool.free(own(buffer, () => "free"));
  }

  write(buffer: Buffer, data: TypedArray): void {
    this.#assertUsable();
    const target = own(buffer, () => "write");
    check(!(data instanceof Float64Array), () => "webgpu: write: storage is 32-bit, got a Float64Array");
    check(
      data.byteLength <= target.bytes,
      () => `webgpu: write: ${data.byteLength} bytes do not fit a buffer of ${target.bytes}`,
    );
    // A write goes to the queue now, recorded commands go later: those that use the buffer must get ahead of it.
    if (target.batch === this.#batch) this.#flush();
    this.#device.queue.writeBuffer(target.gpu, 0, data);
  }

  run(program: Program<WgslKernel>, buffers: readonly Buffer[], label: () => string): void {
    this.#assertUsable();
    this.#lastLabel = label;
    const all = buffers.map((buffer) => own(buffer, label));
    const operands = all.length;
    try {
      for (const bytes of program.temps) all.push(own(this.alloc(bytes), label));
      for (const { kernel, buffers: indices } of program.steps) {
        const bound = indices.map(
          (i) => all[i] ?? fail(`${label()}: kernel ${kernel.key} uses buffer ${i}, the program has ${all.length}`),
        );
        this.#dispatch(kernel, bound, label);
      }
    } finally {
      for (const temp of all.slice(operands)) this.#pool.free(temp);
    }
  }

  async read(buffer: Buffer, bytes: number): Promise<ArrayBuffer> {
    this.#assertUsable();
    const source = own(buffer, () => "read");
    check(bytes <= source.bytes, () => `webgpu: read: ${bytes} bytes asked of a buffer of ${source.bytes}`);
    const size = Math.ceil(bytes / 4) * 4;
    const capacity = sizeClass(size);
    const usage = USAGE.mapRead | USAGE.copyDst;
    const staging =
      this.#staging.get(capacity)?.pop() ?? this.#device.createBuffer({ size: capacity, usage, label: "readback" });
    const encoder = this.#commands();
    this.#endPass();
    encoder.copyBufferToBuffer(source.gpu, 0, staging, 0, size);
    source.batch = this.#batch;
    this.#flush();
    let mapError: unknown;
    await staging.mapAsync(MAP_READ, 0, size).catch((error: unknown) => (mapError = error));
    await this.#settled(mapError);
    const result = staging.getMappedRange(0, size).slice(0, bytes);
    staging.unmap();
    const list = this.#staging.get(capacity);
    if (list === undefined) this.#staging.set(capacity, [staging]);
    else list.push(staging);
    return result;
  }

  async synchronize(): Promise<void> {
    this.#assertUsable();
    this.#flush();
    await Promise.race([this.#device.queue.onSubmittedWorkDone().catch(() => undefined), this.#lost]);
    await this.#settled(undefined);
  }

  stats(): WebgpuStats {
    const { liveBytes, liveBuffers, peakBytes, reservedBytes, hits } = this.#pool;
    return {
      liveBytes,
      liveBuffers,
      peakBytes,
      reservedBytes,
      compiledKernels: this.#kernels.kernels,
      dispatches: this.#dispatches,
      submits: this.#submits,
      bufferHits: hits,
      bindGroups: this.#kernels.groups,
      bindGroupHits: this.#kernels.groupHits,
    };
  }

  dispose(): void {
    if (this.#disposed) return;
    this.#disposed = true;
    this.#endPass();
    this.#encoder = undefined;
    this.#kernels.dropGroups();
    this.#pool.dispose();
    for (const staging of [...this.#staging.values()].flat()) staging.destroy();
    this.#uniformBuffer.destroy();
    this.#device.destroy();
  }

  #dispatch(kernel: WgslKernel, buffers: readonly DeviceBuffer[], label: () => string): void {
    const [x, y, z] = kernel.workgroups;
    check(
      Math.max(x, y, z) <= MAX_GROUPS,
      () => `${label()}: kernel ${kernel.key} asks for ${x}×${y}×${z} workgroups, the limit is ${MAX_GROUPS} per axis`,
    );
    const compiled = this.#kernels.compile(kernel, label);
    const group = this.#kernels.group(kernel, compiled, buffers, label);
    const full = this.#uniformBytes + compiled.uniformSlot > UNIFORM_BYTES;
    if (full || this.#recorded.length >= BATCH_DISPATCHES) this.#flush();
    const pass = (this.#pass ??= this.#commands().beginComputePass());
    pass.setPipeline(compiled.pipeline);
    pass.setBindGroup(0, group, compiled.uniformSlot > 0 ? [this.#storeUniforms(kernel, compiled.uniformSlot)] : []);
    pass.dispatchWorkgroups(x, y, z);
    for (const buffer of buffers) buffer.batch = this.#batch;
    this.#recorded.push({ label, key: kernel.key });
    this.#dispatches++;
  }

  /** Puts the values into the batch's uniforms and returns their offset. */
  #storeUniforms(kernel: WgslKernel, slot: number): number {
    const start = this.#uniformBytes;
    kernel.uniforms!.forEach(({ type, value }, i) => {
      const at = start + 4 * i;
      if (type === "f32") this.#uniforms.setFloat32(at, value, true);
      else this.#uniforms.setUint32(at, value, true);
    });
    this.#uniformBytes += slot;
    return start;
  }

  /** The open command encoder. It is opened together with an error scope that `#flush` closes. */
  #commands(): GpuCommandEncoder {
    if (this.#encoder === undefined) {
      this.#device.pushErrorScope("validation");
      this.#encoder = this.#device.createCommandEncoder();
    }
    return this.#encoder;
  }

  #endPass(): void {
    this.#pass?.end();
    this.#pass = undefined;
  }

  /** Submits what was recorded. */
  #flush(): void {
    if (this.#encoder === undefined) return;
    this.#endPass();
    if (this.#uniformBytes > 0) {
      this.#device.queue.writeBuffer(this.#uniformBuffer, 0, this.#uniforms.buffer, 0, this.#uniformBytes);
    }
    this.#device.queue.submit([this.#encoder.finish()]);
    const recorded = this.#recorded;
    this.#watch(this.#device.popErrorScope().then((error) => error && blame(error.message, recorded)));
    this.#encoder = undefined;
    this.#recorded = [];
    this.#uniformBytes = 0;
    this.#batch++;
    this.#submits++;
  }

  /** Errors count in the order in which their causes were enqueued, whichever is known first. */
  #watch(message: Promise<string | null | undefined>): void {
    this.#checks = this.#checks.then(async () => {
      const text = await message.catch(() => undefined); // rejected scopes: the device is lost, which says so itself
      if (text) this.#fail(text);
    });
  }

  #fail(message: string): void {
    if (!this.#disposed) this.#failure ??= new WorldgradError(message);
  }

  /** Waits until the errors of everything so far are known, and throws the first. */
  async #settled(mapError: unknown): Promise<void> {
    check(!this.#disposed, () => DISPOSED);
    await this.#checks;
    // A map that failed because the device is gone can be told before the loss itself is.
    if (mapError !== undefined && this.#failure === undefined) await Promise.race([this.#lost, turn()]);
    check(!this.#disposed, () => DISPOSED);
    if (mapError !== undefined) {
      this.#fail(
        `webgpu: read failed after ${this.#lastLabel()}: ${mapError instanceof Error ? mapError.message : "unknown error"}`,
      );
    }
    if (this.#failure !== undefined) throw this.#failure;
  }

  #assertUsable(): void {
    check(!this.#disposed, () => DISPOSED);
    if (this.#failure !== undefined) throw this.#failure;
  }
}

const DISPOSED = "webgpu: this backend was disposed";

/** A tenth of a second: longer than the event loop takes to tell of a lost device. */
const turn = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 100));

function own(buffer: Buffer, label: () => string): DeviceBuffer {
  check(buffer instanceof DeviceBuffer, () => `${label()}: the buffer was not made by the webgpu backend`);
  check(!buffer.free, () => `${label()}: buffer ${buffer.number} was freed`);
  return buffer;
}

/** The error of a batch, with the op whose kernel it mentions, or with all the batch's ops. */
function blame(message: string, recorded: readonly { label: () => string; key: string }[]): string {
  const culprit = recorded.find(({ key }) => message.includes(`"${key}"`));
  if (culprit !== undefined) return `${culprit.label()}: ${message}`;
  const labels = [...new Set(recorded.map(({ label }) => label()))];
  return `webgpu: in a batch of ${recorded.length} dispatches (${labels.join(", ")}): ${message}`;
}
