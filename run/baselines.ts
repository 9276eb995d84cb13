/**
 * Baselines: what RL is compared with, from the same warm start. They are not RL but are run, saved and
 * reported like a method. Those that learn take as many optimiser steps as RL, each on as many episodes as RL plays in
 * a step.
 */
import { UsageError } from "./usage.ts";
import type { Settings } from "./layers.ts";

/** The baselines, with the text for `--list`. */
export const BASELINES = {
  sft: "continues to imitate the demonstrations of the warm start; rl.expertsOnly=true leaves out the novice's",
  expert: "imitates the expert on the tasks that RL trains on, which shows how far a perfect teacher gets",
  random: "learns nothing: the environment's random player plays",
} as const;

export type Baseline = keyof typeof BASELINES;

/** Whether a method is a baseline. */
export function isBaseline(method: string): method is Baseline {
  return Object.hasOwn(BASELINES, method);
}

/** The names of the phase in which a method learns, and of the evaluation after it. */
export function phaseOf(method: string): { readonly during: string; readonly after: string } {
  if (method === "random") return { during: "random play", after: "random play" };
  if (isBaseline(method)) return { during: `imitation: ${method}`, after: "after imitation" };
  return { during: `reinforcement learning: ${method}`, after: "after RL" };
}

/** The parts that baselines have, too. */
const PARTS = ["tokenizer", "model", "sft", "lora", "rollout", "history", "async", "evaluation", "run"];
/** The options of RL that they have, too. Random play ignores them: the arms of a comparison may share them. */
const OF_RL = ["method", "steps", "lr", "warmup", "clipNorm", "weightDecay", "groups", "groupSize"];

/**
 * The settings of a baseline, which has none of RL's parts.
 * @throws UsageError if a person has written an option that is about RL
 */
export function settleBaseline(settings: Settings, method: Baseline): void {
  settings.put("rl.aggregation", "token-mean");
  for (const key of settings.keys()) {
    if (isOfBaseline(key, method) || !settings.isWritten(key)) continue;
    throw new UsageError(`${settings.by(key)} is about RL, which --method ${method} is not`);
  }
}

/** Whether a baseline has this option, `PART.OPTION`. */
export function isOfBaseline(key: string, method: Baseline): boolean {
  const [part, option] = key.split(".") as [string, string];
  const isKnown = PARTS.includes(part) || (part === "rl" && OF_RL.includes(option));
  return isKnown || (method === "sft" && key === "rl.expertsOnly");
}

/** One line for each, for `--list`. */
export function listBaselines(): string {
  const lines = Object.entries(BASELINES).map(([name, about]) => `  ${name.padEnd(24)}${about}`);
  return ["What RL is measured against (--method)", ...lines].join("\n");
}
