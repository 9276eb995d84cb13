/**
 * Completions that repeat their prompt with its log-probabilities, as lm-evaluation-harness asks for them
 * (EleutherAI/lm-evaluation-harness, lm_eval/models/openai_completions.py, 0064c3a).
 */
import OpenAI from "openai";
import { afterAll, afterEach, beforeAll, expect, it, vi } from "vitest";
import { type PolicyServer, servePolicy, type ServePolicyOptions } from "../../../connect/serve/index.ts";
import { installPolicy, policyOf } from "../../../distribute/async/messages.ts";
import type { Device } from "../../../engine/device.ts";
import { Decoder } from "../../../nn/decoder.ts";
import { plainLogProbs } from "../../../nn/sampler.ts";
import type { Model } from "../../../nn/transformer.ts";
import { wasm } from "../../support/rlExecutors.ts";
import { toyModel, toyTemplate, toyTokenizer, V } from "../../support/rlToy.ts";

let device: Device;
let model: Model;
beforeAll(async () => {
  device = await wasm.open();
  model = toyModel(device);
});
afterAll(() => device.dispose());
let server: PolicyServer | undefined;
afterEach(async () => server?.close());
async function start(options: ServePolicyOptions = {}): Promise<OpenAI> {
  server = await servePolicy({ model, tokenizer: toyTokenizer, template: toyTemplate }, { name: "toy", ...options });
  return new OpenAI({ baseURL: `${server.url}/v1`, apiKey: "none", maxRetries: 0 });
}

const TEXT = "abc! fed ab cd ef abc abc abc abc abc abc abc";
const ask = { model: "toy", echo: true, temperature: 0 } as const;

/** ln softmax behind each token of a prompt, one by one, [T, V]. */
async function stepByStep(ids: readonly number[]): Promise<Float64Array[]> {
  const decoder = new Decoder(model, 1, ids.length);
  const rows: Float64Array[] = [];
  for (const id of ids) rows.push(plainLogProbs(await decoder.feed([[id]])));
  decoder.dispose();
  return rows;
}

it("a prompt's tokens have the log-probabilities that decoding gives, the first has none", async () => {
  const client = await start();
  const ids = toyTokenizer.encode(TEXT);
  const rows = await stepByStep(ids);
  for (const prompt of [TEXT, ids]) {
    const { choices, usage } = await client.completions.create({ ...ask, prompt, logprobs: 2, max_tokens: 0 });
    const { text, finish_reason: reason, logprobs } = choices[0]!;
    expect([text, reason, usage!.completion_tokens, usage!.prompt_tokens]).toEqual([TEXT, "length", 0, ids.length]);
    const { tokens, token_logprobs: own, top_logprobs: top, text_offset: offsets } = logprobs!;
    expect(tokens).toEqual([...TEXT]);
    expect(offsets).toEqual(ids.map((_, t) => t));
    expect([own![0], top![0]]).toEqual([null, null]);
    ids.slice(1).forEach((id, t) => {
      expect(own![t + 1]).toBeCloseTo(rows[t]![id]!, 4);
      const best = Math.max(...rows[t]!);
      const told = Object.values(top![t + 1]!);
      expect(Math.max(...told)).toBeCloseTo(best, 4);
      expect(told.length).toBeLessThanOrEqual(3);
      // The harness compares these as numbers: the token is the likeliest, or it is not.
      expect(own![t + 1] === Math.max(...told)).toBe(rows[t]!.indexOf(best) === id);
      expect(own![t + 1]).toBe(top![t + 1]![toyTokenizer.decode([id])]);
    });
  }
});

it("the harness' request: one token more, which it leaves out; several prompts, several answers", async () => {
  const client = await start();
  const [short, long] = [toyTokenizer.encode("ab"), toyTokenizer.encode(TEXT)];
  const asked = { ...ask, prompt: [short, long], max_tokens: 1, logprobs: 1, seed: 1234 };
  const { choices } = await client.completions.create(asked);
  expect(choices.map(({ logprobs }) => logprobs!.token_logprobs!.length)).toEqual([3, long.length + 1]);
  const plain = await client.completions.create({ ...asked, prompt: long, echo: false });
  expect(choices[1]!.text).toBe(TEXT + plain.choices[0]!.text);
  expect(choices[1]!.logprobs!.token_logprobs!.at(-1)).toBe(plain.choices[0]!.logprobs!.token_logprobs![0]);
  expect(choices[1]!.logprobs!.text_offset!.at(-1)).toBe(TEXT.length);
  const both = await client.completions.create({ ...asked, prompt: long, n: 2, temperature: 1 });
  const [one, two] = both.choices.map(({ logprobs }) => logprobs!.token_logprobs!.slice(0, -1));
  expect(one).toEqual(two);
  expect(one).toEqual(choices[1]!.logprobs!.token_logprobs!.slice(0, -1));
});

it("special points: one token, a full context, no log-probabilities, what is refused", async () => {
  const client = await start();
  const one = (await client.completions.create({ ...ask, prompt: [3], max_tokens: 0, logprobs: 0 })).choices[0]!;
  expect(one.logprobs).toEqual({ tokens: ["d"], token_logprobs: [null], top_logprobs: [null], text_offset: [0] });
  const full = Array.from({ length: 64 }, (_, t) => t % V);
  const whole = await client.completions.create({ ...ask, prompt: full, max_tokens: 0, logprobs: 0 });
  expect(whole.choices[0]!.logprobs!.token_logprobs).toHaveLength(64);
  const bare = await client.completions.create({ ...ask, prompt: "ab", max_tokens: 2 });
  expect(bare.choices[0]!.text).toMatch(/^ab/);
  expect(bare.choices[0]!.logprobs).toBe(null);
  const refused: [object, string][] = [
    [{ echo: false, max_tokens: 0 }, "max_tokens must be an integer ≥ 1 unless echo is true, got 0"],
    [{ stream: true }, "echo must be false with stream"],
    [{ prompt: [...full, 1], max_tokens: 0 }, "the context has 64 tokens; the prompt has 65"],
    [{ prompt: [V], max_tokens: 0, logprobs: 1 }, `the prompt has the token id ${V}`],
    [{ prompt: "", max_tokens: 0, logprobs: 1 }, "the prompt has no tokens"],
  ];
  for (const [fields, message] of refused)
    await expect(client.completions.create({ ...ask, prompt: "ab", ...fields } as never)).rejects.toThrow(message);
});

it("weights that have diverged are the server's fault; scores wait for no other request", async () => {
  const own = toyModel(device);
  const good = await policyOf(own, 1);
  installPolicy(own, { ...good, weights: good.weights.map((weight) => weight.map(() => NaN)) });
  const said = vi.spyOn(console, "error").mockImplementation(() => undefined);
  server = await servePolicy({ model: own, tokenizer: toyTokenizer, template: toyTemplate }, { name: "toy" });
  const client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: "none", maxRetries: 0 });
  const asked = { ...ask, prompt: "abc", max_tokens: 0, logprobs: 1 };
  await expect(client.completions.create(asked)).rejects.toMatchObject({ status: 500 });
  said.mockRestore();
  await server.engine.replaceWeights(() => installPolicy(own, good), 1);
  const [, scored] = await Promise.all([
    client.completions.create({ model: "toy", prompt: "abc", max_tokens: 20 }),
    client.completions.create(asked),
  ]);
  expect(scored.choices[0]!.logprobs!.token_logprobs).toHaveLength(3);
});
