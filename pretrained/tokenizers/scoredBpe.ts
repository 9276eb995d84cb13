/**
 * BPE by scores, as in SentencePiece (Kudo & Richardson 2018, arXiv 1808.06226) and in llama2.c's tokenizer files.
 * Each step merges the two neighbours whose concatenation is the token with the highest score, until no concatenation
 * is a token. A space is put before a text; characters without a token become their bytes. A table of scores becomes
 * an equivalent `tokenizer.json`, with merges in the order of the scores.
 *
 * Ids: 0 `<unk>`, 1 `<s>`, 2 `</s>`, 3 to 258 the bytes, then pieces of text, single characters among them.
 */
import { check, fail } from "../../engine/errors.ts";

/** A token of the table: its text, and the score that orders merges. */
export interface ScoredToken {
  readonly score: number;
  /** UTF-8; the first 259 tokens have a name instead. */
  readonly bytes: Uint8Array;
}

const SPECIALS = ["<unk>", "<s>", "</s>"];
const FIRST_BYTE = SPECIALS.length;
const FIRST_PIECE = FIRST_BYTE + 256;

/**
 * The `tokenizer.json` of a table of scored tokens.
 * @throws WorldgradError if a piece is no UTF-8, a score no number, or if there are fewer than 260 tokens
 */
export function scoredBpeJson(tokens: readonly ScoredToken[]): Record<string, unknown> {
  check(tokens.length > FIRST_PIECE, () => `tokenizer: ${tokens.length} tokens, expected more than ${FIRST_PIECE}`);
  const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  const texts = tokens.map(({ bytes, score }, id) => {
    check(Number.isFinite(score), () => `tokenizer: the score of token ${id} is ${score}, expected a number`);
    try {
      return decoder.decode(bytes);
    } catch {
      return fail(`tokenizer: token ${id} is no UTF-8`);
    }
  });
  const idOf = new Map<string, number>();
  texts.forEach((text, id) => {
    if (id >= FIRST_PIECE && !idOf.has(text)) idOf.set(text, id);
  });
  const names = texts.map((text, id) => {
    if (id < FIRST_BYTE) return SPECIALS[id]!;
    return id < FIRST_PIECE ? `<0x${(id - FIRST_BYTE).toString(16).toUpperCase().padStart(2, "0")}>` : text;
  });
  const merges = [...idOf].flatMap(([text, id]) => {
    const characters = [...text];
    return characters.slice(1).flatMap((_, i) => {
      const [left, right] = [characters.slice(0, i + 1).join(""), characters.slice(i + 1).join("")];
      return idOf.has(left) && idOf.has(right) ? [{ pair: [left, right], id }] : [];
    });
  });
  const scoreOf = ({ id }: { id: number }): number => tokens[id]!.score;
  merges.sort((a, b) => scoreOf(b) - scoreOf(a) || a.id - b.id);
  return {
    version: "1.0",
    truncation: null,
    padding: null,
    added_tokens: SPECIALS.map((content, id) => ({
      id,
      content,
      single_word: false,
      lstrip: false,
      rstrip: false,
      normalized: false,
      special: true,
    })),
    normalizer: { type: "Prepend", prepend: " " },
    pre_tokenizer: null,
    // llama2.c puts it before every text.
    post_processor: {
      type: "TemplateProcessing",
      single: [{ SpecialToken: { id: "<s>", type_id: 0 } }, { Sequence: { id: "A", type_id: 0 } }],
      pair: [],
      special_tokens: { "<s>": { id: "<s>", ids: [1], tokens: ["<s>"] } },
    },
    decoder: {
      type: "Sequence",
      decoders: [{ type: "ByteFallback" }, { type: "Fuse" }, { type: "Strip", content: " ", start: 1, stop: 0 }],
    },
    model: {
      type: "BPE",
      dropout: null,
      unk_token: "<unk>",
      continuing_subword_prefix: null,
      end_of_word_suffix: null,
      fuse_unk: true,
      byte_fallback: true,
      ignore_merges: false,
      vocab: Object.fromEntries(names.map((name, id) => [name, id])),
      merges: merges.map(({ pair }) => pair),
    },
  };
}
