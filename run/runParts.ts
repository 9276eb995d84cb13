/** The parts that a run gets beside its settings: workers that play, a witness, and the model that it begins with. */
import type { trainRlAsync } from "../distribute/async/train.ts";
import type { RolloutWorkers } from "../distribute/async/workers.ts";
import type { Template } from "../rl/episode/template.ts";
import type { Model } from "../nn/index.ts";
import type { StepReport } from "../rl/train/report.ts";
import type { LoadSource } from "./modelFiles.ts";

/** Playing ahead of the learner. It is passed in, so that a page without workers does not load its code. */
export interface PlayAhead {
  /**
   * Makes rollout workers: threads of Node (`threadWorkers`), workers of a page (`messageWorkers`), or those that are
   * connected to a server (`natsWorkers`), which count as one.
   */
  readonly startWorkers: (count: number) => RolloutWorkers;
  /** The loop that learns from their episodes. */
  readonly train: typeof trainRlAsync;
}

/**
 * A witness of every step of RL and the weights that it began with. It may ask the model and copy the weights, and must
 * not change them; the step begins when it is done.
 */
export interface StepWitness {
  begins(model: Model, template: Template): void | Promise<void>;
  ended(report: StepReport): void;
}

/** The parts that a run gets beside its settings. */
export interface RunParts {
  /** Needed if the settings ask for workers. */
  readonly playAhead?: PlayAhead | undefined;
  readonly witness?: StepWitness | undefined;
  /** Loads the model that the settings name (`Preset.pretrained`); needed if they do. */
  readonly source?: LoadSource | undefined;
  /** Loads the teacher that the settings name (`Preset.teacher`); needed if they do. */
  readonly teacher?: LoadSource | undefined;
}
