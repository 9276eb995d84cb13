/** A matrix in two parts, wherever a model has one: the path that forms from outside take, such as adapters. */
import { beforeAll, describe, expect, it } from "vitest";
import {
  add,
  type Device,
  device as makeDevice,
  embedding,
  matmul,
  type MatrixForm,
  scope,
  sum,
  tensor,
  Tensor,
  tokenLogProbs,
  treeEntries,
  treeFromLeaves,
  treeLeaves,
  valueAndGrad,
} from "../../engine/index.ts";
import { Rng } from "../../engine/random.ts";
import { forward, initParams, logits, modelConfig, replaceWeights, type TransformerParams } from "../../nn/index.ts";

/** W = half + half, which is exact. */
class Halves implements MatrixForm {
  readonly tensors: { readonly a: Tensor; readonly b: Tensor };
  readonly #transposed: boolean;
  constructor(tensors: { readonly a: Tensor; readonly b: Tensor }, transposed: boolean) {
    this.tensors = tensors;
    this.#transposed = transposed;
  }
  get shape(): Tensor["shape"] {
    return this.tensors.a.shape;
  }
  get dtype(): "f32" | "f64" {
    return this.tensors.a.dtype as "f64";
  }
  get device(): Device {
    return this.tensors.a.device;
  }
  #whole(): Tensor {
    return add(this.tensors.a, this.tensors.b);
  }
  times(x: Tensor, bias?: Tensor, addend?: Tensor): Tensor {
    return matmul(x, this.#whole(), { transB: !this.#transposed, bias, addend });
  }
  rows(ids: Tensor): Tensor {
    return embedding(this.#whole(), ids);
  }
  withTensors(tensors: { readonly a: Tensor; readonly b: Tensor }): Halves {
    return new Halves(tensors, this.#transposed);
  }
}

describe.each(["llama", "gpt2"] as const)("%s with every matrix in halves", (family) => {
  let device: Device;
  beforeAll(async () => {
    device = await makeDevice("reference");
  });
  const config = modelConfig({ family, vocabSize: 11, hiddenSize: 8, layers: 2, heads: 2, maxPositions: 16 });
  const ids = [3, 1, 4, 1, 5, 9, 2, 6];

  const halved = (params: TransformerParams): TransformerParams =>
    replaceWeights(params, (x, path) => {
      const half = (): Tensor => halfOf(x as Tensor);
      return new Halves({ a: half(), b: half() }, family === "gpt2" && path.startsWith("layers"));
    });

  it("gives the logits and log-probabilities of the whole, and each half the whole's gradient", () => {
    const params = initParams(config, new Rng(3), device);
    const parts = halved(params);
    expect(treeLeaves(parts).length).toBeGreaterThan(treeLeaves(params).length);
    const read = (p: TransformerParams): readonly number[] => {
      const x = tensor(Int32Array.from(ids), { device, shape: [2, 4] });
      return [...logits(p, forward(p, config, x)).readSync()];
    };
    expect(scope(() => read(parts))).toEqual(scope(() => read(params)));

    // A limit of one token's logits, so that the output matrix goes through recomputation in chunks.
    for (const maxChunkBytes of [2 ** 25, 11 * 8]) {
      const loss = (p: TransformerParams): Tensor => {
        const x = tensor(Int32Array.from(ids), { device, shape: [2, 4] });
        return sum(tokenLogProbs(forward(p, config, x), p.head ?? p.embedding, x, { maxChunkBytes }).logProbs);
      };
      const whole = valueAndGrad(loss)(params);
      const split = valueAndGrad(loss)(parts);
      expect(split.value.readSync()).toEqual(whole.value.readSync());
      const of = new Map(treeEntries(whole.grads));
      for (const [path, g] of treeEntries(split.grads)) {
        const expected = of.get(path.replace(/\.[ab]$/, "")) ?? of.get(path)!;
        expect(Math.max(...g.readSync().map((v, i) => Math.abs(v - expected.readSync()[i]!)))).toBeLessThan(1e-14);
      }
    }
  });

  it("is walked like any other part of a tree, and made again around other tensors", () => {
    const parts = halved(initParams(config, new Rng(3), device));
    const again = treeFromLeaves(parts, treeLeaves(parts));
    expect(treeLeaves(again)).toEqual(treeLeaves(parts));
    expect(again.layers[0]!.mlp.up.weight).toBeInstanceOf(Halves);
    expect(treeEntries(parts).map(([path]) => path)).toContain("layers.1.attention.o.weight.b");
  });
});

const halfOf = (x: Tensor): Tensor =>
  tensor(
    Float64Array.from(x.readSync(), (v) => v / 2),
    { device: x.device, shape: x.shape, dtype: x.dtype },
  );
