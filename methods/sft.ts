/**
 * Supervised fine-tuning on demonstrations, by cross-entropy or by DFT. With general texts beside them, demonstrations
 * weighted η and texts 1 − η, it is AgentTuning's loss (Zeng et al. 2023, arXiv 2310.12823, eq. 1).
 */
import { check } from "../engine/errors.ts";
import type { Rng } from "../engine/index.ts";
import { checkKeys, showValue } from "../engine/options.ts";
import { inCode, number, oneOf, options, type OptionsOf } from "../engine/optionTable.ts";
import { mean } from "../rl/episode/groups.ts";
import { isAgentToken, type Trajectory, tokensIn } from "../rl/episode/stream.ts";
import { imitationRows, mixedRows, type MixturePart } from "../rl/train/imitation.ts";
import { TRAINER_KEYS } from "../rl/train/loop.ts";
import { lossIn, type StepReport } from "../rl/train/report.ts";
import { optimizerStep, packingOf, type TrainerOptions } from "../rl/train/step.ts";
import { checkCount, checkTrainer } from "../rl/train/trainerChecks.ts";
import { rowOf, type TokenRow } from "../rl/objective/columns.ts";
import { NO_POLICY } from "../rl/objective/policyLoss.ts";
import { dft } from "./losses/supervised.ts";
import type { PerToken } from "../rl/objective/tokenStatistics.ts";
import { observationTokens } from "../rl/objective/echo.ts";

export const SFT_ROWS = options("sftRows", {
  /**
   * A model that has read no text before does not know what a terminal prints; with a weight above 0 the warm start
   * also learns the observations in the demonstrations.
   */
  observationWeight: number(0, "weight of predicting the environment's answers", { min: 0 }),
  /** `dft`: the agent's tokens go to the policy loss `dft()`, which weighs them by their probability. */
  loss: oneOf(["sft", "dft"], "sft", "the loss of a token: −log p (`sft`) or −p·log p (`dft`)"),
  /** A demonstration with a mistake and its correction leaves the mistake out and keeps the rest. */
  imitate: inCode<(trajectory: Trajectory, token: number) => boolean>(
    "which of the agent's tokens are imitated; by default all",
    "a function of the trajectory and the token",
    (value) => typeof value === "function",
  ),
});
/**
 * Options of `sftRows` and `trainSft`: which of a demonstration's agent tokens are imitated, with which loss, and
 * whether the environment's observations are predicted, too.
 */
export type SftRowOptions = OptionsOf<typeof SFT_ROWS>;

/**
 * The rows of supervised fine-tuning: cross-entropy on the agent's tokens, averaged over all of them (`token-mean`).
 */
export function sftRows(trajectories: readonly Trajectory[], given?: SftRowOptions): TokenRow[] {
  const { observationWeight, loss, imitate } = SFT_ROWS.read(given);
  check(trajectories.length > 0, () => "sftRows: the list of episodes is empty");
  const rows = imitationRows(trajectories, { observationWeight, imitate });
  return loss === "sft" ? rows : rows.map(withPolicyWeights);
}

/** A row whose weights of the agent's tokens are moved to the policy term. */
function withPolicyWeights(row: TokenRow): TokenRow {
  const { targets } = observationTokens(row.trajectory);
  const [wWorld, wPolicy] = [true, false].map((answers) => row.wWorld.map((w, t) => (targets[t] === answers ? w : 0)));
  return rowOf(row.trajectory, { wWorld: wWorld!, wPolicy: wPolicy!, mask: wPolicy!.map((w) => Number(w !== 0)) });
}

/** The mean of −lp over the tokens that these rows imitate, in nats, whatever their weights are. */
export const imitationLoss = (rows: readonly TokenRow[], logProbs: PerToken): number =>
  mean(rows.flatMap((row, i) => [...logProbs[i]!].flatMap((lp, t) => (isImitated(row, t) ? [-lp] : []))));

const isImitated = ({ trajectory, wWorld, wPolicy }: TokenRow, t: number): boolean =>
  isAgentToken(trajectory.stream.roles[t]!) && (wWorld[t] !== 0 || wPolicy[t] !== 0);

/**
 * Options of `trainSft`: the demonstrations, of which `batchSize` are drawn in each step, with replacement, and the
 * steps from `startStep` (default 0) up to `steps`.
 */
export interface SftOptions extends TrainerOptions, SftRowOptions {
  /** Episodes to imitate, as `demonstrate` makes them. */
  readonly demonstrations: readonly Trajectory[];
  /**
   * Other texts, of which `batchSize` are drawn, too, and their weight in the loss, AgentTuning's 1 − η (the
   * demonstrations have η). Default: none.
   */
  readonly general?: MixturePart;
  /** Demonstrations in a step. */
  readonly batchSize: number;
  /** The step at which training ends; the last one is `steps` − 1. */
  readonly steps: number;
  /** The first step, above 0 in a resumed run. Default 0. */
  readonly startStep?: number;
  /** All randomness of step n comes from `rng.split(n)`. */
  readonly rng: Rng;
}

const SFT_KEYS = [
  ...TRAINER_KEYS,
  "demonstrations",
  "general",
  "observationWeight",
  "loss",
  "imitate",
  "batchSize",
] as const;
/** Supervised fine-tuning on demonstrations: −lp of the agent's tokens, a fresh random batch each step. */
export async function* trainSft(options: SftOptions): AsyncGenerator<StepReport, void, void> {
  checkKeys("trainSft", options, SFT_KEYS);
  checkTrainer("trainSft", options);
  const { model, optimizer, lr, demonstrations, batchSize, steps, startStep = 0, rng } = options;
  checkCount("trainSft", "batchSize", batchSize);
  const isList = Array.isArray as (value: unknown) => boolean;
  const areEpisodes =
    isList(demonstrations) && demonstrations.every((t: Partial<Trajectory> | undefined) => t?.stream !== undefined);
  check(
    areEpisodes,
    () =>
      `trainSft: expected demonstrations to be a list of episodes, got ${showValue(demonstrations)}; demonstrate(…) ` +
      "gives a promise of each: await Promise.all([…])",
  );
  check(demonstrations.length > 0, () => "trainSft: there are no demonstrations");
  const { maxPositions } = model.config;
  const long = demonstrations.findIndex(({ stream }) => stream.ids.length > maxPositions);
  check(
    long < 0,
    () =>
      `trainSft: demonstration ${long} has ${demonstrations[long]!.stream.ids.length} tokens, the model has ` +
      `${maxPositions} positions (maxPositions)`,
  );
  const { observationWeight, loss, imitate, general } = options;
  const isWeight = general === undefined || (general.weight > 0 && general.weight < 1 && general.episodes.length > 0);
  check(isWeight, () => "trainSft: general needs texts and a weight between 0 and 1");
  const target = SFT_ROWS.read({ observationWeight, loss, imitate });
  const policyLoss = target.loss === "dft" ? dft() : NO_POLICY;
  const packing = packingOf(options);
  for (let step = startStep; step < steps; step++) {
    const draw = rng.split(step);
    const batch = Array.from({ length: batchSize }, () => draw.choice(demonstrations));
    const others = general ? Array.from({ length: batchSize }, () => draw.choice(general.episodes)) : [];
    const rows = general
      ? mixedRows(
          [
            { episodes: batch, weight: 1 - general.weight },
            { episodes: others, weight: general.weight },
          ],
          (episodes) => sftRows(episodes, target),
        )
      : sftRows(batch, target);
    const result = await optimizerStep(
      model,
      optimizer,
      rows,
      { policyLoss },
      { ...packing, lr: lr(step), dropout: draw.split("dropout") },
    );
    const metrics = {
      loss: lossIn(result),
      ...(general ? { general_loss: imitationLoss(rows.slice(batchSize), result.logProbs.slice(batchSize)) } : {}),
      grad_norm: result.gradNorm,
      learning_rate: lr(step),
      step_tokens: tokensIn([...batch, ...others]),
    };
    yield { step, metrics, rows, scores: result };
  }
}
