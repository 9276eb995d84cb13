/** The sampler: what each filter keeps, how often each token comes, and the log-probabilities that it reports. */
import * as fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Device } from "../../engine/device.ts";
import { tensor } from "../../engine/ops/create.ts";
import { Rng } from "../../engine/random.ts";
import { scope } from "../../engine/scope.ts";
import { generate, type GenerateOptions } from "../../nn/generate.ts";
import { type SampledToken, sampleToken, type SamplingOptions } from "../../nn/sampler.ts";
import { forward, logits as logitsOf, type Model } from "../../nn/transformer.ts";
import { reference, wasm } from "../support/rlExecutors.ts";
import { endingModel, toyModel, toyTemplate, V } from "../support/rlToy.ts";

/** Probabilities .4 .3 .15 .1 .05, in scrambled order. */
const probabilities = [0.1, 0.4, 0.05, 0.3, 0.15];
const logits = probabilities.map((p) => Math.log(p) + 1.7);

/** What can be drawn, and with which probability: worked out apart from the sampler. */
function distribution({ temperature = 1, topK = 0, topP = 1, minP = 0 }: SamplingOptions): number[] {
  const power = probabilities.map((p) => p ** (1 / temperature));
  const total = power.reduce((a, b) => a + b, 0);
  let kept = power.map((p, id) => ({ id, p: p / total })).sort((a, b) => b.p - a.p);
  if (topK > 0) kept = kept.slice(0, topK);
  const mass = kept.reduce((a, { p }) => a + p, 0);
  let before = 0;
  kept = kept.filter(({ p }) => {
    const keep = before < topP * mass - 1e-12;
    before += p;
    return keep;
  });
  kept = kept.filter(({ p }) => p >= minP * kept[0]!.p - 1e-12);
  const rest = kept.reduce((a, { p }) => a + p, 0);
  return probabilities.map((_, id) => (kept.find((k) => k.id === id)?.p ?? 0) / rest);
}

describe("one token", () => {
  const settings: SamplingOptions[] = [
    {},
    { temperature: 0.5 },
    { temperature: 2 },
    { topK: 2 },
    { topP: 0.6 },
    { topP: 0.69 },
    { topP: 0.71 },
    { minP: 0.3 },
    { temperature: 1.3, topK: 4, topP: 0.9, minP: 0.1 },
    { topK: 99 },
    { topK: 1 },
  ];

  it.each(settings)("%j: frequencies and both log-probabilities", (options) => {
    const expected = distribution(options);
    const rng = new Rng(7);
    const draws = 4000;
    const counts = new Array<number>(5).fill(0);
    const { temperature = 1 } = options;
    const full = distribution({ temperature });
    for (let i = 0; i < draws; i++) {
      const token = sampleToken(logits, options, rng);
      counts[token.id]!++;
      expect(token.logProb).toBeCloseTo(Math.log(full[token.id]!), 12);
      expect(token.samplingLogProb).toBeCloseTo(Math.log(expected[token.id]!), 12);
      expect(token.plainLogProb).toBeCloseTo(Math.log(probabilities[token.id]!), 12);
    }
    // χ² with at most 4 degrees of freedom: 23.5 is its 1 − 10⁻⁴ quantile.
    let chiSquare = 0;
    expected.forEach((p, id) => {
      if (p === 0) expect(counts[id]).toBe(0);
      else chiSquare += (counts[id]! - p * draws) ** 2 / (p * draws);
    });
    expect(chiSquare).toBeLessThan(23.5);
  });

  it("greedy takes the most probable, the first of equals, and draws nothing", () => {
    const rng = new Rng(1);
    const first = rng.state;
    const token = sampleToken([1, 3, 3, 2], { temperature: 0 }, rng);
    expect(token.id).toBe(1);
    expect(token.samplingLogProb).toBe(0);
    expect(token.logProb).toBe(token.plainLogProb);
    expect(token.logProb).toBeCloseTo(3 - Math.log(Math.E + 2 * Math.exp(3) + Math.exp(2)), 12);
    expect(rng.state).toEqual(first);
  });

  it("survives logits of any size", () => {
    fc.assert(
      fc.property(
        fc.array(fc.double({ min: -1e30, max: 1e30, noNaN: true }), { minLength: 1, maxLength: 6 }),
        fc.double({ min: 0.01, max: 10, noNaN: true }),
        fc.integer({ min: 0, max: 100 }),
        (row, temperature, seed) => {
          const token = sampleToken(row, { temperature, topP: 0.9 }, new Rng(seed));
          expect(token.id).toBeLessThan(row.length);
          expect(token.logProb).toBeGreaterThan(-60); // what has no probability is not drawn
          expect(token.samplingLogProb).toBeLessThanOrEqual(1e-12);
        },
      ),
    );
  });

  it("NaN, infinities and bad options are errors", () => {
    const draw = (row: number[], options: SamplingOptions = {}): unknown => sampleToken(row, options, new Rng(1));
    expect(() => draw([0, NaN])).toThrow("sampling: the logit of token 1 is NaN; the model has diverged");
    expect(() => draw([Infinity])).toThrow("the logit of token 0 is Infinity");
    // At the last two, logits over the temperature would be ∞ or 0 in single precision.
    for (const temperature of [-1, NaN, 5e-324, 1e50])
      expect(() => draw([0], { temperature })).toThrow(
        `temperature must be in [0.000001, 1000000], or 0, got ${temperature}`,
      );
    expect(() => draw([0], { topK: 1.5 })).toThrow("topK must be an integer ≥ 0, got 1.5");
    expect(() => draw([0], { topP: 0 })).toThrow("topP must be in (0, 1], got 0");
    expect(() => draw([0], { minP: 2 })).toThrow("minP must be in [0, 1], got 2");
    expect(() => draw([])).toThrow("sampling: there are no logits");
  });
});

describe.each([
  { ...reference, exact: 1e-12 },
  { ...wasm, exact: 1e-5 },
])("generate on $name", ({ open, exact }) => {
  let device: Device;
  beforeAll(async () => {
    device = await open();
  });
  afterAll(() => device.dispose());
  const prompts = [[1], [2, 3, 4, 5, 6, 7], [0, 9], [3, 3, 3]];

  /** log softmax of the full forward at the last position of `ids`. */
  async function logProbOf(model: Model, ids: number[], id: number, temperature: number): Promise<number> {
    const all = scope(() =>
      logitsOf(model.params, forward(model.params, model.config, tensor([ids], { device, dtype: "i32" }))),
    );
    const row = [...(await all.read())].slice(-V).map((x) => x / temperature);
    all.dispose();
    const largest = Math.max(...row);
    return row[id]! - largest - Math.log(row.reduce((total, x) => total + Math.exp(x - largest), 0));
  }

  it.each(["llama", "gpt2"] as const)(
    "ragged prompts, stop tokens, log-probabilities of the full forward: %s",
    async (family) => {
      const model = family === "llama" ? toyModel(device) : endingModel(device);
      const stopIds = [toyTemplate.endId];
      const results = await generate(model, prompts, { maxNewTokens: 3, stopIds, rng: new Rng(3), temperature: 0.8 });
      for (const [r, { tokens, stopReason }] of results.entries()) {
        const ids = tokens.map(({ id }) => id);
        expect(stopReason).toBe(ids.at(-1) === toyTemplate.endId ? "stop" : "length");
        expect(ids.slice(0, -1)).not.toContain(toyTemplate.endId);
        if (stopReason === "length") expect(ids.length).toBe(3);
        for (const [t, token] of tokens.entries()) {
          const before = [...prompts[r]!, ...ids.slice(0, t)];
          expect(Math.abs(token.logProb - (await logProbOf(model, before, token.id, 0.8)))).toBeLessThanOrEqual(exact);
          expect(Math.abs(token.plainLogProb - (await logProbOf(model, before, token.id, 1)))).toBeLessThanOrEqual(
            exact,
          );
        }
      }
      if (family === "gpt2") expect(new Set(results.map((x) => x.stopReason))).toEqual(new Set(["stop", "length"]));
    },
  );

  it("the lowest temperature is greedy, the highest uniform", async () => {
    const model = toyModel(device);
    const draw = (temperature: number) =>
      generate(model, prompts, { maxNewTokens: 3, rng: new Rng(3), temperature }).then((texts) =>
        texts.flatMap(({ tokens }) => tokens),
      );
    const [cold, greedy, hot] = [await draw(1e-6), await draw(0), await draw(1e6)];
    expect(cold.map(({ id }) => id)).toEqual(greedy.map(({ id }) => id));
    for (const { logProb } of cold) expect(logProb).toBeCloseTo(0, 6);
    for (const { logProb } of hot) expect(logProb).toBeCloseTo(-Math.log(V), 4);
  });

  it("the same seed gives the same texts; a row does not depend on the others", async () => {
    const model = endingModel(device);
    const options = (): GenerateOptions => ({ maxNewTokens: 6, rng: new Rng(3), stopIds: [toyTemplate.endId] });
    const together = await generate(model, prompts, options());
    expect(await generate(model, prompts, options())).toEqual(together);
    const [alone] = await generate(model, prompts.slice(0, 1), options());
    expect(alone!.tokens.map((t) => t.id)).toEqual(together[0]!.tokens.map((t) => t.id));
    // Where nothing stops, no row leaves the batch: up to where they stop the texts are the same.
    const endless = await generate(model, prompts, { ...options(), stopIds: [] });
    together.forEach(({ tokens }, r) =>
      expect(endless[r]!.tokens.slice(0, tokens.length).map((t) => t.id)).toEqual(tokens.map((t) => t.id)),
    );
    expect(new Set(together.map(({ tokens }) => tokens.length)).size).toBeGreaterThan(1);
  });

  it("ends at the model's eosIds, unless stopIds say otherwise", async () => {
    const plain = endingModel(device);
    const eosIds = [toyTemplate.endId];
    const model = { ...plain, config: { ...plain.config, eosIds } };
    const options = (): GenerateOptions => ({ maxNewTokens: 6, rng: new Rng(3) });
    expect(await generate(model, prompts, options())).toEqual(
      await generate(plain, prompts, { ...options(), stopIds: eosIds }),
    );
    expect(await generate(model, prompts, { ...options(), stopIds: [] })).toEqual(
      await generate(plain, prompts, options()),
    );
  });

  it("shows each token as it is drawn, and a row ends where the callback says so", async () => {
    const model = toyModel(device);
    const options = (): GenerateOptions => ({ maxNewTokens: 5, rng: new Rng(3) });
    const expected = await generate(model, prompts, options());
    for (const wait of [false, true]) {
      const seen = prompts.map((): number[] => []);
      const onToken = ({ id }: SampledToken, row: number): "stop" | void | Promise<"stop" | void> => {
        seen[row]!.push(id);
        const answer = row === 1 && seen[row]!.length === 2 ? "stop" : undefined;
        return wait ? Promise.resolve(answer) : answer;
      };
      const results = await generate(model, prompts, { ...options(), onToken });
      expect(seen).toEqual(results.map(({ tokens }) => tokens.map(({ id }) => id)));
      results.forEach(({ tokens, stopReason }, r) => {
        expect(tokens).toEqual(expected[r]!.tokens.slice(0, r === 1 ? 2 : 5));
        expect(stopReason).toBe(r === 1 ? "stop" : "length");
      });
    }
  });

  it("an aborted signal ends all rows as they are; a callback's error is thrown; neither leaves memory", async () => {
    const model = toyModel(device);
    await generate(model, [[1]], { maxNewTokens: 1, temperature: 0 });
    const before = device.backend.stats().liveBytes;
    const abort = new AbortController();
    let count = 0;
    const onToken = (): void => {
      if (++count === prompts.length + 1) abort.abort();
    };
    const options = { maxNewTokens: 9, temperature: 0, signal: abort.signal } as const;
    const results = await generate(model, prompts, { ...options, onToken });
    expect(results.map(({ stopReason }) => stopReason)).toEqual(prompts.map(() => "abort"));
    expect(results[0]!.tokens.length).toBe(2);
    expect((await generate(model, prompts, options)).every(({ tokens }) => tokens.length === 0)).toBe(true);
    for (const onToken of [
      () => {
        throw new Error("mine");
      },
      () => Promise.reject(new Error("mine")),
    ]) {
      await expect(generate(model, prompts, { maxNewTokens: 9, temperature: 0, onToken })).rejects.toThrow("mine");
    }
    expect(device.backend.stats().liveBytes).toBe(before);
    const wrong = { maxNewTokens: 1, temperature: 0, signal: {} as AbortSignal };
    await expect(generate(model, prompts, wrong)).rejects.toThrow("generate: signal must be an AbortSignal");
  });

  it("ends at the model's last position, frees its cache", async () => {
    const model = toyModel(device);
    await generate(model, [[1]], { maxNewTokens: 1, temperature: 0 });
    const before = device.backend.stats().liveBytes;
    const [result] = await generate(model, [Array.from({ length: 60 }, () => 1)], {
      maxNewTokens: 100,
      temperature: 0,
    });
    // Position 63 is read last; it predicts one more token.
    expect([result!.tokens.length, result!.stopReason]).toEqual([5, "length"]);
    expect(device.backend.stats().liveBytes).toBe(before);
  });

  it("bad input is named, and leaves no memory behind", async () => {
    const model = toyModel(device);
    await generate(model, [[1]], { maxNewTokens: 1, temperature: 0 });
    const before = device.backend.stats().liveBytes;
    const options: GenerateOptions = { maxNewTokens: 2, temperature: 0 };
    await expect(generate(model, [], options)).rejects.toThrow("the list of prompts is empty");
    await expect(generate(model, [[1], []], options)).rejects.toThrow("prompt 1 is empty");
    await expect(generate(model, [[V]], options)).rejects.toThrow(
      `prompt 0 has the id ${V}, the vocabulary ${V} tokens`,
    );
    await expect(generate(model, [[-1]], options)).rejects.toThrow("the id -1");
    await expect(generate(model, [Array(65).fill(1)], options)).rejects.toThrow(
      "prompt 0 has 65 tokens, the model 64 positions",
    );
    await expect(generate(model, [[1]], { ...options, maxNewTokens: 0 })).rejects.toThrow(
      "generate: maxNewTokens must be an integer ≥ 1, got 0",
    );
    await expect(generate(model, [[1]], { maxNewTokens: 2 })).rejects.toThrow("sampling needs { rng }");
    await expect(generate(model, [[1]], { ...options, stopId: 3 } as GenerateOptions)).rejects.toThrow(
      "did you mean 'stopIds'?",
    );
    expect(device.backend.stats().liveBytes).toBe(before);
  });
});
