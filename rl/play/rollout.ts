/**
 * Rollouts: the model acts in environments until every episode has ended. Each live episode has a row of one decoder.
 * One forward pass reads the new tokens of every row that has some (one token, a whole answer, a task) and draws the
 * next token of each. Rows whose environment is still busy are left out, and a row that becomes free takes the next
 * episode. Environments answer while the executor computes tokens of other episodes. A task that several episodes share
 * is read once and copied.
 *
 * An episode depends on its request and the model only: its random numbers come from its own stream, by position, and
 * the bits of a row do not depend on the other rows. Neither timing nor the other episodes change a token.
 *
 * If an environment throws or takes too long, its episode ends and is masked. A bad action does not end an episode: the
 * environment answers with an error message as the observation.
 */
import { check } from "../../engine/errors.ts";
import { checkKeys } from "../../engine/options.ts";
import { bytesPerElement } from "../../engine/types.ts";
import { burstFor } from "../../nn/generate.ts";
import type { Model, SamplingOptions } from "../../nn/index.ts";
import { checkSampling, SAMPLING_KEYS } from "../../nn/sampler.ts";
import type { EpisodeRequest } from "./episode.ts";
import { Player } from "./player.ts";
import type { Trajectory } from "../episode/stream.ts";
import type { Template } from "../episode/template.ts";

export type { EpisodeRequest } from "./episode.ts";

/**
 * Options of `rollout`: the limits of an episode in actions, tokens and milliseconds, how many episodes are played at
 * once, and how tokens are drawn (`SamplingOptions`: temperature, top-k, top-p, min-p).
 */
export interface RolloutOptions extends SamplingOptions {
  /** The largest number of actions in an episode; default 8. */
  readonly maxTurns?: number;
  /** The largest number of tokens in one action, its end token included; default 48. */
  readonly maxActionTokens?: number;
  /** The largest number of tokens in one answer; longer answers are cut in the middle. Default 96. */
  readonly maxObservationTokens?: number;
  /** The largest number of tokens in an episode; default: the number of the model's positions. */
  readonly maxTokens?: number;
  /** How many milliseconds an environment may take for one call; default 10,000. */
  readonly timeout?: number;
  /** Ends the rollout early: live episodes stop with the reason `aborted`. */
  readonly signal?: AbortSignal;
  /** How many episodes are played at once; default 256, or fewer if their cache would take more than 512 MiB. */
  readonly maxConcurrent?: number;
  /** How many tokens are drawn before the host reads them; default 1, on WebGPU 4. No token depends on it. */
  readonly burst?: number;
  /**
   * The version of the policy, which is recorded with drawn tokens; default 0. `trainRl` gives the number of the step.
   */
  readonly version?: number;
}

const ROLLOUT_KEYS = [
  ...SAMPLING_KEYS,
  "maxTurns",
  "maxActionTokens",
  "maxObservationTokens",
  "maxTokens",
  "timeout",
  "signal",
  "maxConcurrent",
  "burst",
  "version",
] as const;

const CACHE_BYTES = 2 ** 29;
/** The largest buffer that WebGPU binds by default. */
const TENSOR_BYTES = 2 ** 27;
const MOST_ROWS = 256;

function rowsThatFit({ config, params }: Model, maxTokens: number): number {
  const bytes = maxTokens * config.kvHeads * config.headDim * bytesPerElement(params.embedding.dtype);
  const fit = Math.min(CACHE_BYTES / (2 * config.layers * bytes), TENSOR_BYTES / bytes, MOST_ROWS);
  return Math.max(1, Math.floor(fit));
}

/** Plays all requested episodes to their end. The result is in the order of the requests. */
export async function rollout(
  model: Model,
  template: Template,
  requests: readonly EpisodeRequest[],
  options: RolloutOptions = {},
): Promise<Trajectory[]> {
  check(requests.length > 0, () => "rollout: the list of episodes is empty");
  const player = playerFor(model, template, options, requests.length);
  const finished: Trajectory[] = [];
  try {
    requests.forEach((request, i) => player.add(request, (trajectory) => (finished[i] = trajectory)));
    await player.run();
    return finished;
  } finally {
    player.dispose();
  }
}

/**
 * A player with these options.
 * @param expected how many episodes there will be at once; the player needs no more rows than that
 */
export function playerFor(model: Model, template: Template, options: RolloutOptions, expected: number): Player {
  checkKeys("rollout", options, ROLLOUT_KEYS);
  const { maxTurns = 8, maxActionTokens = 48, maxObservationTokens = 96, timeout = 10_000, signal } = options;
  const { device } = model.params.embedding;
  const { maxTokens = model.config.maxPositions, burst = burstFor(device), version = 0 } = options;
  const sampling = checkSampling(options);
  check(
    maxTokens <= model.config.maxPositions,
    () => `rollout: maxTokens ${maxTokens} exceeds the model's ${model.config.maxPositions} positions`,
  );
  const { maxConcurrent = rowsThatFit(model, maxTokens) } = options;
  const counts = { maxTurns, maxActionTokens, maxObservationTokens, maxTokens, maxConcurrent, burst };
  for (const [name, value] of Object.entries(counts)) {
    check(Number.isInteger(value) && value >= 1, () => `rollout: ${name} must be an integer ≥ 1, got ${value}`);
  }
  check(timeout > 0, () => `rollout: timeout must be > 0 milliseconds, got ${timeout}`);
  const temperature = sampling.temperature === 0 ? 1 : sampling.temperature;
  const limits = { template, maxTurns, maxActionTokens, maxObservationTokens, maxTokens, timeout, signal, temperature };
  const rows = Math.min(maxConcurrent, expected);
  // On WebGPU the bits of a matrix product may depend on its number of rows, so that must not depend on the number of
  // requests.
  const width = device.kind === "webgpu" ? { width: 2 ** Math.ceil(Math.log2(maxConcurrent)) } : {};
  return new Player(model, { limits, draw: { ...sampling, burst }, rows, ...width, version });
}
