/** Tokenizers: round trips, training against a naive implementation, ids by Hugging Face's `tokenizers`, bad input. */
import { readFileSync } from "node:fs";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { Rng } from "../../engine/random.ts";
import { byteTokenizer, DEFAULT_PATTERN, type Tokenizer, trainBpe } from "../../nn/tokenizer.ts";
import { tokenizerFromJSON } from "../../pretrained/tokenizers/json.ts";
import { GPT2_PATTERN } from "../../pretrained/tokenizers/pipeline.ts";
import { toAlphabet } from "../../nn/tokenizers/alphabet.ts";
import { splitPieces } from "../../nn/tokenizers/bpe.ts";
import { Heap } from "../../nn/tokenizers/heap.ts";
import { compilePattern } from "../../pretrained/tokenizers/pattern.ts";

const CORPUS = [
  "$ ls -la /home/user\nnotes.txt  report-2024.txt\n$ cat notes.txt | wc -l\n42\n",
  "the quick brown fox jumps over the lazy dog, then the other dog; it isn't the same.\n",
  "Über den Flüssen, très élégant, 日本語のテキスト 日本語, naïve café 👍🏽 👍🏽\n",
].map((text) => text.repeat(3));
const SPECIALS = ["<|end|>", "<|obs|>"];

const bytes = byteTokenizer({ specials: SPECIALS });
const bpe = trainBpe(CORPUS, { vocabSize: 400, specials: SPECIALS });
const kinds: [string, Tokenizer][] = [
  ["bytes", bytes],
  ["bpe", bpe],
  ["bpe, GPT-2's pattern", trainBpe(CORPUS, { vocabSize: 300, pattern: GPT2_PATTERN, specials: SPECIALS })],
  // Find no more than the letter x: the rest lies between and after matches, and some matches are empty.
  ["bpe, sparse pattern", trainBpe(CORPUS, { vocabSize: 300, pattern: "x", specials: SPECIALS })],
  ["bpe, odd pattern", trainBpe(CORPUS, { vocabSize: 300, pattern: "x*", specials: SPECIALS })],
];
/** Well-formed strings of all Unicode, with more of what the corpus has than chance would give. */
const anyText = fc.oneof(
  fc.string({ unit: "binary", maxLength: 60 }),
  fc
    .array(
      fc.oneof(fc.constantFrom(" the", "\n", "  ", "\t", "notes.txt", "日本", "42", "\ufeff", "<|end|>"), fc.string()),
    )
    .map((parts) => parts.join("")),
);

describe.each(kinds)("%s", (_, tokenizer) => {
  test("encode → decode is the identity on every well-formed string", () => {
    fc.assert(
      fc.property(anyText, (text) => {
        const ids = tokenizer.encode(text);
        expect(tokenizer.decode(ids)).toBe(text);
        expect(tokenizer.decodeBytes(ids)).toEqual(new TextEncoder().encode(text));
        expect(ids.every((id) => Number.isInteger(id) && id >= 0 && id < tokenizer.vocabSize)).toBe(true);
      }),
      { numRuns: 300 },
    );
  });

  test("text never becomes a special token", () => {
    const specialIds = new Set(Object.values(tokenizer.special));
    expect(specialIds.size).toBeGreaterThanOrEqual(2);
    fc.assert(
      fc.property(anyText, (text) => {
        expect(tokenizer.encode(`${text}<|end|>`).some((id) => specialIds.has(id))).toBe(false);
      }),
    );
  });

  test("toJSON → JSON text → tokenizerFromJSON is the same tokenizer", () => {
    const json = JSON.stringify(tokenizer);
    const loaded = tokenizerFromJSON(JSON.parse(json));
    expect(JSON.stringify(loaded)).toBe(json);
    expect(loaded.special).toEqual(tokenizer.special);
    expect(loaded.vocabSize).toBe(tokenizer.vocabSize);
    fc.assert(
      fc.property(anyText, (text) => {
        expect(loaded.encode(text)).toEqual(tokenizer.encode(text));
      }),
    );
  });

  test("any ids decode; bytes of a concatenation are the concatenated bytes", () => {
    const ids = fc.array(fc.nat(tokenizer.vocabSize - 1));
    fc.assert(
      fc.property(ids, ids, (a, b) => {
        const joined = [...tokenizer.decodeBytes(a), ...tokenizer.decodeBytes(b)];
        expect([...tokenizer.decodeBytes(a.concat(b))]).toEqual(joined);
        expect(tokenizer.decode(a.concat(b))).toBe(
          new TextDecoder("utf-8", { ignoreBOM: true }).decode(Uint8Array.from(joined)),
        );
      }),
    );
  });
});

describe("edges", () => {
  test("ids of bytes and special tokens", () => {
    expect(bytes.encode("hé")).toEqual([104, 195, 169]);
    expect(bytes.vocabSize).toBe(258);
    expect(bytes.special).toEqual({ "<|end|>": 256, "<|obs|>": 257 });
    expect(bpe.special).toEqual(bytes.special);
    expect(bpe.special["constructor"]).toBeUndefined();
    expect(byteTokenizer().vocabSize).toBe(256);
  });

  test("half a character decodes to U+FFFD, its bytes survive", () => {
    expect(bytes.decode([104, 195])).toBe("h\ufffd");
    expect(bytes.decodeBytes([104, 195])).toEqual(Uint8Array.of(104, 195));
  });

  test("lone surrogates are encoded as U+FFFD", () => {
    for (const [, tokenizer] of kinds) {
      expect(tokenizer.decode(tokenizer.encode("a\ud800b\udc00"))).toBe("a\ufffdb\ufffd");
    }
  });

  test("special tokens decode to their names, or to nothing on request", () => {
    const ids = [...bpe.encode("hi"), bpe.special["<|end|>"]!, ...bpe.encode("\n")];
    expect(bpe.decode(ids)).toBe("hi<|end|>\n");
    expect(bpe.decode(ids, { specials: "skip" })).toBe("hi\n");
    expect(bpe.decodeBytes(ids, { specials: "skip" })).toEqual(new TextEncoder().encode("hi\n"));
  });

  test("a newline is always the one token 10, whatever stands around it", () => {
    fc.assert(
      fc.property(anyText, anyText, (a, b) => {
        const ids = bpe.encode(`${a}\n${b}`);
        const newlines = `${a}\n${b}`.split("\n").length - 1;
        expect(ids.filter((id) => id === 10)).toHaveLength(newlines);
        expect(ids).toEqual([...bpe.encode(`${a}\n`), ...bpe.encode(b)]);
      }),
    );
  });

  test("ids out of range are named", () => {
    expect(() => bytes.decode([1, 258])).toThrow("decode: id 258 at position 1 is not in [0, 258)");
    expect(() => bytes.decode([-1])).toThrow("id -1");
    expect(() => bytes.decode([0.5])).toThrow("id 0.5");
    expect(() => bytes.decode([NaN])).toThrow("id NaN");
  });

  test("bad special tokens", () => {
    expect(() => byteTokenizer({ specials: [""] })).toThrow('"" cannot be a special token');
    expect(() => byteTokenizer({ specials: ["\ud800"] })).toThrow("cannot be a special token");
    expect(() => byteTokenizer({ specials: ["<x>", "<x>"] })).toThrow("'<x>' is given twice");
    expect(() => byteTokenizer({ specials: ["a"] })).toThrow("'a' has the name of an ordinary token");
  });

  test("a long piece is encoded in n log n: a megabyte without a space", () => {
    const tokenizer = trainBpe(["ab".repeat(64), "abab", "ab"], { vocabSize: 260, minFrequency: 1 });
    const ids = tokenizer.encode("ab".repeat(500_000));
    expect(ids).toHaveLength(62_500); // merges: ab, abab, 8 letters, 16 letters
    expect(new Set(ids).size).toBe(1);
  }, 20_000);
});

describe("the pattern", () => {
  const pieces = (text: string): string[] => [...splitPieces(text, compilePattern(DEFAULT_PATTERN))];

  test("words with a space, single digits, runs of signs, single newlines, white space", () => {
    expect(pieces("cat  notes.txt | wc -l\n\n42 lines")).toEqual([
      "cat",
      " ",
      " notes",
      ".",
      "txt",
      " |",
      " wc",
      " -",
      "l",
      "\n",
      "\n",
      "4",
      "2",
      " lines",
    ]);
    expect(pieces("\t\tx  \n  y ")).toEqual(["\t", "\t", "x", "  ", "\n", " ", " y", " "]);
    expect(pieces("e\u0301té 👍🏽!")).toEqual(["e\u0301té", " 👍🏽!"]);
  });

  test("loses nothing and leaves no gaps between matches", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary" }), (text) => {
        expect(pieces(text).join("")).toBe(text);
        const matched = Array.from(text.matchAll(compilePattern(DEFAULT_PATTERN)), ([piece]) => piece).join("");
        expect(matched).toBe(text);
      }),
    );
  });
});

describe("training", () => {
  /** The definition, without any shortcut: count all pairs anew for each merge. */
  function naive(texts: string[], vocabSize: number, specials: string[], minFrequency: number): string[] {
    const pattern = compilePattern(DEFAULT_PATTERN);
    let pieces = texts.flatMap((text) =>
      Array.from(splitPieces(text, pattern), (piece) => [...new TextEncoder().encode(piece)]),
    );
    const names = Array.from({ length: 256 }, (_, byte) => toAlphabet(Uint8Array.of(byte))).concat(specials);
    const merges: string[] = [];
    const forbidden = new Set<string>();
    while (names.length < vocabSize) {
      const counts = new Map<string, [count: number, left: number, right: number]>();
      for (const ids of pieces) {
        for (let i = 0; i + 1 < ids.length; i++) {
          const entry = counts.get(`${ids[i]} ${ids[i + 1]}`) ?? [0, ids[i]!, ids[i + 1]!];
          counts.set(`${ids[i]} ${ids[i + 1]}`, [entry[0] + 1, entry[1], entry[2]]);
        }
      }
      const [best] = [...counts.values()]
        .filter(([count, left, right]) => count >= minFrequency && !forbidden.has(`${left} ${right}`))
        .sort((a, b) => b[0] - a[0] || a[1] - b[1] || a[2] - b[2]);
      if (best === undefined) break;
      const [, left, right] = best;
      const name = names[left]! + names[right]!;
      if (names.includes(name)) {
        forbidden.add(`${left} ${right}`);
        continue;
      }
      merges.push(`${names[left]} ${names[right]}`);
      names.push(name);
      pieces = pieces.map((ids) => {
        const merged: number[] = [];
        for (let i = 0; i < ids.length; i++) {
          if (ids[i] === left && ids[i + 1] === right) {
            merged.push(names.length - 1);
            i++;
          } else merged.push(ids[i]!);
        }
        return merged;
      });
    }
    return merges;
  }

  const mergesOf = (tokenizer: Tokenizer): unknown => (tokenizer.toJSON()["model"] as { merges: string[] }).merges;

  test("equals the definition, on text with many ties and repeats", () => {
    const word = fc.string({ unit: fc.constantFrom("a", "b", "c", " "), maxLength: 40 });
    fc.assert(
      fc.property(fc.array(word, { maxLength: 6 }), fc.integer({ min: 1, max: 3 }), (texts, minFrequency) => {
        // "ab" and "aab" as special tokens: names that merges would take.
        const specials = ["ab", "aab"];
        const trained = trainBpe(texts, { vocabSize: 290, specials, minFrequency });
        expect(mergesOf(trained)).toEqual(naive(texts, 290, specials, minFrequency));
      }),
      { numRuns: 200 },
    );
  });

  test("equals the definition on the corpus", () => {
    expect(mergesOf(bpe)).toEqual(naive(CORPUS, 400, SPECIALS, 2));
    expect(bpe.vocabSize).toBe(256 + 2 + (mergesOf(bpe) as string[]).length);
  });

  test("does not depend on how the text is cut into documents at piece boundaries, nor on their order", () => {
    const lines = CORPUS.join("").split(/(?<=\n)/);
    const options = { vocabSize: 380, specials: SPECIALS };
    const shuffled = new Rng(1).shuffle(lines);
    expect(JSON.stringify(trainBpe(shuffled, options))).toBe(JSON.stringify(trainBpe(CORPUS, options)));
  });

  test("ties: the smaller left id, then the smaller right id", () => {
    expect(mergesOf(trainBpe(["xy", "ab", "ac"], { vocabSize: 259, minFrequency: 1 }))).toEqual(["a b", "a c", "x y"]);
  });

  test("the documented example", () => {
    const tokenizer = trainBpe(["low lower lowest"], { vocabSize: 259, specials: ["<|end|>"] });
    expect(tokenizer.encode("lower").map((id) => tokenizer.decode([id]))).toEqual(["low", "e", "r"]);
  });

  test("stops early where nothing is left to merge; compresses what it saw", () => {
    expect(trainBpe([], { vocabSize: 1000 }).vocabSize).toBe(256);
    expect(trainBpe(["abab"], { vocabSize: 1000 }).vocabSize).toBe(257);
    const text = CORPUS.join("");
    expect(bpe.encode(text).length).toBeLessThan(bytes.encode(text).length / 2);
  });

  test("bad options", () => {
    expect(() => trainBpe([], { vocabSize: 257, specials: SPECIALS })).toThrow(
      "vocabSize is 257, expected an integer ≥ 258",
    );
    expect(() => trainBpe([], { vocabSize: 300.5 })).toThrow("vocabSize is 300.5");
    expect(() => trainBpe([], { vocabSize: 300, minFrequency: 0 })).toThrow("minFrequency is 0");
    expect(() => trainBpe([], { vocabSize: 300, pattern: "(" })).toThrow("the pattern cannot be used");
    const misspelt = { vocabSize: 300, patern: "x" };
    expect(() => trainBpe([], misspelt)).toThrow("trainBpe: unknown option 'patern'; did you mean 'pattern'?");
  });
});

describe("tokenizer.json", () => {
  interface Fixture {
    sets: { name: string; tokenizer: unknown; cases: { text: string; ids: number[]; decoded: string }[] }[];
  }
  const url = new URL("../fixtures/tokenizers/hf_tokenizers_0.23.2.json", import.meta.url);
  const { sets } = JSON.parse(readFileSync(url, "utf8")) as Fixture;

  test.each(sets)("Hugging Face's tokenizers, reading what we wrote, gets our ids: $name", ({ tokenizer, cases }) => {
    const ours = tokenizerFromJSON(tokenizer);
    expect(JSON.stringify(ours)).toBe(JSON.stringify(tokenizer));
    for (const { text, ids, decoded } of cases) {
      expect([text, ours.encode(text)]).toEqual([text, ids]);
      expect(ours.decode(ids)).toBe(decoded);
    }
  });

  test("GPT-2's own layout: merges as pairs, pattern in ByteLevel, special tokens outside the vocabulary", () => {
    const json = bpe.toJSON() as { model: { vocab: Record<string, number>; merges: unknown[] } };
    const reference = trainBpe(CORPUS, { vocabSize: 300, pattern: GPT2_PATTERN });
    const model = (reference.toJSON() as typeof json).model;
    const loaded = tokenizerFromJSON({
      pre_tokenizer: { type: "ByteLevel", add_prefix_space: false, trim_offsets: true },
      added_tokens: [{ id: 300, content: "<|endoftext|>" }],
      model: { ...model, type: "BPE", merges: model.merges.map((merge) => (merge as string).split(" ")) },
    });
    expect(loaded.special).toEqual({ "<|endoftext|>": 300 });
    fc.assert(
      fc.property(anyText, (text) => {
        expect(loaded.encode(text)).toEqual(reference.encode(text));
      }),
    );
  });

  const broken: [string, (json: Record<string, never>) => void, string][] = [
    ["another model", (json) => edit(json, "model.type", "WordPiece"), 'model.type is "WordPiece", only "BPE"'],
    ["another normalizer", (json) => edit(json, "normalizer", { type: "Nmt" }), 'normalizer.type is "Nmt"'],
    ["dropout", (json) => edit(json, "model.dropout", 0.1), "model.dropout is 0.1"],
    ["a suffix", (json) => edit(json, "model.end_of_word_suffix", "</w>"), "model.end_of_word_suffix is"],
    ["flags that are none", (json) => edit(json, "model.ignore_merges", "yes"), 'model.ignore_merges is "yes"'],
    ["a template", (json) => edit(json, "post_processor", { type: "TemplateProcessing" }), "post_processor.single"],
    ["another split", (json) => edit(json, "pre_tokenizer.pretokenizers.0.behavior", "Kept"), "behavior is"],
    ["bytes decoded that were none", (json) => edit(json, "pre_tokenizer", null), 'decoder.type is "ByteLevel", only'],
    [
      "bytes before a split",
      (json) => edit(json, "pre_tokenizer.pretokenizers.0", { type: "ByteLevel" }),
      "must be the last step",
    ],
    [
      "a pattern that takes exponential time",
      (json) => edit(json, "pre_tokenizer.pretokenizers.0.pattern.Regex", String.raw`(a+)+\d`),
      "the repetition at 4 holds a choice or a repetition",
    ],
    [
      "a regex JavaScript lacks",
      (json) => edit(json, "pre_tokenizer.pretokenizers.0.pattern.Regex", "(?>a)"),
      "pattern",
    ],
    ["no vocabulary", (json) => edit(json, "model.vocab", undefined), "model.vocab is missing"],
    [
      "a byte without token",
      (json) => edit(json, "model.vocab.a", undefined),
      `but there are only ${bpe.vocabSize - 1} tokens`,
    ],
    ["an id twice", (json) => edit(json, "model.vocab.a", 98), "has id 98, and so has another token"],
    ["an id that is none", (json) => edit(json, "model.vocab.a", -1), 'model.vocab["a"] is -1'],
    ["merges of unknown tokens", (json) => edit(json, "model.merges.0", "a 日"), "model.merges[0]: '日' is not in"],
    ["malformed merges", (json) => edit(json, "model.merges.0", "ab"), 'model.merges[0] is "ab"'],
    ["a merge twice", (json) => edit(json, "model.merges.1", get(json, "model.merges.0")), "listed twice"],
    ["a special token that moved", (json) => edit(json, "added_tokens.0.id", 3), "'<|end|>' has id 3, but 256"],
    ["a special token without name", (json) => edit(json, "added_tokens.0.content", 7), "added_tokens[0].content is 7"],
  ];

  function get(json: unknown, path: string): unknown {
    return path.split(".").reduce<unknown>((at, key) => (at as Record<string, unknown>)[key], json);
  }

  function edit(json: unknown, path: string, value: unknown): void {
    const dot = path.lastIndexOf(".");
    const parent = (dot < 0 ? json : get(json, path.slice(0, dot))) as Record<string, unknown>;
    if (value === undefined) delete parent[path.slice(dot + 1)];
    else parent[path.slice(dot + 1)] = value;
  }

  test.each(broken)("refuses %s by name", (_, breakIt, message) => {
    const json = JSON.parse(JSON.stringify(bpe)) as Record<string, never>;
    breakIt(json);
    expect(() => tokenizerFromJSON(json)).toThrow(message);
  });

  test("anything else is an error of ours, never a crash", () => {
    fc.assert(
      fc.property(fc.jsonValue(), (json) => {
        expect(() => tokenizerFromJSON(json)).toThrow(/^tokenizer\.json: /);
      }),
    );
    for (const json of [undefined, null, 3, "x", []]) expect(() => tokenizerFromJSON(json)).toThrow("the root is");
  });
});

test("heap: pops in order, whatever was pushed between", () => {
  fc.assert(
    fc.property(fc.array(fc.option(fc.integer())), (steps) => {
      const heap = new Heap<number>((a, b) => a < b);
      const model: number[] = [];
      for (const step of steps) {
        if (step === null) expect(heap.pop()).toBe(model.sort((a, b) => a - b).shift());
        else {
          heap.push(step);
          model.push(step);
        }
      }
    }),
  );
});
