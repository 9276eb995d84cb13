/**
 * A small tokenizer as SentencePiece makes them (Llama 2, Mistral, Gemma), by hand: a space before every text, which
 * decoding takes off, and bytes for characters without a token. Its ids: 0 `<unk>`, 1 `<s>`, 2 `</s>`, 3 + b the byte
 * b, then the words in their order.
 */
const special = (id: number, content: string): object => ({
  id,
  content,
  single_word: false,
  lstrip: false,
  rstrip: false,
  normalized: false,
  special: true,
});
const BYTES = Array.from({ length: 256 }, (_, b) => `<0x${b.toString(16).toUpperCase().padStart(2, "0")}>`);

/** Its `tokenizer.json`. @param words further tokens, spaces in them as `▁` */
export function sentencePiece(words: readonly string[]): Record<string, unknown> {
  const names = ["<unk>", "<s>", "</s>", ...BYTES, ...words];
  return {
    version: "1.0",
    truncation: null,
    padding: null,
    added_tokens: [special(0, "<unk>"), special(1, "<s>"), special(2, "</s>")],
    normalizer: {
      type: "Sequence",
      normalizers: [
        { type: "Prepend", prepend: "▁" },
        { type: "Replace", pattern: { String: " " }, content: "▁" },
      ],
    },
    pre_tokenizer: null,
    post_processor: {
      type: "TemplateProcessing",
      single: [{ SpecialToken: { id: "<s>", type_id: 0 } }, { Sequence: { id: "A", type_id: 0 } }],
      pair: [],
      special_tokens: { "<s>": { id: "<s>", ids: [1], tokens: ["<s>"] } },
    },
    decoder: {
      type: "Sequence",
      decoders: [
        { type: "Replace", pattern: { String: "▁" }, content: " " },
        { type: "ByteFallback" },
        { type: "Fuse" },
        { type: "Strip", content: " ", start: 1, stop: 0 },
      ],
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
      merges: [],
    },
  };
}
