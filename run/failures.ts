/**
 * The behaviour of a run while its environment fails: it waits, and keeps the step from which it can continue. The loop
 * of RL ends it after a few such steps (rl/train/watch.ts), and an evaluation that could not be played ends it here.
 */
import { playAll } from "../data/demonstrations.ts";
import { check, reasonOf, WorldgradError } from "../engine/errors.ts";
import { wasPlayed } from "../rl/evaluate.ts";
import { causeOf, type Trajectory } from "../rl/episode/stream.ts";
import { failureOf } from "../rl/train/watch.ts";
import type { Watch } from "./observer.ts";
import { UsageError } from "./usage.ts";

/**
 * The pause after a step that failed, in seconds. Steps without episodes take no time if a server refuses connections;
 * with two pauses between three of them, a server that restarts is back before the run stops.
 */
const PAUSE = 10;

/**
 * @throws WorldgradError if fewer than half of the episodes of an evaluation were played, as the rest is no sample, or
 * the environment failed in all of them
 */
export function checkMeasured(episodes: readonly Trajectory[]): void {
  const lost = episodes.filter((episode) => !wasPlayed(episode));
  check(
    2 * lost.length <= episodes.length,
    () =>
      `the evaluation could play only ${episodes.length - lost.length} of its ${episodes.length} episodes, and ` +
      `needs half of them. The first error: ${String(lost[0]!.info["error"])}`,
  );
  const error = failureOf(episodes);
  const place = error === undefined ? "" : placeOf(causeOf(episodes[0]!.stream));
  check(error === undefined, () => `every episode of the evaluation failed. The first error: ${error}${place}`);
}

/**
 * Where foreign code threw this, ` (at play (/my/world.ts:7:12))`: the innermost line of its stack. Nothing of errors
 * of the library, whose messages say what was wrong, and of what has no stack.
 */
export function placeOf(cause: unknown): string {
  if (!(cause instanceof Error) || cause instanceof WorldgradError || cause.name === "TimeoutError") return "";
  const line = cause.stack?.split("\n").find((text) => /^ +at /.test(text));
  return line === undefined ? "" : ` (${line.trim()})`;
}

/**
 * `playAll` of a run: what the environment throws in an episode without the model ends the run, in one line that names
 * the environment and the place. (In an episode of the model it masks the episode.)
 */
export async function playScripts<R>(...how: Parameters<typeof playAll<R>>): Promise<R[]> {
  const [spec, , , , signal] = how;
  return playAll(...how).catch((error: unknown) => {
    // The message of a system error and that of a time-out name what they are about.
    const isTold = error instanceof Error && ("syscall" in error || error.name === "TimeoutError");
    if (isTold || error instanceof WorldgradError || error instanceof UsageError || signal?.aborted) throw error;
    throw new WorldgradError(
      `${spec.name}: an episode of a script, for demonstrations or an evaluation, failed: ` +
        `${reasonOf(error)}${placeOf(error)}`,
      { cause: error },
    );
  });
}

/** The steps in a row in which every episode failed. */
export class FailedSteps {
  /** The present number of them. While there are some nothing is saved: --resume goes back to the first of them. */
  count = 0;
  readonly #pause: number;

  constructor(pause = PAUSE) {
    this.#pause = pause;
  }

  /**
   * Counts the step of these episodes; to be called for each step.
   * @returns whether this is the first of them; the run has to be saved, as it is continued with this step
   */
  isFirst(rows: readonly { readonly trajectory: Trajectory }[]): boolean {
    const error = failureOf(rows.map(({ trajectory }) => trajectory));
    this.count = error === undefined ? 0 : this.count + 1;
    return this.count === 1;
  }

  /** Resolves when the next step may begin: after a pause if this one failed, or when the run is stopped. */
  async pause({ observer, signal }: Pick<Watch, "observer" | "signal">): Promise<void> {
    if (this.count === 0 || signal.aborted) return;
    observer.note(
      `every episode of this step failed; the next one begins in ${this.#pause} s (--resume begins before them)`,
      true,
    );
    await new Promise<void>((resume) => {
      const end = (): void => {
        clearTimeout(timer);
        signal.removeEventListener("abort", end);
        resume();
      };
      const timer = setTimeout(end, 1000 * this.#pause);
      signal.addEventListener("abort", end);
    });
  }
}
