/**
 * Changes of logits that a request asks for, in vLLM's order (vllm-project/vllm, v1/sample/sampler.py, 3e34265): words
 * that must not occur, biases, then penalties. OpenAI's formula for the last two penalties is
 * logit − count · frequency − [count > 0] · presence, with the number of times that the token was drawn.
 */
import type { SampledToken, Tokenizer } from "../../nn/index.ts";
import type { LogitsProcessor } from "./engine.ts";
import { HttpError } from "./http.ts";

/** The changes that a request asks for. */
export interface Penalties {
  /** Taken from a token's logit for each time it was drawn; in [−2, 2]. */
  readonly frequency: number;
  /** Taken from the logit of a token that was drawn; in [−2, 2]. */
  readonly presence: number;
  /** Divides positive logits of tokens in prompt and answer, multiplies negative ones; above 0 (Keskar et al. 2019). */
  readonly repetition: number;
  /** Added to logits; in [−100, 100]. */
  readonly bias: readonly (readonly [id: number, bias: number])[];
  /** Texts of which the last token is not drawn behind the others. */
  readonly badWords: readonly string[];
}

/**
 * The changes as a function; undefined if there are none.
 * @param vocabSize the number of logits
 * @throws HttpError 400 if a bias is for no token
 */
export function penaltiesOf(
  { frequency, presence, repetition, bias, badWords }: Penalties,
  prompt: readonly number[],
  tokenizer: Tokenizer,
  vocabSize: number,
): LogitsProcessor | undefined {
  const wrong = bias.find(([id]) => id >= vocabSize);
  if (wrong !== undefined) {
    const param = "logit_bias";
    throw new HttpError(400, `${param} must be for ids below ${vocabSize}, the vocabulary, got ${wrong[0]}`, { param });
  }
  const hasPenalties = frequency !== 0 || presence !== 0 || repetition !== 1;
  if (!hasPenalties && bias.length === 0 && badWords.length === 0) return undefined;
  const banned = badWords.flatMap((word) => sequencesOf(word, tokenizer));
  const repeated = new Set(repetition === 1 ? [] : prompt);
  const counts = new Map<number, number>();
  let read = 0;
  return (logits, drawn) => {
    for (; read < drawn.length; read++) {
      const { id } = drawn[read]!;
      counts.set(id, (counts.get(id) ?? 0) + 1);
      if (repetition !== 1) repeated.add(id);
    }
    for (const sequence of banned) if (endsWith(drawn, sequence.slice(0, -1))) logits[sequence.at(-1)!] = -Infinity;
    for (const [id, value] of bias) logits[id]! += value;
    for (const id of repeated) logits[id]! *= logits[id]! > 0 ? 1 / repetition : repetition;
    if (frequency === 0 && presence === 0) return;
    for (const [id, count] of counts) logits[id]! -= count * frequency + presence;
  };
}

/**
 * A word as tokens, at the start of a text and behind a space, as vLLM reads `bad_words`: the second only if it differs
 * in its first token and has as many.
 */
function sequencesOf(word: string, tokenizer: Tokenizer): number[][] {
  const bare = word.trimStart();
  const plain = tokenizer.encode(bare === "" ? word : bare);
  const spaced = tokenizer.encode(` ${bare}`);
  return plain.length === spaced.length && plain[0] !== spaced[0] ? [plain, spaced] : [plain];
}

const endsWith = (drawn: readonly SampledToken[], ids: readonly number[]): boolean =>
  ids.length <= drawn.length && ids.every((id, k) => drawn[drawn.length - ids.length + k]!.id === id);

/** Two changes of logits, one after the other. */
export function inTurn(
  first: LogitsProcessor | undefined,
  then: LogitsProcessor | undefined,
): LogitsProcessor | undefined {
  if (first === undefined || then === undefined) return first ?? then;
  return (logits, drawn) => {
    first(logits, drawn);
    then(logits, drawn);
  };
}
