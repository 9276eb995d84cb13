/** The rules and the scripted players of `web`. */
import type { Rng } from "../../engine/index.ts";
import type { NoviceMove } from "../../rl/environment.ts";
import type { GameRules } from "../game.ts";
import { nameMaker } from "../words.ts";
import {
  HOME,
  LONG,
  SHOWN,
  type WEB,
  type WebEpisode,
  type WebFamily,
  type WebState,
  type WebTask,
  withRefs,
} from "./episode.ts";
import { achieved } from "./hindsight.ts";
import { play } from "./play.ts";
import { makeTask } from "./tasks.ts";

/**
 * The expert: fills in what the task asks for, corrects what the server refuses, and goes from page to page. It uses
 * only what was shown.
 * @param isCareless takes any filled field for right until the server refuses it
 */
function move({ task: { site, goal, asked, visits }, state }: WebEpisode, isCareless: boolean): string {
  const open = state.path.at(-1) ?? HOME;
  const page = site[open]!;
  const elements = withRefs(page);
  const wanted = ((!state.isRefused && asked) || goal.values)[open] ?? {};
  for (const [i, { tag, text }] of elements.entries()) {
    const [has, wants = ""] = [state.values[open]?.[text] ?? "", wanted[text]];
    if (isCareless && has !== "" && !state.isRefused) continue;
    if (tag === "input" && has !== wants) return `type ${i + 1} "${wants}"`;
    if (tag === "select" && wants !== "" && has !== wants) return `select ${i + 1} ${wants}`;
  }
  const next = visits.find((name) => !state.seen.includes(name)) ?? goal.page;
  const refOf = (to: string | undefined): number =>
    elements.findIndex((element) => "to" in element && element.to === to);
  const direct = refOf(next);
  const at = direct < 0 && open === HOME ? refOf(visits[0]) : direct;
  if (at < 0) return "back";
  if (elements.length < LONG || (at >= state.above && at < state.above + SHOWN)) return `click ${at + 1}`;
  return at < state.above ? "scroll up" : "scroll down";
}

const expert = (episode: WebEpisode): string => move(episode, false);

/** A random action on an element that may exist, with a word or a number of the task. */
function random(rng: Rng, task = ""): string {
  const [asks = ""] = task.split("\n", 1);
  const words = asks.match(/\b[a-z]{6}\b|\d+/g) ?? [nameMaker(rng)()];
  const ref = 1 + rng.int(6);
  return rng.choice<() => string>([
    () => `click ${ref}`,
    () => `type ${ref} "${rng.choice(words)}"`,
    () => `select ${ref} ${rng.choice(words)}`,
    () => rng.choice(["scroll down", "back"]),
  ])();
}

/** The novice: half of its actions are on a wrong element or with a wrong word, and it does not check filled fields. */
function novice(episode: WebEpisode, rng: Rng): NoviceMove {
  const action = move(episode, true);
  const isRight = rng.int(2) > 0;
  const count = withRefs(episode.task.site[episode.state.path.at(-1) ?? HOME]!).length;
  const other = 1 + rng.int(Math.max(1, count));
  const text = nameMaker(rng, episode.options.split)();
  if (isRight || !/\d/.test(action)) return { action, isGuess: false };
  const isTyped = action.startsWith("type") && rng.int(2) === 0;
  const wrong = isTyped ? action.replace(/".*"/, `"${text}"`) : action.replace(/\d/, String(other));
  return { action: wrong, isGuess: wrong !== action };
}

/** Fields that hold what they should, and pages on the way that have been open. */
function subgoals({ task: { goal, visits }, state }: WebEpisode): string[] {
  const fields = Object.entries(goal.values).flatMap(([page, values]) =>
    Object.entries(values).flatMap(([field, wants]) =>
      state.values[page]?.[field] === wants ? [`field ${page} ${field}`] : [],
    ),
  );
  return [...fields, ...visits.filter((page) => state.seen.includes(page)).map((page) => `page ${page}`)];
}

export const rules: GameRules<typeof WEB, WebFamily, WebTask, WebState> = {
  makeTask,
  start: () => ({ path: [], seen: [], values: {}, above: 0, isRefused: false }),
  play,
  expert,
  random,
  novice,
  subgoals,
  achieved,
};
