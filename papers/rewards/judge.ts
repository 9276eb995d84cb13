/**
 * Judges, which say yes, no or nothing about an answer, and ensembles of judges that vote by majority. A judge may be a
 * model, a person or a program: it is a function that the caller provides.
 */
import { check } from "../../engine/errors.ts";
import { checkKeys } from "../../engine/options.ts";

/** Judges an answer. @returns undefined to abstain. A judge that throws abstains too, unless the signal is aborted */
export type Judge<Question> = (question: Question, signal?: AbortSignal) => Promise<boolean | undefined>;

/** The result of a vote among judges, with the counts of votes; `verdictReward` makes a reward of it. */
export interface Verdict {
  /** The majority of the votes; undefined on a tie or without a quorum. */
  readonly verdict: boolean | undefined;
  readonly yes: number;
  readonly no: number;
  readonly abstained: number;
}

/** Options of `majorityVote`: how many judges have to vote, and a signal that aborts the vote. */
export interface EnsembleOptions {
  /** The number of judges that have to vote for a verdict. Default: more than half of them. */
  readonly quorum?: number;
  readonly signal?: AbortSignal;
}

/** Asks all judges at once. @throws the signal's reason if it is aborted; an error if there are no judges */
export async function majorityVote<Question>(
  judges: readonly Judge<Question>[],
  question: Question,
  options: EnsembleOptions = {},
): Promise<Verdict> {
  checkKeys("majorityVote", options, ["quorum", "signal"]);
  const { quorum = Math.floor(judges.length / 2) + 1, signal } = options;
  check(judges.length > 0, () => "majorityVote: expected at least one judge, got none");
  check(
    Number.isInteger(quorum) && quorum >= 1 && quorum <= judges.length,
    () => `majorityVote: quorum must be an integer in [1, ${judges.length}], the number of judges, got ${quorum}`,
  );
  return tally(await votesOf(judges, question, signal), quorum);
}

/**
 * The vote of each judge; one that throws, or says neither yes nor no, abstains.
 * @throws the signal's reason if it is aborted
 */
async function votesOf<Question>(
  judges: readonly Judge<Question>[],
  question: Question,
  signal: AbortSignal | undefined,
): Promise<(boolean | undefined)[]> {
  const asked = judges.map(async (judge) => judge(question, signal));
  const answers = await Promise.all(asked.map((answer) => answer.catch(() => undefined)));
  signal?.throwIfAborted();
  return answers.map((answer) => (typeof answer === "boolean" ? answer : undefined));
}

/**
 * The reward of an ensemble for `trainRl`: 1 if more than half of the votes say yes, else 0, so that a tie and too few
 * votes are failures. Its parts are the votes, `judge/NAME`, NaN for an abstention. Where no judge says anything the
 * reward itself fails, which masks the episode.
 *
 * @example
 * const reward = judgesReward({ tests: async (t) => succeeded(t), style: askAnotherModel });
 */
export function judgesReward<Question>(
  judges: Readonly<Record<string, Judge<Question>>>,
): (
  question: Question,
  signal: AbortSignal,
) => Promise<{ readonly reward: number; readonly parts: Readonly<Record<string, number>> }> {
  const names = Object.keys(judges);
  check(names.length > 0, () => "judgesReward: expected at least one judge, got none");
  return async (question, signal) => {
    const votes = await votesOf(Object.values(judges), question, signal);
    check(
      votes.some((vote) => vote !== undefined),
      () => `judgesReward: no judge of ${names.join(", ")} said anything`,
    );
    // An abstention is NaN.
    const parts = names.map((name, i) => [`judge/${name}`, Number(votes[i])] as const);
    return { reward: Number(tally(votes).verdict === true), parts: Object.fromEntries(parts) };
  };
}

/**
 * Counts votes; undefined is an abstention.
 * @param quorum how many votes a verdict needs; default: more than half of the list
 */
export function tally(
  votes: readonly (boolean | undefined)[],
  quorum: number = Math.floor(votes.length / 2) + 1,
): Verdict {
  const yes = votes.filter((vote) => vote === true).length;
  const no = votes.filter((vote) => vote === false).length;
  const decided = yes + no >= quorum && yes !== no;
  return { verdict: decided ? yes > no : undefined, yes, no, abstained: votes.length - yes - no };
}

/** The reward of a verdict: 1 for yes, 0 for no, NaN (not scorable) without a verdict. */
export const verdictReward = ({ verdict }: Verdict): number => Number(verdict);

/** Decides which of two answers is better. @returns true if it is the first, undefined to abstain */
export type Comparison<Answer> = (first: Answer, second: Answer, signal?: AbortSignal) => Promise<boolean | undefined>;

/**
 * A judge that compares two answers in both orders, against the position bias of judges (Zheng et al. 2023). It
 * abstains if the two comparisons disagree.
 */
export function bothOrders<Answer>(compare: Comparison<Answer>): Judge<readonly [Answer, Answer]> {
  return async ([a, b], signal) => {
    const [forward, backward] = await Promise.all([compare(a, b, signal), compare(b, a, signal)]);
    return backward === undefined || forward === backward ? undefined : forward;
  };
}
