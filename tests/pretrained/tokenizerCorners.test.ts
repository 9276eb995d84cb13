/**
 * Hand-made tokenizers at the corners of `tokenizer.json`, held to Rust's `tokenizers` (npm's @anush008/tokenizers
 * 0.0.1 recorded tests/fixtures/tokenizers/corners.json); and what is refused.
 */
import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { TextStream } from "../../pretrained/textStream.ts";
import { tokenizerFromJSON } from "../../pretrained/tokenizers/json.ts";
import { compilePattern } from "../../pretrained/tokenizers/pattern.ts";

interface Corner {
  name: string;
  tokenizer: Record<string, unknown>;
  encoded: [text: string, ids: number[]][];
  decoded: [ids: number[], skip: boolean, text: string][];
}
const url = new URL("../fixtures/tokenizers/corners.json", import.meta.url);
const corners = JSON.parse(readFileSync(url, "utf8")) as Corner[];
const corner = (name: string) => tokenizerFromJSON(corners.find((one) => one.name === name)!.tokenizer);

describe.each(corners)("$name", ({ tokenizer: json, encoded, decoded }) => {
  const tokenizer = tokenizerFromJSON(json);

  test("ids and texts are those of the package", () => {
    for (const [text, ids] of encoded)
      expect([text, tokenizer.encode(text, { specials: "tokens" })]).toEqual([text, ids]);
    for (const [ids, skip, text] of decoded) {
      expect([ids, skip, tokenizer.decode(ids, { specials: skip ? "skip" : "name" })]).toEqual([ids, skip, text]);
    }
  });

  test("a stream gives the whole text", () => {
    for (const [ids, skip, text] of decoded) {
      const stream = new TextStream(tokenizer, { specials: skip ? "skip" : "name" });
      expect([ids, skip, ids.map((id) => stream.push([id])).join("") + stream.end()]).toEqual([ids, skip, text]);
    }
  });
});

test("plain text never becomes a special token: neither as a whole piece nor as one character", () => {
  const pieces = corner("ignoreMerges");
  expect(pieces.encode("END")).toEqual([2, 3, 4]);
  expect(pieces.encode("END", { specials: "tokens" })).toEqual([6]);
  const characters = corner("character");
  expect(characters.encode("aXb")).toEqual([0, 2, 1]);
  // In the vocabulary as well: a piece that has its name is still text.
  const json = corners.find((one) => one.name === "ignoreMerges")!.tokenizer;
  const model = json["model"] as { vocab: object };
  const known = tokenizerFromJSON({ ...json, model: { ...model, vocab: { ...model.vocab, END: 6 } } });
  expect(known.encode("END")).toEqual([2, 3, 4]);
  expect(known.tokenToId("END")).toBe(6);
});

test("a normaliser or post-processor of 20,000 sequences within each other is refused by name", () => {
  const json = corners.find((one) => one.name === "character")!.tokenizer;
  let normalizer: unknown = { type: "NFC" };
  for (let i = 0; i < 20_000; i++) normalizer = { type: "Sequence", normalizers: [normalizer] };
  let postProcessor: unknown = null;
  for (let i = 0; i < 20_000; i++) postProcessor = { type: "Sequence", processors: [postProcessor] };
  expect(() => tokenizerFromJSON({ ...json, normalizer })).toThrow(
    "tokenizer.json: normalizer has more than 16 sequences within each other",
  );
  expect(() => tokenizerFromJSON({ ...json, post_processor: postProcessor })).toThrow(
    "tokenizer.json: post_processor has more than 16 sequences within each other",
  );
});

test("\\b and \\B of a pattern are the ends of Unicode's words", () => {
  expect("éa b".match(compilePattern(String.raw`\b\w+\b`))).toEqual(["éa", "b"]);
  expect("éab".match(compilePattern(String.raw`\Ba\B`))).toEqual(["a"]);
  expect("a éa".match(compilePattern(String.raw`\ba`))).toEqual(["a"]);
});
