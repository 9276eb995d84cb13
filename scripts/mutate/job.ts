/** Job that scripts/mutate.ts gives to a process that runs tests, and its outcome. */

/** Environment variable with the path of the file of the job. */
export const JOB_VARIABLE = "WORLDGRAD_MUTATION_JOB";

export interface Job {
  readonly root: string;
  /** Instrumented modules by their absolute paths. */
  readonly modules: Readonly<Record<string, string>>;
  /** Numbers of the mutants to try. */
  readonly mutants: readonly number[];
  /** Files of tests, in the order in which they run. */
  readonly tests: readonly string[];
  /** Path to which the outcome is written. */
  readonly outcome: string;
}

export interface Outcome {
  /** Mutants that tests executed without failing. */
  readonly survived: readonly number[];
  readonly unreached: readonly number[];
  /** Tests that fail without any mutant, or after one was active. */
  readonly broken: readonly string[];
}
