/** The task that an episode did solve, for hindsight relabelling (data/hindsight.ts). */
import type { Achievement, ShownTurn } from "../../rl/environment.ts";
import { into } from "./tasks.ts";

/**
 * The task, worded as in the family `place`, of the first thing that was put somewhere else than it was taken from.
 * Heat, cold and cleanness do not count: to put a thing where it should be is a task of its own.
 * @param task the first observation of the episode: its last sentence says what is to be seen
 */
export function achieved(task: string, turns: readonly ShownTurn[]): Achievement | undefined {
  let [at, from]: (string | undefined)[] = [];
  for (const [i, { action, observation }] of turns.entries()) {
    const [place, things] = observation.split(": ");
    const thing = /^put (\w+)$/.exec(action)?.[1];
    if (observation.startsWith("you have ") && action.startsWith("take ")) from = at;
    if (things === undefined) continue;
    at = place!;
    if (things.split(", ").at(-1) === thing && from !== undefined && at !== from)
      return { task: `Put ${thing!} ${into(at)}. ${task.split(". ").at(-1)!}`, turns: i + 1 };
  }
  return undefined;
}
