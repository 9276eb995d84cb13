/**
 * Whether tasks can be learnt from: each is built, its own solution has to be worth 1, and an agent that does nothing
 * has to be worth less. Tests that were written by a model often fail one of the two.
 */
import { reasonOf } from "../../engine/errors.ts";
import { engineOf } from "./engines.ts";
import { tasksIn } from "./folder.ts";
import type { Engine, Machine } from "./machine.ts";
import { type HarborOptions, type HarborSettings, TABLE } from "./options.ts";
import type { Verdict } from "./reward.ts";
import type { HarborTask } from "./task.ts";
import { solve, TEST_LOG, verify } from "./verify.ts";

/** The verdict of a task that has no solution, and is worth less than 1 to an agent that does nothing. */
export const NO_SOLUTION = "no solution to try";

/** A task that was checked. */
export interface CheckedTask {
  readonly name: string;
  /** The reward of its solution, and of an agent that does nothing; undefined: it was not tried. */
  readonly solution: number | undefined;
  readonly empty: number | undefined;
  readonly seconds: number;
  /** `ok`, or in one line why nobody should train on it. */
  readonly verdict: string;
  readonly notes: readonly string[];
}

/** The reward of an agent, and why it is not what it should be, with what the tests said. */
interface Tried {
  readonly reward: number;
  readonly why: string;
}

/** Bytes of the tests' output that are looked at, and letters of a line that are shown. */
const [MOST, WIDEST] = [4000, 400];

/** The line of an output that says most: the last one about an error (a usage stands above pytest's `rootdir:`). */
function telling(output: string): string {
  const lines = output.trimEnd().split("\n");
  const error = lines.findLast((line) =>
    /\berror:|\w(Error|Exception)\b|\bnot found\b|\bdenied\b|\bNo such\b/.test(line),
  );
  return (error ?? lines.at(-1)!).trim().slice(0, WIDEST);
}

async function tryOut(engine: Engine, task: HarborTask, settings: HarborSettings, isSolved: boolean): Promise<Tried> {
  let machine: Machine | undefined;
  try {
    machine = await engine.start(task);
    const failure = isSolved ? await solve(machine, task, settings) : undefined;
    const { reward, problem }: Verdict = await verify(machine, task, settings);
    const log = await machine.run(`tail -c ${MOST} ${TEST_LOG}`, { seconds: 5, outputBytes: MOST });
    const said = telling(log.output);
    const why = [failure, problem, said === "" ? undefined : `"${said}"`];
    return { reward, why: why.filter((each) => each !== undefined).join("; ") };
  } finally {
    machine?.close();
  }
}

async function checkTask(engine: Engine, task: HarborTask, settings: HarborSettings): Promise<CheckedTask> {
  const start = performance.now();
  const { name, notes } = task;
  const result = (verdict: string, solution?: Tried, empty?: Tried): CheckedTask => ({
    name,
    solution: solution?.reward,
    empty: empty?.reward,
    seconds: (performance.now() - start) / 1000,
    verdict,
    notes,
  });
  if (task.reasons.length > 0) return result(`cannot run: ${task.reasons.join("; ")}`);
  const because = ({ why }: Tried): string => (why === "" ? "" : `: ${why}`);
  try {
    await engine.build(task);
    const solution = task.hasSolution ? await tryOut(engine, task, settings, true) : undefined;
    const empty = await tryOut(engine, task, settings, false);
    const show = (reward: number): string => String(Math.round(1000 * reward) / 1000);
    if (empty.reward >= 1) return result(`empty agent ${show(empty.reward)}${because(empty)}`, solution, empty);
    if (solution === undefined) return result(NO_SOLUTION, solution, empty);
    if (solution.reward < 1) return result(`solution ${show(solution.reward)}${because(solution)}`, solution, empty);
    return result("ok", solution, empty);
  } catch (error) {
    return result(`cannot run: ${reasonOf(error)}`);
  }
}

/**
 * Checks all tasks of a folder.
 * @param jobs tasks at a time
 * @param tell is called with each as it is done
 * @returns all of them, in the order of their names
 * @throws WorldgradError in one line if the folder cannot be read, or the engine is not there
 */
export async function checkTasks(
  options: HarborOptions,
  jobs: number,
  tell: (checked: CheckedTask) => void = () => undefined,
): Promise<readonly CheckedTask[]> {
  const settings = TABLE.read(options);
  const tasks = tasksIn(settings);
  const engine = engineOf(settings);
  await engine.check();
  const done: CheckedTask[] = [];
  let next = 0;
  const work = async (): Promise<void> => {
    for (let i = next++; i < tasks.length; i = next++) {
      done[i] = await checkTask(engine, tasks[i]!, settings);
      tell(done[i]!);
    }
  };
  await Promise.all(Array.from({ length: Math.min(jobs, tasks.length) }, work));
  return done;
}
