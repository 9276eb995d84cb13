/** The weights of attention, op by op, against what the fused op makes of the same heads. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { device as makeDevice, type Device, matmul, permute, Rng, scope, sum, tensor } from "../../engine/index.ts";
import { broadcastTo, reshape, slice } from "../../engine/ops/movement.ts";
import type { Tensor } from "../../engine/tensor.ts";
import { attentionWeights, readText } from "../../nn/attentionWeights.ts";
import { forward } from "../../nn/transformer.ts";
import { relativeError, reference, wasm } from "../support/rlExecutors.ts";
import { toyModel } from "../support/rlToy.ts";

/** The values [B, S, K, D] for each of H heads: [B, H, S, D]. */
function ofHeads(v: Tensor, heads: number): Tensor {
  const [B, S, K, D] = v.shape as [number, number, number, number];
  const repeated = broadcastTo(reshape(v, [B, S, K, 1, D]), [B, S, K, heads / K, D]);
  return permute(reshape(repeated, [B, S, heads, D]), [0, 2, 1, 3]);
}

const rng = new Rng(4);
const text = Int32Array.from({ length: 11 }, () => rng.int(9));

describe.each([reference, wasm])("on $name", ({ open, tolerance }) => {
  let on: Device;
  beforeAll(async () => void (on = await open()));
  afterAll(() => on.dispose());

  test("weights · V is the result of the fused op, in every layer, with shared key heads and without", async () => {
    for (const kvHeads of [1, 2]) {
      const { params, config } = toyModel(on, 2, { kvHeads });
      const found: { layer: number; made: Tensor; out: Tensor; sums: Tensor }[] = [];
      forward(params, config, tensor(text, { device: on, shape: [1, 11] }), {
        watch(layer, { q, k, v, out }) {
          const weights = attentionWeights(q, k);
          const made = permute(matmul(weights, ofHeads(v, config.heads)), [0, 2, 1, 3]);
          found.push({ layer, made, out, sums: sum(weights, { axis: -1 }) });
        },
      });
      expect(found.map(({ layer }) => layer)).toEqual([0, 1]);
      for (const { made, out, sums } of found) {
        expect(relativeError(await made.read(), await out.read())).toBeLessThan(tolerance);
        for (const total of await sums.read()) expect(total).toBeCloseTo(1, 5);
      }
    }
  });

  test("the last position of a text: its rows of the same weights, and its hidden state", async () => {
    const model = toyModel(on, 3);
    const { attention, hidden } = readText(model, [...text]);
    const whole: Tensor[] = [];
    const ids = tensor(text, { device: on, shape: [1, 11] });
    const states = forward(model.params, model.config, ids, {
      watch: (_, { q, k }) => whole.push(slice(attentionWeights(q, k), [0, 0, 10], [1, 2, 11])),
    });
    expect(attention.map(({ shape }) => shape)).toEqual([
      [2, 11],
      [2, 11],
    ]);
    for (const [layer, weights] of attention.entries()) {
      expect(relativeError(await weights.read(), await whole[layer]!.read())).toBeLessThan(tolerance);
    }
    expect(relativeError(await hidden.read(), await slice(states, [0, 10], [1, 11]).read())).toBeLessThan(tolerance);
  });
});

test("what does not fit is one line", async () => {
  const on = await makeDevice("reference");
  scope(() => {
    const x = (shape: number[]): Tensor =>
      tensor(new Float64Array(shape.reduce((a, b) => a * b)), { device: on, shape });
    expect(() => attentionWeights(x([1, 3, 2, 4]), x([1, 2, 2, 4]))).toThrow("expected T ≤ S");
    expect(() => attentionWeights(x([3, 4]), x([3, 4]))).toThrow("expected q [B, T, H, D]");
    expect(() => readText(toyModel(on), [])).toThrow("readText: expected at least one token, got none");
  });
  on.dispose();
});
