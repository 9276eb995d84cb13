/**
 * Answers of a form, asked for with the client of OpenAI: JSON that fits a schema and calls that have to come, from
 * models that would write something else; whole, in parts, several, and among requests without a form.
 */
import { readFileSync } from "node:fs";
import OpenAI from "openai";
import { zodFunction, zodResponseFormat } from "openai/helpers/zod";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { z } from "zod";
import { chatTemplate, type ChatTemplate } from "../../../connect/chat/index.ts";
import { checkpointChat, type PolicyServer, servePolicy } from "../../../connect/serve/index.ts";
import type { Device } from "../../../engine/device.ts";
import { byteTokenizer } from "../../../nn/tokenizer.ts";
import { tokenizerFromJSON } from "../../../pretrained/tokenizers/json.ts";
import { SPECIAL_TOKENS, Template } from "../../../rl/episode/template.ts";
import { wasm } from "../../support/rlExecutors.ts";
import { toyModel, toyTemplate, toyTokenizer } from "../../support/rlToy.ts";
import { scriptedModel, teach } from "../../support/scriptedModel.ts";

let device: Device;
beforeAll(async () => {
  device = await wasm.open();
});
afterAll(() => device.dispose());
let server: PolicyServer | undefined;
afterEach(async () => server?.close());

const tokenizer = byteTokenizer({ specials: [...SPECIAL_TOKENS] });
const template = new Template(tokenizer);
const clientOf = (served: PolicyServer): OpenAI =>
  new OpenAI({ baseURL: `${served.url}/v1`, apiKey: "none", maxRetries: 0 });

/** A model over bytes with random logits, which writes nonsense. */
async function start(): Promise<OpenAI> {
  const model = toyModel(device, 1, { vocabSize: tokenizer.vocabSize, maxPositions: 512 });
  server = await servePolicy({ model, tokenizer, template }, { name: "toy", rows: 4 });
  return clientOf(server);
}

const withIds = { return_token_ids: true };
const anyJson = { response_format: { type: "json_object" } };
/** Makes strings and lists end soon. */
const ENDING = { logit_bias: { 34: 4, 93: 3, 125: 3 } };
const ASK = { model: "toy", messages: [{ role: "user" as const, content: "go" }], max_tokens: 300, ...ENDING };
const PERSON = z.object({
  name: z.string(),
  age: z.int().min(0).max(130),
  mood: z.enum(["good", "goodish", "bad"]),
  tags: z.array(z.string()),
  note: z.string().nullable(),
  nested: z.object({ list: z.array(z.array(z.boolean())), empty: z.object({}) }),
});
const format = (schema: object): OpenAI.ResponseFormatJSONSchema => ({
  type: "json_schema",
  json_schema: { name: "x", schema: schema as Record<string, unknown>, strict: true },
});

describe("a response format", () => {
  it("of zod is parsed by OpenAI's helper, at any temperature", async () => {
    const client = await start();
    for (const [seed, temperature] of [0, 0.5, 1, 1, 2].entries()) {
      const answer = await client.chat.completions.parse({
        ...ASK,
        seed,
        temperature,
        response_format: zodResponseFormat(PERSON, "person"),
      });
      const { message, finish_reason: reason } = answer.choices[0]!;
      expect(reason).toBe("stop");
      expect(PERSON.parse(message.parsed)).toEqual(JSON.parse(message.content!));
    }
  });

  it("json_object is any object; n answers differ; parts and logprobs agree with the whole", async () => {
    const client = await start();
    const ask = { ...ASK, seed: 4, n: 3, response_format: { type: "json_object" as const }, logprobs: true };
    const whole = await client.chat.completions.create(ask);
    const texts = whole.choices.map(({ message }) => message.content!);
    for (const [i, text] of texts.entries())
      if (whole.choices[i]!.finish_reason === "stop") expect(JSON.parse(text)).toBeTypeOf("object");
    expect(whole.choices.some(({ finish_reason: reason }) => reason === "stop")).toBe(true);
    expect(new Set(texts).size).toBe(3);
    const parts = ["", "", ""];
    for await (const { choices } of await client.chat.completions.create({ ...ask, stream: true }))
      parts[choices[0]!.index] += choices[0]!.delta.content ?? "";
    expect(parts).toEqual(texts);
    expect(whole.choices[0]!.logprobs!.content!.every(({ logprob }) => Number.isFinite(logprob))).toBe(true);
  });

  it("ends by itself without a token that ends a text, at a stop string, and at the limit of tokens", async () => {
    const client = await start();
    const schema = format({ enum: ["abcdef"] });
    const further = { response_format: schema, ignore_eos: true };
    const byItself = await client.completions.create({
      model: "toy",
      prompt: "go",
      max_tokens: 99,
      ...further,
    });
    const { text, finish_reason: reason } = byItself.choices[0]!;
    expect([text.trim(), reason]).toEqual(['"abcdef"', "stop"]);
    const ask = { ...ASK, response_format: schema };
    const stopped = await client.chat.completions.create({ ...ask, stop: "cd" });
    expect(stopped.choices[0]).toMatchObject({ message: { content: '"ab' }, finish_reason: "stop" });
    const cut = await client.chat.completions.create({ ...ask, max_tokens: 3 });
    expect(cut.choices[0]).toMatchObject({ message: { content: '"ab' }, finish_reason: "length" });
    const whole = await client.chat.completions.create({
      ...ask,
      ...withIds,
    });
    // The token that ends a turn is drawn, as a trainer expects it.
    expect((whole.choices[0] as unknown as { token_ids: number[] }).token_ids.at(-1)).toBe(template.endId);
  });

  it("of one request changes no other's bits, and no answer depends on company", async () => {
    const client = await start();
    const plain = { ...ASK, logit_bias: {}, seed: 7, max_tokens: 40 };
    const formed = { ...ASK, seed: 8, max_tokens: 60, response_format: format(z.toJSONSchema(z.array(z.boolean()))) };
    const alone = [await client.chat.completions.create(plain), await client.chat.completions.create(formed)];
    const together = await Promise.all(
      [plain, formed, { ...formed, seed: 9 }].map((ask) => client.chat.completions.create(ask)),
    );
    expect(together.slice(0, 2).map(({ choices }) => choices)).toEqual(alone.map(({ choices }) => choices));
    expect(together[2]!.choices[0]!.message.content).toMatch(/^\s*\[/);
  });

  it("is refused by its name", async () => {
    const client = await start();
    const refused: [object, string][] = [
      [{ type: "json_schema" }, "response_format must be"],
      [{ type: "grammar" }, "response_format must be"],
      [{ type: "json_schema", json_schema: { schema: {} } }, "response_format must be"],
      [format({ type: "string", pattern: "a" }), "'pattern' is not supported"],
      [format({ $ref: "#/$defs/a" }), "points to nothing"],
    ];
    for (const [response_format, message] of refused)
      await expect(client.chat.completions.create({ ...ASK, response_format } as never)).rejects.toThrow(message);
  });

  it("that the vocabulary cannot write is an error that says so, of that request alone", async () => {
    server = await servePolicy(
      { model: toyModel(device), tokenizer: toyTokenizer, template: toyTemplate },
      { name: "toy" },
    );
    const client = clientOf(server);
    const ask = { model: "toy", prompt: [1], max_tokens: 5 };
    const [error, other] = await Promise.allSettled([
      client.completions.create({ ...ask, ...anyJson }),
      client.completions.create(ask),
    ]);
    expect((error as PromiseRejectedResult).reason).toMatchObject({
      status: 400,
      message: expect.stringContaining("response_format: the vocabulary has no token that continues") as string,
    });
    expect(other.status).toBe("fulfilled");
    expect(server.engine.load).toEqual({ running: 0, waiting: 0 });
  });
});

const read = (path: string): unknown =>
  JSON.parse(readFileSync(new URL(`../../fixtures/${path}`, import.meta.url), "utf8"));
const { sets } = read("tokenizers/families.json") as { sets: { name: string; tokenizer: unknown }[] };
const { kinds } = read("chat/templates.json") as {
  kinds: { name: string; tokenizer: string; template: string; parts: Record<string, string> }[];
};
async function qwen(): Promise<ChatTemplate> {
  const kind = kinds.find(({ name }) => name === "qwen")!;
  const own = tokenizerFromJSON(sets.find(({ name }) => name === kind.tokenizer)!.tokenizer);
  return chatTemplate({ tokenizer: own, template: kind.template, config: kind.parts, name: "qwen" });
}

const TOOLS = [
  zodFunction({
    name: "walk",
    parameters: z.object({ way: z.enum(["north", "northeast"]), steps: z.int().min(1).max(9) }),
  }),
  zodFunction({ name: "rest", parameters: z.object({}) }),
];
const QUESTION = { role: "user", content: "Which way?" } as const;

describe("a call that has to come", () => {
  async function startQwen(): Promise<{
    client: OpenAI;
    chat: ReturnType<typeof checkpointChat>;
    own: ChatTemplate;
    model: ReturnType<typeof scriptedModel>;
  }> {
    const own = await qwen();
    const chat = checkpointChat(own);
    const model = scriptedModel(device, own.tokenizer.vocabSize, 704);
    server = await servePolicy({ model, tokenizer: own.tokenizer, stopIds: chat.stopIds }, { name: "m", chat });
    return { client: clientOf(server), chat, own, model };
  }
  // A model that draws at random would not end its thoughts (thoughts.test.ts has answers with them).
  const plain = { separate_reasoning: false };
  const ask = { model: "m", messages: [QUESTION], tools: TOOLS, max_tokens: 150, ...plain };

  it("comes in the model's form, whole and in parts; a named one with the reason that OpenAI gives", async () => {
    const { client } = await startQwen();
    for (const seed of [1, 2]) {
      const required = { ...ask, seed, tool_choice: "required" as const, parallel_tool_calls: false };
      const { message, finish_reason: reason } = (await client.chat.completions.parse(required)).choices[0]!;
      expect([message.content, reason, message.tool_calls!.length]).toEqual([null, "tool_calls", 1]);
      const { name, parsed_arguments: parsed } = message.tool_calls![0]!.function;
      if (name === "rest") expect(parsed).toEqual({});
      else expect(["north", "northeast"]).toContain((parsed as { way: string }).way);
      let [text, calls, why] = ["", "", ""];
      for await (const { choices } of await client.chat.completions.create({ ...required, stream: true })) {
        text += choices[0]!.delta.content ?? "";
        for (const call of choices[0]!.delta.tool_calls ?? [])
          calls += call.function!.name! + call.function!.arguments!;
        why = choices[0]!.finish_reason ?? why;
      }
      expect([text, calls, why]).toEqual(["", name + message.tool_calls![0]!.function.arguments, "tool_calls"]);
      const tool_choice = { type: "function" as const, function: { name: "walk" } };
      const named = (await client.chat.completions.create({ ...ask, seed, tool_choice })).choices[0]!;
      expect(named.finish_reason).toBe("stop");
      expect(named.message.tool_calls!.map((call) => (call as { function: { name: string } }).function.name)).toEqual([
        "walk",
      ]);
    }
  });

  it("is several if the model goes on, and is cut at the limit of tokens", async () => {
    const { client, chat } = await startQwen();
    // The token that ends a turn is all but forbidden, so the model goes on.
    const logit_bias = { [chat.stopIds[0]!]: -100 };
    const goesOn = { ...ask, seed: 1, tool_choice: "required" as const, logit_bias };
    const { message } = (await client.chat.completions.create(goesOn)).choices[0]!;
    expect(message.tool_calls!.length).toBeGreaterThan(1);
    const cut = (await client.chat.completions.create({ ...ask, tool_choice: "required", max_tokens: 4 })).choices[0]!;
    expect([cut.finish_reason, cut.message.tool_calls]).toEqual(["length", undefined]);
  });

  it("is what the model wanted, where it wanted one; the next turn goes on from its tokens", async () => {
    const { chat, own, model } = await startQwen();
    const { rollout, baseUrl } = server!.openRollout();
    const prompt = chat.begin([QUESTION], TOOLS).ids;
    const written = '<tool_call>\n{"name": "walk", "arguments": {"way": "northeast", "steps": 7}}\n</tool_call>';
    const ids = [...own.tokenizer.encode(written, { specials: "tokens" }), chat.stopIds[0]!];
    teach(model, [{ behind: prompt.length, ids }]);
    const client = new OpenAI({ baseURL: baseUrl, apiKey: "none", maxRetries: 0 });
    const answer = await client.chat.completions.create({ ...ask, temperature: 0, tool_choice: "required" });
    expect(answer.choices[0]!.message.tool_calls).toMatchObject([
      { function: { name: "walk", arguments: '{"way": "northeast", "steps": 7}' } },
    ]);
    expect(rollout.end({ reward: 1 })[0]!.stream.ids).toEqual([...prompt, ...ids]);
  });

  it("may come in place of an answer that fits a schema", async () => {
    const { client } = await startQwen();
    const kindsOfAnswer = new Set<string>();
    for (let seed = 0; seed < 12; seed++) {
      const response_format = format({ enum: ["done", 1] });
      const { message } = (await client.chat.completions.create({ ...ask, seed, response_format })).choices[0]!;
      kindsOfAnswer.add(message.tool_calls ? "call" : "value");
      if (!message.tool_calls) expect(["done", 1]).toContain(JSON.parse(message.content!));
    }
    expect(kindsOfAnswer).toEqual(new Set(["call", "value"]));
  });

  it("that is none of the tools is refused", async () => {
    const { client } = await startQwen();
    const refusal = (fields: object): Promise<unknown> =>
      client.chat.completions.create({ ...ask, ...fields } as never);
    const other = { type: "function", function: { name: "fly" } };
    await expect(refusal({ tool_choice: other })).rejects.toThrow(
      'tool_choice must be one of the tools (walk, rest), got "fly"',
    );
    await expect(refusal({ tool_choice: "any" })).rejects.toMatchObject({ status: 400, param: "tool_choice" });
    await expect(refusal({ tool_choice: "required", tools: [] })).rejects.toThrow('"none" or "auto" without tools');
    const tools = [
      {
        type: "function",
        function: { name: "f", parameters: { type: "object", properties: { a: { type: "string", pattern: "a" } } } },
      },
    ];
    await expect(refusal({ tool_choice: "required", tools })).rejects.toThrow(
      "tools: f.parameters: 'pattern' is not supported (at /properties/a)",
    );
    await expect(refusal({ tool_choice: "auto", tools, max_tokens: 2 })).resolves.toBeDefined();
  });
});
