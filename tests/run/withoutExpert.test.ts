/** A world without an expert, and one whose tasks come from files: what a run can be, and what it refuses. */
import { describe, expect, it } from "vitest";
import { demonstrate } from "../../data/demonstrations.ts";
import { withFaults } from "../../environments/faults.ts";
import { defineGame } from "../../environments/index.ts";
import { byteTokenizer } from "../../nn/index.ts";
import { OWN_FORMAT, SPECIAL_TOKENS, Template } from "../../rl/episode/template.ts";
import { presetFor, type Source } from "../../run/presets.ts";
import { ScriptedPlayers } from "../../run/scriptedPlayers.ts";
import { startOptions } from "../../run/startOptions.ts";
import { addEnvironment, checkFingerprint, fingerprintOf } from "../../run/worlds.ts";

/** What the files of `lonely` say; by the levels that are asked for, since training may ask for others. */
let files: Readonly<Record<string, string>> = {};
const lonely = defineGame({
  name: "lonely",
  description: "nobody shows how",
  families: [1, 2].map((level) => ({ name: `say${level}`, level, description: "say yes" })),
  options: {},
  makeTask: () => ({ text: "Say yes" }),
  start: () => 0,
  play: (_, action) => ({ observation: "", ending: { kind: "said", score: Number(action === "yes") } }),
  random: (rng) => rng.choice(["yes", "no"]),
  fingerprint: ({ levels = [] }) => Promise.resolve(files[levels.join("-")] ?? ""),
});
addEnvironment(lonely, "tests/run/withoutExpert.test.ts");

const MODEL: Source = {
  settings: { path: "model", sha256: "0", storage: "f32", format: OWN_FORMAT },
  config: {
    vocabSize: 300,
    hiddenSize: 32,
    layers: 1,
    heads: 2,
    intermediateSize: 64,
    maxPositions: 2048,
    ropeTheta: 1e4,
    initializerRange: 0.02,
  } as Source["config"],
};
const from = (words: Record<string, string | readonly string[]>, source?: Source): (() => unknown) => {
  const given = source ? { ...words, "model-path": "model" } : words;
  return () => presetFor(startOptions({ env: "lonely", ...given }), source);
};

describe("a world without an expert", () => {
  it("has none, with faults either", () => {
    expect(lonely.expert).toBeUndefined();
    expect(withFaults(lonely).expert).toBeUndefined();
  });

  it("needs a model that can act", () => {
    const none = "lonely has no expert, and so no demonstrations";
    expect(from({})).toThrow(
      `--env lonely: ${none} for a warm start; begin with a model that can act, by --model-path`,
    );
    expect(from({ quick: "true" })).toThrow(`--env lonely: ${none}`);
    expect(from({ set: ["sft.steps=0"] })).toThrow(`--env lonely: ${none}`);
    expect(from({ method: "grpo_token+echo" }, MODEL)).not.toThrow();
  });

  it("refuses what imitates an expert", () => {
    expect(from({ set: ["sft.steps=200"] }, MODEL)).toThrow("--set sft.steps: lonely has no expert");
    expect(from({ method: "sft" }, MODEL)).toThrow("--method sft: lonely has no expert");
    expect(from({ method: "expert" }, MODEL)).toThrow("--method expert: lonely has no expert");
    expect(from({ "expert-prefix": "true" }, MODEL)).toThrow(
      "--expert-prefix: lonely has no expert; those that do: home",
    );
    expect(from({ "imitate-expert": "4" }, MODEL)).toThrow("--imitate-expert: lonely has no expert");
    expect(from({ explore: "0.1", set: ["exploration.choose=expert"] }, MODEL)).toThrow("lonely has no expert");
    expect(from({ explore: "0.1" }, MODEL)).not.toThrow();
    expect(from({ method: "random" }, MODEL)).not.toThrow();
  });

  it("measures the loss of its answers in random play alone, and knows no longest demonstration", async () => {
    const preset = presetFor(startOptions({ env: "lonely", "model-path": "model", quick: "true" }), MODEL);
    const template = new Template(byteTokenizer({ specials: SPECIAL_TOKENS }));
    const players = new ScriptedPlayers(preset);
    const fixed = await players.fixedEpisodes(template);
    expect(fixed).toHaveLength(16);
    expect(fixed.every(({ isRandom }) => isRandom)).toBe(true);
    expect(await players.longestLesson(template, 3)).toBe(0);
    await expect(demonstrate(lonely, {}, 0, template)).rejects.toThrow("lonely has no expert");
  });
});

describe("the files that tasks are made of", () => {
  it("stand in the settings of a run, of each use once", async () => {
    const preset = (...set: string[]) => presetFor(startOptions({ env: "lonely", "model-path": "model", set }), MODEL);
    files = { "1-2": "a", "1-1": "b" };
    await expect(fingerprintOf(preset("env.levels=1-2"))).resolves.toBe("a");
    await expect(fingerprintOf(preset("env.levels=1-2", "train.levels=1"))).resolves.toBe("a+b");
    await expect(fingerprintOf({ ...preset(), env: "gridworld" })).resolves.toBeUndefined();
    const begun = { ...preset("env.levels=1-2"), fingerprint: "a" };
    await expect(checkFingerprint(begun)).resolves.toBeUndefined();
    files = { "1-2": "c" };
    await expect(checkFingerprint(begun)).rejects.toThrow(
      "the run's environment: the files that the tasks of lonely are made of have changed since the run began: " +
        "their hash is c, expected a",
    );
  });
});
