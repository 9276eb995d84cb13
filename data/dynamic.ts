/**
 * Dynamic sampling (DAPO, Yu et al. 2025, arXiv 2503.14476, §3.2): the policy learns nothing from groups whose outcomes
 * are all equal, so further groups are played until the requested number of groups has spread. Here the number of
 * refills is bounded, and groups without spread are kept: the policy term and its denominators leave them out, but
 * world models learn from them.
 */
import { check } from "../engine/errors.ts";
import { number, oneOf, options, type OptionsOf } from "../engine/optionTable.ts";
import { groupBy, rowsWithoutSpread } from "../rl/episode/groups.ts";
import type { Metrics } from "../rl/episode/metrics.ts";
import type { Trajectory } from "../rl/episode/stream.ts";
import type { EpisodeRequest } from "../rl/play/episode.ts";
import type { EpisodePlugin } from "../rl/tasks/plugin.ts";
import { pluginEntry } from "./entry.ts";

export const DYNAMIC_SAMPLING = options("dynamicSampling", {
  maxRefills: number(
    3,
    "largest number of refills after the first draw; each refill plays as many groups as are still missing",
    {
      integer: true,
      min: 0,
    },
  ),
  exhausted: oneOf(
    ["train", "fail"],
    "train",
    "what happens when the refills are used up: the step trains on what has spread, or the run ends (DAPO)",
  ),
});
/**
 * Dynamic sampling (DAPO, arXiv 2503.14476, §3.2), for `dynamicSampling`: `maxRefills`, default 3, bounds the number of
 * times that groups without spread are replaced by further ones, and `exhausted`, default `train`, decides what happens
 * then.
 */
export type DynamicSamplingOptions = OptionsOf<typeof DYNAMIC_SAMPLING>;

/** Plays further groups in place of those without spread, which the policy term leaves out. */
export function dynamicSampling(given?: DynamicSamplingOptions): EpisodePlugin {
  const settled = DYNAMIC_SAMPLING.read(given);
  return {
    name: "dynamicSampling",
    check({ groupSize = 2 }) {
      const isGroup = groupSize >= 2;
      check(isGroup, () => `trainRl: dynamicSampling needs groups of at least 2, got groupSize ${groupSize}`);
    },
    // Groups of equal rewards that remain when the refills are used up.
    objective: (objective) => ({ ...objective, dropConstantGroups: true }),
    play:
      (next, { isStopped, report, byPart }) =>
      async (first, count) => {
        const requests: EpisodeRequest[] = [];
        const draw = async (from: number, missing: number): Promise<readonly Trajectory[]> => {
          const played = await next(first + from, missing);
          requests.push(...played.requests);
          return played.trajectories;
        };
        const { trajectories, metrics } = await drawInformative(count, settled, draw, isStopped, byPart);
        report(metrics);
        return { requests, trajectories };
      },
  };
}

export const dynamicSamplingEntry = pluginEntry({
  name: "dynamicSampling",
  flag: {
    name: "dynamic-sampling",
    kind: "switch",
    about: "replaces tasks that all episodes solve, or none, by further tasks",
  },
  options: DYNAMIC_SAMPLING.fields,
  against: "groupSize",
  make: dynamicSampling,
});

/** The number of groups whose outcomes differ. @param byPart see `rowsWithoutSpread` */
export function informativeGroups(trajectories: readonly Trajectory[], byPart = false): number {
  const constant = rowsWithoutSpread(trajectories, byPart);
  return new Set(trajectories.flatMap((t, row) => (constant.has(row) ? [] : [t.group]))).size;
}

/** All episodes that were played, in order, with counts of groups and refills. */
export interface DynamicDraw {
  readonly trajectories: readonly Trajectory[];
  readonly metrics: Metrics;
}

/**
 * Plays groups until `wanted` of them have spread, or the refills are used up.
 * @param play plays `count` new groups, the first of which has the number `first`
 * @param isStopped called after every round; true ends the refills
 * @param byPart whether a group with spread in one component of its reward counts (GDPO)
 * @throws if the refills are used up and `exhausted` is `fail`
 */
export async function drawInformative(
  wanted: number,
  given: DynamicSamplingOptions,
  play: (first: number, count: number) => Promise<readonly Trajectory[]>,
  isStopped: () => boolean = () => false,
  byPart = false,
): Promise<DynamicDraw> {
  const { maxRefills, exhausted } = DYNAMIC_SAMPLING.read(given);
  const trajectories: Trajectory[] = [];
  let [drawn, kept, refills] = [0, 0, 0];
  for (; ; refills++) {
    const missing = wanted - kept;
    trajectories.push(...(await play(drawn, missing)));
    drawn += missing;
    kept = informativeGroups(trajectories, byPart);
    if (kept >= wanted || isStopped()) break;
    if (refills < maxRefills) continue;
    const what = `${kept} of ${drawn} groups have outcomes that differ, after ${refills} refills`;
    check(exhausted === "train", () => `dynamicSampling: expected ${wanted} groups to learn from; ${what}`);
    break;
  }
  const metrics = {
    "dynamic_sampling/drawn_groups": drawn,
    "dynamic_sampling/kept_groups": kept,
    "dynamic_sampling/refills": refills,
  };
  return { trajectories, metrics };
}

/** The rows of each group, in order of first appearance. */
export const rowsByGroup = (trajectories: readonly Trajectory[]): Trajectory[][] =>
  groupBy(trajectories, ({ group }) => group);
