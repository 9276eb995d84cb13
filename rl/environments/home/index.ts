/**
 * `home`: a machine that the agent does not know.
 */
import { check } from "../../../engine/errors.ts";
import { showValue } from "../../../engine/options.ts";
import type { EnvironmentSpec } from "../environment.ts";
import type { Rng } from "../../../engine/random.ts";
import { defineGame } from "../game.ts";
import { type HomeNames, namesOf } from "./facts.ts";
import { HINTS } from "./hints.ts";
import { type HomeState, runLine } from "./shell.ts";
import { FAMILIES, familyOf, type HomeFamily, type HomeOptions, type HomeTask, makeTask } from "./tasks.ts";

export type { HomeOptions } from "./tasks.ts";

function expertAction(task: HomeTask, { turns }: HomeState): string {
  const { command, answer } = task.family;
  if (turns === 0) return command(task);
  return answer ? `answer ${answer(task)}` : "done";
}

/** A command of the right form: the names of the task, and everything else by chance. */
function guess(rng: Rng, text: string, names: HomeNames): string {
  const family = familyOf(text) ?? rng.choice(FAMILIES);
  const files = text.match(/[a-z]{6}(?:\.[a-z]{3})?(?=\b)/g) ?? [`${rng.choice(names.stems)}.${rng.choice(names.endings)}`]; // prettier-ignore
  return family.guess(rng, files.slice(-2), names);
}

export const home: EnvironmentSpec<HomeOptions> = defineGame<HomeOptions, HomeFamily, HomeTask, HomeState>({
  name: "home",
  description: "a machine that the agent does not know: what is where, and what opens what, its error messages tell",
  families: FAMILIES,
  optionNames: ["home", "hints", "facts", "rewarded"],
  checkOptions({ home: seed = 0, hints = "suggestion", facts = "true", rewarded = [] }) {
    check(Number.isSafeInteger(seed) && seed >= -1, () => `home: home must be an integer ≥ −1, got ${showValue(seed)}`);
    check(HINTS.includes(hints), () => `home: hints must be one of ${HINTS.join(", ")}, got ${showValue(hints)}`);
    check(facts === "true" || facts === "random", () => `home: facts must be "true" or "random", got ${showValue(facts)}`); // prettier-ignore
    const names = FAMILIES.map(({ name }) => name);
    const isKnown = Array.isArray(rewarded) && rewarded.every((name: string) => names.includes(name));
    check(isKnown, () => `home: rewarded must be a list of ${names.join(", ")}, got ${showValue(rewarded)}`);
  },
  makeTask,
  start: () => ({ changes: [], turns: 0, hasFailed: false }),
  play: (task, state, verb, rest, { hints = "suggestion" }) => runLine(`${verb} ${rest}`.trim(), task, state, hints),
  expert: expertAction,
  random: (rng, text = "", { size = 1 } = {}) => (rng.int(8) === 0 ? "done" : guess(rng, text, namesOf(size))),
  // It reads what it is told and gives up: of its episodes only that is worth imitating.
  novice(task, state, rng) {
    if (state.turns === 0) return { action: guess(rng, task.text, task.facts.names), isGuess: true };
    return { action: state.hasFailed ? "done" : expertAction(task, state), isGuess: false };
  },
  reward: (score, { rewarded }, { family }) => (rewarded === undefined || rewarded.includes(family.name) ? score : 0),
});
