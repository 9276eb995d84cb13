/**
 * Agent Q (Putta et al. 2024, arXiv 2408.07199). Each iteration searches some tasks with the current policy, makes
 * pairs of sibling actions, and learns from the pairs with the policy that searched as the reference.
 *
 * Differs from the paper: the default is IPO with imitation instead of plain DPO. On siblings, which differ in one
 * short action, the sigmoid loss lowers both actions and makes a weak policy worse (../loop.ts explains why). For the
 * paper's loss set `policyLoss: dpo(), imitation: 0`.
 */
import { check } from "../../../engine/errors.ts";
import { checkKeys } from "../../../engine/options.ts";
import { succeeded } from "../../../rl/episode/outcomes.ts";
import type { EnvironmentOptions, EnvironmentSpec } from "../../../rl/environment.ts";
import { iteratePreferences, type IterationReport, LOOP_KEYS, type PreferenceLoopOptions } from "../loop.ts";
import type { Trajectory } from "../../../rl/episode/stream.ts";
import { modelActor, type ModelActorOptions } from "./actor.ts";
import { treeSearches } from "./mcts.ts";
import type { SearchOptions } from "./options.ts";
import { searchMetrics, type SearchPairOptions, searchPairs } from "./pairs.ts";
import { startEpisode } from "./position.ts";

/**
 * Options of `trainAgentQ`: the tasks that each iteration searches, the options of its searches and pairs, and the
 * training on the pairs (`PreferenceLoopOptions`).
 */
export interface AgentQOptions extends PreferenceLoopOptions {
  readonly env: EnvironmentSpec;
  readonly envOptions: EnvironmentOptions;
  /** The number of tasks that an iteration searches. */
  readonly tasks: number;
  readonly search?: Omit<SearchOptions, "actor" | "template" | "rng">;
  readonly pairs?: SearchPairOptions;
  /** Sampling of the policy's actions, for candidates and simulations. */
  readonly actor?: ModelActorOptions;
}
const MAX_SEED = 2 ** 31;
const AGENT_Q_KEYS = [...LOOP_KEYS, "env", "envOptions", "tasks", "search", "pairs", "actor"] as const;

/** Report of `trainAgentQ` after an iteration: its pairs, its metrics and the episodes of its searches. */
export interface AgentQReport extends IterationReport {
  /** The episodes that simulations played to the end. Filtered by `filterRollouts` they are demonstrations. */
  readonly episodes: readonly Trajectory[];
}

/** Trains with one report per iteration. @throws on invalid options, or if the environment cannot be cloned */
export async function* trainAgentQ(options: AgentQOptions): AsyncGenerator<AgentQReport, void, void> {
  const { model, template, env, envOptions, tasks, search = {}, pairs: pairing = {}, actor: sampling = {} } = options;
  checkKeys("trainAgentQ", options, AGENT_Q_KEYS);
  check(Number.isInteger(tasks) && tasks >= 1, () => `trainAgentQ: tasks must be an integer ≥ 1, got ${tasks}`);
  const actor = modelActor(model, template, sampling);
  let episodes: readonly Trajectory[] = [];
  const loop = iteratePreferences("trainAgentQ", options, {
    async gather(_, rng) {
      const seeds = Array.from({ length: tasks }, (_task, i) => rng.split("task").split(i).int(MAX_SEED));
      const { signal, timeout } = search;
      const limits = { signal, ...(timeout === undefined ? {} : { timeout }) };
      const starting = seeds.map((seed, group) => startEpisode(env, envOptions, seed, template, { group, ...limits }));
      const begun = await Promise.allSettled(starting);
      // A task that cannot begin is left out of this iteration.
      const starts = begun.flatMap((result) => (result.status === "fulfilled" ? [result.value] : []));
      episodes = [];
      if (signal?.aborted) {
        for (const start of starts) start.env.close?.();
        return { pairs: [], metrics: {}, aborted: true };
      }
      if (starts.length === 0) throw (begun[0] as PromiseRejectedResult).reason as Error;
      try {
        const results = await treeSearches(starts, { ...search, actor, template, rng: rng.split("search") });
        episodes = results.flatMap((result) => result.episodes);
        const perTask = results.map((result) => searchPairs(result, pairing));
        const solved = results.filter(({ best }) => best && succeeded(best)).length;
        const metrics = {
          ...searchMetrics(results),
          "search/solved": solved / starts.length,
          "search/tasks_with_pairs": perTask.filter((list) => list.length > 0).length / starts.length,
          "search/failed_starts": tasks - starts.length,
        };
        return { pairs: perTask.flat(), metrics, aborted: signal?.aborted ?? false };
      } finally {
        for (const start of starts) start.env.close?.();
      }
    },
  });
  for await (const report of loop) yield { ...report, episodes };
}
