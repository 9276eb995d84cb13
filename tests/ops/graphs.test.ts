/**
 * Random graphs of ops with shared nodes: the gradient against central differences on the f64 reference, and every
 * executor against every other. What single-op tests cannot see: accumulation over several users, un-broadcasting,
 * buffers that are freed and used again while the sweep runs.
 */
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { checkGradient, checkpoint, scope, type Tensor, valueAndGrad } from "../../engine/index.ts";
import * as ops from "../../engine/ops/index.ts";
import { Rng } from "../../engine/random.ts";
import { agree, draw, type Executors, type Make, openExecutors, seeds, valuesOn } from "../support/executors.ts";

// Compilers of software adapters take up to 0.3 s for a kernel that they have not seen.
vi.setConfig({ testTimeout: 300_000 });

let executors: Executors;
beforeAll(async () => {
  executors = await openExecutors();
});
afterAll(() => executors.dispose());

interface Nodes {
  readonly n: number;
  readonly make: Make;
  readonly ids: readonly number[];
  readonly mask: readonly number[];
}
/** One step of a graph over matrices [n, n]: smooth but for a few kinks, of bounded growth. */
type Step = (x: Tensor, y: Tensor, at: Nodes) => Tensor;
const rows = { axis: 1, keepdims: true } as const;
const columns = { axis: 0 } as const;
const row = (x: Tensor): Tensor => ops.mean(x, columns);
const STEPS: Record<string, Step> = {
  add: (x, y) => ops.add(x, y),
  "add a row": (x, y) => ops.add(x, row(y)),
  "sub a column": (x, y) => ops.sub(x, ops.mean(y, rows)),
  "mul by a scalar": (x, y) => ops.mul(x, ops.tanh(ops.mean(y))),
  mul: (x, y) => ops.mul(ops.tanh(x), y),
  div: (x, y) => ops.div(x, ops.add(ops.square(y), 1)),
  maximum: (x, y) => ops.maximum(x, ops.neg(y)),
  silu: (x) => ops.silu(x),
  gelu: (x) => ops.gelu(x),
  sin: (x) => ops.sin(x),
  softplus: (x) => ops.softplus(x),
  matmul: (x, y, { n }) => ops.matmul(x, y, { scale: 1 / n }),
  "matmul transposed": (x, y, { n }) => ops.matmul(x, y, { transA: true, transB: true, scale: 1 / n }),
  "matmul with bias": (x, y, { n }) => ops.matmul(x, y, { bias: row(y), scale: 1 / n, activation: "silu" }),
  "matmul beside its operands": (x, y, { n }) => ops.matmul(x, y, { addend: x, bias: row(y), scale: 1 / n }),
  "matmul of one tensor, beside it": (x, _, { n }) => ops.matmul(x, x, { addend: x, scale: 1 / n }),
  softmax: (x) => ops.softmax(x),
  "softmax over columns": (x) => ops.softmax(x, { axis: 0 }),
  "masked softmax": (x, _, { make, mask, n }) => ops.softmax(x, { axis: 1, mask: make(mask, [n, n]) }),
  logSoftmax: (x) => ops.mul(ops.logSoftmax(x), 0.3),
  logsumexp: (x, y) => ops.sub(x, ops.logsumexp(y, rows)),
  max: (x, y) => ops.add(x, ops.max(y, rows)),
  cumsum: (x, _, { n }) => ops.mul(ops.cumsum(x, { axis: 0, reverse: true }), 1 / n),
  transpose: (x) => ops.transpose(x),
  "slice and concat": (x, y, { n }) => ops.concat([ops.slice(x, [n - 1]), ops.slice(y, [0], [n - 1 || 1])].slice(0, n)),
  "pad and slice": (x, _, { n }) => ops.slice(ops.pad(x, [1, 0], [0, 2]), [0, 2], [n]),
  gather: (x, _, { make, ids, n }) => ops.gather(x, make(ids, [n], "i32")),
  scatterAdd: (x, _, { make, ids, n }) => ops.scatterAdd(x, make(ids, [n], "i32"), n, { axis: 1 }),
  "stop gradient": (x, y) => ops.add(x, ops.gt(y, 0)),
  rmsNorm: (x, y) => ops.rmsNorm(x, row(y), 0.1),
  layerNorm: (x, y) => ops.layerNorm(x, row(y), row(x), 0.1),
  "masked mean": (x, y, { make, mask, n }) => ops.add(x, ops.maskedMean(y, make(mask, [n, n]), rows)),
  attention: (x, y, { n }) => {
    const head = (t: Tensor): Tensor => ops.reshape(t, [1, n, 1, n]);
    return ops.reshape(ops.attention(head(x), head(y), head(ops.add(x, y))), [n, n]);
  },
  checkpoint: (x, y) => checkpoint(([a, b]) => [ops.mul(ops.sin(a!), b!)], [x, y])[0]!,
  "log-probabilities": (x, y, { make, ids, n }) =>
    ops.add(x, ops.reshape(ops.logProbs(y, make(ids, [n], "i32")).logProbs, [n, 1])),
};
const NAMES = Object.keys(STEPS);
const LEAVES = 2;

interface Graph {
  readonly n: number;
  readonly steps: readonly (readonly [name: string, x: number, y: number])[];
  readonly seed: number;
}
const graphs: fc.Arbitrary<Graph> = fc.record({
  n: fc.constantFrom(1, 2, 3, 5),
  steps: fc.array(fc.tuple(fc.constantFrom(...NAMES), fc.nat(30), fc.nat(30)), { minLength: 2, maxLength: 10 }),
  seed: seeds,
});

const leavesOf = ({ n, seed }: Graph): number[][] => {
  const rng = new Rng(seed).split("leaves");
  return Array.from({ length: LEAVES }, () => draw(rng, [n, n]));
};

/** A scalar of the leaves: every node that nothing else uses, each with fixed random weights. */
function lossOf({ n, steps, seed }: Graph, leaves: readonly Tensor[], make: Make): Tensor {
  const rng = new Rng(seed);
  const at: Nodes = {
    n,
    make,
    ids: Array.from({ length: n }, () => rng.int(n)),
    mask: Array.from({ length: n * n }, () => rng.int(2)),
  };
  const nodes = [...leaves];
  const used = new Set<number>();
  for (const [name, i, j] of steps) {
    const [x, y] = [i % nodes.length, j % nodes.length];
    used.add(x).add(y);
    nodes.push(STEPS[name]!(nodes[x]!, nodes[y]!, at));
  }
  return nodes
    .filter((_, i) => !used.has(i))
    .map((y) => ops.sum(ops.mul(y, make(draw(rng, [n, n]), [n, n]))))
    .reduce((a, b) => ops.add(a, b));
}

/** Gradients of the leaves on every executor, and the loss. */
const evaluateEverywhere = (graph: Graph, tolerance: number): Promise<number[][]> =>
  agree(
    executors,
    (make) => {
      const { n } = graph;
      const tree = leavesOf(graph).map((x) => make(x, [n, n]));
      const { value, grads } = valueAndGrad((t: Tensor[]) => lossOf(graph, t, make))(tree);
      return [value, ...grads];
    },
    tolerance,
  );

/** The loss by its leaves, along a direction. Of the few elements that stand at a kink it says nothing. */
async function checkOnReference(graph: Graph, order: 1 | 2): Promise<void> {
  const on = executors.reference;
  const make: Make = (values, shape, dtype) =>
    ops.tensor(dtype ? Int32Array.from(values) : Float64Array.from(values), { device: on, shape });
  const leaves = leavesOf(graph).map((x) => make(x, [graph.n, graph.n]));
  const tolerance = { absolute: 5e-7, relative: 5e-7 };
  const options = { order, tolerance, samples: 0, kinks: "skip", seed: graph.seed } as const;
  const { elements, kinks } = await checkGradient((tree) => lossOf(graph, tree, make), leaves, options);
  expect(kinks).toBeLessThanOrEqual(elements / 4);
  leaves.forEach((x) => x.dispose());
}

describe("random graphs", () => {
  test("gradients: central differences on the reference, wasm and webgpu against it", async () => {
    await fc.assert(
      fc.asyncProperty(graphs, async (graph) => {
        // Ten steps of f32 in a row, some of which divide by what may be small.
        await evaluateEverywhere(graph, 2e-4);
        await checkOnReference(graph, 1);
      }),
      { numRuns: 60, seed: 41 },
    );
  });

  test("second derivatives: the gradient's own gradient, by differences of gradients", async () => {
    await fc.assert(
      fc.asyncProperty(graphs, (graph) => checkOnReference(graph, 2)),
      { numRuns: 40, seed: 42 },
    );
  });

  test("the same call gives the same bits, and a sweep frees all but the value and the gradients", async () => {
    await fc.assert(
      fc.asyncProperty(graphs, async (graph) => {
        const { n } = graph;
        for (const on of [executors.reference, ...executors.kernels]) {
          const build = (make: Make): Tensor[] => {
            const tree = leavesOf(graph).map((x) => make(x, [n, n]));
            const { value, grads } = valueAndGrad((t: Tensor[]) => lossOf(graph, t, make))(tree);
            return [value, ...grads];
          };
          expect(await valuesOn(on, build)).toEqual(await valuesOn(on, build));
        }
        const { backend } = executors.reference;
        const before = backend.stats().liveBuffers;
        const kept = scope(() => {
          const make: Make = (values, shape, dtype) =>
            ops.tensor(dtype ? Int32Array.from(values) : Float64Array.from(values), {
              device: executors.reference,
              shape,
            });
          const tree = leavesOf(graph).map((x) => make(x, [n, n]));
          return valueAndGrad((t: Tensor[]) => lossOf(graph, t, make))(tree);
        });
        expect(backend.stats().liveBuffers - before).toBe(1 + LEAVES);
        [kept.value, ...kept.grads].forEach((x) => x.dispose());
        expect(backend.stats().liveBuffers).toBe(before);
      }),
      { numRuns: 15, seed: 43 },
    );
  });
});
