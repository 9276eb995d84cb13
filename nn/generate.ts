/** The continuation of many prompts at once by a model. */
import { longestText, type ModelConfig } from "./config.ts";
import type { Device } from "../engine/device.ts";
import { check } from "../engine/errors.ts";
import { showValue } from "../engine/options.ts";
import { inCode, number, options, type OptionsOf, REQUIRED } from "../engine/optionTable.ts";
import { Rng } from "../engine/random.ts";
import { Decoder } from "./decoder.ts";
import { type SampledToken, SAMPLING } from "./sampler.ts";
import type { Model } from "./transformer.ts";

/**
 * A callback for each drawn token: rows side by side, each in its order. A row whose call returns "stop" ends with that
 * token; only the caller knows the text that a token completes, so this is the place to look for stop strings. A
 * promise is awaited before the next token is drawn. An exception ends the generation.
 * @param row the number of the prompt
 */
export type OnToken = (token: SampledToken, row: number) => "stop" | void | Promise<"stop" | void>;

export const GENERATE = options("generate", {
  ...SAMPLING.fields,
  maxNewTokens: number(REQUIRED, "largest number of tokens that are drawn", { integer: true, min: 1 }),
  stopIds: inCode<readonly number[]>(
    "tokens that end a row; they are part of the result; the model's `eosIds` unless given",
    "a list of ids",
    Array.isArray,
  ),
  rng: inCode<Rng>(
    "row r draws from `rng.split(r)`; not needed for greedy decoding",
    "a random stream",
    (value) => value instanceof Rng,
  ),
  onToken: inCode<OnToken>(
    'is shown each token as soon as it is drawn, and may end its row by returning "stop"',
    "a function of the token and its row",
    (value) => typeof value === "function",
  ),
  // The needed part of an AbortSignal, so that the types do not require the DOM.
  signal: inCode<{ readonly aborted: boolean }>(
    "when it is aborted, rows that are not finished end as they are, with the reason `abort`",
    "an AbortSignal",
    (value) => typeof (value as { readonly aborted?: unknown } | null)?.aborted === "boolean",
  ),
});
/** Options of `generate`. */
export type GenerateOptions = OptionsOf<typeof GENERATE>;

/** The continuation of one prompt. */
export interface Generated {
  readonly tokens: readonly SampledToken[];
  /** `stop`: at a stop token or by `onToken`; `length`: `maxNewTokens` or no position left; `abort`: by the signal. */
  readonly stopReason: "stop" | "length" | "abort";
}

/**
 * The number of tokens that are drawn before the host reads them: a few where each read waits for the device, although
 * tokens behind a stop are thrown away. The drawn tokens do not depend on it.
 */
export const burstFor = ({ kind }: Device): number => (kind === "webgpu" ? 4 : 1);

/** @throws one line, which begins with `where`, if these are no prompts for a model */
export function checkPrompts(where: string, config: ModelConfig, prompts: readonly (readonly number[])[]): void {
  const { vocabSize } = config;
  const maxPositions = longestText(config);
  check(typeof prompts === "object", () => `${where}: expected a list of prompts, got ${showValue(prompts)}`);
  check(prompts.length > 0, () => `${where}: the list of prompts is empty`);
  prompts.forEach((prompt, r) => {
    check(
      typeof prompt === "object",
      () => `${where}: prompt ${r} must be a list of token ids (of tokenizer.encode), got ${showValue(prompt)}`,
    );
    check(prompt.length > 0, () => `${where}: prompt ${r} is empty; it needs at least one token`);
    check(
      prompt.length <= maxPositions,
      () => `${where}: prompt ${r} has ${prompt.length} tokens, the model ${maxPositions} positions`,
    );
    const wrong = prompt.find((id) => !Number.isInteger(id) || id < 0 || id >= vocabSize);
    check(wrong === undefined, () => `${where}: prompt ${r} has the id ${wrong}, the vocabulary ${vocabSize} tokens`);
  });
}

/**
 * Continues every prompt and returns the sampled tokens.
 * @param prompts lists of token ids, of any lengths, each at least one token
 * @throws if a prompt is a text, is longer than the model's positions, or has an id outside the vocabulary; if there is
 *   neither `rng` nor temperature 0
 */
export async function generate(
  model: Model,
  prompts: readonly (readonly number[])[],
  given: GenerateOptions,
): Promise<Generated[]> {
  const { eosIds } = model.config;
  const { maxNewTokens, stopIds = eosIds, rng, onToken, signal, ...sampling } = GENERATE.read(given);
  const maxPositions = longestText(model.config);
  checkPrompts("generate", model.config, prompts);
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
      if (signal?.aborted) {
        for (const row of live) results[row]!.stopReason = "abort";
        break;
      }
      const parts = live.map((row) => {
        const last = results[row]!.tokens.at(-1);
        return { row, tokens: last === undefined ? prompts[row]! : [last.id], rng: streams[row]! };
      });
      const drawn = await decoder.draw(parts, { ...sampling, burst });
      const going: number[] = [];
      for (const [i, row] of live.entries()) {
        const result = results[row]!;
        let ended = false;
        for (const token of drawn[i]!) {
          result.tokens.push(token);
          const answer = onToken?.(token, row);
          const asked = (answer instanceof Promise ? await answer : answer) === "stop";
          if (asked || stopIds.includes(token.id)) result.stopReason = "stop";
          // The last position is read to predict one more token.
          const isFull = prompts[row]!.length + result.tokens.length > capacity;
          ended = result.stopReason === "stop" || result.tokens.length >= maxNewTokens || isFull;
          if (ended || signal?.aborted) break; // tokens of a burst behind it are thrown away
        }
        if (!ended) going.push(row);
      }
      live = going;
    }
  } finally {
    decoder.dispose();
  }
  return results;
}
