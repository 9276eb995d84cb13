/**
 * A plug-in of its own, for tests: it remembers the episodes of highest return and imitates them in every step
 * (self-imitation, as in Oh et al. 2018, arXiv 1806.05635, without its advantage).
 */
import { number, options, type OptionsOf } from "../../engine/optionTable.ts";
import type { Trajectory } from "../../rl/episode/stream.ts";
import type { EpisodePlugin } from "../../rl/tasks/plugin.ts";
import { pluginEntry } from "../../data/entry.ts";

const BEST = options("best", {
  count: number(1, "how many episodes are remembered", { integer: true, min: 1 }),
  weight: number(0.5, "weight of imitating them", { above: 0 }),
});

export function best(given?: OptionsOf<typeof BEST>): EpisodePlugin {
  const { count, weight } = BEST.read(given);
  let kept: readonly Trajectory[] = [];
  return {
    name: "best",
    extend({ own }) {
      const scored = own.filter(({ masked, reward }) => !masked && !Number.isNaN(reward));
      kept = [...kept, ...scored].toSorted((a, b) => b.reward - a.reward).slice(0, count);
      return { imitated: { episodes: kept, weight }, metrics: { "best/return": kept[0]?.reward ?? NaN } };
    },
    state: () => kept,
    restore: (state) => void (kept = state as readonly Trajectory[]),
  };
}

export const bestEntry = pluginEntry({
  name: "best",
  flag: { name: "best-episodes", kind: "count", option: "count", about: "imitates the N best episodes so far" },
  options: BEST.fields,
  make: best,
});
