/** The process reward model of a run: what it is taught, what it says of steps, and how it chooses among tries. */
import { turnEnds } from "../../papers/completions.ts";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { device as makeDevice, type Device } from "../../engine/device.ts";
import { assign, mul } from "../../engine/index.ts";
import { Rng } from "../../engine/random.ts";
import { schedule } from "../../nn/index.ts";
import type { Experiment } from "../../run/experiment.ts";
import type { PrmOptions } from "../../run/rewardOptions.ts";
import { trainProcessModel } from "../../run/processModel.ts";
import {
  judgeOutcome,
  judgeSteps,
  outcomeValues,
  rocArea,
  stepValues,
  verdicts,
  withShares,
} from "../../run/judgements.ts";
import { chosenTries, solutionScores } from "../../run/verification.ts";
import type { Trajectory } from "../../rl/episode/stream.ts";
import type { StepTries } from "../../papers/completions.ts";
import { processRewards } from "../../papers/rewards/process.ts";
import { outcomeClass, OUTCOMES } from "../../methods/outcomeCritic.ts";
import {
  disposeReader,
  initReaderHead,
  lastToken,
  type Reader,
  readEpisodes,
  trainReader,
} from "../../methods/reader.ts";
import { presetOfFlags } from "../support/presetOfFlags.ts";
import { endingModel, episode, toyModel, toyTemplate } from "../support/rlToy.ts";
import { QUIET, unwatched } from "../support/tinyRun.ts";

let device: Device;
beforeAll(async () => void (device = await makeDevice("wasm")));
afterAll(() => device.dispose());

const { padId, endId } = toyTemplate;
/** A reader that is sure of what it says, or one that says one half of everything. */
function newReader(size = 30, logits = 1): Reader {
  const model = toyModel(device);
  const { weight, bias } = initReaderHead(model, logits, new Rng(13));
  const sure = mul(weight, size);
  weight.dispose();
  return { model, head: { weight: sure, bias } };
}
/** An episode whose turns have these actions; 2 spoils it. */
const said = (actions: readonly number[], changes: Partial<Trajectory> = {}): Trajectory =>
  episode(
    [
      ["prompt", [1]],
      ...actions.flatMap((id): ["action" | "observation", number[]][] => [
        ["action", [id, endId]],
        ["observation", [6]],
      ]),
    ],
    { stepRewards: actions.map(() => 0), info: { success: !actions.includes(2) }, ...changes },
  );

describe("what a process model says", () => {
  it("of a step is read at the end of its turn", async () => {
    const reader = newReader();
    const episodes = [said([3, 2]), said([4]), said([5, 3, 4]), said([2, 5]), said([4, 4, 2, 3])];
    const logits = await readEpisodes(reader, episodes, () => true, { padId });
    const expected = episodes.map((one, i) => turnEnds(one).map((t) => 1 / (1 + Math.exp(-logits[i]![t]!))));
    expect(await stepValues(reader, episodes, padId)).toEqual(expected);
    expect(expected.map((values) => values.length)).toEqual([2, 1, 3, 2, 4]);
    const lowest = expected.map((values) => Math.min(...values));
    expect(lowest).not.toEqual(expected.map((values) => values.at(-1)));
    expect(await outcomeValues(reader, episodes, padId)).toEqual(expected.map((values) => values.at(-1)));
    const verdict = expected.map((values) => values.at(-1)! >= 0.5);
    expect(new Set(verdict)).toEqual(new Set([true, false]));
    expect(await verdicts(reader, episodes, padId)).toEqual(verdict);
    for (const [i, one] of episodes.entries()) {
      const [isGood, isSolved] = [Number(verdict[i]), one.info["success"] === true];
      const agreement = Number(verdict[i] === isSolved);
      const judged = await judgeOutcome(reader, toyTemplate, one);
      expect(judged).toEqual({ reward: isGood, parts: { orm: isGood, agreement } });
      expect((await judgeSteps(reader, toyTemplate, one, "sum")).parts).toEqual({ prm: lowest[i], agreement });
    }
    expect(await solutionScores("prm", reader, episodes, padId)).toEqual(lowest);
    expect(await solutionScores("orm", reader, episodes, padId)).toEqual(expected.map((values) => values.at(-1)));
    disposeReader(reader);
  });

  it.each(["difference", "min", "sum"] as const)("becomes the rewards of the steps: %s", async (form) => {
    const reader = newReader();
    const one = said([3, 2, 4]);
    const [values] = await stepValues(reader, [one], padId);
    const rewards = processRewards(values!, form);
    const isGood = values!.at(-1)! >= 0.5;
    const { reward, stepRewards, parts } = await judgeSteps(reader, toyTemplate, one, form);
    expect(stepRewards).toEqual(rewards);
    expect(reward).toBeCloseTo(
      rewards.reduce((a, b) => a + b, 0),
      12,
    );
    expect(parts).toEqual({ prm: Math.min(...values!), agreement: Number(!isGood) });
    const solved = await judgeSteps(reader, toyTemplate, { ...one, info: { success: true } }, form);
    expect(solved.parts["agreement"]).toBe(Number(isGood));
    // The last action was cut off: its reward is in the return, not among the steps that were answered.
    const cut = await judgeSteps(reader, toyTemplate, { ...one, stepRewards: [0, 0] }, form);
    expect([cut.reward, cut.stepRewards]).toEqual([reward, rewards.slice(0, 2)]);
    disposeReader(reader);
  });

  it("counts as a success at one half", async () => {
    const reader = newReader(0);
    expect(await stepValues(reader, [said([3])], padId)).toEqual([[0.5]]);
    expect(await verdicts(reader, [said([3])], padId)).toEqual([true]);
    expect((await judgeSteps(reader, toyTemplate, said([3]), "sum")).parts).toEqual({ prm: 0.5, agreement: 1 });
    disposeReader(reader);
  });

  it("of an episode without a step is nothing", async () => {
    const reader = newReader();
    const none = await judgeSteps(reader, toyTemplate, episode([["prompt", [1, 2]]]), "difference");
    expect(none).toEqual({ reward: 0, stepRewards: [], parts: { prm: 0, agreement: 1 } });
    disposeReader(reader);
  });
});

describe("training", () => {
  const draw = new Rng(1);
  const all = Array.from({ length: 40 }, () => said(Array.from({ length: 1 + draw.int(3) }, () => 2 + draw.int(3))));
  /** Completions succeed, all but one, as long as nothing is spoilt. */
  const triesOf = (one: Trajectory): StepTries[] =>
    turnEnds(one).map((end) => {
      const isSpoilt = one.stream.ids.slice(0, end).includes(2);
      return { successes: isSpoilt ? 0 : 3, tries: 4 };
    });
  /** What the run was asked for. */
  let asked: unknown[] = [];
  /** The phases that it showed, and the finished steps. */
  let told: unknown[] = [];
  const train = async (
    options: PrmOptions,
    episodes = all,
    { copy = endingModel(device), tries = triesOf } = {},
  ): ReturnType<typeof trainProcessModel> => {
    asked = [];
    told = [];
    const observer = {
      ...QUIET,
      phase: (name: string, total: number) => void told.push(`${name}, of ${total}`),
      update: (step: number) => void told.push(step),
    };
    const experiment: Pick<Experiment, "preset" | "playTraining" | "completeTraining"> = {
      preset: presetOfFlags("--env", "tools", "--reward", "prm"),
      playTraining: async (_model, _template, count) => {
        asked.push(count);
        return episodes;
      },
      completeTraining: async (_model, _template, of, { samples }) => {
        asked.push(of.length, samples);
        return of.map(tries);
      },
    };
    const model = endingModel(device);
    const given = { batchSize: 8, lr: 0.01, ...options };
    return trainProcessModel(experiment, model, copy, toyTemplate, { ...unwatched(), observer }, given);
  };
  const values = async ({ reader }: { reader: Reader }): Promise<readonly number[][]> =>
    stepValues(reader, [said([3, 4]), said([3, 2]), said([2, 3])], padId);

  it("teaches which steps can be completed, and says how well on episodes that it has not learnt", async () => {
    const trained = await train({ episodes: 30, steps: 80, samples: 5 });
    expect(asked).toEqual([38, 40, 5]);
    expect(told.slice(0, 5)).toEqual([
      "process model: playing on from each step, of 2",
      1,
      2,
      "process model: learning which steps can be completed, of 80",
      1,
    ]);
    expect(told.slice(4)).toEqual(Array.from({ length: 80 }, (_, i) => i + 1));
    const [good, late, early] = await values(trained);
    for (const v of [...good!, late![0]!]) expect(v).toBeGreaterThan(0.5);
    for (const v of [late![1]!, ...early!]) expect(v).toBeLessThan(0.5);
    // Of the first eight of the forty, which measure it.
    const held = all.slice(0, 8).flatMap(triesOf);
    const good8 = held.filter(({ successes }) => successes > 0).length;
    const base = ((100 * Math.max(good8, held.length - good8)) / held.length).toFixed(1);
    const short = all.slice(0, 8).flatMap((one) => triesOf(one).slice(0, -1)).length;
    expect(trained.note).toMatch(/^process model: ROC area (1.000|0.\d{3}), right on \d+.\d %, the more common/);
    expect(trained.note).toContain(`the more common label has ${base} % of ${held.length} steps of held-out episodes`);
    expect(trained.note).toContain("; before the last, ROC area ");
    expect(trained.note.endsWith(` % of ${short} steps`)).toBe(true);
    expect(Number(/area (\S+),/.exec(trained.note)![1])).toBeGreaterThan(0.9);
    disposeReader(trained.reader);
  });

  it("reports how often it is right, and an area of one half for who says the same of everything", async () => {
    const trained = await train({ episodes: 30, steps: 1 });
    const judged = await stepValues(trained.reader, all.slice(0, 8), padId);
    const right = judged.flatMap((row, i) =>
      row.map((value, k) => value >= 0.5 === triesOf(all[i]!)[k]!.successes > 0),
    );
    const share = ((100 * right.filter(Boolean).length) / right.length).toFixed(1);
    expect(right.filter(Boolean).length).toBeLessThan(right.length);
    expect(trained.note).toContain(`, right on ${share} %, `);
    disposeReader(trained.reader);
    const blank = endingModel(device);
    for (const x of [blank.params.norm.weight, blank.params.norm.bias!]) assign(x, mul(x, 0));
    const same = await train({ episodes: 30, steps: 0 }, all, { copy: blank });
    const good = all.slice(0, 8).flatMap(triesOf);
    const yes = ((100 * good.filter(({ successes }) => successes > 0).length) / good.length).toFixed(1);
    expect(same.note).toContain(`ROC area 0.500, right on ${yes} %, `);
    disposeReader(same.reader);
  });

  it("with soft labels teaches the share, with shuffled ones nothing, and without a step nothing", async () => {
    const soft = await train({ episodes: 30, steps: 150, labels: "soft" });
    const [good] = await values(soft);
    for (const v of good!) expect(Math.abs(v - 0.75)).toBeLessThan(0.15);
    disposeReader(soft.reader);
    for (const control of [{ labels: "shuffled", steps: 80 }, { steps: 0 }] as const) {
      const trained = await train({ episodes: 30, ...control });
      const [, late] = await values(trained);
      expect(late![0]! - late![1]!).toBeLessThan(0.4);
      disposeReader(trained.reader);
    }
  });

  it("leaves out episodes that failed, that have no step, and steps that could not be tried", async () => {
    const odd = [said([3], { masked: true }), episode([["prompt", [1, 2]]])];
    const trained = await train({ episodes: 30, steps: 1 }, [...odd, ...all]);
    expect(asked).toEqual([38, 40, 8]);
    disposeReader(trained.reader);
  });

  it("says of steps before the last nothing where there are none, and of no steps nothing", async () => {
    const single = all.filter((one) => turnEnds(one).length === 1);
    const trained = await train({ episodes: 4, steps: 1 }, single);
    expect(trained.note).toMatch(/^process model: ROC area .* of 1 steps of held-out episodes$/);
    disposeReader(trained.reader);
    const failed = [said([3], { masked: true })];
    const untrained = await train({ episodes: 4, steps: 0 }, failed);
    expect(untrained.note).toBe("process model: not measured, on 0 steps of held-out episodes");
    disposeReader(untrained.reader);
  });

  it("learns nothing from the episodes that measure it, and passes over steps that could not be tried", async () => {
    const untried = (one: Trajectory): StepTries[] => [{ successes: 0, tries: 0 }, ...triesOf(one).slice(1)];
    const others = all.slice(8, 16);
    const options = { episodes: 30, steps: 3 };
    const [own, other] = [await train(options), await train(options, [...others, ...all.slice(8)])];
    expect(await values(own)).toEqual(await values(other));
    const long = all.filter((one) => turnEnds(one).length > 1);
    const partly = await train({ episodes: 12, steps: 3 }, long, { tries: untried });
    // An update whose gradient is not a number would change nothing.
    const start = await train({ episodes: 12, steps: 0 }, long);
    for (const [i, row] of (await values(partly)).entries()) expect(row).not.toEqual((await values(start))[i]);
    const count = long.slice(0, 3).flatMap((one) => triesOf(one).slice(1)).length;
    expect(partly.note).toContain(` of ${count} steps of held-out episodes`);
    for (const { reader } of [own, other, partly, start]) disposeReader(reader);
  });

  it("is `trainReader` on the labels, whose rate rises for ten steps, or for fewer if there are no more", async () => {
    for (const steps of [4, 14]) {
      const trained = await train({ episodes: 30, steps });
      const rng = new Rng(presetOfFlags("--env", "tools").seed).split("prm");
      const model = endingModel(device);
      const reader = { model, head: initReaderHead(model, 1, rng.split("head")) };
      const lessons = all.slice(8).map((one) => ({
        episode: one,
        marks: turnEnds(one).map((token, k) => ({ token, target: Number(triesOf(one)[k]!.successes > 0) })),
      }));
      const lr = schedule({ lr: 0.01, warmup: Math.min(10, steps) });
      await trainReader(reader, lessons, { batchSize: 8, steps, lr, rng: rng.split("draw"), padId });
      expect(await values(trained)).toEqual(await values({ reader }));
      for (const one of [trained.reader, reader]) disposeReader(one);
    }
  });

  it("is that of the seed", async () => {
    const notes = [await train({ episodes: 30, steps: 3 }), await train({ episodes: 30, steps: 3 })];
    expect(notes[0]!.note).toBe(notes[1]!.note);
    expect(await values(notes[0]!)).toEqual(await values(notes[1]!));
    for (const { reader } of notes) disposeReader(reader);
  });
});

it("a critic of outcomes adds its shares to a reward, and whether it was right, unless it cannot read", async () => {
  const critic = newReader(30, OUTCOMES.length);
  const own = { reward: 1, parts: { a: 2 } };
  const marks: number[] = [];
  for (const outcome of ["compile error", "runtime error", "failed test", "passed"]) {
    const one = said([3, 4], { info: { outcome, success: outcome === "passed" } });
    const { tokenShares, parts, reward } = await withShares(critic, toyTemplate, one, own, "own");
    expect([reward, parts["a"], tokenShares!.length]).toEqual([1, 2, one.stream.ids.length]);
    marks[outcomeClass(one)] = parts["critic"]!;
  }
  expect(marks.toSorted((a, b) => a - b)).toEqual([0, 0, 0, 1]);
  const mute = await withShares(critic, toyTemplate, episode([["prompt", [1]]]), own, "own");
  expect(mute).toEqual({ reward: 1, parts: { a: 2, critic: 0 } });
  disposeReader(critic);
});

it("the ROC area counts pairs in the right order, and equal ones half", () => {
  expect(rocArea([0.9, 0.8, 0.1], [true, true, false])).toBe(1);
  expect(rocArea([0.1, 0.9], [true, false])).toBe(0);
  expect(rocArea([0.5, 0.5], [true, false])).toBe(0.5);
  expect(rocArea([3, 1, 2, 0], [true, true, false, false])).toBe(0.75);
  expect(rocArea([1, 2], [true, true])).toBeNaN();
});

describe("verification", () => {
  /** Two tasks, three tries of each; the tries of a task stand two apart. */
  const tries = [said([3, 4]), said([3]), said([2, 4]), said([2]), said([3, 5]), said([2])];

  it("takes the try with the highest score, and by votes one with the answer that wins", () => {
    // Task 0: answers 4, 4, 5, solved by the first and the last; task 1: 3, 2, 2, solved by the first alone.
    const of = (scores: number[]): unknown => chosenTries(tries, scores, toyTemplate, 2);
    expect(of([0.2, 0.6, 0.3, 0.2, 0.4, 0.3])).toEqual({ best: 1, vote: 0.5, majority: 0.5 });
    expect(of([0.2, 0.6, 0.3, 0.3, 0.6, 0.4])).toEqual({ best: 1, vote: 0.5, majority: 0.5 });
    expect(of([0.1, 0.9, 0.9, 0.2, 0.4, 0.3])).toEqual({ best: 0.5, vote: 0.5, majority: 0.5 });
    expect(of([0.9, 0.9, 0.1, 0.2, 0.4, 0.3])).toEqual({ best: 1, vote: 1, majority: 0.5 });
  });

  it("of equal scores the first, and an episode without an action has an answer, too", () => {
    const none = episode([["prompt", [1]]], { info: { success: true } });
    expect(chosenTries([none, said([2])], [0.5, 0.5], toyTemplate, 1)).toEqual({ best: 1, vote: 1, majority: 1 });
    expect(chosenTries([said([2]), none], [0.5, 0.5], toyTemplate, 1)).toEqual({ best: 0, vote: 0, majority: 0 });
  });

  it("reads an outcome model at the end of an episode", async () => {
    const reader = newReader();
    const logits = await readEpisodes(reader, tries, (one, t) => t === lastToken(one), { padId });
    const scores = await solutionScores("orm", reader, tries, padId);
    expect(scores.map((score) => score >= 0.5)).toEqual(tries.map((one, i) => logits[i]![lastToken(one)]! >= 0));
    disposeReader(reader);
  });
});
