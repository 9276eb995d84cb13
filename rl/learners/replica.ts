/**
 * A learner without a run of its own: a copy of another learner's model and optimisers, which computes gradients of the
 * micro-batches that it gets, and makes the same steps. Both begin with the same weights and moments and use the same
 * summed gradient, so that their weights agree to the last bit after every step.
 */
import { check } from "../../engine/errors.ts";
import {
  assign,
  type Device,
  outsideScopes,
  Rng,
  scope,
  tensor,
  type Tensor,
  type Tree,
  treeLeaves,
  valueAndGrad,
  zeros,
} from "../../engine/index.ts";
import {
  AdamW,
  type AdamWSettings,
  addLora,
  initValueHead,
  type Model,
  type ModelConfig,
  trainableOf,
} from "../../nn/index.ts";
import { buildParams } from "../../nn/parameters.ts";
import { frozenModel, type FrozenWeights, frozenWeights } from "../async/frozen.ts";
import { readWeights } from "../async/messages.ts";
import type { Pass, PassSettings } from "../train/learners.ts";
import { type BatchLoss, lossOf, type LossParts, type Trained } from "../train/loss.ts";
import type { MicroBatch } from "../train/pack.ts";
import { type Optimizers, update } from "../train/update.ts";
import { type Floats, gradientToHost, type MicroGradient, treeOfArrays } from "./messages.ts";

/** The gradient of one micro-batch, as every learner computes it. Call it in a scope. */
export function gradientOfBatch(
  { trained, batches, loss }: Pick<Pass, "trained" | "batches" | "loss">,
  n: number,
): { readonly grads: Trained; readonly result: BatchLoss } {
  const { aux, grads } = valueAndGrad((tree: Trained) => loss(tree, batches[n]!, n))(trained);
  return { grads, result: aux };
}

/** Everything that a replica is made from except the weights, as plain data. */
export interface ReplicaPlan {
  readonly config: ModelConfig;
  /** The settings of the adapter, if an adapter is trained. */
  readonly adapter?: Readonly<Record<string, unknown>>;
  readonly optimizer: AdamWSettings;
  /** The settings of the optimiser of the critic's head, if there is a critic. */
  readonly critic?: AdamWSettings;
  readonly device: { readonly kind: Device["kind"]; readonly precision: Device["float"] };
}

/** The setup of a replica for the learner of a pass. @throws if the optimiser's settings cannot be sent */
export function planOf({ model, trained, optimizers: { optimizer, critic } }: Pass): ReplicaPlan {
  const { device } = model.params.embedding;
  const { settings } = model.trainable ?? {};
  check(
    model.trainable === undefined || settings !== undefined,
    () => "learners: what is trained of this model is no adapter that can be made elsewhere (addLora)",
  );
  return {
    config: model.config,
    ...(settings ? { adapter: settings } : {}),
    optimizer: optimizer.settings,
    ...(trained.head ? { critic: critic!.optimizer.settings } : {}),
    device: { kind: device.kind, precision: device.float },
  };
}

/** Weights and moments, and how many steps the optimisers have made. */
export interface ReplicaState {
  /** The leaves of each tree (parameters, m, v; head, m, v), in order. */
  readonly arrays: readonly Floats[];
  readonly steps: readonly number[];
}

const treesOf = ({ policy, head }: Trained, { optimizer, critic }: Optimizers): readonly Tree[] => [
  policy,
  optimizer.state.m,
  optimizer.state.v,
  ...(head ? [head, critic!.optimizer.state.m, critic!.optimizer.state.v] : []),
];

/** A learner's state, copied to the host. */
export async function stateOf({ trained, optimizers }: Pick<Pass, "trained" | "optimizers">): Promise<ReplicaState> {
  const arrays: Floats[] = [];
  for (const tree of treesOf(trained, optimizers)) arrays.push(...(await readWeights(tree)));
  const { optimizer, critic } = optimizers;
  return { arrays, steps: [optimizer.state.step, ...(trained.head ? [critic!.optimizer.state.step] : [])] };
}

/** The weights under an adapter, which do not change; none if all are trained. */
export const frozenOf = ({ trainable }: Model): Promise<FrozenWeights> =>
  trainable?.base ? frozenWeights(trainable.base) : Promise.resolve({});

/** A copy of a learner. */
export class Replica {
  readonly #model: Model;
  readonly #objective: LossParts;
  readonly #optimizers: Optimizers;
  /** The trained parameters: the policy's, and the critic's head. */
  readonly trained: Trained;

  /**
   * @param objective the learner's own; its functions cannot be sent
   * @param frozen `frozenOf` the learner's model
   */
  constructor(plan: ReplicaPlan, objective: LossParts, frozen: FrozenWeights, device: Device) {
    this.#objective = objective;
    this.#model = outsideScopes(() => emptyModel(plan, frozen, device));
    const { params } = trainableOf(this.#model);
    const head = plan.critic && initValueHead(plan.config, device);
    this.trained = { policy: params, ...(head ? { head } : {}) };
    const critic = head && plan.critic && { head, optimizer: optimizerOf(head, plan.critic) };
    this.#optimizers = { optimizer: optimizerOf(params, plan.optimizer), critic };
  }

  /** The trained parameters, copied to the host. */
  weights(): Promise<readonly Floats[]> {
    return readWeights(this.trained);
  }

  /** Takes another learner's weights and moments. @throws if they do not fit this model */
  restore({ arrays, steps }: ReplicaState): void {
    const leaves = treesOf(this.trained, this.#optimizers).flatMap((tree) => treeLeaves(tree));
    const { optimizer, critic } = this.#optimizers;
    const optimisers = [optimizer, ...(critic ? [critic.optimizer] : [])];
    check(
      arrays.length === leaves.length &&
        steps.length === optimisers.length &&
        leaves.every(({ size }, i) => size === arrays[i]!.length),
      () => `learners: a state of ${arrays.length} arrays for a learner of ${leaves.length} tensors`,
    );
    scope(() => {
      leaves.forEach((leaf, i) => {
        const { device, shape, dtype } = leaf;
        assign(leaf, tensor(arrays[i]!, { device, shape, dtype }));
      });
    }, "replica");
    optimisers.forEach((one, i) => one.resume(steps[i]!));
  }

  /** The gradient of micro-batch n of a pass. */
  async gradient({ ratios, dropout, ...passing }: PassSettings, batch: MicroBatch, n: number): Promise<MicroGradient> {
    const stream = dropout && new Rng(dropout).split(n);
    const loss = (tree: Trained): [Tensor, BatchLoss] =>
      lossOf(tree, this.#model, batch, this.#objective, ratios, { ...passing, dropout: stream });
    const { grads, result } = scope(() => gradientOfBatch({ trained: this.trained, batches: [batch], loss }, 0));
    return gradientToHost(grads, result);
  }

  /** Makes the step that all learners make. @param sum the sum of the gradients of all micro-batches */
  step(sum: readonly Floats[], lr: number): void {
    scope(() => void update(this.#optimizers, treeOfArrays(this.trained, sum), lr), "update");
  }

  /** Frees everything. */
  dispose(): void {
    const { optimizer, critic } = this.#optimizers;
    optimizer.dispose();
    critic?.optimizer.dispose();
    for (const x of [...treeLeaves(this.trained), ...treeLeaves(this.#model.params)]) x.dispose();
  }
}

function emptyModel({ config, adapter }: ReplicaPlan, frozen: FrozenWeights, device: Device): Model {
  if (adapter) return addLora(frozenModel(config, frozen, device), adapter);
  return { config, params: buildParams(config, (shape) => zeros(shape, { device, dtype: device.float })) };
}

function optimizerOf<T extends Tree>(params: T, { decaying, ...settings }: AdamWSettings): AdamW<T> {
  const paths = new Set(decaying);
  return new AdamW(params, { ...settings, decays: (path) => paths.has(path) });
}
