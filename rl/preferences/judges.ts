/**
 * Judges of whole episodes, and what an ensemble of them makes of a group: scores that can be compared within it. A judge sees all
 * episodes of a call at once, so that one that is a model reads them in a few passes.
 */
import { check } from "../../engine/errors.ts";
import { checkKeys } from "../../engine/options.ts";
import type { Model } from "../../nn/index.ts";
import { rowOf } from "../methods/columns.ts";
import { observationTokens } from "../methods/world/echo.ts";
import { score } from "../train/score.ts";
import type { Metrics } from "../episode/metrics.ts";
import { type Judge, tally } from "../rewards/judge.ts";
import { append, type TokenStream, type Trajectory } from "../episode/stream.ts";
import type { Template } from "../episode/template.ts";

/** Whom a judge may ask: the policy that played the episodes. */
export interface JudgeContext {
  readonly model: Model;
  readonly template: Template;
  readonly signal?: AbortSignal | undefined;
}

export interface EpisodeJudge {
  readonly name: string;
  /** @returns for each episode a score, the higher the better, on any scale; NaN to abstain. A judge that throws has abstained. */
  score(episodes: readonly Trajectory[], context: JudgeContext): Promise<readonly number[]>;
}

/** The environment's own verdict, or any other function of an episode. */
export const verifierJudge = (
  name = "verifier",
  scoreOf: (episode: Trajectory) => number = ({ reward }) => reward,
): EpisodeJudge => ({ name, score: async (episodes) => episodes.map(scoreOf) });

/** A judge that says yes, no or nothing, asked about each episode by itself: 1, 0, NaN. */
export const votingJudge = (name: string, judge: Judge<Trajectory>): EpisodeJudge => ({
  name,
  async score(episodes, { signal }) {
    const votes = await Promise.allSettled(episodes.map(async (episode) => judge(episode, signal)));
    signal?.throwIfAborted();
    return votes.map((vote) => (vote.status === "rejected" || vote.value === undefined ? NaN : Number(vote.value)));
  },
});

export interface ApprovalOptions {
  /** Stands behind the episode; default "good? ". */
  readonly question?: string;
  /** Default "yes" and "no". */
  readonly approve?: string;
  readonly reject?: string;
  /** Who is asked; default: the policy that played. */
  readonly model?: Model;
  readonly name?: string;
}

/**
 * The policy as judge (Yuan et al. 2024, arXiv 2401.10020), in the only form that a small model can take: the probability that it
 * gives to an approving answer, p(approve) / (p(approve) + p(reject)), in the place of a written score. It abstains on episodes
 * that leave no room for the question.
 */
export function approvalJudge(options: ApprovalOptions = {}): EpisodeJudge {
  checkKeys("approvalJudge", options, ["question", "approve", "reject", "model", "name"]);
  const { question = "good? ", approve = "yes", reject = "no", name = "approval" } = options;
  check(approve !== "" && reject !== "" && approve !== reject, () => `approvalJudge: approve and reject must be two different texts, got "${approve}" and "${reject}"`); // prettier-ignore
  return {
    name,
    async score(episodes, context) {
      const { template } = context;
      const model = options.model ?? context.model;
      const asked = template.tokenizer.encode(question);
      const answers = [approve, reject].map((text) => template.tokenizer.encode(text));
      const room = model.config.maxPositions - asked.length - Math.max(...answers.map(({ length }) => length));
      const fitting = episodes.flatMap((episode, i) => (episode.stream.ids.length <= room ? [i] : []));
      const begins = new Map<TokenStream, number>();
      const rows = fitting.flatMap((i) =>
        answers.map((answer): Trajectory => {
          const stream = structuredClone(episodes[i]!.stream);
          append(stream, "scaffold", 0, asked);
          begins.set(stream, stream.ids.length);
          append(stream, "scaffold", 0, answer);
          return { ...episodes[i]!, stream, masked: false };
        }),
      );
      const scores = episodes.map(() => NaN);
      if (rows.length === 0) return scores;
      const sums = await sumsOf(model, template, rows, ({ stream }, t) => t >= begins.get(stream)!);
      fitting.forEach((i, k) => (scores[i] = 1 / (1 + Math.exp(sums[2 * k + 1]!.sum - sums[2 * k]!.sum))));
      return scores;
    },
  };
}

/**
 * The policy's world model as judge: the mean log-probability of what the environment answered. It prefers episodes in which the
 * world did what the policy expects, which is familiarity and no merit: an ensemble's spice, never its only member.
 */
export function worldModelJudge(name = "world-model"): EpisodeJudge {
  return {
    name,
    async score(episodes, { model, template }) {
      const targets = new Map(episodes.map((episode) => [episode.stream, observationTokens(episode).targets]));
      const sums = await sumsOf(model, template, episodes, ({ stream }, t) => targets.get(stream)![t]!);
      return sums.map(({ sum, count }) => (count === 0 ? NaN : sum / count));
    },
  };
}

/** Sum of the log-probabilities of the chosen tokens in each episode. */
async function sumsOf(
  model: Model,
  { padId }: Template,
  rows: readonly Trajectory[],
  chosen: (row: Trajectory, t: number) => boolean,
): Promise<{ sum: number; count: number }[]> {
  const { logProbs } = await score(
    model,
    rows.map((row) => rowOf(row)),
    { padId, scored: ({ trajectory }, t) => chosen(trajectory, t) },
  );
  return rows.map((row, i) => {
    const own = [...logProbs[i]!].filter((_, t) => t > 0 && chosen(row, t));
    return { sum: own.reduce((a, b) => a + b, 0), count: own.length };
  });
}

/**
 * `mean` of the scores, for judges on one scale; `majority`: for every two episodes of a group each judge says which is better, the
 * majority decides, and an episode's score is the share of the others that it beats minus that of those that beat it (Copeland).
 */
export const ENSEMBLES = ["majority", "mean"] as const;
export type Ensemble = (typeof ENSEMBLES)[number];

/** What the judges said of some episodes. */
export interface Judgement {
  /** Of the ensemble, to be compared within a group; NaN if too few judges had an opinion. */
  readonly scores: readonly number[];
  /** Of each judge, in their order. */
  readonly byJudge: readonly (readonly number[])[];
  /** Judges that threw. */
  readonly failed: number;
}

export interface EnsembleChoice {
  /** Default `majority`, which needs no common scale. */
  readonly ensemble?: Ensemble;
  /** Judges that must have an opinion; default: more than half. */
  readonly quorum?: number;
}

/** Asks all judges. Masked episodes have no score. @throws what the signal says if it is aborted */
export async function judgeEpisodes(
  judges: readonly EpisodeJudge[],
  episodes: readonly Trajectory[],
  context: JudgeContext,
  { ensemble = "majority", quorum = Math.floor(judges.length / 2) + 1 }: EnsembleChoice = {},
): Promise<Judgement> {
  const { length } = episodes;
  const settled = await Promise.allSettled(judges.map(async (judge) => judge.score(episodes, context)));
  context.signal?.throwIfAborted();
  const opinions = settled.map((result) => (result.status === "fulfilled" && result.value.length === length ? result.value : undefined)); // prettier-ignore
  const byJudge = opinions.map((scores) => episodes.map(({ masked }, e) => (masked ? NaN : (scores?.[e] ?? NaN))));
  const scores = ensemble === "mean" ? meanScores(byJudge, length, quorum) : copelandScores(byJudge, episodes, quorum);
  return { scores, byJudge, failed: opinions.filter((scores) => scores === undefined).length };
}

function meanScores(byJudge: readonly (readonly number[])[], length: number, quorum: number): number[] {
  return Array.from({ length }, (_, e) => {
    const said = byJudge.map((scores) => scores[e]!).filter((x) => !Number.isNaN(x));
    return said.length >= quorum ? said.reduce((a, b) => a + b, 0) / said.length : NaN;
  });
}

function copelandScores(
  byJudge: readonly (readonly number[])[],
  episodes: readonly Trajectory[],
  quorum: number,
): number[] {
  return episodes.map(({ group }, a) => {
    if (byJudge.filter((scores) => !Number.isNaN(scores[a])).length < quorum) return NaN;
    const others = episodes.flatMap((other, b) => (b !== a && other.group === group ? [b] : []));
    const outcomes: number[] = others.map((b) => {
      const { verdict } = tally(byJudge.map((scores) => preferred(scores[a]!, scores[b]!)), quorum); // prettier-ignore
      return verdict === undefined ? 0 : verdict ? 1 : -1;
    });
    return outcomes.length === 0 ? 0 : outcomes.reduce((x, y) => x + y, 0) / outcomes.length;
  });
}

/** Whether the first is better; undefined if they are equal or one is not known. */
export const preferred = (first: number, second: number): boolean | undefined =>
  first > second ? true : first < second ? false : undefined;

/** Every two episodes of a group, by their places. */
function* comparisons(episodes: readonly Trajectory[]): Generator<readonly [number, number], void, void> {
  for (let a = 0; a < episodes.length; a++) {
    for (let b = a + 1; b < episodes.length; b++) if (episodes[a]!.group === episodes[b]!.group) yield [a, b];
  }
}

/** Of all comparisons on which both have an opinion, the share on which it is the same; undefined without any. */
export function agreement(
  episodes: readonly Trajectory[],
  first: readonly number[],
  second: readonly number[],
): number | undefined {
  let [same, all] = [0, 0];
  for (const [a, b] of comparisons(episodes)) {
    const [x, y] = [preferred(first[a]!, first[b]!), preferred(second[a]!, second[b]!)];
    if (x === undefined || y === undefined) continue;
    all++;
    if (x === y) same++;
  }
  return all === 0 ? undefined : same / all;
}

/** How the judges agree with each other, and with the truth where it is known (NaN: unknown). What nobody can tell is left out. */
export function judgeMetrics(
  judges: readonly EpisodeJudge[],
  episodes: readonly Trajectory[],
  { scores, byJudge, failed }: Judgement,
  truth: readonly number[],
): Metrics {
  const metrics: Metrics = { "judges/failed": failed, "judges/unscored": scores.filter(Number.isNaN).length / scores.length }; // prettier-ignore
  const put = (name: string, value: number | undefined): void => {
    if (value !== undefined) metrics[name] = value;
  };
  const between = byJudge.flatMap((x, i) => byJudge.slice(i + 1).map((y) => agreement(episodes, x, y)));
  const known = between.filter((value) => value !== undefined);
  if (known.length > 0) put("judges/agreement", known.reduce((a, b) => a + b, 0) / known.length);
  put("judges/accuracy", agreement(episodes, scores, truth));
  judges.forEach(({ name }, i) => put(`judges/${name}/accuracy`, agreement(episodes, byJudge[i]!, truth)));
  return metrics;
}
