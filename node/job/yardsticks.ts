/**
 * What RL is measured against, from the same warm start: not RL themselves, but run, saved and reported as a method is. Those that
 * learn take as many optimiser steps as RL does, each on as many episodes as RL plays in a step.
 */
import { UsageError } from "../flags.ts";

export const YARDSTICKS = {
  sft: "imitates the demonstrations of the warm start further; rl.expertsOnly=true leaves the novice's out",
  expert: "imitates the expert on the very tasks that RL trains on: how far a perfect teacher would get",
  random: "learns nothing: the environment's random player",
} as const;

export type Yardstick = keyof typeof YARDSTICKS;

export function isYardstick(method: string): method is Yardstick {
  return Object.hasOwn(YARDSTICKS, method);
}

/** What it is called in which the method learns, and what came after it. */
export function phaseOf(method: string): { readonly during: string; readonly after: string } {
  if (method === "random") return { during: "random play", after: "random play" };
  if (isYardstick(method)) return { during: `imitation: ${method}`, after: "after imitation" };
  return { during: `reinforcement learning: ${method}`, after: "after RL" };
}

/** Options of RL that they have, too; to who learns nothing they mean nothing, and may be what all arms share. */
const OPTIONS = ["lr", "warmup", "clipNorm", "weightDecay", "groups", "groupSize"];

/**
 * @param given flags about methods and about what is played, by name @param rl what `--set rl.…` says
 * @throws UsageError if something is about RL
 */
export function checkYardstick(method: Yardstick, given: Readonly<Record<string, unknown>>, rl: object = {}): void {
  const flag = Object.keys(given).find((name) => given[name] !== undefined && given[name] !== false);
  if (flag !== undefined) throw new UsageError(`--${flag} is about RL, which --method ${method} is not`);
  const own = method === "sft" ? [...OPTIONS, "expertsOnly"] : OPTIONS;
  const foreign = Object.keys(rl).find((option) => !own.includes(option));
  if (foreign !== undefined)
    throw new UsageError(`--set rl.${foreign} is no option of --method ${method}; expected ${own.join(", ")}`);
}

/** One line for each, for `--list`. */
export function listYardsticks(): string {
  const lines = Object.entries(YARDSTICKS).map(([name, about]) => `  ${name.padEnd(24)}${about}`);
  return ["What RL is measured against (--method)", ...lines].join("\n");
}
