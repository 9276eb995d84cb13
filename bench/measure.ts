/**
 * Measurement of one case: starts the contenders, checks their results, warms them up, then times them in alternating
 * rounds, so that a busy machine disturbs all alike. A contender with a wrong result is reported as wrong and not
 * timed.
 */
import type { Case } from "./cases/case.ts";
import type { Answer } from "./protocol.ts";
import type { Contender } from "./contenders/index.ts";
import { ContenderProcess } from "./process.ts";
import { median, relativeError, summarize, type Summary } from "./statistics.ts";

export interface Measurement {
  readonly contender: string;
  readonly description: string;
  /** Reason for a missing time: the contender cannot do the case, its results are wrong, or it failed. */
  readonly reason?: string;
  readonly error?: number;
  /** Milliseconds per call. */
  readonly ms?: Summary;
  /** Milliseconds per call, round by round. */
  readonly rounds?: readonly number[];
  /** Processor time per call in milliseconds, summed over threads: the median of the rounds. */
  readonly processorMs?: number;
  readonly peakRss?: number;
  readonly live?: number;
  readonly peak?: number;
  readonly figures?: Record<string, number>;
}

export interface MeasureOptions {
  readonly rounds: number;
  readonly warmMs: number;
  /** Threads of contenders with several threads. */
  readonly threads: number;
  /** Seconds that an answer of a contender may take; one that is late takes no further part in a case. */
  readonly patience: number;
  /** Environment variables of processes that use a GPU adapter. */
  readonly env: Readonly<Record<string, string>>;
}

/** Approximate length of a round with more than one call. */
const ROUND_MS = 60;
/** Length of a call above which three rounds suffice. */
const SLOW_MS = 1500;

/** Calls, or else `warmMs`, after which a contender is warm: worldgrad with two threads needs 200 steps. */
const WARM_CALLS = 300;

/** Starts processes when they are needed and keeps them for the next case. */
export class Stable {
  readonly #running = new Map<string, ContenderProcess>();
  readonly #options: MeasureOptions;

  constructor(options: MeasureOptions) {
    this.#options = options;
  }

  async get(who: Pick<Contender, "name"> & Partial<Contender>): Promise<ContenderProcess> {
    const running = this.#running.get(who.name);
    if (running !== undefined) return running;
    const { threads: all, patience, env } = this.#options;
    const started = await ContenderProcess.start(who, { threads: who.threads === "all" ? all : 1, patience, env });
    this.#running.set(who.name, started);
    return started;
  }

  async stop(name: string): Promise<void> {
    const running = this.#running.get(name);
    this.#running.delete(name);
    await running?.stop();
  }

  async stopAll(): Promise<void> {
    await Promise.all([...this.#running.keys()].map((name) => this.stop(name)));
  }
}

interface Entry {
  readonly contender: Contender;
  process?: ContenderProcess;
  description: string;
  reason?: string;
  error?: number;
  calls: number;
  readonly rounds: number[];
  readonly processor: number[];
}

export async function measure(
  test: Case,
  contenders: readonly Contender[],
  stable: Stable,
  options: MeasureOptions,
): Promise<Measurement[]> {
  if (test.alone) await stable.stopAll();
  const entries = contenders.map((contender): Entry => ({
    contender,
    description: contender.name,
    calls: 1,
    rounds: [],
    processor: [],
  }));
  /** Runs `work`. A contender that fails keeps its reason and takes no further part. */
  const guarded = async (entry: Entry, work: (p: ContenderProcess) => Promise<void>): Promise<void> => {
    if (entry.reason !== undefined) return;
    try {
      entry.process ??= await stable.get(entry.contender);
      entry.description = entry.process.description;
      await work(entry.process);
    } catch (error) {
      entry.reason = error instanceof Error ? error.message : String(error);
      await stable.stop(entry.contender.name);
    }
  };

  let expected = await expectedOf(test, stable);
  for (const entry of entries) {
    await guarded(entry, async (p) => {
      const { cannot, check } = await p.ask({ do: "prepare", task: test.task });
      if (cannot !== undefined) entry.reason = cannot;
      if (check === undefined) return;
      expected ??= check;
      // Half precision need only be near: its rounding is not judged.
      const tolerance = entry.contender.variant?.endsWith("f16") ? Math.max(test.tolerance, 2e-2) : test.tolerance;
      entry.error = relativeError(check, expected);
      if (entry.error > tolerance) {
        entry.reason = `wrong: relative error ${entry.error.toExponential(1)}, ${tolerance} is allowed`;
      }
    });
  }
  for (const entry of entries) await guarded(entry, (p) => warmUp(entry, p, options.warmMs));
  for (let round = 0; round < options.rounds; round++) {
    for (const entry of entries) {
      if (round >= 3 && entry.rounds[0]! > SLOW_MS) continue;
      await guarded(entry, async (p) => {
        const { ms, processorMs } = await p.ask({ do: "time", calls: entry.calls });
        entry.rounds.push(ms! / entry.calls);
        if (processorMs !== undefined) entry.processor.push(processorMs / entry.calls);
      });
    }
  }
  const results: Measurement[] = [];
  for (const entry of entries) results.push(await conclude(entry));
  if (test.alone) await stable.stopAll();
  return results;
}

const time = async (p: ContenderProcess, calls: number): Promise<number> => (await p.ask({ do: "time", calls })).ms!;

/**
 * Warms a contender up with several rounds of calls, so that the compiler is idle in the measurement: it optimises only
 * code that runs, and its own threads take a processor from a contender with two threads.
 */
async function warmUp(entry: Entry, p: ContenderProcess, warmMs: number): Promise<void> {
  let [spent, made, last] = [0, 0, Infinity];
  const isWarm = (): boolean => spent >= Math.min(4 * ROUND_MS, warmMs) && (made >= WARM_CALLS || spent >= warmMs);
  for (let i = 0; i < 2 || !isWarm(); i++) {
    const ms = await time(p, entry.calls);
    [spent, made, last] = [spent + ms, made + entry.calls, Math.min(last, ms / entry.calls)];
    entry.calls = Math.max(1, Math.min(10_000, Math.round(ROUND_MS / last)));
    if (last > SLOW_MS) break;
  }
}

async function expectedOf(test: Case, stable: Stable): Promise<readonly number[] | undefined> {
  const { expected } = test;
  if (expected === "first") return undefined;
  if (typeof expected === "function") return expected();
  const oracle = await stable.get({ name: "reference" });
  const { check, cannot } = await oracle.ask({ do: "prepare", task: expected.reference });
  if (check === undefined) throw new Error(`${test.name}: the reference executor gives no result: ${cannot}`);
  if (test.alone) await stable.stop("reference");
  return check;
}

async function conclude(entry: Entry): Promise<Measurement> {
  const { contender, process, description, reason, error, rounds, processor } = entry;
  const base = { contender: contender.name, description, ...(error === undefined ? {} : { error }) };
  if (reason !== undefined || process === undefined || rounds.length === 0)
    return { ...base, reason: reason ?? "not run" };
  const { peakRss, live, peak }: Answer = await process.ask({ do: "memory" });
  const { figures } = await process.ask({ do: "figures" });
  return {
    ...base,
    ms: summarize(rounds),
    rounds,
    ...(processor.length === 0 ? {} : { processorMs: median(processor) }),
    ...(peakRss === undefined ? {} : { peakRss }),
    ...(live === undefined ? {} : { live }),
    ...(peak === undefined || peak === null ? {} : { peak }),
    ...(figures === undefined || Object.keys(figures).length === 0 ? {} : { figures }),
  };
}
