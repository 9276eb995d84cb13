/** Shows many jobs as one bar: the steps of all together, and the means of the metrics of those that are running. */
import { type Job, stepsOf } from "../../run/arms/jobs.ts";
import type { Observer } from "../../run/observer.ts";

type Metrics = Readonly<Record<string, number>>;

export class Together {
  readonly #show: (done: number, metrics: Metrics) => void;
  readonly #steps = new Map<Job, number>();
  readonly #metrics = new Map<Job, Metrics>();

  constructor(show: (done: number, metrics: Metrics) => void) {
    this.#show = show;
  }

  observer(job: Job): Observer {
    let isAside = false; // in an evaluation, whose one step is not counted
    const ignore = (): void => undefined;
    return {
      phase: (_name, total, done = 0) => {
        isAside = total <= 1;
        this.#tell(job, isAside ? undefined : done);
      },
      update: (step, metrics) => (isAside ? this.#tell(job) : this.#tell(job, step, metrics)),
      evaluation: ignore,
      transcript: ignore,
      note: ignore,
    };
  }

  finished(job: Job): void {
    this.#metrics.delete(job);
    this.#tell(job, stepsOf(job));
  }

  #tell(job: Job, done?: number, metrics?: Metrics): void {
    if (done !== undefined) this.#steps.set(job, done);
    if (metrics !== undefined) this.#metrics.set(job, metrics);
    const running = [...this.#metrics.values()];
    const shown = ["reward", "success", "loss", "world_loss", "tokens_per_second"].flatMap((name) => {
      const values = running.map((of) => of[name]).filter((value) => value !== undefined);
      const sum = values.reduce((a, b) => a + b, 0);
      // Tokens per second are those of all jobs.
      return values.length === 0 ? [] : [[name, name === "tokens_per_second" ? sum : sum / values.length] as const];
    });
    this.#show(
      [...this.#steps.values()].reduce((sum, n) => sum + n, 0),
      Object.fromEntries(shown),
    );
  }
}
