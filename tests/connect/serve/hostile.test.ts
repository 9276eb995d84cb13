/**
 * Requests and clients that would cost a server too much, and faults within it: what is too much is refused before it
 * is made, nobody's slowness fills its memory, and whatever throws, the server answers and lives.
 */
import fs from "node:fs";
import { getEventListeners } from "node:events";
import { syncBuiltinESMExports } from "node:module";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Writable } from "node:stream";
import type { ServerResponse } from "node:http";
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from "vitest";
import type { Device } from "../../../engine/device.ts";
import { Rng } from "../../../engine/random.ts";
import type { Model, Tokenizer } from "../../../nn/index.ts";
import { appendWhole } from "../../../connect/serve/appendWhole.ts";
import { EventStream } from "../../../connect/serve/events.ts";
import { listen } from "../../../connect/serve/http.ts";
import {
  GenerationEngine,
  type ServedToken,
  type PolicyServer,
  servePolicy,
  type ServePolicyOptions,
} from "../../../connect/serve/index.ts";
import { readCompletion } from "../../../connect/serve/requests.ts";
import { GrowingText } from "../../../connect/serve/text.ts";
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
const messageOf = ({ json }: { json: Record<string, unknown> }): string =>
  (json["error"] as { message: string }).message;
const ASK = { model: "toy", prompt: [12, 3, 4, 1], max_tokens: 2 };

describe("a request for more than may wait", () => {
  it("is refused before anything is made", async () => {
    await start({ rows: 2, maxWaiting: 8 });
    const many = await post("/v1/completions", { ...ASK, prompt: Array(2000).fill([1]), n: 128 });
    expect([many.status, messageOf(many)]).toEqual([
      400,
      "256000 answers are asked for, at most 10 can be drawn or wait at a time",
    ]);
    expect((await post("/v1/completions", { ...ASK, prompt: Array(5).fill([1]), n: 2 })).status).toBe(200);
    await server!.engine.pause();
    const [first, second] = await Promise.all([
      post("/v1/completions", { ...ASK, n: 10 }),
      new Promise((resolve) => setTimeout(resolve, 50)).then(async () => {
        const refused = await post("/v1/completions", ASK);
        server!.engine.resume();
        return refused;
      }),
    ]);
    expect([first.status, second.status]).toEqual([200, 429]);
  });

  it("answers of one request have one listener on its end, and leave together", async () => {
    const engine = new GenerationEngine(model, { rows: 2, maxWaiting: 30 });
    const end = new AbortController();
    const request = {
      prompt: [1],
      maxTokens: 60,
      sampling: { temperature: 1, topK: 0, topP: 1, minP: 0 },
      rng: new Rng(0),
      stopIds: [],
      top: 0,
      signal: end.signal,
    };
    const other = new AbortController();
    const all = Array.from({ length: 20 }, () => engine.generate(request));
    const stays = engine.generate({ ...request, maxTokens: 3, signal: other.signal });
    expect(getEventListeners(end.signal, "abort")).toHaveLength(1);
    end.abort();
    expect(new Set((await Promise.all(all)).map(({ finishReason }) => finishReason))).toEqual(new Set(["abort"]));
    expect((await stays).tokens).toHaveLength(3);
    expect([end, other].flatMap(({ signal }) => getEventListeners(signal, "abort"))).toHaveLength(0);
    expect(engine.load).toEqual({ running: 0, waiting: 0 });
    await engine.close();
  });

  it("log-probabilities that would fill the memory are refused", async () => {
    await start();
    const refused = await post("/v1/completions", {
      ...ASK,
      prompt: Array(2).fill([1]),
      n: 128,
      max_tokens: 63,
      logprobs: 20,
    });
    expect(refused.status).toBe(200);
    const wide = toyModel(device, 1, { maxPositions: 4096 });
    await server!.close();
    server = await servePolicy({ model: wide, tokenizer: toyTokenizer, template: toyTemplate }, { name: "toy" });
    const many = await post("/v1/completions", { ...ASK, n: 128, max_tokens: 4000, logprobs: 20 });
    expect([many.status, messageOf(many)]).toEqual([
      400,
      expect.stringContaining("up to 10752000 log-probabilities (512000 tokens, each with 20 alternatives)"),
    ]);
  });
});

it("a text that cannot fit is refused by its beginning", async () => {
  let read = 0;
  const counting: Tokenizer = {
    ...toyTokenizer,
    encode: (text, options) => ((read += text.length), toyTokenizer.encode(text, options)),
    decodeBytes: (ids) => toyTokenizer.decodeBytes(ids),
  };
  await start({}, counting);
  for (const text of ["a".repeat(3_000_000), "a".repeat(600)]) {
    read = 0;
    const refused = await post("/v1/completions", { ...ASK, prompt: text });
    expect(refused).toMatchObject({ status: 400, json: { error: { code: "context_length_exceeded" } } });
    expect(read).toBeLessThanOrEqual(512); // the context has 64 tokens, of one letter each
    const chat = await post("/v1/chat/completions", { model: "toy", messages: [{ role: "user", content: text }] });
    expect(chat).toMatchObject({ status: 400, json: { error: { code: "context_length_exceeded" } } });
  }
});

describe("bodies over the limit", () => {
  it("are answered with 413, whoever sends them", async () => {
    await start({ maxBodyBytes: 400_000 });
    for (let i = 0; i < 12; i++) {
      const refused = await post("/v1/completions", { ...ASK, user: "x".repeat(500_000 * (1 + (i % 8))) });
      expect(refused.status).toBe(413);
    }
    expect((await post("/v1/completions", ASK)).status).toBe(200);
  });

  it("that are far over it are not read", async () => {
    await start({ maxBodyBytes: 1000 });
    const socket = connect(Number(new URL(server!.url).port), "127.0.0.1");
    const head = "POST /v1/completions HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n";
    socket.write(`${head}content-length: 100000000\r\n\r\n`);
    const answer = await new Promise<string>((resolve) => socket.once("data", (data) => resolve(String(data))));
    expect(answer).toContain("413 Payload Too Large");
    socket.destroy();
  });
});

describe("a client that does not read", () => {
  it("gets later what was drawn meanwhile, in one event; until then nothing is written", async () => {
    const written: string[] = [];
    let release: (() => void) | undefined;
    const slow = new Writable({
      highWaterMark: 10,
      write: (chunk: Buffer, _, done) => {
        written.push(String(chunk));
        release = done;
      },
    });
    const response = Object.assign(slow, { headersSent: true }) as unknown as ServerResponse;
    const asked = readCompletion({ prompt: "a", logprobs: 1, return_token_ids: true }, "toy");
    const engine = new GenerationEngine(model);
    const options = { tokenizer: toyTokenizer, logProbs: "raw_logprobs", engine } as const;
    const events = new EventStream("completion", { id: "x" }, asked, response, options);
    const tokens: ServedToken[] = [];
    const text = new GrowingText(toyTokenizer, { stop: [], skipSpecials: true });
    const choice = { index: 0, prompt: [0], text, tokens };
    for (const letter of "abcdef") {
      const id = toyTokenizer.encode(letter)[0]!;
      tokens.push({ id, logProb: -1, samplingLogProb: -1, plainLogProb: -1, version: 0 });
      text.push(id);
      events.grown(choice);
    }
    text.end();
    events.ended(choice, {
      said: { content: text.text },
      result: { tokens, finishReason: "length" },
      finishReason: "length",
    });
    expect(slow.writableLength).toBe(written[0]!.length);
    const flushed = events.flushed();
    while (release) {
      const go = release;
      release = undefined;
      go();
      await new Promise((resolve) => setImmediate(resolve));
    }
    await flushed;
    const parts = written.map((event) => JSON.parse(event.slice(6)) as { choices: Record<string, unknown>[] });
    expect(parts.map(({ choices }) => [choices[0]!["text"], choices[0]!["finish_reason"]])).toEqual([
      ["a", null],
      ["bcdef", "length"],
    ]);
    expect(parts[1]!.choices[0]).toMatchObject({
      token_ids: [1, 2, 3, 4, 5],
      logprobs: { text_offset: [1, 2, 3, 4, 5] },
    });
    await engine.close();
  });

  it("is dropped after a time; one that waits for an answer is not, nor one that reads slowly", async () => {
    const closed: string[] = [];
    const listening = await listen(
      "127.0.0.1",
      0,
      async (request, response) => {
        response.on("close", () => closed.push(request.url!));
        if (request.url === "/late") await new Promise((resolve) => setTimeout(resolve, 2_500));
        response.end(request.url === "/late" ? "late" : Buffer.alloc(64_000_000));
      },
      1_000, // less, and a loaded machine is taken for such a client
    );
    const port = Number(new URL(listening.url).port);
    const deaf = connect(port, "127.0.0.1", () => deaf.write("GET /deaf HTTP/1.1\r\nhost: x\r\n\r\n"));
    deaf.on("error", () => undefined).pause();
    const slow = connect(port, "127.0.0.1", () => slow.write("GET /slow HTTP/1.1\r\nhost: x\r\n\r\n"));
    let read = 0;
    slow.on("data", (data) => {
      read += data.length;
      slow.pause();
      setTimeout(() => slow.resume(), 1);
    });
    expect(await (await fetch(`${listening.url}/late`)).text()).toBe("late");
    await vi.waitFor(() => expect(closed).toContain("/deaf"), { timeout: 10_000 });
    await vi.waitFor(() => expect(read).toBeGreaterThan(64_000_000), { timeout: 30_000 });
    deaf.destroy();
    slow.destroy();
    await listening.close();
  }, 60_000);
});

describe("episodes that cannot be kept", () => {
  it("are an error for the agent; the server lives", async () => {
    const said = vi.spyOn(console, "error").mockImplementation(() => undefined);
    let isFull = true;
    await start({
      onTrajectories: () => {
        if (isFull) throw new Error("ENOSPC: no space left on device, write");
      },
    });
    const play = async (): Promise<{ status: number; json: Record<string, unknown> }> => {
      const { json } = await post("/rollouts", {});
      expect((await post(`/rollouts/${String(json["id"])}/v1/completions`, ASK)).status).toBe(200);
      return post(`/rollouts/${String(json["id"])}/reward`, { reward: 1 });
    };
    const refused = await play();
    expect([refused.status, messageOf(refused)]).toEqual([
      500,
      "the episode was not kept: ENOSPC: no space left on device, write",
    ]);
    expect(refused.json).toMatchObject({ error: { code: "rollout_not_kept" } });
    expect(String(said.mock.calls[0])).toContain("the episode 0 was not kept");
    isFull = false;
    expect(await play()).toMatchObject({ status: 200, json: { rows: 1 } });
  });

  it("leave no half of a line in the file", () => {
    const path = join(fs.mkdtempSync(join(tmpdir(), "worldgrad-")), "episodes.jsonl");
    appendWhole(path, "one\n");
    const { writeSync } = fs;
    let calls = 0;
    const half = (fd: number, data: Uint8Array): number => {
      if (calls++ > 0) throw new Error("ENOSPC");
      return writeSync(fd, data.subarray(0, 2));
    };
    Object.assign(fs, { writeSync: half });
    syncBuiltinESMExports();
    try {
      expect(() => appendWhole(path, "two\n")).toThrow("ENOSPC");
    } finally {
      Object.assign(fs, { writeSync });
      syncBuiltinESMExports();
    }
    expect(fs.readFileSync(path, "utf8")).toBe("one\n");
    appendWhole(path, "three\n");
    expect(fs.readFileSync(path, "utf8")).toBe("one\nthree\n");
    if (fs.existsSync("/dev/full")) expect(() => appendWhole("/dev/full", "x")).toThrow("ENOSPC");
  });
});

describe("how tokens are drawn by default", () => {
  it("is the server's setting; a request's own comes first; episodes are sampled from the model as it is", async () => {
    await start({ sampling: { temperature: 0 } });
    const ids = async (path: string, body: object): Promise<string[]> => {
      const drawn: string[] = [];
      for (let seed = 0; seed < 6; seed++) {
        const { json } = await post(path, {
          ...ASK,
          max_tokens: 6,
          seed,
          return_token_ids: true,
          ignore_eos: true,
          ...body,
        });
        drawn.push(String((json["choices"] as { token_ids: number[] }[])[0]!.token_ids));
      }
      return drawn;
    };
    const { json } = await post("/rollouts", {});
    const [greedy, asked, drawn, episode] = [
      await ids("/v1/completions", {}),
      await ids("/v1/completions", { temperature: 0 }),
      await ids("/v1/completions", { temperature: 1 }),
      await ids(`/rollouts/${String(json["id"])}/v1/completions`, {}),
    ];
    expect(greedy).toEqual(asked);
    expect(new Set(greedy).size).toBe(1);
    expect(new Set(drawn).size).toBeGreaterThan(1);
    expect(episode).toEqual(drawn);
    await expect(servePolicy({ model, tokenizer: toyTokenizer }, { sampling: { topP: 2 } })).rejects.toThrow(
      /topP must be/,
    );
  });
});
