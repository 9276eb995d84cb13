/**
 * Rewards for how an agent writes: form, use of tools, repetition. All are small beside the outcome, and each can be gamed alone
 * (an empty episode repeats nothing), so they belong into a capped composite.
 */
import { check } from "../../engine/errors.ts";
import { checkKeys } from "../../engine/options.ts";
import { isAgentToken, type Trajectory } from "../episode/stream.ts";
import type { Turn } from "./turns.ts";

/**
 * Format score in [0, 1]: the share of the actions that are well-formed. 0 for an episode in which the policy never acted, or whose last
 * action never reached the environment, cut off or without a form that could be read: of form it has shown none, and paying for it would
 * pay for not ending an action, as the outcome of a truncated episode does not, either.
 * @param malformed how many of the actions are not; default: those that the environment could not take (`info.toolErrors`)
 */
export function formatScore(
  { stream, stepRewards, info }: Pick<Trajectory, "stream" | "stepRewards" | "info">,
  malformed: number = Number(info["toolErrors"] ?? 0),
): number {
  const last = stream.turns.findLast((_, t) => isAgentToken(stream.roles[t]!));
  const isAnswered = (last ?? Infinity) < stepRewards.length;
  return isAnswered ? 1 - malformed / stepRewards.length : 0;
}

/**
 * 1 if the text begins with one `<think>` and closes it somewhere, else 0 (TRL's `think_format_reward`). What is in between and after
 * does not matter.
 */
export function thinkFormat(text: string): number {
  const opened = text.startsWith("<think>") && !text.includes("<think>", 1);
  return opened && text.includes("</think>") ? 1 : 0;
}

export interface ToolEfficiencyOptions {
  /** Names of the tools that there are. */
  readonly tools: readonly string[];
  /** Cost of a call that repeats the one before it. Default 0.05. */
  readonly duplicate?: number;
  /** Cost of a call to a tool that does not exist. Default 0.3. */
  readonly unknown?: number;
  /** Most that all calls together cost. Default 1. */
  readonly cap?: number;
  /** The tool that an action calls. Default: its first word. */
  readonly toolOf?: (action: string) => string;
}

/**
 * −0.05 for every call equal to the one before it, −0.3 for every unknown tool, at least −cap. Calls are compared without regard to
 * spaces; a repetition with another call in between is none.
 *
 * @returns in [−cap, 0]
 */
export function toolEfficiency(turns: readonly Turn[], options: ToolEfficiencyOptions): number {
  checkKeys("toolEfficiency", options, ["tools", "duplicate", "unknown", "cap", "toolOf"]);
  const { tools, duplicate = 0.05, unknown = 0.3, cap = 1, toolOf = firstWord } = options;
  for (const [name, value] of Object.entries({ duplicate, unknown, cap }))
    check(value >= 0, () => `toolEfficiency: ${name} must be at least 0, got ${value}`);
  const calls = turns.map(({ action }) => action.trim().replace(/\s+/g, " "));
  const duplicates = calls.filter((call, i) => i > 0 && call === calls[i - 1]).length;
  const unknowns = calls.filter((call) => !tools.includes(toolOf(call))).length;
  return 0 - Math.min(cap, duplicate * duplicates + unknown * unknowns);
}

const firstWord = (action: string): string => action.split(" ", 1)[0]!;

export interface RepetitionOptions {
  /** Words of an n-gram. Default 3. */
  readonly n?: number;
  /** Reward of a text that repeats one n-gram for ever; at most 0. Default −1. */
  readonly maxPenalty?: number;
}

/**
 * (1 − distinct n-grams / n-grams)·maxPenalty, over words in lower case (Yeo, Tong, Niu, Neubig and Yue 2025, and TRL). 0 for a
 * text with fewer than n words.
 *
 * @example
 * repetitionPenalty("a a a a", { n: 1 }); // -0.75
 */
export function repetitionPenalty(text: string, options: RepetitionOptions = {}): number {
  checkKeys("repetitionPenalty", options, ["n", "maxPenalty"]);
  const { n = 3, maxPenalty = -1 } = options;
  check(Number.isInteger(n) && n >= 1, () => `repetitionPenalty: n must be an integer of at least 1, got ${n}`);
  check(maxPenalty <= 0, () => `repetitionPenalty: maxPenalty must be at most 0, got ${maxPenalty}`);
  const words = text.toLowerCase().match(/\S+/g) ?? [];
  const total = words.length - n + 1;
  if (total <= 0) return 0;
  const distinct = new Set(Array.from({ length: total }, (_, i) => words.slice(i, i + n).join(" ")));
  return distinct.size === total ? 0 : (1 - distinct.size / total) * maxPenalty;
}
