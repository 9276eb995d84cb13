/**
 * What environments say of their episodes as metrics: the successes in each environment of a mixture, and numbers of
 * their own. `info/NAME` is the mean, over the episodes of a step or an evaluation that have it, of the field NAME of
 * the last answer's `info` (rl/environment.ts). A truth value counts as 1 or 0.
 */
import type { Metrics } from "../rl/episode/metrics.ts";
import { groupBy, mean } from "../rl/episode/groups.ts";
import { succeeded } from "../rl/episode/outcomes.ts";
import { rolloutRows, type Trajectory } from "../rl/episode/stream.ts";
import type { EpisodePlugin } from "../rl/tasks/plugin.ts";

/** Fields that have metrics of their own, or that every game reports. */
const OTHERS: ReadonlySet<string> = new Set([
  "answerEntropy",
  "falseCalls",
  "level",
  "score",
  "success",
  "toolErrors",
  "turns",
]);
/** The most metrics, and the longest name: a server may answer with thousands. */
const [MOST, LONGEST] = [24, 48];

const isName = (name: string): boolean => name.length <= LONGEST && /^[\w.-]+$/.test(name) && !OTHERS.has(name);

/** Episodes that were masked are left out, and numbers that are not finite. */
export function infoMetrics(trajectories: readonly Trajectory[]): Metrics {
  const rollouts = rolloutRows(trajectories).map((rows) => rows.map((row) => trajectories[row]!));
  const kept = rollouts.filter((rows) => !rows.some(({ masked }) => masked)).map((rows) => rows.at(-1)!);
  const values = new Map<string, number[]>();
  for (const { info } of kept) {
    for (const [name, value] of Object.entries(info)) {
      // A server's answer may have anything there, such as null, which is not 0.
      const isNumber = typeof value === "boolean" || (typeof value === "number" && Number.isFinite(value));
      if (!isNumber || !isName(name)) continue;
      const own = values.get(name);
      if (own) own.push(Number(value));
      else values.set(name, [Number(value)]);
    }
  }
  const names = [...values.keys()].toSorted().slice(0, MOST);
  const own = Object.fromEntries(names.map((name) => [`info/${name}`, mean(values.get(name)!)]));
  return { ...environmentMetrics(kept), ...own };
}

/**
 * In a mixture of environments, `rewards/NAME/mean` and `success/NAME` of each: the episodes say in `info.environment`
 * where they were played. Those without a score are left out.
 */
function environmentMetrics(episodes: readonly Trajectory[]): Metrics {
  const told = episodes.filter(({ info: { environment }, reward }) => {
    return typeof environment === "string" && isName(environment) && !Number.isNaN(reward);
  });
  const nameOf = ({ info }: Trajectory): string => String(info["environment"]);
  const ofEach = groupBy(told, nameOf).slice(0, MOST);
  return Object.fromEntries(
    ofEach.flatMap((own): [string, number][] => [
      [`rewards/${nameOf(own[0]!)}/mean`, mean(own.map(({ reward }) => reward))],
      [`success/${nameOf(own[0]!)}`, mean(own.map((episode) => Number(succeeded(episode))))],
    ]),
  );
}

/** They stand in the metrics of every run. */
export const infoPlugin: EpisodePlugin = { name: "info", metrics: infoMetrics };
