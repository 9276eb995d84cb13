/**
 * Sampling text from a model: choosing a token from logits, decoding a batch of ragged rows with a cache, and `generate`.
 *
 * The choice is made on the host in double precision from the logits that the device computed. Every row has a random stream of
 * its own, so what a row samples does not depend on which other rows share its batch.
 */
import { check } from "../engine/errors.ts";
import { tensor } from "../engine/ops/create.ts";
import { checkKeys } from "../engine/options.ts";
import type { Rng } from "../engine/random.ts";
import { scope } from "../engine/scope.ts";
import { KvCache } from "./cache.ts";
import { forward, logits, type Model, pickHidden } from "./transformer.ts";

export interface SamplingOptions {
  /** 0 is greedy; default 1. */
  readonly temperature?: number;
  /** Keep the k most probable tokens; 0 (default) keeps all. */
  readonly topK?: number;
  /** Keep the smallest set of tokens whose probability reaches p (Holtzman et al. 2020); default 1. */
  readonly topP?: number;
  /** Drop tokens less probable than minP times the most probable one (Nguyen et al. 2024); default 0. */
  readonly minP?: number;
}
export const SAMPLING_KEYS = ["temperature", "topK", "topP", "minP"] as const;

export interface SampledToken {
  readonly id: number;
  /** Under softmax(logits / temperature) over the whole vocabulary: the `old` of importance ratios. Greedy: as `plainLogProb`. */
  readonly logProb: number;
  /** Under the distribution it was drawn from, after top-k, top-p and min-p; 0 for greedy. */
  readonly samplingLogProb: number;
  /** Under softmax(logits). */
  readonly plainLogProb: number;
}

export function checkSampling(options: SamplingOptions): Required<SamplingOptions> {
  const { temperature = 1, topK = 0, topP = 1, minP = 0 } = options;
  check(
    temperature >= 0 && Number.isFinite(temperature),
    () => `sampling: temperature must be ≥ 0, got ${temperature}`,
  );
  check(Number.isInteger(topK) && topK >= 0, () => `sampling: topK must be an integer ≥ 0, got ${topK}`);
  check(topP > 0 && topP <= 1, () => `sampling: topP must be in (0, 1], got ${topP}`);
  check(minP >= 0 && minP <= 1, () => `sampling: minP must be in [0, 1], got ${minP}`);
  return { temperature, topK, topP, minP };
}

/** log Σ e^(x/temperature). */
function logSumExp(x: ArrayLike<number>, temperature: number): number {
  let largest = -Infinity;
  for (let i = 0; i < x.length; i++) largest = Math.max(largest, x[i]!);
  let total = 0;
  for (let i = 0; i < x.length; i++) total += Math.exp((x[i]! - largest) / temperature);
  return largest / temperature + Math.log(total);
}

/**
 * Draws one token. Filters apply in the order top-k, top-p, min-p, after the temperature (as in Transformers).
 * @param row logits over the vocabulary
 * @throws if a logit is NaN or infinite
 */
export function sampleToken(row: ArrayLike<number>, options: SamplingOptions, rng: Rng): SampledToken {
  const { temperature, topK, topP, minP } = checkSampling(options);
  check(row.length > 0, () => "sampling: there are no logits");
  for (let i = 0; i < row.length; i++) {
    check(Number.isFinite(row[i]), () => `sampling: the logit of token ${i} is ${row[i]}; the model has diverged`);
  }
  const plainNormalizer = logSumExp(row, 1);
  if (temperature === 0) {
    let id = 0;
    for (let i = 1; i < row.length; i++) if (row[i]! > row[id]!) id = i;
    const plainLogProb = row[id]! - plainNormalizer;
    return { id, logProb: plainLogProb, samplingLogProb: 0, plainLogProb };
  }
  const normalizer = temperature === 1 ? plainNormalizer : logSumExp(row, temperature);
  const logProbOf = (id: number): number => row[id]! / temperature - normalizer;
  const filtering = topK > 0 || topP < 1 || minP > 0;
  const kept = filtering ? filterTokens(row.length, logProbOf, topK, topP, minP) : undefined;
  const keptMass = kept ? kept.reduce((total, id) => total + Math.exp(logProbOf(id)), 0) : 1;
  const count = kept?.length ?? row.length;
  let remaining = rng.uniform() * keptMass;
  let id = kept?.[count - 1] ?? count - 1;
  for (let i = 0; i < count; i++) {
    const candidate = kept?.[i] ?? i;
    remaining -= Math.exp(logProbOf(candidate));
    if (remaining < 0) {
      id = candidate;
      break;
    }
  }
  return {
    id,
    logProb: logProbOf(id),
    samplingLogProb: logProbOf(id) - Math.log(keptMass),
    plainLogProb: row[id]! - plainNormalizer,
  };
}

/** Ids that survive, most probable first; ties in the order of ids. */
function filterTokens(
  vocab: number,
  logProbOf: (id: number) => number,
  topK: number,
  topP: number,
  minP: number,
): number[] {
  let ids = Array.from({ length: vocab }, (_, id) => id).sort((a, b) => logProbOf(b) - logProbOf(a) || a - b);
  if (topK > 0) ids = ids.slice(0, topK);
  if (topP < 1) {
    const mass = ids.reduce((total, id) => total + Math.exp(logProbOf(id)), 0);
    let reached = 0;
    const end = ids.findIndex((id) => (reached += Math.exp(logProbOf(id)) / mass) >= topP);
    if (end >= 0) ids = ids.slice(0, end + 1);
  }
  const floor = logProbOf(ids[0]!) + Math.log(minP);
  return minP > 0 ? ids.filter((id) => logProbOf(id) >= floor) : ids;
}

/** Writes several texts at once: feeds tokens into a cache and returns the logits after each row's last one. */
export class Decoder {
  readonly #model: Model;
  readonly #cache: KvCache;

  constructor(model: Model, rows: number, capacity: number) {
    this.#model = model;
    this.#cache = new KvCache(model.config, rows, capacity, model.params.embedding.device);
  }

  /** Tokens in each row. */
  get lengths(): Int32Array {
    return this.#cache.lengths;
  }

  /**
   * Appends tokens to every row.
   * @param tokens one list per row, ragged; a row with nothing to add may be empty
   * @returns logits [B, V] that predict what follows each row's last token; those of an empty row mean nothing
   */
  async feed(tokens: readonly (readonly number[])[]): Promise<Float32Array | Float64Array> {
    const { config, params } = this.#model;
    const B = this.#cache.rows;
    check(tokens.length === B, () => `Decoder.feed: expected ${B} rows, got ${tokens.length}`);
    const T = Math.max(...tokens.map((row) => row.length));
    check(T > 0, () => "Decoder.feed: every row is empty");
    const ids = new Int32Array(B * T);
    tokens.forEach((row, b) => ids.set(row, b * T));
    const counts = Int32Array.from(tokens, (row) => row.length);
    const last = Int32Array.from(tokens, (row, b) => b * T + Math.max(row.length, 1) - 1);
    const result = scope(() => {
      const { device } = params.embedding;
      const hidden_BTC = forward(params, config, tensor(ids, { device, shape: [B, T] }), {
        cache: { store: this.#cache, counts },
      });
      return logits(params, pickHidden(hidden_BTC, last));
    }, "decode");
    this.#cache.advance(counts);
    const values = await result.read();
    result.dispose();
    return values as Float32Array | Float64Array;
  }

  /** Keeps the given rows in this order. */
  select(rows: readonly number[]): void {
    this.#cache.select(rows);
  }

  dispose(): void {
    this.#cache.dispose();
  }
}

export interface GenerateOptions extends SamplingOptions {
  readonly maxNewTokens: number;
  /** Sampling one of these ends a row; it is part of the result. */
  readonly stopIds?: readonly number[];
  /** Row r draws from `rng.split(r)`. Not needed for greedy decoding. */
  readonly rng?: Rng;
}

export interface Generated {
  readonly tokens: readonly SampledToken[];
  readonly stopReason: "stop" | "length";
}

/** Continues every prompt (ragged, each at least one token) and returns what was sampled. */
export async function generate(
  model: Model,
  prompts: readonly (readonly number[])[],
  options: GenerateOptions,
): Promise<Generated[]> {
  checkKeys("generate", options, [...SAMPLING_KEYS, "maxNewTokens", "stopIds", "rng"]);
  const { maxNewTokens, stopIds = [], rng } = options;
  check(prompts.length > 0, () => "generate: the list of prompts is empty");
  const empty = prompts.findIndex((prompt) => prompt.length === 0);
  check(empty < 0, () => `generate: prompt ${empty} is empty; it needs at least one token`);
  check(
    Number.isInteger(maxNewTokens) && maxNewTokens >= 1,
    () => `generate: maxNewTokens must be ≥ 1, got ${maxNewTokens}`,
  );
  check(
    rng !== undefined || options.temperature === 0,
    () => "generate: sampling needs { rng }; or pass temperature 0",
  );
  const capacity = Math.min(model.config.maxPositions, Math.max(...prompts.map((p) => p.length)) + maxNewTokens);
  const decoder = new Decoder(model, prompts.length, capacity);
  const results = prompts.map((): { tokens: SampledToken[]; stopReason: Generated["stopReason"] } => ({ tokens: [], stopReason: "length" })); // prettier-ignore
  const streams = prompts.map((_, r) => rng?.split(r));
  let live = prompts.map((_, r) => r);
  let pending = prompts;
  try {
    while (live.length > 0) {
      const rows = await decoder.feed(pending);
      const V = model.config.vocabSize;
      const next: number[] = [];
      live.forEach((r, i) => {
        const { temperature, topK, topP, minP } = checkSampling(options);
        const token = sampleToken(rows.subarray(i * V, (i + 1) * V), { temperature, topK, topP, minP }, streams[r]!);
        results[r]!.tokens.push(token);
        if (stopIds.includes(token.id)) results[r]!.stopReason = "stop";
        else if (results[r]!.tokens.length < maxNewTokens && decoder.lengths[i]! < capacity) next.push(i);
      });
      if (next.length < live.length && next.length > 0) decoder.select(next);
      live = next.map((i) => live[i]!);
      pending = live.map((r) => [results[r]!.tokens.at(-1)!.id]);
    }
  } finally {
    decoder.dispose();
  }
  return results;
}
