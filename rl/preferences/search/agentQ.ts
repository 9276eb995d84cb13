/**
 * Agent Q (Putta et al. 2024, arXiv 2408.07199): search each of some tasks with the current policy, prefer the better of sibling
 * actions, learn from the pairs against the policy that searched, repeat.
 *
 * Not the paper's: IPO with imitation in the place of plain DPO. On siblings, which differ in one short action, the sigmoid loss drives
 * both actions down and a weak policy with them (why: ../loop.ts; `policyLoss: dpo(), imitation: 0` is the paper's).
 */
import { check } from "../../../engine/errors.ts";
import { checkKeys } from "../../../engine/options.ts";
import { succeeded } from "../../episode/outcomes.ts";
import type { EnvironmentOptions, EnvironmentSpec } from "../../../environments/index.ts";
import { iteratePreferences, type IterationReport, LOOP_KEYS, type PreferenceLoopOptions } from "../loop.ts";
import type { Trajectory } from "../../episode/stream.ts";
import { modelActor, type ModelActorOptions } from "./actor.ts";
import { treeSearches } from "./mcts.ts";
import type { SearchOptions } from "./options.ts";
import { searchMetrics, type SearchPairOptions, searchPairs } from "./pairs.ts";
import { startEpisode } from "./position.ts";

export interface AgentQOptions extends PreferenceLoopOptions {
  readonly env: EnvironmentSpec;
  readonly envOptions: EnvironmentOptions;
  /** Tasks that are searched in an iteration. */
  readonly tasks: number;
  readonly search?: Omit<SearchOptions, "actor" | "template" | "rng">;
  readonly pairs?: SearchPairOptions;
  /** How the policy draws candidates and simulations. */
  readonly actor?: ModelActorOptions;
}
const AGENT_Q_KEYS: readonly string[] = [...LOOP_KEYS, "env", "envOptions", "tasks", "search", "pairs", "actor"];

export interface AgentQReport extends IterationReport {
  /** What the simulations played to the end: filter them (`filterRollouts`) for demonstrations. */
  readonly episodes: readonly Trajectory[];
}

/** One report an iteration. @throws on options that make no sense, or an environment that cannot be cloned */
export async function* trainAgentQ(options: AgentQOptions): AsyncGenerator<AgentQReport, void, void> {
  const { model, template, env, envOptions, tasks, search = {}, pairs: pairing = {}, actor: sampling = {} } = options;
  checkKeys("trainAgentQ", options, AGENT_Q_KEYS);
  check(Number.isInteger(tasks) && tasks >= 1, () => `trainAgentQ: tasks must be an integer ≥ 1, got ${tasks}`);
  const actor = modelActor(model, template, sampling);
  let episodes: readonly Trajectory[] = [];
  const loop = iteratePreferences("trainAgentQ", options, {
    async gather(_, rng) {
      const seeds = Array.from({ length: tasks }, (_task, i) => rng.split("task").split(i).int(2 ** 31)); // prettier-ignore
      const { signal, timeout } = search;
      const limits = { signal, ...(timeout === undefined ? {} : { timeout }) };
      const begun = await Promise.allSettled(seeds.map((seed, group) => startEpisode(env, envOptions, seed, template, { group, ...limits }))); // prettier-ignore
      // A task that cannot begin is lost for this iteration, and no more than that.
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
