/** The families of `household`, its options, and what an episode knows. */
import type { FamilyInfo } from "../../rl/environment.ts";
import { type Episode, type GameTask, NAMED, SIZED, STRICT } from "../game.ts";
import { number } from "../../engine/optionTable.ts";
import { type OptionsWith, SHAPED } from "../options.ts";
import type { House, HouseState, Treatment } from "./house.ts";

export interface HouseholdFamily extends FamilyInfo {
  /** The least number of rooms; the option `size` may ask for more. */
  readonly rooms: number;
  /** The number of things in the goal. */
  readonly things: number;
  /** Where they are and where they go: open places, closed ones, or any. */
  readonly where: "open" | "closed" | "any";
  /** The task tells where the thing is. */
  readonly told?: true;
  readonly light?: true;
  readonly treatments: readonly Treatment[];
}

const ALL: readonly Treatment[] = ["heat", "cool", "wash"];

// prettier-ignore
export const FAMILIES: readonly HouseholdFamily[] = [
  { name: "carry", level: 1, description: "from a place that is told to another",
    rooms: 1, things: 1, where: "open", told: true, treatments: [] },
  { name: "place", level: 1, description: "find a thing and put it somewhere",
    rooms: 1, things: 1, where: "open", treatments: [] },
  { name: "stow", level: 2, description: "the same, where things lie in closed places and go into one",
    rooms: 1, things: 1, where: "closed", treatments: [] },
  { name: "light", level: 2, description: "find a thing and look at it under the lamp",
    rooms: 1, things: 1, where: "open", light: true, treatments: [] },
  { name: "wash", level: 2, description: "find a thing, wash it in the sink, put it somewhere",
    rooms: 1, things: 1, where: "open", treatments: ["wash"] },
  { name: "heat", level: 3, description: "find a thing, heat it on the stove, put it somewhere",
    rooms: 1, things: 1, where: "any", treatments: ["heat"] },
  { name: "cool", level: 3, description: "find a thing, cool it in the fridge, put it somewhere",
    rooms: 1, things: 1, where: "any", treatments: ["cool"] },
  { name: "two", level: 4, description: "find two things and put both somewhere",
    rooms: 1, things: 2, where: "any", treatments: [] },
  { name: "errand", level: 4, description: "find, treat and put a thing in a house of two rooms",
    rooms: 2, things: 1, where: "open", treatments: ALL },
];

export const HOUSEHOLD = {
  ...SIZED,
  ...NAMED,
  ...STRICT,
  ...SHAPED,
  maxSteps: number(50, "actions after which an episode ends unsolved, as in ALFWorld", { integer: true, min: 1 }),
};
/** Options of `household`, beside `EnvironmentOptions`; `HOUSEHOLD` says what each does, and its default. */
export type HouseholdOptions = OptionsWith<typeof HOUSEHOLD>;

export type Goal =
  | {
      readonly kind: "put";
      readonly things: readonly string[];
      readonly target: string;
      readonly treatment?: Treatment;
    }
  | { readonly kind: "light"; readonly things: readonly string[] };

export interface HouseholdTask extends GameTask {
  readonly house: House;
  readonly start: HouseState;
  readonly goal: Goal;
  /** The place that the task names as the thing's. */
  readonly from: string | undefined;
}

export type HouseholdEpisode = Episode<typeof HOUSEHOLD, HouseholdTask, HouseState>;
