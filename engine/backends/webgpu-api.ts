/**
 * The part of WebGPU that the backend uses, as plain interfaces, and the way to an adapter in browsers and in Node.
 *
 * The interfaces are written out here (from https://www.w3.org/TR/webgpu/) instead of using the global GPU types, so
 * that the published declarations compile for users who have neither `@webgpu/types` nor a DOM library, and so that a
 * test can pass an adapter of its own. This is no wrapper: the objects are the browser's or Dawn's.
 */
import { fail } from "../errors.ts";

/** GPUBufferUsage, GPUShaderStage and GPUMapMode as numbers: the globals do not exist in Node. */
export const USAGE = {
  mapRead: 0x1,
  copySrc: 0x4,
  copyDst: 0x8,
  uniform: 0x40,
  storage: 0x80,
  queryResolve: 0x200,
} as const;
export const STAGE_COMPUTE = 0x4;
export const MAP_READ = 0x1;

export interface GpuAdapterInfo {
  readonly vendor: string;
  readonly architecture: string;
  readonly device: string;
  readonly description: string;
  readonly isFallbackAdapter?: boolean;
}
export interface GpuLimits {
  readonly maxStorageBufferBindingSize: number;
  readonly maxBufferSize: number;
}
export interface GpuAdapter {
  readonly info: GpuAdapterInfo;
  readonly limits: GpuLimits;
  /** Optional features by name; absent in adapters that a test makes up. */
  readonly features?: { has(name: string): boolean };
  requestDevice(descriptor?: {
    requiredLimits?: Record<string, number>;
    requiredFeatures?: readonly string[];
    label?: string;
  }): Promise<GpuDevice>;
}
export interface GpuError {
  readonly message: string;
}
export interface GpuBuffer {
  readonly size: number;
  mapAsync(mode: number, offset?: number, size?: number): Promise<unknown>;
  getMappedRange(offset?: number, size?: number): ArrayBuffer;
  unmap(): void;
  destroy(): void;
}
export interface GpuCompilationMessage {
  readonly type: string;
  readonly message: string;
  readonly lineNum: number;
  readonly linePos: number;
}
export interface GpuShaderModule {
  getCompilationInfo(): Promise<{ readonly messages: readonly GpuCompilationMessage[] }>;
}
/** Objects that are only passed on. */
export type GpuHandle = object;
export interface GpuQuerySet {
  destroy(): void;
}
export interface GpuComputePass {
  setPipeline(pipeline: GpuHandle): void;
  setBindGroup(index: number, group: GpuHandle, dynamicOffsets?: readonly number[]): void;
  dispatchWorkgroups(x: number, y: number, z: number): void;
  end(): void;
}
export interface GpuCommandEncoder {
  beginComputePass(descriptor?: {
    timestampWrites: { querySet: GpuQuerySet; beginningOfPassWriteIndex: number; endOfPassWriteIndex: number };
  }): GpuComputePass;
  resolveQuerySet(queries: GpuQuerySet, first: number, count: number, target: GpuBuffer, targetAt: number): void;
  copyBufferToBuffer(source: GpuBuffer, at: number, target: GpuBuffer, targetAt: number, bytes: number): void;
  finish(): GpuHandle;
}
export interface GpuQueue {
  submit(commands: readonly GpuHandle[]): void;
  writeBuffer(buffer: GpuBuffer, at: number, data: ArrayBufferView | ArrayBuffer, dataAt?: number, size?: number): void;
  onSubmittedWorkDone(): Promise<unknown>;
}
export interface GpuPipelineDescriptor {
  layout: GpuHandle;
  compute: { module: GpuShaderModule };
  label?: string;
}
export type GpuErrorFilter = "validation" | "out-of-memory" | "internal";
export interface GpuDevice {
  readonly queue: GpuQueue;
  readonly limits: GpuLimits;
  readonly lost: Promise<{ readonly reason: string; readonly message: string }>;
  createBuffer(descriptor: { size: number; usage: number; label?: string }): GpuBuffer;
  createShaderModule(descriptor: { code: string; label?: string }): GpuShaderModule;
  createBindGroupLayout(descriptor: { entries: readonly object[] }): GpuHandle;
  createPipelineLayout(descriptor: { bindGroupLayouts: readonly GpuHandle[] }): GpuHandle;
  createComputePipeline(descriptor: GpuPipelineDescriptor): GpuHandle;
  createComputePipelineAsync(descriptor: GpuPipelineDescriptor): Promise<GpuHandle>;
  createQuerySet(descriptor: { type: "timestamp"; count: number }): GpuQuerySet;
  createBindGroup(descriptor: { layout: GpuHandle; entries: readonly object[] }): GpuHandle;
  createCommandEncoder(): GpuCommandEncoder;
  pushErrorScope(filter: GpuErrorFilter): void;
  popErrorScope(): Promise<GpuError | null>;
  addEventListener(type: "uncapturederror", listener: (event: { readonly error: GpuError }) => void): void;
  destroy(): void;
}
/** The arguments of `navigator.gpu.requestAdapter`. */
export interface GpuRequest {
  readonly powerPreference?: "low-power" | "high-performance";
  readonly featureLevel?: "core" | "compatibility";
}
/** The choice of an adapter. */
export interface AdapterOptions extends GpuRequest {
  /** An adapter of your own; default: the browser's or Dawn's. */
  readonly adapter?: GpuAdapter;
  /** Options of Dawn's `create` in Node, such as `"backend=opengl"`. */
  readonly dawnFlags?: readonly string[];
}
interface Gpu {
  requestAdapter(request?: GpuRequest): Promise<GpuAdapter | null>;
}

/** The key of Dawn's instances on `globalThis`, by flags: Dawn crashes if one is garbage-collected while in use. */
const PIN = Symbol.for("worldgrad.dawn");

async function dawn(flags: readonly string[]): Promise<Gpu> {
  const pinned = ((globalThis as { [PIN]?: Map<string, Gpu> })[PIN] ??= new Map<string, Gpu>());
  let gpu = pinned.get(flags.join());
  if (gpu === undefined) {
    const specifier = "webgpu"; // a variable, so that bundlers for browsers do not follow it
    let module: { create(flags: readonly string[]): Gpu };
    try {
      module = (await import(/* @vite-ignore */ /* webpackIgnore: true */ specifier)) as typeof module;
    } catch (cause) {
      const reason = cause instanceof Error ? cause.message : String(cause);
      fail(
        'webgpu: neither navigator.gpu nor the optional package "webgpu" is there: ' +
          `npm install webgpu@0.6.2 (${reason})`,
      );
    }
    pinned.set(flags.join(), (gpu = module.create(flags)));
  }
  return gpu;
}

/**
 * The adapter of the browser (`navigator.gpu`) or, in Node, of the optional package `webgpu` (Dawn).
 * @param dawnFlags options of Dawn's `create` in Node, as `["backend=opengl"]`
 * @throws naming the package to install if there is no WebGPU, or the missing driver if there is no adapter
 */
export async function requestAdapter(request: GpuRequest = {}, dawnFlags: readonly string[] = []): Promise<GpuAdapter> {
  const browser = (globalThis as { navigator?: { gpu?: Gpu } }).navigator?.gpu;
  const gpu = browser ?? (await dawn(dawnFlags));
  const adapter = await gpu.requestAdapter(request);
  return (
    adapter ??
    fail("webgpu: no adapter: this machine offers no GPU driver (Vulkan, Metal or D3D12) that WebGPU can use")
  );
}

/** Whether the adapter computes on the CPU: by its flag, or by name (llvmpipe through OpenGL does not set the flag). */
export function isSoftware({ info }: GpuAdapter): boolean {
  const names = `${info.vendor} ${info.architecture} ${info.device} ${info.description}`;
  return info.isFallbackAdapter === true || /swiftshader|llvmpipe|lavapipe|softpipe|basic render/i.test(names);
}

/** The adapter's name in tables of measurements: "swiftshader", "llvmpipe" (by Vulkan or OpenGL), or the vendor. */
export function driverName({ info }: GpuAdapter): string {
  const names = `${info.vendor} ${info.architecture} ${info.device} ${info.description}`.toLowerCase();
  return /swiftshader|llvmpipe/.exec(names)?.[0] ?? info.vendor;
}

/** Vendor, architecture, device, description, without repetitions. */
export function adapterName({ info }: GpuAdapter): string {
  const parts = [info.vendor, info.architecture, info.device, info.description].filter((part) => part !== "");
  return [...new Set(parts)].join(" ") || "unnamed adapter";
}

/**
 * Looks for a hardware adapter, without opening a device. Never throws.
 * @returns the adapter's name, or in a clause the reason why there is none ("there is only a software WebGPU adapter:
 *   …")
 */
export async function probeWebgpu(options: AdapterOptions = {}): Promise<{ hardware: boolean; description: string }> {
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
 * Whether Linux shows no GPU: each GPU with a driver is a device file. Dawn is then not asked: it would print its
 * driver loader's warnings to the terminal first.
 */
function hasNoGpuDevice(): boolean {
  const node = (globalThis as { process?: { platform: string; getBuiltinModule?: (name: string) => unknown } }).process;
  const fs = node?.getBuiltinModule?.("node:fs") as { existsSync(path: string): boolean } | undefined;
  const offered = (globalThis as { navigator?: { gpu?: unknown } }).navigator?.gpu;
  if (node?.platform !== "linux" || fs === undefined || offered !== undefined) return false;
  return !["/dev/dri", "/dev/nvidia0", "/dev/dxg", "/dev/kgsl-3d0", "/dev/mali0"].some((path) => fs.existsSync(path));
}
