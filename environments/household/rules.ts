/** The answers of `household`, and its scripted players. It is loaded later: it imports no value of ../game.ts. */
import type { Rng } from "../../engine/index.ts";
import { readCommand } from "../actions.ts";
import type { GameRules, Move } from "../game.ts";
import type { SettledOptions } from "../options.ts";
import { nameMaker, THINGS } from "../words.ts";
import type { HOUSEHOLD, HouseholdEpisode, HouseholdFamily, HouseholdTask } from "./episode.ts";
import { achieved } from "./hindsight.ts";
import { act, type HouseState, isShut, PLACES, ROOMS, TREATMENTS } from "./house.ts";
import { isTreated, makeTask, pending } from "./tasks.ts";

/** The episode ends by itself when the goal holds, as in ALFWorld. */
function play({ task, state, options, turns }: HouseholdEpisode, action: string): Move<HouseState> {
  const deed = act(task.house, state, ...readCommand(action));
  if (pending(deed.state ?? state, task.goal).length === 0) return { ...deed, ending: { kind: "goal", score: 1 } };
  return turns + 1 === options.maxSteps ? { ...deed, ending: { kind: "limit", score: 0 } } : deed;
}

/**
 * The expert acts on what has been seen. It looks through the places in the order in which they are listed until it
 * sees a thing of the goal, takes it to the device, then to the target. It knows the room of every place, and lays down
 * what it does not need.
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
function random(rng: Rng, _: string | undefined, { everyday }: SettledOptions<typeof HOUSEHOLD>): string {
  const thing = everyday ? rng.choice(THINGS) : nameMaker(rng)();
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

/** The subgoals: each thing of the goal is in the hand or where it belongs, and hot, cold or clean as asked. */
function subgoals({ task: { goal }, state }: HouseholdEpisode): string[] {
  const treatment = goal.kind === "put" ? goal.treatment : undefined;
  const isThere = (thing: string): boolean => goal.kind === "put" && state.contents.get(goal.target)!.includes(thing);
  return goal.things.flatMap((thing) => [
    ...(state.hand === thing || isThere(thing) ? [`found ${thing}`] : []),
    ...(treatment !== undefined && isTreated(state, thing, treatment) ? [`treated ${thing}`] : []),
  ]);
}

export const rules: GameRules<typeof HOUSEHOLD, HouseholdFamily, HouseholdTask, HouseState> = {
  makeTask,
  start: ({ start }) => start,
  play,
  expert,
  random,
  subgoals,
  achieved,
};
