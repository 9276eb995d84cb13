/** The environment's own numbers as metrics: what counts, what does not, and what a hostile server may answer. */
import { expect, test } from "vitest";
import type { Trajectory } from "../../rl/index.ts";
import { Progress } from "../../run/display/progress.ts";
import { infoMetrics, infoPlugin } from "../../run/infoMetrics.ts";

const episode = (info: Trajectory["info"], more: Partial<Trajectory> = {}): Trajectory =>
  ({ info, masked: false, ...more }) as unknown as Trajectory;

test("the mean over the episodes that have a number; a truth value is 1 or 0", () => {
  const episodes = [
    episode({ moves: 3, deadlock: true, outcome: "lost" }),
    episode({ moves: 0, deadlock: false }),
    episode({ deadlock: false }), // cut off before it said anything of moves
    episode({}),
  ];
  expect(infoMetrics(episodes)).toEqual({ "info/deadlock": 1 / 3, "info/moves": 1.5 });
  expect(infoPlugin.metrics!(episodes)).toEqual(infoMetrics(episodes));
});

test("nothing of episodes that were masked, of numbers that are none, and of fields with metrics of their own", () => {
  expect(infoMetrics([])).toEqual({});
  expect(infoMetrics([episode({ moves: 7 }, { masked: true })])).toEqual({});
  expect(infoMetrics([episode({ moves: NaN, coins: Infinity, text: "5", empty: "" })])).toEqual({});
  const foreign = { none: null, list: [], one: [5], object: {}, missing: undefined } as unknown as Trajectory["info"];
  expect(infoMetrics([episode(foreign)])).toEqual({});
  const ofAll = { success: true, score: 1, level: 2, turns: 3, toolErrors: 0, falseCalls: 0, answerEntropy: 0.5 };
  expect(infoMetrics([episode(ofAll)])).toEqual({});
});

test("of a mixture what each environment pays, without masked episodes and those that have no score", () => {
  const of = (environment: unknown, reward: number, more: Partial<Trajectory> = {}): Trajectory =>
    episode({ environment } as Trajectory["info"], { reward, stepRewards: [], ...more });
  const episodes = [
    of("a", 1),
    of("a", 0),
    of("a", 5, { masked: true }),
    of("b", -1),
    of("a", NaN),
    of(7, 1),
    of("", 1),
  ];
  expect(infoMetrics(episodes)).toEqual({
    "info/environment": 7,
    "rewards/a/mean": 0.5,
    "rewards/b/mean": -1,
    "success/a": 0.5,
    "success/b": 0,
  });
});

test("a rollout of several rows counts once, by its last; a masked row masks it", () => {
  const rows = (masked: boolean): Trajectory[] => [
    episode({ moves: 1 }, { rollout: 7 }),
    episode({ moves: 9 }, { rollout: 7, masked }),
    episode({ moves: 1 }, { rollout: 8 }),
  ];
  expect(infoMetrics(rows(false))).toEqual({ "info/moves": 5 });
  expect(infoMetrics(rows(true))).toEqual({ "info/moves": 1 });
});

test("names that are no names are left out, and of thousands the first 24", () => {
  const hostile = {
    "a b": 1,
    "a\nb": 1,
    "": 1,
    [`x${"y".repeat(48)}`]: 1,
    "\u001b[2J": 1,
    __proto__: 1,
    "ok.it-is_1": 1,
  };
  expect(infoMetrics([episode(hostile)])).toEqual({ "info/ok.it-is_1": 1 });
  const many = Object.fromEntries(Array.from({ length: 5000 }, (_, i) => [`n${String(i).padStart(4, "0")}`, i]));
  expect(Object.keys(infoMetrics([episode(many)]))).toEqual(
    Array.from({ length: 24 }, (_, i) => `info/n00${String(i).padStart(2, "0")}`),
  );
});

test("the terminal keeps three places for them", () => {
  const progress = new Progress("x", 1, 0, 0);
  const own = Object.fromEntries(["a", "b", "c", "d"].map((name) => [`info/${name}`, 1]));
  progress.update(1, { reward: 1, success: 1, loss: 1, policy_loss: 1, entropy: 1, ...own, other: 1 }, 1);
  const shown = progress.shown([], 6);
  expect(shown).toHaveLength(6);
  expect(shown.slice(3)).toEqual(["info/a", "info/b", "info/c"]);
  expect(progress.shown([], 20)).toContain("info/d");
});
