/** Subgoals of `web`, `screen`, `household`: paid when first reached, or as a potential, and BEACON's milestones. */
import { describe, expect, it } from "vitest";
import type { Environment, EnvironmentSpec } from "../../rl/environment.ts";
import { household } from "../../environments/household/index.ts";
import { screen } from "../../environments/screen/index.ts";
import { web } from "../../environments/web/index.ts";
import { milestone } from "../../methods/advantages/index.ts";
import { episode, type Part } from "../support/rlToy.ts";
import { start } from "./suite.ts";

type Options = { readonly families: readonly string[]; readonly subgoals?: number; readonly shaping?: number };

async function rewardsOf(env: Environment, actions: readonly string[]): Promise<number[]> {
  const rewards: number[] = [];
  for (const action of actions) rewards.push((await env.step(action)).reward);
  return rewards;
}
const played = async (spec: EnvironmentSpec, options: Options, actions: readonly string[]): Promise<number[]> =>
  rewardsOf((await start(spec, 0, options)).env, actions);

/** The expert's rewards. */
async function ofExpert(spec: EnvironmentSpec, options: Options, seed = 0): Promise<number[]> {
  const { env } = await start(spec, seed, options);
  const rewards: number[] = [];
  for (let done = false; !done;) {
    const result = await env.step(spec.expert!(env));
    rewards.push(result.reward);
    done = result.done;
  }
  return rewards;
}

// Press, type and the button: `Set role to rekeru` (environments/screen/index.ts).
const TYPE = ["click 6 2", "type rekeru", "key delete", "type rekeru", "click 7 4"];

describe("a subgoal", () => {
  it("is paid when it is first reached, and not again", async () => {
    const families = ["type"];
    expect(await played(screen, { families, subgoals: 0.25 }, TYPE)).toEqual([0, 0.25, 0, 0, 1]);
    expect(await played(screen, { families }, TYPE)).toEqual([0, 0, 0, 0, 1]);
  });

  it("as a potential is paid while it holds, taken back when it is lost, and at the end", async () => {
    const families = ["type"];
    expect(await played(screen, { families, shaping: 0.25 }, TYPE)).toEqual([0, 0.25, -0.25, 0.25, 0.75]);
    expect(await played(screen, { families, shaping: 0.25, subgoals: 0.5 }, TYPE)).toEqual([
      0, 0.75, -0.25, 0.25, 0.75,
    ]);
  });

  it("that holds before the first action is not paid, and taken back as a potential", async () => {
    // Only lemu and tare are to be ticked, and both are: rubi is to be taken back.
    expect(await played(screen, { families: ["tick"], subgoals: 1 }, ["click 6 1", "click 3 4"])).toEqual([0, 1]);
    const wrong = ["click 6 0", "click 6 0"]; // tare off and on again
    expect(await played(screen, { families: ["tick"], subgoals: 1 }, wrong)).toEqual([0, 0]);
    expect(await played(screen, { families: ["tick"], shaping: 1 }, wrong)).toEqual([-1, 1]);
  });

  it.each([
    ["web", "lookup", 3],
    ["web", "form", 2],
    ["web", "click", 0],
    ["screen", "all", 2],
    ["screen", "press", 0],
    ["household", "place", 1],
    ["household", "heat", 2],
    ["household", "two", 2],
    ["household", "light", 1],
  ] as const)("%s, %s: %i on the expert's way", async (name, family, count) => {
    const spec: EnvironmentSpec = { web, screen, household }[name];
    for (const seed of [1, 2, 3]) {
      const rewards = await ofExpert(spec, { families: [family], subgoals: 0.25 }, seed);
      expect(rewards.reduce((a, b) => a + b, 0)).toBe(1 + 0.25 * count);
      const shaped = await ofExpert(spec, { families: [family], shaping: 0.25 }, seed);
      expect(shaped.reduce((a, b) => a + b, 0)).toBe(1);
    }
  });

  it("is known to a clone as to the episode itself", async () => {
    const { env } = await start(screen, 0, { families: ["type"], subgoals: 0.25, shaping: 0.5 });
    await rewardsOf(env, TYPE.slice(0, 2));
    const copy = env.clone!();
    expect(await rewardsOf(copy, TYPE.slice(2))).toEqual(await rewardsOf(env, TYPE.slice(2)));
  });

  it("is a milestone", async () => {
    const rewards = await played(screen, { families: ["type"], subgoals: 0.5 }, [TYPE[0]!, TYPE[1]!, TYPE[4]!]);
    const row = (stepRewards: readonly number[]): ReturnType<typeof episode> => {
      const parts = stepRewards.flatMap((_, turn): Part[] => [
        ["action", [2]],
        ["observation", [turn]],
      ]);
      return episode([["prompt", [1]], ...parts], { stepRewards, reward: stepRewards.reduce((a, b) => a + b, 0) });
    };
    const found = milestone({ gamma: 0.5 }).estimate([row(rewards), row([0, 0, 0])]).perToken[0]!;
    // Episodes ±.75. First segment: .25, .5 and three steps of the other, mean .15; the second: 1 alone.
    expect([1, 3, 5].map((t) => found[t]!)).toEqual([0.85, 1.1, 0.75].map((x) => expect.closeTo(x, 12) as number));
  });
});
