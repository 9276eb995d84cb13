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
import { showValue } from "../../engine/options.ts";
import { inCode, number, type NumberRange, options, type OptionsOf } from "../../engine/optionTable.ts";
import { bytesPerElement } from "../../engine/types.ts";
import { burstFor } from "../../nn/generate.ts";
import { Decoder, type Model, type ModelConfig } from "../../nn/index.ts";
import { SAMPLING } from "../../nn/sampler.ts";
import type { EpisodeRequest } from "./episode.ts";
import { playAll, Player, type PlayerOptions } from "./player.ts";
import type { Trajectory } from "../episode/stream.ts";
import type { Template } from "../episode/template.ts";

export type { EpisodeRequest } from "./episode.ts";

export const COUNT: NumberRange = { integer: true, min: 1 };

export const ROLLOUT = options("rollout", {
  ...SAMPLING.fields,
  maxTurns: number(8, "largest number of actions in an episode", COUNT),
  maxActionTokens: number(48, "largest number of tokens in an action, its end token included", COUNT),
  maxObservationTokens: number(96, "largest number of tokens in an answer; longer ones are cut in the middle", COUNT),
  maxTokens: number(undefined, "largest number of tokens in an episode; by default the model's positions", COUNT),
  timeout: number(10_000, "milliseconds that an environment may take for a call, where it sets no limit itself", {
    above: 0,
    infinite: true,
  }),
  signal: inCode<AbortSignal>("ends live episodes (`aborted`)", "an AbortSignal", (value) => typeof value === "object"),
  maxConcurrent: number(
    undefined,
    "episodes at a time; by default 256, or fewer if their cache would take over 512 MiB",
    COUNT,
  ),
  burst: number(undefined, "tokens that are drawn before the host reads them; by default 1, on WebGPU 4", COUNT),
  version: number(0, "version of the policy, recorded with drawn tokens", {
    integer: true,
    min: 0,
  }),
});
/**
 * Options of `rollout`: the limits of an episode in actions, tokens and milliseconds, how many episodes are played at
 * once, and how tokens are drawn (`SamplingOptions`: temperature, top-k, top-p, min-p).
 */
export type RolloutOptions = OptionsOf<typeof ROLLOUT>;

const CACHE_BYTES = 2 ** 29;
/** The largest buffer that WebGPU binds by default. */
const TENSOR_BYTES = 2 ** 27;
const MOST_ROWS = 256;

const rowsThatFit = ({ config, params }: Model, maxTokens: number): number =>
  rowsAtOnce(config, maxTokens, bytesPerElement(params.embedding.dtype));

/** The number of episodes of up to `maxTokens` tokens that are played at once, unless `maxConcurrent` is given. */
export function rowsAtOnce(config: ModelConfig, maxTokens: number, bytesPerNumber: number): number {
  const bytes = maxTokens * config.kvHeads * config.headDim * bytesPerNumber;
  const fit = Math.min(CACHE_BYTES / (2 * config.layers * bytes), TENSOR_BYTES / bytes, MOST_ROWS);
  return Math.max(1, Math.floor(fit));
}

/** @throws if the model can draw tokens that the tokenizer does not know */
export function checkVocabulary(
  { vocabSize: rows }: Pick<ModelConfig, "vocabSize">,
  template: Template,
  where = "rollout",
): void {
  const tokens = (template as Template | undefined)?.tokenizer?.vocabSize;
  check(tokens !== undefined, () => `${where}: expected a Template, got ${showValue(template)}`);
  check(
    rows <= tokens,
    () =>
      `${where}: the model has embeddings of ${rows} tokens and the tokenizer has ${tokens}, so that the model would ` +
      "draw ids that nobody can read; give the tokenizer a name for each padding row (openModelFolder does), or make " +
      "the model without them",
  );
}

/** Plays all requested episodes to their end. The result is in the order of the requests. */
export async function rollout(
  model: Model,
  template: Template,
  requests: readonly EpisodeRequest[],
  options: RolloutOptions = {},
): Promise<Trajectory[]> {
  check(requests.length > 0, () => "rollout: the list of episodes is empty");
  const room = requests.map(({ spec, options: chosen }) => spec.atOnce?.(chosen) ?? Infinity);
  return playAll(playerFor(model, template, options, Math.min(requests.length, ...room)), requests);
}

/**
 * A player with these options.
 * @param expected the number of episodes at once; the player needs no more rows than that
 */
export function playerFor(model: Model, template: Template, given: RolloutOptions, expected: number): Player {
  const isModel: boolean = typeof (model as Model | undefined)?.params === "object";
  check(isModel, () => `rollout: expected a model { config, params }, got ${showValue(model)}`);
  const options = ROLLOUT.read(given);
  const { device } = model.params.embedding;
  checkVocabulary(model.config, template);
  const settings = settingsOf(template, options, model.config.maxPositions, burstFor(device));
  const { maxTokens } = settings.limits;
  const { maxConcurrent = rowsThatFit(model, maxTokens) } = options;
  const rows = Math.min(maxConcurrent, expected);
  // On WebGPU the bits of a matrix product may depend on its number of rows, so the rows must not depend on the
  // requests.
  const width = device.kind === "webgpu" ? { width: 2 ** Math.ceil(Math.log2(maxConcurrent)) } : {};
  return new Player(new Decoder(model, rows, maxTokens, width), { ...settings, rows });
}

/**
 * What the options say of a player.
 * @param positions the largest number of tokens of a text @param usual tokens that are drawn before the host reads them
 */
export function settingsOf(
  template: Template,
  options: ReturnType<typeof ROLLOUT.read>,
  positions: number,
  usual: number,
): Omit<PlayerOptions, "rows"> {
  const { temperature, topK, topP, minP, version, burst = usual, maxTokens = positions, ...limits } = options;
  check(maxTokens <= positions, () => `rollout: maxTokens ${maxTokens} exceeds the model's ${positions} positions`);
  return {
    limits: { ...limits, maxTokens, template, temperature: temperature === 0 ? 1 : temperature },
    draw: { temperature, topK, topP, minP, burst },
    version,
  };
}
