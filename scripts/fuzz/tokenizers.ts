/**
 * Documents for fuzzing: valid `tokenizer.json` files that no model has, with new combinations of parts of published
 * files and random patterns. An accepted document must encode, decode and write itself as one tokenizer.
 */
import { readFileSync } from "node:fs";
import fc from "fast-check";
import { tokenizerFromJSON } from "../../pretrained/index.ts";
import type { Json } from "./target.ts";

type Fields = Readonly<Record<string, Json>>;

const fixture = (name: string): Fields[] => {
  const url = new URL(`../../tests/fixtures/tokenizers/${name}.json`, import.meta.url);
  const { sets } = JSON.parse(readFileSync(url, "utf8")) as {
    readonly sets: readonly { readonly tokenizer: Fields }[];
  };
  return sets.map(({ tokenizer }) => tokenizer);
};
const PUBLISHED = [...fixture("hf_tokenizers_0.23.2"), ...fixture("families")];
const typeOf = (part: Json | undefined): Json | undefined => (part as Fields | null | undefined)?.["type"];
const BYTE_LEVEL = PUBLISHED.filter(({ decoder }) => typeOf(decoder) === "ByteLevel");
const OF_CHARACTERS = PUBLISHED.filter(({ decoder }) => typeOf(decoder) === "Sequence");

const flag = fc.boolean();
const maybe = (part: fc.Arbitrary<Json>): fc.Arbitrary<Json> => fc.oneof(fc.constant<Json>(null), part);

/** Regular expressions in the syntax of the format, most of them valid. */
const { regex } = fc.letrec<{ regex: string; atom: string }>((tie) => ({
  atom: fc.oneof(
    { depthSize: "small", withCrossShrink: true },
    fc.constantFrom("a", " ", ".", "'s", "\\s", "\\d", "\\w", "\\S", "\\p{L}", "\\p{N}", "\\n", "é", "\\-", "(?!\\S)"),
    fc.constantFrom("[a-z]", "[^\\s\\p{L}]", "[\\r\\n]", "[^]", "[]", "[z-a]", "\\h", "^", "$", "\\b", "(?i:'t|'re)"),
    tie("regex").map((inner) => `(?:${inner})`),
    tie("regex").map((inner) => `(${inner})`),
  ),
  regex: fc
    .array(fc.tuple(tie("atom"), fc.constantFrom("", "", "", "?", "+", "*", "{1,3}", "{2}", "+?", "++", "|")), {
      minLength: 1,
      maxLength: 4,
    })
    .map((parts) => parts.map(([atom, often]) => atom + often).join("")),
}));
const patternJson: fc.Arbitrary<Json> = fc.oneof(
  regex.map((Regex) => ({ Regex })),
  fc.constantFrom(" ", "▁", "a", "", "\n", "é").map((String) => ({ String })),
);
const behavior = fc.constantFrom("Isolated", "Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous");
const scheme = fc.constantFrom("first", "always", "never");

const split: fc.Arbitrary<Json> = fc.oneof(
  fc.record({ type: fc.constant("Split"), pattern: patternJson, behavior, invert: flag }),
  fc.record({ type: fc.constant("Digits"), individual_digits: flag }),
  fc.record({ type: fc.constant("Punctuation"), behavior }),
  fc.constantFrom({ type: "Whitespace" }, { type: "WhitespaceSplit" }),
  fc.record({
    type: fc.constant("Metaspace"),
    replacement: fc.constantFrom("▁", "_"),
    prepend_scheme: scheme,
    split: flag,
  }),
);
const bytes: fc.Arbitrary<Json> = fc.record({
  type: fc.constant("ByteLevel"),
  add_prefix_space: flag,
  use_regex: flag,
});
const splits = (last: readonly fc.Arbitrary<Json>[]): fc.Arbitrary<Json> =>
  fc
    .tuple(fc.array(split, { minLength: last.length === 0 ? 1 : 0, maxLength: 2 }), ...last)
    .map(([steps, ...end]) => ({ type: "Sequence", pretokenizers: [...steps, ...end] }));

const normalizing: fc.Arbitrary<Json> = fc.oneof(
  fc.constantFrom("NFC", "NFD", "NFKC", "NFKD", "Lowercase").map((type) => ({ type })),
  fc.record({ type: fc.constant("Prepend"), prepend: fc.constantFrom("▁", " ", "", "ab") }),
  fc.record({ type: fc.constant("Replace"), pattern: patternJson, content: fc.constantFrom("▁", "", "$&", "aa") }),
  fc.record({ type: fc.constant("Strip"), strip_left: flag, strip_right: flag }),
);
const normalizer = fc.oneof(
  normalizing,
  fc.array(normalizing, { maxLength: 3 }).map((normalizers) => ({ type: "Sequence", normalizers })),
);

const around: fc.Arbitrary<Json> = fc.record({ front: fc.nat(3), behind: fc.nat(3), id: fc.nat(299) }).map((drawn) => {
  const special = { SpecialToken: { id: "<s>", type_id: 0 } };
  const named = (count: number): Json[] => Array.from({ length: count }, () => special);
  const single = [...named(drawn.front), { Sequence: { id: "A", type_id: 0 } }, ...named(drawn.behind)];
  return { type: "TemplateProcessing", single, pair: [], special_tokens: { "<s>": { id: "<s>", ids: [drawn.id] } } };
});

const parts = { single_word: flag, lstrip: flag, rstrip: flag, normalized: flag, special: flag };
/** Contents of added tokens: prefixes of each other, letters of the texts, spaces. */
const content = fc.constantFrom("<|x|>", "<|x", "a", "ab", " ", "\n", "é", "e\u0301", "▁", "word", "<0x0A>", "😀");
const added = fc.uniqueArray(fc.record({ content, ...parts }), { maxLength: 4, selector: (token) => token.content });

/** A published tokenizer with fewer merges and other added tokens, pattern, normaliser, template. */
const drawn = (
  models: readonly Fields[],
  decoder: (of: Fields) => Json,
  steps: fc.Arbitrary<Json>,
): fc.Arbitrary<Json> =>
  fc
    .record({
      of: fc.constantFrom(...models),
      kept: fc.double({ min: 0, max: 1, noNaN: true }),
      merged: flag,
      tokens: added,
      normalizer: maybe(normalizer),
      pre_tokenizer: steps,
      post_processor: maybe(around),
    })
    .map(({ of, kept, merged, tokens, ...rest }) => {
      const model = of["model"] as Fields;
      const known = of["added_tokens"] as readonly Fields[];
      const [vocab, merges] = [model["vocab"] as Fields, model["merges"] as readonly Json[]];
      const size = new Set([...Object.keys(vocab), ...known.map((token) => token["content"])]).size;
      let next = size;
      const taken = new Set(known.map((token) => token["content"]));
      const more = tokens
        .filter((token) => !taken.has(token.content))
        .map((token) => ({ ...token, id: vocab[token.content] ?? next++ }));
      return {
        ...of,
        ...rest,
        added_tokens: [...known, ...more],
        decoder: decoder(of),
        model: { ...model, merges: merges.slice(0, Math.round(kept * merges.length)), ignore_merges: merged },
      };
    });

/** Published tokenizers, and new ones made of their parts. */
export const tokenizers: fc.Arbitrary<Json> = fc.oneof(
  { weight: 1, arbitrary: fc.constantFrom<Json>(...PUBLISHED) },
  { weight: 3, arbitrary: drawn(BYTE_LEVEL, (of) => of["decoder"]!, fc.oneof(bytes, splits([bytes]))) },
  { weight: 2, arbitrary: drawn(OF_CHARACTERS, (of) => of["decoder"]!, maybe(splits([]))) },
);

const TEXTS = [
  "",
  " ab 12, é\n\n",
  "a".repeat(300),
  " \t\u00a0\u2003 \r\n ▁▁",
  "\u0000\ud800<0x0A><|x|>abword word😀e\u0301ﬁﬀ",
  "It's THE İstanbul 1234567890 _-/*()",
];

/** Reads a document. An accepted one encodes and decodes, and equals the tokenizer that it writes. */
export function readTokenizer(document: Json): void {
  const tokenizer = tokenizerFromJSON(document);
  const again = tokenizerFromJSON(JSON.parse(JSON.stringify(tokenizer.toJSON())));
  for (const text of TEXTS) {
    for (const options of [{}, { specials: "tokens", addSpecialTokens: true }] as const) {
      const ids = tokenizer.encode(text, options);
      const wrong = ids.find((id) => !(Number.isInteger(id) && id >= 0 && id < tokenizer.vocabSize));
      if (wrong !== undefined) throw new TypeError(`encode gave the id ${wrong}, of ${tokenizer.vocabSize} tokens`);
      tokenizer.decode(ids);
      if (again.encode(text, options).join() !== ids.join()) throw new TypeError("written and read, it has other ids");
    }
  }
}
