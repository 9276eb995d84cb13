/**
 * What an episode did achieve, as a task: for hindsight relabelling (rl/rewards/hindsight.ts). Only the last thing that
 * was put somewhere and stayed there; heat, cold and cleanness would need the state, which a transcript does not hold.
 */
import { into } from "./tasks.ts";

/**
 * @param task the first observation of the episode: its last sentence says what is to be seen
 * @param turns what was done and what was answered
 * @returns `Put lomika on shelf. house: shelf, table`, or undefined if nothing was put down for good
 */
export function achievedTask(
  task: string,
  turns: readonly { readonly action: string; readonly observation: string }[],
): string | undefined {
  for (let at = turns.length - 1; at >= 0; at--) {
    const thing = /^put (\w+)$/.exec(turns[at]!.action)?.[1];
    const [place, things] = turns[at]!.observation.split(": ");
    if (thing === undefined || things?.split(", ").at(-1) !== thing) continue;
    const gone = turns.slice(at + 1).some(({ observation }) => observation === `you have ${thing}`);
    return gone ? undefined : `Put ${thing} ${into(place!)}. ${task.split(". ").at(-1)!}`;
  }
  return undefined;
}
