/**
 * Worlds in which methods and metrics go wrong that are right where an episode earns 0 or 1 at its end.
 * tests/rl/hardWorlds.test.ts plays every method in every one of them. They are toy worlds (rlToy.ts): what a world is
 * about is in its comment, and all else is as small as it can be.
 */
import type { EnvironmentSpec } from "../../environments/environment.ts";
import { type Act, toySpec } from "./rlToy.ts";

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

/** By name. */
export const HARD_WORLDS = {
  costs: toySpec(costs),
} as const satisfies Readonly<Record<string, EnvironmentSpec>>;
