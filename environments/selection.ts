/**
 * What an episode may be drawn from, for environments that generate their tasks: the options that all of them share,
 * checked, and the split between tasks for training and held-out ones.
 *
 * The split is a function of the task itself, not of a list or of the seeds: a hash of what makes the task puts it on
 * one side, and the generator draws until it has one of the wanted side. So no held-out task can occur in training,
 * whatever is drawn.
 */
import { check, fail } from "../engine/errors.ts";
import { nearest } from "../engine/options.ts";
import { Rng } from "../engine/index.ts";
import type { EnvironmentOptions, FamilyInfo } from "./environment.ts";
import { options as optionTable } from "../engine/optionTable.ts";
import { COMMON_OPTIONS, type OptionFields } from "./options.ts";

export type Split = "train" | "heldout";

/**
 * Checks the options, and says what they let an episode be drawn from.
 *
 * @param where the environment's name, with which messages begin
 * @param own the options that the environment has beside those of all environments
 * @returns the families that the options admit, in the order of `families`; at least one
 * @throws WorldgradError `sokoban: unknown family 'pear'; did you mean 'pair'?`
 */
export function selectFamilies<F extends FamilyInfo>(
  where: string,
  families: readonly F[],
  options: EnvironmentOptions,
  own: OptionFields,
): readonly F[] {
  optionTable(where, { ...COMMON_OPTIONS, ...own }).read(options);
  const known = families.map(({ name }) => name);
  const { families: wanted = known, levels: [low, high] = [1, Infinity] } = options;
  for (const name of wanted) {
    const near = nearest(String(name), known);
    const hint = near === undefined ? `there are ${known.join(", ")}` : `did you mean '${near}'?`;
    check(known.includes(name), () => `${where}: unknown family '${name}'; ${hint}`);
  }
  const chosen = families.filter(({ name, level }) => wanted.includes(name) && low <= level && level <= high);
  check(chosen.length > 0, () => `${where}: no family of ${wanted.join(", ")} has a level in ${low} to ${high}`);
  return chosen;
}

/** Is the task that this text identifies held out? A hash of the text decides it; a quarter of all texts is. */
export function isHeldOut(identity: string): boolean {
  return new Rng(0).split(identity).bits() % 4 === 3;
}

/**
 * The first thing that `draw` makes; it returns undefined for a bad draw, such as one of the other split.
 * @throws if 100,000 draws are bad: then the generator cannot meet its own conditions
 */
export function drawUntil<T>(where: string, draw: () => T | undefined): T {
  for (let attempt = 0; attempt < 100_000; attempt++) {
    const drawn = draw();
    if (drawn !== undefined) return drawn;
  }
  return fail(`${where}: 100,000 draws gave no task that meets the conditions of its family`);
}
