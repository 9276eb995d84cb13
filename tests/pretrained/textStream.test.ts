/**
 * Text while it is generated: what is given out joins to the decoded whole, and stop strings are met wherever they are.
 */
import { readFileSync } from "node:fs";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { byteTokenizer, type Tokenizer } from "../../nn/index.ts";
import { TextStream, tokenizerFromJSON } from "../../pretrained/index.ts";

const url = new URL("../fixtures/tokenizers/families.json", import.meta.url);
const { sets } = JSON.parse(readFileSync(url, "utf8")) as { sets: { name: string; tokenizer: unknown }[] };
const names = ["qwen", "llama3", "llama2", "mistral"];
const kinds: [string, Tokenizer][] = [
  ["bytes", byteTokenizer({ specials: ["<|end|>"] })],
  ...names.map((name): [string, Tokenizer] => [
    name,
    tokenizerFromJSON(sets.find((set) => set.name === name)!.tokenizer),
  ]),
];
const TEXT = fc.array(fc.oneof(fc.constantFrom("👍🏽", "é", " ", "the", "日本", "<|im_end|>", "\u0000"), fc.string()));

describe.each(kinds)("%s", (_, tokenizer) => {
  const anyIds = fc.array(fc.nat(tokenizer.vocabSize - 1), { maxLength: 20 });
  const ofText = TEXT.map((parts) => tokenizer.encode(parts.join(""), { specials: "tokens", addSpecialTokens: true }));

  test.each(["name", "skip"] as const)(
    "chunks join to decode of all ids, whatever they are (%s)",
    (specials) => {
      fc.assert(
        fc.property(fc.oneof(anyIds, ofText), fc.nat(4), (ids, step) => {
          const stream = new TextStream(tokenizer, { specials });
          let text = "";
          for (let i = 0; i < ids.length; i += step + 1) text += stream.push(ids.slice(i, i + step + 1));
          expect(text + stream.end()).toBe(tokenizer.decode(ids, { specials }));
        }),
        { numRuns: 150 },
      );
    },
    60_000,
  );

  test("a chunk never ends in half a character", () => {
    fc.assert(
      fc.property(ofText, (ids) => {
        const stream = new TextStream(tokenizer);
        for (const id of ids) {
          const chunk = stream.push([id]);
          if (!tokenizer.decode(ids).includes("\ufffd")) expect(chunk).not.toContain("\ufffd");
        }
      }),
      { numRuns: 60 },
    );
  }, 60_000);

  test("the text up to the first stop string, and no more of it before", () => {
    const some = fc.array(fc.constantFrom("ab", "a", "b", "aab", " ", "é"), { maxLength: 12 });
    const stops = fc.uniqueArray(fc.constantFrom("aab", "ba", "b b", "éa", "zz"), { minLength: 1, maxLength: 3 });
    fc.assert(
      fc.property(some, stops, (parts, stop) => {
        const ids = tokenizer.encode(`x${parts.join("")}`);
        const whole = tokenizer.decode(ids);
        const stream = new TextStream(tokenizer, { stop });
        let text = "";
        for (const id of ids) text += stream.push([id]);
        text += stream.end();
        const places = stop.map((one) => whole.indexOf(one)).filter((at) => at >= 0);
        expect(text).toBe(places.length === 0 ? whole : whole.slice(0, Math.min(...places)));
        expect(stream.stopped !== undefined).toBe(places.length > 0);
      }),
      { numRuns: 150 },
    );
  }, 60_000);
});

test("text that begins a stop string is held until it is known not to be one", () => {
  const tokenizer = byteTokenizer();
  const stream = new TextStream(tokenizer, { stop: ["###"] });
  const chunks = Array.from("a##b#", (char) => stream.push(tokenizer.encode(char)));
  expect(chunks).toEqual(["a", "", "", "##b", ""]);
  expect(stream.end()).toBe("#");
  expect(() => stream.push([65])).toThrow("the stream has ended");
  expect(() => new TextStream(tokenizer, { stop: [""] })).toThrow("a stop string is empty");
});
