/**
 * How an environment declares its options: a table with one rule for each name. So every environment refuses a misspelt
 * name, and a value that makes no sense, in the same words; and whoever adds options of its own (faults.ts) knows those
 * that are there.
 */
import { check } from "../engine/errors.ts";
import { checkKeys, showValue } from "../engine/options.ts";
import type { EnvironmentOptions } from "./environment.ts";

/** What an option takes. */
export interface OptionRule {
  /** What completes the sentence "The option must be …". */
  readonly expected: string;
  readonly accepts: (value: unknown) => boolean;
}

/** A rule for each option that an environment has beside `EnvironmentOptions`. */
export type OptionRules<Options> = {
  readonly [Name in Exclude<keyof Options, keyof EnvironmentOptions>]-?: OptionRule;
};

/** An integer from `least` to `most`, both included. */
export function integer(least: number, most: number = Infinity): OptionRule {
  const expected = most < Infinity ? `an integer in [${least}, ${most}]` : `an integer of at least ${least}`;
  const accepts = (value: unknown): boolean =>
    Number.isSafeInteger(value) && (value as number) >= least && (value as number) <= most;
  return { expected, accepts };
}

/** A number from 0 on that is less than 1. */
export const lessThanOne = (expected: string = "in [0, 1)"): OptionRule => ({
  expected,
  accepts: (value) => typeof value === "number" && value >= 0 && value < 1,
});

/** One of some words. */
export function oneOf(...words: readonly string[]): OptionRule {
  const expected = words.length === 2 ? words.map((word) => `"${word}"`).join(" or ") : `one of ${words.join(", ")}`;
  return { expected, accepts: (value) => words.includes(value as string) };
}

/** True or false. */
export const flag: OptionRule = { expected: "true or false", accepts: (value) => typeof value === "boolean" };

/** The options of every environment. */
export const COMMON_OPTIONS: Readonly<Record<keyof EnvironmentOptions, OptionRule>> = {
  split: oneOf("train", "heldout"),
  families: { expected: "a list of names", accepts: (value) => Array.isArray(value) && value.length > 0 },
  levels: {
    expected: "[easiest, hardest]",
    accepts: (value) => {
      if (!Array.isArray(value) || value.length !== 2) return false;
      const [easiest, hardest] = value as readonly unknown[];
      return typeof easiest === "number" && typeof hardest === "number" && easiest <= hardest;
    },
  },
};

/**
 * Checks that there are no options but those of the rules, and that each has a value that its rule accepts; an option
 * that is undefined is one that was not given.
 *
 * @param where the name of the environment, with which messages begin
 * @throws WorldgradError `gridworld: moves must be an integer in [1, 1000], got 0`
 */
export function checkOptions(where: string, options: object, rules: Readonly<Record<string, OptionRule>>): void {
  checkKeys(where, options, Object.keys(rules));
  const given = new Map(Object.entries(options));
  for (const [name, { expected, accepts }] of Object.entries(rules)) {
    const value: unknown = given.get(name);
    check(
      value === undefined || accepts(value),
      () => `${where}: ${name} must be ${expected}, got ${showValue(value)}`,
    );
  }
}
