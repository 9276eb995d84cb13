/** A `tokenizer.json` of a few lines that would make a text of any length of a short one is refused when it is read. */
import { describe, expect, test } from "vitest";
import { readDecoder, readNormalizer, readPreTokenizer } from "../../pretrained/tokenizers/pipeline.ts";

const replacing = (pattern: string, content: string) => ({ type: "Replace", pattern: { String: pattern }, content });
const matching = (pattern: string, content: string) => ({ type: "Replace", pattern: { Regex: pattern }, content });
const inTurn = (...normalizers: object[]) => ({ type: "Sequence", normalizers });

describe("a normaliser", () => {
  test.each([
    ["a letter that becomes thousands", replacing("a", "a".repeat(257)), 257],
    ["replacements that multiply", inTurn(replacing("a", "ab".repeat(9)), replacing("b", "ab".repeat(9))), 324],
    ["nothing, replaced again and again", inTurn(...Array.from({ length: 9 }, () => replacing("", "a"))), 512],
    ["an expression that may match nothing", inTurn(...Array.from({ length: 9 }, () => matching("x*", "a"))), 512],
    ["a long text that is put first", { type: "Prepend", prepend: "a".repeat(256) }, 257],
    ["one within another", inTurn(inTurn(replacing("a", "b".repeat(20))), replacing("b", "c".repeat(20))), 400],
  ])("%s", (_, json, letters) => {
    expect(() => readNormalizer(json)).toThrow(
      `tokenizer.json: normalizer makes ${letters} letters of one, at most 256 are supported`,
    );
  });

  test("that makes 256 letters of one is read, and so are many that leave the length as it is", () => {
    const long = readNormalizer(inTurn(replacing("ab", "c".repeat(128)), replacing("c", "dd")))!;
    expect(long.apply("ab")).toBe("d".repeat(256));
    const same = readNormalizer(inTurn(...Array.from({ length: 99 }, () => replacing("a", "")), replacing("``", '"')))!;
    expect(same.apply("a``b")).toBe('"b');
  });
});

test("a decoder's replacements multiply as well", () => {
  const decoders = [replacing("a", "b".repeat(20)), replacing("b", "c".repeat(20))];
  expect(() => readDecoder({ type: "Sequence", decoders }, false)).toThrow("decoder makes 400 letters of one");
  expect(readDecoder(replacing("▁", " "), false).bytes("▁a")).toEqual(new TextEncoder().encode(" a"));
});

test("Metaspace's mark is one character", () => {
  expect(() => readPreTokenizer({ type: "Metaspace", replacement: "__" })).toThrow(
    'pre_tokenizer.replacement is "__", expected one character',
  );
});
