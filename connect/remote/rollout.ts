/**
 * Episodes that a remote sampler plays: environments, templates and limits are those of `rollout`; only the tokens are
 * drawn elsewhere, with one request for each action. The server's kernels are not ours, so the log-probabilities that
 * it records differ a little from those of our forward pass. Therefore a step on such episodes is off-policy
 * (`offPolicy: true`); `importanceCorrection` corrects for it, and `mismatch` measures it.
 */
import { check } from "../../engine/errors.ts";
import type { Model } from "../../nn/index.ts";
import type { Metrics } from "../../rl/episode/metrics.ts";
import { hasFailed, type Trajectory } from "../../rl/episode/stream.ts";
import type { Template } from "../../rl/episode/template.ts";
import { offPolicyMetrics } from "../../methods/importanceCorrection.ts";
import { Episode, type EpisodeLimits, type EpisodeRequest } from "../../rl/play/episode.ts";
import { ROLLOUT, type RolloutOptions } from "../../rl/play/rollout.ts";
import { tokenStatistics } from "../../rl/train/score.ts";
import { RemoteError, type RemoteSampler } from "./sampler.ts";

/** Options of `remoteRollout`: those of `rollout`, and the context of the model, which is on the server. */
export interface RemoteRolloutOptions extends RolloutOptions {
  /** The largest number of tokens in an episode. */
  readonly maxTokens: number;
}

/**
 * Plays all requested episodes to their end, `maxConcurrent` (default 64) at a time. The result is in the order of the
 * requests. An episode whose server fails is masked (`tool_error`); if all fail, the first one's error is thrown.
 */
export async function remoteRollout(
  sampler: RemoteSampler,
  template: Template,
  requests: readonly EpisodeRequest[],
  given: RemoteRolloutOptions,
): Promise<Trajectory[]> {
  const {
    temperature,
    topK,
    topP,
    minP,
    version,
    burst: _,
    maxConcurrent = 64,
    maxTokens,
    ...rest
  } = ROLLOUT.read(given);
  check(requests.length > 0, () => "remoteRollout: the list of episodes is empty");
  check(maxTokens !== undefined, () => "remoteRollout: maxTokens must be given: the server has the model");
  check(
    topK === 0 && topP === 1 && minP === 0,
    () => "remoteRollout: top-k, top-p and min-p would make log-probabilities of another distribution",
  );
  check(temperature > 0, () => "remoteRollout: temperature must be above 0");
  const limits: EpisodeLimits = { ...rest, maxTokens, template, temperature };
  const finished: Trajectory[] = [];
  const failures: unknown[] = [];
  let next = 0;
  const worker = async (): Promise<void> => {
    while (next < requests.length) {
      const i = next++;
      finished[i] = await playOne(sampler, requests[i]!, limits, version, failures);
    }
  };
  await Promise.all(Array.from({ length: Math.min(maxConcurrent, requests.length) }, worker));
  if (failures.length === requests.length) throw failures[0];
  return finished;
}

async function playOne(
  sampler: RemoteSampler,
  request: EpisodeRequest,
  limits: EpisodeLimits,
  version: number,
  failures: unknown[],
): Promise<Trajectory> {
  const episode = new Episode(request, limits);
  try {
    await episode.begin();
    for (let turn = 0; episode.stop === null; turn++) {
      const prompt = episode.tokens;
      const maxTokens = Math.min(limits.maxActionTokens, limits.maxTokens - prompt.length);
      const seed = request.rng.split(turn).int(2 ** 31);
      const { temperature, template, signal } = limits;
      const { tokens } = await sampler.sample({
        prompt,
        maxTokens,
        temperature,
        endIds: template.endIds,
        seed,
        signal,
      });
      const drawn = tokens.map(({ id, logProb }) => ({ id, logProb, plainLogProb: logProb, samplingLogProb: logProb }));
      const isComplete = episode.takeTokens(drawn, version);
      if (isComplete) await episode.answer();
      else if (episode.stop === null) {
        throw new RemoteError(`${sampler.name}: the answer ended after ${tokens.length} tokens, before its end token`);
      }
    }
  } catch (error) {
    failures.push(error);
    episode.stop = limits.signal?.aborted ? "aborted" : "tool_error";
    const { info, ...played } = episode.trajectory();
    return { ...played, info: { ...info, error: error instanceof Error ? error.message : String(error) } };
  } finally {
    episode.close();
  }
  return episode.trajectory();
}

/**
 * The distance of the sampler's recorded log-probabilities from those of our own forward pass: metrics under verl's
 * names (`rollout_corr/kl`, …), and the largest difference of a token (`rollout_corr/max_abs_diff`).
 */
export async function mismatch(
  model: Model,
  template: Template,
  trajectories: readonly Trajectory[],
): Promise<Metrics> {
  const played = trajectories.filter((t) => !hasFailed(t));
  const { logProbs = [] } = await tokenStatistics({ model }, ["logProbs"], played, { padId: template.padId });
  const differences = played.flatMap(({ stream }, row) =>
    stream.roles.flatMap((role, t) =>
      role === "action" || role === "thought" ? [Math.abs(logProbs[row]![t]! - stream.oldLogProbs[t]!)] : [],
    ),
  );
  const largest = differences.reduce((a, b) => Math.max(a, b), 0);
  return { ...offPolicyMetrics(played, logProbs), "rollout_corr/max_abs_diff": largest };
}
