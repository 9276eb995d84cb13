/**
 * The commands of one submit, kept on the host until they are sent. Nothing is encoded while ops are recorded, so that
 * pipelines compile in the background meanwhile. They are sent when something is read, and before that in parts as soon
 * as their pipelines are compiled.
 *
 * All uniforms of a batch, and small host data for buffers that the batch itself uses, go up in one write at its start.
 */
import type { WgslKernel } from "../../kernels/kernel.ts";
import type { KernelLog } from "../debug.ts";
import {
  type GpuBuffer,
  type GpuCommandEncoder,
  type GpuComputePass,
  type GpuDevice,
  type GpuHandle,
  MAP_READ,
  USAGE,
} from "./webgpu-api.ts";
import { type CompiledKernel, UNIFORM_ALIGNMENT } from "./webgpu-kernels.ts";

/** The largest number of commands in a batch: enough for a training step of a dozen layers whose kernels compile. */
const MAX_COMMANDS = 2048;
/**
 * The commands that are worth a submit of their own if all their pipelines are compiled: the device works while the
 * host records on. H200, 2026-11-27: a training step of 11 million parameters, 400 dispatches, takes 28 ms if it waits
 * for a read, 18 in parts of 64 and 21 in parts of 256; with 0.4 million there is no difference.
 */
const WORTH_SENDING = 128;
const STAGING_BYTES = MAX_COMMANDS * UNIFORM_ALIGNMENT;
/** The largest host data, in bytes, that is copied into the batch: more is not worth a second copy. */
const MAX_UPLOAD = 65536;

interface Dispatch {
  readonly compiled: CompiledKernel;
  readonly group: GpuHandle;
  /** The offsets of its uniforms; empty if it has none. */
  readonly offsets: readonly number[];
  readonly workgroups: readonly [number, number, number];
  readonly key: string;
  readonly label: () => string;
}
interface Copy {
  readonly source: GpuBuffer;
  readonly at: number;
  readonly target: GpuBuffer;
  readonly targetAt: number;
  readonly bytes: number;
}
const NO_OFFSETS: readonly number[] = [];

export class Batch {
  readonly uniformBuffer: GpuBuffer;
  readonly #device: GpuDevice;
  readonly #timer: PassTimer | undefined;
  readonly #staging = new ArrayBuffer(STAGING_BYTES);
  readonly #view = new DataView(this.#staging);
  #used = 0;
  #commands: (Dispatch | Copy)[] = [];
  /** The number of commands at which `isWorthSending` looks at pipelines next. */
  #look = WORTH_SENDING;
  /** The number of batches that were sent before this one. */
  number = 0;

  /** @param log the log of kernel times; measured only if the device has `timestamp-query` */
  constructor(device: GpuDevice, log: KernelLog | undefined) {
    this.#device = device;
    const usage = USAGE.uniform | USAGE.copyDst | USAGE.copySrc;
    this.uniformBuffer = device.createBuffer({ size: STAGING_BYTES, usage, label: "uniforms" });
    this.#timer = log && new PassTimer(device, log);
  }

  get isEmpty(): boolean {
    return this.#commands.length === 0;
  }

  /** Resolves when all pipelines of the batch are compiled; undefined if they are. */
  get pending(): Promise<unknown> | undefined {
    const waiting = this.#commands.flatMap((c) => ("compiled" in c && c.compiled.pending ? [c.compiled.pending] : []));
    return waiting.length === 0 ? undefined : Promise.all(waiting);
  }

  /** Whether a dispatch with that many bytes of uniforms, or an upload of that size, still fits. */
  hasRoom(bytes: number): boolean {
    return this.#commands.length < MAX_COMMANDS && this.#used + bytes <= STAGING_BYTES;
  }

  /** Whether to send it now; asked after each dispatch, and if pipelines are missing, in earnest only so many later. */
  isWorthSending(): boolean {
    if (this.#commands.length < this.#look) return false;
    this.#look = this.#commands.length + WORTH_SENDING;
    return this.pending === undefined;
  }

  dispatch(kernel: WgslKernel, compiled: CompiledKernel, group: GpuHandle, label: () => string): void {
    const { key, workgroups, uniforms } = kernel;
    let offsets = NO_OFFSETS;
    if (compiled.uniformSlot > 0) {
      offsets = [this.#used];
      uniforms!.forEach(({ type, value }, i) => {
        if (type === "f32") this.#view.setFloat32(this.#used + 4 * i, value, true);
        else this.#view.setUint32(this.#used + 4 * i, value, true);
      });
      this.#used += compiled.uniformSlot;
    }
    this.#commands.push({ compiled, group, offsets, workgroups, key, label });
  }

  copy(source: GpuBuffer, at: number, target: GpuBuffer, targetAt: number, bytes: number): void {
    this.#commands.push({ source, at, target, targetAt, bytes });
  }

  /** Writes host data at this point of the batch. False if it is too large for that: the batch must be sent first. */
  upload(target: GpuBuffer, targetAt: number, data: Uint8Array): boolean {
    const slot = Math.ceil(data.byteLength / UNIFORM_ALIGNMENT) * UNIFORM_ALIGNMENT;
    if (data.byteLength > MAX_UPLOAD || data.byteLength % 4 !== 0 || !this.hasRoom(slot)) return false;
    new Uint8Array(this.#staging).set(data, this.#used);
    this.copy(this.uniformBuffer, this.#used, target, targetAt, data.byteLength);
    this.#used += slot;
    return true;
  }

  /**
   * Encodes and submits everything. A kernel that did not compile drops the batch: its error has been reported.
   * @param finish makes at once a pipeline that is still being compiled
   * @returns the message of the device's error, if there is one
   */
  send(finish: (compiled: CompiledKernel) => GpuHandle | undefined): Promise<string | null> {
    const device = this.#device;
    const commands = this.#commands;
    this.#commands = [];
    this.#look = WORTH_SENDING;
    const used = this.#used;
    this.#used = 0;
    this.number++;
    for (const command of commands) {
      if ("compiled" in command && finish(command.compiled) === undefined) return Promise.resolve(null);
    }
    device.pushErrorScope("validation");
    if (used > 0) device.queue.writeBuffer(this.uniformBuffer, 0, this.#staging, 0, used);
    const encoder = device.createCommandEncoder();
    let pass: GpuComputePass | undefined;
    for (const command of commands) {
      if (!("compiled" in command)) {
        pass?.end();
        pass = undefined;
        encoder.copyBufferToBuffer(command.source, command.at, command.target, command.targetAt, command.bytes);
        continue;
      }
      if (this.#timer !== undefined) {
        pass?.end();
        pass = this.#timer.beginPass(encoder, command.key);
      }
      pass ??= encoder.beginComputePass();
      pass.setPipeline(command.compiled.pipeline!);
      pass.setBindGroup(0, command.group, command.offsets);
      pass.dispatchWorkgroups(...command.workgroups);
    }
    pass?.end();
    const read = this.#timer?.resolve(encoder);
    device.queue.submit([encoder.finish()]);
    read?.();
    return device.popErrorScope().then((error) => error && blame(error.message, commands));
  }

  destroy(): void {
    this.#commands = [];
    this.uniformBuffer.destroy();
  }
}

/** The error of a batch, with the op whose kernel it mentions, or with all the batch's ops. */
function blame(message: string, commands: readonly (Dispatch | Copy)[]): string {
  const dispatches = commands.filter((command) => "compiled" in command);
  const culprit = dispatches.find(({ key }) => message.includes(`"${key}"`));
  if (culprit !== undefined) return `${culprit.label()}: ${message}`;
  const labels = [...new Set(dispatches.map(({ label }) => label()))];
  return `webgpu: in a batch of ${dispatches.length} dispatches (${labels.join(", ")}): ${message}`;
}

/** Times of kernels by `timestamp-query`: every dispatch gets its own pass with a time at either end. */
class PassTimer {
  readonly #device: GpuDevice;
  readonly #log: KernelLog;
  #keys: string[] = [];
  readonly #queries: ReturnType<GpuDevice["createQuerySet"]>;
  readonly #resolved: GpuBuffer;

  constructor(device: GpuDevice, log: KernelLog) {
    this.#device = device;
    this.#log = log;
    this.#queries = device.createQuerySet({ type: "timestamp", count: 2 * MAX_COMMANDS });
    this.#resolved = device.createBuffer({ size: 16 * MAX_COMMANDS, usage: USAGE.queryResolve | USAGE.copySrc });
  }

  beginPass(encoder: GpuCommandEncoder, key: string): GpuComputePass {
    const first = 2 * this.#keys.length;
    this.#keys.push(key);
    return encoder.beginComputePass({
      timestampWrites: { querySet: this.#queries, beginningOfPassWriteIndex: first, endOfPassWriteIndex: first + 1 },
    });
  }

  /** Adds the commands that fetch the times. @returns the function to call after the submit */
  resolve(encoder: GpuCommandEncoder): (() => void) | undefined {
    const keys = this.#keys;
    this.#keys = [];
    if (keys.length === 0) return undefined;
    const bytes = 16 * keys.length;
    const staging = this.#device.createBuffer({ size: bytes, usage: USAGE.mapRead | USAGE.copyDst });
    encoder.resolveQuerySet(this.#queries, 0, 2 * keys.length, this.#resolved, 0);
    encoder.copyBufferToBuffer(this.#resolved, 0, staging, 0, bytes);
    return () => void this.#read(staging, keys).catch(() => undefined); // a lost device has no times
  }

  async #read(staging: GpuBuffer, keys: readonly string[]): Promise<void> {
    await staging.mapAsync(MAP_READ);
    const times = new BigUint64Array(staging.getMappedRange());
    keys.forEach((key, i) => this.#log.add(key, Number(times[2 * i + 1]! - times[2 * i]!) / 1e6));
    staging.unmap();
    staging.destroy();
  }
}
