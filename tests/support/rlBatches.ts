/**
 * Random batches of episodes, with everything that an objective may ask about them, and what the learner makes of them.
 */
import type { Device } from "../../engine/device.ts";
import { valueAndGrad } from "../../engine/grad.ts";
import { tensor } from "../../engine/ops/create.ts";
import { Rng } from "../../engine/random.ts";
import { scope } from "../../engine/scope.ts";
import { treeLeaves } from "../../engine/tree.ts";
import { AdamW } from "../../nn/optimizer.ts";
import type { TransformerParams } from "../../nn/parameters.ts";
import type { Model } from "../../nn/transformer.ts";
import type { ValueHead } from "../../nn/valueHead.ts";
import { advantagesOf } from "../../rl/train/advantages.ts";
import { lossOf, type LossParts, type Trained } from "../../rl/train/loss.ts";
import { pack, type PackOptions } from "../../rl/train/pack.ts";
import type { StepReport } from "../../rl/train/report.ts";
import { type Ratios, ratiosOf, scoreTokens } from "../../rl/train/score.ts";
import { type OptimizerStepOptions, packingOf, type StepOptions, trainStep } from "../../rl/train/step.ts";
import { gradientOf } from "../../rl/train/update.ts";
import { weigh } from "../../rl/train/weights.ts";
import type { TokenRow } from "../../rl/objective/columns.ts";
import type { Objective } from "../../rl/objective/objective.ts";
import type { TokenStatistics } from "../../rl/objective/tokenStatistics.ts";
import {
  append,
  emptyStream,
  isAgentToken,
  rolloutsOf,
  type TokenStream,
  type Trajectory,
} from "../../rl/episode/stream.ts";
import { randomEpisode, toyModel, toyTemplate } from "./rlToy.ts";

/**
 * Two groups of three random episodes of two turns, with thoughts, step rewards and returns that differ within a group.
 */
export function randomBatch(seed: number): Trajectory[] {
  const rng = new Rng(seed);
  return Array.from({ length: 6 }, (_, i) => {
    const own = rng.split(i);
    const stepRewards = [own.int(3) / 2, own.int(3)];
    const reward = stepRewards[0]! + stepRewards[1]! + (i % 3) * 0.25;
    const plain = randomEpisode(own, {
      group: Math.floor(i / 3),
      seed: 100 * seed + i,
      greedyReward: 0.5,
      stepRewards,
      reward,
    });
    const { roles } = plain.stream;
    const thinks = roles.map((role, t) => role === "action" && roles[t - 1] !== "action" && roles[t + 1] === "action");
    return { ...plain, stream: { ...plain.stream, roles: roles.map((role, t) => (thinks[t] ? "thought" : role)) } };
  });
}

/** The stream without the tokens that `keep` refuses. */
export function filtered(stream: TokenStream, keep: (t: number) => boolean): TokenStream {
  const result = emptyStream();
  stream.ids.forEach((id, t) => {
    if (!keep(t)) return;
    const oldLogProbs = [stream.oldLogProbs[t]!];
    append(result, stream.roles[t]!, stream.turns[t]!, [id], { oldLogProbs, target: stream.targets[t]! });
  });
  return result;
}

/** The rollout as two rows: up to the second action, and all of it, with what came before as the prompt. */
export function forked(trajectory: Trajectory, rollout: number): Trajectory[] {
  const { stream } = trajectory;
  const cut = stream.roles.findIndex((role, t) => isAgentToken(role) && stream.turns[t]! > 0);
  const head = filtered(stream, (t) => t < cut);
  const isOld = (t: number): boolean => t < cut;
  const tail: TokenStream = {
    ...stream,
    roles: stream.roles.map((role, t) => (isOld(t) ? "prompt" : role)),
    targets: stream.targets.map((target, t) => target && !isOld(t)),
  };
  return [head, tail].map((part) => ({ ...trajectory, stream: part, rollout }));
}

/**
 * Made-up signals of the agent's tokens, the same for the k-th token of a rollout wherever it stands; NaN elsewhere.
 */
export function madeUpSignals(trajectories: readonly Trajectory[]): TokenStatistics {
  const column = (name: string, low: number, high: number): Float64Array[] => {
    const columns = trajectories.map(({ stream }) => new Float64Array(stream.ids.length).fill(NaN));
    for (const { first, tokens } of rolloutsOf(trajectories)) {
      const rng = new Rng(first.seed).split(name);
      tokens.forEach(({ row, t }) => (columns[row]![t] = low + (high - low) * rng.uniform()));
    }
    return columns;
  };
  return {
    logProbs: column("logProbs", -3, -0.1),
    entropy: column("entropy", 0, 2),
    collision: column("collision", 0.1, 0.9),
    values: column("values", -1, 1),
    refLogProbs: column("ref", -3, -0.1),
    refEnergy: column("energy", -20, -10),
    refEntropy: column("refEntropy", 0, 2),
    refNll: column("nll", 0.1, 3),
  };
}

/** Options of a step with everything: a reference, a critic whose values are not all 0. */
export function toyStep(device: Device, objective: Objective): StepOptions & { readonly head: ValueHead } {
  const shape = { layers: 1, hiddenSize: 8 };
  const model = toyModel(device, 1, shape);
  const rng = new Rng(9);
  const weight = tensor(
    Float64Array.from({ length: 8 }, () => 0.2 * rng.normal()),
    { device, shape: [1, 8], dtype: device.float },
  );
  const head = { weight, bias: tensor(Float64Array.of(0.1), { device, dtype: device.float }) };
  return {
    model,
    template: toyTemplate,
    optimizer: new AdamW(model.params),
    lr: () => 0.01,
    objective,
    reference: toyModel(device, 2, shape),
    heads: { value: { head, optimizer: new AdamW(head) } },
    head,
    rng: new Rng(0),
    // A loss without a ratio is right for the policy's own samples only.
    offPolicy: objective.policyLoss.ratio !== false,
  };
}

/** The rows of a step, from statistics that are there already. */
export const weighStep = (
  objective: Objective,
  trajectories: readonly Trajectory[],
  step: number,
  statistics: TokenStatistics = {},
): TokenRow[] =>
  weigh(objective, trajectories, advantagesOf(objective, trajectories, step, statistics), step, statistics);

/** The rows of a step with these options, its statistics scored. */
export async function scoredStep(
  options: StepOptions,
  trajectories: readonly Trajectory[],
  step: number,
): Promise<{ readonly rows: TokenRow[]; readonly statistics: TokenStatistics; readonly ratios: Ratios }> {
  const { objective, heads } = options;
  const ratios = ratiosOf(objective, options);
  const asked = { ...options, head: heads?.["value"]?.head };
  const statistics = await scoreTokens(asked, objective, trajectories, ratios, packingOf(options));
  const advantages = advantagesOf(objective, trajectories, step, statistics);
  return { rows: weigh(objective, trajectories, advantages, step, statistics, ratios), statistics, ratios };
}

/** A step that is trained on these episodes. */
export async function trainOn(
  options: Omit<StepOptions, "rng">,
  trajectories: readonly Trajectory[],
  step: number,
): Promise<StepReport> {
  const source = { play: () => Promise.resolve({ trajectories, metrics: {} }) };
  return (await trainStep({ rng: new Rng(0), ...options }, source, step))!;
}

/** The gradient of the rows' loss, micro-batches summed, without an update. */
export function rowGradient(
  model: Model,
  rows: readonly TokenRow[],
  objective: LossParts,
  options: PackOptions & Partial<OptimizerStepOptions>,
): TransformerParams {
  const trained: Trained<TransformerParams> = { policy: model.params };
  return scope(
    () =>
      gradientOf(trained, pack(rows, options), (tree, batch) => lossOf(tree, model, batch, objective, options.ratios))
        .gradient.policy,
  );
}

/** Value and gradient of a step's loss with micro-batches of `maxTokens`, model and critic. */
export async function lossAndGradient(
  learner: StepOptions & { readonly head: ValueHead },
  trajectories: readonly Trajectory[],
  maxTokens: number,
): Promise<{ value: number; leaves: number[][] }> {
  const { model, objective } = learner;
  const options = { ...learner, maxBatchTokens: maxTokens };
  const { rows, ratios } = await scoredStep(options, trajectories, 3);
  const trained: Trained = { policy: model.params, ...(objective.critic ? { heads: { value: learner.head } } : {}) };
  let value = 0;
  let leaves: number[][] | undefined;
  for (const batch of pack(rows, packingOf(options))) {
    const result = valueAndGrad((tree: Trained) => lossOf(tree, model, batch, objective, ratios))(trained);
    value += await result.value.item();
    const own = await Promise.all(treeLeaves(result.grads).map(async (g) => [...(await g.read())]));
    leaves = leaves?.map((leaf, i) => leaf.map((x, k) => x + own[i]![k]!)) ?? own;
  }
  return { value, leaves: leaves! };
}
