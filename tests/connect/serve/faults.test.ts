/** Faults within the server, and clients that break off: whatever throws, the server answers and lives. */
import { connect } from "node:net";
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from "vitest";
import type { Device } from "../../../engine/device.ts";
import { Rng } from "../../../engine/random.ts";
import type { Model, Tokenizer } from "../../../nn/index.ts";
import {
  type ChatFormat,
  episodeChat,
  GenerationEngine,
  type PolicyServer,
  servePolicy,
  type ServePolicyOptions,
} from "../../../connect/serve/index.ts";
import { wasm } from "../../support/rlExecutors.ts";
import { toyModel, toyTemplate, toyTokenizer } from "../../support/rlToy.ts";

let device: Device;
let model: Model;
beforeAll(async () => {
  device = await wasm.open();
  model = toyModel(device);
});
afterAll(() => device.dispose());

let server: PolicyServer | undefined;
afterEach(async () => {
  vi.restoreAllMocks();
  await server?.close();
  server = undefined;
});
async function start(options: ServePolicyOptions = {}, tokenizer: Tokenizer = toyTokenizer): Promise<void> {
  server = await servePolicy({ model, tokenizer, template: toyTemplate }, { name: "toy", ...options });
}
const post = async (path: string, body: unknown): Promise<{ status: number; json: Record<string, unknown> }> => {
  const headers = { "content-type": "application/json" };
  const text = typeof body === "string" ? body : JSON.stringify(body);
  const response = await fetch(`${server!.url}${path}`, { method: "POST", headers, body: text });
  return { status: response.status, json: (await response.json()) as Record<string, unknown> };
};
const ASK = { model: "toy", prompt: [12, 3, 4, 1], max_tokens: 2 };

describe("faults within the server", () => {
  const chat = episodeChat(toyTemplate);
  const broken = (where: string): never => {
    throw new TypeError(`${where} is broken`);
  };
  const bad: [string, ServePolicyOptions, Partial<Tokenizer>, string, object][] = [
    [
      "a tokenizer that cannot encode",
      {},
      { encode: () => broken("encode") },
      "/v1/completions",
      { ...ASK, prompt: "a" },
    ],
    ["a tokenizer that cannot decode", {}, { decodeBytes: () => broken("decode") }, "/v1/completions", ASK],
    ["the same, in a stream", {}, { decodeBytes: () => broken("decode") }, "/v1/completions", { ...ASK, stream: true }],
    [
      "log-probabilities that have no names",
      {},
      { decodeBytes: (ids) => (ids.length === 1 ? broken("name") : Uint8Array.of(97)) },
      "/v1/completions",
      { ...ASK, logprobs: 2 },
    ],
    [
      "a chat format that throws",
      { chat: { ...chat, begin: () => broken("begin") } satisfies ChatFormat },
      {},
      "/v1/chat/completions",
      { model: "toy", messages: [{ role: "user", content: "a" }] },
    ],
    ["weights that cannot be loaded", { reload: () => broken("reload") }, {}, "/update_weights_from_disk", {}],
    ["the same, later", { reload: () => Promise.reject(new Error("no file")) }, {}, "/update_weights_from_disk", {}],
    [
      "weights whose loading throws no error",
      { reload: () => Promise.reject("text") },
      {},
      "/update_weights_from_disk",
      {},
    ],
  ];
  it.each(bad)("%s: 500, and the next is answered", async (_, options, parts, path, body) => {
    const said = vi.spyOn(console, "error").mockImplementation(() => undefined);
    const tokenizer = { ...toyTokenizer };
    await start(options, tokenizer);
    Object.assign(tokenizer, parts);
    expect((await post(path, body)).status).toBe(500);
    expect(said).toHaveBeenCalled();
    Object.assign(tokenizer, toyTokenizer);
    expect((await post("/v1/completions", ASK)).status).toBe(200);
    expect(server!.engine.load).toEqual({ running: 0, waiting: 0 });
  });

  it("bodies that are deep or odd are the request's fault", async () => {
    await start();
    const deep = "[".repeat(200_000) + "]".repeat(200_000);
    const odd = [`{"prompt": ${deep}}`, `{"prompt": [1], "stop": ${deep}}`, '{"__proto__": {"n": 3}, "prompt": [1]}'];
    for (const body of [...odd, '{"prompt": [1], "temperature": 1e999}', '{"prompt": "\\ud800", "n": "\\u0000"}'])
      expect((await post("/v1/completions", body)).status, body.slice(0, 60)).toBe(400);
    expect((await post("/rollouts/__proto__/reward", { reward: 1 })).status).toBe(404);
    expect((await post("/v1/completions", ASK)).status).toBe(200);
  });

  it("a client that breaks off in its request, in its answer, or speaks something else", async () => {
    await start();
    const { port } = new URL(server!.url);
    const head = "POST /v1/completions HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n";
    const body = JSON.stringify({ ...ASK, stream: true, max_tokens: 50 });
    for (const text of [
      `${head}content-length: 100\r\n\r\n{`,
      `${head}content-length: ${body.length}\r\n\r\n${body}`,
      "hello\r\n\r\n",
      "CONNECT a:1 HTTP/1.1\r\nhost: a\r\n\r\n",
    ]) {
      const socket = connect(Number(port), "127.0.0.1", () => socket.write(text));
      socket.on("error", () => undefined);
      await new Promise((resolve) => setTimeout(resolve, 60));
      socket.resetAndDestroy();
    }
    await vi.waitFor(() => expect(server!.engine.load).toEqual({ running: 0, waiting: 0 }), { timeout: 10_000 });
    expect((await post("/v1/completions", ASK)).status).toBe(200);
  });

  it("an engine that fails between two passes tells everybody, and goes on", async () => {
    const failures: unknown[] = [];
    const engine = new GenerationEngine(model, { rows: 2, onFailure: (error) => failures.push(error) });
    const request = { prompt: [1], maxTokens: 3, rng: new Rng(0), stopIds: [], top: 0 };
    const sampling = { temperature: 1, topK: 0, topP: 1, minP: 0 };
    const faulty = { ...request, sampling: { ...sampling, toJSON: () => broken("sampling") } };
    const both = await Promise.allSettled([engine.generate(faulty), engine.generate({ ...request, sampling })]);
    expect(both.map(({ status }) => status)).toEqual(["rejected", "rejected"]);
    expect(failures).toHaveLength(1);
    expect((await engine.generate({ ...request, sampling })).tokens).toHaveLength(3);
    await engine.close();
  });
});
