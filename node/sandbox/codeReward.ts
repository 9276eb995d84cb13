/**
 * The code reward: JavaScript programs judged by unit tests, with partial credit, in a process without rights.
 *
 * The parts: rl/rewards/code.ts finds the program and compares values, node/sandbox/runner.ts runs it. This only joins them.
 */
import { checkKeys } from "../../engine/options.ts";
import {
  checkCodeGrade,
  CODE_GRADE_KEYS,
  type CodeGrade,
  type CodeGradeOptions,
  gradeCode,
} from "../../rl/rewards/code.ts";
import { javascriptRunner, SANDBOX_KEYS, type SandboxOptions } from "./runner.ts";

export interface CodeRewardOptions extends CodeGradeOptions, SandboxOptions {}

/**
 * A reward for texts that hold a JavaScript program: each test calls its function `solve` (or `entry`) in a fresh state. The
 * reward is the weighted share of the tests that pass, or with `credit: "all"` 1 for all and 0 for less.
 *
 * @throws at once on bad options; later only if no process can be started
 *
 * @example
 * const reward = codeReward({ tests: [{ args: [[3, 1, 2]], expected: [1, 2, 3] }], timeout: 500, memoryMb: 64 });
 * (await reward("```js\nfunction solve(list) { return list.sort(); }\n```")).reward; // 1
 */
export function codeReward(options: CodeRewardOptions): (text: string, signal?: AbortSignal) => Promise<CodeGrade> {
  checkKeys("codeReward", options, [...CODE_GRADE_KEYS, ...SANDBOX_KEYS]);
  const pick = (keys: readonly string[]): object =>
    Object.fromEntries(Object.entries(options).filter(([key]) => keys.includes(key)));
  const grade = pick(CODE_GRADE_KEYS) as CodeGradeOptions;
  checkCodeGrade("codeReward", grade);
  const run = javascriptRunner(pick(SANDBOX_KEYS));
  return async (text, signal) => gradeCode(text, run, grade, signal);
}
