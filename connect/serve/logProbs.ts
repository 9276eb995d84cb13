/**
 * `logprobs` of answers in the two forms of the OpenAI API. A token's name is its text as it stands within an answer,
 * with the space that decoding would take from it at the start of a text (vllm-project/vllm#44319). Bytes that are no
 * character alone are named as OpenAI does: `bytes:\xe2\x82`.
 */
import type { Tokenizer } from "../../nn/index.ts";
import type { Fields } from "../fields.ts";
import type { ServedToken } from "./scores.ts";
import { GrowingText } from "./text.ts";

/** Options that decide the values and names of tokens. */
export interface LogProbOptions {
  readonly tokenizer: Tokenizer;
  readonly logProbs: "raw_logprobs" | "processed_logprobs";
}

const UTF8 = new TextDecoder("utf-8", { ignoreBOM: true, fatal: true });

function nameOf(tokenizer: Tokenizer, id: number): string {
  const bytes = tokenizer.decodeBytes([id]);
  try {
    return UTF8.decode(bytes);
  } catch {
    return `bytes:${Array.from(bytes, (byte) => `\\x${byte.toString(16).padStart(2, "0")}`).join("")}`;
  }
}

/** @param offsets for each token the characters of the answer before it */
export function logProbsOf(
  kind: "completion" | "chat",
  tokens: readonly ServedToken[],
  offsets: readonly number[],
  { tokenizer, logProbs }: LogProbOptions,
): Fields {
  const of = ({ plainLogProb, samplingLogProb }: ServedToken): number =>
    logProbs === "raw_logprobs" ? plainLogProb : samplingLogProb;
  if (kind === "chat") {
    const entry = (id: number, logprob: number): Fields => ({
      token: nameOf(tokenizer, id),
      logprob,
      bytes: [...tokenizer.decodeBytes([id])],
    });
    return {
      content: tokens.map((token) => ({
        ...entry(token.id, of(token)),
        top_logprobs: (token.top ?? []).map(({ id, plainLogProb }) => entry(id, plainLogProb)),
      })),
      refusal: null,
    };
  }
  return {
    text_offset: offsets,
    token_logprobs: tokens.map(of),
    tokens: tokens.map(({ id }) => nameOf(tokenizer, id)),
    top_logprobs: tokens.map((token) => byName(tokenizer, token)),
  };
}

/** A prompt that an answer repeats, and where its tokens begin. */
export interface Echo {
  readonly ids: readonly number[];
  readonly text: string;
  readonly offsets: readonly number[];
}

/** A prompt as an answer repeats it: the text as it was given, or that of its ids. */
export function echoOf(
  tokenizer: Tokenizer,
  ids: readonly number[],
  given: string | readonly number[],
  skipSpecials: boolean,
): Echo {
  const text = new GrowingText(tokenizer, { stop: [], skipSpecials });
  for (const id of ids) text.push(id);
  text.end();
  return { ids, text: typeof given === "string" ? given : text.text, offsets: text.offsets };
}

/**
 * `logprobs` of a prompt and the completion behind it. The first token has none, because nothing stands before it.
 * @param scored the prompt's tokens from the second on
 */
export function echoedLogProbs(
  { ids, text, offsets: before }: Echo,
  scored: readonly ServedToken[],
  tokens: readonly ServedToken[],
  offsets: readonly number[],
  options: LogProbOptions,
): Fields {
  const length = [...text].length;
  const places = [...before.slice(1), ...offsets.map((at) => at + length)];
  const rest = logProbsOf("completion", [...scored, ...tokens], places, options);
  const first: Fields = {
    text_offset: before[0],
    token_logprobs: null,
    tokens: nameOf(options.tokenizer, ids[0]!),
    top_logprobs: null,
  };
  return Object.fromEntries(Object.entries(rest).map(([name, list]) => [name, [first[name], ...(list as unknown[])]]));
}

/**
 * The likeliest tokens by name, and the drawn one if it is none of them, as OpenAI and vLLM answer. Several may have
 * one name, such as `A` and the byte `<0x41>`: it stands for the drawn token, else for the likeliest; the others are
 * `token_id:65`, as vLLM writes ids.
 */
function byName(tokenizer: Tokenizer, token: ServedToken): Readonly<Record<string, number>> {
  const { id: drawn, top: likeliest = [] } = token;
  const top = likeliest.some(({ id }) => id === drawn) ? likeliest : [...likeliest, token];
  const names = top.map(({ id }) => nameOf(tokenizer, id));
  const owner = new Map<string, number>();
  top.forEach(({ id }, i) => {
    if (id === drawn || !owner.has(names[i]!)) owner.set(names[i]!, id);
  });
  const unique = top.map(({ id }, i) => (owner.get(names[i]!) === id ? names[i]! : `token_id:${id}`));
  return Object.fromEntries(top.map(({ plainLogProb }, i) => [unique[i]!, plainLogProb]));
}
