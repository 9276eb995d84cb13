/** Shows many jobs as one bar: the steps of all together, and the means of the metrics of those that are running. */
import { type Job, stepsOf } from "../../run/arms/job.ts";
import type { Message } from "../../run/arms/messages.ts";

type Metrics = Readonly<Record<string, number>>;

export class Together {
  readonly #steps = new Map<Job, number>();
  readonly #metrics = new Map<Job, Metrics>();
  /** Jobs in an evaluation, whose one step is not counted. */
  readonly #aside = new Set<Job>();

  hear(job: Job, message: Message): void {
    if (message.kind === "phase") {
      if (message.total > 1) this.#aside.delete(job);
      else this.#aside.add(job);
      if (message.total > 1) this.#steps.set(job, message.done);
    } else if (message.kind === "step" && !this.#aside.has(job)) {
      this.#steps.set(job, message.step);
      this.#metrics.set(job, message.metrics);
    }
  }

  finished(job: Job): void {
    this.#steps.set(job, stepsOf(job));
    this.#metrics.delete(job);
  }

  get done(): number {
    return [...this.#steps.values()].reduce((sum, n) => sum + n, 0);
  }

  /** The means of the metrics; tokens per second are the sum over all jobs. */
  get metrics(): Record<string, number> {
    const running = [...this.#metrics.values()];
    return Object.fromEntries(
      ["reward", "success", "loss", "world_loss", "tokens_per_second"].flatMap((name): [string, number][] => {
        const values = running.map((metrics) => metrics[name]).filter((value) => value !== undefined);
        if (values.length === 0) return [];
        const sum = values.reduce((a, b) => a + b, 0);
        return [[name, name === "tokens_per_second" ? sum : sum / values.length]];
      }),
    );
  }
}
