/**
 * The messages between a learner and its rollout workers. They are plain data (numbers, strings, arrays, typed arrays),
 * so the same worker runs on the learner's thread, in a `worker_threads` thread or in a Web Worker.
 *
 *     learner → worker:  policy (weights of a version) · play (episodes)
 *     worker → learner:  alive · episode (as soon as it is over) · failed (the rollout threw, because of a bug)
 */
import { check, fail } from "../../engine/errors.ts";
import { assign, Rng, type RngState, scope, tensor, type Tree, treeLeaves } from "../../engine/index.ts";
import { type Model, trainableOf } from "../../nn/index.ts";
import type { EnvironmentOptions, EnvironmentSpec } from "../../rl/environment.ts";
import { type KnownActions, knownActions, withActions } from "../../data/given.ts";
import type { EpisodeRequest } from "../../rl/play/episode.ts";
import type { RolloutOptions } from "../../rl/play/rollout.ts";
import type { Trajectory } from "../../rl/episode/stream.ts";

/**
 * The trained weights of a policy: one array for each parameter, in the order of the tree. For a model with an adapter
 * they are the adapter's alone; the rest does not change, and a worker gets it with its setup.
 */
export interface Policy {
  /** The number of training steps that made it. */
  readonly version: number;
  readonly weights: readonly (Float32Array | Float64Array)[];
}

/** An episode to play. */
export interface Job {
  readonly id: number;
  readonly request: WireRequest | EpisodeRequest;
  /** Options that replace those that the worker was started with. */
  readonly sampling: Pick<RolloutOptions, "temperature">;
  /**
   * True: the whole episode is played by the policy that is installed when the job arrives, even if a newer one comes
   * meanwhile.
   */
  readonly pinned: boolean;
}

/** `EpisodeRequest` as plain data, with the environment's name in place of its functions. */
export interface WireRequest {
  readonly env: string;
  readonly options: EnvironmentOptions;
  readonly seed: number;
  readonly group: number;
  readonly rng: RngState;
  readonly given: readonly KnownActions[];
}

/** Messages from the learner to a worker. */
export type ToWorker =
  { readonly kind: "policy"; readonly policy: Policy } | { readonly kind: "play"; readonly jobs: readonly Job[] };

/** Messages from a worker to the learner. */
export type FromWorker =
  | { readonly kind: "alive" }
  | { readonly kind: "episode"; readonly id: number; readonly trajectory: Trajectory }
  | { readonly kind: "failed"; readonly message: string };

/** The weights of `model` that are trained, copied to the host. */
export async function policyOf(model: Model, version: number): Promise<Policy> {
  return { version, weights: await readWeights(trainableOf(model).params) };
}

/** The tensors of a tree, copied to the host. @throws if one holds integers */
async function readWeights(tree: Tree): Promise<(Float32Array | Float64Array)[]> {
  const read = await Promise.all(treeLeaves(tree).map((x) => x.read()));
  return read.map((x) => (x instanceof Int32Array ? fail("policy: expected floats, got integers") : x));
}

/** Writes the weights into the trained parameters of a model of the same configuration. */
export function installPolicy(model: Model, { weights }: Policy): void {
  const leaves = treeLeaves(trainableOf(model).params);
  check(
    leaves.length === weights.length,
    () => `policy: ${weights.length} arrays for a model of ${leaves.length} parameters`,
  );
  scope(() => {
    leaves.forEach((leaf, i) => {
      const { device, shape, dtype } = leaf;
      assign(leaf, tensor(weights[i]!, { device, shape, dtype }));
    });
  }, "installPolicy");
}

/**
 * A job as plain data, for a worker in another thread.
 * @throws if the request has functions that cannot be turned into data
 */
export function toWire(job: Job): Job {
  if ("env" in job.request) return job;
  const { spec, options, seed, group, rng, forced, given } = job.request;
  check(
    forced === undefined || given !== undefined,
    () =>
      "async: actions that a function of this program gives (a chooser of its own, for exploration or a prefix) " +
      "cannot be sent to another thread; play with workers on this one (localWorkers)",
  );
  return {
    ...job,
    request: { env: spec.name, options, seed, group, rng: rng.state, given: knownActions(given ?? []) },
  };
}

/** The request of a job. @param environment finds an environment by its name */
export function requestOf({ request }: Job, environment: (name: string) => EnvironmentSpec): EpisodeRequest {
  if (!("env" in request)) return request;
  const { env, options, seed, group, rng, given } = request;
  const plain: EpisodeRequest = { spec: environment(env), options, seed, group, rng: new Rng(rng) };
  return given.reduce(withActions, plain);
}
