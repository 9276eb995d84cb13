/** The end of an episode: the tests are put in, run beside what the agent has begun, and their reward is read. */
import { join } from "node:path";
import { archiveOf } from "./context.ts";
import type { Machine } from "./machine.ts";
import { type HarborSettings, scaled } from "./options.ts";
import { MOST_REWARD_BYTES, type Verdict, verdictOf, without } from "./reward.ts";
import { type HarborTask, problemOf } from "./task.ts";

const [JSON_FILE, TEXT_FILE] = ["/logs/verifier/reward.json", "/logs/verifier/reward.txt"] as const;
/** Where the output of the tests goes, as with Harbor. */
export const TEST_LOG = "/logs/verifier/test-stdout.txt";

/**
 * Runs a task's tests. Whatever an agent can bring about is a reward of 0 with a problem.
 * @throws if the tests of this machine cannot be read: that is no agent's fault
 */
export async function verify(machine: Machine, task: HarborTask, settings: HarborSettings): Promise<Verdict> {
  const tests = await archiveOf(join(task.folder, "tests"));
  if (settings.background === "kill" && !(await machine.stop())) return without("the machine is gone");
  const suspects = (await machine.suspects())?.join(", ") ?? "";
  await machine.remove([JSON_FILE, TEXT_FILE]);
  if (!(await machine.put(tests, "/tests"))) return without("the tests could not be put in");
  const { isLate } = await machine.script({
    file: "/tests/test.sh",
    // Nothing of the agent's home is loaded into the tests' own Python.
    env: { PYTHONNOUSERSITE: "1", ...task.verifierEnv },
    seconds: scaled(task.verifierSeconds, settings),
    log: TEST_LOG,
    standIns: settings.standIns,
  });
  // Nothing can write any more when the reward is read.
  if (!(await machine.stop())) return without("the machine is gone");
  if (isLate) return without("the verifier ran out of time");
  const read = (path: string): ReturnType<Machine["read"]> => machine.read(path, MOST_REWARD_BYTES);
  const verdict = verdictOf(await read(JSON_FILE), await read(TEXT_FILE));
  return suspects === "" ? verdict : { ...verdict, suspects };
}

/**
 * Runs a task's own solution, as Harbor's oracle does.
 * @returns why it failed; undefined: it ended well
 */
export async function solve(machine: Machine, task: HarborTask, settings: HarborSettings): Promise<string | undefined> {
  const files = await archiveOf(join(task.folder, "solution"));
  if (!(await machine.put(files, "/solution"))) return "the solution could not be put in";
  const { code, isLate } = await machine.script({
    file: "/solution/solve.sh",
    env: task.solutionEnv,
    seconds: scaled(task.agentSeconds ?? 600, settings),
    log: "/logs/agent/solution.txt",
    standIns: settings.standIns,
  });
  if (isLate) return "the solution ran out of time";
  const problem = problemOf(task.folder, "solution", "solve.sh")[0];
  if (problem !== undefined) return problem;
  return code === 0 ? undefined : `the solution ended with ${code ?? "no exit code"}`;
}
