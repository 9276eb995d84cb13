/**
 * What an episode may be drawn from, for environments that generate their tasks: the options that all of them share, checked,
 * and the split between tasks for training and held-out ones.
 *
 * The split is a function of the task itself, not of a list or of the seeds: a hash of what makes the task puts it on one side,
 * and the generator draws until it has one of the wanted side. So no held-out task can occur in training, whatever is drawn.
 */
import { check, fail } from "../engine/errors.ts";
import { checkKeys, nearest, showValue } from "../engine/options.ts";
import { Rng } from "../engine/index.ts";
import type { EnvironmentOptions, FamilyInfo } from "./environment.ts";

export type Split = "train" | "heldout";

/**
 * Checks `split`, `families` and `levels`, and that there are no options but these and `ownKeys`.
 *
 * @param where the environment's name, with which messages begin
 * @returns the families that the options admit, in the order of `families`; at least one
 * @throws WorldgradError `sokoban: unknown family 'pear'; did you mean 'pair'?`
 */
export function selectFamilies<F extends FamilyInfo>(
  where: string,
  families: readonly F[],
  options: EnvironmentOptions,
  ownKeys: readonly string[],
): readonly F[] {
  checkKeys(where, options, ["split", "families", "levels", ...ownKeys]);
  const known = families.map(({ name }) => name);
  const { split = "train", families: wanted = known, levels = [1, Infinity] } = options;
  check(
    split === "train" || split === "heldout",
    () => `${where}: split must be "train" or "heldout", got ${showValue(split)}`,
  );
  check(
    Array.isArray(wanted) && wanted.length > 0,
    () => `${where}: families must be a list of names, got ${showValue(wanted)}`,
  );
  for (const name of wanted as readonly string[]) {
    const near = nearest(String(name), known);
    const hint = near === undefined ? `there are ${known.join(", ")}` : `did you mean '${near}'?`;
    check(known.includes(name), () => `${where}: unknown family '${name}'; ${hint}`);
  }
  check(
    Array.isArray(levels) &&
      levels.length === 2 &&
      levels.every((level) => typeof level === "number") &&
      levels[0] <= levels[1],
    () => `${where}: levels must be [easiest, hardest], got ${showValue(levels)}`,
  );
  const [low, high] = levels;
  const chosen = families.filter(({ name, level }) => wanted.includes(name) && low <= level && level <= high);
  check(chosen.length > 0, () => `${where}: no family of ${wanted.join(", ")} has a level in ${low} to ${high}`);
  return chosen;
}

/** Is the task that this text is all of kept for held-out ones? A quarter of all texts is, by a hash. */
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
