/** Continuing prompts with a model, many at once. */
import type { Device } from "../engine/device.ts";
import { check } from "../engine/errors.ts";
import { showValue } from "../engine/options.ts";
import { inCode, number, options, type OptionsOf, REQUIRED } from "../engine/optionTable.ts";
import { Rng } from "../engine/random.ts";
import { Decoder } from "./decoder.ts";
import { type SampledToken, SAMPLING } from "./sampler.ts";
import type { Model } from "./transformer.ts";

const GENERATE = options("generate", {
  ...SAMPLING.fields,
  maxNewTokens: number(REQUIRED, "largest number of tokens that are drawn", { integer: true, min: 1 }),
  stopIds: inCode<readonly number[]>(
    "tokens that end a row; they are part of the result",
    "a list of ids",
    Array.isArray,
  ),
  rng: inCode<Rng>(
    "row r draws from `rng.split(r)`; not needed for greedy decoding",
    "a random stream",
    (value) => value instanceof Rng,
  ),
});
/** How prompts are continued. */
export type GenerateOptions = OptionsOf<typeof GENERATE>;

/** How one prompt was continued. */
export interface Generated {
  readonly tokens: readonly SampledToken[];
  readonly stopReason: "stop" | "length";
}

/**
 * Tokens that are drawn before the host looks: where it has to wait for the device each time, a few, although what is
 * drawn behind a stop is thrown away. What is drawn does not depend on it.
 */
export const burstFor = ({ kind }: Device): number => (kind === "webgpu" ? 4 : 1);

/**
 * Continues every prompt and returns what was sampled.
 * @param prompts lists of token ids, of any lengths, each at least one token
 * @throws if a prompt is a text, is longer than the model's positions, or has an id outside the vocabulary; if there is
 *   neither `rng` nor temperature 0
 */
export async function generate(
  model: Model,
  prompts: readonly (readonly number[])[],
  given: GenerateOptions,
): Promise<Generated[]> {
  const { maxNewTokens, stopIds = [], rng, ...sampling } = GENERATE.read(given);
  const { maxPositions, vocabSize } = model.config;
  check(typeof prompts === "object", () => `generate: expected a list of prompts, got ${showValue(prompts)}`);
  check(prompts.length > 0, () => "generate: the list of prompts is empty");
  prompts.forEach((prompt, r) => {
    check(
      typeof prompt === "object",
      () => `generate: prompt ${r} must be a list of token ids (of tokenizer.encode), got ${showValue(prompt)}`,
    );
    check(prompt.length > 0, () => `generate: prompt ${r} is empty; it needs at least one token`);
    check(
      prompt.length <= maxPositions,
      () => `generate: prompt ${r} has ${prompt.length} tokens, the model ${maxPositions} positions`,
    );
    const wrong = prompt.find((id) => !Number.isInteger(id) || id < 0 || id >= vocabSize);
    check(wrong === undefined, () => `generate: prompt ${r} has the id ${wrong}, the vocabulary ${vocabSize} tokens`);
  });
  check(
    rng !== undefined || sampling.temperature === 0,
    () => "generate: sampling needs { rng }; or pass temperature 0",
  );
  const capacity = Math.min(maxPositions, Math.max(...prompts.map((p) => p.length)) + maxNewTokens);
  const burst = burstFor(model.params.embedding.device);
  const decoder = new Decoder(model, prompts.length, capacity);
  const streams = prompts.map((_, r) => (rng ?? new Rng(0)).split(r));
  const results = prompts.map((): { tokens: SampledToken[]; stopReason: Generated["stopReason"] } => ({
    tokens: [],
    stopReason: "length",
  }));
  try {
    for (let live = prompts.map((_, row) => row); live.length > 0;) {
      const parts = live.map((row) => {
        const last = results[row]!.tokens.at(-1);
        return { row, tokens: last === undefined ? prompts[row]! : [last.id], rng: streams[row]! };
      });
      const drawn = await decoder.draw(parts, { ...sampling, burst });
      live = live.filter((row, i) => {
        const result = results[row]!;
        for (const token of drawn[i]!) {
          result.tokens.push(token);
          if (stopIds.includes(token.id)) result.stopReason = "stop";
          // The last position is read to predict one more token.
          const isFull = prompts[row]!.length + result.tokens.length > capacity;
          if (result.stopReason === "stop" || result.tokens.length >= maxNewTokens || isFull) return false;
        }
        return true;
      });
    }
  } finally {
    decoder.dispose();
  }
  return results;
}
