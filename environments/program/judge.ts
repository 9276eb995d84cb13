/** Judges programs by tests. The outcomes go from "does not compile" to "all tests pass". */
import { compile, type Code, type Outcome, run, sameValue, show } from "./machine.ts";
import type { ProgramTest } from "./cases.ts";
import { dataFlowMatch, syntaxMatch } from "./likeness.ts";
import { parseProgram, type Program } from "./syntax.ts";

/** The four outcomes of CodeRL, from the worst to the best. */
export const OUTCOMES = ["compile error", "runtime error", "failed test", "passed"] as const;
export type ProgramOutcome = (typeof OUTCOMES)[number];

/** A program's outputs on tests, and the outcome. */
export interface Judgement {
  readonly outcome: Exclude<ProgramOutcome, "compile error">;
  readonly outputs: readonly Outcome[];
  /** The number of tests that pass. */
  readonly passed: number;
}

/** @param functions the programs that it may call, by name */
export function judge(code: Code, tests: readonly ProgramTest[], functions?: ReadonlyMap<string, Code>): Judgement {
  const outputs = tests.map(({ input }) => run(code, input, functions));
  const passed = outputs.filter((o, i) => "value" in o && sameValue(o.value, tests[i]!.output)).length;
  const isFaulty = outputs.some((output) => "error" in output);
  const outcome = isFaulty ? "runtime error" : passed === tests.length ? "passed" : "failed test";
  return { outcome, outputs, passed };
}

/** The longest output that is shown in full. */
const SHOWN = 24;

/**
 * The answer to a run of tests: all outputs, or the first error, and how many tests pass.
 *
 * @example
 * report(judge(code, tests)); // "16 6: pass", "9 6: 1 of 2 pass" or "error: sum of a number"
 */
export function report({ outputs, passed }: Judgement): string {
  const values: string[] = [];
  for (const output of outputs) {
    if ("error" in output) return `error: ${output.error}`;
    values.push(cut(show(output.value)));
  }
  return `${values.join(" ")}: ${passed === outputs.length ? "pass" : `${passed} of ${outputs.length} pass`}`;
}

const cut = (text: string): string => (text.length > SHOWN ? `${text.slice(0, SHOWN)}..` : text);

/** The info of a submitted program, for metrics and rewards (papers/rewards/program.ts reads these names). */
export interface ProgramInfo {
  readonly outcome: ProgramOutcome;
  /** Share of the tests that pass. */
  readonly passed: number;
  /** Its similarity to the reference (likeness.ts); 0 if it does not compile. */
  readonly syntaxMatch: number;
  readonly dataFlowMatch: number;
}

/** Judges a submitted text. */
export function judgeText(text: string, tests: readonly ProgramTest[], reference: Program): ProgramInfo {
  const reading = parseProgram(text);
  if ("error" in reading) return { outcome: "compile error", passed: 0, syntaxMatch: 0, dataFlowMatch: 0 };
  const { program } = reading;
  const { outcome, passed } = judge(compile(program), tests);
  return {
    outcome,
    passed: passed / tests.length,
    syntaxMatch: syntaxMatch(program, reference),
    dataFlowMatch: dataFlowMatch(program, reference),
  };
}
