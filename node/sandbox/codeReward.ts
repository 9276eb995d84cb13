/**
 * The code reward: JavaScript programs are judged by unit tests, with partial credit, in a process without permissions.
 * rl/rewards/code.ts finds the program and compares values, node/sandbox/runner.ts runs it, and this file joins them.
 */
import { checkKeys } from "../../engine/options.ts";
import {
  checkCodeGrade,
  CODE_GRADE_KEYS,
  type CodeGrade,
  type CodeGradeOptions,
  gradeCode,
} from "../../rl/rewards/code.ts";
import { javascriptRunner, SANDBOX, type SandboxOptions } from "./runner.ts";

export interface CodeRewardOptions extends CodeGradeOptions, SandboxOptions {}

/**
 * A reward for texts that contain a JavaScript program. Each test calls the program's function `solve` (or `entry`) in
 * a fresh state. The reward is the weighted share of the tests that pass; with `credit: "all"` it is 1 if all pass,
 * else 0.
 * @throws on bad options; the returned function rejects only if no process can be started
 *
 * @example
 * const reward = codeReward({ tests: [{ args: [[3, 1, 2]], expected: [1, 2, 3] }], timeout: 500, memoryMb: 64 });
 * (await reward("```js\nfunction solve(list) { return list.sort(); }\n```")).reward; // 1
 */
export function codeReward(options: CodeRewardOptions): (text: string, signal?: AbortSignal) => Promise<CodeGrade> {
  const ofRunner = Object.keys(SANDBOX.fields);
  checkKeys("codeReward", options, [...CODE_GRADE_KEYS, ...ofRunner]);
  const pick = (keys: readonly string[]): object =>
    Object.fromEntries(Object.entries(options).filter(([key]) => keys.includes(key)));
  const grade = pick(CODE_GRADE_KEYS) as CodeGradeOptions;
  checkCodeGrade("codeReward", grade);
  const run = javascriptRunner(pick(ofRunner));
  return async (text, signal) => gradeCode(text, run, grade, signal);
}
