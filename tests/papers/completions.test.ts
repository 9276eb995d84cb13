/** Completions from the steps of an episode: the state is restored by its own tokens, and each step is tried alone. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { device as makeDevice, type Device } from "../../engine/device.ts";
import { Rng } from "../../engine/random.ts";
import type { EnvironmentSpec, StepResult } from "../../rl/environment.ts";
import type { Model } from "../../nn/transformer.ts";
import type { Trajectory } from "../../rl/episode/stream.ts";
import { completeSteps, type StepTries } from "../../papers/completions.ts";
import { rollout } from "../../rl/play/rollout.ts";
import { Template } from "../../rl/episode/template.ts";
import {
  type Act,
  endingModel,
  episode,
  letters,
  toyRequests,
  toySpec,
  toyTemplate,
  toyTokenizer,
} from "../support/rlToy.ts";

let device: Device;
let model: Model;
beforeAll(async () => {
  device = await makeDevice("wasm");
  model = endingModel(device);
});
afterAll(() => device.dispose());

const limits = { maxActionTokens: 40, maxTurns: 3 };
const play = (spec: EnvironmentSpec, count = 4): Promise<Trajectory[]> =>
  rollout(model, toyTemplate, toyRequests(spec, count), limits);
const complete = (
  spec: EnvironmentSpec,
  episodes: readonly Trajectory[],
  samples = 3,
  seed = 5,
): Promise<StepTries[][]> =>
  completeSteps(model, toyTemplate, episodes, { spec, options: {}, samples, rng: new Rng(seed), rollout: limits });

/** Three turns; remembers what was done, and succeeds if `isGood` of that. */
function remembering(isGood: (actions: readonly string[]) => boolean): { spec: EnvironmentSpec; seen: string[][] } {
  const seen: string[][] = [];
  const act = (actions: string[], action: string): StepResult => {
    actions.push(action);
    const done = actions.length === 3;
    return { observation: `b${actions.length}`, reward: 0.5, done, info: { success: done && isGood(actions) } };
  };
  const spec = { ...toySpec() };
  spec.make = () => {
    const actions: string[] = [];
    seen.push(actions);
    return toySpec((action) => act(actions, action)).make();
  };
  return { spec, seen };
}

describe("completions", () => {
  it("each step is played on from, with the actions of the episode before and the policy's own behind", async () => {
    const { spec, seen } = remembering(() => true);
    const episodes = (await play(spec)).filter(({ stopReason }) => stopReason === "completed");
    expect(episodes.length).toBeGreaterThan(0);
    const own = seen.filter((actions) => actions.length === 3).slice(0, episodes.length);
    seen.length = 0;
    const tries = await complete(spec, episodes);
    expect(seen).toHaveLength(episodes.length * 2 * 3);
    const starts = seen.map((actions) => actions.slice(0, 2));
    for (const [first, second] of own) {
      expect(starts.filter(([a]) => a === first).length).toBeGreaterThanOrEqual(6);
      expect(starts.filter(([a, b]) => a === first && b === second).length).toBeGreaterThanOrEqual(3);
    }
    expect(new Set(seen.map((actions) => actions.join("|"))).size).toBeGreaterThan(episodes.length * 2);
    for (const steps of tries) expect(steps.map((step) => step.tries)).toEqual([3, 3, 1]);
  });

  it("succeed where the actions before decide, and never where they have spoilt it", async () => {
    const { spec: free, seen } = remembering(() => true);
    await play(free, 12);
    const [first] = seen.find((actions) => actions.length === 3)!;
    const { spec } = remembering(([a]) => a === first);
    const episodes = (await play(spec, 12)).filter(({ stopReason }) => stopReason === "completed");
    const tries = await complete(spec, episodes, 2);
    const shares = episodes.map(({ info }, i) => [info["success"], ...tries[i]!.map((of) => of.successes / of.tries)]);
    expect(new Set(shares.map(String))).toEqual(new Set(["true,1,1,1", "false,0,0,0"]));
  });

  it("without a score do not count, nor does such an episode", async () => {
    const env = (reward: number): EnvironmentSpec =>
      toySpec((_, turn) => ({ observation: "b", reward, done: turn === 2, info: {} }));
    const episodes = (await play(env(NaN), 12)).filter(({ stopReason }) => stopReason === "completed");
    expect(episodes.length).toBeGreaterThan(0);
    for (const steps of await complete(env(NaN), episodes)) expect(steps.map(({ tries }) => tries)).toEqual([0, 0, 0]);
    const scored = episodes.map((t) => ({ ...t, stepRewards: [1, 1, 1], reward: 3 }));
    for (const steps of await complete(env(1), scored)) expect(steps[2]).toEqual({ successes: 1, tries: 1 });
  });

  it("are those of their seed, whatever else is completed beside them", async () => {
    const spec = toySpec(letters(3));
    const episodes = await play(spec, 6);
    const tries = await complete(spec, episodes, 6);
    expect(await complete(spec, episodes, 6)).toEqual(tries);
    expect((await complete(spec, episodes.slice(0, 2), 6)).slice(0, 2)).toEqual(tries.slice(0, 2));
    expect(await complete(spec, episodes, 6, 6)).not.toEqual(tries);
    const flat = tries.flatMap((steps) => steps.slice(0, -1)).map(({ successes }) => successes);
    expect(flat.some((n) => n > 0 && n < 6)).toBe(true);
  });

  it("after the last step there is nothing to play: its one try is the episode", async () => {
    const spec = toySpec(letters(1));
    const episodes = await play(spec);
    const tries = await complete(spec, episodes);
    const own = episodes.map(({ info }) => [{ successes: Number(info["success"] === true), tries: 1 }]);
    expect(tries).toEqual(own);
    const unscored = [{ reward: NaN }, { masked: true }].map((more) => ({ ...episodes[0]!, ...more }));
    expect(await complete(spec, unscored)).toEqual(unscored.map(() => [{ successes: 0, tries: 0 }]));
    expect(await complete(spec, [])).toEqual([]);
    expect(await complete(spec, [episode([["prompt", [1]]])])).toEqual([[]]);
  });

  it("whose environment failed do not count", async () => {
    const { spec, seen } = remembering(() => true);
    const episodes = (await play(spec)).filter(({ stopReason }) => stopReason === "completed").slice(0, 1);
    let made = 0;
    const failing: EnvironmentSpec = {
      ...spec,
      make: () => {
        const isBroken = made++ % 3 === 0;
        const env = spec.make();
        const actions = seen.at(-1)!;
        return {
          name: env.name,
          reset: (seed) => env.reset(seed),
          step: (action) => (isBroken && actions.length === 2 ? Promise.reject(new Error("no")) : env.step(action)),
        };
      },
    };
    const [tries] = await complete(failing, episodes);
    expect(tries!.map((of) => of.tries)).toEqual([2, 2, 1]);
  });
});

describe("what is refused, in one line", () => {
  /** Decodes tokens as their numbers, so that an error shows all of them. */
  const shown = new Template({ ...toyTokenizer, decode: (ids) => Array.from(ids).join(" ") });
  const failure = async (spec: EnvironmentSpec, one: Trajectory): Promise<string> => {
    const options = { spec, options: {}, samples: 1, rng: new Rng(5), rollout: limits };
    return completeSteps(model, shown, [one], options).then(() => "", String);
  };
  const tokensOf = ({ stream }: Trajectory, turn: number): number[] =>
    stream.ids.filter((_, t) => stream.turns[t] === turn);
  const whole = async (): Promise<Trajectory> =>
    (await play(toySpec(remembered()))).find(({ stopReason }) => stopReason === "completed")!;
  const remembered =
    (other: Partial<StepResult> = {}): Act =>
    (_, turn) => {
      const own = { observation: `b${turn + 1}`, reward: 0.5, done: turn === 2, info: {} };
      return turn === 1 ? { ...own, ...other } : own;
    };

  it.each<[string, Partial<StepResult>, (ids: number[]) => number[]]>([
    ["another answer", { observation: "cc" }, (ids) => [...ids.slice(0, -4), 2, 2, ...ids.slice(-2)]],
    ["another reward", { reward: 0.25 }, (ids) => ids],
    ["an end", { done: true }, (ids) => ids.slice(0, -1)],
  ])("an environment that gives %s", async (_, other, change) => {
    const one = await whole();
    const [ids, { reward = 0.5 }] = [tokensOf(one, 1), other];
    expect(await failure(toySpec(remembered(other)), one)).toBe(
      `WorldgradError: completions: toy does not repeat turn 1 of seed ${one.seed}: ` +
        `expected "${ids.join(" ")}" with reward 0.5, got "${change(ids).join(" ")}" with reward ${reward}; ` +
        "steps are labelled in environments that follow from their seed and the actions",
    );
  });

  it("another task under the same seed", async () => {
    const one = await whole();
    const ids = tokensOf(one, 0);
    const other = toySpec(remembered(), () => "c");
    expect(await failure(other, one)).toContain(
      `turn 0 of seed ${one.seed}: expected "${ids.join(" ")}" with reward 0.5, ` +
        `got "${ids.with(1, 2).join(" ")}" with reward 0.5; steps are labelled`,
    );
  });

  it("an action that was given", async () => {
    const given = episode(
      [
        ["prompt", [1]],
        ["observation", [2]],
        ["action", [3]],
      ],
      { stepRewards: [0, 0] },
    );
    const later = { ...given, stream: { ...given.stream, turns: [0, 0, 1] } };
    await expect(complete(toySpec(), [later])).rejects.toThrow("turn 0 of an episode of toy was given, and not");
  });
});
