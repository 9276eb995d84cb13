/**
 * The checkpoints of tests/fixtures/models/families and what Transformers computed with them (made by its make.py), and
 * how far an executor is from that: tests/pretrained/families.test.ts holds it to bounds, scripts/familyTable.ts shows
 * it.
 */
import { readFileSync } from "node:fs";
import type { Device } from "../../engine/device.ts";
import { valueAndGrad } from "../../engine/grad.ts";
import { tensor } from "../../engine/ops/create.ts";
import { logProbs } from "../../engine/ops/logProbs.ts";
import { neg } from "../../engine/ops/pointwise.ts";
import { mean } from "../../engine/ops/reduce.ts";
import { scope } from "../../engine/scope.ts";
import type { Tensor } from "../../engine/tensor.ts";
import { treeEntries } from "../../engine/tree.ts";
import { modelFromTensors } from "../../pretrained/checkpoint.ts";
import { generate } from "../../nn/generate.ts";
import { huggingFaceName, type TransformerParams } from "../../nn/parameters.ts";
import { readSafetensors } from "../../nn/safetensors.ts";
import { forward, logits, type Model, pickHidden } from "../../nn/transformer.ts";
import { relativeError } from "./rlExecutors.ts";

/** A family's weights with a configuration, and what Transformers computes. */
export interface Variant {
  readonly weights: string;
  readonly config: Record<string, unknown>;
  readonly loss: number;
  readonly logits: number[];
  readonly grads: Record<string, [norm: number, product: number]>;
  readonly greedy: { readonly prompt: number[]; readonly tokens: number[]; readonly logprobs: number[] };
}

const folder = new URL("../fixtures/models/families/", import.meta.url);
export const { ids, positions, variants } = JSON.parse(readFileSync(new URL("goldens.json", folder), "utf8")) as {
  readonly ids: number[][];
  readonly positions: number[];
  readonly variants: Record<string, Variant>;
};
export const T: number = ids[0]!.length;
export const names: readonly string[] = Object.keys(variants);

export function load(name: string, device: Device): Model {
  const { config, weights } = variants[name]!;
  const bytes = new Uint8Array(readFileSync(new URL(`${weights}/model.safetensors`, folder)));
  return modelFromTensors(config, readSafetensors(bytes), device);
}

export const ints = (values: readonly (readonly number[])[], device: Device): Tensor =>
  tensor(
    values.map((row) => [...row]),
    { device, dtype: "i32" },
  );

/** Logits of all positions of the rows, [B · T][V]. */
export async function allLogits(model: Model, rows: readonly (readonly number[])[]): Promise<number[][]> {
  const { params, config } = model;
  const all = scope(() => logits(params, forward(params, config, ints(rows, params.embedding.device))));
  const values = [...(await all.read())];
  all.dispose();
  return rows.flatMap((row, b) =>
    row.map((_, t) => values.slice((b * row.length + t) * config.vocabSize).slice(0, config.vocabSize)),
  );
}

/** The mean of −log p over all tokens but the first of each row, and its gradient by the checkpoint's names. */
export async function lossAndGradient(
  { params, config }: Model,
  device: Device,
): Promise<{ readonly loss: number; readonly gradient: ReadonlyMap<string, readonly number[]> }> {
  const index = Int32Array.from(ids.flatMap((_, b) => Array.from({ length: T - 1 }, (_, t) => b * T + t)));
  const targets = Int32Array.from(ids.flatMap((row) => row.slice(1)));
  const { value, grads } = valueAndGrad((tree: TransformerParams) => {
    const hidden = pickHidden(forward(tree, config, ints(ids, device)), index);
    return neg(mean(logProbs(logits(tree, hidden), tensor(targets, { device })).logProbs));
  })(params);
  const gradient = new Map<string, readonly number[]>();
  for (const [path, g] of treeEntries(grads)) gradient.set(huggingFaceName(config, path), [...(await g.read())]);
  return { loss: await value.item(), gradient };
}

/** How far this library is from Transformers; differences are relative to the largest value of their kind. */
export interface Difference {
  readonly logits: number;
  readonly loss: number;
  /** The worst parameter: its gradient's norm, and its product with one vector, relative to the norm. */
  readonly gradient: number;
  readonly gradientOf: string;
  /** Whether the 16 greedy tokens are the same, and how far their log-probabilities through the cache are. */
  readonly sameText: boolean;
  readonly textLogProbs: number;
}

/** @throws if there is a gradient of other parameters than Transformers' */
export async function difference(name: string, device: Device): Promise<Difference> {
  const golden = variants[name]!;
  const model = load(name, device);
  const own = await allLogits(model, ids);
  const picked = ids.flatMap((_, b) => positions.flatMap((t) => own[b * T + t]!));
  const { loss, gradient } = await lossAndGradient(model, device);
  const expected = new Map(Object.entries(golden.grads));
  let worst = { gradient: 0, gradientOf: "" };
  for (const [key, values] of gradient) {
    const [norm, product] = expected.get(key) ?? [NaN, NaN];
    const along = values.reduce((sum, x, i) => sum + x * Math.cos(0.7 * i + 0.3), 0);
    const far = Math.max(Math.abs(Math.hypot(...values) - norm), Math.abs(along - product)) / norm;
    if (!(far <= worst.gradient)) worst = { gradient: far, gradientOf: key };
    expected.delete(key);
  }
  if (expected.size > 0) throw new Error(`${name}: no gradient of ${[...expected.keys()].join(", ")}`);
  const { prompt, tokens, logprobs } = golden.greedy;
  const [text] = await generate(model, [prompt], { maxNewTokens: tokens.length, temperature: 0, stopIds: [] });
  const drawn = text!.tokens;
  return {
    logits: relativeError(picked, golden.logits),
    loss: relativeError([loss], [golden.loss]),
    ...worst,
    sameText: JSON.stringify(drawn.map(({ id }) => id)) === JSON.stringify(tokens),
    textLogProbs: relativeError(
      drawn.map(({ plainLogProb }) => plainLogProb),
      logprobs,
    ),
  };
}
