/**
 * The options of environments: those that all share, and those that each declares of its own (game.ts), with their
 * defaults, allowed values and descriptions.
 */
import {
  flag,
  type Given,
  inCode,
  number,
  oneOf,
  type Option,
  options,
  type Settled,
  text,
} from "../engine/optionTable.ts";
import type { EnvironmentOptions } from "../rl/environment.ts";

/**
 * Declarations of a game's own options (`defineGame`): a number, a yes or no, a text, one of some words, or a value
 * that only code can give. Each has a default (`undefined`: none) and one line that says what it does. The type of the
 * options, their checks and `--list` are made from them.
 *
 * @example
 * const options = { turns: option.number(4, "turns until the episode ends", { integer: true, min: 1 }) };
 */
export const option = { number, flag, text, oneOf, inCode } as const;

/** The options that a game declares, by name (`option` makes one). */
export type OptionFields = Readonly<Record<string, Option<unknown>>>;

/** An option that takes a list of known names. */
export const names = (about: string, known: readonly string[]): Option<readonly string[]> =>
  inCode(
    about,
    `a list of ${known.join(", ")}`,
    (value) => Array.isArray(value) && value.every((name: string) => known.includes(name)),
  );

/** The options of every environment: their defaults, allowed values and descriptions. */
export const COMMON_OPTIONS = {
  split: oneOf(["train", "heldout"], "train", "tasks for training, or held-out ones"),
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
} satisfies Readonly<Record<keyof EnvironmentOptions, Option<unknown>>>;

/** Options of games with subgoals (`GameRules.subgoals`). */
export const SHAPED = {
  subgoals: number(0, "reward for each subgoal when it is reached for the first time", { min: 0 }),
  shaping: number(
    0,
    "reward for each subgoal while it holds, as a potential: taken back when it is lost, and at the end",
    {
      min: 0,
    },
  ),
};

/** The argument of `make` of an environment with the options `F`; those that have a default may be left out. */
export type OptionsWith<F extends OptionFields> = EnvironmentOptions & Given<F>;

/** Options as the functions of a game see them: checked, with the defaults of those that were not given. */
export type SettledOptions<F extends OptionFields> = Settled<typeof COMMON_OPTIONS> & Settled<F>;

/**
 * Checks the given options of an environment, and adds the defaults of the others.
 *
 * @param where the environment's name, with which messages begin
 * @param own the options that the environment has beside those of all environments
 * @throws WorldgradError on an unknown option, and on a value that is not allowed
 */
export function settleOptions<F extends OptionFields>(where: string, own: F, given: OptionsWith<F>): SettledOptions<F> {
  const table = options(where, { ...COMMON_OPTIONS, ...own });
  return table.read(given as Parameters<typeof table.read>[0]);
}
