/**
 * Thoughts apart from answers, as reasoning_content: in texts that grow, in whole answers and in parts, before calls
 * and before answers of a form.
 */
import { readFileSync } from "node:fs";
import fc from "fast-check";
import OpenAI from "openai";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { chatTemplate, type ChatTemplate } from "../../../connect/chat/index.ts";
import { readMessages } from "../../../connect/serve/chat.ts";
import { checkpointChat, type PolicyServer, servePolicy } from "../../../connect/serve/index.ts";
import { thoughtIn, writesThoughts } from "../../../connect/chat/thoughts.ts";
import type { Device } from "../../../engine/device.ts";
import { tokenizerFromJSON } from "../../../pretrained/tokenizers/json.ts";
import { wasm } from "../../support/rlExecutors.ts";
import { scriptedModel, teach } from "../../support/scriptedModel.ts";

let device: Device;
beforeAll(async () => {
  device = await wasm.open();
});
afterAll(() => device.dispose());
let server: PolicyServer | undefined;
afterEach(async () => server?.close());

describe("a thought", () => {
  it.each<[string, boolean, string, string]>([
    ["<think>a</think>b", false, "a", "b"],
    [" <think>\n a \n</think>\n\nb\n", false, "a", "b\n"],
    ["a</think>b", true, "a", "b"],
    ["a</think>b", false, "", "a</think>b"],
    ["b <think>a</think>", false, "", "b <think>a</think>"],
    ["<think>a", false, "a", ""],
    ["a", true, "a", ""],
    ["<think>a</thin", false, "a</thin", ""],
    ["<think></think>", false, "", ""],
    ["<thin", false, "", "<thin"],
    ["", false, "", ""],
    ["", true, "", ""],
    ["<think>a</think>b</think>c", false, "a", "b</think>c"],
  ])("of %j (begun: %s)", (text, isBegun, thought, answer) => {
    const { from, to, answer: at } = thoughtIn(text, isBegun, true);
    expect([text.slice(from, to), text.slice(at)]).toEqual([thought, answer]);
  });

  it("that grows never shows what it would have to take back", () => {
    const piece = fc.constantFrom("<think>", "</think>", "<", "</", "think", ">", " ", "\n", "a");
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 8 }), fc.boolean(), (pieces, isBegun) => {
        const text = pieces.join("");
        const whole = thoughtIn(text, isBegun, true);
        for (let length = 0; length <= text.length; length++) {
          const { from, to, answer } = thoughtIn(text.slice(0, length), isBegun, false);
          expect(text.slice(whole.from, whole.to).startsWith(text.slice(from, to))).toBe(true);
          expect(text.slice(whole.answer).startsWith(text.slice(answer, length))).toBe(true);
        }
      }),
      { numRuns: 1000 },
    );
  });
});

const read = (path: string): string => readFileSync(new URL(`../../fixtures/${path}`, import.meta.url), "utf8");
async function templateOf(name?: string): Promise<ChatTemplate> {
  const { sets } = JSON.parse(read("tokenizers/families.json")) as { sets: { name: string; tokenizer: unknown }[] };
  const { kinds } = JSON.parse(read("chat/templates.json")) as {
    kinds: { name: string; tokenizer: string; template: string; parts: Record<string, string> }[];
  };
  const kind = kinds.find((one) => one.name === "qwen")!;
  const tokenizer = tokenizerFromJSON(sets.find((set) => set.name === kind.tokenizer)!.tokenizer);
  const template = name === undefined ? kind.template : read(`chat/public/${name}.jinja`);
  return chatTemplate({ tokenizer, template, config: kind.parts, name: name ?? "qwen" });
}

it.each<[string | undefined, boolean]>([
  [undefined, true],
  ["qwen2_5_training", false],
  ["mistral-v7-tekken", false],
  ["qwen3", true],
  ["qwen3_5_nothink", true],
  ["deepseek-r1", true],
  ["nemotron_3_nano", true],
  ["smollm3", true],
])("the template %s has thoughts: %s", async (name, thinks) => {
  expect(writesThoughts(await templateOf(name), {})).toBe(thinks);
});

const QUESTION = { role: "user", content: "Why?" } as const;
interface Message {
  readonly content: string | null;
  readonly reasoning_content?: string | null;
  readonly tool_calls?: unknown[];
}

describe("an answer of a model that thinks", () => {
  const THOUGHT = "<think>\nBecause of x.\n</think>\n\n";
  async function start(written: string, tools?: OpenAI.ChatCompletionTool[]): Promise<OpenAI> {
    const template = await templateOf("qwen3");
    const chat = checkpointChat(template);
    const model = scriptedModel(device, template.tokenizer.vocabSize, 640);
    server = await servePolicy({ model, tokenizer: template.tokenizer, stopIds: chat.stopIds }, { name: "m", chat });
    const ids = [...template.tokenizer.encode(written, { specials: "tokens" }), chat.stopIds[0]!];
    teach(model, [{ behind: chat.begin([QUESTION], tools).ids.length, ids }]);
    return new OpenAI({ baseURL: `${server.url}/v1`, apiKey: "none", maxRetries: 0 });
  }
  const ask = { model: "m", messages: [QUESTION], temperature: 0, max_tokens: 100 };
  const answer = async (client: OpenAI, fields: object): Promise<Message> =>
    (await client.chat.completions.create({ ...ask, ...fields })).choices[0]!.message;
  async function parts(client: OpenAI, fields: object = {}): Promise<[string, string, number]> {
    let [thought, text, calls] = ["", "", 0];
    const stream = await client.chat.completions.create({ ...ask, ...fields, stream: true });
    for await (const { choices } of stream) {
      const { reasoning_content: more = "", content, tool_calls } = choices[0]!.delta as Message;
      [thought, text, calls] = [thought + more!, text + (content ?? ""), calls + (tool_calls?.length ?? 0)];
    }
    return [thought, text, calls];
  }

  it("has its thought in a field of its own, unless the request says otherwise", async () => {
    const client = await start(`${THOUGHT}It is so.`);
    expect(await answer(client, {})).toMatchObject({ content: "It is so.", reasoning_content: "Because of x." });
    expect(await parts(client)).toEqual(["Because of x.", "It is so.", 0]);
    const together = await answer(client, { separate_reasoning: false });
    expect(together).not.toHaveProperty("reasoning_content");
    expect(together.content).toBe(`${THOUGHT}It is so.`);
    expect(await parts(client, { separate_reasoning: false })).toEqual(["", `${THOUGHT}It is so.`, 0]);
    const cut = await answer(client, { max_tokens: 12 });
    expect([cut.content, "Because of x.".startsWith(cut.reasoning_content!)]).toEqual([null, true]);
  });

  it("without one is all content", async () => {
    const client = await start("<b>It</b> is so.");
    expect(await answer(client, {})).toMatchObject({ content: "<b>It</b> is so.", reasoning_content: null });
    expect(await parts(client)).toEqual(["", "<b>It</b> is so.", 0]);
  });

  it("goes before calls, and before an answer of a form, which alone is the content", async () => {
    const tools = [
      { type: "function" as const, function: { name: "f", parameters: { type: "object", properties: {} } } },
    ];
    const call = `${THOUGHT}<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>`;
    const client = await start(call, tools);
    const message = await answer(client, { tools });
    expect(message).toMatchObject({
      content: null,
      reasoning_content: "Because of x.",
      tool_calls: [{ function: { name: "f" } }],
    });
    expect(await parts(client, { tools })).toEqual(["Because of x.", "", 1]);
    expect(await answer(client, { tools, tool_choice: "required" })).toEqual({
      ...message,
      tool_calls: expect.any(Array) as unknown,
    });
    await server!.close();
    const json = await start(`${THOUGHT}{"a": 1}`);
    const response_format = { type: "json_object" };
    expect(await answer(json, { response_format })).toMatchObject({
      content: '{"a": 1}',
      reasoning_content: "Because of x.",
    });
    // In the content a thought would be no JSON.
    expect((await answer(json, { response_format, separate_reasoning: false })).content).toMatch(/^\{/);
    const off = { chat_template_kwargs: { enable_thinking: false } };
    expect((await answer(json, { response_format, ...off })).reasoning_content).toBe(null);
  });

  it("may be sent back with its thought, which the template writes", async () => {
    const template = await templateOf("qwen3");
    const chat = checkpointChat(template);
    const call = { id: "a", type: "function", function: { name: "f", arguments: "{}" } };
    const messages = [
      QUESTION,
      { role: "assistant", content: null, reasoning_content: "qTHOUGHTq", tool_calls: [call] },
      { role: "tool", content: "1", tool_call_id: "a" },
    ];
    expect(template.tokenizer.decode(chat.begin(readMessages(messages, true)).ids)).toContain("qTHOUGHTq");
    expect(() => readMessages([{ ...messages[1], reasoning_content: 1 }], true)).toThrow(
      "messages[0].reasoning_content must be a text",
    );
  });
});
