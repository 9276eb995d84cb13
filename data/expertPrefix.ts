/**
 * A second try with help, for tasks at which a whole group failed: the first actions are given, and the model plays on
 * from there. As in ActGuide-RL (arXiv 2605.12004), only groups without a success are helped, and with as few actions
 * as possible.
 *
 * This differs from the paper: there the actions are put into the prompt as a plan, and the policy with a plan differs
 * from the one without. Here the actions are *played*, so the model continues from a real state of the task, and its
 * tokens are exactly on-policy. The given actions have the role `prompt`: they are neither trained as policy nor
 * targets of the world model.
 */
import { inCode, number, options, type OptionsOf } from "../engine/optionTable.ts";
import type { Environment } from "../rl/environment.ts";
import type { EpisodeRequest } from "../rl/play/episode.ts";
import type { Metrics } from "../rl/episode/metrics.ts";
import { isAgentToken, type Trajectory } from "../rl/episode/stream.ts";
import { type Success, succeeded, successRate } from "../rl/episode/outcomes.ts";
import { expertOf } from "./demonstrations.ts";
import { rowsByGroup } from "./dynamic.ts";
import type { EpisodePlugin } from "../rl/tasks/plugin.ts";
import { EXPERT, pluginEntry } from "./entry.ts";

export const EXPERT_PREFIX = options("expertPrefix", {
  maxPrefix: number(4, "largest number of actions that are given; 1, 2, … are tried in turn until one helps", {
    integer: true,
    min: 1,
  }),
  action: inCode<(env: Environment, request: EpisodeRequest, turn: number) => string>(
    "the action to give in this live episode; by default the expert's",
    "a function of the environment, the request and the turn",
    (value) => typeof value === "function",
  ),
  success: inCode<Success>(
    "whether an episode succeeded; by default what the environment reports, or, if it reports nothing, a positive " +
      "return",
    "a function of the trajectory",
    (value) => typeof value === "function",
  ),
});
/**
 * A second try with help for groups that failed (after ActGuide-RL, arXiv 2605.12004), for `expertPrefix`: the
 * first 1, 2, … up to `maxPrefix` (default 4) actions are given, by default by the environment's expert.
 */
export type ExpertPrefixOptions = OptionsOf<typeof EXPERT_PREFIX>;

/** Plays groups without a success a second time, with some actions given. */
export function expertPrefix(given?: ExpertPrefixOptions): EpisodePlugin {
  const { maxPrefix, action, success } = EXPERT_PREFIX.read(given);
  return {
    name: "expertPrefix",
    play(next, { play, isStopped, report }) {
      const rounds: Metrics[] = [];
      return async (first, count) => {
        const played = await next(first, count);
        if (isStopped()) return played;
        const { requests, trajectories } = played;
        const helped = await retryWithPrefix(requests, trajectories, { maxPrefix, action, success }, play);
        rounds.push(helped.metrics);
        report(added(rounds));
        return {
          requests: [...requests, ...helped.requests],
          trajectories: [...trajectories, ...helped.trajectories],
        };
      };
    },
  };
}

const { maxPrefix: MAX_PREFIX } = EXPERT_PREFIX.fields;
export const expertPrefixEntry = pluginEntry({
  name: "expertPrefix",
  flag: {
    name: "expert-prefix",
    kind: "switch",
    about: "repeats tasks that no episode solves, with the expert's first actions given",
  },
  options: { maxPrefix: MAX_PREFIX },
  needs: EXPERT,
  make: expertPrefix,
});

/** The number of a group with a given prefix: that of a helped group (`isHelped`). */
export const prefixedGroup = (group: number): number => -1 - group;

/** The request with the first `length` actions given and its own random stream. */
export function prefixedRequest(
  request: EpisodeRequest,
  length: number,
  options: ExpertPrefixOptions = {},
): EpisodeRequest {
  const helped = { ...request, group: prefixedGroup(request.group), rng: request.rng.split("guided").split(length) };
  return withPrefix(helped, length, options.action && ((env, turn): string => options.action!(env, request, turn)));
}

/** The request with its first `length` actions given: by `action`, or by the environment's expert. */
export function withPrefix(
  request: EpisodeRequest,
  length: number,
  action?: (env: Environment, turn: number) => string,
): EpisodeRequest {
  const act = action ?? expertOf(request.spec);
  const { spec, options, seed, group, rng } = request;
  return {
    spec,
    options,
    seed,
    group,
    rng,
    ...(action ? {} : { given: [{ kind: "expertPrefix", length }] }),
    forced: (turn, _task, env) => (turn < length ? act(env, turn) : undefined),
  };
}

export interface PrefixedDraw {
  /**
   * The requests of the groups that were helped, by length of the prefix and then in the order of their failures. Tries
   * that did not help are left out.
   */
  readonly requests: readonly EpisodeRequest[];
  readonly trajectories: readonly Trajectory[];
  readonly metrics: Metrics;
}

/**
 * Plays every group without a success again, with 1, 2, … actions given, until one of its episodes in which the model
 * acted succeeds. The failed group stays in the step unchanged. It is not compared with the group that has the prefix,
 * because the two start from different states.
 * @param requests the requests of `trajectories`, which were played without help
 * @param play plays episodes, in the order of the requests
 */
export async function retryWithPrefix(
  requests: readonly EpisodeRequest[],
  trajectories: readonly Trajectory[],
  given: ExpertPrefixOptions,
  play: (requests: readonly EpisodeRequest[]) => Promise<readonly Trajectory[]>,
): Promise<PrefixedDraw> {
  const { maxPrefix, success = succeeded } = EXPERT_PREFIX.read(given);
  const failed = rowsByGroup(trajectories).filter((rows) => successRate(rows, success) === 0);
  let open = failed.map(([first]) => requests.filter(({ group }) => group === first!.group));
  const helped: { requests: EpisodeRequest[]; rows: Trajectory[]; length: number }[] = [];
  let tries = 0;
  for (let length = 1; length <= maxPrefix && open.length > 0; length++) {
    const prefixed = open.map((group) => group.map((request) => prefixedRequest(request, length, given)));
    const played = rowsByGroup(await play(prefixed.flat()));
    tries += prefixed.length;
    open = open.filter((_, i) => {
      const rows = played.find(([first]) => first!.group === prefixed[i]![0]!.group) ?? [];
      const acted = rows.filter((row) => row.stream.roles.some(isAgentToken));
      const rate = successRate(acted, success) ?? 0;
      if (rate > 0) helped.push({ requests: prefixed[i]!, rows, length });
      // If the model wrote no token, the prefix was the whole solution or the environment failed, so a longer prefix
      // cannot help.
      return rate === 0 && acted.length > 0;
    });
  }
  const lengths = helped.reduce((n, { length }) => n + length, 0);
  return {
    requests: helped.flatMap((group) => group.requests),
    trajectories: helped.flatMap((group) => group.rows),
    metrics: {
      "expert_prefix/failed_groups": failed.length,
      "expert_prefix/helped_groups": helped.length,
      "expert_prefix/tries": tries,
      ...(helped.length > 0 ? { "expert_prefix/prefix_mean": lengths / helped.length } : {}),
    },
  };
}

/**
 * The metrics of several rounds: counts are added, and the mean length of a prefix is over all prefixes that helped.
 */
function added(rounds: readonly Metrics[]): Metrics {
  const sum: Metrics = {};
  let actions = 0;
  for (const round of rounds) {
    for (const [name, value] of Object.entries(round)) sum[name] = (sum[name] ?? 0) + value;
    actions += (round["expert_prefix/prefix_mean"] ?? 0) * (round["expert_prefix/helped_groups"] ?? 0);
  }
  return actions > 0 ? { ...sum, "expert_prefix/prefix_mean": actions / sum["expert_prefix/helped_groups"]! } : sum;
}
