/**
 * Biases, penalties and forbidden words, by the formulas of OpenAI's and vLLM's documents: what is drawn, which
 * log-probabilities are told, and that other requests notice nothing.
 */
import fc from "fast-check";
import OpenAI from "openai";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { type PolicyServer, servePolicy, type ServePolicyOptions } from "../../../connect/serve/index.ts";
import { type Penalties, penaltiesOf } from "../../../connect/serve/penalties.ts";
import type { Device } from "../../../engine/device.ts";
import { Rng } from "../../../engine/random.ts";
import { sampleToken, type SampledToken } from "../../../nn/sampler.ts";
import { wasm } from "../../support/rlExecutors.ts";
import { toyModel, toyTemplate, toyTokenizer, V } from "../../support/rlToy.ts";
import { scriptedModel } from "../../support/scriptedModel.ts";

let device: Device;
beforeAll(async () => {
  device = await wasm.open();
});
afterAll(() => device.dispose());
let server: PolicyServer | undefined;
afterEach(async () => server?.close());

/** A server of a model with random logits, or of one whose logits are all 0. */
async function start(logits: "random" | "zero", options: ServePolicyOptions = {}): Promise<OpenAI> {
  const model = logits === "zero" ? scriptedModel(device, V, 64) : toyModel(device);
  server = await servePolicy({ model, tokenizer: toyTokenizer, template: toyTemplate }, { name: "toy", ...options });
  return new OpenAI({ baseURL: `${server.url}/v1`, apiKey: "none", maxRetries: 0 });
}

const PROMPT = [12, 3, 4, 1];
const ASK = { model: "toy", prompt: PROMPT, max_tokens: 6, seed: 3, ignore_eos: true, return_token_ids: true } as const;
const idsOf = (choice: unknown): number[] => (choice as { token_ids: number[] }).token_ids;
const draw = async (client: OpenAI, fields: object): Promise<OpenAI.CompletionChoice> =>
  (await client.completions.create({ ...ASK, ...fields })).choices[0]!;
const biases = (value: number, ...but: number[]): Record<string, number> =>
  Object.fromEntries(Array.from({ length: V }, (_, id) => [id, but.includes(id) ? 0 : value]));

describe("a bias", () => {
  it("of −100 on all tokens but one leaves that one; raw log-probabilities stay the model's", async () => {
    const client = await start("random");
    for (const temperature of [0, 1, 2]) {
      const choice = await draw(client, { temperature, logit_bias: biases(-100, 7), logprobs: 1 });
      expect(idsOf(choice)).toEqual(Array(6).fill(7));
      // The same token without a bias, as the model sees it.
      const { token_logprobs: own } = (await draw(client, { temperature: 0, logprobs: 17, logit_bias: { 7: 100 } }))
        .logprobs!;
      expect(choice.logprobs!.token_logprobs).toEqual(own);
      expect(own!.every((p) => p < -0.1)).toBe(true);
    }
    const all = await draw(client, { temperature: 0, logit_bias: biases(-100) });
    expect(idsOf(all)).toEqual(idsOf(await draw(client, { temperature: 0 }))); // all are moved alike
  });

  it("of processed log-probabilities is part", async () => {
    const client = await start("zero", { logProbs: "processed_logprobs" });
    const { logprobs } = await draw(client, { logit_bias: { 7: 3 }, logprobs: 0 });
    const total = V - 1 + Math.exp(3);
    logprobs!.tokens!.forEach((name, t) =>
      expect(logprobs!.token_logprobs![t]).toBeCloseTo(Math.log((name === "." ? Math.exp(3) : 1) / total), 6),
    );
  });

  it("breaks ties, and of equal ones the first token stays", async () => {
    const client = await start("zero");
    const greedy = { temperature: 0 };
    expect(idsOf(await draw(client, greedy))).toEqual(Array(6).fill(0));
    expect(idsOf(await draw(client, { ...greedy, logit_bias: { 5: 1e-3 } }))).toEqual(Array(6).fill(5));
    expect(idsOf(await draw(client, { ...greedy, logit_bias: { 9: 2, 4: 2 } }))).toEqual(Array(6).fill(4));
    // Top-k counts tokens after the bias.
    expect(idsOf(await draw(client, { top_k: 1, logit_bias: { 9: 2 } }))).toEqual(Array(6).fill(9));
  });
});

describe("a penalty", () => {
  it("hits a token that was drawn once; each answer counts its own", async () => {
    const client = await start("zero");
    const greedy = { temperature: 0 };
    for (const penalty of [{ presence_penalty: 0.1 }, { frequency_penalty: 0.1 }])
      expect(idsOf(await draw(client, { ...greedy, ...penalty }))).toEqual([0, 1, 2, 3, 4, 5]);
    // A presence penalty counts once: of three tokens that were drawn the likeliest goes on.
    const few = { logit_bias: { 0: 0.3, 1: 0.2, 2: 0.1 } };
    expect(idsOf(await draw(client, { ...greedy, ...few, presence_penalty: 0.25 }))).toEqual([0, 1, 2, 0, 0, 0]);
    expect(idsOf(await draw(client, { ...greedy, ...few, frequency_penalty: 0.15 }))).toEqual([0, 1, 0, 2, 1, 0]);
    expect(idsOf(await draw(client, { ...greedy, presence_penalty: -2 }))).toEqual(Array(6).fill(0));
    const two = await client.completions.create({ ...ASK, prompt: [PROMPT, PROMPT], ...greedy, presence_penalty: 1 });
    expect(two.choices.map(idsOf)).toEqual([
      [0, 1, 2, 3, 4, 5],
      [0, 1, 2, 3, 4, 5],
    ]);
  });

  it("for repetition follows the bias, and counts the prompt", async () => {
    const client = await start("zero");
    // 12 is in the prompt: 1 / 2 < 0.9; once 8 is drawn, 0.9 / 2 < 1 / 2.
    const positive = { temperature: 0, repetition_penalty: 2, logit_bias: { 12: 1, 8: 0.9 } };
    expect(idsOf(await draw(client, positive))).toEqual([8, 12, 12, 12, 12, 12]);
    const negative = { temperature: 0, repetition_penalty: 2, logit_bias: { ...biases(-100, 12, 8), 12: -1, 8: -1.5 } };
    expect(idsOf(await draw(client, negative)).slice(0, 3)).toEqual([8, 12, 12]);
    expect(idsOf(await draw(client, { temperature: 0, repetition_penalty: 3 }))).toEqual(Array(6).fill(0));
  });

  it("is the formula of the documents for any numbers", () => {
    const id = fc.nat(V - 1);
    const amount = fc.double({ min: -2, max: 2, noNaN: true });
    fc.assert(
      fc.property(
        fc.array(fc.double({ min: -9, max: 9, noNaN: true }), { minLength: V, maxLength: V }),
        fc.array(id),
        fc.array(id),
        amount,
        amount,
        fc.double({ min: 0.1, max: 5, noNaN: true }),
        (row, prompt, drawn, frequency, presence, repetition) => {
          const own: Penalties = { frequency, presence, repetition, bias: [[3, 1.5]], badWords: [] };
          const process = penaltiesOf(own, prompt, toyTokenizer, V)!;
          const tokens = drawn.map((each) => ({ id: each }) as SampledToken);
          const logits = Float64Array.from(row);
          process(Float64Array.from(row), tokens.slice(0, 1)); // it is called once for each token
          process(logits, tokens);
          row.forEach((given, i) => {
            let x = given + (i === 3 ? 1.5 : 0);
            if (prompt.includes(i) || drawn.includes(i)) x = x > 0 ? x / repetition : x * repetition;
            const count = drawn.filter((each) => each === i).length;
            expect(logits[i]).toBeCloseTo(x - count * frequency - (count > 0 ? presence : 0), 9);
          });
        },
      ),
    );
  });
});

it("forbidden words are not completed; what only begins with them is", async () => {
  const client = await start("zero");
  const wish = { temperature: 0, logit_bias: { 0: 1 } };
  expect((await draw(client, wish)).text).toBe("aaaaaa");
  expect((await draw(client, { ...wish, bad_words: ["aaa"] })).text).toBe("aabaab");
  expect((await draw(client, { ...wish, bad_words: ["a", "b"] })).text).toBe("cccccc");
  const none = { ...wish, bad_words: [..."abcdef….!?- "], logit_bias: {} };
  expect(idsOf(await draw(client, none)).every((id) => id >= 12)).toBe(true);
});

describe("a request with them", () => {
  const changed = { logit_bias: { 2: 4 }, presence_penalty: 1.5, repetition_penalty: 1.3, temperature: 0.8 };

  it("changes no other's bits, and is the same in company and in parts", async () => {
    const client = await start("random", { rows: 4 });
    const plain = { ...ASK, logprobs: undefined };
    const alone = await client.completions.create(plain);
    const alone2 = await client.completions.create({ ...ASK, ...changed, n: 2 });
    const [one, two, three] = await Promise.all([
      client.completions.create(plain),
      client.completions.create({ ...ASK, ...changed, n: 2 }),
      client.completions.create({ ...ASK, ...changed, temperature: 0.2, top_p: 0.5 }),
    ]);
    expect(one.choices).toEqual(alone.choices);
    expect(two.choices).toEqual(alone2.choices);
    expect(idsOf(two.choices[0])).not.toEqual(idsOf(two.choices[1]));
    expect(idsOf(three.choices[0])).toHaveLength(6);
    const parts: number[] = [];
    for await (const { choices } of await client.completions.create({ ...ASK, ...changed, n: 2, stream: true }))
      if (choices[0]!.index === 1) parts.push(...idsOf(choices[0]));
    expect(parts).toEqual(idsOf(two.choices[1]));
  });

  it("that has no effect draws the same tokens as without", async () => {
    const client = await start("random");
    const neutral = { frequency_penalty: 0, presence_penalty: 0, repetition_penalty: 1, logit_bias: {}, bad_words: [] };
    expect((await draw(client, neutral)).text).toBe((await draw(client, {})).text);
    const zero = await draw(client, { logit_bias: { 3: 0 }, logprobs: 2 });
    expect(idsOf(zero)).toEqual(idsOf(await draw(client, { logprobs: 2 })));
  });

  it("is refused by the field's name beyond its range", async () => {
    const client = await start("zero");
    const refused: [string, unknown][] = [
      ["logit_bias", { 3: 101 }],
      ["logit_bias", { 3: "1" }],
      ["logit_bias", { 3: null }],
      ["logit_bias", { a: 1 }],
      ["logit_bias", { "-1": 1 }],
      ["logit_bias", { 1.5: 1 }],
      ["logit_bias", [1]],
      ["logit_bias", { [V]: 1 }],
      ["logit_bias", { 999999999: -100 }],
      ["frequency_penalty", 2.1],
      ["frequency_penalty", -2.1],
      ["presence_penalty", 3],
      ["presence_penalty", "1"],
      ["repetition_penalty", 0],
      ["repetition_penalty", -1],
      ["bad_words", [""]],
      ["bad_words", "a"],
    ];
    for (const [param, value] of refused)
      await expect(client.completions.create({ ...ASK, [param]: value }), param).rejects.toMatchObject({
        status: 400,
        param,
      });
    await expect(draw(client, { bad_words: [..."abcdef….!?- "], logit_bias: {} })).resolves.toBeDefined();
    expect(server!.engine.load).toEqual({ running: 0, waiting: 0 });
  });
});

it("logits of −∞ are never drawn, by any filter, and of two distributions each has its log-probability", () => {
  const row = [1, 2, 3, 0, 1];
  const changed = [-Infinity, 2, -Infinity, 0, -Infinity];
  const seen = new Set<number>();
  for (const options of [{}, { topK: 4 }, { topP: 0.999 }, { minP: 0.01 }, { temperature: 3 }, { temperature: 0 }])
    for (let seed = 0; seed < 200; seed++) {
      const token = sampleToken(row, options, new Rng(seed), changed);
      seen.add(token.id);
      const { temperature = 1 } = options as { temperature?: number };
      const T = temperature === 0 ? 1 : temperature;
      const lse = (all: number[]): number => Math.log(all.reduce((sum, x) => sum + Math.exp(x / T), 0));
      expect(token.logProb).toBeCloseTo(row[token.id]! / T - lse(row), 12);
      if (temperature !== 0) expect(token.samplingLogProb).toBeCloseTo(changed[token.id]! / T - lse(changed), 12);
    }
  expect(seen).toEqual(new Set([1, 3]));
});
