/**
 * The WebGPU executor: runs WGSL programs on `navigator.gpu` in a browser or, in Node, on the optional package `webgpu`
 * (Dawn).
 *
 * Commands are recorded on the host and sent when something is read or many have come together; their pipelines compile
 * in the background meanwhile (`webgpu-batch.ts`). The queue runs in order, so freed storage is reused at once.
 * Pipelines, layouts, bind groups and buffers are made once: small models on WebGPU are bound by the host's work per
 * dispatch (24–71 µs in arXiv 2604.02344), not by arithmetic. `WORLDGRAD_DEBUG=1` prints times and hit rates
 * (`debug.ts`).
 *
 * Errors of a GPU arrive late. The first one is kept, with the op it belongs to, and every later call rejects or throws
 * it; nothing is silently zero and nothing hangs. This executor knows no op and no shape, and cannot read
 * synchronously.
 */
import type {
  AdapterProfile,
  AttentionSchedule,
  MatmulRung,
  Program,
  Schedules,
  WgslKernel,
} from "../../kernels/kernel.ts";
import type { Generators } from "../../kernels/program.ts";
import { generatorsFor } from "../../kernels/wgsl/generators.ts";
import { check, DeviceLostError, fail, KernelFailure, type WorldgradError } from "../errors.ts";
import type { BackendOf, BackendStats, Buffer, TypedArray } from "./backend.ts";
import {
  adapterName,
  type AdapterOptions,
  type GpuBuffer,
  type GpuDevice,
  type GpuHandle,
  driverName,
  isSoftware,
  MAP_READ,
  requestAdapter,
  USAGE,
} from "./webgpu-api.ts";
import { debugging, hitRate, type KernelLog, kernelLog } from "../debug.ts";
import { Batch } from "./webgpu-batch.ts";
import { type CompiledKernel, KernelCache } from "./webgpu-kernels.ts";
import { BufferPool, DeviceBuffer, sizeClass } from "./webgpu-pool.ts";

/** Options of the WebGPU executor. */
export interface WebgpuOptions extends AdapterOptions {
  /** The schedule, in place of the one chosen by the adapter's name. */
  readonly schedule?: AdapterProfile["schedule"];
  /** The matrix kernel of every product, for measurements: see `MatmulRung`. */
  readonly matmul?: MatmulRung;
  /** The schedule of every attention, for measurements: see `AttentionSchedule`. */
  readonly attention?: AttentionSchedule;
  /** Schedules that were measured before, as `Device.schedules` gives them. */
  readonly schedules?: Schedules;
}

export interface WebgpuStats extends BackendStats {
  readonly dispatches: number;
  readonly submits: number;
  /** Allocations served from the pool, and those for which a buffer was made. */
  readonly bufferHits: number;
  readonly bufferMisses: number;
  readonly bindGroups: number;
  readonly bindGroupHits: number;
}

/** A backend with further counts. */
export interface WebgpuBackend extends BackendOf<"webgpu"> {
  stats(): WebgpuStats;
}

/** WebGPU's default limits, which all kernels keep; requested because "compatibility" adapters default to less. */
const CORE_LIMITS = {
  maxStorageBuffersPerShaderStage: 8,
  maxComputeInvocationsPerWorkgroup: 256,
  maxComputeWorkgroupSizeX: 256,
  maxComputeWorkgroupSizeY: 256,
  maxComputeWorkgroupStorageSize: 16384,
};
/** Features that are requested where the adapter has them; only then kernels that use them are chosen. */
const SHADER_FEATURES: readonly string[] = ["subgroups", "shader-f16"];
/** The bytes of kept read-back buffers: those of one step. Buffers beyond, for many reads at once, are freed. */
const READBACK_BYTES = 64 * 2 ** 20;
/** The largest number of workgroups along one axis: WebGPU's default limit. */
const MAX_GROUPS = 65535;

/**
 * Opens a device, with the adapter's largest buffers and no optional feature.
 *
 * @throws naming the package to install or the missing driver if there is no adapter
 * @example
 * const backend = await createWebgpuBackend();
 * backend.description; // "webgpu: nvidia ampere …, gpu schedule"
 */
export async function createWebgpuBackend(options: WebgpuOptions = {}): Promise<WebgpuBackend> {
  // Browsers and Dawn round times to 0.1 ms unless told not to; most kernels take less.
  const exactTimes = debugging() ? ["disable-dawn-features=timestamp_quantization"] : [];
  const adapter = options.adapter ?? (await requestAdapter(options, [...(options.dawnFlags ?? []), ...exactTimes]));
  const { maxStorageBufferBindingSize, maxBufferSize } = adapter.limits;
  const has = (feature: string): boolean => adapter.features?.has(feature) ?? false;
  const features = SHADER_FEATURES.filter(has);
  const canTime = debugging() && has("timestamp-query");
  const device = await adapter.requestDevice({
    requiredLimits: { ...CORE_LIMITS, maxStorageBufferBindingSize, maxBufferSize },
    requiredFeatures: canTime ? [...features, "timestamp-query"] : features,
    label: "worldgrad",
  });
  const schedule = options.schedule ?? (isSoftware(adapter) ? "software" : "gpu");
  const profile: AdapterProfile = {
    schedule,
    adapter: driverName(adapter),
    features,
    ...(options.matmul === undefined ? {} : { matmul: options.matmul }),
    ...(options.attention === undefined ? {} : { attention: options.attention }),
    ...(options.schedules === undefined ? {} : { schedules: options.schedules }),
  };
  return new Webgpu(device, `webgpu: ${adapterName(adapter)}, ${schedule} schedule`, profile, canTime);
}

class Webgpu {
  readonly kind = "webgpu";
  readonly generators: Generators<WgslKernel>;
  readonly description: string;
  readonly profile: AdapterProfile;
  readonly #device: GpuDevice;
  readonly #pool: BufferPool;
  readonly #kernels: KernelCache;

  readonly #batch: Batch;
  readonly #log: KernelLog | undefined;
  #lastLabel: () => string = () => "none";
  #dispatches = 0;

  /** Buffers for reading back, by size class: at most `READBACK_BYTES`. */
  readonly #staging = new Map<number, GpuBuffer[]>();
  /** Resolves when the errors of everything so far are known. */
  #checks: Promise<void> = Promise.resolve();
  #failure: WorldgradError | undefined;
  readonly #lost: Promise<void>;
  #disposed = false;

  constructor(device: GpuDevice, description: string, profile: AdapterProfile, canTime: boolean) {
    this.#device = device;
    this.description = description;
    this.profile = profile;
    this.generators = generatorsFor(profile);
    this.#log = kernelLog(description, () => this.#cacheReport(canTime));
    this.#batch = new Batch(device, canTime ? this.#log : undefined);
    this.#kernels = new KernelCache(device, this.#batch.uniformBuffer, (message) => this.#watch(message));
    this.#pool = new BufferPool(device, (message) => this.#watch(message));
    device.addEventListener("uncapturederror", ({ error }) =>
      this.#fail(`webgpu: ${error.message} (after ${this.#lastLabel()})`),
    );
    this.#lost = device.lost.then(({ reason, message }) => {
      const cause = message === "" ? reason : `${reason}: ${message}`;
      const where = `last op: ${this.#lastLabel()}; rebuild from the last checkpoint`;
      this.#fail(`webgpu device was lost: ${cause}; ${where}`, DeviceLostError);
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
    if (!this.#disposed) this.#pool.free(checkedBuffer(buffer, () => "free"));
  }

  write(buffer: Buffer, data: TypedArray): void {
    this.#assertUsable();
    const target = checkedBuffer(buffer, () => "write");
    check(!(data instanceof Float64Array), () => "webgpu: write: storage is 32-bit, got a Float64Array");
    check(
      data.byteLength <= target.bytes,
      () => `webgpu: write: ${data.byteLength} bytes do not fit a buffer of ${target.bytes}`,
    );
    // A write goes to the queue now, recorded commands go later: if they use the buffer, the write joins them.
    if (target.batch === this.#batch.number) {
      const bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
      if (this.#batch.upload(target.gpu, target.offset, bytes)) return;
      this.#flush();
    }
    this.#device.queue.writeBuffer(target.gpu, target.offset, data);
  }

  part(whole: Buffer, offset: number, bytes: number): Buffer {
    this.#assertUsable();
    const buffer = checkedBuffer(whole, () => "part");
    check(
      offset % PART_ALIGNMENT === 0 && offset + bytes <= buffer.bytes,
      () =>
        `webgpu: part: ${bytes} bytes at ${offset} of ${buffer.bytes}; parts begin at multiples of ${PART_ALIGNMENT}`,
    );
    return this.#pool.part(buffer, offset, bytes);
  }

  run(program: Program<WgslKernel>, buffers: readonly Buffer[], label: () => string): void {
    this.#assertUsable();
    this.#lastLabel = label;
    const all = buffers.map((buffer) => checkedBuffer(buffer, label));
    const operands = all.length;
    try {
      for (const bytes of program.temps) all.push(checkedBuffer(this.alloc(bytes), label));
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
    const source = checkedBuffer(buffer, () => "read");
    check(bytes <= source.bytes, () => `webgpu: read: ${bytes} bytes asked of a buffer of ${source.bytes}`);
    const size = Math.ceil(bytes / 4) * 4;
    const capacity = sizeClass(size);
    const usage = USAGE.mapRead | USAGE.copyDst;
    const staging =
      this.#staging.get(capacity)?.pop() ?? this.#device.createBuffer({ size: capacity, usage, label: "readback" });
    this.#batch.copy(source.gpu, source.offset, staging, 0, size);
    source.batch = this.#batch.number;
    await this.#send();
    let mapError: unknown;
    await staging.mapAsync(MAP_READ, 0, size).catch((error: unknown) => (mapError = error));
    await this.#settled(mapError);
    const result = staging.getMappedRange(0, size).slice(0, bytes);
    staging.unmap();
    this.#keep(staging, capacity);
    return result;
  }

  /** Keeps a buffer for the next read, or frees it if too many are kept. */
  #keep(staging: GpuBuffer, capacity: number): void {
    const kept = [...this.#staging].reduce((bytes, [size, { length }]) => bytes + size * length, 0);
    if (kept + capacity > READBACK_BYTES) staging.destroy();
    else this.#staging.set(capacity, [...(this.#staging.get(capacity) ?? []), staging]);
  }

  async synchronize(): Promise<void> {
    this.#assertUsable();
    await this.#send();
    await Promise.race([this.#device.queue.onSubmittedWorkDone().catch(() => undefined), this.#lost]);
    await this.#settled(undefined);
  }

  stats(): WebgpuStats {
    const { liveBytes, liveBuffers, peakBytes, reservedBytes, hits, misses } = this.#pool;
    return {
      liveBytes,
      liveBuffers,
      peakBytes,
      reservedBytes,
      compiledKernels: this.#kernels.kernels,
      dispatches: this.#dispatches,
      submits: this.#batch.number,
      bufferHits: hits,
      bufferMisses: misses,
      bindGroups: this.#kernels.groups,
      bindGroupHits: this.#kernels.groupHits,
    };
  }

  dispose(): void {
    if (this.#disposed) return;
    this.#disposed = true;
    this.#log?.print();
    this.#kernels.dropGroups();
    this.#pool.dispose();
    for (const staging of [...this.#staging.values()].flat()) staging.destroy();
    this.#batch.destroy();
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
    if (!this.#batch.hasRoom(compiled.uniformSlot)) this.#flush();
    this.#batch.dispatch(kernel, compiled, group, label);
    for (const buffer of buffers) buffer.batch = this.#batch.number;
    this.#dispatches++;
    if (this.#batch.isWorthSending()) this.#flush();
  }

  /** Sends the recorded commands as soon as their pipelines are compiled. */
  async #send(): Promise<void> {
    for (let pending = this.#batch.pending; pending !== undefined; pending = this.#batch.pending) {
      await Promise.race([pending, this.#lost]);
      if (this.#failure !== undefined || this.#disposed) return;
    }
    this.#flush();
  }

  /** Sends the recorded commands now. */
  #flush(): void {
    if (!this.#batch.isEmpty) this.#watch(this.#batch.send((compiled) => this.#finish(compiled)));
  }

  /** The pipeline; made at once if the background has not compiled it yet. */
  #finish(compiled: CompiledKernel): GpuHandle | undefined {
    if (compiled.pending !== undefined) compiled.pipeline ??= compiled.now();
    return compiled.pipeline;
  }

  #cacheReport(timed: boolean): string[] {
    const { kernels, kernelHits, groupHits, groupMisses } = this.#kernels;
    return [
      ...(timed ? [] : ["no times: the adapter has no timestamp-query"]),
      `${this.#dispatches} dispatches in ${this.#batch.number} command buffers`,
      hitRate("pipelines", kernelHits, kernels),
      hitRate("bind groups", groupHits, groupMisses),
      hitRate("buffers", this.#pool.hits, this.#pool.misses),
    ];
  }

  /** Collects errors in the order in which their causes were enqueued, not in that of their arrival. */
  #watch(message: Promise<string | null | undefined>): void {
    this.#checks = this.#checks.then(async () => {
      const text = await message.catch(() => undefined); // rejected scopes: the device is lost, which is reported
      if (text) this.#fail(text);
    });
  }

  #fail(message: string, Kind: typeof KernelFailure | typeof DeviceLostError = KernelFailure): void {
    if (!this.#disposed) this.#failure ??= new Kind(message);
  }

  /** Waits until the errors of everything so far are known, and throws the first. */
  async #settled(mapError: unknown): Promise<void> {
    check(!this.#disposed, () => DISPOSED);
    await this.#checks;
    // The failure of a map because the device is lost can arrive before the loss itself.
    if (mapError !== undefined && this.#failure === undefined) await Promise.race([this.#lost, turn()]);
    check(!this.#disposed, () => DISPOSED);
    if (mapError !== undefined) {
      const cause = mapError instanceof Error ? mapError.message : "unknown error";
      this.#fail(`webgpu: read failed after ${this.#lastLabel()}: ${cause}`);
    }
    if (this.#failure !== undefined) throw this.#failure;
  }

  #assertUsable(): void {
    check(!this.#disposed, () => DISPOSED);
    if (this.#failure !== undefined) throw this.#failure;
  }
}

/** Offsets of storage bindings are multiples of this: WebGPU's default limit. */
const PART_ALIGNMENT = 256;
const DISPOSED = "webgpu: this backend was disposed";

/** Waits a tenth of a second: longer than the event loop takes to report a lost device. */
const turn = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 100));

function checkedBuffer(buffer: Buffer, label: () => string): DeviceBuffer {
  check(buffer instanceof DeviceBuffer, () => `${label()}: the buffer was not made by the webgpu backend`);
  check(!buffer.free, () => `${label()}: buffer ${buffer.number} was freed`);
  return buffer;
}
