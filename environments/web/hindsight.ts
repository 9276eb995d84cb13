/** The task that an episode did solve, for hindsight relabelling (data/hindsight.ts). */
import type { Achievement, ShownTurn } from "../../rl/environment.ts";

/**
 * A task of `click`: the link of the first page that was opened at the end; or of `form`: the values with which the
 * form of the first page was sent. Paths over several pages, or with a word of the server's, make no task.
 * @param task the first observation of the episode: what is asked for, and the first page below it
 */
export function achieved(task: string, turns: readonly ShownTurn[]): Achievement | undefined {
  const page = task.slice(task.indexOf("\n") + 1);
  const end = turns.findIndex(({ observation }) => /^<p \w+>$/.test(observation));
  if (end < 0 || end + 1 < turns.length) return undefined;
  const shown = turns.map(({ observation }) => observation);
  const last = turns[end]!.observation.slice(3, -1);
  const asks = page.includes("<button ") ? formTask(last, shown) : linkTask(last, [page, ...shown]);
  return asks === undefined ? undefined : { task: `${asks}\n${page}`, turns: end + 1 };
}

const linkTask = (name: string, pages: readonly string[]): string | undefined =>
  pages.some((page) => page.split("\n").some((line) => /^<a \d /.test(line) && line.slice(5, -1) === name))
    ? `Click ${name}`
    : undefined;

/** The task of the values that the fields held last, if the form was accepted. */
function formTask(last: string, shown: readonly string[]): string | undefined {
  const held = new Map<string, string>();
  for (const line of shown.flatMap((observation) => observation.split("\n"))) {
    const [, field = "", value] = /^<(?:input|select) \d (\w+)(?:=([^:>]*))?/.exec(line) ?? [];
    held.delete(field);
    if (value !== undefined) held.set(field, value);
  }
  if (last !== "sent" || held.size === 0) return undefined;
  return `Set ${[...held].map(([field, value]) => `${field} to ${value}`).join(", ")}`;
}
