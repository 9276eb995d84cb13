/**
 * Rewards for how an agent writes: form, use of tools, repetition. They should be small compared with the outcome, and
 * each can be gamed alone (an empty episode repeats nothing), so they belong in a composite with a cap.
 */
import { inCode, number, options, type OptionsOf, REQUIRED } from "../../engine/optionTable.ts";
import { isAgentToken, type Trajectory } from "../../rl/episode/stream.ts";
import type { Turn } from "../../rl/episode/turns.ts";

/**
 * Format score in [0, 1]: the share of the actions that are well-formed. It is 0 for an episode in which the policy
 * never acted, or whose last action never reached the environment because it was cut off or could not be parsed.
 * Otherwise the score would reward an action that never ends; the outcome of a truncated episode is 0 for the same
 * reason.
 * @param malformed the number of malformed actions; default: those that the environment rejected (`info.toolErrors`)
 */
export function formatScore(
  { stream, stepRewards, info }: Pick<Trajectory, "stream" | "stepRewards" | "info">,
  malformed: number = Number(info["toolErrors"] ?? 0),
): number {
  const isAnswered = (lastTurn(stream) ?? Infinity) < stepRewards.length;
  return isAnswered ? 1 - malformed / stepRewards.length : 0;
}

/**
 * The number of malformed actions: those that the environment rejected, and one that never reached it because it was
 * cut off or could not be parsed. RAGEN (arXiv 2504.20073) takes 0.1 off for each.
 */
export function malformedActions({
  stream,
  stepRewards,
  info,
}: Pick<Trajectory, "stream" | "stepRewards" | "info">): number {
  const isCut = (lastTurn(stream) ?? -Infinity) >= stepRewards.length;
  return Number(info["toolErrors"] ?? 0) + Number(isCut);
}

/** The last turn in which the agent wrote something. */
const lastTurn = ({ turns, roles }: Trajectory["stream"]): number | undefined =>
  turns.findLast((_, t) => isAgentToken(roles[t]!));

/**
 * 1 if the text begins with its only `<think>` and has a `</think>` somewhere, else 0 (TRL's `think_format_reward`).
 * The text between and after the tags does not matter.
 */
export function thinkFormat(text: string): number {
  const opened = text.startsWith("<think>") && !text.includes("<think>", 1);
  return opened && text.includes("</think>") ? 1 : 0;
}

export const TOOL_EFFICIENCY = options("toolEfficiency", {
  tools: inCode<readonly string[]>("the names of the existing tools", "a list of names", Array.isArray, REQUIRED),
  duplicate: number(0.05, "cost of a call that repeats the one before it", { min: 0 }),
  unknown: number(0.3, "cost of a call to a tool that does not exist", { min: 0 }),
  cap: number(1, "largest cost of all calls together", { min: 0 }),
  toolOf: inCode<(action: string) => string>(
    "the tool that an action calls; by default its first word",
    "a function of the action",
    (value) => typeof value === "function",
  ),
});
/**
 * Options of `toolEfficiency`: the names of the `tools` have to be given; by default a repeated call costs 0.05, an
 * unknown tool 0.3, all calls together 1 at most, and an action calls the tool that its first word names.
 */
export type ToolEfficiencyOptions = OptionsOf<typeof TOOL_EFFICIENCY>;

/**
 * −0.05 for every call that equals the one before it and −0.3 for every unknown tool, but never less than −cap. The
 * comparison ignores the amount of white space. A call that repeats an earlier one with another call in between costs
 * nothing.
 *
 * @returns in [−cap, 0]
 */
export function toolEfficiency(turns: readonly Turn[], given: ToolEfficiencyOptions): number {
  const { tools, duplicate, unknown, cap, toolOf = firstWord } = TOOL_EFFICIENCY.read(given);
  const calls = turns.map(({ action }) => action.trim().replace(/\s+/g, " "));
  const duplicates = calls.filter((call, i) => call === calls[i - 1]).length;
  const unknowns = calls.filter((call) => !tools.includes(toolOf(call))).length;
  return 0 - Math.min(cap, duplicate * duplicates + unknown * unknowns);
}

const firstWord = (action: string): string => action.split(" ", 1)[0]!;

export const REPETITION = options("repetitionPenalty", {
  n: number(3, "number of words in an n-gram", { integer: true, min: 1 }),
  maxPenalty: number(-1, "reward of a text that repeats one n-gram forever", { max: 0 }),
});
/**
 * Options of `repetitionPenalty`: n-grams of `n` words (default 3), and the lowest reward (`maxPenalty` ≤ 0, default
 * −1).
 */
export type RepetitionOptions = OptionsOf<typeof REPETITION>;

/**
 * (1 − distinct n-grams / n-grams)·maxPenalty, over words in lower case (Yeo, Tong, Niu, Neubig and Yue 2025, and TRL).
 * 0 for a text with fewer than n words.
 *
 * @example
 * repetitionPenalty("a a a a", { n: 1 }); // -0.75
 */
export function repetitionPenalty(text: string, given?: RepetitionOptions): number {
  const { n, maxPenalty } = REPETITION.read(given);
  const words = text.toLowerCase().match(/\S+/g) ?? [];
  const total = Math.max(0, words.length - n + 1);
  const distinct = new Set(Array.from({ length: total }, (_, i) => words.slice(i, i + n).join(" ")));
  return distinct.size === total ? 0 : (1 - distinct.size / total) * maxPenalty;
}
