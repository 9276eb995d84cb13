/**
 * Runs each test many times: as it is, then once for every mutant that it executed and no test has killed yet, then as
 * it is again. If the last run fails, a mutant has left something behind, and the results of this test do not count.
 */
import { readFileSync, writeFileSync } from "node:fs";
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
  });
}

const nameOf = (test: RunnerTestCase): string => `${test.file.name} > ${test.fullTestName}`;

class MutationRunner extends TestRunner {
  readonly session: Session = session();

  async runTask(test: RunnerTestCase): Promise<void> {
    const { mutation, alive, reached, killed, broken } = this.session;
    const run = TestRunner.getTestFn(test);
    const passes = async (id?: number): Promise<boolean> => {
      mutation.on(id);
      try {
        await run();
        return test.result?.state !== "fail";
      } catch {
        return false;
      }
    };
    if (!(await passes())) return void broken.push(nameOf(test));
    const covered = [...mutation.asked].filter((id) => alive.has(id));
    const failing: number[] = [];
    for (const id of covered) {
      reached.add(id);
      if (!(await passes(id))) failing.push(id);
    }
    if (failing.length > 0 && !(await passes())) return void broken.push(nameOf(test));
    mutation.on();
    for (const id of failing) {
      alive.delete(id);
      killed.set(id, nameOf(test));
    }
  }

  override onAfterRunFiles(): void {
    super.onAfterRunFiles();
    const { job, killed, reached, broken } = this.session;
    const outcome: Outcome = { killed: Object.fromEntries(killed), reached: [...reached], broken };
    writeFileSync(job.outcome, JSON.stringify(outcome));
  }
}

export default MutationRunner;
