/**
 * Agents that think before they act: what demonstrations hold and how long it is, and that there is room for it. Whole
 * runs: thoughts.long.test.ts.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { parseArms } from "../../run/arms.ts";
import { Experiment } from "../../run/experiment.ts";
import { UsageError } from "../../run/usage.ts";
import { parseStart } from "../../run/node/commandLine.ts";
import type { StartOptions } from "../../run/startOptions.ts";
import type { Preset } from "../../run/preset.ts";
import { presetFor, presetOf } from "../../run/presets.ts";
import { templateFor } from "../../run/template.ts";
import { createRun } from "../../run/node/runFolder.ts";
import type { Tokenizer } from "../../nn/tokenizer.ts";
import { emptyStream, type Role, type Trajectory } from "../../rl/episode/stream.ts";
import { definedOf } from "../support/mainJob.ts";

const presetOfFlags = (...args: string[]): Preset => presetFor(definedOf(parseStart(args) as StartOptions));
const THINK = ["--set", "sft.thoughts=true"];
const DIRECTION = /^(up|right|down|left)$/;

const folder = mkdtempSync(join(tmpdir(), "worldgrad-thoughts-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

interface Written {
  readonly thought: number[];
  readonly action: number[];
}
/** What the agent wrote in each turn, and that nothing of it lies behind the action. */
function turnsOf({ stream }: Trajectory): Written[] {
  const turns: Written[] = [];
  stream.roles.forEach((role, t) => {
    if (role !== "thought" && role !== "action") return;
    const own = (turns[stream.turns[t]!] ??= { thought: [], action: [] });
    if (role === "thought") expect(own.action).toEqual([]);
    own[role].push(stream.ids[t]!);
  });
  return turns;
}

describe.each(["gridworld", "sokoban"])("demonstrations in %s", (env) => {
  let preset: Preset;
  let tokenizer: Tokenizer;
  let demonstrations: Trajectory[];
  let asked = 0;
  beforeAll(async () => {
    const full = presetOfFlags(
      "--env",
      env,
      ...THINK,
      "--set",
      "sft.noviceShare=0.4",
      "--set",
      "sft.demonstrations=150",
      "--set",
      "tokenizer.corpusEpisodes=300",
    );
    preset = full;
    asked = full.sft.demonstrations;
    const experiment = await Experiment.of(full);
    tokenizer = await experiment.trainTokenizer();
    demonstrations = await experiment.demonstrations(templateFor(full, tokenizer));
  });

  test("hold a thought of 20 to 60 tokens and a tagged action of one in every turn, whoever plays", () => {
    expect(demonstrations.length).toBe(asked); // none was too long
    const ends = demonstrations.map((episode) => {
      const turns = turnsOf(episode);
      for (const { thought, action } of turns) {
        expect(thought.length).toBeGreaterThanOrEqual(20);
        expect(thought.length).toBeLessThanOrEqual(60);
        expect(action.length).toBe(4); // "[", the direction, "]", the end
        const direction = /^\[(\w+)\]$/.exec(tokenizer.decode(action.slice(0, -1)))![1]!;
        expect(direction).toMatch(DIRECTION);
        const text = tokenizer.decode(thought);
        expect(text).toMatch(/^([a-z]+ ){1,3}up .*\btry left [a-z0-9 ]+\.$/);
        expect(text).not.toMatch(/[[\]]/);
      }
      return episode.info["success"];
    });
    // Both kinds are among them.
    expect(new Set(ends)).toEqual(new Set([true, false]));
  });

  test("have the roles that the same tokens would have if the model had drawn them", () => {
    const template = templateFor(preset, tokenizer);
    for (const episode of demonstrations) {
      const roles = turnsOf(episode).flatMap(({ thought, action }, turn): Role[] => {
        const sampled = emptyStream();
        template.appendSampled(sampled, turn, [...thought, ...action]);
        return sampled.roles;
      });
      expect(roles).toEqual(episode.stream.roles.filter((role) => role === "thought" || role === "action"));
    }
  });

  test("leave room for an episode of the longest thoughts", () => {
    const { rollout, model } = preset;
    expect(model.maxPositions).toBeLessThanOrEqual(640);
    expect(rollout.maxActionTokens).toBe(64);
    for (const { stream } of demonstrations) {
      const count = (turn: number, ...roles: Role[]): number =>
        stream.roles.filter((role, t) => stream.turns[t] === turn && roles.includes(role)).length;
      // The first answer shows a board, as long as all of them are; `<|act|>` behind the task is of turn 0.
      const answer = Math.max(count(0, "observation"), count(1, "observation")) + 3;
      const task = count(0, "prompt") + 1;
      expect(task + rollout.maxTurns * (rollout.maxActionTokens + answer)).toBeLessThanOrEqual(model.maxPositions);
    }
    const { tasks } = preset;
    expect(tasks).toEqual({ levels: [1, 1], moves: rollout.maxTurns });
  });

  test("think nothing unless the preset says so, and then there is the room that there was", async () => {
    const plain = presetOfFlags("--env", env, "--set", "sft.demonstrations=10", "--set", "tokenizer.corpusEpisodes=50");
    expect([plain.rollout.maxActionTokens, "thoughts" in plain.sft]).toEqual([8, false]);
    const experiment = await Experiment.of(plain);
    const own = await experiment.trainTokenizer();
    const shown = await experiment.demonstrations(templateFor(plain, own));
    expect(shown.flatMap(({ stream }) => stream.roles)).not.toContain("thought");
    expect(own.decode(turnsOf(shown[0]!)[0]!.action.slice(0, -1))).toMatch(DIRECTION);
  });
});

describe("a mistake is one clear line", () => {
  test.each([
    [
      ["--env", "terminal", ...THINK],
      "--set sft.thoughts: terminal has no thoughts for its demonstrations; those that have: gridworld, sokoban",
    ],
    [[...THINK], "--set sft.thoughts: home has no thoughts"],
    [["--env", "gridworld", "--set", "sft.thoughts=yes"], '--set sft.thoughts must be true or false, got "yes"'],
    [["--env", "gridworld", "--set", "sft.thought=true"], 'did you mean "thoughts"?'],
  ])("%j", (flags, message) => {
    expect(() => presetOfFlags(...flags)).toThrow(UsageError);
    expect(() => presetOfFlags(...flags)).toThrow(message);
  });

  test("of an arm, and of a run folder", () => {
    expect(() => parseArms("grpo,grpo[sft.thoughts=true]")).toThrow(
      "sft.thoughts belongs to the warm start, which all arms share",
    );
    const preset = presetOfFlags("--env", "gridworld", ...THINK, "--quick");
    const foreign = createRun(join(folder, "foreign"), { preset: { ...preset, env: "terminal", tasks: {} } });
    expect(() => presetOf(foreign)).toThrow("--set sft.thoughts: terminal has no thoughts");
  });
});
