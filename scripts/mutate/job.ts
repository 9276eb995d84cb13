/** What scripts/mutate.ts hands to a process that runs tests, and what it gets back. */

/** The file with the job is named by this variable. */
export const JOB_VARIABLE = "WORLDGRAD_MUTATION_JOB";

export interface Job {
  readonly root: string;
  /** Instrumented modules by their absolute paths. */
  readonly modules: Readonly<Record<string, string>>;
  /** Numbers of the mutants to try. */
  readonly mutants: readonly number[];
  /** Files of tests in the order in which they are run. */
  readonly tests: readonly string[];
  /** Where the outcome is written. */
  readonly outcome: string;
}

export interface Outcome {
  /** By a mutant's number: the test that failed. */
  readonly killed: Readonly<Record<number, string>>;
  /** Mutants that some test came by. */
  readonly reached: readonly number[];
  /** Tests that fail without any mutant, or after one had been on. */
  readonly broken: readonly string[];
}
