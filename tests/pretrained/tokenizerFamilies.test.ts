/** `tokenizer.json` of GPT-2, Llama 2 and 3, Mistral, Qwen and SmolLM: ids, text and places by Hugging Face's own. */
import { fromAlphabet, toAlphabet } from "../../nn/tokenizers/alphabet.ts";
import { readFileSync } from "node:fs";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type BpeTokenizer } from "../../nn/tokenizers/bpe.ts";
import { encodeWithOffsets } from "../../nn/tokenizer.ts";
import { tokenizerFromJSON } from "../../pretrained/tokenizers/json.ts";
import { compilePattern } from "../../pretrained/tokenizers/pattern.ts";

interface Case {
  ids: number[];
  plain?: number[];
  decoded?: string;
  skipped?: string;
  offsets?: number[];
}
interface Fixture {
  texts: string[];
  sets: { name: string; tokenizer: unknown; cases: Case[]; drawn: [number[], string][] }[];
}
const url = new URL("../fixtures/tokenizers/families.json", import.meta.url);
const { texts, sets } = JSON.parse(readFileSync(url, "utf8")) as Fixture;
const family = (name: string): BpeTokenizer => tokenizerFromJSON(sets.find((set) => set.name === name)!.tokenizer);

/**
 * The package decodes an added token as if its name were written in the byte-level alphabet, so that an é of such a
 * name is lost. Ours gives the name.
 */
const theirs = (text: string, decoded: string): boolean => decoded.includes("\ufffd") && text.includes("Éa");

describe.each(sets)("$name", ({ name, tokenizer: json, cases, drawn }) => {
  const tokenizer = tokenizerFromJSON(json);

  test("ids with special tokens and template, and without", () => {
    cases.forEach(({ ids, plain }, i) => {
      const text = texts[i]!;
      expect([text, tokenizer.encode(text, { specials: "tokens", addSpecialTokens: true })]).toEqual([text, ids]);
      expect([text, tokenizer.encode(text)]).toEqual([text, plain ?? ids]);
    });
  });

  test("text, special tokens by name and left out; ids in any order", () => {
    cases.forEach((of, i) => {
      const { ids, decoded = texts[i]!, skipped = decoded } = of;
      if (theirs(tokenizer.decode(ids), decoded)) return;
      expect(tokenizer.decode(ids)).toBe(decoded);
      expect(tokenizer.decode(ids, { specials: "skip" })).toBe(skipped);
    });
    for (const [ids, text] of drawn) if (name !== "odd") expect(tokenizer.decode(ids)).toBe(text);
  });

  test("toJSON gives the file back", () => {
    expect(JSON.parse(JSON.stringify(tokenizer))).toEqual(json);
  });

  test("places in the text are those of the package", () => {
    cases.forEach(({ offsets }, i) => {
      const text = texts[i]!;
      // Of a letter that was joined with its marks theirs name the letter, ours all of it.
      if (offsets === undefined || text !== text.normalize("NFC")) return;
      // Theirs count code points.
      const unitOf = [0];
      for (const char of text) unitOf.push(unitOf.at(-1)! + char.length);
      const found = encodeWithOffsets(tokenizer, text, { specials: "tokens" }).offsets.flat();
      expect([text, found]).toEqual([text, offsets.map((point) => unitOf[point])]);
    });
  });

  test("decode(encode(text)) is the text; places cover it in order", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary", maxLength: 40 }), (given) => {
        // SentencePiece's mark is a space to it, and it puts one first and takes it away.
        const text = given.normalize("NFC").replaceAll("▁", "").replace(/^ +/, "");
        const { ids, offsets } = encodeWithOffsets(tokenizer, text);
        expect(ids).toEqual(tokenizer.encode(text));
        expect(tokenizer.decode(ids)).toBe(text);
        let end = 0;
        for (const [from, to] of offsets) {
          expect(from).toBeLessThanOrEqual(end);
          expect(to).toBeGreaterThanOrEqual(end);
          end = to;
        }
        expect(end).toBe(text.length);
      }),
      { numRuns: 50 },
    );
  }, 60_000);
});

describe("added tokens", () => {
  test("a token that is not special stays one, is found without being asked for, and is decoded", () => {
    const qwen = tokenizerFromJSON(JSON.parse(JSON.stringify(family("qwen"))));
    const think = qwen.tokenToId("<think>")!;
    expect(qwen.addedTokens.find(({ id }) => id === think)).toMatchObject({ content: "<think>", special: false });
    expect(qwen.special["<think>"]).toBeUndefined();
    expect(qwen.encode("<think>a<|im_end|>")).toEqual([think, ...qwen.encode("a<|im_end|>")]);
    expect(qwen.decode([think], { specials: "skip" })).toBe("<think>");
  });

  test("plain ranges keep a name from being a token; the rest is read as before", () => {
    const qwen = family("qwen");
    const end = qwen.special["<|im_end|>"]!;
    const text = "a<|im_end|>b<|im_end|>";
    expect(qwen.encode(text, { specials: "tokens", plain: [[1, 11]] })).toEqual([...qwen.encode("a<|im_end|>b"), end]);
    // A range that touches a part of the name is enough.
    expect(qwen.encode(text, { specials: "tokens", plain: [[10, 13]] })).toEqual(qwen.encode(text));
  });
});

describe("patterns", () => {
  const all = (pattern: string, text: string): string[] =>
    Array.from(text.matchAll(compilePattern(pattern)), ([m]) => m);

  test("what means something else in JavaScript", () => {
    expect(all(String.raw`\s+`, "a\u0085b\ufeffc\u3000")).toEqual(["\u0085", "\u3000"]);
    expect(all(String.raw`[^\s]+`, "a\u0085b\ufeffc")).toEqual(["a", "b\ufeffc"]);
    expect(all(String.raw`(?i:'s|k)`, "'S 'ſ K \u212a")).toEqual(["'S", "'ſ", "K", "\u212a"]);
    expect(all(String.raw`\d+|\h\h`, "٣4 af")).toEqual(["٣4", "af"]);
    expect(all(String.raw`\p{Han}+`, "日本x")).toEqual(["日本"]);
    expect(all(String.raw`^.$`, "a\nb\u2028")).toEqual(["a"]);
    expect(all(String.raw`[\]\-\/!]+|\'|\x{41}|}`, "]-/!'A}")).toEqual(["]-/!", "'", "A", "}"]);
    // A word ends where Unicode's letters end; JavaScript's own \b knows ASCII's: it would see one within "éx".
    const placesOf = (pattern: string, text: string): number[] =>
      Array.from(text.matchAll(compilePattern(pattern)), ({ index }) => index);
    expect(placesOf(String.raw`\bx`, "éx x-xé _x")).toEqual([3, 5]);
    expect(placesOf(String.raw`\Bx`, "éx x-xé _x")).toEqual([1, 9]);
    expect(all(String.raw`\b\w+\b`, "naïve Σωκράτης, 日本x")).toEqual(["naïve", "Σωκράτης", "日本x"]);
    expect(all(String.raw`[\b]`, "b\b")).toEqual(["\b"]);
    // A repetition of what has one length can match in one way only.
    expect(all(String.raw`\d{1,3}(?=(?:\d{3})*(?!\d))`, "1234567")).toEqual(["1", "234", "567"]);
  });

  test.each([
    ["(a+)+b", "the repetition at 4"],
    ["(?:a|aa)*", "the repetition at 8"],
    ["((a)|b){2,}", "the repetition at 7"],
    // With 300 letters a this one hung for half an hour.
    ["(a+a*){1,3}'s|", "before 11 there are more than 2 repetitions without an end"],
    ["a*b|a*a*(?:a{2,}|c)b", "before 19 there are more than 2 repetitions without an end"],
    ["(?:a?){30}b", "before 10 there are too many ways"],
    ["a*(?:b|c{,9}){2}a*d", "before 18 there are too many ways"],
    ["(?>a)", "'(?>a' at 0"],
    ["a++", "possessive"],
    [String.raw`(a)\1`, String.raw`'\1' at 3`],
    [String.raw`\Gx`, String.raw`'\G' at 0`],
    ["[a[b]]", "a class within a class at 2"],
    ["[a&&b]", "a class within a class at 2"],
    ["(a", "is not closed"],
    ["a)", "a ')' without '('"],
    ["[a", "the '[' at 0 is not closed"],
    ["\\", "ends in a backslash"],
    ["\\p{Nonsense}", "Invalid property name"],
    ["*a", "othing to repeat"],
  ])("%s is refused", (pattern, message) => {
    expect(() => compilePattern(pattern)).toThrow(message);
  });
});

test("the alphabet is GPT-2's, and one-to-one", () => {
  const all = Uint8Array.from({ length: 256 }, (_, byte) => byte);
  expect(toAlphabet(Uint8Array.of(0x20, 0x0a, 0x41, 0x7f, 0xad))).toBe("ĠĊAġŃ");
  expect(fromAlphabet(toAlphabet(all))).toEqual(all);
  expect(new Set(toAlphabet(all)).size).toBe(256);
  expect(fromAlphabet(" ")).toBeUndefined();
});
