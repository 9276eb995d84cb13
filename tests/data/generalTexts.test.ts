/** General texts in a warm start: what they are, the mixture's loss, and the share of calls that nobody wanted. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { device as makeDevice, type Device } from "../../engine/device.ts";
import { Rng } from "../../engine/random.ts";
import { AdamW } from "../../nn/optimizer.ts";
import { answerLoss } from "../../run/losses.ts";
import { isHeldOut } from "../../environments/index.ts";
import { falseCalls } from "../../rl/episode/metrics.ts";
import type { Trajectory } from "../../rl/episode/stream.ts";
import { drawGeneralTexts, generalLesson } from "../../data/generalTexts.ts";
import { trainSft, imitationLoss, sftRows } from "../../methods/sft.ts";
import { mixedRows } from "../../rl/train/imitation.ts";
import { reportsOf } from "../support/rlRuns.ts";
import { endingModel, episode, toyTemplate } from "../support/rlToy.ts";

let device: Device;
beforeAll(async () => void (device = await makeDevice("reference")));
afterAll(() => device.dispose());

const said = (ids: number[]): Trajectory =>
  episode([
    ["prompt", [1]],
    ["action", ids],
    ["observation", [4]],
  ]);

describe("general texts", () => {
  const draw = (split: "train" | "heldout", shuffled = false) => drawGeneralTexts(new Rng(3), 400, { split, shuffled });
  const answers: Readonly<Record<string, (words: string[]) => string[]>> = {
    "Say again": (words) => words,
    "Say backwards": (words) => words.reverse(),
    "Sort by letters": (words) => words.sort(),
    "Say the first": ([first]) => [first!],
    "Say the last": (words) => [words.at(-1)!],
  };
  const isRight = ({ question, answer }: { question: string; answer: string }): boolean => {
    const [kind, words] = question.split(": ");
    return answers[kind!]!(words!.split(" ")).join(" ") === answer;
  };

  it("are right, of every kind, the same for the same seed, and none is in both splits", () => {
    const [train, heldOut] = [draw("train"), draw("heldout")];
    expect([...train, ...heldOut].every(isRight)).toBe(true);
    expect(new Set(train.map(({ question }) => question.split(":")[0]))).toEqual(new Set(Object.keys(answers)));
    const lengths = train.map(({ question }) => question.split(": ")[1]!.split(" ").length);
    expect(new Set(lengths)).toEqual(new Set([2, 3, 4]));
    expect(train.some(({ question }) => isHeldOut(question))).toBe(false);
    expect(heldOut.every(({ question }) => isHeldOut(question))).toBe(true);
    expect(draw("train")).toEqual(train);
    const known = new Set(train.map(({ question }) => question));
    expect(heldOut.some(({ question }) => known.has(question))).toBe(false);
    expect(() => drawGeneralTexts(new Rng(0), 0, { split: "train" })).toThrow("count must be an integer ≥ 1, got 0");
  });

  it("shuffled have the answers of others", () => {
    const [own, shuffled] = [draw("train"), draw("train", true)];
    expect(shuffled.map(({ question }) => question)).toEqual(own.map(({ question }) => question));
    const sorted = (texts: typeof own): string[] => texts.map(({ answer }) => answer).toSorted();
    expect(sorted(shuffled)).toEqual(sorted(own));
    expect(shuffled.filter(isRight).length).toBeLessThan(40);
  });

  it("are one turn, of which the answer is imitated", () => {
    const lesson = generalLesson({ question: "Say: a", answer: "b" }, toyTemplate, 5);
    const { stream, stopReason } = lesson;
    expect(lesson).toMatchObject({ reward: 1, stepRewards: [1], group: 5, seed: 5, masked: false, task: "Say: a" });
    expect(new Set(stream.turns)).toEqual(new Set([0]));
    const action = stream.ids.filter((_, t) => stream.roles[t] === "action");
    expect(toyTemplate.actionText(action)).toBe("b");
    expect(stopReason).toBe("completed");
    expect(stream.roles).not.toContain("observation");
  });
});

describe("the mixture", () => {
  const agent = { episodes: [said([2, 3]), said([5])], weight: 0.2 };
  const general = { episodes: [said([6, 7, 8])], weight: 0.8 };

  it("test vector: losses 2 and 1 at η = .2 are 1.2", () => {
    const rows = mixedRows([agent, general]);
    const lps = [-2, -2, -1];
    const loss = rows.reduce((sum, { wWorld }, i) => sum - lps[i]! * wWorld.reduce((a, b) => a + b, 0), 0);
    expect(loss).toBeCloseTo(1.2, 12);
  });

  it("weighs all that a part learns, its answers, and DFT's column", () => {
    const [own] = sftRows(general.episodes, { observationWeight: 0.1 });
    const mixed = mixedRows([agent, general], (episodes) => sftRows(episodes, { observationWeight: 0.1 }))[2]!;
    own!.wWorld.forEach((w, t) => expect(mixed.wWorld[t]).toBeCloseTo(0.8 * w, 12));
    expect(mixed.wWorld.filter((w) => w > 0)).toHaveLength(4);
    const dft = mixedRows([agent, general], (episodes) => sftRows(episodes, { loss: "dft" }))[2]!;
    expect(dft.wPolicy.reduce((a, b) => a + b, 0)).toBeCloseTo(0.8, 12);
  });

  it("is what `trainSft` learns, and the general part is reported", async () => {
    const model = endingModel(device);
    const of = async (episodes: readonly Trajectory[]): Promise<number> => answerLoss(model, toyTemplate, episodes);
    const [one, other] = [await of([said([2, 3])]), await of(general.episodes)];
    const options = { template: toyTemplate, lr: () => 0, batchSize: 2, steps: 1, rng: new Rng(0) };
    const demonstrations = [said([2, 3])];
    const learner = { model, optimizer: new AdamW(model.params), demonstrations, ...options };
    const [report] = await reportsOf(trainSft({ ...learner, general }));
    expect(report!.metrics["loss"]).toBeCloseTo(0.2 * one + 0.8 * other, 6);
    expect(report!.metrics["general_loss"]).toBeCloseTo(other, 6);
    expect(report!.metrics["step_tokens"]).toBe(2 * (4 + 5));
    const [plain] = await reportsOf(trainSft(learner));
    expect(plain!.metrics["loss"]).toBeCloseTo(one, 6);
    expect(plain!.metrics).not.toHaveProperty("general_loss");
    for (const wrong of [
      { ...general, weight: 0 },
      { ...general, weight: 1 },
      { episodes: [], weight: 0.5 },
    ])
      await expect(reportsOf(trainSft({ ...learner, general: wrong }))).rejects.toThrow("weight between 0 and 1");
  });

  it("its loss is over what is imitated", () => {
    const rows = mixedRows([general], (episodes) => sftRows(episodes, { observationWeight: 1 }));
    const logProbs = rows.map(({ wWorld }) => wWorld.map((_, t) => -t));
    expect(imitationLoss(rows, logProbs)).toBeCloseTo((1 + 2 + 3) / 3, 12);
  });
});

it("false calls are counted where a plain answer is wanted", () => {
  const infoOf = (n: number | undefined): Trajectory["info"] => (n === undefined ? {} : { falseCalls: n });
  const of = (...counts: (number | undefined)[]): object =>
    falseCalls(counts.map((n) => ({ ...said([2]), info: infoOf(n) })));
  expect(of(0, 3, undefined, 1, 0)).toEqual({ "tools/false_call_frequency": 0.5 });
  expect(of(undefined)).toEqual({});
});
