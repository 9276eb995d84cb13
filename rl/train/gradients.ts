/**
 * The angle between the world model's gradient and the policy's, and the ratio of their lengths, before the two are
 * summed (the diagnostics of ActObs, arXiv 2609.20715):
 *
 *     c = ⟨∇world, ∇policy⟩ / (‖∇world‖·‖∇policy‖),   r = ‖∇world‖ / ‖∇policy‖
 *
 * ∇world is the gradient of Σ wWorld·ℓ_world on what the environment wrote and ∇policy that of Σ wPolicy·ℓ_policy, both
 * over all parameters that are trained, with the weights of the step (λ included) and before clipping. The KL
 * penalty, the entropy bonus, the value loss and the imitation of successes belong to neither of the two.
 *
 * With `gradShares` each term of the loss also has its share of the lengths, s_i = ‖∇term_i‖ / Σ_j ‖∇term_j‖.
 *
 * This is a measurement that training does not read. It takes two gradients of its own, at the policy that the step
 * begins with. It would cost half if one gradient were subtracted from the sum that the step computes anyway, but in 32
 * bits a policy gradient of 0 would then come out as a rounding error, which has a direction.
 */
import { check } from "../../engine/errors.ts";
import {
  add,
  mul,
  noGrad,
  scope,
  sum,
  type Tensor,
  type Tree,
  treeLeaves,
  treeLeavesLike,
} from "../../engine/index.ts";
import { type Model, trainableOf } from "../../nn/index.ts";
import type { Metrics } from "../episode/metrics.ts";
import { isAgentToken } from "../episode/stream.ts";
import { type Columns, rowOf, type TermColumnsByName, type TokenRow } from "../objective/columns.ts";
import { NO_POLICY } from "../objective/policyLoss.ts";
import { betaOf, type Objective, worldsOf } from "../objective/objective.ts";
import type { TokenStatistics } from "../objective/tokenStatistics.ts";
import type { WorldObjective } from "../objective/echo.ts";
import { type Heads, headsFor, lossOf, type LossParts } from "./loss.ts";
import { hasScored, pack, type PackOptions } from "./pack.ts";
import type { PassingOptions, Ratios } from "./score.ts";
import { gradientOf } from "./update.ts";
import { worldRows } from "./weights.ts";

/**
 * A measurement computes two gradients where the step computes one. It costs 1.0 to 1.2 steps of the main job, at this
 * interval 1.5 to 1.9 % of the time (docs/log.md, 2026-11-22).
 */
export const GRAD_EVERY = 64;

/**
 * How often, and for which world loss, the gradients of world model and policy are compared (ActObs, arXiv 2609.20715).
 * It is a measurement that training does not read.
 */
export interface GradientOptions {
  /** The gradients are compared in every Nth step (0, N, 2N, …). 0: never. Default `GRAD_EVERY`. */
  readonly gradEvery?: number;
  /**
   * The world loss whose gradient the policy's is compared with, trained or not: `echo({ lambda: 1 })` shows for plain
   * GRPO what ECHO would add to it. It may read no token statistic that the objective does not. Default: the
   * objective's own; without one nothing is measured.
   */
  readonly gradWorld?: WorldObjective;
  /**
   * Whether the length of the gradient of every term is measured in those steps, too (`grad_share/TERM`): one more
   * gradient for each term beyond policy and world model. Default false.
   */
  readonly gradShares?: boolean;
}

/** @throws unless the interval is one */
export function checkGradEvery({ gradEvery = GRAD_EVERY }: GradientOptions): void {
  const isInterval = Number.isInteger(gradEvery) && gradEvery >= 0;
  check(isInterval, () => `gradEvery must be an integer ≥ 0 (0: never), got ${gradEvery}`);
}

/** A step before its update. */
interface Weighted {
  readonly rows: readonly TokenRow[];
  readonly statistics: TokenStatistics;
  readonly ratios: Ratios;
  readonly packing: PackOptions & PassingOptions;
  /** Of the terms that have one. */
  readonly heads?: Heads | undefined;
}

/**
 * `grad_cosine/world_policy` (c, in [−1, 1]) and `grad_ratio/world_policy` (r) of a step, if it is one to measure. Both
 * are left out if either norm is 0 (nothing to predict, only groups without spread: there is no direction, and nothing
 * to divide by) or anything is not finite (`grad_norm` says so, too). With `gradShares` also `grad_share/TERM` of each
 * term that has a weight; they sum to 1, and are left out if all norms are 0 or one is not finite.
 */
export async function gradientMetrics(
  model: Model,
  objective: Objective,
  { rows, statistics, ratios, packing, heads }: Weighted,
  step: number,
  options: GradientOptions,
): Promise<Metrics> {
  checkGradEvery(options);
  const { gradEvery = GRAD_EVERY, gradWorld, gradShares = false } = options;
  const world = gradWorld ?? objective.world;
  if ((world === undefined && !gradShares) || gradEvery === 0 || step % gradEvery !== 0) return {};
  const probe = gradWorld && worldRows(gradWorld, rows, step, statistics);
  const gradient = (part: readonly TokenRow[], parts: LossParts): Tree | undefined => {
    if (!part.some((row) => hasScored(row))) return undefined;
    const trained = { policy: trainableOf(model).params, ...(heads ? { heads: headsFor(parts, heads) } : {}) };
    return gradientOf(trained, pack(part, packing), (tree, batch) => lossOf(tree, model, batch, parts, ratios, packing))
      .gradient.policy;
  };
  const own = partsOf(rows, objective);
  const measured = scope(() => {
    const gradientOfTerm = (term: string): Tree | undefined => gradient(...own[term]!);
    const p = gradientOfTerm("policy");
    const w = probe ? gradient(probe, { policyLoss: NO_POLICY, world: gradWorld }) : gradientOfTerm("world");
    const compared = world && w && p ? [dot(w, w), dot(p, p), dot(w, p)] : [];
    const gradients: Record<string, Tree | undefined> = { policy: p, ...(probe ? {} : { world: w }) };
    const terms = gradShares ? Object.keys(own) : [];
    const lengths = terms.flatMap((term) => {
      const g = term in gradients ? gradients[term] : gradientOfTerm(term);
      return g ? [{ term, square: dot(g, g) }] : [];
    });
    return { compared, lengths };
  }, "gradientMetrics");
  const read = async (x: Tensor): Promise<number> => {
    const value = await x.item();
    x.dispose();
    return value;
  };
  const [ww = 0, pp = 0, wp = 0] = await inTurn(measured.compared, read);
  const squares = await inTurn(measured.lengths, ({ square }) => read(square));
  return {
    ...comparison(ww, pp, wp),
    ...shares(
      measured.lengths.map(({ term }) => term),
      squares.map(Math.sqrt),
    ),
  };
}

/** One read after the other. */
async function inTurn<T>(list: readonly T[], read: (x: T) => Promise<number>): Promise<number[]> {
  const values: number[] = [];
  for (const x of list) values.push(await read(x));
  return values;
}

function comparison(ww: number, pp: number, wp: number): Metrics {
  if (ww === 0 || pp === 0 || ![ww, pp, wp].every(Number.isFinite)) return {};
  return {
    // Rounding must not make it more than 1.
    "grad_cosine/world_policy": Math.max(-1, Math.min(1, wp / Math.sqrt(ww * pp))),
    "grad_ratio/world_policy": Math.sqrt(ww / pp),
  };
}

function shares(terms: readonly string[], lengths: readonly number[]): Metrics {
  const total = lengths.reduce((a, b) => a + b, 0);
  if (total === 0 || !Number.isFinite(total)) return {};
  return Object.fromEntries(terms.map((term, i) => [`grad_share/${term}`, lengths[i]! / total]));
}

/** What each term of the objective alone makes of the rows, in the order of the shares. */
function partsOf(rows: readonly TokenRow[], objective: Objective): Record<string, [TokenRow[], LossParts]> {
  const { policyLoss, world, terms = [], kl, critic } = objective;
  const only = (columns: (row: TokenRow) => Partial<Columns & TermColumnsByName>): TokenRow[] =>
    rows.map((row) => {
      const { oldLogProbs, refLogProbs, oldValues, returns, more, trajectory, segment } = row;
      return rowOf(trajectory, { oldLogProbs, refLogProbs, oldValues, returns, more, ...columns(row) }, segment);
    });
  const weightsOf = ({ weights }: TokenRow, names: readonly string[]): Record<string, Float64Array> =>
    Object.fromEntries(names.flatMap((name) => (weights[name] ? [[name, weights[name]]] : [])));
  const worlds = worldsOf(objective).map(({ name }) => name);
  return {
    policy: [rows.map(policyPart), { policyLoss }],
    world: [
      only((row) => ({ wWorld: withoutImitation(row), weights: weightsOf(row, worlds) })),
      { policyLoss: NO_POLICY, ...(world ? { world } : {}) },
    ],
    imitation: [only((row) => ({ wWorld: imitationOf(row) })), { policyLoss: NO_POLICY }],
    kl: [
      only(({ wKl, mask }) => (kl && kl.in !== "reward" && betaOf(objective) > 0 ? { wKl, mask } : {})),
      { policyLoss: NO_POLICY, ...(kl ? { kl } : {}) },
    ],
    entropy: [only(({ wEntropy }) => ({ wEntropy })), { policyLoss: NO_POLICY }],
    value: [only(({ wValue }) => ({ wValue })), { policyLoss: NO_POLICY, ...(critic ? { critic } : {}) }],
    ...Object.fromEntries(
      terms.map((term): [string, [TokenRow[], LossParts]] => [
        term.name,
        [rows.map((row) => termPart(row, term.name)), { policyLoss: NO_POLICY, terms: [term] }],
      ]),
    ),
  };
}

/** What the policy loss alone makes of a row. */
function policyPart(row: TokenRow): TokenRow {
  const none = new Float64Array(row.mask.length);
  return { ...row, wWorld: none, wKl: none, wEntropy: none, wValue: none, weights: {} };
}

/** What a further term alone makes of it. The term may read any column; a row without its weight is left out. */
function termPart(row: TokenRow, name: string): TokenRow {
  const none = new Float64Array(row.mask.length);
  const weight = row.weights[name] ?? none;
  const mask = weight.some((w) => w !== 0) ? row.mask : none;
  return { ...policyPart(row), mask, wPolicy: none, weights: { [name]: weight } };
}

/** The objective's weights of −lp, less those of the agent's own tokens, which are imitated. */
const withoutImitation = ({ trajectory, wWorld }: TokenRow): Float64Array =>
  wWorld.map((w, t) => (isAgentToken(trajectory.stream.roles[t]!) ? 0 : w));

/** The weights of −lp of the agent's own tokens. */
const imitationOf = ({ trajectory, wWorld }: TokenRow): Float64Array =>
  wWorld.map((w, t) => (isAgentToken(trajectory.stream.roles[t]!) ? w : 0));

/** Σ a·b over two trees of one structure. */
function dot(a: Tree, b: Tree): Tensor {
  const others = treeLeavesLike(b, a, "gradients");
  const products = (): Tensor[] => treeLeaves(a).map((x, i) => sum(mul(x, others[i]!)));
  return noGrad(() => products().reduce((total, x) => add(total, x)));
}
