/**
 * `generation_config.json`: the sampling options that a model's makers recommend (Transformers' GenerationConfig).
 * Fields that change sampling and are not supported here are listed in `unsupported`, so that a program can report
 * them; `json` keeps all fields, for writing the file again.
 */
import { check } from "../../engine/errors.ts";
import { showValue } from "../../engine/options.ts";
import { SAMPLING, type SamplingOptions } from "../../nn/sampler.ts";

type Json = Readonly<Record<string, unknown>>;

/** The sampling options that a model's makers recommend. */
export interface GenerationConfig {
  readonly bosId?: number;
  /** All ids that end a text; empty if the file names none. */
  readonly eosIds: readonly number[];
  readonly padId?: number;
  /** Options of `generate`; temperature 0 where the file says `do_sample: false`, as it does by default. */
  readonly sampling: SamplingOptions;
  readonly maxNewTokens?: number;
  /** Fields, with their values, that change sampling and have no counterpart in `generate`. */
  readonly unsupported: Json;
  /** The file's content. */
  readonly json: Json;
}

/** Values, beside null, at which a field does nothing. */
const NEUTRAL: Readonly<Record<string, readonly unknown[]>> = {
  repetition_penalty: [1],
  encoder_repetition_penalty: [1],
  no_repeat_ngram_size: [0],
  num_beams: [1],
  num_beam_groups: [1],
  typical_p: [1],
  epsilon_cutoff: [0],
  eta_cutoff: [0],
  top_h: [],
  bad_words_ids: [],
  forced_bos_token_id: [],
  forced_eos_token_id: [],
  suppress_tokens: [],
  begin_suppress_tokens: [],
  sequence_bias: [],
  guidance_scale: [1],
  min_length: [0],
  min_new_tokens: [0],
  penalty_alpha: [0],
  stop_strings: [],
};

/**
 * Reads a parsed `generation_config.json`.
 * @throws WorldgradError naming the field that is malformed
 */
export function generationFromHuggingFace(json: unknown): GenerationConfig {
  const isObject = typeof json === "object" && json !== null && !Array.isArray(json);
  check(isObject, () => `generation_config.json: is ${showValue(json)}, expected an object`);
  const fields = json as Json;
  const wrong = (name: string, expected: string) => () =>
    `generation_config.json: '${name}' is ${showValue(fields[name])}, expected ${expected}`;
  const number = (name: string, fits: (n: number) => boolean, expected: string): number | undefined => {
    const value = fields[name] ?? undefined;
    check(value === undefined || (typeof value === "number" && fits(value)), wrong(name, expected));
    return value;
  };
  const ids = (name: string): number[] => {
    const value = fields[name] ?? [];
    const list: unknown[] = Array.isArray(value) ? value : [value];
    check(
      list.every((id) => Number.isSafeInteger(id)),
      wrong(name, "a token id or a list of them"),
    );
    return (list as number[]).filter((id) => id >= 0);
  };
  const doSample = fields["do_sample"] ?? false;
  check(typeof doSample === "boolean", wrong("do_sample", "true or false"));
  const integer = (least: number) => (n: number) => Number.isSafeInteger(n) && n >= least;
  const { accepts, expected } = SAMPLING.fields.temperature;
  const temperature = number("temperature", accepts, `a number ${expected}`);
  // Transformers' own default of top_k, for a file that samples and leaves it out.
  const topK = number("top_k", integer(-1), "an integer ≥ −1") ?? (fields["top_k"] === null ? 0 : 50);
  const topP = number("top_p", (n) => n >= 0 && n <= 1, "a number in [0, 1]");
  const minP = number("min_p", (n) => n >= 0 && n <= 1, "a number in [0, 1]");
  const maxNewTokens = number("max_new_tokens", integer(1), "an integer ≥ 1");
  const sampling: SamplingOptions = doSample
    ? {
        temperature: temperature ?? 1,
        // vLLM's files write −1 for all tokens. top_p = 0 leaves the most likely token only, as top_k = 1 does.
        topK: topP === 0 ? 1 : Math.max(topK, 0),
        ...(topP === undefined || topP === 0 ? {} : { topP }),
        ...(minP === undefined ? {} : { minP }),
      }
    : { temperature: 0 };
  const acts = ([name, value]: readonly [string, unknown]): boolean =>
    value !== null && Object.hasOwn(NEUTRAL, name) && !NEUTRAL[name]!.includes(value);
  const [bosId, padId] = [ids("bos_token_id")[0], ids("pad_token_id")[0]];
  return {
    ...(bosId === undefined ? {} : { bosId }),
    eosIds: ids("eos_token_id"),
    ...(padId === undefined ? {} : { padId }),
    sampling,
    ...(maxNewTokens === undefined ? {} : { maxNewTokens }),
    unsupported: Object.fromEntries(Object.entries(fields).filter(acts)),
    json: fields,
  };
}
