/**
 * Rollouts: the model acts in environments until every episode has ended. All live episodes share one batch and one cache. Each
 * step feeds every live row as many tokens as the shortest waiting list has (one, unless all have just been answered), so there
 * is no padding: while one row samples, another reads its observation. Finished episodes leave the batch.
 *
 * Episode e draws from its own random stream, so what it does does not depend on the others. An environment that throws or
 * takes too long ends its episode, masked; a bad action never does: the error comes back as an observation.
 */
import { check } from "../engine/errors.ts";
import { checkKeys } from "../engine/options.ts";
import type { Rng } from "../engine/random.ts";
import { checkSampling, Decoder, SAMPLING_KEYS, type SamplingOptions, sampleToken } from "../nn/sampler.ts";
import type { Model } from "../nn/transformer.ts";
import type { Environment, EnvironmentSpec, EnvironmentOptions, StepResult } from "./environments/environment.ts";
import { append, emptyStream, type StopReason, type TokenStream, type Trajectory } from "./stream.ts";
import type { Template } from "./template.ts";

export interface RolloutOptions extends SamplingOptions {
  /** Actions at most in an episode; default 8. */
  readonly maxTurns?: number;
  /** Tokens at most in one action, its end included; default 48. */
  readonly maxActionTokens?: number;
  /** Tokens at most of one answer; longer ones are cut in the middle. Default 96. */
  readonly maxObservationTokens?: number;
  /** Tokens at most in an episode; default: the model's positions. */
  readonly maxTokens?: number;
  /** Milliseconds that an environment may take for one call; default 10,000. */
  readonly timeout?: number;
  /** Ends the rollout early: live episodes stop with `aborted`. */
  readonly signal?: AbortSignal;
}

const ROLLOUT_KEYS: readonly string[] = [
  ...SAMPLING_KEYS,
  "maxTurns",
  "maxActionTokens",
  "maxObservationTokens",
  "maxTokens",
  "timeout",
  "signal",
];

/** What to play: `group` numbers the task, `seed` makes it, `rng` is the stream that its actions are drawn from (used up by playing). */
export interface EpisodeRequest {
  readonly spec: EnvironmentSpec;
  readonly options: EnvironmentOptions;
  readonly seed: number;
  readonly group: number;
  readonly rng: Rng;
}

interface Episode {
  readonly request: EpisodeRequest;
  readonly env: Environment;
  readonly stream: TokenStream;
  readonly rewards: number[];
  task: string;
  turn: number;
  info: Trajectory["info"];
  stop: StopReason | null;
  /** Tokens that the model has not seen yet. */
  pending: number[];
  action: number[];
  logProbs: number[];
  /** The action is complete; the environment is to answer. */
  answering: boolean;
}

const MASKED: ReadonlySet<StopReason> = new Set(["tool_error", "timeout", "aborted"]);
/** Cut short for want of tokens: the reward is 0, whatever was earned before, and the episode is trained on (arXiv 2605.24517). */
const TRUNCATED: ReadonlySet<StopReason> = new Set(["max_tokens", "context_overflow"]);

/** Plays all requested episodes to their end, in one batch. The result is in the order of the requests. */
export async function rollout(
  model: Model,
  template: Template,
  requests: readonly EpisodeRequest[],
  options: RolloutOptions = {},
): Promise<Trajectory[]> {
  checkKeys("rollout", options, ROLLOUT_KEYS);
  const { maxTurns = 8, maxActionTokens = 48, maxObservationTokens = 96, timeout = 10_000, signal } = options;
  const { maxTokens = model.config.maxPositions } = options;
  const sampling = checkSampling(options);
  const V = model.config.vocabSize;
  check(requests.length > 0, () => "rollout: the list of episodes is empty");
  for (const [name, value] of Object.entries({ maxTurns, maxActionTokens, maxObservationTokens, maxTokens })) {
    check(Number.isInteger(value) && value >= 1, () => `rollout: ${name} must be an integer ≥ 1, got ${value}`);
  }
  check(timeout > 0, () => `rollout: timeout must be > 0 milliseconds, got ${timeout}`);
  check(maxTokens <= model.config.maxPositions, () => `rollout: maxTokens ${maxTokens} exceeds the model's ${model.config.maxPositions} positions`); // prettier-ignore

  const episodes = await Promise.all(requests.map((request) => begin(request, template, maxTokens, timeout, signal)));
  /** One entry per row of the decoder; an episode that has stopped keeps its row until the batch is narrowed. */
  let rows = episodes.filter((e) => e.stop === null);
  if (rows.length === 0) return episodes.map(finish);
  const decoder = new Decoder(model, rows.length, maxTokens);
  try {
    for (;;) {
      const live = rows.filter((e) => e.stop === null);
      if (live.length === 0) break;
      if (live.length <= 0.75 * rows.length) {
        decoder.select(rows.flatMap((e, row) => (e.stop === null ? [row] : [])));
        rows = live;
      }
      const count = Math.min(...live.map((e) => e.pending.length));
      const logits = await decoder.feed(rows.map((e) => (e.stop === null ? e.pending.splice(0, count) : [])));
      rows.forEach((e, row) => {
        if (e.stop === null && e.pending.length === 0) sampleNext(e, logits.subarray(row * V, (row + 1) * V));
      });
      await Promise.all(rows.filter((e) => e.answering).map(answer));
    }
  } finally {
    decoder.dispose();
  }
  return episodes.map(finish);

  /** Adds one token to the action; the action is over with its end token or when there is no room for more. */
  function sampleNext(e: Episode, logits: Float32Array | Float64Array): void {
    const token = sampleToken(logits, sampling, e.request.rng);
    e.action.push(token.id);
    e.logProbs.push(token.logProb);
    const room = maxTokens - e.stream.ids.length - e.action.length;
    if (token.id === template.endId) e.answering = true;
    else if (signal?.aborted) e.stop = "aborted";
    else if (room <= 0) e.stop = "context_overflow";
    else if (e.action.length >= maxActionTokens) e.stop = "max_tokens";
    if (e.answering || e.stop !== null) {
      const temperature = sampling.temperature === 0 ? 1 : sampling.temperature;
      append(e.stream, "action", e.turn, e.action, { oldLogProbs: e.logProbs, temperature });
    } else e.pending = [token.id];
  }

  /** Gives the action to the environment and its answer to the stream. */
  async function answer(e: Episode): Promise<void> {
    const { action } = e;
    [e.action, e.logProbs, e.answering] = [[], [], false];
    const text = template.actionText(action);
    const result = await guarded(e, (s) => e.env.step(text, { signal: s }), timeout, signal);
    if (result === null) return;
    e.rewards.push(result.reward);
    e.info = result.info;
    const lastTurn = e.turn + 1 >= maxTurns;
    const ids = template.encodeObservation(result.observation, maxObservationTokens);
    // <|obs|> and <|end|>; unless the episode is over also <|act|> and at least one token of the next action.
    const needed = ids.length + (result.done || lastTurn ? 2 : 4);
    if (e.stream.ids.length + needed > maxTokens) {
      e.stop = result.done ? "completed" : "context_overflow";
      return;
    }
    const before = e.stream.ids.length;
    template.appendObservation(e.stream, e.turn, ids, "", result.done || lastTurn);
    // The model has sampled the action's last token but not read it yet.
    e.pending = [action.at(-1)!, ...e.stream.ids.slice(before)];
    e.turn++;
    if (result.done) e.stop = "completed";
    else if (lastTurn) e.stop = "max_turns";
  }
}

async function begin(
  request: EpisodeRequest,
  template: Template,
  maxTokens: number,
  timeout: number,
  signal: AbortSignal | undefined,
): Promise<Episode> {
  const env = request.spec.make(request.options);
  const stream = emptyStream();
  const episode: Episode = { request, env, stream, rewards: [], task: "", turn: 0, info: {}, stop: null, pending: [], action: [], logProbs: [], answering: false }; // prettier-ignore
  const task = await guarded(episode, (s) => env.reset(request.seed, { signal: s }), timeout, signal);
  if (task === null) return episode;
  episode.task = task;
  template.appendTask(stream, task);
  check(stream.ids.length < maxTokens, () => `rollout: the task of ${env.name} takes ${stream.ids.length} tokens, only ${maxTokens} fit`); // prettier-ignore
  episode.pending = [...stream.ids];
  return episode;
}

/** A call of the environment within its time; `null` if it failed, with the episode's stop reason set. */
async function guarded<R extends string | StepResult>(
  e: Episode,
  call: (signal: AbortSignal) => Promise<R>,
  timeout: number,
  outer: AbortSignal | undefined,
): Promise<R | null> {
  const clock = new AbortController();
  const timer = setTimeout(() => clock.abort(new Error(`${e.env.name}: no answer within ${timeout} ms`)), timeout);
  const signal = outer ? AbortSignal.any([clock.signal, outer]) : clock.signal;
  let onAbort = (): void => {};
  const aborted = new Promise<never>((_, reject) => {
    onAbort = (): void => reject(signal.reason as Error);
    signal.addEventListener("abort", onAbort, { once: true });
  });
  aborted.catch(() => undefined);
  try {
    signal.throwIfAborted();
    return await Promise.race([call(signal), aborted]);
  } catch (error) {
    e.stop = outer?.aborted ? "aborted" : clock.signal.aborted ? "timeout" : "tool_error";
    e.info = { ...e.info, error: error instanceof Error ? error.message : String(error) };
    return null;
  } finally {
    clearTimeout(timer);
    signal.removeEventListener("abort", onAbort); // else the combined signal lives as long as the outer one
  }
}

function finish(e: Episode): Trajectory {
  return {
    stream: e.stream,
    group: e.request.group,
    reward: TRUNCATED.has(e.stop!) ? 0 : e.rewards.reduce((a, b) => a + b, 0),
    stepRewards: e.rewards,
    stopReason: e.stop!,
    masked: MASKED.has(e.stop!),
    env: e.request.spec.name,
    task: e.task,
    seed: e.request.seed,
    info: e.info,
  };
}
