/**
 * The tasks of `household`: ALFWorld's six kinds of goal, and two easier ones to begin with. A goal is a
 * condition on the state of the house; how it came about does not matter.
 */
import type { Rng } from "../../engine/index.ts";
import type { NAMED, SIZED } from "../game.ts";
import type { SettledOptions } from "../options.ts";
import { drawUntil, isHeldOut } from "../selection.ts";
import { listed, nameMaker, THINGS } from "../words.ts";
import {
  type House,
  type HouseState,
  placeNamed,
  PLACES,
  type Property,
  ROOMS,
  roomText,
  type Treatment,
  TREATMENTS,
} from "./house.ts";
import type { Goal, HouseholdFamily, HouseholdTask } from "./episode.ts";

/** Whether this thing has the property that the goal asks for, if any. */
export function isTreated({ properties }: HouseState, thing: string, treatment: Treatment | undefined): boolean {
  return treatment === undefined || (properties.get(thing) ?? []).includes(TREATMENTS[treatment].makes);
}

/** The things for which the goal does not hold yet. */
export function pending(state: HouseState, goal: Goal): string[] {
  if (goal.kind === "light")
    return state.lit && state.at === "lamp" && state.hand === goal.things[0] ? [] : [...goal.things];
  const there = state.contents.get(goal.target)!;
  return goal.things.filter((thing) => !there.includes(thing) || !isTreated(state, thing, goal.treatment));
}

type TaskOptions = SettledOptions<typeof SIZED> & Partial<SettledOptions<typeof NAMED>>;

/** Places of a house of one room, and of each room of a larger one. */
const PLACES_OF_ONE_ROOM = 4;
const PLACES_PER_ROOM = 3;

/**
 * Makes a task. The house has `size` rooms, or more if the family needs them, and two things for every room beside
 * those of the goal.
 */
export function makeTask(rng: Rng, family: HouseholdFamily, options: TaskOptions): HouseholdTask {
  if (!options.everyday) return draftOf(rng, family, options);
  return drawUntil("household", () => {
    const draft = draftOf(rng, family, options);
    const { goal } = draft;
    const asked = goal.kind === "light" ? [] : [goal.target, goal.treatment];
    return isHeldOut([...goal.things, ...asked].join(" ")) === (options.split === "heldout") ? draft : undefined;
  });
}

function draftOf(rng: Rng, family: HouseholdFamily, { split, size, everyday }: TaskOptions): HouseholdTask {
  const newName = everyday ? listed(rng, THINGS) : nameMaker(rng, split);
  const count = Math.max(family.rooms, size);
  const single = count === 1;
  const rooms = single ? ["house"] : rng.shuffle(ROOMS).slice(0, count);
  const treatment = family.treatments.length > 0 ? rng.choice(family.treatments) : undefined;
  const device = family.light ? "lamp" : treatment && TREATMENTS[treatment].device;
  if (device !== undefined && !single && !rooms.includes(placeNamed(device)!.room)) rooms[0] = placeNamed(device)!.room;

  // The device, and then any places that suit the family, equally many in every room.
  const suits = (name: string): boolean =>
    family.where === "any" || (placeNamed(name)!.closes === true) === (family.where === "closed");
  const available = PLACES.filter((place) => single || rooms.includes(place.room)).map(({ name }) => name);
  const drawn = rng.shuffle(available.filter((name) => name !== device && suits(name)));
  const perRoom = (room: string): string[] => {
    const own = (name: string): boolean => single || placeNamed(name)!.room === room;
    const needed = device !== undefined && own(device) ? [device] : [];
    return [...needed, ...drawn.filter(own)].slice(0, single ? PLACES_OF_ONE_ROOM : PLACES_PER_ROOM);
  };
  const places = rng.shuffle(rooms.flatMap(perRoom));
  const house: House = { rooms, places, roomOf: (name) => (single ? rooms[0]! : placeNamed(name)!.room) };

  // The target, and the goal's things elsewhere; nothing lies at the device, so that there is a way to go.
  const [target, ...sources] = rng.shuffle(places.filter((name) => name !== device)) as [string, ...string[]];
  const contents = new Map<string, readonly string[]>(places.map((name) => [name, []]));
  const add = (place: string, thing: string): void => {
    contents.set(place, rng.shuffle([...contents.get(place)!, thing]));
  };
  const from = rng.choice(sources);
  const things = Array.from({ length: family.things }, newName);
  for (const thing of things) add(family.told ? from : rng.choice(sources), thing);
  for (let i = 0; i < 2 * rooms.length; i++) add(rng.choice(places), newName());

  const goal: Goal = family.light
    ? { kind: "light", things }
    : { kind: "put", things, target, ...(treatment === undefined ? {} : { treatment }) };
  const room = rng.choice(rooms);
  const start: HouseState = {
    room,
    at: undefined,
    hand: undefined,
    contents,
    open: new Set(),
    lit: false,
    properties: new Map<string, readonly Property[]>(),
    seen: new Set([room]),
  };
  const told = family.told ? from : undefined;
  return { text: `${wording(rng, goal, told)}. ${roomText(house, room)}`, house, start, goal, from: told };
}

/** The place with its preposition: `in fridge`, `on shelf`. */
export const into = (place: string): string => `${placeNamed(place)?.closes ? "in" : "on"} ${place}`;

function wording(rng: Rng, goal: Goal, from: string | undefined): string {
  const what = goal.things.join(" and ");
  if (goal.kind === "light") return rng.choice([`Look at ${what} under the lamp`, `Hold ${what} under the lit lamp`]);
  const where = into(goal.target);
  if (from !== undefined)
    return rng.choice([`Move ${what} from ${from}`, `Take ${what} from ${from} and put it`]) + ` ${where}`;
  if (goal.treatment === undefined)
    return rng.choice([
      `Put ${what} ${where}`,
      `Find ${what} and put ${goal.things.length > 1 ? "both" : "it"} ${where}`,
    ]);
  const { makes } = TREATMENTS[goal.treatment];
  return rng.choice([`Put ${makes} ${what} ${where}`, `${capital(goal.treatment)} ${what} and put it ${where}`]);
}

const capital = (word: string): string => word.slice(0, 1).toUpperCase() + word.slice(1);
