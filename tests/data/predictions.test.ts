/**
 * Rewarded predictions: what is guessed, what a guess is worth, that it is learnt from, and that nothing else hears of
 * it.
 */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { device as makeDevice, type Device } from "../../engine/device.ts";
import { Rng } from "../../engine/random.ts";
import { gae } from "../../methods/advantages/index.ts";
import { predictAnswers, type PredictionOptions, predictions } from "../../data/predictions.ts";
import { ReplayBuffer } from "../../data/replay.ts";
import { answerPlaces } from "../../data/expectation.ts";
import { objectiveOf } from "../../methods/presets.ts";
import { METHODS } from "../../methods/choice.ts";
import { rollout } from "../../rl/play/rollout.ts";
import type { Trajectory } from "../../rl/episode/stream.ts";
import { type RlOptions, trainRl } from "../../rl/train/loop.ts";
import type { StepReport } from "../../rl/train/report.ts";
import { reportsOf, toyObjective, toyRlOptions } from "../support/rlRuns.ts";
import { endingModel, letters, toySpec, toyTemplate } from "../support/rlToy.ts";

let device: Device;
beforeAll(async () => {
  device = await makeDevice("wasm");
});
afterAll(() => device.dispose());

/** Answers with two letters and three marks, for three turns. */
const world = toySpec(letters(3));
const episodes = (count: number): Promise<Trajectory[]> => {
  const requests = Array.from({ length: count }, (_, e) => ({
    spec: world,
    options: {},
    seed: e,
    group: e,
    rng: new Rng(e),
  }));
  return rollout(endingModel(device), toyTemplate, requests, { maxActionTokens: 5, maxTurns: 3 });
};
const predict = async (of: readonly Trajectory[], options: PredictionOptions, seed = 1): Promise<Trajectory[]> => [
  ...(await predictAnswers(endingModel(device), toyTemplate, of, options, new Rng(seed), 7)).trajectories,
];
/** A letter for each token, the tags too. */
const letter = (ids: readonly number[]): string => String.fromCharCode(...ids.map((id) => 65 + id));

describe("places of answers", () => {
  it("are the tokens between the tag and the end, of every answer", async () => {
    const played = await episodes(4);
    const places = answerPlaces(toyTemplate, played);
    expect(places.length).toBe(played.reduce((n, { stepRewards }) => n + stepRewards.length, 0));
    for (const { episode, start, length } of places) {
      const { ids, roles } = played[episode]!.stream;
      expect(toyTemplate.tokenizer.decode(ids.slice(start, start + length))).toMatch(/b!$/);
      expect(new Set(roles.slice(start, start + length))).toEqual(new Set(["observation"]));
      expect([roles[start - 1], roles[start + length]]).toEqual(["scaffold", "scaffold"]);
    }
  });
});

describe("guesses", () => {
  it("follow what was read before an answer, and are as long at most; nothing but they is trained", async () => {
    const played = await episodes(4);
    const guesses = await predict(played, { perStep: 3, size: 4 });
    expect(guesses.length).toBe(12);
    const groups = [...new Set(guesses.map(({ group }) => group))];
    expect(groups.length).toBe(3);
    const places = answerPlaces(toyTemplate, played);
    const found = groups.map((group) => {
      const own = guesses.filter((guess) => guess.group === group);
      const start = own[0]!.stream.roles.indexOf("action");
      const before = own[0]!.stream.ids.slice(0, start);
      const place = places.findIndex(
        (at) => at.start === start && played[at.episode]!.stream.ids.slice(0, start).join() === before.join(),
      );
      expect(place).toBeGreaterThanOrEqual(0);
      expect(new Set(own.map(({ stream }) => stream.ids.slice(start).join())).size).toBeGreaterThan(1);
      for (const { stream } of own) {
        expect(stream.ids.slice(0, start)).toEqual(before);
        expect(stream.ids.length - start).toBeLessThanOrEqual(places[place]!.length);
        expect(stream.roles).toEqual(stream.ids.map((_, t) => (t < start ? "prompt" : "action")));
        expect(stream.targets.some(Boolean)).toBe(false);
        expect(stream.versions).toEqual(stream.ids.map((_, t) => (t < start ? -1 : 7)));
      }
      return place;
    });
    expect(new Set(found).size).toBe(3);
  });

  it("are the same for the same stream of chance, and others for another", async () => {
    const played = await episodes(4);
    const first = await predict(played, {});
    expect(await predict(played, {})).toEqual(first);
    expect(await predict(played, {}, 2)).not.toEqual(first);
  });

  it("pay where the edits per token are fewer than τ", async () => {
    const played = await episodes(12);
    const places = answerPlaces(toyTemplate, played);
    for (const threshold of [0.7, 1]) {
      const guesses = await predict(played, { perStep: 30, size: 8, threshold });
      expect(new Set(guesses.map(({ reward }) => reward))).toEqual(new Set([0, 1]));
      for (const guess of guesses) {
        const start = guess.stream.roles.indexOf("action");
        const before = guess.stream.ids.slice(0, start).join();
        const { episode, length } = places.find(
          (at) => at.start === start && played[at.episode]!.stream.ids.slice(0, start).join() === before,
        )!;
        const answer = letter(played[episode]!.stream.ids.slice(start, start + length));
        const said = letter(guess.stream.ids.slice(start).filter((id) => id !== toyTemplate.endId));
        const distance = distanceByDefinition(said, answer) / Math.max(said.length, answer.length);
        expect(guess.reward, `${said} for ${answer}`).toBe(distance < threshold ? 1 : 0);
      }
    }
  });

  it("are not of answers that failed, or that are empty", async () => {
    const [one, other] = await episodes(2);
    expect(await predict([{ ...one!, masked: true }], {})).toEqual([]);
    const silent = toySpec(() => ({ observation: "", reward: 0, done: true, info: {} }));
    const requests = [{ spec: silent, options: {}, seed: 1, group: 0, rng: new Rng(1) }];
    const mute = await rollout(endingModel(device), toyTemplate, requests, { maxActionTokens: 5, maxTurns: 3 });
    expect(await predict(mute, {})).toEqual([]);
    // Of an answer that was cut nobody can guess what the marker stands for.
    const wordy = toySpec(() => ({ observation: "abcdefabcdef", reward: 0, done: true, info: {} }));
    const long = [{ ...requests[0]!, spec: wordy }];
    const whole = await rollout(endingModel(device), toyTemplate, long, { maxActionTokens: 40 });
    const cut = await rollout(endingModel(device), toyTemplate, long, { maxActionTokens: 40, maxObservationTokens: 9 });
    expect((await predict(whole, { perStep: 99, size: 2 })).length).toBe(2);
    expect(await predict(cut, {})).toEqual([]);
    expect((await predict([other!, ...mute], { perStep: 99, size: 2 })).length).toBe(
      2 * answerPlaces(toyTemplate, [other!]).length,
    );
  });
});

/** Optimal string alignment, straight from its recursion. */
function distanceByDefinition(a: string, b: string): number {
  const known = new Map<string, number>();
  const d = (i: number, j: number): number => {
    if (i === 0 || j === 0) return i + j;
    const key = `${i} ${j}`;
    if (!known.has(key)) {
      const swap = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1] ? d(i - 2, j - 2) + 1 : Infinity;
      known.set(key, Math.min(d(i - 1, j) + 1, d(i, j - 1) + 1, d(i - 1, j - 1) + Number(a[i - 1] !== b[j - 1]), swap));
    }
    return known.get(key)!;
  };
  return d(a.length, b.length);
}

const play = (overrides: Partial<RlOptions>): Promise<StepReport[]> =>
  reportsOf(trainRl(toyRlOptions(endingModel(device), overrides)));

describe("in a run", () => {
  it("count in no outcome of the run, and are not replayed", async () => {
    const replay = new ReplayBuffer({ perStep: 1 });
    const [plain] = await play({ steps: 1 });
    const [report] = await play({ steps: 1, plugins: [predictions({ perStep: 2, size: 3 }), replay] });
    for (const name of ["reward", "reward_std", "completions/mean_length", "success"])
      expect(report!.metrics[name], name).toEqual(plain!.metrics[name]);
    expect(report!.rows.length).toBe(plain!.rows.length + 6);
    for (const { trajectories } of replay.groups)
      for (const { stream } of trajectories) expect(stream.roles).toContain("scaffold");
  });

  it.each([
    [{ perStep: 0 }, "predictions: perStep must be an integer ≥ 1, got 0"],
    [{ size: 1 }, "predictions: size must be an integer ≥ 2, got 1"],
    [{ threshold: 0 }, "predictions: threshold must be in (0, 1], got 0"],
    [{ places: 3 } as PredictionOptions, "predictions: unknown option"],
  ])("refuses %o", (given, message) => {
    expect(() => predictions(given)).toThrow(message);
  });

  /** What compares with something that guesses do not have. */
  const isRefused = (method: string): boolean =>
    method === "remax" || objectiveOf({ method, maxLength: 20 }).critic !== undefined;
  const methods = [...Object.keys(METHODS), "grpo+echo", "grpo+paw", "grpo+actfocus", "gigpo+echo"];
  it.each(methods.filter((method) => !isRefused(method)))(
    "stand beside a method's own episodes: %s",
    async (method) => {
      const objective = objectiveOf({ method, maxLength: 20 });
      const reference = endingModel(device);
      const plugins = [predictions({ perStep: 2, size: 3 })];
      const [, report] = await play({ objective, reference, steps: 2, plugins });
      const guesses = report!.rows.filter(({ trajectory }) => trajectory.group >= 2 ** 30);
      expect(guesses).toHaveLength(6);
      expect(report!.rows.length).toBeGreaterThan(6);
      const right = guesses.filter(({ trajectory }) => trajectory.reward === 1).length;
      expect(report!.metrics["predictions/reward"]).toBe(right / 6);
      for (const { trajectory, wPolicy } of report!.rows)
        for (const weight of wPolicy) expect(Number.isFinite(weight), `group ${trajectory.group}`).toBe(true);
    },
  );
  it.each(methods.filter(isRefused))("are refused where guesses lack what is compared with: %s", async (method) => {
    const objective = objectiveOf({ method, maxLength: 20 });
    await expect(play({ objective, plugins: [predictions()] })).rejects.toThrow(
      /predictions (are compared in groups|have no greedy)/,
    );
  });

  it("refuses a critic, whose values compare nothing", async () => {
    const objective = { ...toyObjective, advantage: gae(), critic: {} };
    await expect(play({ objective, plugins: [predictions()] })).rejects.toThrow("predictions are compared in groups");
  });
});
