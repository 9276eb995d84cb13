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
import type { Rng } from "../../engine/index.ts";
import type { EnvironmentSpec } from "../environment.ts";
import { defineGame, type Episode, type Move, readCommand, SIZED } from "../game.ts";
import { number } from "../../engine/optionTable.ts";
import type { OptionsWith } from "../options.ts";
import { nameMaker } from "../words.ts";
import { act, type HouseState, isShut, PLACES, ROOMS, TREATMENTS } from "./house.ts";
import { FAMILIES, type HouseholdFamily, type HouseholdTask, isTreated, makeTask, pending } from "./tasks.ts";

export { achievedTask } from "./hindsight.ts";

const HOUSEHOLD = {
  ...SIZED,
  maxSteps: number(50, "actions after which an episode ends unsolved, as in ALFWorld", { integer: true, min: 1 }),
};
/**
 * Options of `household`, beside `EnvironmentOptions`: the `size` of its world, 1 (default) to 3, and `maxSteps`, the
 * actions after which an episode ends unsolved (default 50, as in ALFWorld).
 */
export type HouseholdOptions = OptionsWith<typeof HOUSEHOLD>;

type HouseholdEpisode = Episode<typeof HOUSEHOLD, HouseholdTask, HouseState>;

/** The episode ends by itself when the goal holds, as in ALFWorld. */
function play({ task, state, options, turns }: HouseholdEpisode, action: string): Move<HouseState> {
  const deed = act(task.house, state, ...readCommand(action));
  if (pending(deed.state ?? state, task.goal).length === 0) return { ...deed, ending: { kind: "goal", score: 1 } };
  return turns + 1 === options.maxSteps ? { ...deed, ending: { kind: "limit", score: 0 } } : deed;
}

/**
 * Acts on what has been seen: looks through the places in the order in which they are listed until it sees a thing that
 * the goal is about, takes it to the device, then to the target. It knows in which room a place is to be found, and
 * lays down what it does not need.
 */
function expert({ task: { house, goal, from }, state }: HouseholdEpisode): string {
  const { room, at, hand } = state;
  const approach = (place: string, deed: string): string => {
    if (house.roomOf(place) !== room) return `go ${house.roomOf(place)}`;
    if (at !== place) return `go ${place}`;
    return isShut(state, place) ? `open ${place}` : deed;
  };
  const open = pending(state, goal);
  if (hand !== undefined && !open.includes(hand)) {
    const nearest = at ?? house.places.find((place) => house.roomOf(place) === room)!;
    return approach(nearest, `put ${hand}`);
  }
  if (hand === undefined) {
    for (const thing of open) {
      const place = house.places.find((name) => state.seen.has(name) && state.contents.get(name)!.includes(thing));
      if (place !== undefined) return approach(place, `take ${thing}`);
    }
    const unseen = house.places.filter((place) => !state.seen.has(place));
    const here = unseen.filter((place) => house.roomOf(place) === room);
    const next = [...here, ...unseen].find((place) => goal.kind === "light" || place !== goal.target);
    return approach(from ?? next ?? unseen[0]!, "look");
  }
  if (goal.kind === "light") return approach("lamp", "use lamp");
  if (isTreated(state, hand, goal.treatment)) return approach(goal.target, `put ${hand}`);
  return approach(TREATMENTS[goal.treatment!].device, `${goal.treatment} ${hand}`);
}

/** A move to some place or room, or something done to a place or to a thing. */
function random(rng: Rng): string {
  const thing = nameMaker(rng)();
  const place = rng.choice(PLACES).name;
  const closing = rng.choice(PLACES.filter(({ closes }) => closes)).name;
  const actions = [
    `go ${place}`,
    `go ${place}`,
    `go ${rng.choice(ROOMS)}`,
    `open ${closing}`,
    `take ${thing}`,
    `put ${thing}`,
    `${rng.choice(Object.keys(TREATMENTS))} ${thing}`,
    "use lamp",
    "look",
  ];
  return rng.choice(actions);
}

/**
 * A text adventure after ALFWorld (Shridhar et al. 2021, arXiv 2010.03768): find things in rooms and closed places,
 * heat, cool or wash them, and put them where they belong. An episode ends with reward 1 as soon as the goal holds.
 */
export const household: EnvironmentSpec<HouseholdOptions> = defineGame<
  typeof HOUSEHOLD,
  HouseholdFamily,
  HouseholdTask,
  HouseState
>({
  name: "household",
  description: "find things in a house, heat, cool or wash them, and put them where they belong",
  source: "after ALFWorld, arXiv 2010.03768",
  families: FAMILIES,
  options: HOUSEHOLD,
  makeTask,
  start: ({ start }) => start,
  play,
  expert,
  random,
});
