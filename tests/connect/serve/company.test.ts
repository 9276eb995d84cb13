/** An answer of the server is the same to the last bit whatever else is asked, on every executor. */
import { expect, it } from "vitest";
import { Rng } from "../../../engine/random.ts";
import type { SampledToken } from "../../../nn/sampler.ts";
import { GenerationEngine } from "../../../connect/serve/engine.ts";
import { everyExecutor } from "../../support/rlExecutors.ts";
import { toyModel, V } from "../../support/rlToy.ts";

const sampling = { temperature: 0.8, topK: 0, topP: 1, minP: 0 };
const PROMPTS = [3, 40, 1, 7].map((length, n) => Array.from({ length }, (_, i) => (5 * i + n) % V));

it.each(everyExecutor)("on $name", { timeout: 60_000 }, async ({ open }) => {
  const device = await open();
  const model = toyModel(device, 1, { hiddenSize: 64, heads: 4, kvHeads: 2 });
  const ask = async (engine: GenerationEngine, n: number): Promise<SampledToken[]> => {
    const prompt = PROMPTS[n]!;
    const rng = new Rng(7).split(n);
    const answer = await engine.generate({ prompt, sampling, rng, top: 0, maxTokens: 8 - n, stopIds: [] });
    return [...answer.tokens];
  };
  const all = [...PROMPTS.keys()];
  const alone: SampledToken[][] = [];
  for (const n of all) {
    const engine = new GenerationEngine(model, { rows: 3 });
    alone.push(await ask(engine, n));
    await engine.close();
  }
  const engine = new GenerationEngine(model, { rows: 3 });
  expect(await Promise.all(all.map((n) => ask(engine, n)))).toEqual(alone);
  // The beginnings of these prompts are in the cache now.
  expect(await Promise.all(all.toReversed().map((n) => ask(engine, n)))).toEqual(alone.toReversed());
  await engine.close();
  device.dispose();
});
