/**
 * The options that all environments share, and what an environment says of those of its own (game.ts): which values are
 * allowed, and what each does. Defaults are the environment's; the sentence names them.
 */
import { inCode, number, oneOf, type Option } from "../engine/optionTable.ts";
import type { EnvironmentOptions } from "./environment.ts";

/** Options by name. */
export type OptionFields = Readonly<Record<string, Option<unknown>>>;

/** A field for each option that an environment has beside `EnvironmentOptions`. */
export type OwnFields<Options> = {
  readonly [Name in Exclude<keyof Options, keyof EnvironmentOptions>]-?: Option<unknown>;
};

/** An integer from `min` to `max`, both included. */
export const integer = (about: string, min: number, max?: number): Option<number> =>
  number(undefined, about, { integer: true, min, ...(max === undefined ? {} : { max }) });

/** A list of known names. */
export const names = (about: string, known: readonly string[]): Option<readonly string[]> =>
  inCode(
    about,
    `a list of ${known.join(", ")}`,
    (value) => Array.isArray(value) && value.every((name: string) => known.includes(name)),
  );

/** The options of every environment. */
export const COMMON_OPTIONS: Readonly<Record<keyof EnvironmentOptions, Option<unknown>>> = {
  split: oneOf(["train", "heldout"], undefined, "tasks for training (the default), or held-out ones"),
  families: inCode<readonly string[]>(
    "the families that tasks are drawn from; by default all",
    "a list of names",
    (value) => Array.isArray(value) && value.length > 0,
  ),
  levels: inCode<readonly [easiest: number, hardest: number]>(
    "the levels that tasks are drawn from; by default all",
    "[easiest, hardest]",
    (value) => {
      if (!Array.isArray(value) || value.length !== 2) return false;
      const [easiest, hardest] = value as readonly unknown[];
      return typeof easiest === "number" && typeof hardest === "number" && easiest <= hardest;
    },
  ),
};
