/**
 * The outcome of programming problems: unit tests with partial credit, as the test-case average of APPS
 * (Hendrycks et al. 2021); all-or-nothing credit is its strict accuracy. This file finds the program in a text,
 * compares values and counts. A `CodeRunner` that the caller provides runs the program; `worldgrad/node` has one that
 * runs JavaScript in a process without permissions.
 *
 * The expected values never reach the runner, so a program can neither read nor forge them: the runner returns what the
 * program computed, and the comparison happens here. Passing tests do not prove correctness: if there are few or public
 * tests, a program may contain their answers.
 */
import { check, fail } from "../../engine/errors.ts";
import { checkKeys, showValue } from "../../engine/options.ts";
import { inCode, number, oneOf, options, type OptionsOf, REQUIRED, text } from "../../engine/optionTable.ts";

/** The arguments and results of a program: JSON, and also undefined, NaN, ±∞ and bigint. */
export type CodeValue =
  null | undefined | boolean | number | bigint | string | readonly CodeValue[] | { readonly [key: string]: CodeValue };

/** A unit test of `gradeCode`: arguments of the program's function, and the value that it should return. */
export interface CodeTest {
  readonly args: readonly CodeValue[];
  readonly expected: CodeValue;
  /** The weight of the test in the credit, above 0. Default 1. */
  readonly weight?: number;
}

/** The reason that a call returned no value. */
export type CodeFailure =
  | "syntax" // the program does not compile
  | "missing" // it has no function of that name
  | "threw"
  | "pending" // its promise can never settle
  | "unsupported" // it returned something that is not a CodeValue
  | "timeout"
  | "output" // its value is too large
  | "crashed" // the process ended, mostly for lack of memory
  | "skipped"; // too many earlier calls ended the process

/** The outcome of a call of a program: the value that it returned, or the reason that there is none. */
export type CodeOutcome =
  { readonly kind: "value"; readonly value: CodeValue } | { readonly kind: CodeFailure; readonly message: string };

/** Calls the program's function `entry` once with each list of arguments, every time in a fresh state. */
export type CodeRunner = (
  program: string,
  entry: string,
  calls: readonly (readonly CodeValue[])[],
  signal?: AbortSignal,
) => Promise<readonly CodeOutcome[]>;

export const CODE_GRADE = options("gradeCode", {
  tests: inCode<readonly CodeTest[]>("the tests", "a list of { args, expected }", Array.isArray, REQUIRED),
  entry: text("solve", "the name of the function that the program must define at its top level"),
  credit: oneOf(["partial", "all"], "partial", "the weighted share of tests that pass, or 1 if all pass, else 0"),
  tolerance: number(0, "numbers count as equal up to tolerance·max(1, |expected|)", { min: 0 }),
});
/** Options of `gradeCode`: the tests, the function that they call, and what passing some of them is worth. */
export type CodeGradeOptions = OptionsOf<typeof CODE_GRADE>;

/** Result of `gradeCode`: the credit of a program, and the outcome of each test. */
export interface CodeGrade {
  /** In [0, 1]. */
  readonly reward: number;
  readonly passed: readonly boolean[];
  /** The outcome of each call, in the order of the tests; empty if the text has no program. */
  readonly outcomes: readonly CodeOutcome[];
}

/**
 * The program in a text: the last fenced block whose language is JavaScript or not given, or the whole text if it has
 * no fence; undefined if there is no program. Only the last block counts, so that a text cannot offer several programs.
 * A fence that is not closed, because the text was cut off, holds no program.
 */
export function extractCode(text: string): string | undefined {
  let found: string | undefined;
  let open: (Fence & { readonly lines: string[] }) | undefined;
  let fences = 0;
  for (const line of text.split("\n")) {
    const fence = fenceOf(line);
    if (fence === undefined || (open && fence.length < open.length)) open?.lines.push(line);
    else if (!open) {
      open = { ...fence, lines: [] };
      fences++;
    } else {
      if (["", "js", "javascript", "mjs", "cjs"].includes(open.language)) found = open.lines.join("\n");
      open = undefined;
    }
  }
  const program = fences === 0 ? text : found;
  return program === undefined || program.trim() === "" ? undefined : program;
}

/** A line of three or more backticks, and the first word after them. A shorter fence does not close a longer one. */
interface Fence {
  readonly length: number;
  readonly language: string;
}

/**
 * The fence in a line; undefined if there is none. A single regular expression would try all ways to split a long line
 * with a backtick at its end among its parts.
 */
function fenceOf(line: string): Fence | undefined {
  const [, ticks] = /^\s{0,3}(`{3,})/.exec(line) ?? [];
  if (ticks === undefined) return undefined;
  const rest = line.slice(line.indexOf(ticks) + ticks.length);
  if (rest.includes("`")) return undefined;
  return { length: ticks.length, language: rest.trim().split(/\s/, 1)[0]!.toLowerCase() };
}

/**
 * Whether two values are equal in type, structure and value. NaN equals NaN, −0 equals 0, and the order of keys does
 * not matter.
 */
export function sameValue(given: CodeValue, expected: CodeValue, tolerance = 0): boolean {
  if (typeof given === "number" && typeof expected === "number") {
    if (given === expected || (Number.isNaN(given) && Number.isNaN(expected))) return true;
    return Math.abs(given - expected) <= tolerance * Math.max(1, Math.abs(expected)) && Number.isFinite(expected);
  }
  if (!isStructure(given) || !isStructure(expected)) return given === expected;
  const [a, b] = [given, expected];
  if (isList(a) || isList(b))
    return isList(a) && isList(b) && a.length === b.length && a.every((v, i) => sameValue(v, b[i], tolerance));
  const keys = Object.keys(a);
  const equal = (key: string): boolean => Object.hasOwn(b, key) && sameValue(a[key], b[key], tolerance);
  return keys.length === Object.keys(b).length && keys.every(equal);
}

type Structure = readonly CodeValue[] | { readonly [key: string]: CodeValue };
const isStructure = (value: CodeValue): value is Structure => typeof value === "object" && value !== null;
const isList = (value: Structure): value is readonly CodeValue[] => Array.isArray(value);

/** Throws unless there is a test, every test is valid, and a function can have the name. */
export function checkTests(where: string, tests: readonly CodeTest[], entry: string): void {
  check(tests.length > 0, () => `${where}: expected at least one test, got none`);
  for (const [i, test] of tests.entries()) {
    checkKeys(`${where}: tests[${i}]`, test, ["args", "expected", "weight"]);
    const { args, weight = 1 } = test;
    check(Array.isArray(args), () => `${where}: tests[${i}].args must be a list, got ${showValue(args)}`);
    check("expected" in test, () => `${where}: tests[${i}] has no expected value (undefined must be written out)`);
    check(
      weight > 0 && weight < Infinity,
      () => `${where}: tests[${i}].weight must be above 0, got ${showValue(weight)}`,
    );
    for (const value of [args, test.expected])
      if (!isCodeValue(value)) fail(`${where}: tests[${i}] holds a value that is no JSON, undefined or bigint`);
  }
  check(
    /^[A-Za-z_$][\w$]*$/.test(entry),
    () => `${where}: entry must be the name of a function, got ${showValue(entry)}`,
  );
}

/** Whether a value consists of plain data only; cyclic and very deep values do not count as such. */
export function isCodeValue(value: unknown, depth = 0): value is CodeValue {
  if (typeof value !== "object") return typeof value !== "function" && typeof value !== "symbol";
  if (value === null) return true;
  const plain = Array.isArray(value) || [Object.prototype, null].includes(Reflect.getPrototypeOf(value));
  return plain && depth < 100 && Object.values(value).every((item) => isCodeValue(item, depth + 1));
}

/**
 * Extracts the program from a text, runs it on all tests and counts those that pass. The reward is 0 if there is no
 * program.
 * @throws on bad options, and if the runner throws because it cannot run any program
 *
 * @example
 * const tests = [{ args: [2, 3], expected: 5 }];
 * const { reward } = await gradeCode("```js\nconst solve = (a, b) => a + b;\n```", run, { tests });
 */
export async function gradeCode(
  text: string,
  run: CodeRunner,
  given: CodeGradeOptions,
  signal?: AbortSignal,
): Promise<CodeGrade> {
  const { tests, entry, credit, tolerance } = CODE_GRADE.read(given);
  checkTests(CODE_GRADE.where, tests, entry);
  const program = extractCode(text);
  if (program === undefined) return { reward: 0, passed: tests.map(() => false), outcomes: [] };
  const calls = tests.map(({ args }) => args);
  const outcomes = await run(program, entry, calls, signal);
  check(
    outcomes.length === tests.length,
    () => `gradeCode: the runner returned ${outcomes.length} outcomes for ${tests.length} calls`,
  );
  const passed = tests.map(({ expected }, i) => {
    const outcome = outcomes[i]!;
    return outcome.kind === "value" && sameValue(outcome.value, expected, tolerance);
  });
  const weightOf = (counts: (i: number) => boolean): number =>
    tests.reduce((sum, { weight = 1 }, i) => sum + (counts(i) ? weight : 0), 0);
  const all = passed.every(Boolean);
  // If all pass the share is exactly 1; a quotient might round to less.
  const share = all ? 1 : weightOf((i) => passed[i]!) / weightOf(() => true);
  return { reward: credit === "all" ? Number(all) : share, passed, outcomes };
}
