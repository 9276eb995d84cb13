/** worldgrad as its users call it: public ops on one device. `worldgradModel.ts` has the tasks of the model. */
import type { SoftmaxTask, Task, TaskOf } from "../cases/task.ts";
import { headPlaces, noise, noiseIds, noiseOf, sample } from "../data.ts";
import type { Backend, BackendOf } from "../../engine/backends/backend.ts";
import {
  attention,
  type Device,
  device,
  layerNorm,
  logProbs,
  matmul,
  mul,
  type Shape,
  softmax,
  sum,
  type Tensor,
  tensor,
  valueAndGrad,
} from "../../engine/index.ts";
import type { WebgpuOptions } from "../../engine/backends/webgpu.ts";
import type { AttentionSpec, MatmulSpec } from "../../kernels/specs.ts";
import { attention as attentionKernel, attentionBackward } from "../../kernels/wgsl/attention.ts";
import { attentionSchedules } from "../../kernels/wgsl/attentionTable.ts";
import { packMatrix } from "../../pretrained/packed/matrix.ts";
import type { Engine, EngineOptions, Prepared } from "./engine.ts";
import { ladder } from "./ladder.ts";
import { finished, prepared } from "./worldgradPrepared.ts";
import { prepareModelTask } from "./worldgradModel.ts";

/** Options of the adapter. Mesa's OpenGL is another backend of Dawn; `CONTRIBUTING.md` lists the adapters. */
export const WEBGPU: WebgpuOptions =
  process.env["WORLDGRAD_ADAPTER"] === "opengl"
    ? { dawnFlags: ["backend=opengl"], featureLevel: "compatibility" }
    : { powerPreference: "high-performance" };

export async function worldgrad(kind: "wasm" | "webgpu" | "reference", { threads }: EngineOptions): Promise<Engine> {
  const on = await device(kind, { threads, webgpu: WEBGPU });
  return {
    description: `worldgrad, ${on.description}`,
    prepare: async (task) => prepareOp(on, task) ?? (await prepareModelTask(on, task)),
    memory: () => ({ live: on.backend.stats().liveBytes, peak: on.backend.stats().peakBytes }),
  };
}

function prepareOp(on: Device, task: Task): Prepared | string | undefined {
  const of = (seed: number, shape: Shape, scale = 1): Tensor =>
    tensor(noiseOf(seed, shape, scale), { device: on, shape, dtype: on.float });
  switch (task.op) {
    case "matmul":
      return matmulTask(on, task, of);
    case "packed":
      return packedTask(on, task, of);
    case "softmax":
      return softmaxTask(on, task, of);
    case "norm": {
      const { rows, cols } = task;
      const [x, g] = [of(1, [rows, cols]), of(2, [rows, cols])];
      const gains = noise(3, cols, 0.25).map((v) => 1 + v);
      const gain = tensor(gains, { device: on, dtype: on.float });
      const bias = of(4, [cols], 0.25);
      const backward = valueAndGrad(([x, gain, bias]: readonly Tensor[]) =>
        sum(mul(layerNorm(x!, gain!, bias!, 1e-5), g)),
      );
      const work = (): readonly Tensor[] =>
        task.backward ? backward([x, gain, bias]).grads : [layerNorm(x, gain, bias, 1e-5)];
      return prepared(on, work, [x, g, gain, bias]);
    }
    case "attention": {
      if (task.schedule !== undefined) return scheduledAttention(on, task, task.schedule, of);
      const shape = [task.B, task.T, task.H, task.D];
      const inputs = [of(1, shape, 2), of(2, shape, 2), of(3, shape, 2)];
      const g = of(4, shape);
      const backward = valueAndGrad(([q, k, v]: readonly Tensor[]) => sum(mul(attention(q!, k!, v!), g)));
      const work = (): readonly Tensor[] =>
        task.backward ? backward(inputs).grads : [attention(inputs[0]!, inputs[1]!, inputs[2]!)];
      return prepared(on, work, [...inputs, g]);
    }
    case "logProbs": {
      const [x, g] = [of(1, [task.rows, task.V], 4), of(3, [task.rows])];
      const targets = tensor(noiseIds(2, task.rows, task.V), { device: on });
      const backward = valueAndGrad((x: Tensor) => sum(mul(logProbs(x, targets).logProbs, g)));
      const work = (): readonly Tensor[] => (task.backward ? [backward(x).grads] : [logProbs(x, targets).logProbs]);
      return prepared(on, work, [x, g, targets]);
    }
    default:
      return undefined;
  }
}

function softmaxTask(
  on: Device,
  task: SoftmaxTask,
  of: (seed: number, shape: Shape, scale?: number) => Tensor,
): Prepared {
  const [x, g] = [of(1, [task.rows, task.cols], 3), of(2, [task.rows, task.cols])];
  const backward = valueAndGrad((x: Tensor) => sum(mul(softmax(x), g)));
  return prepared(on, () => (task.backward ? [backward(x).grads] : [softmax(x)]), [x, g]);
}

function matmulTask(on: Device, task: TaskOf<"matmul">, of: (seed: number, shape: Shape) => Tensor): Prepared | string {
  const { batch, m, n, k, transA, transB, version } = task;
  const [a, b] = [of(1, [batch, ...(transA ? [k, m] : [m, k])]), of(2, [batch, ...(transB ? [n, k] : [k, n])])];
  if (version === undefined) return prepared(on, () => [matmul(a, b, { transA, transB })], [a, b]);
  const { backend } = on;
  if (!isWebgpu(backend)) return "the ladder is WGSL";
  const make = ladder[version];
  if (make === undefined) return `kernels/wgsl/matmul.ts exports no "${version}"`;
  const spec: MatmulSpec = { batch, m, n, k, transA, transB, batchA: true, batchB: true, scale: 1, addends: [] };
  const program = make(spec, backend.profile);
  const c = of(3, [batch, m, n]);
  const buffers = [a, b, c].map((x) => x.storage.buffer);
  const run = (): void => backend.run(program, buffers, () => `${version}(${m}×${k} · ${k}×${n})`);
  return {
    async check() {
      run();
      return sample(await c.read());
    },
    run,
    finish: () => finished(on),
    dispose: () => [a, b, c].forEach((x) => x.dispose()),
  };
}

/** One pass of attention with a named schedule. The backward pass reads results of a forward pass made beforehand. */
function scheduledAttention(
  on: Device,
  task: TaskOf<"attention">,
  name: string,
  of: (seed: number, shape: Shape, scale?: number) => Tensor,
): Prepared | string {
  const { backend } = on;
  if (!isWebgpu(backend)) return "the ladder is WGSL";
  const schedule = attentionSchedules[name];
  if (schedule === undefined) return `kernels/wgsl/attentionTable.ts has no schedule "${name}"`;
  const profile = { ...backend.profile, attention: schedule };
  if (schedule.kind === "group" && schedule.lanes === 4 && !profile.features?.includes("subgroups"))
    return "the adapter has no subgroups";
  const { B, T, H, D, backward } = task;
  const spec: AttentionSpec = {
    batch: B,
    queries: T,
    keys: T,
    heads: H,
    kvHeads: H,
    headDim: D,
    scale: 1 / Math.sqrt(D),
    causal: true,
    mask: "none",
    window: 0,
  };
  const shape = [B, T, H, D];
  const [q, k, v, g] = [of(1, shape, 2), of(2, shape, 2), of(3, shape, 2), of(4, shape)];
  const [o, lse] = [of(5, shape), of(6, [B, T, H])];
  const gradients = backward ? [of(7, shape), of(8, shape), of(9, shape)] : [];
  const execute = (program: ReturnType<typeof attentionKernel>, operands: readonly Tensor[]): void =>
    backend.run(
      program,
      operands.map((x) => x.storage.buffer),
      () => `attention by ${name}`,
    );
  const forward = attentionKernel(spec, profile);
  const program = attentionBackward(spec, profile);
  const runForward = (): void => execute(forward, [q, k, v, o, lse]);
  const run = backward ? (): void => execute(program, [q, k, v, o, lse, g, ...gradients]) : runForward;
  return {
    async check() {
      runForward();
      if (backward) run();
      const samples: number[] = [];
      for (const result of backward ? gradients : [o]) {
        const values = await result.read();
        samples.push(...headPlaces(task).places.map((i) => values[i]!));
      }
      return samples;
    },
    run,
    finish: () => finished(on),
    dispose: () => [q, k, v, g, o, lse, ...gradients].forEach((x) => x.dispose()),
  };
}

function packedTask(on: Device, task: TaskOf<"packed">, of: (seed: number, shape: Shape) => Tensor): Prepared {
  const { m, n, k, format } = task;
  const x = of(1, [m, k]);
  if (format === "f32") {
    const w = of(2, [n, k]);
    return prepared(on, () => [matmul(x, w, { transB: true })], [x, w]);
  }
  const bytes = new Uint8Array(noise(2, n * k).buffer);
  const w = packMatrix({ dtype: "F32", shape: [n, k], bytes }, { format, device: on });
  return prepared(on, () => [w.times(x)], [x, w.packed]);
}

const isWebgpu = (backend: Backend): backend is BackendOf<"webgpu"> => backend.kind === "webgpu";
