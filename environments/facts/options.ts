/** The options of environments of unknown facts (`home`, `castle`); world.ts says what these are. */
import type { FamilyInfo } from "../../rl/environment.ts";
import { SIZED } from "../game.ts";
import { number, oneOf, type Option } from "../../engine/optionTable.ts";
import { names, type OptionsWith } from "../options.ts";
import { HINTS } from "./hints.ts";

/**
 * With random facts, answers state facts that are drawn anew each time, in the same words: a control, in which answers
 * can be predicted no better than by chance. The right facts stay as they are.
 */
const ANSWERS = {
  hints: oneOf(HINTS, "suggestion", "what an answer says of a fact that the agent had wrong"),
  facts: oneOf(["true", "random"], "true", "whether answers state what is true, or random facts"),
};

/** The options of environments of unknown facts. */
export type FactFields = typeof SIZED & typeof ANSWERS & { readonly rewarded: Option<readonly string[]> };
export type FactOptions = OptionsWith<FactFields>;

/** The options of an environment with these families. Families that do not pay are played, but earn nothing. */
export function factFields(families: readonly FamilyInfo[]): FactFields {
  const known = families.map(({ name }) => name);
  return { ...SIZED, ...ANSWERS, rewarded: names("the families that pay; by default all", known) };
}

/** The option that has the seed of the world. */
export const WORLD_SEED = number(0, "the seed of the world, the same in all episodes; −1: another in each episode", {
  integer: true,
  min: -1,
});
