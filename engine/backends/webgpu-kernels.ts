/**
 * Compiled kernels and bind groups, each made once. Pipelines are found by kernel key; layouts are shared by all
 * kernels that access their buffers alike; bind groups are found by layout and buffers, in a cache of bounded size.
 */
import type { WgslKernel } from "../../kernels/kernel.ts";
import { check } from "../errors.ts";
import { type GpuBuffer, type GpuDevice, type GpuHandle, type GpuShaderModule, STAGE_COMPUTE } from "./webgpu-api.ts";
import type { DeviceBuffer } from "./webgpu-pool.ts";

/** Offsets into the uniform buffer, and so the slots in it, are multiples of this. */
export const UNIFORM_ALIGNMENT = 256;
const MAX_BIND_GROUPS = 8192;

interface Layout {
  readonly id: number;
  readonly group: GpuHandle;
  readonly pipeline: GpuHandle;
}
export interface CompiledKernel {
  /** The pipeline; undefined while it is being compiled, and for ever if that fails. */
  pipeline: GpuHandle | undefined;
  /** The compilation, while it goes on; never rejects. */
  pending: Promise<void> | undefined;
  /** Compiles now. */
  readonly now: () => GpuHandle;
  readonly layout: Layout;
  /** Bytes that the kernel's uniforms take in the uniform buffer; 0 without uniforms. */
  readonly uniformSlot: number;
}

/** The bytes of a uniform slot for `count` values. */
const slotFor = (count: number): number => Math.ceil((count * 4) / UNIFORM_ALIGNMENT) * UNIFORM_ALIGNMENT;

/** A compiler's error with its source line. */
async function explain(module: GpuShaderModule, code: string, fallback: string): Promise<string> {
  const { messages } = await module.getCompilationInfo();
  const errors = messages.filter(({ type }) => type === "error");
  if (errors.length === 0) return fallback;
  const lines = code.split("\n");
  return errors
    .map(({ message, lineNum, linePos }) => `line ${lineNum}:${linePos}: ${message}\n    ${lines[lineNum - 1] ?? ""}`)
    .join("\n");
}

export class KernelCache {
  readonly #device: GpuDevice;
  readonly #uniforms: GpuBuffer;
  readonly #watch: (check: Promise<string | undefined>) => void;
  readonly #kernels = new Map<string, CompiledKernel>();
  readonly #layouts = new Map<string, Layout>();
  readonly #groups = new Map<string, GpuHandle>();
  groupHits = 0;
  groupMisses = 0;
  kernelHits = 0;

  /** @param watch takes a promise of the message of an error, if there is one */
  constructor(device: GpuDevice, uniforms: GpuBuffer, watch: (check: Promise<string | undefined>) => void) {
    this.#device = device;
    this.#uniforms = uniforms;
    this.#watch = watch;
  }

  get kernels(): number {
    return this.#kernels.size;
  }
  get groups(): number {
    return this.#groups.size;
  }

  /** The kernel, whose compilation starts here, in the background; an error of the compiler arrives through `watch`. */
  compile(kernel: WgslKernel, label: () => string): CompiledKernel {
    const found = this.#kernels.get(kernel.key);
    if (found !== undefined) {
      this.kernelHits++;
      return found;
    }
    const device = this.#device;
    const uniforms = kernel.uniforms?.length ?? 0;
    const layout = this.#layout(kernel, slotFor(uniforms));
    const code = kernel.code();
    device.pushErrorScope("validation");
    const module = device.createShaderModule({ code, label: kernel.key });
    void device.popErrorScope().catch(() => undefined); // the pipeline fails with it, and says so
    const descriptor = { layout: layout.pipeline, compute: { module }, label: kernel.key };
    const compiled: CompiledKernel = {
      pipeline: undefined,
      pending: undefined,
      now: () => device.createComputePipeline(descriptor),
      layout,
      uniformSlot: slotFor(uniforms),
    };
    const message = device.createComputePipelineAsync(descriptor).then(
      (pipeline) => void (compiled.pipeline = pipeline),
      async (error: unknown) => {
        const reason = error instanceof Error ? error.message : String(error);
        return `${label()}: kernel ${kernel.key} does not compile: ${await explain(module, code, reason)}`;
      },
    );
    this.#watch(message);
    const over = (): void => void (compiled.pending = undefined);
    compiled.pending = message.then(over, over);
    this.#kernels.set(kernel.key, compiled);
    return compiled;
  }

  #layout(kernel: WgslKernel, uniformSlot: number): Layout {
    const id = `${kernel.bindings.join()};${uniformSlot}`;
    let layout = this.#layouts.get(id);
    if (layout === undefined) {
      const entries: object[] = kernel.bindings.map((access, binding) => ({
        binding,
        visibility: STAGE_COMPUTE,
        buffer: { type: access === "read" ? "read-only-storage" : "storage" },
      }));
      if (uniformSlot > 0) {
        const buffer = { type: "uniform", hasDynamicOffset: true };
        entries.push({ binding: entries.length, visibility: STAGE_COMPUTE, buffer });
      }
      const group = this.#device.createBindGroupLayout({ entries });
      const pipeline = this.#device.createPipelineLayout({ bindGroupLayouts: [group] });
      this.#layouts.set(id, (layout = { id: this.#layouts.size, group, pipeline }));
    }
    return layout;
  }

  /** The bind group for `buffers`, the uniforms with a dynamic offset. */
  group(
    kernel: WgslKernel,
    { layout, uniformSlot }: CompiledKernel,
    buffers: readonly DeviceBuffer[],
    label: () => string,
  ): GpuHandle {
    let key = `${layout.id}`;
    for (const buffer of buffers) key += ` ${buffer.number}`;
    let group = this.#groups.get(key);
    if (group !== undefined) {
      this.groupHits++;
      this.#groups.delete(key); // set again below: the cache drops the entry that was not used for longest
    } else {
      checkBindings(kernel, buffers, label);
      const entries: object[] = buffers.map(({ gpu, offset, capacity }, binding) => ({
        binding,
        resource: { buffer: gpu, offset, size: capacity },
      }));
      if (uniformSlot > 0) {
        entries.push({ binding: entries.length, resource: { buffer: this.#uniforms, offset: 0, size: uniformSlot } });
      }
      group = this.#device.createBindGroup({ layout: layout.group, entries });
      this.groupMisses++;
      if (this.#groups.size >= MAX_BIND_GROUPS) this.#groups.delete(this.#groups.keys().next().value!);
    }
    this.#groups.set(key, group);
    return group;
  }

  /** Forgets all bind groups; to be called when buffers were destroyed. */
  dropGroups(): void {
    this.#groups.clear();
  }
}

/**
 * Checks that a buffer which a dispatch writes is bound to it only once, parts included, as WebGPU demands; the error
 * names the op.
 */
function checkBindings(kernel: WgslKernel, buffers: readonly DeviceBuffer[], label: () => string): void {
  check(
    buffers.length === kernel.bindings.length,
    () => `${label()}: kernel ${kernel.key} takes ${kernel.bindings.length} buffers, got ${buffers.length}`,
  );
  buffers.forEach((buffer, i) => {
    if (kernel.bindings[i] === "read") return;
    const other = buffers.findIndex((b, j) => b.gpu === buffer.gpu && j !== i);
    check(
      other < 0,
      () => `${label()}: kernel ${kernel.key} writes buffer ${i}, which is also bound as buffer ${other}`,
    );
  });
}
