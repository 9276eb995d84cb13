/**
 * The policy behind the OpenAI API, spoken to by the client of OpenAI: answers are those of `generate`, alone and among
 * others, whole and in parts; rows come back when clients go; weights are replaced between tokens; errors are OpenAI's.
 */
import { get } from "node:http";
import OpenAI from "openai";
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from "vitest";
import type { Device } from "../../../engine/device.ts";
import { Rng } from "../../../engine/random.ts";
import { generate } from "../../../nn/generate.ts";
import type { Model } from "../../../nn/transformer.ts";
import { installPolicy, policyOf } from "../../../distribute/async/messages.ts";
import {
  GenerationEngine,
  type PolicyServer,
  servePolicy,
  type ServePolicyOptions,
} from "../../../connect/serve/index.ts";
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
  await server?.close();
  server = undefined;
});
async function start(options: ServePolicyOptions = {}): Promise<OpenAI> {
  server = await servePolicy({ model, tokenizer: toyTokenizer, template: toyTemplate }, { name: "toy", ...options });
  return new OpenAI({ baseURL: `${server.url}/v1`, apiKey: "none", maxRetries: 0 });
}

const PROMPT = [12, 3, 4, 1];
const withIds = { return_token_ids: true };
const onAndOn = { ignore_eos: true };
interface Ids {
  readonly token_ids: number[];
  readonly prompt_token_ids: number[];
  readonly token_versions: number[];
}
const idsOf = (choice: unknown): number[] => (choice as Ids).token_ids;
const post = (path: string, body: unknown, headers: Record<string, string> = {}): Promise<Response> =>
  fetch(`${server!.url}${path}`, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: typeof body === "string" ? body : JSON.stringify(body),
  });

describe("completions", () => {
  it("are what generate draws from the same stream, with ids and log-probabilities", async () => {
    const client = await start();
    const seeded = { max_tokens: 9, seed: 5, temperature: 0.7, logprobs: 2, n: 2, ignore_eos: true, ...withIds };
    const answer = await client.completions.create({ model: "toy", prompt: PROMPT, ...seeded });
    const rng = new Rng(0).split("seed 5");
    for (const [k, choice] of answer.choices.entries()) {
      // generate takes rng.split(row) for a row; both answers are the same row of different calls there.
      const expected = await generate(model, [PROMPT, PROMPT], { maxNewTokens: 9, temperature: 0.7, rng });
      expect(idsOf(choice)).toEqual(expected[k]!.tokens.map(({ id }) => id));
      const { token_logprobs: logProbs, top_logprobs: top } = choice.logprobs!;
      logProbs!.forEach((p, t) => expect(p).toBeCloseTo(expected[k]!.tokens[t]!.plainLogProb, 5));
      top!.forEach((each, t) => {
        const [drawn, p] = [choice.logprobs!.tokens![t]!, logProbs![t]!];
        expect([2, 3]).toContain(Object.keys(each).length);
        expect(each[drawn]).toBeCloseTo(p, 12); // the drawn token is always there, as in OpenAI's API
      });
      expect(choice).toMatchObject({ prompt_token_ids: PROMPT, finish_reason: "length", stop_reason: null });
    }
    expect(answer.usage).toEqual({ prompt_tokens: 4, completion_tokens: 18, total_tokens: 22 });
    expect(answer).toMatchObject({ object: "text_completion", model: "toy", weight_version: "0" });
  });

  it("do not depend on company: 20 requests on 3 rows, one by one, and in parts", async () => {
    const client = await start({ rows: 3 });
    const ask = (
      i: number,
    ): { model: string; prompt: number[]; max_tokens: number; seed: number; temperature: number } => ({
      model: "toy",
      prompt: PROMPT.slice(0, 1 + (i % 4)),
      max_tokens: 3 + (i % 5),
      seed: i,
      temperature: i % 3 === 0 ? 0.5 : 1,
    });
    const numbers = Array.from({ length: 20 }, (_, i) => i);
    const together = await Promise.all(numbers.map((i) => client.completions.create({ ...ask(i), ...withIds })));
    for (const i of numbers.slice(0, 8)) {
      const alone = await client.completions.create({ ...ask(i), ...withIds });
      expect(alone.choices).toEqual(together[i]!.choices);
      const parts = await client.completions.create({ ...ask(i), ...withIds, stream: true });
      const ids: number[] = [];
      let [text, reason] = ["", ""];
      for await (const { choices } of parts) {
        text += choices[0]!.text;
        ids.push(...idsOf(choices[0]));
        reason = choices[0]!.finish_reason ?? reason;
      }
      expect([text, ids, reason]).toEqual([
        alone.choices[0]!.text,
        idsOf(alone.choices[0]),
        alone.choices[0]!.finish_reason,
      ]);
    }
    expect(server!.engine.load).toEqual({ running: 0, waiting: 0 });
  });

  it("end at a stop string or token; lists of prompts are answered in their order", async () => {
    const client = await start();
    const full = (await client.completions.create({
      model: "toy",
      prompt: PROMPT,
      max_tokens: 40,
      seed: 1,
      ignore_eos: true,
      ...withIds,
    } as never)) as OpenAI.Completion;
    const { text } = full.choices[0]!;
    const stop = text.slice(5, 7);
    const at = text.indexOf(stop);
    const cut = await client.completions.create({
      model: "toy",
      prompt: PROMPT,
      max_tokens: 40,
      seed: 1,
      stop: [stop, "no such"],
      ...onAndOn,
    });
    expect(cut.choices[0]).toMatchObject({ text: text.slice(0, at), finish_reason: "stop", stop_reason: stop });
    const ids = idsOf(full.choices[0]);
    const byId = { stop_token_ids: [ids[3]] };
    const byToken = await client.completions.create({
      model: "toy",
      prompt: [PROMPT, PROMPT],
      max_tokens: 40,
      seed: 1,
      ...withIds,
      ...onAndOn,
      ...byId,
    });
    expect(idsOf(byToken.choices[0])).toEqual(ids.slice(0, ids.indexOf(ids[3]!) + 1));
    expect(byToken.choices.map(({ index }) => index)).toEqual([0, 1]);
    expect(byToken.choices[0]).toMatchObject({ stop_reason: ids[3] });
  });
});

describe("what goes wrong", () => {
  it("is told as OpenAI does", async () => {
    const client = await start({ apiKey: "none", maxBodyBytes: 3000 });
    const ask = { model: "toy", prompt: PROMPT, max_tokens: 2 };
    const errors: [object, number, object][] = [
      [{ ...ask, model: "gpt" }, 404, { code: "model_not_found" }],
      [{ ...ask, temprature: 1 }, 400, { param: "temprature" }],
      [{ ...ask, temperature: -1 }, 400, { param: "temperature" }],
      [{ ...ask, temperature: 5e-324 }, 400, { param: "temperature" }],
      [{ ...ask, prompt: [99] }, 400, {}],
      [{ ...ask, prompt: [] }, 400, {}],
      [{ ...ask, frequency_penalty: 2.5 }, 400, { param: "frequency_penalty" }],
      [{ ...ask, max_tokens: 61 }, 400, { code: "context_length_exceeded" }],
      [{ ...ask, stop: [""] }, 400, { param: "stop" }],
      [{ ...ask, user: "x".repeat(4000) }, 413, {}],
    ];
    for (const [body, status, said] of errors) {
      const error = await client.completions.create(body as never).then(
        () => fail("answered"),
        (thrown: unknown) => thrown as InstanceType<typeof OpenAI.APIError>,
      );
      expect(error, JSON.stringify(body).slice(0, 80)).toMatchObject({ status, ...said });
      expect(error.message).not.toMatch(/the server failed/);
    }
    expect((await post("/v1/completions", ask)).status).toBe(401);
    expect((await post("/v1/completions", ask, { authorization: "Bearer other" })).status).toBe(401);
    const key = { authorization: "Bearer none" };
    expect((await post("/v1/completions", "{", key)).status).toBe(400);
    expect((await post("/v1/nothing", {}, key)).status).toBe(404);
    const messages = [{ role: "user", content: "a" }];
    const withVariables = { model: "toy", messages, chat_template_kwargs: { enable_thinking: true } };
    const refused = await post("/v1/chat/completions", withVariables, key);
    expect(refused.status).toBe(400);
    expect(await refused.text()).toContain("chat_template_kwargs must be left out: this model's conversations have no");
    expect((await post("/v1/completions", ask, { ...key, "content-type": "text/plain" })).status).toBe(415);
    expect(await client.models.list().then(({ data }) => data.map(({ id }) => id))).toEqual(["toy"]);
    expect(server!.engine.load).toEqual({ running: 0, waiting: 0 });
  });

  it("an address that is none", async () => {
    await start({});
    const { port } = new URL(server!.url);
    const status = await new Promise((resolve, reject) => {
      get({ port, path: "//" }, (response) => {
        response.resume();
        resolve(response.statusCode);
      }).on("error", reject);
    });
    expect(status).toBe(400);
  });

  it("other names of this machine, which a page of another site may have pointed here", async () => {
    await start({});
    const answered = (host: string): Promise<number> =>
      new Promise((resolve, reject) => {
        get(`${server!.url}/v1/models`, { headers: { host } }, (response) => {
          response.resume();
          resolve(response.statusCode!);
        }).on("error", reject);
      });
    const { port } = new URL(server!.url);
    expect(await Promise.all([`evil.example:${port}`, "localhost.evil.example"].map(answered))).toEqual([403, 403]);
    expect(await Promise.all([`localhost:${port}`, `127.0.0.1:${port}`].map(answered))).toEqual([200, 200]);
  });

  it("a client that goes gives its row back; too many that wait are refused; time runs out", async () => {
    const client = await start({ rows: 1, maxWaiting: 1, requestTimeout: 300 });
    await server!.engine.pause();
    const gone = new AbortController();
    const first = client.completions.create({ model: "toy", prompt: PROMPT, max_tokens: 50 }, { signal: gone.signal });
    const left = first.catch((error: unknown) => error);
    await until(() => server!.engine.load.waiting === 1);
    server!.engine.resume();
    gone.abort();
    expect(await left).toBeInstanceOf(OpenAI.APIUserAbortError);
    await until(() => server!.engine.load.running + server!.engine.load.waiting === 0);
    await server!.engine.pause();
    const late = client.completions.create({ model: "toy", prompt: PROMPT }).catch((error: unknown) => error);
    expect(await late).toMatchObject({ status: 504 });
    expect(server!.engine.load).toEqual({ running: 0, waiting: 0 });
    server!.engine.resume();
    const engine = new GenerationEngine(model, { rows: 1, maxWaiting: 0 });
    const request = {
      prompt: PROMPT,
      maxTokens: 30,
      sampling: { temperature: 1, topK: 0, topP: 1, minP: 0 },
      rng: new Rng(0),
      stopIds: [],
      top: 0,
    };
    const running = engine.generate(request);
    await until(() => engine.load.running === 1);
    await expect(engine.generate(request)).rejects.toThrow("0 requests are waiting");
    expect((await running).tokens).toHaveLength(30);
    await engine.close();
    await expect(engine.generate(request)).rejects.toThrow("closing");
  });
});

it("weights that have diverged are the server's fault; others in their place are drawn from again", async () => {
  const own = toyModel(device);
  const good = await policyOf(own, 1);
  installPolicy(own, { ...good, weights: good.weights.map((weight) => weight.map(() => NaN)) });
  const said = vi.spyOn(console, "error").mockImplementation(() => undefined);
  server = await servePolicy({ model: own, tokenizer: toyTokenizer, template: toyTemplate }, { name: "toy" });
  const ask = { model: "toy", prompt: PROMPT, max_tokens: 2 };
  for (const stream of [false, true]) {
    const answer = await post("/v1/completions", { ...ask, stream });
    expect([answer.status, await answer.json()]).toMatchObject([500, { error: { type: "server_error" } }]);
  }
  expect(String(said.mock.calls[0]![0])).toContain("the model has diverged");
  said.mockRestore();
  await server.engine.replaceWeights(() => installPolicy(own, good), 1);
  expect((await post("/v1/completions", ask)).status).toBe(200);
});

describe("new weights", () => {
  it("draw from the next token on; each token has its version and is that of its weights alone", async () => {
    const own = toyModel(device);
    const other = toyModel(device, 2);
    const engine = new GenerationEngine(own, { rows: 2, version: 3 });
    const rng = new Rng(4);
    let replaced: Promise<void> | undefined;
    const policy = await policyOf(other, 4);
    const { tokens } = await engine.generate({
      prompt: PROMPT,
      maxTokens: 12,
      sampling: { temperature: 1, topK: 0, topP: 1, minP: 0 },
      rng,
      stopIds: [],
      top: 0,
      onToken: () => {
        replaced ??= engine.replaceWeights(() => installPolicy(own, policy), 4);
        return false;
      },
    });
    await replaced;
    const ids = tokens.map(({ id }) => id);
    expect(tokens.map(({ version }) => version)).toEqual([3, ...Array<number>(11).fill(4)]);
    // A text of the new weights that begins with what the old ones wrote goes on in the same way.
    const again = await engine.generate({
      prompt: [...PROMPT, ids[0]!],
      maxTokens: 11,
      sampling: { temperature: 1, topK: 0, topP: 1, minP: 0 },
      rng,
      stopIds: [],
      top: 0,
    });
    expect(again.tokens).toEqual(tokens.slice(1));
    await expect(engine.replaceWeights(() => Promise.reject(new Error("no file")), 5)).rejects.toThrow("no file");
    expect(engine.version).toBe(4);
    await engine.close();
  });

  it("over HTTP: pause, load, continue", async () => {
    const client = await start({ reload: () => 7 });
    expect((await post("/pause_generation", { mode: "retract" })).status).toBe(200);
    const waiting = client.completions.create({ model: "toy", prompt: PROMPT, max_tokens: 3, ...withIds });
    await until(() => server!.engine.load.waiting === 1);
    expect((await post("/update_weights_from_disk", { weight_version: "6" })).status).toBe(400);
    expect(await (await post("/update_weights_from_disk", { weight_version: "7" })).json()).toMatchObject({
      success: true,
    });
    expect((await post("/continue_generation", {})).status).toBe(200);
    expect(await waiting).toMatchObject({ weight_version: "7", choices: [{ token_versions: [7, 7, 7] }] });
    expect((await post("/pause_generation", { mode: "in_place" })).status).toBe(400);
  });
});

describe("the text of tokens", () => {
  it("is shown when it is certain, for any stop string and any cut", () => {
    const letters = [..."abcabdabcabe"];
    for (const stop of ["abd", "cab", "e", "abcabe", "x", "dab"]) {
      const text = new GrowingText(toyTokenizer, { stop: [stop], skipSpecials: true });
      let shown = "";
      for (const letter of letters) {
        const stopped = text.push(toyTokenizer.encode(letter)[0]!);
        shown += text.take().text;
        if (stopped) break;
      }
      text.end();
      shown += text.take().text;
      expect(shown).toBe(text.text);
      const all = letters.join("");
      expect(shown).toBe(all.includes(stop) ? all.slice(0, all.indexOf(stop)) : all);
    }
  });
});

async function until(condition: () => boolean): Promise<void> {
  for (let i = 0; i < 2_000 && !condition(); i++) await new Promise((resolve) => setTimeout(resolve, 5));
  expect(condition()).toBe(true);
}

function fail(message: string): never {
  throw new Error(message);
}
