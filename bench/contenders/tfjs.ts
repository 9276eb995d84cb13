/**
 * @tensorflow/tfjs 4.22.0 with tfjs-backend-wasm (one thread, because its threads need workers of a browser) or
 * tfjs-backend-webgpu. It runs eagerly, each step in `tf.tidy`. The optimiser is `tf.train.adam`, after the weight
 * decay of AdamW. Its WebAssembly lacks `unsortedSegmentSum`, which the gradient of `gather` needs, so an embedding is
 * a product with a one-hot matrix, made once per batch. Types cover only what the tasks use.
 */
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Task } from "../cases/task.ts";
import { noise, noiseIds, noiseOf } from "../data.ts";
import type { Engine, Prepared } from "./engine.ts";
import { openGpu } from "./gpu.ts";
import { prepareModel } from "./tfjsModel.ts";
import { attention, layerNorm, maskFor, preparedTf, product, type Tf, type TfTensor } from "./tfjsShared.ts";

interface Peers {
  readonly tf: Tf;
  readonly wasm: { setThreadsCount(n: number): void; setWasmPaths(prefix: string): void };
}

export async function tfjs(executor: "wasm" | "webgpu"): Promise<Engine> {
  const adapter = await openGpu(executor === "webgpu");
  const path = "../peers/tfjs.js"; // a variable, because the package may not be installed and then has no types
  const { tf, wasm } = (await import(path)) as Peers;
  if (executor === "wasm") {
    wasm.setThreadsCount(1);
    wasm.setWasmPaths(
      join(fileURLToPath(new URL("../peers", import.meta.url)), "node_modules/@tensorflow/tfjs-backend-wasm/dist/"),
    );
  }
  if (!(await tf.setBackend(executor))) throw new Error(`tfjs has no ${executor} here`);
  await tf.ready();
  return {
    description: `@tensorflow/tfjs 4.22.0, ${executor === "webgpu" ? `webgpu (${adapter})` : "wasm (1 thread)"}`,
    prepare: async (task) => prepareOp(tf, task) ?? prepareModel(tf, task),
    memory: () => ({ live: tf.memory().numBytes, peak: NaN }),
  };
}

function prepareOp(tf: Tf, task: Task): Prepared | undefined {
  const of = (seed: number, shape: readonly number[], scale = 1): TfTensor =>
    tf.tensor(noiseOf(seed, shape, scale), shape);
  const withGradient = (
    backward: boolean,
    inputs: TfTensor[],
    g: TfTensor,
    f: (...x: TfTensor[]) => TfTensor,
  ): Prepared => {
    const gradient = tf.grads(f);
    return preparedTf(tf, [...inputs, g], () => (backward ? gradient(inputs, g) : [f(...inputs)]));
  };
  switch (task.op) {
    case "matmul": {
      const { batch, m, n, k, transA, transB } = task;
      const outer = batch === 1 ? [] : [batch];
      const a = of(1, [...outer, ...(transA ? [k, m] : [m, k])]);
      const b = of(2, [...outer, ...(transB ? [n, k] : [k, n])]);
      return preparedTf(tf, [a, b], () => [product(tf, a, b, transA, transB)]);
    }
    case "softmax": {
      const shape = [task.rows, task.cols];
      return withGradient(task.backward, [of(1, shape, 3)], of(2, shape), (x) => tf.softmax(x));
    }
    case "norm": {
      const { rows, cols } = task;
      const gains = noise(3, cols, 0.25).map((x) => 1 + x);
      const gain = tf.tensor(gains, [cols]);
      const inputs = [of(1, [rows, cols]), gain, of(4, [cols], 0.25)];
      return withGradient(task.backward, inputs, of(2, [rows, cols]), (x, gain, bias) => layerNorm(tf, x, gain, bias));
    }
    case "attention": {
      const shape = [task.B, task.T, task.H, task.D];
      const inputs = [of(1, shape, 2), of(2, shape, 2), of(3, shape, 2)];
      const mask = maskFor(tf, task.T);
      return withGradient(task.backward, inputs, of(4, shape), (q, k, v) => attention(tf, q, k, v, mask));
    }
    case "logProbs": {
      const { rows, V } = task;
      const hot = tf.tidy(() => tf.oneHot(tf.tensor(noiseIds(2, rows, V), [rows], "int32"), V));
      return withGradient(task.backward, [of(1, [rows, V], 4)], of(3, [rows]), (x) =>
        tf.sum(tf.logSoftmax(x).mul(hot), -1),
      );
    }
    default:
      return undefined;
  }
}
