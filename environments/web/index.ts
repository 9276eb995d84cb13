/**
 * `web`: small generated web pages as text, in the setting of WebGUM and MiniWoB. A page is compact HTML with a line
 * for each element, and elements that can be acted on have a ref: `<a 1 lomika>`, `<input 2 city=lomika>`, `<select 3
 * size: small large>`, `<button 4 send>`. The agent says `click REF`, `type REF "TEXT"`, `select REF OPTION`, `scroll
 * down`, `scroll up` and `back`. A button sends the fields of its page; the server may refuse them, and then says why.
 * An episode ends on a final page, and its end state is judged: which page it is, and what was sent on the way. Read it
 * in this order: episode.ts (pages), tasks.ts (drawing sites), play.ts (answers), rules.ts (scripted players).
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
 * Only sending a field tells what it refuses, and only opening a page tells what it says; all else follows from what
 * has been shown. Not modelled: nested elements, attributes, styles and pictures (WebGUM shows the last two beside the
 * text).
 */
import type { EnvironmentSpec } from "../../rl/environment.ts";
import { defineGame } from "../game.ts";
import { FAMILIES, WEB, type WebOptions } from "./episode.ts";

export type { WebOptions } from "./episode.ts";

/**
 * Small generated web pages as text, after WebGUM (Furuta et al. 2023, arXiv 2305.11854) and MiniWoB: `click REF`,
 * `type REF "TEXT"`, `select REF OPTION`, `scroll`, `back`. The reward is 1 if the end state is what was asked for.
 */
export const web: EnvironmentSpec<WebOptions> = defineGame(
  {
    name: "web",
    description: "click, type and select on small web pages until what was asked for is sent",
    source: "after WebGUM, arXiv 2305.11854",
    families: FAMILIES,
    options: WEB,
    novice: true,
    achieved: true,
  },
  () => import("./rules.ts"),
);
