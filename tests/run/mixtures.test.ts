/** Several environments in one run: their names, and the settings that follow from theirs. */
import { describe, expect, test } from "vitest";
import { environmentSettings } from "../../run/environments.ts";
import { partsOf } from "../../run/mixtures.ts";
import type { Preset } from "../../run/preset.ts";
import { environmentOf, taskOptions, worldNamed } from "../../run/worlds.ts";
import { presetOfFlags, set } from "../support/presetOfFlags.ts";

describe("the name", () => {
  test.each([
    ["calculator", [["calculator", 1]]],
    [
      "calculator+tools",
      [
        ["calculator", 1],
        ["tools", 1],
      ],
    ],
    [
      "calculator:2+tools:0.5+web",
      [
        ["calculator", 2],
        ["tools", 0.5],
        ["web", 1],
      ],
    ],
  ])("%s", (name, parts) => {
    expect(partsOf(name).map(({ name: one, weight }) => [one, weight])).toEqual(parts);
  });

  test.each([
    "+",
    "calculator+",
    "+tools",
    "a++b",
    "a:+b",
    "a:0+b",
    "a:-1+b",
    "a:x+b",
    "a:1:2+b",
    "a:1e3+b",
    "a:NaN+b",
  ])("%s is refused", (name) =>
    expect(() => partsOf(name)).toThrow(
      `expected names with weights above 0, as in calculator:3+tools:1, got "${name}"`,
    ),
  );

  test.each([
    ["tools+tools", '--env: tools is there twice in "tools+tools"'],
    ["tools:2+web+tools", '--env: tools is there twice in "tools:2+web+tools"'],
    ["tols+web", '--env: unknown name "tols"; did you mean "tools"?'],
    ["tools+nowhere", '--env: unknown name "nowhere"; expected home, '],
    ["tools:2", '--env: unknown name "tools:2"; '],
  ])("--env %s: %s", (name, message) => expect(() => presetOfFlags("--env", name)).toThrow(message));

  test("is known from then on, with the weights that it says", () => {
    expect(worldNamed("calculator:2+tools")).toBe(worldNamed("calculator:2+tools"));
    expect(worldNamed("calculator:2+nowhere")).toBeUndefined();
    expect(worldNamed("tools")).toBe(environmentOf({ env: "tools" }));
  });
});

describe("the settings", () => {
  test("each environment keeps its tasks, in training, demonstrations and for a seed", () => {
    const preset = presetOfFlags("--env", "home+sokoban", "--seed", "3");
    expect(preset.tasks).toEqual({
      "home.levels": [2, 2],
      "home.size": 2,
      "home.home": 1003,
      "sokoban.levels": [1, 1],
      "sokoban.brief": true,
      "sokoban.spare": 0,
      "sokoban.giveUp": true,
    });
    expect(taskOptions(preset, "demo")).toMatchObject({
      split: "train",
      "home.home": -1,
      "home.size": 2,
      "sokoban.slips": 0.3,
      "sokoban.spare": 3,
    });
  });

  test("are changed for one of them, or for all", () => {
    const flags = ["--env", "calculator+tools", ...set("env.tools.levels=2", "env.families=tools", "train.noise=0.5")];
    const preset = presetOfFlags(...flags);
    expect(preset.tasks).toEqual({ "calculator.levels": [1, 3], "tools.levels": [2, 2], families: ["tools"] });
    expect(preset.trainTasks).toEqual({ noise: 0.5 });
    expect(() => presetOfFlags("--env", "calculator+tools", ...set("env.levels=2"))).toThrow(
      "--set env: calculator+tools: levels are those of its environments, as in calculator.levels",
    );
    expect(() => presetOfFlags("--env", "calculator+tools", ...set("env.web.levels=2"))).toThrow("'web.levels'");
    expect(() => presetOfFlags("--env", "calculator+tools", ...set("env.tools.split=train"))).toThrow(
      "--set env.tools.split: the run itself trains on train and evaluates on heldout",
    );
  });

  test("room for the largest, the lessons and tasks of all, the lowest rate, the mean of shares", () => {
    const [one, other] = [presetOfFlags("--env", "web"), presetOfFlags("--env", "calculator")];
    const both = presetOfFlags("--env", "web+calculator");
    const larger = (of: (preset: Preset) => number): number => Math.max(of(one), of(other));
    expect(both.rollout.maxTurns).toBe(larger(({ rollout }) => rollout.maxTurns));
    expect(both.rollout.maxActionTokens).toBe(larger(({ rollout }) => rollout.maxActionTokens));
    expect(both.rollout.maxObservationTokens).toBe(larger(({ rollout }) => rollout.maxObservationTokens));
    // `calculator` has the usual model, which has more layers and heads than that of `web`.
    const maxPositions = larger(({ model }) => model.maxPositions);
    expect(both.model).toEqual({ ...other.model, maxPositions });
    expect([other.model.layers > one.model.layers, other.model.heads > one.model.heads]).toEqual([true, true]);
    expect(presetOfFlags("--env", "web+home").model).toMatchObject({ layers: 2, heads: 4 });
    expect(both.tokenizer).toEqual({ vocabSize: 370, corpusEpisodes: 2000, novices: true });
    expect(both.sft).toMatchObject({
      demonstrations: one.sft.demonstrations + other.sft.demonstrations,
      steps: one.sft.steps + other.sft.steps,
      noviceShare: (one.sft.noviceShare + other.sft.noviceShare) / 2,
      observationWeight: (0.5 + 0.1) / 2,
    });
    expect(both.rl).toMatchObject({
      steps: larger(({ rl }) => rl.steps),
      groups: one.rl.groups + other.rl.groups,
      lr: Math.min(one.rl.lr, other.rl.lr),
    });
  });

  test("of environments that set nothing are the defaults, and of one that forbids to imitate novices, too", () => {
    expect(environmentSettings("terminal+calculator").small).toEqual({});
    expect(presetOfFlags("--env", "home+calculator").sft.imitateNovices).toBe(false);
    expect(presetOfFlags("--env", "tools+calculator").sft.imitateNovices).toBeUndefined();
  });

  test("thoughts, if both have them", () => {
    const preset = presetOfFlags("--env", "gridworld+sokoban", ...set("sft.thoughts=true"));
    expect(preset.rollout.maxActionTokens).toBe(64);
    expect(preset.sft.demonstrations).toBe(6000);
    expect(() => presetOfFlags("--env", "gridworld+tools", ...set("sft.thoughts=true"))).toThrow(
      "gridworld+tools has no thoughts for its demonstrations",
    );
  });

  test("what is only for one environment is refused in one line", () => {
    expect(() => presetOfFlags("--env", "terminal+web", "--hindsight", "4")).toThrow("--hindsight: terminal+web ");
    expect(() => presetOfFlags("--env", "code+tools", "--self-play", "absolute-zero")).toThrow("--env code");
  });
});
