/**
 * The angle between the world model's gradient and the policy's, and the ratio of their lengths, before the two are
 * summed (the diagnostics of ActObs, arXiv 2609.20715):
 *
 *     c = ⟨∇world, ∇policy⟩ / (‖∇world‖·‖∇policy‖),   r = ‖∇world‖ / ‖∇policy‖
 *
 * ∇world is the gradient of Σ wWorld·ℓ_world on the environment's tokens and ∇policy that of Σ wPolicy·ℓ_policy, both
 * over all parameters that are trained, with the weights of the step (λ included) and before clipping. The KL penalty,
 * the entropy bonus, the value loss and the imitation of successes belong to neither of the two.
 *
 * With `shares` each term of the loss also has its share of the lengths, s_i = ‖∇term_i‖ / Σ_j ‖∇term_j‖.
 *
 * This is a measurement that training does not read. It takes two gradients of its own, at the policy that the step
 * begins with. It would cost half if one gradient were subtracted from the sum that the step computes anyway, but in 32
 * bits a policy gradient of 0 would then come out as a rounding error, which has a direction.
 */
import { add, mul, noGrad, scope, sum, type Tensor, type Tree, treeLeaves, treeLeavesLike } from "../engine/index.ts";
import { flag, inCode, number, options, type OptionsOf } from "../engine/optionTable.ts";
import { trainableOf } from "../nn/index.ts";
import type { Metrics } from "../rl/episode/metrics.ts";
import { isAgentToken } from "../rl/episode/stream.ts";
import { type Columns, rowOf, type TermColumnsByName, type TokenRow } from "../rl/objective/columns.ts";
import type { WorldObjective } from "../rl/objective/echo.ts";
import { betaOf, type Objective, worldsOf } from "../rl/objective/objective.ts";
import { NO_POLICY } from "../rl/objective/policyLoss.ts";
import type { TokenStatistics } from "../rl/objective/tokenStatistics.ts";
import { headsFor, lossOf, type LossParts } from "../rl/train/loss.ts";
import { hasScored, pack } from "../rl/train/pack.ts";
import type { StepProbe, WeightedStep } from "../rl/train/step.ts";
import { gradientOf } from "../rl/train/update.ts";

export const GRADIENT_PROBE = options("gradientProbe", {
  /**
   * A measurement computes two gradients where the step computes one. It costs 1.0 to 1.2 steps of the main job, at
   * this interval 1.5 to 1.9 % of the time (docs/log.md, 2026-11-22).
   */
  every: number(64, "gradients are compared in every Nth step (0, N, 2N, …); 0: never", { integer: true, min: 0 }),
  /**
   * `echo({ lambda: 1 })` shows for plain GRPO what ECHO would add to it. It may read no token statistic that the
   * objective does not. Without a world loss nothing is compared.
   */
  world: inCode<WorldObjective>(
    "the world loss whose gradient the policy's is compared with, trained or not; by default the objective's own",
    "a world model's loss, such as echo()",
    (value) => typeof (value as Partial<WorldObjective> | null)?.weights === "function",
  ),
  /** One more gradient for each term beyond policy and world model. */
  shares: flag(false, "whether the length of the gradient of every term is measured, too (`grad_share/TERM`)"),
});
/**
 * Options of `gradientProbe`: in every 64th step it compares the gradients of the policy and of the objective's world
 * loss, and not those of other terms.
 */
export type GradientProbeOptions = OptionsOf<typeof GRADIENT_PROBE>;

/**
 * Compares the gradients of world model and policy (ActObs, arXiv 2609.20715): `probes: [gradientProbe()]`.
 *
 * A measured step reports `grad_cosine/world_policy` (c, in [−1, 1]) and `grad_ratio/world_policy` (r). Both are left
 * out if either norm is 0 (nothing to predict, or only groups without spread: there is no direction, and nothing to
 * divide by) or anything is not finite (`grad_norm` shows that, too). With `shares` also `grad_share/TERM` of each term
 * that has a weight; they sum to 1, and are left out if all norms are 0 or one is not finite.
 */
export function gradientProbe(given?: GradientProbeOptions): StepProbe {
  const settled = GRADIENT_PROBE.read(given);
  return {
    name: "gradients",
    // The remainder by 0 is NaN: never.
    measure: async (before) => (before.step % settled.every === 0 ? gradientMetrics(before, settled) : {}),
  };
}

/** The rows of a world objective alone, trained or not. */
function worldRows(
  world: WorldObjective,
  rows: readonly TokenRow[],
  step: number,
  statistics: TokenStatistics,
): TokenRow[] {
  const trajectories = rows.map(({ trajectory }) => trajectory);
  const weights = world.weights(trajectories, step, statistics);
  return trajectories.map((trajectory, i) =>
    rowOf(trajectory, world.tokenLoss ? { weights: { [world.name]: weights[i]! } } : { wWorld: weights[i]! }),
  );
}

async function gradientMetrics(before: WeightedStep, given: GradientProbeOptions): Promise<Metrics> {
  const { model, objective, rows, statistics, ratios, packing, heads, step } = before;
  const world = given.world ?? objective.world;
  if (world === undefined && !given.shares) return {};
  const probe = given.world && worldRows(given.world, rows, step, statistics);
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
    const w = probe ? gradient(probe, { policyLoss: NO_POLICY, world: given.world }) : gradientOfTerm("world");
    const compared = world && w && p ? [dot(w, w), dot(p, p), dot(w, p)] : [];
    const gradients: Record<string, Tree | undefined> = { policy: p, ...(probe ? {} : { world: w }) };
    const terms = given.shares ? Object.keys(own) : [];
    const lengths = terms.flatMap((term) => {
      const g = term in gradients ? gradients[term] : gradientOfTerm(term);
      return g ? [{ term, square: dot(g, g) }] : [];
    });
    return { compared, lengths };
  }, "gradientProbe");
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

/** Reads one value after the other. */
async function inTurn<T>(list: readonly T[], read: (x: T) => Promise<number>): Promise<number[]> {
  const values: number[] = [];
  for (const x of list) values.push(await read(x));
  return values;
}

/** The metrics of ⟨world, world⟩, ⟨policy, policy⟩ and ⟨world, policy⟩; none without a direction. */
export function comparison(ww: number, pp: number, wp: number): Metrics {
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

/** Rows and losses of each term of the objective alone, in the order of the shares. */
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

/** A row with the weights of the policy loss only. */
function policyPart(row: TokenRow): TokenRow {
  const none = new Float64Array(row.mask.length);
  return { ...row, wWorld: none, wKl: none, wEntropy: none, wValue: none, weights: {} };
}

/**
 * A row with the weights of one further term only. The term may read any column; a row without its weight is left out.
 */
function termPart(row: TokenRow, name: string): TokenRow {
  const none = new Float64Array(row.mask.length);
  const weight = row.weights[name] ?? none;
  const mask = weight.some((w) => w !== 0) ? row.mask : none;
  return { ...policyPart(row), mask, wPolicy: none, weights: { [name]: weight } };
}

/** Weights of −lp without those of the agent's own tokens, which are imitated. */
const withoutImitation = ({ trajectory, wWorld }: TokenRow): Float64Array =>
  wWorld.map((w, t) => (isAgentToken(trajectory.stream.roles[t]!) ? 0 : w));

/** Weights of −lp of the agent's own tokens, which are imitated. */
const imitationOf = ({ trajectory, wWorld }: TokenRow): Float64Array =>
  wWorld.map((w, t) => (isAgentToken(trajectory.stream.roles[t]!) ? w : 0));

/** Σ a·b over two trees of one structure. */
function dot(a: Tree, b: Tree): Tensor {
  const others = treeLeavesLike(b, a, "gradients");
  const products = (): Tensor[] => treeLeaves(a).map((x, i) => sum(mul(x, others[i]!)));
  return noGrad(() => products().reduce((total, x) => add(total, x)));
}
