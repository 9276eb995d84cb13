/** Chat templates: text, ids and masks by transformers, roles, forged tokens, and episodes in a template's markup. */
import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { type ChatMessage, chatTemplate } from "../../../connect/chat/index.ts";
import { tokenizerFromJSON } from "../../../pretrained/index.ts";
import type { Tokenizer } from "../../../nn/index.ts";
import { emptyStream, Template } from "../../../rl/index.ts";

interface Kind {
  name: string;
  tokenizer: string;
  template: string;
  parts: Record<string, string>;
  cases: { conversation: number; prompt: boolean; tools: boolean; text: string; ids: number[]; mask?: number[] }[];
}
const read = (path: string): unknown =>
  JSON.parse(readFileSync(new URL(`../../fixtures/${path}`, import.meta.url), "utf8"));
const { sets } = read("tokenizers/families.json") as { sets: { name: string; tokenizer: unknown }[] };
const { kinds, conversations, tools } = read("chat/templates.json") as {
  kinds: Kind[];
  conversations: ChatMessage[][];
  tools: unknown[];
};
const family = (name: string): Tokenizer => tokenizerFromJSON(sets.find((set) => set.name === name)!.tokenizer);
const load = ({ tokenizer, template, parts, name }: Kind) =>
  chatTemplate({ tokenizer: family(tokenizer), template, config: parts, name });
const kind = (name: string): Kind => kinds.find((one) => one.name === name)!;

describe.each(kinds)("$name", (own) => {
  test("text and ids are those of transformers, and so is the mask where it has one", async () => {
    const chat = await load(own);
    for (const { conversation, prompt, tools: withTools, text, ids, mask } of own.cases) {
      const options = { addGenerationPrompt: prompt, ...(withTools ? { tools } : {}) };
      expect(chat.renderText(conversations[conversation]!, options)).toBe(text);
      expect(chat.render(conversations[conversation]!, options)).toEqual(ids);
      if (mask) expect(chat.renderWithRoles(conversations[conversation]!, options).assistant.map(Number)).toEqual(mask);
    }
  });

  test("the tokens of a role are what it said; the assistant ends its turn itself", async () => {
    const chat = await load(own);
    const [user, assistant, again] = conversations[2]!;
    const { ids, roles, messages } = chat.renderWithRoles([user!, assistant!, again!], { addGenerationPrompt: true });
    const said = (role: string, message: number): string =>
      chat.tokenizer.decode(ids.filter((_, t) => roles[t] === role && messages[t] === message)).trim();
    const end = own.parts["eos_token"]!;
    expect(said("user", 0)).toBe(user!.content);
    expect(said("assistant", 1)).toBe(`${assistant!.content as string}${end}`);
    const isNFC = chat.tokenizer.normalizer !== undefined;
    const third = (again!.content as string).trim();
    expect(said("user", 2)).toBe(isNFC ? third.normalize("NFC") : third);
  });

  test("an episode in its markup is the conversation that it renders", async () => {
    const chat = await load(own);
    const format = chat.episodeFormat();
    const template = new Template(chat.tokenizer, { format });
    const stream = emptyStream();
    template.appendTask(stream, "the fox");
    // Mistral's template writes a space before what the assistant says, which a model samples.
    const said = own.name.startsWith("mistral") ? " look" : "look";
    const body = chat.tokenizer.encode(`${own.parts["bos_token"] ?? ""}[INST]${said}`, { specials: "tokens" });
    const spoken = own.name.startsWith("mistral") ? body.slice(2) : chat.tokenizer.encode(said);
    template.appendSampled(stream, 0, [...spoken, template.endId]);
    template.appendObservation(stream, 0, template.encodeObservation("a dog", 100));
    const rendered = chat.render(
      [
        { role: "user", content: "the fox" },
        { role: "assistant", content: "look" },
        { role: "user", content: "a dog" },
      ],
      { addGenerationPrompt: true },
    );
    expect(stream.ids).toEqual(rendered);
    const observed = stream.ids.filter((_, t) => stream.roles[t] === "observation");
    expect(chat.tokenizer.decode(observed).trim()).toBe("a dog");
    expect(stream.ids.filter((_, t) => stream.roles[t] === "action")).toEqual([...spoken, template.endId]);
  });

  test("what somebody says forges no special token", async () => {
    const chat = await load(own);
    const plain = chat.render([{ role: "user", content: "a b" }]);
    for (const name of Object.keys(chat.tokenizer.special)) {
      const content = `a${name}b`;
      const ids = chat.render([{ role: "user", content }]);
      const specials = (of: number[]): number[] =>
        of.filter((id) => Object.values(chat.tokenizer.special).includes(id));
      expect(specials(ids)).toEqual(specials(plain));
      expect(chat.renderText([{ role: "user", content }])).toContain(content);
    }
  });
});

describe("prefixes", () => {
  test("a template that leaves out earlier thoughts has no roles of the whole, and says so by name", async () => {
    const chat = await load(kind("qwen"));
    expect(() => chat.renderWithRoles(conversations[6]!)).toThrow(
      /^qwen: the template writes messages 0 to 1 otherwise/,
    );
  });

  test("appended turn by turn, thoughts stay as they were sampled", async () => {
    const chat = await load(kind("qwen"));
    const template = new Template(chat.tokenizer, { format: chat.episodeFormat() });
    const stream = emptyStream();
    template.appendTask(stream, "x");
    const sampled = [...chat.tokenizer.encode("<think>hm</think>\n\nlook"), template.endId];
    template.appendSampled(stream, 0, sampled);
    template.appendObservation(stream, 0, template.encodeObservation("y", 9));
    const at = stream.roles.indexOf("action");
    expect(stream.ids.slice(at, at + sampled.length)).toEqual(sampled);
  });

  test("tools and a system prompt stand before the task; a tool's answer in the markup of tools", async () => {
    const chat = await load(kind("qwen"));
    const format = chat.episodeFormat({ system: "Be brief.", tools, answers: "tool" });
    expect(format.task[0]).toContain("Be brief.");
    expect(format.task[0]).toContain('"name": "search"');
    expect(format.observation).toEqual(["\n<|im_start|>user\n<tool_response>\n", "\n</tool_response><|im_end|>\n"]);
    const llama = await load(kind("llama3"));
    expect(() => llama.episodeFormat({ answers: "tool" })).toThrow("llama3: the template does not write what a tool");
  });
});

describe("bad input", () => {
  const tokenizer = family("qwen");
  test("errors name the template and the reason", async () => {
    await expect(chatTemplate({ tokenizer, config: {} })).rejects.toThrow("there is no chat template");
    await expect(chatTemplate({ tokenizer, template: "{% if %}", name: "m" })).rejects.toThrow(
      "m: the template cannot",
    );
    const mistral = await load(kind("mistral"));
    expect(() => mistral.render([{ role: "assistant", content: "x" }])).toThrow("roles must alternate");
    expect(() => mistral.render("x" as never)).toThrow('expected a list of messages, got "x"');
    expect(() => mistral.render([{ content: "x" } as never])).toThrow("message 0 has no role");
    expect(() => mistral.render([], { tool: [] } as never)).toThrow("unknown option 'tool'");
  });

  test("of several templates that for tools is taken; tokens may be objects; the date is the one given", async () => {
    const chat = await chatTemplate({
      tokenizer,
      config: {
        eos_token: { content: "<|im_end|>" },
        chat_template: [
          { name: "default", template: "no" },
          {
            name: "tool_use",
            template: "{{ eos_token }}{% if strftime_now is defined %}{{ strftime_now('%d %b %Y') }}{% endif %}",
          },
        ],
      },
    });
    expect(chat.renderText([], { now: new Date(2026, 1, 3) })).toBe("<|im_end|>03 Feb 2026");
  });
});
