/**
 * The page's own experiment, recorded in Node, so that a visitor sees at once where it leads. Live curves are drawn
 * over it; with nothing changed they are the same.
 */
import { formatAs } from "../run/figures/format.ts";
import type { Line } from "../run/page/lineChart.ts";
import type { PageExperiment } from "./experiment.ts";
import { RECORDED_RUN } from "./recordedRun.ts";

export interface Recorded {
  /** A line for each agent. */
  readonly success: readonly Line[];
  readonly about: string;
}

/** What the page's knobs and a device change: with them, the recorded run is what the live one is compared with. */
const CHANGED: readonly string[] = ["train.facts", "train.hints", "device"];

/** @returns undefined if the experiment has another world, other methods or another warm start */
export function recordedFor({ words, agents }: PageExperiment): Recorded | undefined {
  const methods = (all: readonly { readonly method: string }[]): string => all.map(({ method }) => method).join();
  if (methods(agents.map(({ preset }) => preset.rl)) !== methods(RECORDED_RUN)) return undefined;
  if (!Object.keys(words.shared).every((key) => CHANGED.includes(key))) return undefined;
  const ends = RECORDED_RUN.map(
    ({ success }, i) => `${agents[i]!.arm.label} ${formatAs("percent", success.at(-1)![1])}`,
  );
  const about = `Dotted: an earlier run: ${ends.join(", ")}.`;
  return { success: RECORDED_RUN.map(({ success }) => success), about };
}
