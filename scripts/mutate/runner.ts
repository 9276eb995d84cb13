/**
 * Test runner of vitest for mutation tests. It runs each test without a mutant, then once for every mutant that the
 * test executed and no test has killed yet, then again without one. If the last run fails, a mutant has changed some
 * state, and the results of this test do not count.
 *
 * No verdict depends on the speed of the machine: an endless loop is noticed by its turns (switch.ts), a test that
 * waits forever by an idle process.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { performance } from "node:perf_hooks";
import process from "node:process";
import * as fc from "fast-check";
import { type RunnerTestCase, TestRunner } from "vitest";
import { type Job, JOB_VARIABLE, type Outcome } from "./job.ts";
import { Mutation } from "./switch.ts";

/** State of the process, shared by all files of tests. */
interface Session {
  readonly job: Job;
  readonly mutation: Mutation;
  readonly alive: Set<number>;
  readonly reached: Set<number>;
  readonly broken: string[];
}
const shared = globalThis as { mutation?: Mutation; mutationSession?: Session };

function session(): Session {
  if (shared.mutationSession) return shared.mutationSession;
  const job = JSON.parse(readFileSync(process.env[JOB_VARIABLE]!, "utf8")) as Job;
  const mutation = (shared.mutation = new Mutation());
  fc.configureGlobal({ endOnFailure: true }); // no shrinking
  return (shared.mutationSession = { job, mutation, alive: new Set(job.mutants), reached: new Set(), broken: [] });
}

/** Rejects when the process stays idle: what it waits for will not come. */
async function unlessIdle(work: unknown): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  let last = performance.eventLoopUtilization();
  const idle = new Promise<never>((_, reject) => {
    timer = setInterval(() => {
      const now = performance.eventLoopUtilization();
      if (performance.eventLoopUtilization(now, last).utilization < 0.02)
        reject(new Error("waits for something that never comes"));
      last = now;
    }, 20_000);
  });
  try {
    await Promise.race([work, idle]);
  } finally {
    clearInterval(timer);
  }
}

class MutationRunner extends TestRunner {
  readonly session: Session = session();

  async runTask(test: RunnerTestCase): Promise<void> {
    const { mutation, alive, reached, broken } = this.session;
    const run = TestRunner.getTestFn(test);
    let why = "";
    const passes = async (id?: number): Promise<boolean> => {
      mutation.on(id);
      try {
        await unlessIdle(run());
        return test.result?.state !== "fail";
      } catch (error) {
        [why = ""] = String(error).split("\n");
        // The time limit of a test says that the machine is slow, and nothing about the edit.
        return id !== undefined && why.includes("Test timed out");
      }
    };
    const isBroken = (): void => void broken.push(`${test.file.name} > ${test.fullTestName}: ${why}`);
    if (!(await passes())) return isBroken();
    const failing: number[] = [];
    for (const id of [...mutation.asked].filter((id) => alive.has(id))) {
      reached.add(id);
      if (!(await passes(id))) failing.push(id);
    }
    if (failing.length > 0 && !(await passes())) return isBroken();
    mutation.on();
    for (const id of failing) alive.delete(id);
  }

  override onAfterRunFiles(): void {
    super.onAfterRunFiles();
    const { job, alive, reached, broken } = this.session;
    const [survived, unreached] = [true, false].map((is) => [...alive].filter((id) => reached.has(id) === is));
    writeFileSync(
      job.outcome,
      JSON.stringify({ survived: survived!, unreached: unreached!, broken } satisfies Outcome),
    );
  }
}

export default MutationRunner;
