/**
 * Options of environments on the command line: read as the environment needs them, in training, evaluation and
 * demonstrations; and a novice whose guesses are read and not imitated.
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { taskOptions, WORLDS } from "../../run/worlds.ts";
import { Experiment } from "../../run/experiment.ts";
import { UsageError } from "../../run/usage.ts";
import type { Preset } from "../../run/preset.ts";
import { fail } from "../../engine/errors.ts";
import { device as makeDevice, type Device } from "../../engine/device.ts";
import type { EnvironmentOptions, EnvironmentSpec } from "../../rl/environment.ts";
import { namesOf as castleNames } from "../../environments/castle/facts.ts";
import { ENVIRONMENTS } from "../../environments/index.ts";
import { sftRows } from "../../methods/sft.ts";
import { isAgentToken } from "../../rl/episode/stream.ts";
import { Template } from "../../rl/episode/template.ts";
import { type AblateOptions, parseAblate } from "../../studies/ablate/options.ts";
import { planOf } from "../../studies/ablate/plan.ts";
import { presetOfFlags, set } from "../support/presetOfFlags.ts";
import { randomBatch } from "../support/rlBatches.ts";

const registry = WORLDS as Record<string, EnvironmentSpec>;
const CALCULATOR = ENVIRONMENTS["calculator"]!;

/** Takes everything that an option can be, and says what it got. */
const PICKY: EnvironmentSpec = {
  ...CALCULATOR,
  name: "picky",
  make(options: EnvironmentOptions & Record<string, unknown> = {}) {
    const { split: _split, families, levels, facts, size, dense, words, ...more } = options;
    const wrong = (name: string, value: unknown): never => {
      return fail(`picky: ${name} cannot be ${JSON.stringify(value)}`);
    };
    if (Object.keys(more).length > 0) wrong("an option", Object.keys(more)[0]);
    // A word, although it looks like a switch.
    if (facts !== undefined && facts !== "true" && facts !== "random") wrong("facts", facts);
    if (size !== undefined && typeof size !== "number") wrong("size", size);
    if (dense !== undefined && typeof dense !== "boolean") wrong("dense", dense);
    if (words !== undefined && !Array.isArray(words)) wrong("words", words);
    return CALCULATOR.make({ ...(families ? { families } : {}), ...(levels ? { levels } : {}) });
  },
};

/** One guess, and then what ends the episode. */
const TRYING: EnvironmentSpec = {
  ...CALCULATOR,
  name: "trying",
  novice: (env, rng, turn, task) =>
    turn === 0
      ? { action: TRYING.random(rng, task), isGuess: true }
      : { action: CALCULATOR.expert!(env), isGuess: false },
};

let device: Device;
beforeAll(async () => void (device = await makeDevice("wasm")));
afterAll(() => device.dispose());

describe("--set env.…, train.…, demo.…", () => {
  test("are read as the environment needs them, and hold where they are for", () => {
    const preset = presetOfFlags(
      "--env",
      "gridworld",
      ...set("env.moves=2", "env.levels=1", "env.dense=true", "train.moves=1", "demo.slip=0.5", "demo.levels=1-2"),
    );
    expect(preset.tasks).toEqual({ levels: [1, 1], moves: 2, dense: true });
    expect(taskOptions(preset, "heldout")).toEqual({ split: "heldout", levels: [1, 1], moves: 2, dense: true });
    expect(taskOptions(preset, "train")).toEqual({ split: "train", levels: [1, 1], moves: 1, dense: true });
    expect(taskOptions(preset, "demo")).toEqual({ split: "train", levels: [1, 2], moves: 2, dense: true, slip: 0.5 });
    const { tasks } = presetOfFlags(...set("env.families=read+count"));
    expect(tasks).toEqual({ families: ["read", "count"] });
    expect(presetOfFlags("--env", "calculator").tasks).toEqual({ levels: [1, 3] });
    expect(presetOfFlags().tasks).toBeUndefined();
    // Levels that were chosen are those of all families, also where the settings name some.
    expect(presetOfFlags("--env", "web").tasks).toEqual({ families: ["enter", "choose", "form"] });
    expect(presetOfFlags("--env", "web", ...set("env.levels=3")).tasks).toEqual({ levels: [3, 3] });
    expect(presetOfFlags("--env", "web", ...set("env.subgoals=0.1")).tasks).toHaveProperty("families");
    expect(() => presetOfFlags("--env", "web", ...set("train.levels=3"))).toThrow("--set train: web: no family of");
    expect(presetOfFlags()).toHaveProperty("demoTasks", undefined);
  });

  test("a text that the environment does not take for what it looks like stays a text", () => {
    registry["calculator"] = PICKY;
    try {
      const { tasks } = presetOfFlags(
        "--env",
        "calculator",
        ...set("env.facts=true", "env.size=3", "env.dense=true", "env.words=a+b"),
      );
      expect(tasks).toEqual({ levels: [1, 3], facts: "true", size: 3, dense: true, words: ["a", "b"] });
      // What is said is of what it looks like.
      expect(() => presetOfFlags("--env", "calculator", ...set("env.size=true"))).toThrow(
        "--set env: picky: size cannot be true",
      );
    } finally {
      registry["calculator"] = CALCULATOR;
    }
  });

  test.each(Object.keys(ENVIRONMENTS))("%s refuses an option that it does not have", (env) => {
    expect(() => presetOfFlags("--env", env, ...set("demo.nonsense=1"))).toThrow(
      `--set demo: ${env}: unknown option 'nonsense'`,
    );
  });

  test.each([
    [["env.slib=3"], "--set env: gridworld: unknown option 'slib'; did you mean 'slip'?"],
    [["env.nois=1"], "--set env: gridworld: unknown option 'nois'; did you mean 'noise'?"],
    [
      ["demo.snow=1"],
      "known options: split, families, levels, slip, moves, blind, dense, noise, falsePositives, falseNegatives",
    ],
    [["env.moves=x"], "--set env: gridworld: moves must be"],
    [["train.levels=9"], "--set train: gridworld: no family of"],
    [["demo.families=opne"], "--set demo: gridworld: unknown family 'opne'"],
    [["env.levels=one"], '--set env.levels: expected levels as in 1-2, got "one"'],
    [["env.split=train"], "--set env.split: the run itself trains on train and evaluates on heldout"],
    [["env.moves=4", "env.moves=5"], "--set: env.moves is there twice"],
    [["envs.moves=4"], 'unknown part "envs"; did you mean "env"?'],
  ])("%j is one clear line", (settings, message) => {
    const parse = (): Preset => presetOfFlags("--env", "gridworld", ...set(...settings));
    expect(parse).toThrow(UsageError);
    expect(parse).toThrow(message);
  });
});

test("castle[size=3,families=open+seal+take+clean]: all uses draw these families, in a large castle", async () => {
  const options = parseAblate(["--env", "castle[size=3,families=open+seal+take+clean]", "--arms", "grpo"]);
  const { preset } = planOf(options as AblateOptions).cells[0]!;
  const [families, { chests, things }] = [["open", "seal", "take", "clean"], castleNames(3)];
  expect(preset.tasks).toEqual({ levels: [1, 2], castle: 1000, size: 3, families });
  const spec = ENVIRONMENTS["castle"]!;
  for (const use of ["train", "heldout", "demo"] as const) {
    const [drawn, named] = [new Set<unknown>(), new Set<string>()];
    for (let seed = 0; seed < 80; seed++) {
      const env = spec.make(taskOptions(preset, use));
      const subject = (await env.reset(seed)).split(" ").at(-1)!;
      const { observation } = await env.step(spec.expert!(env));
      expect(observation).toContain(subject);
      expect(await env.step(spec.expert!(env))).toMatchObject({ reward: 1, done: true, info: { toolErrors: 0 } });
      drawn.add(env.info!["family"]);
      named.add(subject);
    }
    expect(drawn, use).toEqual(new Set(families));
    // A small castle has 12 chests and 24 things.
    expect([...named].every((name) => chests.includes(name) || things.includes(name))).toBe(true);
    expect([...named].some((name) => chests.indexOf(name) >= 12)).toBe(true);
    expect([...named].some((name) => things.indexOf(name) >= 24)).toBe(true);
  }
  const misspelt = parseAblate(["--env", "castle[size=3,families=open+seel]", "--arms", "grpo"]);
  expect(() => planOf(misspelt as AblateOptions)).toThrow("castle: unknown family 'seel'; did you mean 'seal'?");
});

describe("a novice", () => {
  const small = (env: string, ...flags: string[]): Preset => {
    const preset = presetOfFlags("--quick", "--env", "calculator", ...flags);
    return { ...preset, env, sft: { ...preset.sft, demonstrations: 20, noviceShare: 0.5, steps: 4, warmup: 1 } };
  };
  beforeAll(() => void (registry["trying"] = TRYING));
  afterAll(() => void delete registry["trying"]);

  /**
   * Weights of the agent's tokens in the warm start, by turn, over episodes of a novice; and whether the answers are
   * read.
   */
  const novices = async (preset: Preset): Promise<{ weights: Record<number, Set<boolean>>; read: boolean }> => {
    const experiment = await Experiment.of(preset);
    const tokenizer = await experiment.trainTokenizer();
    const template = new Template(tokenizer);
    const demonstrations = await experiment.demonstrations(template);
    // An expert of the calculator always succeeds at once or by steps; whoever fails, or ends late, is the novice.
    const model = experiment.newModel(tokenizer, device);
    const learner = { model, template, optimizer: experiment.sftOptimizer(model), demonstrations };
    const weights: Record<number, Set<boolean>> = {};
    let read = false;
    for await (const { rows } of experiment.sft(learner)) {
      for (const { trajectory, wWorld } of rows) {
        if (trajectory.info["success"] === true && preset.env !== "trying") continue;
        trajectory.stream.roles.forEach((role, t) => {
          if (isAgentToken(role)) (weights[trajectory.stream.turns[t]!] ??= new Set()).add(wWorld[t] !== 0);
          if (role === "observation" && wWorld[t] !== 0) read = true;
        });
      }
    }
    return { weights, read };
  };

  test("is imitated unless the preset says no; then what it guesses is only read", async () => {
    const imitated = await novices(small("calculator"));
    expect(imitated).toEqual({ weights: { 0: new Set([true]), 1: new Set([true]) }, read: true });
    const read = await novices(small("calculator", ...set("sft.imitateNovices=false")));
    expect(read).toEqual({ weights: { 0: new Set([false]), 1: new Set([false]) }, read: true });
  });

  test("with a script of its own is imitated where it does not guess", async () => {
    const { weights } = await novices({ ...small("trying", ...set("sft.imitateNovices=false")) });
    // Turn 0 is the expert's in half of the episodes, and every later turn is worth imitating.
    expect(weights[0]).toEqual(new Set([true, false]));
    expect(weights[1]).toEqual(new Set([true]));
  });

  test("writes a share of what the tokenizer is learnt from, where the preset says so", async () => {
    const preset = small("calculator");
    const tokens = async (novicesToo: boolean): Promise<string> => {
      const experiment = await Experiment.of({ ...preset, tokenizer: { ...preset.tokenizer, novices: novicesToo } });
      return JSON.stringify((await experiment.trainTokenizer()).toJSON());
    };
    expect(await tokens(true)).not.toBe(await tokens(false));
    expect(presetOfFlags(...set("tokenizer.vocabSize=400", "tokenizer.novices=true")).tokenizer).toEqual({
      vocabSize: 400,
      corpusEpisodes: 2000,
      novices: true,
    });
    expect(() => presetOfFlags(...set("sft.noviceShare=1", "sft.imitateNovices=false"))).toThrow(
      "there would be nobody to imitate",
    );
  });

  test("a batch of which nothing is imitated is read at a finite weight", () => {
    const batch = randomBatch(3);
    const rows = sftRows(batch, { observationWeight: 0.5, imitate: () => false });
    expect(rows.flatMap(({ wWorld }) => [...wWorld]).every(Number.isFinite)).toBe(true);
    expect(rows.some(({ wWorld }) => wWorld.some((w) => w > 0))).toBe(true);
  });
});
