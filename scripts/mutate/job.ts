/** What scripts/mutate.ts gives to a process that runs tests, and what it gets back. */

/** The variable with the path of the file that has the job. */
export const JOB_VARIABLE = "WORLDGRAD_MUTATION_JOB";

export interface Job {
  readonly root: string;
  /** Instrumented modules by their absolute paths. */
  readonly modules: Readonly<Record<string, string>>;
  /** Numbers of the mutants to try. */
  readonly mutants: readonly number[];
  /** The files of tests, in the order in which they run. */
  readonly tests: readonly string[];
  /** Where the outcome is written. */
  readonly outcome: string;
}

export interface Outcome {
  /** The mutants that some test executed without noticing one of them, and those that no test executed. */
  readonly survived: readonly number[];
  readonly unreached: readonly number[];
  /** Tests that fail without any mutant, or after one was on. */
  readonly broken: readonly string[];
}
