/**
 * Absolute Zero (Zhao et al. 2025, arXiv 2505.03335): one model proposes tasks and solves them, with a machine as the
 * only judge. In a step each of the three kinds gets its share of the tasks:
 *
 *     propose → check → solve, several times each → rewards of both roles → one update with all episodes
 *
 * The reward of a proposal is how much can be learnt from it (rewards.ts), that of a solution whether it is right. The
 * advantage `trr++` has a baseline for each of the six kinds of episodes: three kinds of tasks times two roles. If a
 * proposal makes no task, an earlier task of its kind takes its place.
 *
 * Differs from the paper: the solver also learns from the attempts that measure a proposal, which halves the episodes
 * of a step (in the paper eight attempts measure, and a further one is learnt from); an induction has four inputs
 * instead of ten; the buffer begins with only the identity; and the model learns the form of proposals in a warm start,
 * where the paper describes it to a large model in words.
 */
import { mean } from "../../rl/episode/groups.ts";
import type { Metrics } from "../../rl/episode/metrics.ts";
import { succeeded, successRate } from "../../rl/episode/outcomes.ts";
import type { Trajectory } from "../../rl/episode/stream.ts";
import type { EpisodeSource } from "../../rl/train/episodes.ts";
import type { SelfPlayBuffer, SettledSelfPlay } from "./options.ts";
import { composite, learnability } from "./rewards.ts";
import {
  controlReward,
  drawKept,
  generated,
  isAnswered,
  paid,
  propose,
  type Proposal,
  solve,
  type SelfPlayed,
} from "./rounds.ts";

const KINDS = ["deduction", "abduction", "induction"] as const;

/** The source of episodes for steps of Absolute Zero. */
export function absoluteZero(
  options: SelfPlayed,
  { proposer, reward }: SettledSelfPlay,
  buffer: SelfPlayBuffer,
): EpisodeSource {
  const { groups, groupSize, rollout: sampling } = options;
  const kinds = Array.from({ length: groups }, (_, i) => KINDS[i % KINDS.length]!);
  const isStopped = (): boolean => sampling.signal?.aborted ?? false;
  return {
    async play(step) {
      const rng = options.rng.split(step);
      const proposals = proposer === "model" ? await propose(options, kinds, buffer, rng, step) : [];
      if (isStopped()) return null;
      const drawn = proposer === "model" ? [] : generated(kinds, rng);
      const tasks = kinds.map((kind, i) => {
        const proposed = proposals[i]?.riddle ?? drawn[i];
        return proposed ?? drawKept(buffer, kind, rng.split("earlier").split(i)).riddle;
      });
      const attempts = await solve(options, tasks, groupSize, rng, { version: step, first: groups });
      if (isStopped()) return null;
      const rates = attempts.map((members) => successRate(members) ?? 0);
      const chance = rng.split("chance");
      const proposed = proposals.map(({ episode, riddle, isWellFormed }, i): Trajectory => {
        const worth = riddle ? controlReward(reward, learnability(rates[i]!), chance.split(i)) : 0;
        return paid(episode, composite(isWellFormed, worth));
      });
      const solved = attempts.flat().map((t) => paid(t, composite(isAnswered(t), Number(succeeded(t)))));
      buffer.add(proposals.flatMap(({ riddle }) => (riddle ? [{ riddle }] : [])));
      return { trajectories: [...proposed, ...solved], metrics: metricsOf(proposals, rates, kinds, buffer) };
    },
  };
}

/** Metrics: shares of the proposals, and the solver's success by kind. */
function metricsOf(
  proposals: readonly Proposal[],
  rates: readonly number[],
  kinds: readonly string[],
  buffer: SelfPlayBuffer,
): Metrics {
  const share = (holds: (proposal: Proposal, i: number) => boolean): number =>
    mean(proposals.map((proposal, i) => Number(holds(proposal, i))));
  return {
    ...(proposals.length === 0
      ? {}
      : {
          "self_play/valid": share(({ riddle }) => riddle !== undefined),
          "self_play/malformed": share(({ isWellFormed }) => !isWellFormed),
          "self_play/learnable": share(({ riddle }, i) => riddle !== undefined && learnability(rates[i]!) > 0),
          "self_play/kept": buffer.size,
        }),
    ...Object.fromEntries(
      KINDS.map((kind) => [`self_play/success/${kind}`, mean(rates.filter((_, i) => kinds[i] === kind))]),
    ),
  };
}
