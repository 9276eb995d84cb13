/** The families of `calculator`, its options, and what an episode knows. */
import type { EnvironmentOptions, FamilyInfo } from "../environment.ts";
import type { Episode, GameTask } from "../game.ts";
import type { Rational } from "./rational.ts";

/** All families, easiest first. */
export const FAMILIES = [
  { name: "gain", level: 1, description: "a sum" },
  { name: "loss", level: 1, description: "a difference" },
  { name: "boxes", level: 2, description: "a product" },
  { name: "packs", level: 2, description: "a quotient, rounded down" },
  { name: "rest", level: 2, description: "a remainder" },
  { name: "percent", level: 3, description: "a percentage of a product, often no whole number" },
  { name: "share", level: 3, description: "a sum in equal parts, often no whole number" },
  { name: "bill", level: 3, description: "the sum of two products" },
  {
    name: "gap",
    level: 4,
    description: "the difference of two products, of which only the calculator tells the larger",
  },
  { name: "change", level: 4, description: "what remains of a sum after two products" },
] as const satisfies readonly FamilyInfo[];
export type ProblemFamily = (typeof FAMILIES)[number];

/** It has none beside those of every environment. */
export const CALCULATOR = {};
/** Options of `calculator`: those of every environment, and none of its own. */
export type CalculatorOptions = EnvironmentOptions;

export interface CalculatorTask extends GameTask {
  readonly answer: Rational;
  /** The expert's actions, the last of which ends the episode. */
  readonly plan: readonly string[];
}

/** The state is how many of the plan's actions have been taken. */
export type CalculatorEpisode = Episode<typeof CALCULATOR, CalculatorTask, number>;
