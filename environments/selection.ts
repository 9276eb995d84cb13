/**
 * Selection of tasks, for environments that generate them: the families that the options admit, and the split between
 * tasks for training and held-out ones.
 *
 * The split is a function of the task itself, not of a list or of the seeds: a hash of what makes the task puts it on
 * one side, and the generator draws until it has one of the wanted side. So no held-out task can occur in training,
 * whatever is drawn.
 */
import { check, fail } from "../engine/errors.ts";
import { nearest } from "../engine/options.ts";
import { Rng } from "../engine/random.ts";
import type { EnvironmentOptions, FamilyInfo } from "../rl/environment.ts";

export type Split = "train" | "heldout";

/**
 * The families that the options admit, in the order of `families`; at least one.
 *
 * @param where the environment's name, with which messages begin
 * @param options those of the environment, checked (`settleOptions`)
 * @throws WorldgradError `sokoban: unknown family 'pear'; did you mean 'pair'?`
 */
export function selectFamilies<F extends FamilyInfo>(
  where: string,
  families: readonly F[],
  options: { readonly [Name in "families" | "levels"]: EnvironmentOptions[Name] | undefined },
): readonly F[] {
  const known = families.map(({ name }) => name);
  const { families: wanted = known, levels: [low, high] = [1, Infinity] } = options;
  for (const name of wanted) {
    check(known.includes(name), () => {
      const near = nearest(String(name), known);
      const hint = near === undefined ? `there are ${known.join(", ")}` : `did you mean '${near}'?`;
      return `${where}: unknown family '${name}'; ${hint}`;
    });
  }
  const chosen = families.filter(({ name, level }) => wanted.includes(name) && low <= level && level <= high);
  check(chosen.length > 0, () => `${where}: no family of ${wanted.join(", ")} has a level in ${low} to ${high}`);
  return chosen;
}

/**
 * Whether the task that this text identifies is held out. A hash of the text decides it; a quarter of all texts are.
 * `makeTask` of a game draws (`drawUntil`) until the task is of the option `split`.
 */
export function isHeldOut(identity: string): boolean {
  return new Rng(0).split(identity).bits() % 4 === 3;
}

/**
 * The first good draw; `draw` returns undefined for a bad one, such as a task of the other split.
 * @param where the environment's name, with which the error begins
 * @throws WorldgradError if 100,000 draws are bad: then the generator cannot meet its own conditions
 */
export function drawUntil<T>(where: string, draw: () => T | undefined): T {
  for (let attempt = 0; attempt < 100_000; attempt++) {
    const drawn = draw();
    if (drawn !== undefined) return drawn;
  }
  return fail(`${where}: 100,000 draws gave no task that meets the conditions of its family`);
}
