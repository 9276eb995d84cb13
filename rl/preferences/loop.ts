/**
 * Iterative preference optimisation: the current policy makes pairs, DPO learns from them with the policy as it was before as the
 * reference, and again (Yuan et al. 2024, arXiv 2401.10020; Putta et al. 2024, arXiv 2408.07199). Where the pairs come from is
 * somebody else's: a search (search/agentQ.ts), or judges (selfReward.ts).
 *
 * The defaults are IPO with imitation, and not the papers' plain DPO, on purpose. The sigmoid loss never has enough of a margin, and
 * it is as happy to lower both answers, the rejected one more, as to raise the chosen one: the probability goes to answers that nobody
 * compared ("likelihood displacement", Razin et al. 2024, arXiv 2410.08847). A loop repeats that from ever worse policies. A small
 * policy was made worse by it on gridworld; with the defaults it got better. IPO asks for a finite margin, and imitation holds the
 * chosen answer up. Watch `logps/chosen`: if it keeps falling, so does the policy.
 *
 * All randomness of iteration n comes from `rng.split(n)`, and the reference is the policy at its beginning: with the model and the
 * optimiser as they were after n iterations, `startIteration: n` continues bitwise.
 */
import { check } from "../../engine/errors.ts";
import { mapTree, mul, noGrad, outsideScopes, type Rng, treeLeaves } from "../../engine/index.ts";
import type { Model } from "../../nn/index.ts";
import type { TrainerOptions } from "../train/step.ts";
import { dpo, type PolicyLoss } from "../methods/losses/index.ts";
import type { Metrics } from "../episode/metrics.ts";
import type { PreferencePair } from "../train/supervised.ts";
import { trainPreference } from "../train/loop.ts";

export interface PreferenceLoopOptions extends TrainerOptions {
  readonly iterations: number;
  /** Iterations that are behind it; default 0. */
  readonly startIteration?: number;
  /** Steps of DPO in an iteration. The learning rate counts them through: `lr(iteration · steps + step)`. */
  readonly steps: number;
  /** Pairs in a step. */
  readonly batchSize: number;
  /** A loss over pairs; default `dpo({ loss: "ipo", beta: 0.25 })`. Plain `dpo()` may make a weak policy worse, see above. */
  readonly policyLoss?: PolicyLoss;
  /** Weight of imitating the chosen answers beside preferring them (`preferenceRows`); default 0.5. */
  readonly imitation?: number;
  readonly rng: Rng;
}
const IMITATION = 0.5;
const MARGIN_LOSS = { loss: "ipo", beta: 0.25 } as const;
export const LOOP_KEYS: readonly string[] = ["model", "template", "optimizer", "lr", "maxBatchTokens", "iterations", "startIteration", "steps", "batchSize", "policyLoss", "imitation", "rng"]; // prettier-ignore

export interface IterationReport {
  readonly iteration: number;
  readonly metrics: Metrics;
  /** Without any, nothing was learnt in this iteration. */
  readonly pairs: readonly PreferencePair[];
}

/** What an iteration learns from. */
export interface GatheredPairs {
  readonly pairs: readonly PreferencePair[];
  readonly metrics: Metrics;
  /** The iteration was told to stop; it is neither learnt from nor reported, and the loop ends. */
  readonly aborted?: boolean;
}

/** How an iteration gets its pairs, and what it is measured by once it has learnt. */
export interface PairSource {
  gather(iteration: number, rng: Rng): Promise<GatheredPairs>;
  /** @param previous the policy before the iteration */
  compare?(previous: Model, rng: Rng): Promise<Metrics>;
}

/** The loop; `who` is named in errors. */
export async function* iteratePreferences(
  who: string,
  options: PreferenceLoopOptions,
  source: PairSource,
): AsyncGenerator<IterationReport, void, void> {
  const { model, template, optimizer, lr, maxBatchTokens, iterations, startIteration = 0, steps, batchSize, policyLoss = dpo(MARGIN_LOSS), imitation = IMITATION, rng } = options; // prettier-ignore
  for (const [name, value] of Object.entries({ iterations, steps, batchSize })) {
    check(Number.isInteger(value) && value >= 1, () => `${who}: ${name} must be an integer ≥ 1, got ${value}`);
  }
  check(Number.isInteger(startIteration) && startIteration >= 0, () => `${who}: startIteration must be an integer ≥ 0, got ${startIteration}`); // prettier-ignore
  for (let iteration = startIteration; iteration < iterations; iteration++) {
    const draw = rng.split(iteration);
    const { pairs, metrics, aborted } = await source.gather(iteration, draw.split("gather"));
    if (aborted) return;
    const previous = frozenCopy(model);
    try {
      const learnt: Metrics[] = [];
      const shared = { model, template, optimizer, policyLoss, imitation, batchSize, steps, pairs, reference: previous, rng: draw.split("steps") }; // prettier-ignore
      const rate = (step: number): number => lr(iteration * steps + step);
      const training = { ...shared, lr: rate, ...(maxBatchTokens === undefined ? {} : { maxBatchTokens }) };
      if (pairs.length > 0) for await (const step of trainPreference(training)) learnt.push(step.metrics);
      const compared = (await source.compare?.(previous, draw.split("compare"))) ?? {};
      yield { iteration, pairs, metrics: { pairs: pairs.length, ...metrics, ...lastOf(learnt), ...compared } };
    } finally {
      for (const x of treeLeaves(previous.params)) x.dispose();
    }
  }
}

/** Which pairs a list of answers, best first, is made into: `all` of them, or only its `best-worst`. */
export const PAIRINGS = ["all", "best-worst"] as const;
export type Pairing = (typeof PAIRINGS)[number];

/** The pairs of a list that is sorted, best first; the better member comes first. */
export function pairUp<T>(ranked: readonly T[], pairing: Pairing): (readonly [T, T])[] {
  if (pairing === "all") return ranked.flatMap((a, i) => ranked.slice(i + 1).map((b) => [a, b] as const));
  return ranked.length > 1 ? [[ranked[0]!, ranked.at(-1)!]] : [];
}

/** Metrics of the last step, and the largest norm of a gradient. */
function lastOf(steps: readonly Metrics[]): Metrics {
  const last = steps.at(-1);
  return last === undefined ? {} : { ...last, grad_norm: Math.max(...steps.map((metrics) => metrics["grad_norm"]!)) };
}

/** The model as it is now, with parameters of its own that nobody trains; the caller frees them. */
export function frozenCopy({ config, params }: Model): Model {
  return { config, params: outsideScopes(() => noGrad(() => mapTree(params, (x) => mul(x, 1)))) };
}
