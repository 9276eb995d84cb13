/** The state of a phase, for both displays: steps, time gone, time left, and the history of its metrics. */
import { isKnownMetric, METRICS } from "../figures/catalogue.ts";

/** The number of steps over which the speed is measured: enough to be steady, few enough to follow a change. */
const SPEED_WINDOW = 24;
/** The number of values of a metric that are kept: the width of the widest sparkline. */
const HISTORY = 200;
/** The most numbers of the environment that are shown unasked. */
const OWN_SHOWN = 3;

export class Progress {
  readonly name: string;
  readonly total: number;
  done: number;
  /** The values of each metric, the newest last. */
  readonly history: Map<string, number[]> = new Map<string, number[]>();
  private readonly startedAt: number;
  private readonly recent: { done: number; at: number }[];

  constructor(name: string, total: number, done: number, now: number) {
    this.name = name;
    this.total = total;
    this.done = done;
    this.startedAt = now;
    this.recent = [{ done, at: now }];
  }

  update(step: number, metrics: Readonly<Record<string, number>>, now: number): void {
    if (step > this.done) {
      this.done = step;
      this.recent.push({ done: step, at: now });
      if (this.recent.length > SPEED_WINDOW) this.recent.shift();
    }
    for (const [name, value] of Object.entries(metrics)) {
      const values = this.history.get(name) ?? [];
      values.push(value);
      if (values.length > HISTORY) values.shift();
      this.history.set(name, values);
    }
  }

  get fraction(): number {
    return this.total > 0 ? Math.min(1, this.done / this.total) : 0;
  }

  elapsedSeconds(now: number): number {
    return (now - this.startedAt) / 1000;
  }

  /** Estimated from the speed of the last steps; NaN before the first has ended. It counts down during a step. */
  remainingSeconds(now: number): number {
    if (this.done >= this.total) return 0;
    const [first, last] = [this.recent[0], this.recent.at(-1)];
    if (first === undefined || last === undefined || last.done === first.done) return NaN;
    const perStep = (last.at - first.at) / (last.done - first.done);
    return Math.max(0, perStep * (this.total - last.done) - (now - last.at)) / 1000;
  }

  /**
   * The metrics to show: the wanted ones, else the first `limit` of those in the catalogue and then of the others. Some
   * places are kept for the environment's own numbers.
   */
  shown(wanted: readonly string[], limit: number): string[] {
    const all = [...this.history.keys()];
    if (wanted.length > 0) return wanted.filter((name) => this.history.has(name));
    const own = all.filter((name) => name.startsWith("info/")).slice(0, OWN_SHOWN);
    const known = Object.keys(METRICS).filter((name) => this.history.has(name));
    const others = all.filter((name) => !isKnownMetric(name) && !own.includes(name));
    return [...known.slice(0, limit - own.length), ...own, ...others].slice(0, limit);
  }
}
