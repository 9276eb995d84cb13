/**
 * Runs each test many times: as it is, then once for every mutant that it executed and no test has killed yet, then as
 * it is again. If the last run fails, a mutant has left something behind, and the results of this test do not count.
 *
 * No verdict depends on how fast the machine is: an endless loop is noticed by its turns (switch.ts), and a test that
 * waits for something that never comes by doing nothing.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { performance } from "node:perf_hooks";
import process from "node:process";
import * as fc from "fast-check";
import { type RunnerTestCase, TestRunner } from "vitest";
import { type Job, JOB_VARIABLE, type Outcome } from "./job.ts";
import { Mutation } from "./switch.ts";

/** The state of the process, which all files of tests use. */
interface Session {
  readonly job: Job;
  readonly mutation: Mutation;
  readonly alive: Set<number>;
  readonly reached: Set<number>;
  readonly killed: Map<number, string>;
  readonly broken: string[];
  readonly seconds: Record<string, number>;
}
const shared = globalThis as { mutation?: Mutation; mutationSession?: Session };

function session(): Session {
  if (shared.mutationSession) return shared.mutationSession;
  const job = JSON.parse(readFileSync(process.env[JOB_VARIABLE]!, "utf8")) as Job;
  const mutation = (shared.mutation = new Mutation());
  fc.configureGlobal({ endOnFailure: true }); // looks for no smaller example
  return (shared.mutationSession = {
    job,
    mutation,
    alive: new Set(job.mutants),
    reached: new Set(),
    killed: new Map(),
    broken: [],
    seconds: {},
  });
}

/** Fails if the process does nothing for so long that what it waits for will not come. */
async function unlessIdle(work: unknown): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  let last = performance.eventLoopUtilization();
  const idle = new Promise<never>((_, reject) => {
    timer = setInterval(() => {
      const now = performance.eventLoopUtilization();
      if (performance.eventLoopUtilization(now, last).utilization < 0.02) reject(new Error("waits, and nothing comes"));
      last = now;
    }, 20_000);
  });
  try {
    await Promise.race([work, idle]);
  } finally {
    clearInterval(timer);
  }
}

/** The mutants that this test has to try, of those that it came by. */
const toTry = ({ mutation, alive }: Session): number[] => [...mutation.asked].filter((id) => alive.has(id));

const nameOf = (test: RunnerTestCase): string => `${test.file.name} > ${test.fullTestName}`;

class MutationRunner extends TestRunner {
  readonly session: Session = session();

  async runTask(test: RunnerTestCase): Promise<void> {
    const { seconds } = this.session;
    const begun = performance.now();
    await this.#tryAll(test);
    seconds[test.file.name] = (seconds[test.file.name] ?? 0) + (performance.now() - begun) / 1000;
  }

  async #tryAll(test: RunnerTestCase): Promise<void> {
    const { mutation, alive, reached, killed, broken } = this.session;
    const run = TestRunner.getTestFn(test);
    let why = "";
    const passes = async (id?: number): Promise<boolean> => {
      mutation.on(id);
      try {
        await unlessIdle(run());
        return test.result?.state !== "fail";
      } catch (error) {
        [why = ""] = String(error).split("\n");
        // A time limit of the test's own: the machine is slow, and of the edit this says nothing.
        return id !== undefined && why.includes("Test timed out");
      }
    };
    const isBroken = (): void => void broken.push(`${nameOf(test)}: ${why}`);
    if (!(await passes())) return isBroken();
    const covered = toTry(this.session);
    const failing: number[] = [];
    for (const id of covered) {
      reached.add(id);
      if (!(await passes(id))) failing.push(id);
    }
    if (failing.length > 0 && !(await passes())) return isBroken();
    mutation.on();
    for (const id of failing) {
      alive.delete(id);
      killed.set(id, nameOf(test));
    }
  }

  override onAfterRunFiles(): void {
    super.onAfterRunFiles();
    const { job, killed, reached, broken, seconds } = this.session;
    const outcome: Outcome = { killed: Object.fromEntries(killed), reached: [...reached], broken, seconds };
    writeFileSync(job.outcome, JSON.stringify(outcome));
  }
}

export default MutationRunner;
