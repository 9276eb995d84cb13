/**
 * Labels for demonstrations without actions: which episodes are labelled, with what, and what becomes of the rest. The
 * model has learnt nothing, so its labels are known from playing with it. With training: inverse.long.test.ts.
 */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { device as makeDevice, type Device } from "../../engine/device.ts";
import { treeLeaves } from "../../engine/index.ts";
import { Rng } from "../../engine/random.ts";
import type { Experiment } from "../../run/experiment.ts";
import { label, type Labelled, type LabelRun } from "../../run/inverse.ts";
import type { Model } from "../../nn/transformer.ts";
import { playScripted } from "../../data/demonstrations.ts";
import { EventLoop } from "../../rl/play/eventLoop.ts";
import { actionsOf, inverseEpisode, labelAccuracy, labellingWorld, relabelled, seenOf } from "../../data/inverse.ts";
import { rollout } from "../../rl/play/rollout.ts";
import type { Trajectory } from "../../rl/episode/stream.ts";
import { endingModel, toySpec, toyTemplate } from "../support/rlToy.ts";

const ANSWERS = "abcdef";
/** Episodes of one to three turns, whose answers all differ. */
const demonstration = (seed: number, turns = 1 + (seed % 3)): Promise<Trajectory> =>
  playScripted(
    toySpec((_, turn) => ({
      observation: ANSWERS[(seed + turn) % 6]!,
      reward: 0,
      done: turn + 1 === turns,
      info: {},
    })),
    {},
    seed,
    toyTemplate,
    () => "c",
  );
/** Too few tokens for the third action of some. */
const LIMITS = { maxActionTokens: 6, maxObservationTokens: 4, maxTokens: 20 };

let device: Device;
let all: readonly Trajectory[];
beforeAll(async () => {
  device = await makeDevice("wasm");
  all = await Promise.all(Array.from({ length: 14 }, (_, seed) => demonstration(seed)));
});
afterAll(() => device.dispose());

interface Told {
  readonly phases: unknown[];
  readonly updates: number[];
  readonly notes: string[];
  readonly learnt: (readonly Trajectory[])[];
  readonly freed: string[];
}

/** A run whose inverse model stays as it is; it is stopped at this update, if one is named. */
function runOf(
  sft: { readonly labelled: number; readonly labels?: "inverse" | "shuffled" | "none" },
  { maxPositions = 64, maxTokens = LIMITS.maxTokens, stopAt = Infinity, stopFirst = false } = {},
): { readonly run: LabelRun; readonly told: Told } {
  const told: Told = { phases: [], updates: [], notes: [], learnt: [], freed: [] };
  const stop = new AbortController();
  if (stopFirst) stop.abort();
  const experiment = {
    preset: { sft: { steps: 3, ...sft }, model: { maxPositions }, seed: 5 },
    newModel: () => {
      const model = endingModel(device);
      for (const x of treeLeaves(model.params)) {
        const dispose = x.dispose.bind(x);
        Object.assign(x, { dispose: () => (told.freed.push("tensor"), dispose()) });
      }
      return model;
    },
    sftOptimizer: () => ({ dispose: () => told.freed.push("optimizer") }),
    async *sft({ demonstrations, startStep }: { demonstrations: readonly Trajectory[]; startStep: number }) {
      told.learnt.push(demonstrations);
      for (let step = startStep; step < 3; step++) yield { step, metrics: {} };
    },
    rolloutOptions: () => ({ ...LIMITS, maxTokens }),
  } as unknown as Experiment;
  const observer = {
    phase: (...said: readonly unknown[]) => void told.phases.push(said),
    update: (step: number) => {
      told.updates.push(step);
      if (step === stopAt) stop.abort();
    },
    note: (text: string) => void told.notes.push(text),
  } as unknown as LabelRun["observer"];
  return {
    run: { experiment, template: toyTemplate, device, observer, eventLoop: new EventLoop(), signal: stop.signal },
    told,
  };
}

/** What the model says of these episodes. */
async function saidOf(episodes: readonly Trajectory[]): Promise<string[][]> {
  const model: Model = endingModel(device);
  const spec = labellingWorld(episodes.map((one) => seenOf(one, toyTemplate)));
  const requests = episodes.map((_, seed) => ({ spec, options: {}, seed, group: seed, rng: new Rng(0).split(seed) }));
  const played = await rollout(model, toyTemplate, requests, { ...LIMITS, temperature: 0, maxTurns: 3 });
  return played.map((one) => actionsOf(one, toyTemplate));
}

describe("labels", () => {
  it("replace the actions of all but the first, where the model wrote one for each", async () => {
    const { run, told } = runOf({ labelled: 4 });
    const { demonstrations, metrics } = (await label(run, all))!;
    const others = all.slice(4);
    const said = await saidOf(others);
    const whole = said.flatMap((labels, i) =>
      labels.length === actionsOf(others[i]!, toyTemplate).length ? [{ labels, episode: others[i]! }] : [],
    );
    expect(whole.length).toBeGreaterThan(1);
    expect(whole.length).toBeLessThan(others.length);
    expect(demonstrations.slice(0, 4)).toEqual(all.slice(0, 4));
    expect(demonstrations.slice(4)).toEqual(whole.map((one) => relabelled(one.episode, one.labels, toyTemplate)));
    const truths = whole.map(({ episode }) => actionsOf(episode, toyTemplate));
    const accuracy = labelAccuracy(
      truths,
      whole.map(({ labels }) => labels),
    );
    expect(metrics).toEqual({ "labels/accuracy": accuracy, "labels/episodes": whole.length });
    const share = `${(100 * accuracy).toFixed(1)} % of the labels of ${whole.length} episodes`;
    expect(told.notes).toEqual([`inverse dynamics: ${share} are the actions that were taken`]);
    expect(told.phases).toEqual([["inverse dynamics: learning which actions explain what is seen", 3]]);
    expect([told.updates, told.learnt]).toEqual([
      [1, 2, 3],
      [all.slice(0, 4).map((one) => inverseEpisode(one, toyTemplate))],
    ]);
    expect(told.freed).toEqual(["optimizer", ...Array(told.freed.length - 1).fill("tensor")]);
    expect(told.freed.length).toBeGreaterThan(10);
  });

  it("dealt out anew: the same labels, in another order; none: the first alone, and no model", async () => {
    const labelsIn = ({ demonstrations }: Labelled): string[] =>
      demonstrations.slice(4).flatMap((one) => actionsOf(one, toyTemplate));
    const own = labelsIn((await label(runOf({ labelled: 4 }).run, all))!);
    const shuffled = labelsIn((await label(runOf({ labelled: 4, labels: "shuffled" }).run, all))!);
    expect(shuffled).not.toEqual(own);
    expect(shuffled.toSorted()).toEqual(own.toSorted());
    expect(shuffled).toEqual(new Rng(5).split("shuffled labels").shuffle(own));
    const { run, told } = runOf({ labelled: 4, labels: "none" });
    expect(await label(run, all)).toEqual({ demonstrations: all.slice(0, 4), metrics: {} });
    expect([told.learnt, told.notes]).toEqual([[], []]);
  });

  it("what has no room is neither learnt from nor labelled, and stays among the first", async () => {
    const lengths = all.map((one) => inverseEpisode(one, toyTemplate).stream.ids.length);
    const maxPositions = lengths[1]!; // that of two turns, exactly
    expect(new Set(lengths)).toEqual(new Set([lengths[0], maxPositions, lengths[2]]));
    const { run, told } = runOf({ labelled: 4 }, { maxPositions, maxTokens: 60 });
    const { demonstrations } = (await label(run, all))!;
    const fits = (one: Trajectory): boolean => actionsOf(one, toyTemplate).length < 3;
    expect(told.learnt[0]).toHaveLength(all.slice(0, 4).filter(fits).length);
    expect(demonstrations.slice(0, 4)).toEqual(all.slice(0, 4));
    const tasks = new Set(
      all
        .slice(4)
        .filter(fits)
        .map(({ seed }) => seed),
    );
    expect(demonstrations.length).toBeGreaterThan(5);
    expect(demonstrations.slice(4).every(({ seed }) => tasks.has(seed))).toBe(true);
  });

  it("without others to label, or without one to learn from, there is no model", async () => {
    for (const [labelled, options, length] of [
      [14, {}, 14],
      [4, { maxPositions: 1 }, 4],
    ] as const) {
      const { run, told } = runOf({ labelled }, options);
      expect((await label(run, all))!.demonstrations).toHaveLength(length);
      expect([told.learnt, told.phases]).toEqual([[], []]);
    }
    const tooLong = inverseEpisode(all[1]!, toyTemplate).stream.ids.length - 1;
    const none = runOf({ labelled: 1 }, { maxPositions: tooLong });
    expect((await label(none.run, [all[1]!, all[0]!]))!.demonstrations).toEqual([all[1]]);
    expect(none.told.learnt).toEqual([]);
    // One of each is enough.
    const { run, told } = runOf({ labelled: 1 });
    await label(run, all.slice(0, 2));
    expect(told.learnt).toHaveLength(1);
  });

  it("a run that is stopped has none, whether it learns or has nothing to learn", async () => {
    const { run, told } = runOf({ labelled: 4 }, { stopAt: 2 });
    expect(await label(run, all)).toBeNull();
    expect([told.updates, told.notes]).toEqual([[1, 2], []]);
    expect(told.freed).toContain("optimizer");
    expect(await label(runOf({ labelled: 14 }, { stopFirst: true }).run, all)).toBeNull();
  });
});
