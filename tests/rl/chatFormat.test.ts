/**
 * Episodes in the format of a foreign chat template: the same tokens as the whole text, and the same roles as in ours.
 */
import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { byteTokenizer, type Tokenizer } from "../../nn/index.ts";
import { tokenizerFromJSON } from "../../pretrained/index.ts";
import { emptyStream } from "../../rl/episode/stream.ts";
import { type EpisodeFormat, Template } from "../../rl/episode/template.ts";
import { answerPlaces } from "../../data/expectation.ts";

const url = new URL("../fixtures/tokenizers/families.json", import.meta.url);
const { sets } = JSON.parse(readFileSync(url, "utf8")) as { sets: { name: string; tokenizer: unknown }[] };
const family = (name: string): Tokenizer => tokenizerFromJSON(sets.find((set) => set.name === name)!.tokenizer);

const CHATML: EpisodeFormat = {
  task: ["<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n", "<|im_end|>\n"],
  observation: ["\n<|im_start|>user\n", "<|im_end|>\n"],
  action: "<|im_start|>assistant\n",
  end: "<|im_end|>",
  pad: "<|endoftext|>",
};
/** Spaces beside the text are joined to it. */
const MISTRAL: EpisodeFormat = {
  task: ["<s>[INST] ", " [/INST]"],
  observation: ["[INST] ", " [/INST]"],
  action: "",
  end: "</s>",
  pad: "<unk>",
};
const kinds: [string, Tokenizer, EpisodeFormat][] = [
  ["ChatML", family("qwen"), CHATML],
  ["ChatML of SmolLM2", family("smollm2"), CHATML],
  ["Mistral", family("mistral"), MISTRAL],
  ["Mistral, byte-level", family("tekken"), { ...MISTRAL, pad: "</s>" }],
];

describe.each(kinds)("%s", (_, tokenizer, format) => {
  const template = new Template(tokenizer, { format });
  const play = (task: string, turns: readonly (readonly [action: string, answer: string])[]) => {
    const stream = emptyStream();
    template.appendTask(stream, task);
    turns.forEach(([action, answer], turn) => {
      template.appendSampled(stream, turn, template.encodeAction(action));
      template.appendObservation(stream, turn, template.encodeObservation(answer, 1000));
    });
    return stream;
  };

  test("an episode's tokens are those of its text", () => {
    const stream = play("the lazy dog", [
      ["look", "a quick fox"],
      ["take", ""],
    ]);
    const { task, observation, action, end } = format;
    const text =
      `${task[0]}the lazy dog${task[1]}${action}look${end}${observation[0]}a quick fox${observation[1]}${action}` +
      `take${end}${observation.join("")}${action}`;
    // A text by itself gets SentencePiece's space before it.
    const spaceless = (ids: readonly number[]): string => tokenizer.decode(ids).replaceAll(" ", "");
    expect(spaceless(stream.ids)).toBe(spaceless(tokenizer.encode(text, { specials: "tokens" })));
    const roleOf = (role: string): string => tokenizer.decode(stream.ids.filter((_id, t) => stream.roles[t] === role));
    expect(roleOf("action").trim()).toMatch(/^look.* ?take.*$/);
    expect(roleOf("observation").trim()).toBe("a quick fox");
    expect(roleOf("prompt")).toContain("the lazy dog");
  });

  test("answers are found, empty ones too", () => {
    const stream = play("dog", [
      ["look", "fox"],
      ["take", ""],
    ]);
    const places = answerPlaces(template, [{ stream }] as never);
    expect(places).toHaveLength(2);
    expect(tokenizer.decode(stream.ids.slice(places[0]!.start, places[0]!.start + places[0]!.length)).trim()).toBe(
      "fox",
    );
  });

  test("no task and no answer forges a token of the format", () => {
    const { ids } = play(`a${format.end}b`, [["x", `c${format.end}${format.pad}`]]);
    expect(ids.filter((id) => id === template.endId)).toHaveLength(
      play("ab", [["x", "c"]]).ids.filter((id) => id === template.endId).length,
    );
    expect(ids).not.toContain(format.pad === format.end ? -1 : template.padId);
  });

  test("answers between newlines and spaces keep every character", () => {
    for (const answer of ["\n", "\n\nx", "  x ", "x\n", "日本\u0301"]) {
      const { ids, roles } = play("t", [["x", answer]]);
      const text = tokenizer.decode(ids.filter((_id, t) => roles[t] === "observation"));
      expect(text.trim()).toBe(answer.trim());
      expect(tokenizer.decode(ids)).toContain(answer.trim());
    }
  });
});

test("the tokens that room is kept for are those that are appended", () => {
  for (const [, tokenizer, format] of kinds) {
    const template = new Template(tokenizer, { format });
    for (const last of [false, true]) {
      const stream = emptyStream();
      template.appendObservation(stream, 0, [1, 2], "", last);
      expect(stream.ids).toHaveLength(2 + template.tokensAroundAnswer(last));
    }
  }
});

test("a format whose tokens are not there is refused by name", () => {
  const format = { ...CHATML, end: "<|eot|>" };
  expect(() => new Template(byteTokenizer(), { format })).toThrow("the tokenizer has no special token <|eot|>");
  expect(() => new Template(byteTokenizer())).toThrow("the tokenizer has no special token <|task|>");
  const bare = { ...CHATML, observation: ["", ""] } as const;
  expect(() => new Template(family("qwen"), { format: bare })).toThrow(
    "no token of the format stands before an answer",
  );
});
