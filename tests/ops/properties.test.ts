/**
 * Properties of ops on random shapes, on every executor: broadcasting, products, indexing, softmax and formulas against
 * loops and identities that are written out here.
 */
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { checkGradient, type Expr, expr, fuse, grad, select, type Tensor } from "../../engine/index.ts";
import * as ops from "../../engine/ops/index.ts";
import { Rng } from "../../engine/random.ts";
import { broadcastShapes } from "../../engine/types.ts";
import { evaluator, input } from "../../kernels/expr.ts";
import { broadcastableShapes, shapes, sizes, withTensors } from "../../fastCheck.ts";
import {
  agree,
  draw,
  type Executors,
  indicesOf,
  maskOf,
  offsetIn,
  openExecutors,
  seeds,
  valuesOn,
} from "../support/executors.ts";
import { difference } from "../support/opChecks.ts";

// Compilers of software adapters take up to 0.3 s for a kernel that they have not seen.
vi.setConfig({ testTimeout: 300_000 });

let executors: Executors;
beforeAll(async () => {
  executors = await openExecutors();
});
afterAll(() => executors.dispose());

const dot = (a: readonly number[], b: readonly number[]): number => a.reduce((total, v, i) => total + v * b[i]!, 0);

const BINARY = {
  add: (x: number, y: number) => [x + y, 1, 1],
  sub: (x: number, y: number) => [x - y, 1, -1],
  mul: (x: number, y: number) => [x * y, y, x],
  maximum: (x: number, y: number) => [Math.max(x, y), Number(x > y), Number(y > x)],
  minimum: (x: number, y: number) => [Math.min(x, y), Number(x < y), Number(y < x)],
} as const satisfies Record<string, (x: number, y: number) => number[]>;

describe("broadcasting", () => {
  test("pointwise ops and their gradients are loops over the broadcast shape", async () => {
    const names = fc.constantFrom(...(Object.keys(BINARY) as (keyof typeof BINARY)[]));
    await fc.assert(
      fc.asyncProperty(broadcastableShapes(), names, seeds, async ([a, b], name, seed) => {
        const rng = new Rng(seed);
        const shape = broadcastShapes("test", [a, b]);
        const [x, y, g] = [draw(rng, a), draw(rng, b), draw(rng, shape)];
        const [z, dx, dy] = [new Array<number>(g.length), x.map(() => 0), y.map(() => 0)];
        indicesOf(shape).forEach((index, i) => {
          const [p, q] = [offsetIn(a, index), offsetIn(b, index)];
          const [value, ofX, ofY] = BINARY[name](x[p]!, y[q]!) as [number, number, number];
          z[i] = value;
          dx[p]! += g[i]! * ofX;
          dy[q]! += g[i]! * ofY;
        });
        const result = await agree(executors, (make) => {
          const tree = [make(x, a), make(y, b)];
          const f = ([u, v]: Tensor[]): Tensor => ops[name](u!, v!);
          return [f(tree), ...grad((t: Tensor[]) => ops.sum(ops.mul(f(t), make(g, shape))))(tree)];
        });
        [z, dx, dy].forEach((expected, k) => expect(difference(result[k]!, expected)).toBeLessThan(1e-12));
      }),
      { numRuns: 60, seed: 1 },
    );
  });

  test("sumTo is the adjoint of broadcastTo: ⟨g, broadcast(x)⟩ = ⟨sumTo(g), x⟩", async () => {
    await fc.assert(
      fc.asyncProperty(broadcastableShapes(), seeds, async ([a, b], seed) => {
        const rng = new Rng(seed);
        const shape = broadcastShapes("test", [a, b]);
        const [x, g] = [draw(rng, a), draw(rng, shape)];
        const [wide, narrow] = await agree(executors, (make) => [
          ops.broadcastTo(make(x, a), shape),
          ops.sumTo(make(g, shape), a),
        ]);
        expect(dot(g, wide!)).toBeCloseTo(dot(narrow!, x), 9);
      }),
      { numRuns: 40, seed: 2 },
    );
  });
});

describe("matmul", () => {
  const edge = fc.constantFrom(1, 2, 3, 4, 5, 8, 9, 17, 33);
  test("is three loops, whatever is transposed or shared", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.record({ m: edge, n: edge, k: edge, batch: fc.constantFrom(1, 2, 3) }),
        fc.record({
          transA: fc.boolean(),
          transB: fc.boolean(),
          sharedA: fc.boolean(),
          sharedB: fc.boolean(),
          bias: fc.boolean(),
          residual: fc.boolean(),
        }),
        seeds,
        async ({ m, n, k, batch }, { transA, transB, sharedA, sharedB, bias, residual }, seed) => {
          const rng = new Rng(seed);
          const ofA = [...(sharedA ? [] : [batch]), ...(transA ? [k, m] : [m, k])];
          const ofB = [...(sharedB ? [] : [batch]), ...(transB ? [n, k] : [k, n])];
          const batches = sharedA && sharedB ? 1 : batch;
          const ofC = [...(sharedA && sharedB ? [] : [batch]), m, n];
          const [a, b, c, r] = [draw(rng, ofA), draw(rng, ofB), draw(rng, [n]), draw(rng, ofC)];
          const expected = indicesOf([batches, m, n]).map(([p, i, j]) => {
            let total = (bias ? c[j!]! : 0) + (residual ? r[(p! * m + i!) * n + j!]! : 0);
            for (let l = 0; l < k; l++) {
              const atA = (sharedA ? 0 : p! * m * k) + (transA ? l * m + i! : i! * k + l);
              const atB = (sharedB ? 0 : p! * n * k) + (transB ? j! * k + l : l * n + j!);
              total += a[atA]! * b[atB]!;
            }
            return total;
          });
          const [product] = await agree(executors, (make) => [
            ops.matmul(make(a, ofA), make(b, ofB), {
              transA,
              transB,
              ...(bias ? { bias: make(c, [n]) } : {}),
              ...(residual ? { addend: make(r, ofC) } : {}),
            }),
          ]);
          expect(difference(product!, expected)).toBeLessThan(1e-12);
        },
      ),
      { numRuns: 25, seed: 3 },
    );
  });
  test("the gradients of ⟨g, AB⟩ are gBᵀ and Aᵀg", async () => {
    await fc.assert(
      fc.asyncProperty(edge, edge, edge, seeds, async (m, n, k, seed) => {
        const rng = new Rng(seed);
        const [a, b, g] = [draw(rng, [m, k]), draw(rng, [k, n]), draw(rng, [m, n])];
        const [dA, dB, byA, byB] = await agree(executors, (make) => {
          const [x, y, h] = [make(a, [m, k]), make(b, [k, n]), make(g, [m, n])];
          const gradients = grad(([u, v]: Tensor[]) => ops.sum(ops.mul(ops.matmul(u!, v!), h)))([x, y]);
          return [...gradients, ops.matmul(h, y, { transB: true }), ops.matmul(x, h, { transA: true })];
        });
        expect([difference(dA!, byA!), difference(dB!, byB!)].every((d) => d < 1e-12)).toBe(true);
      }),
      { numRuns: 12, seed: 4 },
    );
  });
});

describe("indexing", () => {
  const cases = fc.record({ outer: sizes(), rows: sizes(), count: sizes(), inner: sizes(), seed: seeds });
  test("gather and scatterAdd are adjoint: ⟨g, gather(x)⟩ = ⟨scatterAdd(g), x⟩; ids may repeat", async () => {
    await fc.assert(
      fc.asyncProperty(cases, async ({ outer, rows, count, inner, seed }) => {
        const rng = new Rng(seed);
        const [x, g] = [draw(rng, [outer, rows, inner]), draw(rng, [outer, count, inner])];
        const ids = Array.from({ length: count }, () => rng.int(rows));
        const [taken, added, gradient] = await agree(executors, (make) => {
          const at = make(ids, [count], "i32");
          const [table, h] = [make(x, [outer, rows, inner]), make(g, [outer, count, inner])];
          const f = (t: Tensor): Tensor => ops.sum(ops.mul(ops.gather(t, at, { axis: 1 }), h));
          return [ops.gather(table, at, { axis: 1 }), ops.scatterAdd(h, at, rows, { axis: 1 }), grad(f)(table)];
        });
        const loop = indicesOf([outer, count, inner]).map(([o, n, i]) => x[(o! * rows + ids[n!]!) * inner + i!]!);
        expect(taken).toEqual(loop);
        expect(dot(g, taken!)).toBeCloseTo(dot(added!, x), 9);
        expect(gradient).toEqual(added);
      }),
      { numRuns: 40, seed: 5 },
    );
  });
  test("takeAlong and scatterAlong are adjoint", async () => {
    await fc.assert(
      fc.asyncProperty(cases, async ({ outer, rows, count, inner, seed }) => {
        const rng = new Rng(seed);
        const [x, g] = [draw(rng, [outer, rows, inner]), draw(rng, [outer, count, inner])];
        const ids = g.map(() => rng.int(rows));
        const [taken, added] = await agree(executors, (make) => {
          const at = make(ids, [outer, count, inner], "i32");
          return [
            ops.takeAlong(make(x, [outer, rows, inner]), at, { axis: 1 }),
            ops.scatterAlong(make(g, [outer, count, inner]), at, rows, { axis: 1 }),
          ];
        });
        const loop = indicesOf([outer, count, inner]).map(([o, , i], k) => x[(o! * rows + ids[k]!) * inner + i!]!);
        expect(taken).toEqual(loop);
        expect(dot(g, taken!)).toBeCloseTo(dot(added!, x), 9);
      }),
      { numRuns: 30, seed: 6 },
    );
  });
  test("cumsum is a running sum along any axis, forwards and backwards", async () => {
    await fc.assert(
      fc.asyncProperty(
        shapes({ minRank: 1, maxRank: 3 }),
        fc.nat(2),
        fc.boolean(),
        seeds,
        async (shape, at, reverse, seed) => {
          const axis = at % shape.length;
          const x = draw(new Rng(seed), shape);
          const [y] = await agree(executors, (make) => [ops.cumsum(make(x, shape), { axis, reverse })]);
          const expected = indicesOf(shape).map((index) => {
            let total = 0;
            for (let j = 0; j < shape[axis]!; j++) {
              if (reverse ? j >= index[axis]! : j <= index[axis]!) total += x[offsetIn(shape, index.with(axis, j))]!;
            }
            return total;
          });
          expect(difference(y!, expected)).toBeLessThan(1e-12);
        },
      ),
      { numRuns: 30, seed: 7 },
    );
  });
});

describe("softmax", () => {
  test("rows sum to 1, a shift changes nothing, the logarithm agrees, excluded entries get 0", async () => {
    await fc.assert(
      fc.asyncProperty(
        shapes({ minRank: 1, maxRank: 3 }),
        fc.nat(2),
        fc.integer({ min: -60, max: 60 }),
        seeds,
        async (shape, at, shift, seed) => {
          const axis = at % shape.length;
          const rng = new Rng(seed);
          const [x, mask] = [draw(rng, shape), maskOf(rng, shape)];
          const poisoned = x.map((v, i) => (mask[i] === 0 ? NaN : v));
          // A shift by up to 60 costs f32 log2(60) of its 24 bits.
          const [p, shifted, logp, masked, fromPoisoned, total] = await agree(
            executors,
            (make) => {
              const [t, m] = [make(x, shape), make(mask, shape)];
              const soft = ops.softmax(t, { axis });
              return [
                soft,
                ops.softmax(ops.add(t, shift), { axis }),
                ops.exp(ops.logSoftmax(t, { axis })),
                ops.softmax(t, { axis, mask: m }),
                ops.softmax(make(poisoned, shape), { axis, mask: m }),
                ops.sum(soft, { axis }),
              ];
            },
            2e-5,
          );
          expect(
            difference(
              total!,
              total!.map(() => 1),
            ),
          ).toBeLessThan(1e-12);
          expect(difference(shifted!, p!)).toBeLessThan(1e-12);
          expect(difference(logp!, p!)).toBeLessThan(1e-12);
          expect(fromPoisoned).toEqual(masked);
          masked!.forEach((v, i) => expect(mask[i] === 0 ? v === 0 : v > 0).toBe(true));
        },
      ),
      { numRuns: 40, seed: 8 },
    );
  });
});

/** One step of a random formula: continuous, bounded growth, its argument kept inside the domain. */
const STEPS: ((x: Expr, y: Expr) => Expr)[] = [
  (x, y) => x.add(y),
  (x, y) => x.sub(y).mul(0.7),
  (x, y) => x.mul(y.tanh()),
  (x, y) => x.div(y.square().add(1)),
  (x, y) => x.max(y),
  (x, y) => x.min(y.neg()),
  (x, y) => select(x.gt(0), x, x.mul(0.1)).add(y.sin()),
  (x) => x.abs(),
  (x) => x.tanh().exp(),
  (x) => x.sin().expm1(),
  (x) => x.square().log1p(),
  (x) => x.square().add(0.5).log(),
  (x) => x.square().add(1).sqrt(),
  (x) => x.square().add(1).rsqrt(),
  (x) => x.cos(),
  (x) => x.sigmoid().neg(),
  (x) => x.erf(),
  (x) => x.clamp(-1, 1.2),
  (x, y) => x.square().add(0.3).pow(y.tanh()),
  (x, y) => x.sub(y.stopGradient()),
];
const ARITY = 3;
/** A formula with sharing: each step takes two of the nodes before it. */
const formulas = fc
  .array(fc.tuple(fc.nat(STEPS.length - 1), fc.nat(20), fc.nat(20)), { minLength: 1, maxLength: 9 })
  .map((steps) => (inputs: readonly Expr[]): Expr => {
    const nodes = [...inputs];
    for (const [step, i, j] of steps) nodes.push(STEPS[step]!(nodes[i % nodes.length]!, nodes[j % nodes.length]!));
    return nodes.slice(inputs.length).reduce((a, b) => a.add(b.mul(0.5)), expr(0));
  });

describe("fuse", () => {
  test("a random formula has its value and its gradient on every executor", async () => {
    await fc.assert(
      fc.asyncProperty(formulas, seeds, async (formula, seed) => {
        const rng = new Rng(seed);
        const shape = [2, 3];
        const inputs = Array.from({ length: ARITY }, () => draw(rng, shape));
        const f = fuse("random", (x, y, z) => formula([x, y, z]));
        const [value] = await agree(
          executors,
          (make) => {
            const tree = inputs.map((x) => make(x, shape));
            return [f(...tree), ...grad((t: Tensor[]) => ops.sum(f(...t)))(tree)];
          },
          // Growth and cancellation inside a formula are not seen in its result.
          1e-4,
        );
        // The evaluator walks the expression without a tensor, a kernel or a derivative.
        const evaluate = evaluator([formula([input(0), input(1), input(2)])]);
        const at = (x: readonly number[]): number => {
          const out = [0];
          evaluate(x, out);
          return out[0]!;
        };
        value!.forEach((v, i) => expect(v).toBe(at(inputs.map((column) => column[i]!))));
        if (detaches(formula)) return; // differences see what stopGradient hides
        const data = inputs.map((x) => ({ shape, dtype: "f32" as const, data: x }));
        const tolerance = { absolute: 5e-8, relative: 5e-8 };
        const { compared, kinks } = await withTensors(
          data,
          (tree) => checkGradient((t) => ops.sum(f(...t)), tree, { kinks: "skip", tolerance }),
          executors.reference,
        );
        checked += compared - kinks;
      }),
      { numRuns: 40, seed: 9 },
    );
    expect(checked).toBeGreaterThan(500);
  });
  let checked = 0;
});

function detaches(formula: (inputs: readonly Expr[]) => Expr): boolean {
  const seen = new Set<number>();
  const visit = (node: Expr): boolean => {
    if (seen.has(node.id)) return false;
    seen.add(node.id);
    return node.op === "detach" || node.args.some(visit);
  };
  return visit(formula([input(0), input(1), input(2)]));
}

// WGSL may assume that there is no NaN (its min and max may drop one): there it only must not reach what does not
// depend on it.
test("NaN goes through on the reference and on wasm, and nowhere reaches what does not depend on it", async () => {
  for (const on of [executors.reference, ...executors.kernels]) {
    const [total, product, rows, sums] = await valuesOn(on, (make) => {
      const x = make([1, NaN, 3, 4], [2, 2]);
      return [ops.sum(x), ops.matmul(x, make([1, 0, 0, 1], [2, 2])), ops.softmax(x), ops.add(x, 1)];
    });
    for (const y of [product!, rows!, sums!]) expect(y.slice(2).some(Number.isNaN)).toBe(false);
    expect(sums).toEqual([2, NaN, 4, 5]);
    if (on.kind === "webgpu") continue;
    expect([total, product!.slice(0, 2), rows!.slice(0, 2)]).toEqual([[NaN], [NaN, NaN], [NaN, NaN]]);
  }
});
