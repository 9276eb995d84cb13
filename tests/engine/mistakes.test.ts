/**
 * Mistakes of a first day, in plain JavaScript and by people who come from PyTorch: each is one sentence that says what
 * was expected and what came, never a silent number and never a TypeError from our inside.
 */
import { beforeAll, describe, expect, test } from "vitest";
import * as wg from "../../index.ts";

beforeAll(async () => {
  wg.setDevice(await wg.device("reference"));
});

/** What plain JavaScript sees: functions without types. */
type Untyped = (...args: readonly unknown[]) => unknown;
const js = wg as unknown as Readonly<Record<string, Untyped>>;
const call = (name: string, ...args: readonly unknown[]): unknown => js[name]!(...args);

/** [what is called, the beginning of the sentence] */
type Case = readonly [does: () => unknown, says: string];

const x = (): wg.Tensor =>
  wg.tensor([
    [1, 2],
    [3, 4],
  ]);
const ids = (): wg.Tensor => wg.tensor([0, 1], { dtype: "i32" });

const CASES: Readonly<Record<string, readonly Case[]>> = {
  "an element type that does not exist": [
    [
      () => call("tensor", [1.5], { dtype: "float32" }),
      'tensor: expected the dtype "f32", "i32" or "f64", got "float32"',
    ],
    [() => call("zeros", [2], { dtype: "int" }), 'zeros: expected the dtype "f32", "i32" or "f64", got "int"'],
    [() => call("cast", x(), "float"), 'cast: expected the dtype "f32", "i32" or "f64", got "float"'],
  ],
  "a device that was not awaited": [
    [() => call("zeros", [2], { device: wg.device("reference") }), "zeros: expected a device, got a promise; await"],
    [() => call("tensor", [2], { device: "wasm" }), 'tensor: expected a device, got "wasm"'],
    [
      () =>
        call(
          "initParams",
          wg.modelConfig({ vocabSize: 8, hiddenSize: 8, layers: 1, heads: 1 }),
          new wg.Rng(1),
          wg.device("reference"),
        ),
      "initParams: expected a device, got a promise; await device(…)",
    ],
    [() => call("modelFromFiles", "{}", undefined, undefined), "modelFromFiles: expected a device, got missing"],
  ],
  "options by position": [
    [() => call("sum", x(), 0), "sum: expected options { axis, keepdims }, got 0"],
    [() => call("mean", x(), [0, 1]), "mean: expected options { axis, keepdims }, got [0,1]"],
    [() => call("softmax", x(), 1), "softmax: expected options { axis, mask }, got 1"],
    [() => call("argmax", x(), 0), "argmax: expected options { axis }, got 0"],
    [() => call("concat", [x(), x()], 1), "concat: expected options { axis }, got 1"],
    [() => call("stack", [x(), x()], 1), "stack: expected options { axis }, got 1"],
    [() => call("split", x(), 2, 0), "split: expected options { axis }, got 0"],
    [() => call("gather", x(), ids(), 1), "gather: expected options { axis }, got 1"],
    [() => call("cumsum", x(), 0), "cumsum: expected options { axis, reverse }, got 0"],
    [() => call("zeros", [2], "i32"), 'zeros: expected options { dtype, device }, got "i32"'],
    [() => call("arange", 2, 5), "arange: expected options { device }, got 5"],
    [
      () => call("matmul", x(), x(), true),
      "matmul: expected options { transA, transB, bias, addend, activation, scale }, got true",
    ],
    [
      () => new (wg.AdamW as unknown as new (...args: unknown[]) => unknown)({ w: x() }, 0.1),
      "AdamW: expected options { lr, ",
    ],
  ],
  "options of other libraries": [
    [() => call("sum", x(), { dim: 0 }), "sum: unknown option 'dim'; known options: axis, keepdims"],
    [() => call("max", x(), { axes: 0 }), "max: unknown option 'axes'; did you mean 'axis'?"],
    [() => call("variance", x(), { keepdim: true }), "variance: unknown option 'keepdim'; did you mean 'keepdims'?"],
    [() => call("maskedVariance", x(), x(), { axes: 0 }), "maskedVariance: unknown option 'axes'"],
    [() => call("maskedWhiten", x(), x(), { axis: 0 }), "maskedWhiten: unknown option 'axis'"],
    [() => call("logSoftmax", x(), { dim: 0 }), "logSoftmax: unknown option 'dim'"],
    [() => call("tensor", [1], { type: "i32" }), "tensor: unknown option 'type'; did you mean 'dtype'?"],
    [() => call("randomNormal", new wg.Rng(0), [2], { mean: 1 }), "randomNormal: unknown option 'mean'"],
    [() => call("causalMask", 2, { dytpe: "f32" }), "causalMask: unknown option 'dytpe'; did you mean 'dtype'?"],
    [() => call("fuse", "f", (a: wg.Expr) => a, { references: 1 }), `fuse("f"): unknown option 'references'`],
  ],
  "a number where a list belongs": [
    [() => call("zeros", 3), "zeros: a shape is a list of positive integers such as [2, 3], got 3"],
    [() => call("ones", 2, 3), "ones: expected options { dtype, device }, got 3"],
    [() => call("full", undefined, 3), "full: a shape is a list of positive integers such as [2, 3], got missing"],
    [() => call("randomUniform", new wg.Rng(0), 3), "randomUniform: a shape is a list"],
    [() => call("randomNormal", new wg.Rng(0), 3), "randomNormal: a shape is a list"],
    [() => call("tensor", [1, 2], { shape: 2 }), "tensor: a shape is a list"],
    [() => call("reshape", x(), 4), "reshape: expected a list of numbers such as [2, 3], got 4"],
    [() => call("broadcastTo", x(), 4), "broadcastTo: expected a list of numbers"],
    [() => call("permute", x(), 1, 0), "permute: expected a list of numbers"],
    [() => call("slice", x(), 1, 2), "slice: expected a list of numbers such as [2, 3], got 1"],
    [() => call("pad", x(), 1, 1), "pad: expected a list of numbers"],
    [() => call("concat", x(), x()), "concat: expected a list of tensors, got "],
  ],
  "a plain array where a tensor belongs": [
    [() => call("crossEntropy", x(), [0, 1]), "crossEntropy: expected a tensor, got [0,1]; tensor(…) makes one"],
    [() => call("logProbs", x(), [0, 1]), "logProbs: expected a tensor, got [0,1]"],
    [() => call("tokenLogProbs", x(), x(), [0, 1]), "tokenLogProbs: expected a tensor, got [0,1]"],
    [() => call("embedding", x(), [0, 1]), "embedding: expected a tensor, got [0,1]"],
    [() => call("gather", x(), [0, 1]), "gather: expected a tensor, got [0,1]"],
    [() => call("matmul", x(), [[1], [2]]), "matmul: expected a tensor, got [[1],[2]]"],
    [() => call("sum", [1, 2]), "sum: expected a tensor, got [1,2]"],
    [() => call("softmax", [1, 2]), "softmax: expected a tensor, got [1,2]"],
    [() => call("rmsNorm", x(), [1, 1]), "norm: expected a tensor, got [1,1]"],
    [() => call("reshape", [1, 2], [2, 1]), "reshape: expected a tensor, got [1,2]"],
    [() => call("attention", [1, 2], x(), x()), "attention: expected a tensor, got [1,2]"],
    [() => call("assign", x(), [1, 2]), "assign: expected a tensor, got [1,2]"],
    [() => call("forward", {}, {}, [[1, 2]]), "forward: expected a tensor, got [[1,2]]"],
  ],
  "a formula that looks at a value": [
    [
      () => wg.fuse("relu", (a) => ((a as unknown as number) > 0 ? a : a.mul(0))),
      'fuse("relu"): an expression has no value yet: write x.gt(0) and x.exp() for x > 0 and Math.exp(x), ',
    ],
    [
      () => wg.fuse("e", (a) => Math.exp(a as unknown as number) as unknown as wg.Expr),
      'fuse("e"): an expression has no value yet',
    ],
    [
      () => wg.fuse("plus", (a) => ((a as unknown as number) + 1) as unknown as wg.Expr),
      'fuse("plus"): an expression has no value yet',
    ],
    [
      () => wg.fuse("t", (a) => a.add(x() as unknown as wg.Expr)),
      'fuse("t"): expected an expression or a number, got Tensor(f64[2, 2] on reference)',
    ],
    [
      () => call("fuse", "f", (a: wg.Expr) => void a.exp()),
      'fuse("f"): the formula must return an expression or a list of them; it returned undefined',
    ],
    [() => call("fuse", (a: wg.Expr) => a), "): expected a name and a formula"],
  ],
  "a tensor with operators": [
    [() => (x() as unknown as number) + 1, "Tensor(f64[2, 2] on reference) is no number: write add(x, y) for x + y"],
    [() => (x() as unknown as number) > 0, "Tensor(f64[2, 2] on reference) is no number"],
    [() => Math.exp(x() as unknown as number), "Tensor(f64[2, 2] on reference) is no number"],
  ],
  "a function that returns nothing": [
    [
      () => wg.grad(((a: wg.Tensor) => void wg.sum(a)) as unknown as (a: wg.Tensor) => wg.Tensor)(x()),
      "valueAndGrad: the function must return a tensor, or [tensor, aux]; it returned undefined",
    ],
    [
      () => wg.grad((async (a: wg.Tensor) => wg.sum(a)) as unknown as (a: wg.Tensor) => wg.Tensor)(x()),
      "valueAndGrad: the function must return a tensor, or [tensor, aux]; it returned [object Promise]",
    ],
    [
      () => wg.printGraph(((a: wg.Tensor) => void wg.sum(a)) as unknown as (a: wg.Tensor) => wg.Tensor, x()),
      "graphToString: expected a tensor, got missing",
    ],
  ],
  "a method by its name alone": [
    [() => call("objectiveOf", "grpo"), 'objectiveOf: expected an object such as { method: "grpo" }, got "grpo"'],
  ],
};

describe.each(Object.entries(CASES))("%s", (_, cases) => {
  test.each(cases)("%s", (does, says) => {
    let error: unknown;
    try {
      does();
    } catch (thrown) {
      error = thrown;
    }
    expect(error).toBeInstanceOf(wg.WorldgradError);
    expect((error as Error).message).toContain(says);
  });
});

describe("generate", () => {
  const config = wg.modelConfig({ vocabSize: 8, hiddenSize: 4, heads: 1, layers: 1, maxPositions: 8 });
  const model = (): wg.Model => ({ config, params: wg.initParams(config, new wg.Rng(0), wg.currentDevice()) });
  const options = { maxNewTokens: 1, temperature: 0 };
  test.each([
    [
      "a text as prompt",
      ["hello"],
      options,
      'generate: prompt 0 must be a list of token ids (of tokenizer.encode), got "hello"',
    ],
    ["a text alone", "hello", options, 'generate: expected a list of prompts, got "hello"'],
    [
      "one prompt without a list around it",
      [1, 2],
      options,
      "generate: prompt 0 must be a list of token ids (of tokenizer.encode), got 1",
    ],
    ["no options", [[1]], undefined, "generate: maxNewTokens must be an integer ≥ 1, got missing"],
    ["a number for options", [[1]], 5, "generate: expected options { "],
  ])("%s", async (_, prompts, given, says) => {
    await expect(call("generate", model(), prompts, given)).rejects.toThrow(says);
    await expect(call("generate", model(), prompts, given)).rejects.toBeInstanceOf(wg.WorldgradError);
  });
});

describe("norms without eps", () => {
  const row = [3, 4];
  test("rmsNorm takes PyTorch's 2^−23", async () => {
    const y = await wg.rmsNorm(wg.tensor([row]), wg.ones([2])).read();
    const scale = Math.sqrt(12.5 + 2 ** -23);
    expect([...y]).toEqual(row.map((v) => v * (1 / scale)));
  });
  test("layerNorm takes PyTorch's 1e-5", async () => {
    const y = await wg.layerNorm(wg.tensor([row]), wg.ones([2]), wg.zeros([2])).read();
    expect([...y]).toEqual([-1, 1].map((v) => v * 0.5 * (1 / Math.sqrt(0.25 + 1e-5))));
  });
  test("an eps in an object is refused, not NaN", () => {
    expect(() => call("rmsNorm", x(), wg.ones([2]), { eps: 1e-5 })).toThrow(
      "rmsNorm: eps must be ≥ 0, got [object Object]",
    );
  });
});
