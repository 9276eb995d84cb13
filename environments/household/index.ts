/**
 * `household`: a text adventure after ALFWorld (Shridhar et al. 2021): find things in rooms and closed places, heat,
 * cool or wash them, and put them where they belong. The agent types `go PLACE`, `open PLACE`, `close PLACE`, `take
 * THING`, `put THING`, `heat THING` (at the stove), `cool THING` (at the open fridge), `wash THING` (at the sink), `use
 * lamp`, `look` and `hand`. The episode ends with reward 1 as soon as the goal holds, and with 0 after `maxSteps`
 * actions. Read it in this order: house.ts (the world and its actions), tasks.ts (the goals), this file (the episode
 * and the expert).
 *
 * The task families, each with the expert's episode for seed 0 (a test plays them again and compares):
 *
 * carry (level 1): from a place that is told to another
 *     Take medobo from desk and put it on counter. house: lamp, desk, counter, shelf
 *     $ go desk
 *     desk: medobo, butata
 *     $ take medobo
 *     you have medobo
 *     $ go counter
 *     counter: nothing
 *     $ put medobo
 *     counter: medobo
 *
 * place (level 1): find a thing and put it somewhere
 *     Put medobo on counter. house: lamp, desk, counter, shelf
 *     $ go lamp
 *     lamp: nothing
 *     $ go desk
 *     desk: telito
 *     $ go shelf
 *     shelf: medobo
 *     $ take medobo
 *     you have medobo
 *     $ go counter
 *     counter: mudufu
 *     $ put medobo
 *     counter: mudufu, medobo
 *
 * stow (level 2): the same, where things lie in closed places and go into one
 *     Put kefebo in drawer. house: drawer, cupboard, closet, box
 *     $ go cupboard
 *     cupboard is closed
 *     $ open cupboard
 *     cupboard: nothing
 *     $ go closet
 *     closet is closed
 *     $ open closet
 *     closet: kefebo
 *     $ take kefebo
 *     you have kefebo
 *     $ go drawer
 *     drawer is closed
 *     $ open drawer
 *     drawer: borile, litofu
 *     $ put kefebo
 *     drawer: borile, litofu, kefebo
 *
 * light (level 2): find a thing and look at it under the lamp
 *     Hold febome under the lit lamp. house: shelf, sink, bed, lamp
 *     $ go shelf
 *     shelf: nothing
 *     $ go sink
 *     sink: nothing
 *     $ go bed
 *     bed: febome, tofumu
 *     $ take febome
 *     you have febome
 *     $ go lamp
 *     lamp: rilete
 *     $ use lamp
 *     lamp is on
 *
 * wash (level 2): find a thing, wash it in the sink, put it somewhere
 *     Wash bomedo and put it on bench. house: sink, desk, bench, table
 *     $ go sink
 *     sink: tofumu
 *     $ go desk
 *     desk: bomedo, butata
 *     $ take bomedo
 *     you have bomedo
 *     $ go sink
 *     sink: tofumu
 *     $ wash bomedo
 *     bomedo is clean
 *     $ go bench
 *     bench: nothing
 *     $ put bomedo
 *     bench: bomedo
 *
 * heat (level 3): find a thing, heat it on the stove, put it somewhere
 *     Heat telito and put it in drawer. house: lamp, stove, table, drawer
 *     $ go lamp
 *     lamp: telito
 *     $ take telito
 *     you have telito
 *     $ go stove
 *     stove: dufubo
 *     $ heat telito
 *     telito is hot
 *     $ go drawer
 *     drawer is closed
 *     $ open drawer
 *     drawer: nothing
 *     $ put telito
 *     drawer: telito
 *
 * cool (level 3): find a thing, cool it in the fridge, put it somewhere
 *     Cool telito and put it in drawer. house: lamp, fridge, table, drawer
 *     $ go lamp
 *     lamp: telito
 *     $ take telito
 *     you have telito
 *     $ go fridge
 *     fridge is closed
 *     $ open fridge
 *     fridge: dufubo
 *     $ cool telito
 *     telito is cold
 *     $ go drawer
 *     drawer is closed
 *     $ open drawer
 *     drawer: nothing
 *     $ put telito
 *     drawer: telito
 *
 * two (level 4): find two things and put both somewhere
 *     Put litofu and mudufu in box. house: box, bed, desk, cupboard
 *     $ go bed
 *     bed: mudufu, botubu
 *     $ take mudufu
 *     you have mudufu
 *     $ go box
 *     box is closed
 *     $ open box
 *     box: nothing
 *     $ put mudufu
 *     box: mudufu
 *     $ go desk
 *     desk: litofu
 *     $ take litofu
 *     you have litofu
 *     $ go box
 *     box: mudufu
 *     $ put litofu
 *     box: mudufu, litofu
 *
 * errand (level 4): find, treat and put a thing in a house of two rooms
 *     Put clean borile on shelf. kitchen: counter, stove, sink; to hall
 *     $ go counter
 *     counter: butata
 *     $ go stove
 *     stove: borile
 *     $ take borile
 *     you have borile
 *     $ go sink
 *     sink: nothing
 *     $ wash borile
 *     borile is clean
 *     $ go hall
 *     hall: table, bench, shelf; to kitchen
 *     $ go shelf
 *     shelf: dikume, tofumu
 *     $ put borile
 *     shelf: dikume, tofumu, borile
 *
 * Where things lie differs from seed to seed and is told only by the family `carry`; the expert looks through the
 * places in the order in which they are listed. In houses of several rooms a place is always in the same room (a fridge
 * in the kitchen). Not modelled: kinds of things (their names are as arbitrary as places are fixed), slicing, places
 * within places.
 */
import type { EnvironmentSpec } from "../../rl/environment.ts";
import { defineGame } from "../game.ts";
import { FAMILIES, HOUSEHOLD, type HouseholdOptions } from "./episode.ts";

export type { HouseholdOptions } from "./episode.ts";

/**
 * A text adventure after ALFWorld (Shridhar et al. 2021, arXiv 2010.03768): find things in rooms and closed places,
 * heat, cool or wash them, and put them where they belong. An episode ends with reward 1 as soon as the goal holds.
 */
export const household: EnvironmentSpec<HouseholdOptions> = defineGame(
  {
    name: "household",
    description: "find things in a house, heat, cool or wash them, and put them where they belong",
    source: "after ALFWorld, arXiv 2010.03768",
    families: FAMILIES,
    options: HOUSEHOLD,
    achieved: true,
  },
  () => import("./rules.ts"),
);
