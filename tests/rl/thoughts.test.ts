/**
 * Thoughts in the tags of a model's own template (`Template`, option `thought`): which tokens are thought and which
 * action, what the environment gets, and what an expert's action looks like in such a text.
 */
import { describe, expect, it } from "vitest";
import { byteTokenizer, type Tokenizer } from "../../nn/index.ts";
import { emptyStream, type Role } from "../../rl/episode/stream.ts";
import { type EpisodeFormat, OWN_FORMAT, SPECIAL_TOKENS, Template } from "../../rl/episode/template.ts";
import { CHATML, qwen } from "../support/chatml.ts";

const bytes = byteTokenizer({ specials: SPECIAL_TOKENS });
const tags = ["<think>", "</think>"] as const;
/** As Qwen3's template asks a model that is not to think, and as DeepSeek R1's asks one that has to. */
const [ENDED, BEGUN] = ["<think>\n\n</think>\n\n", "<think>\n"];
const asking = (format: EpisodeFormat, begin: string): EpisodeFormat => ({ ...format, action: format.action + begin });

const kinds: readonly (readonly [string, Tokenizer, EpisodeFormat])[] = [
  ["bytes", bytes, OWN_FORMAT],
  ["ChatML", qwen, CHATML],
];

describe.each(kinds)("in %s", (_, tokenizer, format) => {
  const plain = new Template(tokenizer, { format, thought: tags });
  const begun = new Template(tokenizer, { format: asking(format, BEGUN), thought: tags });
  /** The tokens of a text as the model draws them, and the text that has each role. */
  const read = (
    template: Template,
    text: string,
  ): { said: string; roles: Partial<Record<Role, string>>; end: Role } => {
    const ids = [...tokenizer.encode(text), template.endId];
    const stream = emptyStream();
    template.appendSampled(stream, 0, ids, { oldLogProbs: ids.map((_id, t) => -t), temperature: 1 });
    expect(stream.oldLogProbs).toEqual(ids.map((_id, t) => -t));
    const roles: Partial<Record<Role, string>> = {};
    for (const role of new Set(stream.roles.slice(0, -1)))
      roles[role] = tokenizer.decode(stream.ids.slice(0, -1).filter((_id, t) => stream.roles[t] === role));
    return { said: template.actionText(ids), roles, end: stream.roles.at(-1)! };
  };

  it.each([
    ["<think>\nA é.\n</think>\n\nlook", "<think>\nA é.\n</think>", "\n\nlook", "look"],
    [" \n<think>A</think>look", " \n<think>A</think>", "look", "look"],
    ["<think></think>look", "<think></think>", "look", "look"],
    ["<think>A</think>", "<think>A</think>", undefined, ""],
    // A thought ends once; what follows is the action, whatever it says.
    ["<think>A</think>B</think>", "<think>A</think>", "B</think>", "B</think>"],
    ["<think>a <think>A</think><think>", "<think>a <think>A</think>", "<think>", "<think>"],
    ["look <think>A</think>", undefined, "look <think>A</think>", "look <think>A</think>"],
    ["<thin", undefined, "<thin", "<thin"],
    ["look", undefined, "look", "look"],
    ["A</think>look", undefined, "A</think>look", "A</think>look"],
  ])("%j", (text, thought, action, said) => {
    const found = read(plain, text);
    const given = { ...(thought === undefined ? {} : { thought }), ...(action === undefined ? {} : { action }) };
    expect(found).toEqual({ said, roles: given, end: action === undefined ? "thought" : "action" });
  });

  it("a thought without an end is no action, and ends an episode whose template is strict", () => {
    const strict = new Template(tokenizer, { format, thought: tags, strict: true });
    for (const text of ["<think>A", "<think>", "<think>A</thin"]) {
      expect(read(plain, text)).toEqual({ said: "", roles: { thought: text }, end: "thought" });
      const ids = [...tokenizer.encode(text), strict.endId];
      expect([plain.parseAction(ids), strict.parseAction(ids)]).toEqual(["", undefined]);
    }
    expect(strict.parseAction([...tokenizer.encode("look"), strict.endId])).toBe("look");
    expect(strict.parseAction([strict.endId])).toBe("");
  });

  it("an action of no token but its end is an empty action", () => {
    expect(read(plain, "")).toEqual({ said: "", roles: {}, end: "action" });
  });

  it("the format may have begun the thought, or have ended it", () => {
    expect(read(begun, "A</think>\nlook")).toEqual({
      said: "look",
      roles: { thought: "A</think>", action: "\nlook" },
      end: "action",
    });
    expect(read(begun, "</think>look").roles).toEqual({ thought: "</think>", action: "look" });
    expect(read(begun, "look")).toEqual({ said: "", roles: { thought: "look" }, end: "thought" });
    const ended = new Template(tokenizer, { format: asking(format, ENDED), thought: tags });
    expect(read(ended, "look")).toEqual({ said: "look", roles: { action: "look" }, end: "action" });
    // A format whose text before an action stands behind the task and the answers.
    const behind = { ...format, task: [format.task[0], format.task[1] + BEGUN] as const, action: "" };
    expect(read(new Template(tokenizer, { format: behind, thought: tags }), "A</think>b").said).toBe("b");
  });

  it.each([
    ["thought not begun", plain, ""],
    ["thought begun", begun, "\n</think>\n\n"],
  ])("an expert's action is read back: %s", (_name, template, before) => {
    const [expert, thinking] = [emptyStream(), emptyStream()];
    template.appendAction(expert, 0, "look");
    expect(tokenizer.decode(expert.ids.slice(0, -1))).toBe(`${before}look`);
    expect(template.actionText(expert.ids)).toBe("look");
    expect(template.encodeAction("look")).toEqual(expert.ids);
    template.appendAction(thinking, 0, "look", "I see");
    expect(template.actionText(thinking.ids)).toBe("look");
    const of = (role: Role): string => tokenizer.decode(thinking.ids.filter((_id, t) => thinking.roles[t] === role));
    expect(of("thought")).toBe(`${template === plain ? "<think>\n" : ""}I see\n</think>\n\n`);
  });
});

it("tags are of the action or of the thought, and have letters", () => {
  const action = ["[", "]"] as const;
  expect(() => new Template(bytes, { action, thought: tags })).toThrow("of the action or of the thought, not of both");
  expect(() => new Template(bytes, { thought: ["<think>", ""] })).toThrow("a tag of the thought is empty");
  expect(() => new Template(bytes, { strict: true })).toThrow("strict is about the tags of an action or a thought");
});
