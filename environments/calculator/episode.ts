/** The families of `calculator`, its options, and what an episode knows. */
import { number } from "../../engine/optionTable.ts";
import type { FamilyInfo } from "../../rl/environment.ts";
import type { Episode, GameTask } from "../game.ts";
import type { OptionsWith } from "../options.ts";
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

export const CALCULATOR = {
  negatives: number(0, "share of tasks that want a plain answer: no calculator is there, or none is needed", {
    min: 0,
    max: 1,
  }),
};
/** Options of `calculator`, beside `EnvironmentOptions`: the share of problems that want a plain answer. */
export type CalculatorOptions = OptionsWith<typeof CALCULATOR>;

export interface CalculatorTask extends GameTask {
  readonly answer: Rational;
  /** The answer that is to be given without a call (plain.ts). */
  readonly plain?: string;
  /** The expert's actions, the last of which ends the episode. */
  readonly plan: readonly string[];
}

/** The state is the number of the plan's actions taken so far; where a plain answer is wanted, the number of calls. */
export type CalculatorEpisode = Episode<typeof CALCULATOR, CalculatorTask, number>;
