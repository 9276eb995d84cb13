/** When a run stops because its environment fails: what goes on without one only looks like training. */
import { check } from "../engine/errors.ts";
import { wasPlayed } from "../rl/evaluate.ts";
import { hasFailed, type Trajectory } from "../rl/episode/stream.ts";

/** After how many steps in a row a run stops; a server that restarts is back by then. */
const MOST_FAILED_STEPS = 3;

/** Why the environment failed in every one of these episodes, if it did. */
const failureOf = (episodes: readonly Trajectory[]): string | undefined =>
  episodes.length > 0 && episodes.every(hasFailed) ? String(episodes[0]!.info["error"]) : undefined;

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
  check(error === undefined, () => `every episode of the evaluation failed. The first error: ${error}`);
}

/** The steps in a row in which every episode failed. */
export class FailedSteps {
  #count = 0;

  /**
   * To be called with the episodes of each step.
   * @returns whether this is the first of them; the run has to be saved, as it is continued with this step
   * @throws WorldgradError if there are too many
   */
  isFirst(rows: readonly { readonly trajectory: Trajectory }[]): boolean {
    const error = failureOf(rows.map(({ trajectory }) => trajectory));
    this.#count = error === undefined ? 0 : this.#count + 1;
    const count = this.#count;
    check(
      count < MOST_FAILED_STEPS,
      () => `every episode of ${count} steps failed; --resume continues before them. The first error: ${error}`,
    );
    return count === 1;
  }
}
