/**
 * `web`: small generated web pages as text, in the setting of WebGUM and MiniWoB. A page is compact HTML, an element a
 * line, and what can be acted on has a ref: `<a 1 lomika>`, `<input 2 city=lomika>`, `<select 3 size: small large>`,
 * `<button 4 send>`. The agent says `click REF`, `type REF "TEXT"`, `select REF OPTION`, `scroll down`, `scroll up` and
 * `back`. A button sends the fields of its page; the server may refuse them and says why. An episode ends on a page that
 * is the last, and the end state is what is judged: which page it is, and what was sent on the way. Read it in this
 * order: episode.ts (what a page is), tasks.ts (which are drawn), play.ts (what is answered), this file.
 *
 * The task families, each with the expert's episode for seed 0 (a test plays them again and compares):
 *
 * click (level 1): one of six links
 *     Click kikari
 *     <a 1 buruba>
 *     <a 2 dufele>
 *     <a 3 kitobe>
 *     <a 4 kikari>
 *     <a 5 faredi>
 *     <a 6 rorodo>
 *     $ click 4
 *     <p kikari>
 *
 * enter (level 1): one of two fields, and the button
 *     Enter feleki as name
 *     <input 1 name>
 *     <input 2 city>
 *     <button 3 join>
 *     $ type 1 "feleki"
 *     <input 1 name=feleki>
 *     $ click 3
 *     <p sent>
 *
 * choose (level 2): one of two drop-downs, and the button
 *     Set kind to kitobe
 *     <select 1 day: kikari faredi>
 *     <select 2 kind: dufele kitobe>
 *     <button 3 send>
 *     $ select 2 kitobe
 *     <select 2 kind=kitobe: dufele kitobe>
 *     $ click 3
 *     <p sent>
 *
 * form (level 2): a field and a drop-down
 *     Set club to bekika, day to badufe
 *     <select 1 day: badufe lekito>
 *     <input 2 club>
 *     <button 3 join>
 *     $ select 1 badufe
 *     <select 1 day=badufe: badufe lekito>
 *     $ type 2 "bekika"
 *     <input 2 club=bekika>
 *     $ click 3
 *     <p sent>
 *
 * scroll (level 3): a link in a list that shows four at a time
 *     Go to buruba
 *     <a 1 buruba>
 *     <a 2 dufele>
 *     <a 3 kitobe>
 *     <a 4 kikari>
 *     ...
 *     $ click 1
 *     <p buruba>
 *
 * retry (level 3): a form that may refuse what is entered, and says what it takes
 *     Set club to kitobe
 *     <input 1 club>
 *     <input 2 role>
 *     <button 3 send>
 *     $ type 1 "kitobe"
 *     <input 1 club=kitobe>
 *     $ click 3
 *     <p kitobe is taken: faredi>
 *     $ type 1 "faredi"
 *     <input 1 club=faredi>
 *     $ click 3
 *     <p sent>
 *
 * lookup (level 4): what one page says has to be entered on another
 *     Enter the team of buruba
 *     <a 1 dufele>
 *     <a 2 buruba>
 *     <a 3 form>
 *     $ click 2
 *     <p team kitobe>
 *     $ back
 *     <a 1 dufele>
 *     <a 2 buruba>
 *     <a 3 form>
 *     $ click 3
 *     <input 1 team>
 *     <button 2 join>
 *     $ type 1 "kitobe"
 *     <input 1 team=kitobe>
 *     $ click 2
 *     <p sent>
 *
 * order (level 4): a product's page, its drop-down, and a form behind it
 *     Order kitobe, room mimere, team faredi
 *     <a 1 buruba>
 *     <a 2 dufele>
 *     <a 3 kitobe>
 *     $ click 3
 *     <select 1 room: rorodo mimere>
 *     <button 2 next>
 *     $ select 1 mimere
 *     <select 1 room=mimere: rorodo mimere>
 *     $ click 2
 *     <input 1 team>
 *     <button 2 save>
 *     $ type 1 "faredi"
 *     <input 1 team=faredi>
 *     $ click 2
 *     <p sent>
 *
 * What a field refuses is only told when it is sent, and what a page says only when it is open; all else follows from
 * what has been shown. Not modelled: nested elements, attributes, styles and pictures, of which WebGUM shows the last
 * two beside the text.
 */
import type { Rng } from "../../engine/index.ts";
import type { EnvironmentSpec, NoviceMove } from "../environment.ts";
import { defineGame } from "../game.ts";
import { nameMaker } from "../words.ts";
import {
  FAMILIES,
  HOME,
  LONG,
  SHOWN,
  WEB,
  type WebEpisode,
  type WebFamily,
  type WebOptions,
  type WebState,
  type WebTask,
  withRefs,
} from "./episode.ts";

export type { WebOptions } from "./episode.ts";

/**
 * Fills what the task asks for, corrects what the server refuses, and goes from page to page; it uses what was shown.
 * @param isCareless takes a field that holds something for right, until the server refuses it
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

/** An action on an element that may be there, with a word or a number of the task. */
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

/** Does half of what it does on another element, or with another word, and does not look at what it has filled. */
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

/**
 * Small generated web pages as text, after WebGUM (Furuta et al. 2023, arXiv 2305.11854) and MiniWoB: `click REF`,
 * `type REF "TEXT"`, `select REF OPTION`, `scroll`, `back`. The reward is 1 if the end state is what was asked for.
 */
export const web: EnvironmentSpec<WebOptions> = defineGame<typeof WEB, WebFamily, WebTask, WebState>({
  name: "web",
  description: "click, type and select on small web pages until what was asked for is sent",
  source: "after WebGUM, arXiv 2305.11854",
  families: FAMILIES,
  options: WEB,
  makeTask: async (...drawn) => (await import("./tasks.ts")).makeTask(...drawn),
  start: () => ({ path: [], seen: [], values: {}, above: 0, isRefused: false }),
  play: async (episode, action) => (await import("./play.ts")).play(episode, action),
  expert,
  random,
  novice,
});
