/**
 * Targets of fuzzing: answers of servers and requests of clients: tools of MCP servers, samplers (vLLM, SGLang,
 * Atropos), and bodies of requests to our own server.
 */
import { request as httpRequest } from "node:http";
import fc from "fast-check";
import { device } from "../../engine/index.ts";
import { fail, WorldgradError } from "../../engine/errors.ts";
import { describeTools, type McpTool, parseToolCalls, resultText } from "../../connect/mcp/toolCall.ts";
import { atropos, type RemotePrompt, sglang, vllm } from "../../connect/remote/index.ts";
import { readMessages } from "../../connect/serve/chat.ts";
import { servePolicy } from "../../connect/serve/index.ts";
import { parseAnswer } from "../../connect/chat/toolCalls.ts";
import { toyModel, toyTemplate, toyTokenizer } from "../../tests/support/rlToy.ts";
import type { Json, Target } from "./target.ts";

type Fields = Readonly<Record<string, Json>>;
const isFields = (value: Json): value is Fields => typeof value === "object" && value !== null && !Array.isArray(value);

const SCHEMA: Fields = {
  type: "object",
  properties: { a: { type: "number" }, b: { type: ["string", "null"] } },
  required: ["a"],
};
/** Tools and results that pass the MCP client: tools with a name and an object as schema, results that are objects. */
function readTools(document: Json): void {
  if (!isFields(document)) return;
  const { name, description, inputSchema, content, structuredContent, isError, action } = document;
  const tools: McpTool[] = [
    {
      name: typeof name === "string" ? name : "get",
      description: typeof description === "string" ? description : "",
      inputSchema: isFields(inputSchema ?? null) ? (inputSchema as Fields) : SCHEMA,
    },
  ];
  describeTools(tools);
  resultText({ content, structuredContent, isError }, 100);
  const read = typeof action === "string" ? parseToolCalls(action, tools) : [];
  for (const { mistake } of read) if (mistake !== undefined) fail(mistake); // what the agent is told
}

/** Calls a sampler whose server gives this answer to every request. */
async function answered(document: Json, ask: (url: string) => Promise<unknown>): Promise<void> {
  const before = globalThis.fetch;
  globalThis.fetch = () => Promise.resolve(new Response(JSON.stringify(document)));
  try {
    await ask("http://sampler");
  } finally {
    globalThis.fetch = before;
  }
}
const PROMPT: RemotePrompt = { prompt: [1, 2], maxTokens: 4, temperature: 1, endIds: [3], seed: 0 };

const on = await device("reference", { precision: "f32" });
const model = toyModel(on, 1, { layers: 1, maxPositions: 24 });
const ROUTES = ["/v1/chat/completions", "/v1/completions", "/rollouts", "/rollouts/a/reward", "/pause_generation"];

/** Posts a body to a server of its own. @throws WorldgradError if it is refused with a status of a client's error */
async function post(document: Json): Promise<void> {
  const { path = ROUTES[0]!, body = null } = isFields(document) ? document : { body: document };
  const server = await servePolicy(
    { model, tokenizer: toyTokenizer, template: toyTemplate },
    { name: "toy", rows: 2, capacity: 20 },
  );
  try {
    server.openRollout({ id: "a" });
    const to = `/${String(typeof path === "string" ? path : JSON.stringify(path))
      .replace(/[^!-~]/g, "%")
      .replace(/^\/+/, "")}`;
    const { status, text } = await new Promise<{ status: number; text: string }>((resolve, reject) => {
      const sent = httpRequest(server.url, { method: "POST", path: to, agent: false }, (response) => {
        let answer = "";
        response.on("data", (chunk: Buffer) => (answer += String(chunk)));
        response.on("end", () => resolve({ status: response.statusCode ?? 0, text: answer }));
        response.on("error", reject);
      });
      sent.on("error", reject);
      sent.setHeader("content-type", "application/json");
      sent.end(JSON.stringify(body));
    });
    if (status >= 500) throw new TypeError(`the server failed: ${status}: ${text}`);
    if (status >= 400) throw new WorldgradError(text);
  } finally {
    await server.close();
  }
}

const message = (role: string, content: Json): Json => ({ role, content });
const sampled = { model: "toy", temperature: 1, max_tokens: 3, seed: 1 };

export const SERVERS: readonly Target[] = [
  {
    name: "tools and results of MCP",
    documents: fc.constantFrom<Json>(
      {
        name: "get",
        description: "gets",
        inputSchema: SCHEMA,
        content: [{ type: "text", text: "x" }],
        action: "get 1 b=c",
      },
      {
        content: [
          { type: "image", data: "AAAA", mimeType: "image/png" },
          { type: "resource_link", uri: "file:x" },
        ],
      },
      { content: [{ type: "resource", resource: { uri: "file:x", text: "t" } }], isError: true },
      { structuredContent: { a: [1, 2] }, action: '{"name": "get", "arguments": {"a": 1}}' },
    ),
    read: readTools,
  },
  {
    name: "answers of vLLM",
    documents: fc.constant<Json>({
      model: "toy",
      choices: [{ token_ids: [1, 3], prompt_token_ids: [1, 2], logprobs: { token_logprobs: [-0.5, -1] } }],
    }),
    read: (document) => answered(document, (url) => vllm({ url, model: "toy" }).sample(PROMPT)),
  },
  {
    name: "answers of SGLang",
    documents: fc.constantFrom<Json>(
      {
        text: "a",
        meta_info: { output_token_logprobs: [[-0.5, 1, "a"]], finish_reason: { type: "stop" }, weight_version: "1" },
      },
      { success: true, message: "", num_paused_requests: 0 },
    ),
    read: (document) =>
      answered(document, async (url) => {
        const sampler = sglang({ url });
        if (isFields(document) && "success" in document) await sampler.load("folder", "1");
        else await sampler.sample(PROMPT);
      }),
  },
  {
    name: "batches of Atropos",
    documents: fc.constantFrom<Json>(
      { batch: [{ tokens: [[1, 2, 3]], masks: [[-100, 2, 3]], scores: [1], inference_logprobs: [[1, -0.5, -0.1]] }] },
      { batch: null },
      { status: "error", message: "no" },
    ),
    read: (document) => answered(document, (url) => atropos({ url }).batch()),
  },
  {
    name: "requests to serve",
    few: 40,
    documents: fc.constantFrom<Json>(
      {
        path: ROUTES[0]!,
        body: { ...sampled, messages: [message("system", "a"), message("user", "b")], logprobs: true, top_logprobs: 2 },
      },
      {
        path: ROUTES[0]!,
        body: {
          ...sampled,
          messages: [message("user", [{ type: "text", text: "b" }])],
          stop: ["x"],
          n: 2,
          stream: true,
        },
      },
      { path: ROUTES[1]!, body: { ...sampled, prompt: [1, 2], logprobs: 1, return_token_ids: true, ignore_eos: true } },
      {
        path: ROUTES[1]!,
        body: { ...sampled, prompt: ["ab", "c"], stop_token_ids: [3], top_p: 0.5, top_k: 3, min_p: 0.1 },
      },
      { path: ROUTES[2]!, body: { id: "b", group: 1, env: "e", task: "t", seed: 3 } },
      { path: ROUTES[3]!, body: { reward: 1, step_rewards: [], success: true } },
      { path: ROUTES[4]!, body: { mode: "retract" } },
    ),
    read: post,
  },
  {
    name: "messages and calls of tools",
    documents: fc.constantFrom<Json>(
      [
        {
          role: "assistant",
          content: null,
          tool_calls: [{ id: "c", type: "function", function: { name: "f", arguments: "{}" } }],
        },
        { role: "tool", tool_call_id: "c", content: "x" },
      ],
      '<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>',
      '{"name": "f", "parameters": {"a": 1}}; {"name": "g"}',
      "<tool_call><function=f><parameter=a>1</parameter></function></tool_call>",
      '[TOOL_CALLS]f[CALL_ID]abc[ARGS]{"a": 1}',
    ),
    read: (document) => {
      if (typeof document !== "string") return readMessages(document, true);
      const forms = ["hermes", "qwen3_coder", "llama3", "mistral", "mistral_args"] as const;
      return forms.map((form) => parseAnswer(form, document));
    },
  },
];
