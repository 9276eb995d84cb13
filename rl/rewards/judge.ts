/**
 * Judges: whatever says yes, no, or nothing about an answer (a model, a person, a program), and ensembles of them by majority vote.
 * No model is called here; a judge is a function that the caller brings.
 */
import { check } from "../../engine/errors.ts";
import { checkKeys } from "../../engine/options.ts";

/** @returns undefined to abstain. A judge that throws has abstained, unless the signal is aborted. */
export type Judge<Question> = (question: Question, signal?: AbortSignal) => Promise<boolean | undefined>;

export interface Verdict {
  /** What more than half of the votes say; undefined on a tie, or if too few voted. */
  readonly verdict: boolean | undefined;
  readonly yes: number;
  readonly no: number;
  readonly abstained: number;
}

export interface EnsembleOptions {
  /** Votes that it takes for a verdict. Default: more than half of the judges. */
  readonly quorum?: number;
  readonly signal?: AbortSignal;
}

/** Asks all judges at once. @throws what the signal says if it is aborted; on an empty ensemble */
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
  const settled = await Promise.allSettled(judges.map(async (judge) => judge(question, signal)));
  signal?.throwIfAborted();
  const votes = settled.map((result) => (result.status === "fulfilled" ? result.value : undefined));
  return tally(votes, quorum);
}

/** What votes come to; undefined abstains. @param quorum votes that it takes for a verdict; default: more than half of them all */
export function tally(
  votes: readonly (boolean | undefined)[],
  quorum: number = Math.floor(votes.length / 2) + 1,
): Verdict {
  const yes = votes.filter((vote) => vote === true).length;
  const no = votes.filter((vote) => vote === false).length;
  const decided = yes + no >= quorum && yes !== no;
  return { verdict: decided ? yes > no : undefined, yes, no, abstained: votes.length - yes - no };
}

/** 1 for yes, 0 for no, NaN (not scorable) without a verdict. */
export const verdictReward = ({ verdict }: Verdict): number => (verdict === undefined ? NaN : Number(verdict));

/** Which of two answers is better? @returns true for the first, undefined to abstain */
export type Comparison<Answer> = (first: Answer, second: Answer, signal?: AbortSignal) => Promise<boolean | undefined>;

/**
 * A comparison asked in both orders, against the bias of judges for a position (Zheng et al. 2023): it abstains if the answer
 * depends on the order.
 */
export function bothOrders<Answer>(compare: Comparison<Answer>): Judge<readonly [Answer, Answer]> {
  return async ([a, b], signal) => {
    const [forward, backward] = await Promise.all([compare(a, b, signal), compare(b, a, signal)]);
    return forward === undefined || backward === undefined || forward === backward ? undefined : forward;
  };
}
