/**
 * The code reward: JavaScript programs are judged by unit tests, with partial credit, in a process without permissions.
 * papers/rewards/code.ts finds the program and compares values, run/node/sandbox/runner.ts runs it, and this file joins
 * them.
 */
import { options, type OptionsOf } from "../../../engine/optionTable.ts";
import { checkTests, CODE_GRADE, type CodeGrade, gradeCode } from "../../../papers/rewards/code.ts";
import { javascriptRunner, SANDBOX } from "./runner.ts";

const CODE_REWARD = options("codeReward", { ...CODE_GRADE.fields, ...SANDBOX.fields });
export type CodeRewardOptions = OptionsOf<typeof CODE_REWARD>;

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
export function codeReward(given: CodeRewardOptions): (text: string, signal?: AbortSignal) => Promise<CodeGrade> {
  const { tests, entry, credit, tolerance, ...sandbox } = CODE_REWARD.read(given);
  checkTests(CODE_REWARD.where, tests, entry);
  const run = javascriptRunner(sandbox);
  return async (text, signal) => gradeCode(text, run, { tests, entry, credit, tolerance }, signal);
}
