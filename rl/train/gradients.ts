/**
 * How the gradient of the world model lies to that of the policy, before the two are summed (the diagnostics of ActObs, arXiv
 * 2609.20715):
 *
 *     c = ⟨∇world, ∇policy⟩ / (‖∇world‖·‖∇policy‖),   r = ‖∇world‖ / ‖∇policy‖
 *
 * ∇world is the gradient of Σ wWorld·ℓ_world on what the environment wrote and ∇policy that of Σ wPolicy·ℓ_policy, both over all
 * parameters of the transformer, with the weights of the step (λ included) and before clipping. Neither is the KL penalty, the
 * entropy bonus, the value loss or the imitation of successes: these are other terms of the sum.
 *
 * It is a measurement: gradients of its own, of the policy that a step begins with, and nothing that training reads. Subtracting one
 * gradient from the sum that is there anyway would cost half of it, but in 32 bits a policy gradient of 0 would come out as rounding
 * with a direction.
 */
import { check } from "../../engine/errors.ts";
import { add, mul, noGrad, scope, sum, type Tensor, treeLeaves } from "../../engine/index.ts";
import type { Model, TransformerParams } from "../../nn/index.ts";
import { hasScored } from "./pack.ts";
import type { WorldObjective } from "../methods/world/echo.ts";
import { type LossParts, planGradient, type UpdateOptions } from "./loss.ts";
import { NO_POLICY } from "../methods/losses/policyLoss.ts";
import type { Metrics } from "../episode/metrics.ts";
import type { Objective, StepPlan, TokenPlan } from "../methods/objective.ts";
import { worldWeights } from "./plan.ts";
import type { Signals } from "../methods/tokenStatistics.ts";
import { isAgentToken } from "../episode/stream.ts";

/**
 * A measurement is two gradients where the step has one. It costs 1.0 to 1.2 steps of the main job, at this interval 1.5 to 1.9 % of
 * the time (docs/log.md, 2026-11-22).
 */
export const GRAD_EVERY = 64;

export interface GradientOptions {
  /** The gradients are compared in every so many steps, those that it divides: 0, N, 2N, …; 0: never. Default `GRAD_EVERY`. */
  readonly gradEvery?: number;
  /**
   * The world loss whose gradient the policy's is compared with, trained or not: `echo({ lambda: 1 })` says of plain GRPO what ECHO
   * would add to it. It may read no signal that the objective does not. Default: the objective's own; without one nothing is measured.
   */
  readonly gradWorld?: WorldObjective;
}

/** @throws unless the interval is one */
export function checkGradEvery({ gradEvery = GRAD_EVERY }: GradientOptions): void {
  check(Number.isInteger(gradEvery) && gradEvery >= 0, () => `gradEvery must be an integer ≥ 0 (0: never), got ${gradEvery}`); // prettier-ignore
}

/** A step before its update: what is to be trained, what its weights were made of, and how. */
interface Planned {
  readonly plan: StepPlan;
  readonly signals: Signals;
  readonly update: UpdateOptions;
}

/**
 * `grad_cosine/world_policy` (c, in [−1, 1]) and `grad_ratio/world_policy` (r) of a step, if it is one to measure. Both are left out
 * if either norm is 0 (nothing to predict, only groups without spread: there is no direction, and nothing to divide by) or anything
 * is not finite (`grad_norm` says so, too).
 */
export async function gradientMetrics(
  model: Model,
  objective: Objective,
  { plan, signals, update }: Planned,
  step: number,
  options: GradientOptions,
): Promise<Metrics> {
  checkGradEvery(options);
  const { gradEvery = GRAD_EVERY, gradWorld } = options;
  const world = gradWorld ?? objective.world;
  if (world === undefined || gradEvery === 0 || step % gradEvery !== 0) return {};
  const given = gradWorld && worldWeights({ world: gradWorld }, plan.episodes.map((e) => e.trajectory), step, signals); // prettier-ignore
  const ofWorld = plan.episodes.map(
    (episode, i) =>
    given ? worldPart(episode, given.exact[i]!, given.clipped?.[i]) : worldPart(episode, ownWorld(episode), episode.wClipped), // prettier-ignore
  );
  const worldPlan = { ...plan, episodes: ofWorld };
  const policyPlan = { ...plan, episodes: plan.episodes.map(policyPart) };
  const products = scope(() => {
    const w = gradientOf(model, worldPlan, { policyLoss: NO_POLICY, world }, update);
    const p = gradientOf(model, policyPlan, { policyLoss: objective.policyLoss }, update);
    return w && p ? ([dot(w, w), dot(p, p), dot(w, p)] as const) : undefined;
  }, "gradientMetrics");
  if (products === undefined) return {};
  const read = async (x: Tensor): Promise<number> => {
    const value = await x.item();
    x.dispose();
    return value;
  };
  const [ww, pp, wp] = [await read(products[0]), await read(products[1]), await read(products[2])];
  if (ww === 0 || pp === 0 || ![ww, pp, wp].every(Number.isFinite)) return {};
  return {
    // Rounding must not make it more than 1.
    "grad_cosine/world_policy": Math.max(-1, Math.min(1, wp / Math.sqrt(ww * pp))),
    "grad_ratio/world_policy": Math.sqrt(ww / pp),
  };
}

/** ∇ of a plan's loss, micro-batches summed; `undefined` if no token has a weight. */
const gradientOf = (
  model: Model,
  plan: StepPlan,
  parts: LossParts,
  update: UpdateOptions,
): TransformerParams | undefined =>
  plan.episodes.some((episode) => hasScored(episode)) ? planGradient(model, plan, parts, update) : undefined;

const zerosLike = (row: Float64Array): Float64Array => new Float64Array(row.length);

/** What the policy loss alone makes of an episode. */
function policyPart(episode: TokenPlan): TokenPlan {
  const none = zerosLike(episode.wPolicy);
  return { ...episode, wWorld: none, wClipped: none, wKl: none, wEntropy: none, wValue: none };
}

/** What the world losses alone make of it. */
function worldPart({ trajectory }: TokenPlan, wWorld: Float64Array, wClipped?: Float64Array): TokenPlan {
  const none = zerosLike(wWorld);
  return { trajectory, advantages: none, wPolicy: none, wWorld, wClipped: wClipped ?? none, wKl: none };
}

/** The objective's weights of −lp, less those of the agent's own tokens, which are imitated. */
const ownWorld = ({ trajectory, wWorld }: TokenPlan): Float64Array =>
  wWorld.map((w, t) => (isAgentToken(trajectory.stream.roles[t]!) ? 0 : w));

/** Σ a·b over two trees of one structure. */
function dot(a: TransformerParams, b: TransformerParams): Tensor {
  const others = treeLeaves(b);
  return noGrad(() => treeLeaves(a).map((x, i) => sum(mul(x, others[i]!))).reduce((total, x) => add(total, x))); // prettier-ignore
}
