/**
 * A pool of device buffers in size classes. A freed buffer may be handed out again at once, even while enqueued
 * commands still use it: a queue runs in order, so the next owner's commands come after. Only `destroy` has to wait for
 * a submit.
 *
 * The order is deterministic: a class hands out its free buffer with the lowest number. A loop that allocates and frees
 * in the same order every time therefore gets the same buffers every time, and bind groups made for them are found
 * again.
 */
import { check } from "../errors.ts";
import type { Buffer } from "./backend.ts";
import { type GpuBuffer, type GpuDevice, USAGE } from "./webgpu-api.ts";

/** Storage of one tensor on the device: a buffer, or a part of one (`BufferPool.part`). */
export class DeviceBuffer implements Buffer {
  readonly gpu: GpuBuffer;
  readonly number: number;
  /** The offset of the storage in `gpu`, and the number of bytes that are bound: the size of the class. */
  readonly offset: number;
  readonly capacity: number;
  readonly whole: DeviceBuffer | undefined;
  bytes = 0;
  free = false;
  /** The number of live parts; the storage goes back to the pool when it and they are free. */
  parts = 0;
  readonly partNumbers: Map<string, number> = new Map();
  #batch = -1;

  constructor(gpu: GpuBuffer, number: number, capacity: number, offset = 0, whole?: DeviceBuffer) {
    this.gpu = gpu;
    this.number = number;
    this.capacity = capacity;
    this.offset = offset;
    this.whole = whole;
  }

  /** The last batch of commands that used the buffer, or any part of the same. */
  get batch(): number {
    return this.whole?.batch ?? this.#batch;
  }
  set batch(number: number) {
    if (this.whole === undefined) this.#batch = number;
    else this.whole.batch = number;
  }
}

/** The smallest of 256·2ⁿ·{1, 1¼, 1½, 1¾} that is a multiple of 256 and holds `bytes`: at most a quarter is wasted. */
export function sizeClass(bytes: number): number {
  const units = Math.max(1, Math.ceil(bytes / 256));
  if (units <= 4) return units * 256;
  const step = 2 ** (Math.floor(Math.log2(units - 1)) - 2);
  return Math.ceil(units / step) * step * 256;
}

/** The limit, in bytes, of free storage; more than this, and more than is in use, is given back to the system. */
const IDLE_BYTES = 256 * 2 ** 20;

export class BufferPool {
  readonly #device: GpuDevice;
  readonly #watch: (check: Promise<string | undefined>) => void;
  /** Free buffers by class, in descending order of number. */
  readonly #free = new Map<number, DeviceBuffer[]>();
  readonly #all = new Set<DeviceBuffer>();
  #made = 0;
  liveBytes = 0;
  liveBuffers = 0;
  peakBytes = 0;
  reservedBytes = 0;
  hits = 0;
  /** The number of buffers made because no free one fitted. */
  misses = 0;

  /** @param watch takes a promise of the message of an error, if there is one */
  constructor(device: GpuDevice, watch: (check: Promise<string | undefined>) => void) {
    this.#device = device;
    this.#watch = watch;
  }

  /** Whether a new buffer for `bytes` should be preceded by `trim`. */
  shouldTrim(bytes: number): boolean {
    if ((this.#free.get(this.#classOf(bytes))?.length ?? 0) > 0) return false;
    const idle = this.#idleBytes();
    return idle > IDLE_BYTES && idle > this.liveBytes;
  }

  alloc(bytes: number): DeviceBuffer {
    const { maxStorageBufferBindingSize, maxBufferSize } = this.#device.limits;
    const most = Math.min(maxStorageBufferBindingSize, maxBufferSize);
    check(
      Number.isInteger(bytes) && bytes > 0 && bytes % 4 === 0,
      () => `webgpu: a buffer's size must be a positive multiple of 4 bytes, got ${bytes}`,
    );
    check(
      bytes <= most,
      () => `webgpu: a tensor of ${bytes} bytes exceeds this adapter's largest storage binding, ${most} bytes`,
    );
    const capacity = this.#classOf(bytes);
    let buffer = this.#free.get(capacity)?.pop();
    if (buffer !== undefined) this.hits++;
    else buffer = this.#create(capacity);
    buffer.free = false;
    buffer.bytes = bytes;
    this.liveBytes += bytes;
    this.liveBuffers++;
    this.peakBytes = Math.max(this.peakBytes, this.liveBytes);
    return buffer;
  }

  /** See `BackendBase.part`. */
  part(whole: DeviceBuffer, offset: number, bytes: number): DeviceBuffer {
    const end = offset + Math.ceil(bytes / 16) * 16; // the bytes that kernels which read by `vec4f` may bind
    const capacity = Math.min(end, whole.capacity) - offset;
    const root = whole.whole ?? whole;
    const start = whole.offset + offset;
    // A part gets the same number whenever it is asked for, so that its bind groups are found.
    const id = `${start} ${capacity}`;
    let number = root.partNumbers.get(id);
    if (number === undefined) root.partNumbers.set(id, (number = this.#made++));
    const part = new DeviceBuffer(whole.gpu, number, capacity, start, root);
    part.bytes = bytes;
    root.parts++;
    return part;
  }

  free(buffer: DeviceBuffer): void {
    check(!buffer.free, () => `webgpu: buffer ${buffer.number} (${buffer.bytes} bytes) is freed twice`);
    buffer.free = true;
    if (buffer.whole !== undefined) {
      const { whole } = buffer;
      if (--whole.parts === 0 && whole.free) this.#shelve(whole);
    } else if (buffer.parts === 0) this.#shelve(buffer);
  }

  /** Puts a buffer on the free list. */
  #shelve(buffer: DeviceBuffer): void {
    this.liveBytes -= buffer.bytes;
    this.liveBuffers--;
    let list = this.#free.get(buffer.capacity);
    if (list === undefined) this.#free.set(buffer.capacity, (list = []));
    let at = list.length;
    while (at > 0 && list[at - 1]!.number < buffer.number) at--;
    list.splice(at, 0, buffer);
  }

  /** Destroys the free buffers. Nothing enqueued and not submitted may use them. */
  trim(): void {
    for (const buffer of [...this.#free.values()].flat()) this.#destroy(buffer);
    this.#free.clear();
  }

  /** Destroys all buffers. */
  dispose(): void {
    for (const buffer of this.#all) this.#destroy(buffer);
    this.#free.clear();
    this.liveBytes = this.liveBuffers = 0;
  }

  #create(capacity: number): DeviceBuffer {
    const device = this.#device;
    const usage = USAGE.storage | USAGE.copySrc | USAGE.copyDst;
    const number = this.#made++;
    const inUse = this.reservedBytes;
    device.pushErrorScope("out-of-memory");
    const gpu = device.createBuffer({ size: capacity, usage, label: `buffer ${number} (${capacity} bytes)` });
    const scope = device.popErrorScope();
    this.#watch(
      scope.then((error) =>
        error === null
          ? undefined
          : `webgpu: out of memory: ${capacity} more bytes do not fit beside the ${inUse} that are held: ` +
            error.message,
      ),
    );
    const buffer = new DeviceBuffer(gpu, number, capacity);
    this.#all.add(buffer);
    this.reservedBytes += capacity;
    this.misses++;
    return buffer;
  }

  #destroy(buffer: DeviceBuffer): void {
    buffer.gpu.destroy();
    this.#all.delete(buffer);
    this.reservedBytes -= buffer.capacity;
  }

  #classOf(bytes: number): number {
    return Math.min(sizeClass(bytes), Math.max(bytes, this.#device.limits.maxStorageBufferBindingSize));
  }

  #idleBytes(): number {
    let bytes = 0;
    for (const [capacity, list] of this.#free) bytes += capacity * list.length;
    return bytes;
  }
}
