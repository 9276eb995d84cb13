/**
 * Four tiny models in Hugging Face layout against PyTorch in float64 (tests/fixtures/models): logits,
 * log-probabilities, entropy, the gradient of every parameter, ten AdamW steps, and a greedy continuation through the
 * full forward and through the cache, on every executor. f64 agrees to 1e-9, f32 to 1e-4 of the largest element of each
 * tensor.
 */
import { readFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Device } from "../../engine/device.ts";
import { valueAndGrad } from "../../engine/grad.ts";
import { tensor } from "../../engine/ops/create.ts";
import { logProbs, tokenLogProbs } from "../../engine/ops/logProbs.ts";
import { div, mul, neg } from "../../engine/ops/pointwise.ts";
import { sum } from "../../engine/ops/reduce.ts";
import { scope } from "../../engine/scope.ts";
import type { Tensor } from "../../engine/tensor.ts";
import { treeEntries } from "../../engine/tree.ts";
import { modelFromFiles } from "../../pretrained/checkpoint.ts";
import { AdamW, globalNorm } from "../../nn/optimizer.ts";
import { huggingFaceName, type TransformerParams } from "../../nn/parameters.ts";
import { readSafetensors } from "../../nn/safetensors.ts";
import { Decoder } from "../../nn/decoder.ts";
import { generate } from "../../nn/generate.ts";
import { forward, logits, type Model, outputMatrix, pickHidden } from "../../nn/transformer.ts";
import { everyExecutor, relativeError } from "../support/rlExecutors.ts";

interface Fixture {
  readonly input_ids: number[][];
  readonly weights: number[][];
  readonly loss: number;
  readonly token_logprobs: number[][];
  readonly entropy: number[][];
  readonly logits_row0_last: number[];
  readonly logits_sum: number;
  readonly grad_norm: number;
  readonly greedy: { readonly prompt: number[]; readonly tokens: number[]; readonly logprobs: number[] };
  readonly adamw: {
    readonly lr: number;
    readonly betas: [number, number];
    readonly eps: number;
    readonly weight_decay: number;
    readonly clip_norm: number;
    readonly loss: number[];
    readonly grad_norm: number[];
  };
}

const folder = new URL("../fixtures/models/", import.meta.url);
const file = (model: string, name: string): Uint8Array => readFileSync(new URL(`${model}/${name}`, folder));
const text = (model: string, name: string): string => new TextDecoder().decode(file(model, name));
const load = (name: string, device: Device): Model =>
  modelFromFiles(text(name, "config.json"), file(name, "model.safetensors"), device);
const fixtureOf = (name: string): Fixture => JSON.parse(text(name, "fixture.json")) as Fixture;

/** Position t predicts token t + 1: where the predictions are made, and of what. */
function targetsOf(ids: number[][]): { index: Int32Array; targets: Int32Array } {
  const T = ids[0]!.length;
  return {
    index: Int32Array.from(ids.flatMap((_, b) => Array.from({ length: T - 1 }, (_, t) => b * T + t))),
    targets: Int32Array.from(ids.flatMap((row) => row.slice(1))),
  };
}

function lossOf(params: TransformerParams, { config }: Model, fixture: Fixture): [Tensor, Tensor[]] {
  const { device } = params.embedding;
  const { index, targets } = targetsOf(fixture.input_ids);
  const hidden = pickHidden(forward(params, config, tensor(fixture.input_ids, { device, dtype: "i32" })), index);
  const result = tokenLogProbs(hidden, outputMatrix(params), tensor(targets, { device }));
  const weights = tensor(fixture.weights.flat(), { device });
  return [neg(div(sum(mul(weights, result.logProbs)), sum(weights))), [result.logProbs, result.entropy]];
}

describe.each(everyExecutor)("golden models on $name", ({ open, tolerance }) => {
  let device: Device;
  beforeAll(async () => {
    device = await open();
  });
  afterAll(() => device.dispose());

  describe.each(["llama_tiny", "qwen2_tiny", "qwen3_tiny", "gpt2_tiny"])("%s", (name) => {
    const fixture = fixtureOf(name);
    const close = (actual: ArrayLike<number>, expected: ArrayLike<number>, what: string): void =>
      expect(relativeError(actual, expected), what).toBeLessThanOrEqual(tolerance);

    it("logits, of the full forward and through the cache in ragged pieces", async () => {
      const model = load(name, device);
      const V = model.config.vocabSize;
      const ids = fixture.input_ids;
      const all = scope(() =>
        logits(model.params, forward(model.params, model.config, tensor(ids, { device, dtype: "i32" }))),
      );
      const values = (await all.read()) as Float32Array;
      const last = values.subarray((ids[0]!.length - 1) * V, ids[0]!.length * V);
      close(last, fixture.logits_row0_last, "logits_row0_last");
      // A sum of 3,264 logits of either sign: its error scales with what is summed, not with what is left.
      const magnitude = values.reduce((total, x) => total + Math.abs(x), 0);
      const total = values.reduce((a, b) => a + b, 0);
      expect(Math.abs(total - fixture.logits_sum) / magnitude).toBeLessThanOrEqual(tolerance);

      const decoder = new Decoder(model, 2, 40);
      const [row0, row1] = ids as [number[], number[]];
      await decoder.feed([row0.slice(0, 5), row1.slice(0, 1)]);
      await decoder.feed([row0.slice(5, 6), row1.slice(1, 9)]);
      await decoder.feed([[], row1.slice(9)]);
      const cached = await decoder.feed([row0.slice(6), []]);
      close(cached.subarray(0, V), fixture.logits_row0_last, "cached logits");
      decoder.dispose();
    });

    it("loss, log-probabilities, entropy and the gradient of every parameter", async () => {
      const model = load(name, device);
      const { value, aux, grads } = valueAndGrad((params: TransformerParams) => lossOf(params, model, fixture))(
        model.params,
      );
      close(await value.read(), [fixture.loss], "loss");
      close(await aux[0]!.read(), fixture.token_logprobs.flat(), "token_logprobs");
      close(await aux[1]!.read(), fixture.entropy.flat(), "entropy");
      const expected = readSafetensors(file(name, "grads.safetensors"));
      for (const [path, g] of treeEntries(grads)) {
        const golden = expected.get(huggingFaceName(model.config, path))!;
        expect(golden.shape, path).toEqual([...g.shape]);
        close(await g.read(), golden.data as Float64Array, path);
        expected.delete(huggingFaceName(model.config, path));
      }
      expect([...expected.keys()]).toEqual([]);
      close(await globalNorm(grads).read(), [fixture.grad_norm], "grad_norm");
    });

    it("ten steps of AdamW", async () => {
      const model = load(name, device);
      const { lr, betas, eps, weight_decay, clip_norm, loss, grad_norm } = fixture.adamw;
      const optimizer = new AdamW(model.params, {
        lr,
        betas,
        eps,
        weightDecay: weight_decay,
        clipNorm: clip_norm,
        decays: () => true,
      });
      const step = valueAndGrad((params: TransformerParams) => lossOf(params, model, fixture)[0]);
      for (let i = 0; i < loss.length; i++) {
        const { value, norm } = scope(() => {
          const { value, grads } = step(model.params);
          return { value, norm: optimizer.step(grads) };
        });
        close(await value.read(), [loss[i]!], `loss of step ${i}`);
        close(await norm.read(), [grad_norm[i]!], `gradient norm of step ${i}`);
      }
    });

    it("greedy continuation: the cache and the full forward agree with PyTorch", async () => {
      const model = load(name, device);
      const { prompt, tokens, logprobs } = fixture.greedy;
      const [result] = await generate(model, [prompt], { maxNewTokens: tokens.length, temperature: 0, stopIds: [] });
      expect(result!.tokens.map(({ id }) => id)).toEqual(tokens);
      close(
        result!.tokens.map(({ plainLogProb }) => plainLogProb),
        logprobs,
        "through the cache",
      );

      const text = [...prompt, ...tokens];
      const full = scope(() => {
        const hidden = forward(model.params, model.config, tensor([text.slice(0, -1)], { device, dtype: "i32" }));
        const all = logits(model.params, hidden);
        return logProbs(all, tensor([text.slice(1)], { device, dtype: "i32" })).logProbs;
      });
      close((await full.read()).subarray(prompt.length - 1), logprobs, "full forward");
    });
  });
});
