/** Shows many jobs as one bar: the steps of all together, and the means of the metrics of those that are running. */
import { type Job, stepsOf } from "../../run/arms/jobs.ts";
import type { Observer } from "../../run/observer.ts";

type Metrics = Readonly<Record<string, number>>;

export class Together {
  readonly #show: (done: number, metrics: Metrics) => void;
  readonly #jobs = new Map<Job, { readonly done: number; readonly metrics: Metrics }>();

  readonly #warn: (job: Job, text: string) => void;

  constructor(show: (done: number, metrics: Metrics) => void, warn: (job: Job, text: string) => void) {
    this.#show = show;
    this.#warn = warn;
  }

  observer(job: Job): Observer {
    let isAside = false; // in an evaluation, whose one step is not counted
    const ignore = (): void => undefined;
    return {
      phase: (_name, total, done = 0) => {
        isAside = total <= 1;
        if (!isAside) this.#tell(job, done, {});
      },
      update: (step, metrics) => {
        if (!isAside) this.#tell(job, step, metrics);
      },
      evaluation: ignore,
      transcript: ignore,
      note: (text, isWarning = false) => isWarning && this.#warn(job, text),
    };
  }

  finished(job: Job): void {
    this.#tell(job, stepsOf(job), {});
  }

  #tell(job: Job, done: number, metrics: Metrics): void {
    const all = [...this.#jobs.set(job, { done, metrics }).values()];
    const shown = ["reward", "success", "loss", "world_loss", "tokens_per_second"].flatMap((name) => {
      const values = all.map((of) => of.metrics[name]).filter((value) => value !== undefined);
      const sum = values.reduce((a, b) => a + b, 0);
      // Tokens per second are those of all jobs.
      return values.length === 0 ? [] : [[name, name === "tokens_per_second" ? sum : sum / values.length] as const];
    });
    this.#show(
      all.reduce((sum, of) => sum + of.done, 0),
      Object.fromEntries(shown),
    );
  }
}
