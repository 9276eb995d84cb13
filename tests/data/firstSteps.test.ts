/**
 * What somebody new gives to the functions around training: a promise, nothing, a tokenizer that lacks a letter, a
 * world that is none. Each is one error that names what was expected and what came; a world that breaks is told.
 */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { act, demonstrate } from "../../data/index.ts";
import { device as makeDevice, type Device, Rng, WorldgradError } from "../../engine/index.ts";
import { initParams, modelConfig, restoreOptimizer, AdamW } from "../../nn/index.ts";
import { modelFromFiles, packModel } from "../../pretrained/index.ts";
import type { EnvironmentSpec, StepResult } from "../../rl/environment.ts";
import { evaluate, type EvaluateOptions } from "../../rl/evaluate.ts";
import { Template } from "../../rl/episode/template.ts";
import { endingModel, letters, toyModel, toySpec, toyTemplate, toyTokenizer } from "../support/rlToy.ts";

let on: Device;
beforeAll(async () => void (on = await makeDevice("wasm", { threads: 1 })));
afterAll(() => on.dispose());

const config = modelConfig({ vocabSize: 17, hiddenSize: 8, layers: 1, heads: 2, maxPositions: 16 });
const spec = toySpec(letters(2));
const anything = (value: unknown): never => value as never;
const withTokens = (more: object): Template => new Template({ ...toyTokenizer, ...more });

const MISTAKES: Readonly<Record<string, readonly [call: () => unknown, message: string]>> = {
  "parameters without a stream": [
    () => initParams(config, anything(undefined), on),
    "initParams: rng must be a stream of random numbers, new Rng(0), got missing",
  ],
  "parameters of a seed": [() => initParams(config, anything(1), on), "initParams: rng must be a stream"],
  "parameters on a device that is not awaited": [
    () => initParams(config, new Rng(1), anything(Promise.resolve(on))),
    "initParams: expected a device, got a promise; await device(…)",
  ],
  "files without a device": [
    () => modelFromFiles("{}", new Uint8Array(8), anything(undefined)),
    "modelFromFiles: expected a device, got missing",
  ],
  "a packed model without a format": [
    () => packModel(toyModel(on), anything(undefined)),
    'packModel: expected a format, such as "q8", or a function of the path, got missing',
  ],
  "an optimiser's file that is missing": [
    () => restoreOptimizer(config, new AdamW(toyModel(on).params), anything(undefined)),
    "safetensors: expected the file as a Uint8Array, got missing",
  ],
  "a model that is not awaited acts": [
    () => act(anything(Promise.resolve(toyModel(on))), toyTemplate, "ab").next(),
    "rollout: expected a model { config, params }, got a promise; await it",
  ],
  "a template in the model's place": [
    () => act(anything(toyTemplate), anything(toyModel(on)), "ab").next(),
    "rollout: expected a model { config, params }, got ",
  ],
  "a demonstration without a template": [
    () => demonstrate(spec, {}, 1, anything(undefined)),
    "demonstrate: template must be new Template(tokenizer), got missing",
  ],
  "a demonstration with a tokenizer": [
    () => demonstrate(spec, {}, 1, anything(toyTokenizer)),
    "demonstrate: template must be new Template(tokenizer), got ",
  ],
  "a seed that is a text": [() => demonstrate(spec, {}, anything("1"), toyTemplate), 'in [0, 2^53), got "1"'],
  "a world that is none": [
    () => demonstrate({ ...spec, make: () => anything({}) }, {}, 1, toyTemplate),
    "toy: what make returns must be an environment with reset and step, got {}",
  ],
  "a tokenizer without special tokens": [
    () => withTokens({ special: undefined }),
    "Template: expected a tokenizer, with encode, decode and special, got ",
  ],
  "a letter without an id": [
    () => demonstrate(spec, {}, 1, withTokens({ encode: () => [3, undefined] })),
    "append: the tokenizer gave missing as an id (prompt, turn 0), expected an integer ≥ 0; does it know every char",
  ],
  "an id that is a part": [() => demonstrate(spec, {}, 1, withTokens({ encode: () => [6.5] })), "gave 6.5 as an id"],
  "an id that is a text": [() => demonstrate(spec, {}, 1, withTokens({ encode: () => ["6"] })), 'gave "6" as an id'],
};

describe("one error that says what was expected, and what came", () => {
  it.each(Object.entries(MISTAKES))("%s", async (_, [call, message]) => {
    const caught = await (async () => call())().catch((error: unknown) => error);
    expect(caught, String((caught as Error).stack)).toBeInstanceOf(WorldgradError);
    expect((caught as Error).message).toContain(message);
  });
});

describe("an evaluation", () => {
  const evaluated = (env: EnvironmentSpec, more: object = {}): ReturnType<typeof evaluate> =>
    evaluate({ model: endingModel(on), template: toyTemplate, env, envOptions: {}, ...more } as EvaluateOptions);
  const common = { seeds: [1, 2, 3], rng: new Rng(1), rollout: { maxTurns: 2, maxActionTokens: 12, temperature: 1 } };

  it.each([[[1.5]], [["1"]], [[-1]], [[undefined]], [[2 ** 53]], [[]], [10]])(
    "of seeds %j is refused",
    async (seeds) => {
      await expect(evaluated(spec, { ...common, seeds })).rejects.toThrow("seeds must be a list of integers ≥ 0");
    },
  );

  const answering = (answer: () => StepResult): EnvironmentSpec => toySpec(answer);
  const paid = (reward: unknown): EnvironmentSpec =>
    answering(() => ({ observation: "a", reward: reward as number, done: true, info: {} }));
  it.each([
    ["whose step throws", answering(() => expect.fail("the pipe burst")), "the first by the pipe burst;"],
    ["whose reward is NaN", paid(NaN), "the first by a reward of NaN;"],
    ["whose reward is a text", paid("1"), "expected reward to be a number"],
  ])("in a world %s says so", async (_, env, message) => {
    const told: string[] = [];
    const { successes } = await evaluated(env, { ...common, warn: (text: string) => told.push(text) });
    expect(successes).toBe(0);
    expect(told).toHaveLength(1);
    expect(told[0]).toContain("evaluate: 3 of 3 episodes of toy failed or have no score, the first by ");
    expect(told[0]).toContain(message);
  });

  it("in a world that works says nothing", async () => {
    const told: string[] = [];
    await evaluated(spec, { ...common, warn: (text: string) => told.push(text) });
    expect(told).toEqual([]);
  });
});
