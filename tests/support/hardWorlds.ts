/**
 * Worlds in which methods and metrics go wrong that are right where an episode earns 0 or 1 at its end.
 * tests/methods/hardWorlds.test.ts plays every method in every one of them. They are toy worlds (rlToy.ts): what a
 * world is about is in its comment, and all else is as small as it can be.
 */
import type { EnvironmentSpec, StepResult } from "../../rl/environment.ts";
import { type Act, letters, toySpec } from "./rlToy.ts";

/** What a turn of the world `costs` costs, and how many turns its episodes have, whatever is done in them. */
export const COSTS = { turn: -0.2, turns: 3 } as const;

/**
 * Every turn costs, and nothing else is paid: all finished episodes have the return −0.6. Whoever leaves an episode
 * before its end has paid less, so a return of 0 for a truncated one, or of what it has paid so far, is the best return
 * there is (tinker-cookbook#506, Tencent-Hunyuan/UniRL#19).
 */
const costs: Act = (_action, turn) => ({
  observation: "b",
  reward: COSTS.turn,
  done: turn + 1 === COSTS.turns,
  info: { success: false },
});

/**
 * Nothing is said of success, and rewards are graded: 0, ½ or 1 at the end of two turns. An episode that earned
 * anything counts as solved, everywhere; otherwise a world like it would have 0 % in every table.
 */
const silent: Act = (action, turn) => ({
  observation: "b",
  reward: turn === 1 ? Math.min(1, (action.match(/[a-c]/g) ?? []).length / 2) : 0,
  done: turn === 1,
  info: {},
});

/**
 * Every other episode cannot be scored: its reward is NaN (TRL#5902, ms-swift#8123). What is taken of such an episode,
 * a mean or a deviation, is NaN as well.
 */
const unscored = (): EnvironmentSpec => {
  let episodes = 0;
  return toySpec((action, turn) => {
    const result = letters(2)(action, turn) as StepResult;
    return result.done && episodes++ % 2 === 1 ? { ...result, reward: NaN } : result;
  });
};

/** `reset` ignores its seed, so that the members of a group have different tasks (TRL#6420, rllm#924). */
const unseeded = (): EnvironmentSpec => {
  let resets = 0;
  return toySpec(letters(2), () => "abc"[resets++ % 3]!);
};

/** By name. */
export const HARD_WORLDS = {
  costs: toySpec(costs),
  silent: toySpec(silent),
  unscored: unscored(),
  unseeded: unseeded(),
} as const satisfies Readonly<Record<string, EnvironmentSpec>>;
