/**
 * `harbor`: folders in the Harbor task format as tasks. An episode is a task's own machine, in which the agent works
 * with bash until it says `done`; then the task's tests judge. It runs on Linux, in Node. docs/harbor.md says what is
 * supported and what is not.
 */
import type { EnvironmentSpec } from "../../environments/index.ts";
import { HarborEpisode } from "./episode.ts";
import { engineOf } from "./engines.ts";
import { fingerprintOf, playable } from "./folder.ts";
import { type HarborOptions, type HarborSettings, scaled, TABLE } from "./options.ts";

export { actionsOf, HARBOR_TOOLS, type HarborAction } from "./action.ts";
export { type CheckedTask, checkTasks, NO_SOLUTION } from "./checkTasks.ts";
export { HarborEpisode } from "./episode.ts";
export type { HarborOptions } from "./options.ts";
export { type HarborTask, readTask } from "./task.ts";

/** Milliseconds for all that has no time limit of a task: a machine is started, files are put in, a reward is read. */
const PATIENCE = 120_000;

const settle = (given: HarborOptions | undefined): HarborSettings => TABLE.read(given);

/** Words of the random player. */
const LINES = ["ls", "pwd", "ls -la", "cat *", "find .", "echo hello", "done"];

/** Tasks in the Harbor format: work in bash until the task's own tests are content. */
export const harbor: EnvironmentSpec<HarborOptions> = {
  name: "harbor",
  description: "solve a task on a Linux machine, with bash",
  source: "tasks in the Harbor format, harborframework.com",
  families: [{ name: "task", level: 1, description: "the tasks of a folder, by their names" }],
  options: TABLE.fields,
  make: (given) => new HarborEpisode(settle(given)),
  atOnce: (given) => settle(given).sessions,
  limits(given) {
    const settings = settle(given);
    const tasks = playable(settings);
    const most = (times: readonly number[]): number => 1000 * scaled(Math.max(...times), settings) + PATIENCE;
    const verifier = most(tasks.map(({ verifierSeconds }) => verifierSeconds));
    return {
      reset: most(tasks.map(({ buildSeconds }) => buildSeconds)),
      step: 1000 * settings.seconds + verifier,
      end: verifier,
    };
  },
  async check(given) {
    const settings = settle(given);
    playable(settings);
    await engineOf(settings).check();
  },
  // Files of both splits, so that all uses of tasks have one hash.
  fingerprint: async (given) => fingerprintOf(settle(given)),
  random: (rng) => rng.choice(LINES),
};
