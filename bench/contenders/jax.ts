/**
 * @jax-js/jax 0.1.25 (github.com/ekzhang/jax-js), everything under `jit`. A call consumes its argument arrays, and
 * `.ref` keeps one. The gradient of an embedding does not work under `jit`, so the lookup is a product with a one-hot
 * matrix, forward and backward. Node has no `Worker` global, so its WebAssembly runs on one thread. Types cover only
 * what the tasks use.
 */
import type { Task } from "../cases/task.ts";
import { noise, noiseIds, noiseOf } from "../data.ts";
import type { Engine, Prepared } from "./engine.ts";
import { openGpu } from "./gpu.ts";
import { prepareModel } from "./jaxModel.ts";
import { type Arr, floats, integers, type Jax, layerNorm, preparedJax } from "./jaxShared.ts";

/** `einsum` uses methods of iterators that Node has from version 22 on. */
function addIteratorHelpers(): void {
  const prototype = Object.getPrototypeOf(Object.getPrototypeOf([][Symbol.iterator]())) as Record<string, unknown>;
  const define = (name: string, value: unknown): void => {
    if (!(name in prototype)) Object.defineProperty(prototype, name, { value, configurable: true, writable: true });
  };
  define("map", function* (this: Iterable<unknown>, f: (x: unknown) => unknown) {
    for (const x of this) yield f(x);
  });
  define("filter", function* (this: Iterable<unknown>, f: (x: unknown) => boolean) {
    for (const x of this) if (f(x)) yield x;
  });
  define("toArray", function (this: Iterable<unknown>) {
    return [...this];
  });
}

export async function jaxJs(executor: "wasm" | "webgpu"): Promise<Engine> {
  const adapter = await openGpu(executor === "webgpu");
  addIteratorHelpers();
  const path = "../peers/jax.js"; // a variable, because the package may not be installed and then has no types
  const jax = (await import(path)) as Jax;
  const available = await jax.init(executor);
  if (!available.includes(executor)) throw new Error(`jax-js has no ${executor} here`);
  jax.defaultDevice(executor);
  return {
    description: `@jax-js/jax 0.1.25, ${executor === "webgpu" ? `webgpu (${adapter})` : "wasm (1 thread)"}, jit`,
    prepare: async (task) => prepareOp(jax, task) ?? prepareModel(jax, task),
  };
}

function prepareOp(jax: Jax, task: Task): Prepared | undefined {
  const { numpy: np, nn } = jax;
  const of = (seed: number, shape: readonly number[], scale = 1): Arr =>
    floats(jax, noiseOf(seed, shape, scale), shape);
  /** The function, or its gradient for `g` (the last input) with respect to the first `count` inputs. */
  const withGradient = (backward: boolean, inputs: readonly Arr[], g: Arr, f: (...x: Arr[]) => Arr): Prepared => {
    if (!backward) {
      g.dispose();
      return preparedJax(jax, inputs, (...x) => [f(...x)]);
    }
    const loss = (x: Arr[], g: Arr): Arr => np.sum(f(...x).mul(g));
    return preparedJax(jax, [...inputs, g], (...x) => jax.grad(loss)(x.slice(0, -1), x.at(-1)!));
  };
  switch (task.op) {
    case "matmul": {
      const { batch, m, n, k, transA, transB } = task;
      const outer = batch === 1 ? [] : [batch];
      const a = of(1, [...outer, ...(transA ? [k, m] : [m, k])]);
      const b = of(2, [...outer, ...(transB ? [n, k] : [k, n])]);
      const turned = (x: Arr, turn: boolean): Arr => (turn ? np.matrixTranspose(x) : x);
      return preparedJax(jax, [a, b], (a, b) => [np.matmul(turned(a, transA), turned(b, transB))]);
    }
    case "softmax": {
      const shape = [task.rows, task.cols];
      return withGradient(task.backward, [of(1, shape, 3)], of(2, shape), (x) => nn.softmax(x, -1));
    }
    case "norm": {
      const { rows, cols } = task;
      const gains = noise(3, cols, 0.25).map((x) => 1 + x);
      const gain = floats(jax, gains, [cols]);
      const inputs = [of(1, [rows, cols]), gain, of(4, [cols], 0.25)];
      return withGradient(task.backward, inputs, of(2, [rows, cols]), (x, gain, bias) => layerNorm(jax, x, gain, bias));
    }
    case "attention": {
      const shape = [task.B, task.T, task.H, task.D];
      const inputs = [of(1, shape, 2), of(2, shape, 2), of(3, shape, 2)];
      const causal = (q: Arr, k: Arr, v: Arr): Arr => nn.dotProductAttention(q, k, v, { isCausal: true });
      return withGradient(task.backward, inputs, of(4, shape), causal);
    }
    case "logProbs": {
      const { rows, V } = task;
      const targets = integers(jax, noiseIds(2, rows, V), [rows]);
      // `targets` is a captured constant, not an input of the gradient; `.ref` keeps it.
      return withGradient(task.backward, [of(1, [rows, V], 4)], of(3, [rows]), (x) =>
        np.sum(nn.logSoftmax(x, -1).mul(nn.oneHot(targets.ref, V)), -1),
      );
    }
    default:
      return undefined;
  }
}
