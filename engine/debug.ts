/**
 * `WORLDGRAD_DEBUG=1`: every executor prints, when it is disposed of or the process ends, the time of each kernel and
 * the hit rates of its caches. On a page: `globalThis.WORLDGRAD_DEBUG = "1"` before the device is made.
 *
 * Measuring costs time itself (a clock around every kernel; on WebGPU a pass of its own for every dispatch), so that
 * the sum is larger than an undisturbed run. This is no tracer: it knows kernels, not ops, and keeps totals only.
 */
import { environmentVariable } from "./environmentVariable.ts";

interface Surroundings {
  readonly WORLDGRAD_DEBUG?: unknown;
  readonly process?: {
    once?(event: "exit", listener: () => void): void;
    removeListener?(event: "exit", listener: () => void): void;
  };
}
const surroundings = globalThis as Surroundings;

/** Whether executors made from now on measure and report. */
export function debugging(): boolean {
  return (environmentVariable("WORLDGRAD_DEBUG") ?? surroundings.WORLDGRAD_DEBUG) === "1";
}

/** The share of the time below which kernels are summed up in one line. */
const SMALL = 0.002;

/** Totals per kernel. */
export class KernelLog {
  readonly #title: string;
  readonly #notes: () => readonly string[];
  readonly #totals = new Map<string, { calls: number; ms: number }>();
  readonly #atExit = (): void => this.print();
  #printed = false;

  /** @param notes gives the lines below the table when it is printed: hit rates of caches and the like */
  constructor(title: string, notes: () => readonly string[]) {
    this.#title = title;
    this.#notes = notes;
    surroundings.process?.once?.("exit", this.#atExit);
  }

  add(key: string, ms: number): void {
    const total = this.#totals.get(key);
    if (total === undefined) this.#totals.set(key, { calls: 1, ms });
    else {
      total.calls++;
      total.ms += ms;
    }
  }

  toString(): string {
    const rows = [...this.#totals].toSorted(([, a], [, b]) => b.ms - a.ms);
    const all = rows.reduce((sum, [, { ms }]) => sum + ms, 0);
    const line = (name: string, calls: number, ms: number): string =>
      [
        ms.toFixed(2).padStart(11),
        ((100 * ms) / (all || 1)).toFixed(1).padStart(6),
        String(calls).padStart(8),
        ((1000 * ms) / calls).toFixed(1).padStart(10),
        ` ${name}`,
      ].join(" ");
    const large = rows.filter(([, { ms }]) => ms >= SMALL * all);
    const rest = rows.slice(large.length).map(([, total]) => total);
    const [calls, ms] = [rest.reduce((n, x) => n + x.calls, 0), rest.reduce((n, x) => n + x.ms, 0)];
    return [
      `${this.#title}: ${all.toFixed(1)} ms in kernels`,
      "         ms      %    calls    µs/call  kernel",
      ...large.map(([key, total]) => line(key, total.calls, total.ms)),
      ...(rest.length > 0 ? [line(`${rest.length} others`, calls, ms)] : []),
      ...this.#notes(),
    ].join("\n");
  }

  /** Prints the table to standard error, once. */
  print(): void {
    if (this.#printed) return;
    this.#printed = true;
    surroundings.process?.removeListener?.("exit", this.#atExit);
    console.error(this.toString());
  }
}

/** A log where `WORLDGRAD_DEBUG=1` asks for one. */
export function kernelLog(title: string, notes: () => readonly string[]): KernelLog | undefined {
  return debugging() ? new KernelLog(title, notes) : undefined;
}

/** `pipelines: 2410 of 2514 found (95.9 %)` */
export function hitRate(name: string, hits: number, misses: number): string {
  return `${name}: ${hits} of ${hits + misses} found (${((100 * hits) / (hits + misses || 1)).toFixed(1)} %)`;
}
