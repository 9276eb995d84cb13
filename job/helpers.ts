/** Workers and learners that help a run. */
import type { trainRlAsync } from "../rl/async/train.ts";
import type { RolloutWorkers } from "../rl/async/workers.ts";
import type { Learners } from "../rl/train/learners.ts";

/** Playing ahead of the learner. It is passed in, so that a page without workers does not load its code. */
export interface PlayAhead {
  /**
   * Makes rollout workers: threads of Node (`threadWorkers`), workers of a page (`messageWorkers`), or those that are
   * connected to a server (`natsWorkers`), which count as one.
   */
  readonly startWorkers: (count: number) => RolloutWorkers;
  /** The loop that learns from what they play. */
  readonly train: typeof trainRlAsync;
}

/** What helps a run: workers that play, and learners that compute gradients. */
export interface Helpers {
  /** Needed if the settings ask for workers. */
  readonly playAhead?: PlayAhead;
  readonly learners?: Learners;
}
