/**
 * Yardsticks: what RL is compared with, from the same warm start. They are not RL but are run, saved and reported like
 * a method. Those that learn take as many optimiser steps as RL, each on as many episodes as RL plays in a step.
 */
import { UsageError } from "./usage.ts";
import type { LoopNumbers } from "./parts.ts";

/** The yardsticks, with the text for `--list`. */
export const YARDSTICKS = {
  sft: "continues to imitate the demonstrations of the warm start; rl.expertsOnly=true leaves out the novice's",
  expert: "imitates the expert on the tasks that RL trains on, which shows how far a perfect teacher gets",
  random: "learns nothing: the environment's random player plays",
} as const;

export type Yardstick = keyof typeof YARDSTICKS;

/** Whether a method is a yardstick. */
export function isYardstick(method: string): method is Yardstick {
  return Object.hasOwn(YARDSTICKS, method);
}

/** The names of the phase in which a method learns, and of the evaluation after it. */
export function phaseOf(method: string): { readonly during: string; readonly after: string } {
  if (method === "random") return { during: "random play", after: "random play" };
  if (isYardstick(method)) return { during: `imitation: ${method}`, after: "after imitation" };
  return { during: `reinforcement learning: ${method}`, after: "after RL" };
}

/**
 * Options of RL that yardsticks have too. Random play accepts them without effect, because the arms of a comparison may
 * share them.
 */
const OPTIONS: readonly (keyof LoopNumbers)[] = ["lr", "warmup", "clipNorm", "weightDecay", "groups", "groupSize"];

/**
 * Throws a UsageError if an option is about RL and not about yardsticks.
 * @param given flags about methods and data, by name
 * @param rl the options of `--set rl.…`
 */
export function checkYardstick(method: Yardstick, given: Readonly<Record<string, unknown>>, rl: object = {}): void {
  const flag = Object.keys(given).find((name) => given[name] !== undefined && given[name] !== false);
  if (flag !== undefined) throw new UsageError(`--${flag} is about RL, which --method ${method} is not`);
  const own: readonly string[] = method === "sft" ? [...OPTIONS, "expertsOnly"] : OPTIONS;
  const foreign = Object.keys(rl).find((option) => !own.includes(option));
  if (foreign !== undefined)
    throw new UsageError(`--set rl.${foreign} is no option of --method ${method}; expected ${own.join(", ")}`);
}

/** One line for each, for `--list`. */
export function listYardsticks(): string {
  const lines = Object.entries(YARDSTICKS).map(([name, about]) => `  ${name.padEnd(24)}${about}`);
  return ["What RL is measured against (--method)", ...lines].join("\n");
}
