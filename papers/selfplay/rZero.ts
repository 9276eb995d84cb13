/**
 * R-Zero (Huang et al. 2025, arXiv 2508.05004), without any judge: a challenger learns to ask questions at which the
 * solver is uncertain, then the solver learns from its own majority. Questions are deductions: a program and an input.
 * The machine checks that a question is valid, but nobody is told the output.
 *
 * - For `challengerSteps` steps every question is answered `answers` times, and the challenger learns from its reward
 *   (rewards.ts); the answers are not learnt from. Questions whose most frequent answer has a share from 0.3 to 0.8 are
 *   kept, with that answer as their label.
 * - For the next `solverSteps` steps the kept questions are answered `groupSize` times each. An answer gets 0.9 if it
 *   equals the label and 0.1 if it has the right form. The questions stay for the next round until newer ones replace
 *   them.
 *
 * Differs from the paper: one model has both roles in turn, where the paper has two copies; questions are kept while
 * the challenger learns, where the paper asks for new ones after it has learnt.
 */
import { mean } from "../../rl/episode/groups.ts";
import type { Metrics } from "../../rl/episode/metrics.ts";
import { succeeded } from "../../rl/episode/outcomes.ts";
import type { Trajectory } from "../../rl/episode/stream.ts";
import { show, type Riddle } from "../../environments/riddle/selfPlay.ts";
import type { EpisodeSource } from "../../rl/train/episodes.ts";
import type { KeptRiddle, SelfPlayBuffer, SettledSelfPlay } from "./options.ts";
import { challengerReward, repetition } from "./rewards.ts";
import { controlReward, drawKept, generated, isAnswered, paid, propose, solve, type SelfPlayed } from "./rounds.ts";

/** Bounds of the share of the most frequent answer for a question that is kept, and the reward of a malformed one. */
const QUESTION = { least: 0.3, most: 0.8, malformed: -1 };

/** The source of episodes for steps of R-Zero. */
export function rZero(options: SelfPlayed, settled: SettledSelfPlay, buffer: SelfPlayBuffer): EpisodeSource {
  const { challengerSteps, solverSteps } = settled;
  return {
    play: (step) =>
      step % (challengerSteps + solverSteps) < challengerSteps
        ? challenge(options, settled, buffer, step)
        : answer(options, buffer, step),
  };
}

/** The most frequent answer (on a tie the first), and its share of the attempts. */
export function majority(answers: readonly (string | undefined)[]): {
  readonly label?: string;
  readonly share: number;
} {
  const counts = new Map<string, number>();
  for (const one of answers) if (one !== undefined) counts.set(one, (counts.get(one) ?? 0) + 1);
  const most = Math.max(0, ...counts.values());
  const label = [...counts].find(([, count]) => count === most)?.[0];
  return { ...(label === undefined ? {} : { label }), share: answers.length === 0 ? 0 : most / answers.length };
}

const answerOf = (t: Trajectory): string | undefined => (isAnswered(t) ? String(t.info["answer"]) : undefined);

const questionOf = ({ program, inputs }: Riddle): string => `${program} for ${show(inputs[0]!)}`;
/** Puts spaces between the tokens of a program, so that BLEU has words to compare. */
const inWords = (question: string): string => question.replace(/([a-z]+|\d+|[^\sa-z\d])/g, " $1 ").trim();

/** A step in which the challenger learns. */
async function challenge(
  options: SelfPlayed,
  { answers, reward, proposer }: SettledSelfPlay,
  buffer: SelfPlayBuffer,
  step: number,
): ReturnType<EpisodeSource["play"]> {
  const { groups, groupSize, rollout: sampling } = options;
  const isStopped = (): boolean => sampling.signal?.aborted ?? false;
  const rng = options.rng.split(step);
  const kinds = Array.from({ length: groups * groupSize }, () => "deduction" as const);
  const proposals = proposer === "model" ? await propose(options, kinds, buffer, rng, step) : [];
  if (isStopped()) return null;
  const asked = proposer === "model" ? proposals.map(({ riddle }) => riddle) : generated(kinds, rng);
  const riddles = asked.filter((riddle) => riddle !== undefined);
  const attempts = riddles.length === 0 ? [] : await solve(options, riddles, answers, rng, { version: step, first: 0 });
  if (isStopped()) return null;
  const votes = attempts.map((members) => majority(members.map(answerOf)));
  const repeated = repetition(riddles.map((riddle) => inWords(questionOf(riddle))));
  const chance = rng.split("chance");
  const worth = new Map(
    riddles.map((riddle, i) => {
      const learnt = challengerReward(votes[i]!.share, repeated[i]!);
      return [riddle, controlReward(reward, learnt, chance.split(i))];
    }),
  );
  // All questions of a step are asked for alike, so they are one group.
  const trajectories = proposals.map(({ episode, riddle, isWellFormed }) =>
    paid({ ...episode, group: 0 }, riddle ? worth.get(riddle)! : isWellFormed ? 0 : QUESTION.malformed),
  );
  const isFit = (i: number): boolean => votes[i]!.share >= QUESTION.least && votes[i]!.share <= QUESTION.most;
  const kept = riddles.flatMap((riddle, i): KeptRiddle[] => (isFit(i) ? [{ riddle, label: votes[i]!.label! }] : []));
  buffer.add(kept);
  const right = votes.map(({ label }, i) => Number(label === show(riddles[i]!.outputs[0]!)));
  const metrics: Metrics = {
    ...(proposals.length === 0 ? {} : { "self_play/valid": mean(proposals.map(({ riddle }) => Number(!!riddle))) }),
    ...(riddles.length === 0
      ? {}
      : {
          "self_play/majority": mean(votes.map(({ share }) => share)),
          "self_play/repetition": mean(repeated),
          // This metric measures the labels; training does not use it.
          "self_play/label_accuracy": mean(right),
        }),
    "self_play/learnable": kept.length / kinds.length,
    "self_play/kept": buffer.size,
  };
  // If the generator proposes, there is no challenger: the attempts are reported, and nothing is learnt from them.
  const shown = proposals.length > 0 ? trajectories : attempts.flat().map((t) => ({ ...t, masked: true }));
  return { trajectories: shown, metrics };
}

/** A step in which the solver learns. */
async function answer(options: SelfPlayed, buffer: SelfPlayBuffer, step: number): ReturnType<EpisodeSource["play"]> {
  const { groups, groupSize, rollout: sampling } = options;
  const rng = options.rng.split(step);
  const draws = Array.from({ length: groups }, (_, i) => drawKept(buffer, "deduction", rng.split("kept").split(i)));
  const riddles = draws.map(({ riddle }) => riddle);
  const attempts = await solve(options, riddles, groupSize, rng, { version: step, first: 0 });
  if (sampling.signal?.aborted) return null;
  const trajectories = attempts.flatMap((members, i) =>
    members.map((t) => {
      const said = answerOf(t);
      const { label = show(riddles[i]!.outputs[0]!) } = draws[i]!; // the identity's label is its own output
      return paid(t, 0.9 * Number(said === label) + 0.1 * Number(said !== undefined));
    }),
  );
  const successes = attempts.flat().map((t) => Number(succeeded(t)));
  return { trajectories, metrics: { "self_play/success/deduction": mean(successes), "self_play/kept": buffer.size } };
}
