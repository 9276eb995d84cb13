/**
 * Behaviour of the larger ops that the loop over all ops and samples (ops.test.ts) cannot see: messages, values that
 * must have no influence, two ways to the same result, memory.
 */
import { describe, expect, test } from "vitest";
import { createReferenceBackend } from "../../engine/backends/reference.ts";
import { Device } from "../../engine/device.ts";
import { checkGradient } from "../../engine/check.ts";
import { grad, valueAndGrad } from "../../engine/grad.ts";
import { attention } from "../../engine/ops/attention.ts";
import { arange, randomNormal, tensor, zeros } from "../../engine/ops/create.ts";
import { crossEntropy } from "../../engine/ops/crossEntropy.ts";
import { dropout } from "../../engine/ops/dropout.ts";
import { cast, gather, takeAlong } from "../../engine/ops/indexing.ts";
import { logProbs, tokenLogProbs, type TokenLogProbsOptions } from "../../engine/ops/logProbs.ts";
import { matmul } from "../../engine/ops/matmul.ts";
import { reshape, slice, transpose } from "../../engine/ops/movement.ts";
import { layerNorm, rmsNorm } from "../../engine/ops/norm.ts";
import { add, mul, square } from "../../engine/ops/pointwise.ts";
import { mean, sum } from "../../engine/ops/reduce.ts";
import { rotary, rotaryTables } from "../../engine/ops/rotary.ts";
import { logSoftmax, softmax } from "../../engine/ops/softmax.ts";
import { Rng } from "../../engine/random.ts";
import { scope } from "../../engine/scope.ts";
import type { Tensor } from "../../engine/tensor.ts";
import { expectClose, ints, onReference, values } from "../support/reference.ts";

const { normal, rng } = onReference();

/** A copy of `x` with one element replaced. */
function withElement(x: Tensor, index: number, value: number): Tensor {
  const data = Float64Array.from(x.readSync());
  data[index] = value;
  return tensor(data, { shape: x.shape });
}

describe("matmul", () => {
  test("multiplies", () => {
    expectClose(
      matmul(
        tensor([
          [1, 2],
          [3, 4],
        ]),
        tensor([[5], [6]]),
      ),
      [17, 39],
    );
    expectClose(matmul(tensor([[1, 2]]), tensor([[3, 4]]), { transB: true, scale: 2, bias: tensor([1]) }), [23]);
    expectClose(
      matmul(
        tensor([[1, -2]]),
        tensor([
          [1, 0],
          [0, 1],
        ]),
        { activation: "relu" },
      ),
      [1, 0],
    );
  });
  test("batch axes broadcast as in NumPy", () => {
    const [a, b] = [normal(2, 1, 3, 4), normal(3, 4, 5)];
    const product = matmul(a, b);
    expect(product.shape).toEqual([2, 3, 3, 5]);
    const one = matmul(reshape(slice(a, [1], [2]), [3, 4]), reshape(slice(b, [2], [3]), [4, 5]));
    expectClose(reshape(slice(product, [1, 2], [2, 3]), [3, 5]), one);
  });
  test("gradients through a broadcast batch have the operands' shapes", () => {
    const grads = grad(({ a, b }: { a: Tensor; b: Tensor }) => sum(square(matmul(a, b))))({
      a: normal(2, 1, 3, 4),
      b: normal(3, 4, 5),
    });
    expect([grads.a.shape, grads.b.shape]).toEqual([
      [2, 1, 3, 4],
      [3, 4, 5],
    ]);
  });
  test("an addend has the bits of an addition, and may be an operand", () => {
    const [x, w, bias] = [normal(2, 5, 5), normal(5, 5), normal(5)];
    for (const transB of [false, true]) {
      expectClose(matmul(x, w, { transB, bias, addend: x }), add(x, matmul(x, w, { transB, bias })), 0);
      expectClose(matmul(w, w, { transB, addend: w }), add(w, matmul(w, w, { transB })), 0);
    }
  });
  test("the gradient of an addend is the result's own, without a copy", () => {
    const [x, w, g] = [normal(4, 3), normal(3, 2), normal(4, 2)];
    const [dr, dx] = valueAndGrad(([r, x]: readonly Tensor[]) => sum(mul(matmul(x!, w, { addend: r! }), g)))([
      normal(4, 2),
      x,
    ]).grads;
    expectClose(dr!, g, 0);
    expectClose(dx!, matmul(g, w, { transB: true }), 0);
    const fixed = normal(4, 2); // no gradient flows to an addend that nothing is differentiated by
    expectClose(grad((x: Tensor) => sum(mul(matmul(x, w, { addend: fixed }), g)))(x), dx!, 0);
  });
  test("says what is wrong", () => {
    const addend = zeros([2, 4]);
    expect(() => matmul(zeros([4, 3]), zeros([3, 2]), { addend })).toThrow("an addend of shape [4, 2], got [2, 4]");
    expect(() => matmul(zeros([4, 3]), zeros([3, 4]), { addend: zeros([1, 4]) })).toThrow(
      "of shape [4, 4], got [1, 4]",
    );
    expect(() => matmul(zeros([4, 3]), zeros([5, 2]))).toThrow("matmul: inner dimensions differ: [4, 3] · [5, 2]");
    expect(() => matmul(zeros([4, 3]), zeros([3, 2]), { transB: true })).toThrow("[4, 3] · [3, 2] (transB)");
    expect(() => matmul(zeros([3]), zeros([3, 2]))).toThrow(/reshape a vector to \[1, n\]/);
    expect(() => matmul(zeros([2, 4, 3]), zeros([3, 3, 2]))).toThrow(/batch axes.*\[2\] · \[3\]/);
    expect(() => matmul(zeros([4, 3]), zeros([3, 2]), { bias: zeros([3]) })).toThrow("expected a bias of shape [2]");
    expect(() => matmul(zeros([1, 1]), zeros([1, 1]), { activation: "swish" as "silu" })).toThrow('got "swish"');
    expect(() => matmul(zeros([1, 1]), ints(1))).toThrow(/matmul/);
  });
});

describe("softmax", () => {
  test("works along any axis", () => {
    const x = normal(2, 3, 5);
    expectClose(softmax(x, { axis: 1 }), transpose(softmax(transpose(x, 1, 2)), 1, 2), 0);
    expectClose(
      sum(softmax(x, { axis: 0 }), { axis: 0 }),
      Array.from({ length: 15 }, () => 1),
    );
    expectClose(logSoftmax(tensor([1000, 1000])), [-Math.LN2, -Math.LN2]);
  });
  test("what is excluded has no influence, be it NaN", () => {
    const x = tensor([
      [1, NaN, 2],
      [NaN, NaN, Infinity],
    ]);
    const mask = tensor([
      [1, 0, 1],
      [0, 0, 0],
    ]);
    const p = 1 / (1 + Math.exp(1));
    expectClose(softmax(x, { mask }), [p, 0, 1 - p, 0, 0, 0]);
    expectClose(logSoftmax(x, { mask }), [Math.log(p), -1e30, Math.log(1 - p), -1e30, -1e30, -1e30]);
    for (const f of [softmax, logSoftmax]) {
      const g = values(grad((v: Tensor) => sum(mul(f(v, { mask }), tensor([3, 1, 2]))))(x));
      expect(g.every(Number.isFinite)).toBe(true);
      expect([g[1], ...g.slice(3)]).toEqual([0, 0, 0, 0]);
    }
  });
  test("the mask broadcasts and moves with the axis", () => {
    const x = normal(3, 2);
    const masked = softmax(x, { axis: 0, mask: tensor([[1], [0], [1]]) });
    expectClose(slice(masked, [1], [2]), [0, 0]);
    expectClose(sum(masked, { axis: 0 }), [1, 1]);
  });
  test("says what is wrong", () => {
    expect(() => softmax(normal(2, 3), { axis: 2 })).toThrow("softmax: axis 2 is outside a tensor of rank 2");
    expect(() => softmax(normal(2, 3), { mask: zeros([2, 4]) })).toThrow(/\[2, 4\]/);
    expect(() => logSoftmax(ints(1, 2))).toThrow("softmax: expected a float tensor");
  });
});

test("norms have the moments that they promise", () => {
  const [x, ones, none] = [normal(3, 7), tensor([1, 1, 1, 1, 1, 1, 1]), zeros([7])];
  expectClose(mean(square(rmsNorm(x, ones, 0)), { axis: 1 }), [1, 1, 1]);
  const y = layerNorm(x, ones, none, 0);
  expectClose(mean(y, { axis: 1 }), [0, 0, 0]);
  expectClose(mean(square(y), { axis: 1 }), [1, 1, 1]);
  expect(() => rmsNorm(x, zeros([6]), 1e-6)).toThrow("rmsNorm: x [3, 7] needs weights of shape [7], got [6]");
  expect(() => layerNorm(x, ones, zeros([1]), 1e-6)).toThrow("layerNorm: x [3, 7] needs weights of shape [7], got [1]");
});

describe("rotary", () => {
  test("scores depend on the distance only, lengths not at all", () => {
    const { cos, sin } = rotaryTables(32, 8);
    const [q, k] = [normal(1, 1, 1, 8), normal(1, 1, 1, 8)];
    const score = (at: number, from: number): Tensor =>
      sum(mul(rotary(q, ints(at), cos, sin), rotary(k, ints(from), cos, sin)));
    expectClose(score(3, 1), score(30, 28));
    expect(Math.abs(values(score(3, 1))[0]! - values(score(3, 2))[0]!)).toBeGreaterThan(1e-3);
    expectClose(sum(square(rotary(q, ints(31), cos, sin))), sum(square(q)));
    expectClose(rotary(q, ints(0), cos, sin), q, 0);
  });
  test("positions of a row serve every row", () => {
    const { cos, sin } = rotaryTables(4, 2, 100);
    const x = normal(2, 3, 1, 2);
    const each = rotary(x, tensor(Int32Array.of(0, 1, 2, 0, 1, 2), { shape: [2, 3] }), cos, sin);
    expectClose(rotary(x, arange(3), cos, sin), each, 0);
  });
  test("says what is wrong", () => {
    const { cos, sin } = rotaryTables(4, 2);
    const x = normal(1, 2, 1, 2);
    expect(() => rotary(x, ints(3, 4), cos, sin)).toThrow("rotary: id 4 at position 1 is outside a table of 4 rows");
    expect(() => rotary(normal(1, 2, 1, 4), ints(0, 1), cos, sin)).toThrow(/expected tables \[P, 2\]/);
    expect(() => rotaryTables(4, 3)).toThrow("must be even");
  });
});

describe("attention", () => {
  const qkv = (t: number, s: number, heads = 4, kvHeads = 2): [Tensor, Tensor, Tensor] => [
    normal(2, t, heads, 3),
    normal(2, s, kvHeads, 3),
    normal(2, s, kvHeads, 3),
  ];
  test("is softmax(q·kᵀ/√D)·v per head, grouped heads read theirs", () => {
    const [q, k, v] = qkv(3, 5);
    const o = attention(q, k, v, { causal: false });
    for (let h = 0; h < 4; h++) {
      const head = (x: Tensor, i: number): Tensor => reshape(slice(x, [1, 0, i], [2, x.shape[1]!, i + 1]), [-1, 3]);
      const kv = Math.floor(h / 2);
      const p = softmax(matmul(head(q, h), head(k, kv), { transB: true, scale: 1 / Math.sqrt(3) }));
      expectClose(head(o, h), matmul(p, head(v, kv)));
    }
  });
  test("queries that continue a cache see what they saw in the whole sequence", () => {
    const [q, k, v] = qkv(6, 6);
    const whole = attention(q, k, v);
    const rest = attention(slice(q, [0, 4]), k, v, { start: ints(4, 4) });
    expectClose(rest, slice(whole, [0, 4]), 0);
    // What stands in the cache behind the query's position is not read.
    const early = attention(slice(q, [0, 2], [2, 3]), withElement(k, 5 * 6, NaN), withElement(v, 4 * 6, NaN), {
      start: ints(2, 2),
    });
    expectClose(early, slice(whole, [0, 2], [2, 3]), 0);
  });
  test("segments are as separate as rows, and padding has no influence on values or gradients, be it NaN", () => {
    const [q, k, v] = [normal(1, 5, 2, 3), normal(1, 5, 1, 3), normal(1, 5, 1, 3)];
    const segments = tensor([[0, 0, 1, 1, -1]], { dtype: "i32" });
    const o = attention(q, k, v, { segments });
    const second = (x: Tensor): Tensor => slice(x, [0, 2], [1, 4]);
    expectClose(second(o), attention(second(q), second(k), second(v)));
    expectClose(slice(o, [0, 4]), [0, 0, 0, 0, 0, 0], 0);

    const gradients = (x: readonly [Tensor, Tensor, Tensor]): number[][] =>
      grad((t: readonly Tensor[]) => sum(square(slice(attention(t[0]!, t[1]!, t[2]!, { segments }), [0], [1, 4]))))(
        x,
      ).map(values);
    const poisoned = [withElement(q, 4 * 6, NaN), withElement(k, 4 * 3, NaN), withElement(v, 4 * 3, NaN)] as const;
    expect(gradients(poisoned)).toEqual(gradients([q, k, v]));
  });
  test("says what is wrong", () => {
    const [q, k, v] = qkv(3, 5);
    const start = ints(0, 0);
    expect(() => attention(q, k, normal(2, 4, 2, 3))).toThrow("[2, 3, 4, 3] · [2, 5, 2, 3] · [2, 4, 2, 3]");
    expect(() => attention(q, normal(2, 5, 3, 3), normal(2, 5, 3, 3))).toThrow("4 query heads are no multiple of 3");
    expect(() => attention(q, normal(2, 5, 2, 4), normal(2, 5, 2, 4))).toThrow("head dimensions differ");
    expect(() => attention(q, k, v, { start: ints(0) })).toThrow("expected start of shape [2], got [1]");
    expect(() => attention(q, k, v, { start, segments: start })).toThrow("cannot be combined");
    expect(() => attention(q, k, v, { start, causal: false })).toThrow("start has no meaning without causal");
    expect(() => attention(q, k, v, { window: 2, causal: false })).toThrow("window has no meaning without causal");
    for (const window of [0, 1.5, -3, 2 ** 31]) {
      expect(() => attention(q, k, v, { window })).toThrow(
        `attention: window is ${window}, expected an integer from 1`,
      );
    }
    expect(() => attention(q, k, v, { segments: cast(zeros([2, 5]), "i32") })).toThrow("as many queries as keys");
    expect(() => attention(q, k, v, { casual: true } as object)).toThrow("did you mean 'causal'?");
  });
});

describe("logProbs", () => {
  test("agrees with log-softmax, at a temperature", () => {
    const [logits, targets] = [normal(4, 7), ints(0, 6, 3, 3)];
    const temperature = tensor([0.5, 1, 2, 0.7]);
    const all = logSoftmax(mul(logits, reshape(tensor([2, 1, 0.5, 1 / 0.7]), [4, 1])));
    const result = logProbs(logits, targets, temperature);
    expectClose(result.logProbs, takeAlong(all, reshape(targets, [4, 1])));
    expectClose(result.entropy, mul(sum(mul(softmax(all), all), { axis: 1 }), -1));
    expectClose(logProbs(zeros([1, 8]), ints(2), 3).entropy, [Math.log(8)]);
  });
  test("a temperature can be learnt: its gradient is that of the logits divided by it", async () => {
    const logits = normal(3, 5);
    const loss = ({ logProbs: l, entropy }: { logProbs: Tensor; entropy: Tensor }): Tensor =>
      sum(add(l, mul(entropy, 0.3)));
    const f = (t: Tensor): Tensor => loss(logProbs(logits, ints(0, 1, 2), t));
    await checkGradient(f, tensor([1.3, 0.8, 2]), { tolerance: { relative: 1e-8 } });
  });
  test("says what is wrong", () => {
    expect(() => logProbs(normal(2, 5), ints(0, 5))).toThrow(
      "logProbs: id 5 at position 1 is outside a table of 5 rows",
    );
    expect(() => logProbs(normal(2, 5), ints(0))).toThrow("need one value per row [2], got i32[1]");
    expect(() => logProbs(normal(2, 5), ints(0, 1), 0)).toThrow("the temperature must be positive, got 0");
  });
});

describe("tokenLogProbs", () => {
  const chunked = { maxChunkBytes: 3 * 11 * 8 }; // three rows of eleven logits
  function run(options: TokenLogProbsOptions): { result: number[][]; first: number[][]; second: number[][] } {
    const draw = new Rng(5);
    const make = (name: string, shape: number[]): Tensor => randomNormal(draw.split(name), shape);
    const tree = {
      hidden: make("hidden", [2, 4, 5]),
      weight: make("weight", [11, 5]),
      bias: make("bias", [11]),
      temperature: add(square(make("temperature", [2, 4])), 0.5),
    };
    const targets = tensor(Int32Array.of(0, 10, 3, 3, 7, 1, 0, 9), { shape: [2, 4] });
    const outputs = (t: typeof tree): Tensor[] => {
      const { bias, temperature } = t;
      const r = tokenLogProbs(t.hidden, t.weight, targets, { bias, temperature, ...options });
      return [r.logProbs, r.entropy];
    };
    const loss = (t: typeof tree): Tensor => outputs(t).reduce((a, y) => add(a, sum(mul(square(y), y))), tensor(0));
    const gradient = grad(loss);
    const second = grad((t: typeof tree) =>
      Object.values(gradient(t)).reduce((a, g) => add(a, sum(square(g))), tensor(0)),
    );
    return {
      result: outputs(tree).map(values),
      first: Object.values(gradient(tree)).map(values),
      second: Object.values(second(tree)).map(values),
    };
  }
  test("is the same in one piece and in chunks, with its first and second derivatives", () => {
    const [whole, parts] = [run({}), run(chunked)];
    expect(parts.result).toEqual(whole.result);
    for (const order of ["first", "second"] as const) {
      whole[order].forEach((g, k) => expectClose(tensor(parts[order][k]!), g, 1e-9 * Math.max(1, ...g.map(Math.abs))));
    }
  });
  test("in chunks, [tokens, V] never exists", () => {
    const peakWith = (maxChunkBytes: number): number => {
      const own = new Device(createReferenceBackend("f64"), "f64");
      const make = (...shape: number[]): Tensor => randomNormal(rng(), shape, { device: own });
      const targets = tensor(new Int32Array(64), { device: own });
      scope(() => {
        const f = (t: Tensor[]): Tensor => sum(tokenLogProbs(t[0]!, t[1]!, targets, { maxChunkBytes }).logProbs);
        valueAndGrad(f)([make(64, 2), make(500, 2)]);
      });
      return own.backend.stats().peakBytes;
    };
    const logits = 64 * 500 * 8;
    expect(peakWith(2 ** 25)).toBeGreaterThan(2 * logits); // they and their gradient
    expect(peakWith(logits / 16)).toBeLessThan(logits / 2);
  });
  test("says what is wrong", () => {
    const weight = zeros([3, 2]);
    expect(() => tokenLogProbs(zeros([4, 3]), weight, ints(0, 0, 0, 0))).toThrow("got f64[4, 3] · f64[3, 2]");
    expect(() => tokenLogProbs(zeros([2, 2]), weight, ints(0))).toThrow("needs one target per token, got i32[1]");
    expect(() => tokenLogProbs(zeros([1, 2]), weight, ints(3))).toThrow("tokenLogProbs: id 3 at position 0");
    expect(() => tokenLogProbs(zeros([1, 2]), weight, ints(0), { temperature: -1 })).toThrow(
      "must be positive, got -1",
    );
  });
});

describe("crossEntropy", () => {
  const logits = [
    [1, 2, 3],
    [0, 0, 0],
    [5, 1, 1],
  ];
  test("is the mean negative log-probability, weighted where asked", () => {
    const logp = [2, 0, 1].map(
      (target, i) => logits[i]![target]! - Math.log(logits[i]!.reduce((s, z) => s + Math.exp(z), 0)),
    );
    expectClose(crossEntropy(tensor(logits), ints(2, 0, 1)), [-(logp[0]! + logp[1]! + logp[2]!) / 3]);
    const weights = tensor([1, 0, 3]);
    expectClose(crossEntropy(tensor(logits), ints(2, 0, 1), { weights }), [-(logp[0]! + 3 * logp[2]!) / 4]);
    const ignored = crossEntropy(tensor(logits), ints(2, -100, 1), { ignoreIndex: -100 });
    expectClose(ignored, [-(logp[0]! + logp[2]!) / 2]);
    expectClose(
      crossEntropy(tensor(logits), ints(2, -100, 1), { ignoreIndex: -100, weights }),
      crossEntropy(tensor(logits), ints(2, 0, 1), { weights }),
    );
  });
  test("rows that do not count get no gradient; without any that counts the loss is 0", () => {
    const g = values(grad((x: Tensor) => crossEntropy(x, ints(2, -100, 1), { ignoreIndex: -100 }))(tensor(logits)));
    expect(g.slice(3, 6)).toEqual([0, 0, 0]);
    expect(g.every((v, i) => (i >= 3 && i < 6) || v !== 0)).toBe(true);
    const none = valueAndGrad((x: Tensor) => crossEntropy(x, ints(-1, -1, -1), { ignoreIndex: -1 }))(tensor(logits));
    expect([...values(none.value), ...values(none.grads)]).toEqual(Array.from({ length: 10 }, () => 0));
  });
  test("says what is wrong", () => {
    expect(() => crossEntropy(tensor(logits), ints(2, -100, 1))).toThrow("crossEntropy: id -100 at position 1");
    expect(() => crossEntropy(tensor(logits), ints(2, 1))).toThrow("[3, 3] · [2]");
  });
});

describe("dropout", () => {
  test("keeps the mean: what survives is divided by 1 − p, and its gradient likewise", () => {
    const x = tensor(new Float64Array(4000).fill(1));
    const y = values(dropout(x, 0.25, rng()));
    const kept = y.filter((v) => v !== 0);
    expect(new Set(kept)).toEqual(new Set([1 / 0.75]));
    expect(Math.abs(kept.length / 4000 - 0.75)).toBeLessThan(0.03);
    expect(values(grad((v: Tensor) => sum(dropout(v, 0.25, rng())))(x))).toEqual(y);
    expect(values(dropout(x, 0.25, rng().split("other")))).not.toEqual(y);
  });
  test("p = 0 does nothing; p must be in [0, 1)", () => {
    const x = normal(3);
    expect(dropout(x, 0, rng()).storage).toBe(x.storage);
    for (const p of [1, -0.1, NaN])
      expect(() => dropout(x, p, rng())).toThrow(`dropout: p must be in [0, 1), got ${p}`);
  });
});

test("permuting heads of attention permutes its result", () => {
  const [q, k, v] = [normal(1, 3, 2, 2), normal(1, 3, 2, 2), normal(1, 3, 2, 2)];
  const swap = (x: Tensor): Tensor => gather(x, ints(1, 0), { axis: 2 });
  expectClose(attention(swap(q), swap(k), swap(v)), swap(attention(q, k, v)), 0);
});
