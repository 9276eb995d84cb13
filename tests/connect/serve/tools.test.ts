/**
 * Conversations in a checkpoint's own template, with calls of tools, spoken to by the client of OpenAI: what the model
 * wrote comes back as calls, whole and in parts; the next turn goes on from the tokens that were sampled.
 */
import { readFileSync } from "node:fs";
import fc from "fast-check";
import OpenAI from "openai";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { chatTemplate, type ChatTemplate } from "../../../connect/chat/index.ts";
import type { Device } from "../../../engine/device.ts";
import { tokenizerFromJSON } from "../../../pretrained/tokenizers/json.ts";
import { readMessages } from "../../../connect/serve/chat.ts";
import { type ChatFormat, checkpointChat, type PolicyServer, servePolicy } from "../../../connect/serve/index.ts";
import {
  type AnswerContext,
  callsWrittenBy,
  parseAnswer,
  plainLength,
  type ToolForm,
  toolFormOf,
} from "../../../connect/chat/toolCalls.ts";
import { wasm } from "../../support/rlExecutors.ts";
import { scriptedModel, teach } from "../../support/scriptedModel.ts";

interface Kind {
  readonly name: string;
  readonly tokenizer: string;
  readonly template: string;
  readonly parts: Record<string, string>;
}
const read = (path: string): unknown =>
  JSON.parse(readFileSync(new URL(`../../fixtures/${path}`, import.meta.url), "utf8"));
const { sets } = read("tokenizers/families.json") as { sets: { name: string; tokenizer: unknown }[] };
const { kinds } = read("chat/templates.json") as { kinds: Kind[] };

/** The markup of Llama 3.1 for tools, as far as it matters here. */
const LLAMA_TOOLS = `{{- bos_token }}
{%- if tools %}{{- '<|start_header_id|>system<|end_header_id|>\\n\\n' + (tools | tojson) + '<|eot_id|>' }}{% endif %}
{%- for m in messages %}
    {%- if m.role == 'assistant' and m.tool_calls %}
        {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n{"name": "' + m.tool_calls[0].function.name }}
        {{- '", "parameters": ' + (m.tool_calls[0].function.arguments | tojson) + '}<|eot_id|>' }}
    {%- else %}
        {{- '<|start_header_id|>' + (m.role if m.role != 'tool' else 'ipython') + '<|end_header_id|>\\n\\n' }}
        {{- m.content + '<|eot_id|>' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}`;

/** The markup of Mistral 7B 0.3 and Nemo for tools, as far as it matters here. */
const MISTRAL_TOOLS = `{{- bos_token }}
{%- for m in messages %}
    {%- if m.role == 'assistant' and m.tool_calls %}
        {{- '[TOOL_CALLS][' }}
        {%- for call in m.tool_calls %}
            {{- {"name": call.function.name, "arguments": call.function.arguments, "id": call.id} | tojson }}
            {{- ", " if not loop.last else "]<|eot_id|>" }}
        {%- endfor %}
    {%- elif m.role == 'assistant' %}{{- ' ' + m.content + '<|eot_id|>' }}
    {%- elif m.role == 'tool' %}{{- '[TOOL_RESULTS]{"content": ' + m.content + '}[/TOOL_RESULTS]' }}
    {%- else %}
        {%- if tools and loop.last %}{{- '[AVAILABLE_TOOLS]' + (tools | tojson) + '[/AVAILABLE_TOOLS]' }}{% endif %}
        {{- '[INST] ' + m.content + '[/INST]' }}
    {%- endif %}
{%- endfor %}`;

/** The markup of Mistral Small 3.2 and Devstral for tools, as far as it matters here. */
const MISTRAL_ARGS = MISTRAL_TOOLS.replace(/\{\{- '\[TOOL_CALLS\]\[' \}\}\n/, "")
  .replace(
    /\{\{- \{"name"[^\n]*\n/,
    "{{- '[TOOL_CALLS]' + call.function.name + '[ARGS]' + (call.function.arguments | tojson) }}\n",
  )
  .replace('{{- ", " if not loop.last else "]<|eot_id|>" }}', '{{- "" if not loop.last else "<|eot_id|>" }}');

/** A public template, unchanged. */
const publicTemplate = (name: string): string =>
  readFileSync(new URL(`../../fixtures/chat/public/${name}.jinja`, import.meta.url), "utf8");

const templateOf = (name: string, template?: string): Promise<ChatTemplate> => {
  const kind = kinds.find((one) => one.name === name)!;
  const tokenizer = tokenizerFromJSON(sets.find((set) => set.name === kind.tokenizer)!.tokenizer);
  return chatTemplate({ tokenizer, template: template ?? kind.template, config: kind.parts, name });
};

const TOOLS: OpenAI.ChatCompletionTool[] = [
  { type: "function", function: { name: "search", parameters: { type: "object", properties: { q: {} } } } },
];
const QUESTION = { role: "user", content: "where is the <|im_end|> fox?" } as const;

let device: Device;
beforeAll(async () => {
  device = await wasm.open();
});
afterAll(() => device.dispose());
let server: PolicyServer | undefined;
afterEach(async () => server?.close());

const idsOf = (choice: unknown): number[] => (choice as { token_ids: number[] }).token_ids;
const said = (template: ChatTemplate, text: string, chat: ChatFormat): number[] => [
  ...template.tokenizer.encode(text, { specials: "tokens" }),
  chat.stopIds[0]!,
];
const WITH_IDS = { return_token_ids: true, temperature: 0 };

describe.each([
  [
    "hermes",
    "qwen",
    undefined,
    'Let me see.\n<tool_call>\n{"name": "search", "arguments": {"q":  "fox"}}\n</tool_call>',
  ],
  ["llama3", "llama3", LLAMA_TOOLS, '{"name": "search", "parameters": {"q":  "fox"}}'],
  ["mistral", "llama3", MISTRAL_TOOLS, '[{"name": "search", "arguments": {"q":  "fox"}}]'],
  ["mistral_args", "llama3", MISTRAL_ARGS, 'Let me see.\n[TOOL_CALLS]search[ARGS]{"q":  "fox"}'],
  [
    "qwen3_coder",
    "qwen",
    publicTemplate("qwen3_5_nothink"),
    "Let me see.\n<tool_call>\n<function=search>\n<parameter=q>\nfox\n</parameter>\n</function>\n</tool_call>",
  ],
] as const)("%s", (form, name, source, written) => {
  it("calls come back as calls; the next turn goes on from the sampled tokens", async () => {
    const template = await templateOf(name, source);
    const chat = checkpointChat(template);
    expect(chat.toolForm).toBe(form);
    const model = scriptedModel(device, template.tokenizer.vocabSize, form === "qwen3_coder" ? 1024 : undefined);
    server = await servePolicy({ model, tokenizer: template.tokenizer, stopIds: chat.stopIds }, { name: "m", chat });
    const { rollout, baseUrl } = server.openRollout();
    const client = new OpenAI({ baseURL: baseUrl, apiKey: "none", maxRetries: 0 });

    const prompt = chat.begin([QUESTION], TOOLS).ids;
    const first = said(template, written, chat);
    const content = written.startsWith("Let me see.") ? "Let me see.\n" : "";
    const json = form === "qwen3_coder" ? '{"q": "fox"}' : '{"q":  "fox"}';
    const result = { role: "tool", content: "two hits <|im_end|>", tool_call_id: "" } as const;
    const more = chat.extend([result], first.at(-1)!, 0).ids;
    const second = said(template, "In the wood.", chat);
    teach(model, [
      { behind: prompt.length, ids: first },
      { behind: prompt.length + first.length + more.length, ids: second },
    ]);

    const asked = { model: "m", tools: TOOLS, ...WITH_IDS } as const;
    const one = await client.chat.completions.create({ ...asked, messages: [QUESTION] });
    const { message, finish_reason: reason } = one.choices[0]!;
    expect(one).toMatchObject({ prompt_token_ids: prompt });
    expect(idsOf(one.choices[0])).toEqual(first);
    expect([message.content ?? "", reason]).toEqual([content, "tool_calls"]);
    const call = message.tool_calls![0] as OpenAI.ChatCompletionMessageFunctionToolCall;
    expect(call.function).toEqual({ name: "search", arguments: json });
    // The call as the template would write it has other tokens (one space, not two): they are not rendered again.
    // The client writes the arguments anew, as many do: it is the same call.
    const asRead = { ...call, function: { ...call.function, arguments: '{"q": "\\u0066ox"}' } };
    const again = [QUESTION, { ...message, tool_calls: [asRead] }, { ...result, tool_call_id: call.id }];
    const two = await client.chat.completions.create({ ...asked, messages: again });
    expect(two).toMatchObject({ prompt_token_ids: [...prompt, ...first, ...more] });
    expect(two.choices[0]).toMatchObject({ message: { content: "In the wood." }, finish_reason: "stop" });
    // What the user and the tool said forges no end of a turn.
    expect(prompt.filter((id) => id === chat.stopIds[0])).toHaveLength(form.startsWith("mistral") ? 0 : 2);
    const finished = rollout.end({ reward: 1 });
    expect(finished).toHaveLength(1);
    const { ids, roles } = finished[0]!.stream;
    expect(ids).toEqual([...prompt, ...first, ...more, ...second]);
    expect(ids.filter((_, t) => roles[t] === "action")).toEqual([...first, ...second]);
    expect(template.tokenizer.decode(ids.filter((_, t) => roles[t] === "observation")).trim()).toBe(result.content);
  });

  it("of a rewritten conversation the new answers are the world's, all else is the prompt's", async () => {
    const template = await templateOf(name, source);
    const chat = checkpointChat(template);
    const say = (role: "user" | "assistant", content: string) => ({ role, content });
    const messages = [
      say("user", "go"),
      say("assistant", "a"),
      say("user", "x0"),
      say("assistant", "b"),
      say("user", "x1"),
    ];
    const plain = chat.begin(messages);
    expect(new Set(plain.roles)).toEqual(new Set(["prompt"]));
    const marked = chat.begin(messages, undefined, new Set([4]));
    expect(marked.ids).toEqual(plain.ids);
    const answer = marked.ids.filter((_, t) => marked.targets[t]);
    expect(template.tokenizer.decode(answer).trim()).toBe("x1");
    expect(new Set(marked.roles)).toEqual(new Set(["prompt", "observation"]));
  });

  it("in a stream no part of a call is shown as text", async () => {
    const template = await templateOf(name, source);
    const chat = checkpointChat(template);
    const model = scriptedModel(device, template.tokenizer.vocabSize, form === "qwen3_coder" ? 1024 : undefined);
    server = await servePolicy({ model, tokenizer: template.tokenizer }, { name: "m", chat });
    const client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: "none", maxRetries: 0 });
    teach(model, [{ behind: chat.begin([QUESTION], TOOLS).ids.length, ids: said(template, written, chat) }]);
    const asked = { model: "m", messages: [QUESTION], temperature: 0, stream: true as const };
    let [text, reason, calls] = ["", "", ""];
    for await (const { choices } of await client.chat.completions.create({ ...asked, tools: TOOLS })) {
      const { delta, finish_reason: why } = choices[0]!;
      text += delta.content ?? "";
      reason = why ?? reason;
      for (const call of delta.tool_calls ?? [])
        calls += `${call.index} ${call.function!.name} ${call.function!.arguments}`;
    }
    expect([text, reason, calls]).toEqual([
      written.startsWith("Let me see.") ? "Let me see.\n" : "",
      "tool_calls",
      form === "qwen3_coder" ? '0 search {"q": "fox"}' : '0 search {"q":  "fox"}',
    ]);
    // Where calls are not asked for, the same tokens are text.
    text = "";
    for await (const { choices } of await client.chat.completions.create({
      ...asked,
      tools: TOOLS,
      tool_choice: "none",
    }))
      text += choices[0]!.delta.content ?? "";
    expect(text).toBe(written);
  });
});

describe("what cannot be", () => {
  it("is refused by name", async () => {
    const template = await templateOf("chatml");
    const chat = checkpointChat(template);
    expect(chat.toolForm).toBe(undefined);
    const model = scriptedModel(device, template.tokenizer.vocabSize);
    server = await servePolicy({ model, tokenizer: template.tokenizer }, { name: "m", chat });
    const client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: "none", maxRetries: 0 });
    const refusal = (body: object): Promise<string> =>
      client.chat.completions.create({ model: "m", messages: [QUESTION], ...body } as never).then(
        () => "answered",
        (error: unknown) => `${(error as InstanceType<typeof OpenAI.APIError>).status} ${(error as Error).message}`,
      );
    expect(await refusal({ tools: TOOLS })).toMatch(/^400 .*tools must be left out/);
    expect(await refusal({ tools: [{ type: "function" }] })).toMatch(/^400 .*tools must be a list of/);
    expect(await refusal({ tool_choice: "required" })).toMatch(
      /^400 .*tool_choice must be "none" or "auto" without tools/,
    );
    const call = { id: "a", type: "function", function: { name: "f", arguments: "{}" } };
    const calling = { messages: [QUESTION, { role: "assistant", tool_calls: [call] }, QUESTION] };
    expect(await refusal(calling)).toMatch(/^400 .*messages\[1\]\.tool_calls: this model's conversations/);
    await server.close();
    const tools = await templateOf("qwen");
    server = await servePolicy({ model, tokenizer: tools.tokenizer }, { name: "m", chat: checkpointChat(tools) });
    client.baseURL = `${server.url}/v1`;
    const broken = { ...call, function: { name: "f", arguments: "[1" } };
    expect(await refusal({ messages: [QUESTION, { role: "assistant", tool_calls: [broken] }, QUESTION] })).toMatch(
      /^400 .*tool_calls\[0\]\.function\.arguments must be an object as JSON/,
    );
    expect(await refusal({ chat_template_kwargs: "x" })).toMatch(/^400 .*chat_template_kwargs must be an object/);
    // A call without arguments, as many clients hold it (vllm-project/vllm#19419).
    const empty = { ...call, function: { name: "f", arguments: "" } };
    expect(readMessages([{ role: "assistant", tool_calls: [empty] }], true)[0]!.tool_calls).toEqual([call]);
  });
});

const CALL = '{"name":"f","arguments":{"x":1}}';
const BARE = "<function=f>\n<parameter=x>\n1\n</parameter>\n</function>";
const LLAMA = '{"name":"f","parameters":{"x":1}}';
const F: readonly [string, string] = ["f", '{"x":1}'];
/** Arguments with all tags in a string. */
const TAGS = '{"x":"a</tool_call>\\"<tool_call>{</think><think>"}';
const OF_TAGS = `{"name":"f","arguments":${TAGS}}`;

describe("calls in a text", () => {
  it.each<[ToolForm, string, string, (readonly [string, string])[], AnswerContext?]>([
    ["hermes", "no call", "no call", []],
    ["hermes", 'a<tool_call>{"name":"f"}</tool_call>', "a", [["f", "{}"]]],
    ["hermes", `<tool_call>${CALL}</tool_call>\n<tool_call>{"name":"g","arguments":{}}`, "", [F, ["g", "{}"]]],
    ["hermes", "<tool_call>{not json}</tool_call>", "<tool_call>{not json}</tool_call>", []],
    ["hermes", '<tool_call>{"name":1}</tool_call>', '<tool_call>{"name":1}</tool_call>', []],
    // Behind thoughts, which may speak of calls (waybarrios/vllm-mlx#33, verl-project/verl#4757).
    [
      "hermes",
      `<think>a <tool_call> b</think>\n<tool_call>${CALL}</tool_call>`,
      "<think>a <tool_call> b</think>\n",
      [F],
    ],
    [
      "hermes",
      `<think><tool_call>${CALL}</tool_call></think>no`,
      `<think><tool_call>${CALL}</tool_call></think>no`,
      [],
    ],
    ["hermes", `<think><tool_call>${CALL}</tool_call>`, `<think><tool_call>${CALL}</tool_call>`, []],
    ["hermes", `a <tool_call> b</think><tool_call>${CALL}`, "a <tool_call> b</think>", [F], { isThought: true }],
    ["hermes", `use <tool_call>: <tool_call>${CALL}</tool_call>`, "use <tool_call>: ", [F]],
    // Behind a thought in the middle of an answer, and in one, and behind one that has no end.
    ["hermes", `a <think>b</think> c <tool_call>${CALL}</tool_call>`, "a <think>b</think> c ", [F]],
    [
      "hermes",
      `a<think><tool_call>${CALL}</tool_call></think>b`,
      `a<think><tool_call>${CALL}</tool_call></think>b`,
      [],
    ],
    ["hermes", `a <think>b <tool_call>${CALL}</tool_call>`, `a <think>b <tool_call>${CALL}</tool_call>`, []],
    ["llama3", `a <think>b</think> c <think>{</think>\n${LLAMA}`, "a <think>b</think> c <think>{</think>", [F]],
    ["llama3", `{"x":1} <think>b</think>${LLAMA} is`, `{"x":1} <think>b</think>${LLAMA} is`, []],
    ["mistral", `a</think> b <think>c</think>[TOOL_CALLS][${CALL}]`, "a</think> b <think>c</think>", [F]],
    ["mistral", `[${OF_TAGS}]`, "", [["f", TAGS]]],
    // Tags in strings are text; in a string without an end they are tags.
    ["hermes", `a<tool_call>\n${OF_TAGS}\n</tool_call>b`, "ab", [["f", TAGS]]],
    ["hermes", `<tool_call>${OF_TAGS}<tool_call>${CALL}`, "", [["f", TAGS], F]],
    ["hermes", `<tool_call>${OF_TAGS} x</tool_call>`, `<tool_call>${OF_TAGS} x</tool_call>`, []],
    [
      "hermes",
      `<tool_call>{"name": "f</tool_call>a<tool_call>${CALL}</tool_call>`,
      '<tool_call>{"name": "f</tool_call>a',
      [F],
    ],
    // Numbers keep their digits; of two fields of a name the last counts; fields within others are none.
    [
      "hermes",
      '<tool_call>{"arguments":{"x":2}, "name": "f", "arguments" : { "x": 1234567890123456789, "y": 1.0 } }',
      "",
      [["f", '{ "x": 1234567890123456789, "y": 1.0 }']],
    ],
    [
      "llama3",
      '{"name": "f", "of": {"parameters": 1, "a": [",}"]}, "parameters": {"parameters": 12345678901234567890}}',
      "",
      [["f", '{"parameters": 12345678901234567890}']],
    ],
    ["mistral", '[{"name": "f", "arguments": null, "parameters": {"x": 1}}]', "", [["f", "{}"]]],
    // A broken call beside a good one.
    [
      "hermes",
      `a <tool_call>${CALL}</tool_call> b <tool_call>{"name": </tool_call>`,
      'a  b <tool_call>{"name": </tool_call>',
      [F],
    ],
    [
      "hermes",
      `a <tool_call>{"name": </tool_call> b <tool_call>${CALL}</tool_call>`,
      'a <tool_call>{"name": </tool_call> b ',
      [F],
    ],
    ["llama3", ' <|python_tag|>{"name": "f", "parameters": {"x": "a; {b"}}', "", [["f", '{"x": "a; {b"}']]],
    [
      "llama3",
      '{"name":"f","parameters":{}}; {"name":"g","parameters":{}}',
      "",
      [
        ["f", "{}"],
        ["g", "{}"],
      ],
    ],
    ["llama3", '{"x": 1}', '{"x": 1}', []],
    ["llama3", "plain {", "plain {", []],
    ["llama3", `<think>hm {</think>\n${LLAMA}`, "<think>hm {</think>", [F]],
    ["llama3", `<think>${LLAMA}`, `<think>${LLAMA}`, []],
    ["llama3", `${LLAMA}; {"name":`, '; {"name":', [F]],
    ["llama3", `{"x":1} ${LLAMA}`, '{"x":1} ', [F]],
    ["llama3", `${LLAMA} is a call`, `${LLAMA} is a call`, []],
    // JSON that has a name, as the answer to a question (vllm-project/vllm#47612, raullenchai/Rapid-MLX#703).
    ["llama3", '{"name": "Bob", "age": 3}', '{"name": "Bob", "age": 3}', []],
    ["llama3", '{"name": "f"}', '{"name": "f"}', [], { names: ["f"] }],
    ["llama3", LLAMA, LLAMA, [], { names: ["g"] }],
    ["llama3", LLAMA, "", [F], { names: ["g", "f"] }],
    ["mistral", `[TOOL_CALLS] [${CALL}]`, "", [F], { names: ["f"] }],
    ["mistral", `[${CALL}, {"name":"g","arguments":{}}]`, "", [F, ["g", "{}"]]],
    ["mistral", '[1, {"name": "f"}]', '[1, {"name": "f"}]', []],
    ["mistral", "[TOOL_CALLS] is a mark", "[TOOL_CALLS] is a mark", []],
    ["mistral_args", 'a[TOOL_CALLS]f[ARGS]{"x":1}[TOOL_CALLS]g[ARGS]{}', "a", [F, ["g", "{}"]]],
    // With an id, without the second mark, with words behind it (vllm-project/vllm#48976).
    ["mistral_args", '[TOOL_CALLS]f[CALL_ID]abcDEF123[ARGS]{"x":1}', "", [F]],
    ["mistral_args", '[TOOL_CALLS]f{"x":1}Estimating …', "Estimating …", [F]],
    ["mistral_args", `[TOOL_CALLS]f[ARGS]${TAGS}`, "", [["f", TAGS]]],
    ["mistral_args", "[TOOL_CALLS]f[ARGS]", "[TOOL_CALLS]f[ARGS]", []],
    ["mistral_args", '[TOOL_CALLS]f[ARGS]{"x":', '[TOOL_CALLS]f[ARGS]{"x":', []],
    ["mistral_args", "[TOOL_CALLS]f[ARGS]{x}", "[TOOL_CALLS]f[ARGS]{x}", []],
    [
      "mistral_args",
      '<think>[TOOL_CALLS]f[ARGS]{}</think>f[ARGS]{"x":1}',
      '<think>[TOOL_CALLS]f[ARGS]{}</think>f[ARGS]{"x":1}',
      [],
    ],
    [
      "mistral_args",
      '[TOOL_CALLS]f[ARGS]{}</think>[TOOL_CALLS]f[ARGS]{"x":1}',
      "[TOOL_CALLS]f[ARGS]{}</think>",
      [F],
      { isThought: true },
    ],
    ["mistral_args", "the mark [TOOL_CALLS] is one", "the mark [TOOL_CALLS] is one", []],
    ["qwen3_coder", "<tool_call>\n<function=f>\n</function>\n</tool_call>", "", [["f", "{}"]]],
    [
      "qwen3_coder",
      "a <tool_call><function=f><parameter=x>\n\n b </tool_call>\n\n</parameter></function></tool_call> b",
      "a  b",
      [["f", '{"x": "\\n b </tool_call>\\n"}']],
    ],
    // The outer tag is left out (ollama/ollama#16686); a tool that nobody named is text then (ollama/ollama#17742).
    ["qwen3_coder", `I see.\n${BARE}\n</tool_call>`, "I see.\n", [["f", '{"x": "1"}']], { names: ["f"] }],
    ["qwen3_coder", `I see.\n${BARE}`, `I see.\n${BARE}`, [], { names: ["g"] }],
    ["qwen3_coder", `<tool_call>${BARE}</tool_call>`, "", [["f", '{"x": "1"}']], { names: ["g"] }],
    // Ends of parameters are left out (vllm-project/vllm#23099).
    [
      "qwen3_coder",
      "<tool_call>\n<function=f>\n<parameter=x>\n1\n<parameter=y>\n2\n</function>\n</tool_call>",
      "",
      [["f", '{"x": "1", "y": "2"}']],
    ],
    ["qwen3_coder", "<tool_call>\n<function=f>\n<parameter=x>\n1", "<tool_call>\n<function=f>\n<parameter=x>\n1", []],
    ["qwen3_coder", `<tool_call>${CALL}</tool_call>`, `<tool_call>${CALL}</tool_call>`, []],
    ["qwen3_coder", `<think>${BARE}</think>x`, `<think>${BARE}</think>x`, []],
    ["qwen3_coder", "1 <function= 2", "1 <function= 2", []],
    ["qwen3_coder", "<function=>", "<function=>", []],
  ])("%s: %s", (form, text, content, calls, context = {}) => {
    const parsed = parseAnswer(form, text, context);
    expect(parsed.content).toBe(content);
    expect(parsed.calls.map(({ name, arguments: json }) => [name, json])).toEqual(calls);
    // Whatever is shown while it grows is a start of the content.
    for (let end = 0; end <= text.length; end++) {
      const shown = text.slice(0, plainLength(form, text.slice(0, end), context));
      expect(content.startsWith(shown), shown).toBe(true);
    }
  });

  it("values between tags are what the tool's schema says, and texts where they are not", () => {
    const schemas = {
      f: {
        properties: {
          zip: { type: "string" },
          age: { type: "integer" },
          big: { type: "number" },
          on: { type: "boolean" },
          maybe: { anyOf: [{ type: "array" }, { type: "null" }] },
          many: { type: ["object", "null"] },
          any: {},
        },
      },
    };
    const argumentsOf = (values: Readonly<Record<string, string>>): string => {
      const body = Object.entries(values).map(([key, value]) => `<parameter=${key}>\n${value}\n</parameter>\n`);
      const text = `<tool_call>\n<function=f>\n${body.join("")}</function>\n</tool_call>`;
      return parseAnswer("qwen3_coder", text, { schemas }).calls[0]!.arguments;
    };
    expect(argumentsOf({ zip: "03106", age: "32", big: "12345678901234567890.10", on: "True" })).toBe(
      '{"zip": "03106", "age": 32, "big": 12345678901234567890.10, "on": true}',
    );
    // A date where a number should be is told as it is (ml-explore/mlx-lm#1330); anyOf (vllm-project/vllm#36032).
    expect(argumentsOf({ age: "2026-01-15", on: "yes", maybe: "None", many: '{"a": [1]}' })).toBe(
      '{"age": "2026-01-15", "on": "yes", "maybe": null, "many": {"a": [1]}}',
    );
    expect(argumentsOf({ maybe: '["a"]', any: '{"a": 1}', other: "null" })).toBe(
      '{"maybe": ["a"], "any": {"a": 1}, "other": "null"}',
    );
    expect(argumentsOf({ any: "1", age: "007", zip: "" })).toBe('{"any": "1", "age": "007", "zip": ""}');
    expect(argumentsOf({ __proto__x: "1", constructor: "2" })).toBe('{"__proto__x": "1", "constructor": "2"}');
  });

  it("of random pieces: what is shown while it grows is a start of the content, and no call is shown", () => {
    const pieces = [
      "<tool_call>",
      "</tool_call>",
      "<think>",
      "</think>",
      CALL,
      OF_TAGS,
      LLAMA,
      '{"x":1}',
      "{",
      "}",
      '"',
      " ",
      ";",
      "<function=f>",
      "</function>",
      "<parameter=x>",
      "</parameter>",
      "\n",
      "f[ARGS]",
      "f",
    ];
    const text = fc.array(fc.constantFrom(...pieces, "[", "]", ",", "[TOOL_CALLS]", "<|python_tag|>", "word"), {
      maxLength: 8,
    });
    const form = fc.constantFrom<ToolForm>("hermes", "qwen3_coder", "llama3", "mistral", "mistral_args");
    const about = fc.record({ isThought: fc.boolean(), names: fc.constantFrom(["f"], ["g"], undefined) });
    fc.assert(
      fc.property(form, text, about, (kind, parts, context) => {
        const whole = parts.join("");
        const { content, calls } = parseAnswer(kind, whole, context);
        let before = 0;
        for (let end = 0; end <= whole.length; end++) {
          const length = plainLength(kind, whole.slice(0, end), context);
          expect(length).toBeGreaterThanOrEqual(Math.min(before, end));
          expect(content.startsWith(whole.slice(0, length))).toBe(true);
          before = length;
        }
        if (calls.length === 0) expect(content).toBe(whole);
      }),
      { numRuns: 3000 },
    );
  });

  it("a template has a form, or it is said why it has none", async () => {
    const written = async (name: string, source?: string): Promise<string> =>
      callsWrittenBy(await templateOf(name, source));
    expect(toolFormOf(await templateOf("mistral"))).toBe(undefined);
    expect(await written("mistral")).toBe("none");
    expect(await written("llama3", MISTRAL_TOOLS)).toBe("mistral");
    expect(await written("llama3", MISTRAL_TOOLS.replace("[TOOL_CALLS]", "CALLS"))).toBe("other");
    const other = checkpointChat(await templateOf("llama3", MISTRAL_TOOLS.replace("[TOOL_CALLS]", "CALLS")));
    expect(other.noTools).toContain("in a form that is not supported");
  });

  it("a request may set variables of the template, such as enable_thinking", async () => {
    const template = await templateOf("qwen", publicTemplate("qwen3_5_nothink"));
    const model = scriptedModel(device, template.tokenizer.vocabSize);
    const chat = checkpointChat(template);
    server = await servePolicy({ model, tokenizer: template.tokenizer }, { name: "m", chat });
    const client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: "none", maxRetries: 0 });
    const promptOf = async (more: object): Promise<string> => {
      const asked = { model: "m", messages: [QUESTION], max_tokens: 1, ...WITH_IDS, ...more };
      const { prompt_token_ids: ids } = (await client.chat.completions.create(asked)) as unknown as {
        readonly prompt_token_ids: number[];
      };
      return template.tokenizer.decode(ids);
    };
    const closed = /<think>\n\n<\/think>\n\n$/;
    expect(await promptOf({})).toMatch(closed);
    expect(await promptOf({ chat_template_kwargs: { enable_thinking: true } })).toMatch(/assistant\n<think>\n$/);
    expect(await promptOf({ chat_template_kwargs: { enable_thinking: false } })).toMatch(closed);
    expect(await promptOf({ chat_template_kwargs: {} })).toMatch(closed);
  });

  it("numbers of past calls are written as Python writes them", async () => {
    const chat = checkpointChat(await templateOf("qwen"));
    const template = await templateOf("qwen");
    const json =
      '{"id": 1234567890123456789, "x": 1.0, "big": 10000000000000000, "e": 1e3, "t": "1.0 \\"2\\"", "n": [-3]}';
    const call = { id: "c", type: "function", function: { name: "f", arguments: json } } as const;
    const { ids } = chat.begin([
      { role: "user", content: "q" },
      { role: "assistant", content: "", tool_calls: [call] },
      { role: "tool", content: "r", tool_call_id: "c" },
    ]);
    expect(template.tokenizer.decode(ids)).toContain(json.replace("1e3", "1000.0"));
  });

  it("a template that writes tools and no past calls tells the form, or that is what is said", async () => {
    const smol = await templateOf("chatml", publicTemplate("smollm3"));
    expect(checkpointChat(smol).toolForm).toBe("hermes");
    // As Nous's Hermes says it; as LFM2 and Granite 3, of which the model alone knows the form.
    const plain = `{%- if tools %}{{- tools | tojson }}{{- TOLD }}{% endif %}{%- for m in messages %}
      {{- '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}`;
    const telling = (told: string): string => plain.replace("TOLD", JSON.stringify(told));
    const form = async (source: string): Promise<string> => callsWrittenBy(await templateOf("chatml", source));
    const hermes = "<tool_call>\n{'arguments': <args-dict>, 'name': <function-name>}\n</tool_call>";
    expect(await form(telling(hermes))).toBe("hermes");
    expect(await form(telling("<tool_call>\n<function=example>\n</tool_call>"))).toBe("unsaid");
    expect(await form(telling("<tool_call>\n<function=NAME>\n<parameter=KEY>\n"))).toBe("qwen3_coder");
    for (const name of ["qwen3_5_nothink", "nemotron_3_nano"])
      expect(await form(publicTemplate(name)), name).toBe("qwen3_coder");
    const unsaid = checkpointChat(await templateOf("chatml", telling("")));
    expect(unsaid.toolForm).toBe(undefined);
    expect(unsaid.noTools).toContain("writes tools, but no calls");
    // Kimi K2's writes a call by its id; others refuse calls like ours.
    const kimi = plain.replace("m.content", "(m.tool_calls[0].id if m.tool_calls else m.content)");
    expect(await form(kimi.replace("TOLD", "''"))).toBe("other");
    expect(await form(telling("").replace("m.content", "m.content + (m.tool_calls or '')"))).toBe("other");
  });
});
