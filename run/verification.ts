/**
 * Math-Shepherd's verification (Wang et al. 2023, arXiv 2312.08935): a trained model chooses one of several tries of a
 * task, before it is known which succeeded.
 */
import { succeeded } from "../rl/episode/outcomes.ts";
import type { Trajectory } from "../rl/episode/stream.ts";
import { wasScored } from "../rl/evaluate.ts";
import type { Template } from "../rl/episode/template.ts";
import { solutionScore, weightedVote } from "../papers/rewards/process.ts";
import { turnsOf } from "../rl/episode/turns.ts";
import type { Reader } from "../methods/reader.ts";
import { outcomeValues, stepValues } from "./judgements.ts";

/** The score of each episode: the lowest value of its steps, or an outcome model's value of the whole. */
export const solutionScores = async (
  name: "orm" | "prm",
  reader: Reader,
  episodes: readonly Trajectory[],
  padId: number,
): Promise<readonly number[]> =>
  name === "orm"
    ? outcomeValues(reader, episodes, padId)
    : (await stepValues(reader, episodes, padId)).map(solutionScore);

/**
 * The shares of tasks that are solved by the try of the highest score (`best`), by the vote over answers weighted by
 * scores (`vote`), and by the majority without a model (`majority`). A try's answer is its last action; among the tries
 * with the winning answer the one with the highest score counts, among equals the first. Tries that could not be played
 * or scored are not chosen, and tasks without any other do not count.
 * @param episodes all tasks, `tries` times in a row
 * @param scores one for each episode
 */
export function chosenTries(
  episodes: readonly Trajectory[],
  scores: readonly number[],
  template: Template,
  tasks: number,
): Readonly<Record<"best" | "vote" | "majority", number>> {
  const answers = episodes.map((episode) => turnsOf(episode, template).at(-1)?.action ?? "");
  const solved = { best: 0, vote: 0, majority: 0 };
  let count = 0;
  for (const task of Array.from({ length: tasks }).keys()) {
    const tries = episodes.flatMap((_, i) => (i % tasks === task && wasScored(episodes[i]!) ? [i] : []));
    if (tries.length === 0) continue;
    count++;
    const ofTries = <T>(column: readonly T[]): T[] => tries.map((i) => column[i]!);
    const highest = (of: readonly number[], weights: readonly number[]): number =>
      of.reduce((a, b) => (weights[b]! > weights[a]! ? b : a));
    const voted = (weights: readonly number[]): number => {
      const winner = weightedVote(ofTries(answers), ofTries(weights));
      return highest(
        tries.filter((i) => answers[i] === winner),
        weights,
      );
    };
    solved.best += Number(succeeded(episodes[highest(tries, scores)]!));
    solved.vote += Number(succeeded(episodes[voted(scores)]!));
    solved.majority += Number(succeeded(episodes[voted(scores.map(() => 1))]!));
  }
  return { best: solved.best / count, vote: solved.vote / count, majority: solved.majority / count };
}

/** The success on tasks if a trained model chooses among their tries: `chosenTries` by `solutionScores`. */
export async function verify(
  name: "orm" | "prm",
  reader: Reader,
  template: Template,
  episodes: readonly Trajectory[],
  tasks: number,
): Promise<ReturnType<typeof chosenTries>> {
  return chosenTries(episodes, await solutionScores(name, reader, episodes, template.padId), template, tasks);
}
