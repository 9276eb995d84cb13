/**
 * Outcome of programming problems: unit tests with partial credit (as APPS, Hendrycks et al. 2021, counts test cases; all-or-nothing
 * is its strict accuracy). What is pure lives here: finding the program in a text, comparing values, counting. Running it is the
 * `CodeRunner`'s business, which the caller brings; `worldgrad/node` has one that runs JavaScript in a process without permissions.
 *
 * The expected values never reach the runner, so there is nothing in there to read or to forge: it returns what the program
 * computed, and the verdict falls here. It is no proof of correctness; a program may know the answers to few or public cases by heart.
 */
import { check, fail } from "../../engine/errors.ts";
import { checkKeys, showValue } from "../../engine/options.ts";

/** What goes into a program and comes out: JSON, and also undefined, NaN, ±∞ and bigint. */
export type CodeValue =
  null | undefined | boolean | number | bigint | string | readonly CodeValue[] | { readonly [key: string]: CodeValue };

export interface CodeTest {
  readonly args: readonly CodeValue[];
  readonly expected: CodeValue;
  /** Share of the credit, above 0. Default 1. */
  readonly weight?: number;
}

/** Why a call has no value. */
export type CodeFailure =
  | "syntax" // the program does not compile
  | "missing" // it has no function of that name
  | "threw"
  | "pending" // its promise can never settle
  | "unsupported" // it returned what is no CodeValue
  | "timeout"
  | "output" // its value is too large
  | "crashed" // the process ended: mostly memory
  | "skipped"; // too many calls before it ended the process

export type CodeOutcome =
  { readonly kind: "value"; readonly value: CodeValue } | { readonly kind: CodeFailure; readonly message: string };

/** Calls the program's function `entry` once with each list of arguments, every time in a fresh state. */
export type CodeRunner = (
  program: string,
  entry: string,
  calls: readonly (readonly CodeValue[])[],
  signal?: AbortSignal,
) => Promise<readonly CodeOutcome[]>;

export interface CodeGradeOptions {
  readonly tests: readonly CodeTest[];
  /** Name of the function that the program must define at its top level. Default `solve`. */
  readonly entry?: string;
  /** `partial`: the weighted share of tests that pass; `all`: 1 if all pass, else 0. Default partial. */
  readonly credit?: "partial" | "all";
  /** Numbers count as equal up to tolerance·max(1, |expected|). Default 0: exactly. */
  readonly tolerance?: number;
}

export interface CodeGrade {
  /** In [0, 1]. */
  readonly reward: number;
  readonly passed: readonly boolean[];
  /** What each call came to, in the order of the tests; empty if the text holds no program. */
  readonly outcomes: readonly CodeOutcome[];
}

/** The keys of `CodeGradeOptions`, for runners that have more. */
export const CODE_GRADE_KEYS: readonly string[] = ["tests", "entry", "credit", "tolerance"];

/**
 * The program in a text: the last fenced block that is JavaScript or says nothing about its language; the whole text if it has no
 * fence at all; undefined if there is none. Of several the last counts, so offering many is no way out. A fence that is not
 * closed (a text cut off) holds no program.
 */
export function extractCode(text: string): string | undefined {
  let found: string | undefined;
  let open: { readonly language: string; readonly lines: string[] } | undefined;
  let fences = 0;
  for (const line of text.split("\n")) {
    const fence = /^\s{0,3}```\s*([^\s`]*)[^`]*$/.exec(line);
    if (!fence) open?.lines.push(line);
    else if (!open) {
      open = { language: fence[1]!.toLowerCase(), lines: [] };
      fences++;
    } else {
      if (["", "js", "javascript", "mjs", "cjs"].includes(open.language)) found = open.lines.join("\n");
      open = undefined;
    }
  }
  const program = fences === 0 ? text : found;
  return program === undefined || program.trim() === "" ? undefined : program;
}

/** Equal in type, structure and value. NaN equals NaN, −0 equals 0; the order of keys does not matter, their presence does. */
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

/** Throws unless these are options with at least one test, and a name that can be a function's. */
export function checkCodeGrade(where: string, options: CodeGradeOptions): void {
  const { tests, entry = "solve", credit = "partial", tolerance = 0 } = options;
  check(Array.isArray(tests), () => `${where}: tests must be a list of { args, expected }, got ${showValue(tests)}`);
  check(tests.length > 0, () => `${where}: expected at least one test, got none`);
  for (const [i, test] of (tests as readonly CodeTest[]).entries()) {
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
  check(
    credit === "partial" || credit === "all",
    () => `${where}: credit must be 'partial' or 'all', got ${showValue(credit)}`,
  );
  check(
    tolerance >= 0 && tolerance < Infinity,
    () => `${where}: tolerance must be at least 0, got ${showValue(tolerance)}`,
  );
}

/** Whether it is made of plain data only; cyclic and very deep values are not. */
export function isCodeValue(value: unknown, depth = 0): value is CodeValue {
  if (typeof value !== "object") return typeof value !== "function" && typeof value !== "symbol";
  if (value === null) return true;
  const plain = Array.isArray(value) || [Object.prototype, null].includes(Reflect.getPrototypeOf(value));
  return plain && depth < 100 && Object.values(value).every((item) => isCodeValue(item, depth + 1));
}

/**
 * Extracts the program from a text, runs it on all tests, and counts what it got right. 0 if there is no program.
 *
 * @throws on bad options; what the runner throws when it cannot run anything at all (which is not the program's fault)
 *
 * @example
 * const tests = [{ args: [2, 3], expected: 5 }];
 * const { reward } = await gradeCode("```js\nconst solve = (a, b) => a + b;\n```", run, { tests });
 */
export async function gradeCode(
  text: string,
  run: CodeRunner,
  options: CodeGradeOptions,
  signal?: AbortSignal,
): Promise<CodeGrade> {
  checkKeys("gradeCode", options, CODE_GRADE_KEYS);
  checkCodeGrade("gradeCode", options);
  const { tests, entry = "solve", credit = "partial", tolerance = 0 } = options;
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
  // Not a quotient where all pass: it may round to less than 1.
  const share = all ? 1 : weightOf((i) => passed[i]!) / weightOf(() => true);
  return { reward: credit === "all" ? Number(all) : share, passed, outcomes };
}
