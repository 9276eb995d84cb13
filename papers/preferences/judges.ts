/**
 * Judges of whole episodes, and ensembles that turn their opinions into scores comparable within a group. A judge gets
 * all episodes of a call at once, so that a model can read them in a few passes.
 */
import { check } from "../../engine/errors.ts";
import { checkKeys } from "../../engine/options.ts";
import { number, oneOf, options, type OptionsOf } from "../../engine/optionTable.ts";
import type { Model } from "../../nn/index.ts";
import { rowOf } from "../../rl/objective/columns.ts";
import { observationTokens } from "../../rl/objective/echo.ts";
import { score } from "../../rl/train/score.ts";
import type { Metrics } from "../../rl/episode/metrics.ts";
import { type Judge, tally } from "../rewards/judge.ts";
import { append, type TokenStream, type Trajectory } from "../../rl/episode/stream.ts";
import type { Template } from "../../rl/episode/template.ts";

/** The context of a judge: the policy that played the episodes, and its template. */
export interface JudgeContext {
  readonly model: Model;
  readonly template: Template;
  readonly signal?: AbortSignal | undefined;
}

/** A judge of episodes. */
export interface EpisodeJudge {
  readonly name: string;
  /**
   * Scores episodes.
   * @returns a score for each episode, on any scale; higher is better, and NaN abstains. A judge that throws abstains
   */
  score(episodes: readonly Trajectory[], context: JudgeContext): Promise<readonly number[]>;
}

/** A judge that scores by a function of the episode; by default the environment's return. */
export const verifierJudge = (
  name = "verifier",
  scoreOf: (episode: Trajectory) => number = ({ reward }) => reward,
): EpisodeJudge => ({ name, score: async (episodes) => episodes.map(scoreOf) });

/** A judge that is asked about each episode separately and says yes, no or nothing: 1, 0 or NaN. */
export const votingJudge = (name: string, judge: Judge<Trajectory>): EpisodeJudge => ({
  name,
  async score(episodes, { signal }) {
    const votes = await Promise.allSettled(episodes.map(async (episode) => judge(episode, signal)));
    signal?.throwIfAborted();
    return votes.map((vote) => (vote.status === "rejected" || vote.value === undefined ? NaN : Number(vote.value)));
  },
});

/**
 * Options of `approvalJudge`: the question that is appended to an episode, the two answers whose probabilities are
 * compared, and the model that is asked.
 */
export interface ApprovalOptions {
  /** The text that is appended to the episode; default "good? ". */
  readonly question?: string;
  /** The approving answer; default "yes". */
  readonly approve?: string;
  /** The rejecting answer; default "no". */
  readonly reject?: string;
  /** The model that is asked; default: the policy that played. */
  readonly model?: Model;
  readonly name?: string;
}

/**
 * The policy as judge (Yuan et al. 2024, arXiv 2401.10020). A small model cannot write a judgement, so the score is the
 * probability that it gives to an approving answer, p(approve) / (p(approve) + p(reject)). It abstains on episodes that
 * leave no room for the question.
 */
export function approvalJudge(options: ApprovalOptions = {}): EpisodeJudge {
  checkKeys("approvalJudge", options, ["question", "approve", "reject", "model", "name"]);
  const { question = "good? ", approve = "yes", reject = "no", name = "approval" } = options;
  check(
    approve !== "" && reject !== "" && approve !== reject,
    () => `approvalJudge: approve and reject must be two different texts, got "${approve}" and "${reject}"`,
  );
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
 * The policy's world model as judge: the mean log-probability of the environment's answers. It prefers episodes in
 * which the environment did what the policy expects. That measures familiarity and not quality, so it should be one
 * judge among several and never the only one.
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

/** The sum of the log-probabilities of the chosen tokens in each episode, and their number. */
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
 * Combinations of judges' scores. `mean` is for judges with a common scale. With `majority` each judge says for every
 * two episodes of a group which is better, and the majority decides; the score of an episode is the share of the other
 * episodes that it beats minus the share of those that beat it (Copeland).
 */
export const ENSEMBLES = ["majority", "mean"] as const;
/** A combination of judges' scores: `majority` (Copeland, needs no common scale) or `mean`. */
export type Ensemble = (typeof ENSEMBLES)[number];

/** The judges' opinions of some episodes. */
export interface Judgement {
  /** The scores of the ensemble, which can be compared within a group; NaN if too few judges had an opinion. */
  readonly scores: readonly number[];
  /** The scores of each judge, in the order of the judges. */
  readonly byJudge: readonly (readonly number[])[];
  /** The number of judges that threw. */
  readonly failed: number;
}

export const ENSEMBLE = options("judgeEpisodes", {
  /** `majority` needs no common scale. */
  ensemble: oneOf(ENSEMBLES, "majority", "how scores are combined"),
  quorum: number(undefined, "judges that must have an opinion; by default more than half", { integer: true, min: 1 }),
});
export type EnsembleChoice = OptionsOf<typeof ENSEMBLE>;

/** Asks all judges. Masked episodes get the score NaN. @throws the signal's reason if it is aborted */
export async function judgeEpisodes(
  judges: readonly EpisodeJudge[],
  episodes: readonly Trajectory[],
  context: JudgeContext,
  choice?: EnsembleChoice,
): Promise<Judgement> {
  const { ensemble, quorum = Math.floor(judges.length / 2) + 1 } = ENSEMBLE.read(choice);
  const { length } = episodes;
  const settled = await Promise.allSettled(judges.map(async (judge) => judge.score(episodes, context)));
  context.signal?.throwIfAborted();
  const opinions = settled.map((result) => {
    return result.status === "fulfilled" && result.value.length === length ? result.value : undefined;
  });
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
      const votes = byJudge.map((scores) => preferred(scores[a]!, scores[b]!));
      const { verdict } = tally(votes, quorum);
      return verdict === undefined ? 0 : verdict ? 1 : -1;
    });
    return outcomes.length === 0 ? 0 : outcomes.reduce((x, y) => x + y, 0) / outcomes.length;
  });
}

/** Whether the first score is better; undefined if they are equal or one is NaN. */
export const preferred = (first: number, second: number): boolean | undefined =>
  first > second ? true : first < second ? false : undefined;

/** Index pairs of the episodes of a group. */
function* comparisons(episodes: readonly Trajectory[]): Generator<readonly [number, number], void, void> {
  for (let a = 0; a < episodes.length; a++) {
    for (let b = a + 1; b < episodes.length; b++) if (episodes[a]!.group === episodes[b]!.group) yield [a, b];
  }
}

/**
 * The share of comparisons on which two lists of scores agree, among those on which both have an opinion; undefined if
 * there are none.
 */
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

/**
 * Metrics of the judges' agreement with each other, and with the truth where it is known (NaN means unknown). Metrics
 * without any comparison are left out.
 */
export function judgeMetrics(
  judges: readonly EpisodeJudge[],
  episodes: readonly Trajectory[],
  { scores, byJudge, failed }: Judgement,
  truth: readonly number[],
): Metrics {
  const unscored = scores.filter(Number.isNaN).length;
  const metrics: Metrics = { "judges/failed": failed, "judges/unscored": unscored / scores.length };
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
