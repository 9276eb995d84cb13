/**
 * The page's own experiment, recorded in Node: what a visitor who has changed something compares with. With nothing
 * changed the live curves are the same, and a line below them would only tell the end.
 */
import { formatAs } from "../run/figures/format.ts";
import type { Line } from "../run/page/lineChart.ts";
import type { PageExperiment } from "./experiment.ts";
import { RECORDED_RUN } from "./recordedRun.ts";

/** What came of other seeds: docs/evidence.md has it, and tests/site/ending.test.ts compares. */
export const TEN_RUNS =
  "In ten runs with other computers: 17.7 % with rewards alone and 54.7 % with predictions, ahead in ten of ten.";

export interface Recorded {
  /** A line for each agent; none for an experiment with nothing changed. */
  readonly success: readonly Line[];
  readonly about: string;
}

/** What the page's knobs and a device change: with them, the recorded run is what the live one is compared with. */
const CHANGED: readonly string[] = ["train.facts", "train.hints", "device"];

/** Whether the experiment has the world, the methods and the warm start of the page's own. */
export function isOwn({ words, agents }: PageExperiment): boolean {
  const methods = (all: readonly { readonly method: string }[]): string => all.map(({ method }) => method).join();
  if (methods(agents.map(({ preset }) => preset.rl)) !== methods(RECORDED_RUN)) return false;
  return Object.keys(words.shared).every((key) => CHANGED.includes(key));
}

/** @returns undefined if the experiment cannot be compared with it */
export function recordedFor(experiment: PageExperiment): Recorded | undefined {
  if (!isOwn(experiment)) return undefined;
  if (experiment.isUnchanged) return { success: [], about: TEN_RUNS };
  const { agents } = experiment;
  const ends = RECORDED_RUN.map(
    ({ success }, i) => `${agents[i]!.arm.label} ${formatAs("percent", success.at(-1)![1])}`,
  );
  const about = `Dotted: with nothing changed: ${ends.join(", ")}.`;
  return { success: RECORDED_RUN.map(({ success }) => success), about };
}
