/**
 * Checks of the answers of environments that others wrote: a missing `info`, or a reward that is a text, would
 * otherwise fail in the middle of a training step, or not at all. An answer that breaks the contract counts as an
 * environment that failed: its episode is masked, the run goes on.
 */
import { check, WorldgradError } from "../../engine/errors.ts";
import { checkMethods, showValue } from "../../engine/options.ts";
import type { EndResult, StepInfo, StepResult } from "../environment.ts";

/** An error that masks the episode of one task; if no task fits, the rollout is set up wrongly (`Player.run`). */
export class TaskTooLong extends WorldgradError {}

/** The largest number of letters per token of the context that is tokenised at all: more would take many seconds. */
const LETTERS_PER_TOKEN = 1_000;

/** The number of letters beyond which any task fills a context of so many tokens. */
export const mostLetters = (maxTokens: number): number => LETTERS_PER_TOKEN * maxTokens;

/** @throws WorldgradError if what `make` has given is no environment */
export const checkEnvironment = (who: string, environment: unknown): void =>
  checkMethods(who, "what make returns", environment, "an environment with reset and step", ["reset", "step"]);

/** @throws WorldgradError if a task is no text */
export function checkTask(who: string, task: unknown): string {
  check(typeof task === "string", () => `${who}.reset: expected the task as a string, got ${showValue(task)}`);
  return task;
}

type Part = (name: string, expected: string, value: unknown, fits: boolean) => void;

const partsOf =
  (where: string): Part =>
  (name, expected, value, fits) =>
    check(fits, () => `${where}: expected ${name} to be ${expected}, got ${showValue(value)}`);

/** NaN is allowed: it says that the episode cannot be scored. */
const checkReward = (part: Part, reward: unknown): void =>
  part("reward", "a number that is not infinite", reward, typeof reward === "number" && Math.abs(reward) !== Infinity);

function checkInfo(part: Part, info: unknown): StepInfo {
  part("info", "an object", info, typeof info === "object" && info !== null);
  const entries = Object.entries(info as Readonly<Record<string, number | string | boolean>>);
  for (const [key, value] of entries) {
    const fits = ["number", "string", "boolean"].includes(typeof value);
    part(`info.${key}`, "a number, a string or a boolean", value, fits);
  }
  return Object.fromEntries(entries);
}

/**
 * The answer as a new plain object.
 * @throws WorldgradError naming the part that breaks the contract
 */
export function checkAnswer(who: string, answer: unknown): StepResult {
  const part = partsOf(`${who}.step`);
  part("the answer", "{ observation, reward, done, info }", answer, typeof answer === "object" && answer !== null);
  const { observation, reward, done, info } = answer as Readonly<Record<keyof StepResult, unknown>>;
  part("observation", "a string", observation, typeof observation === "string");
  checkReward(part, reward);
  part("done", "true or false", done, typeof done === "boolean");
  return {
    observation: observation as string,
    reward: reward as number,
    done: done as boolean,
    info: checkInfo(part, info),
  };
}

/**
 * An environment's score of an end from outside, as a new plain object.
 * @throws WorldgradError naming the part that breaks the contract
 */
export function checkEnd(who: string, answer: unknown): EndResult {
  const part = partsOf(`${who}.end`);
  if (answer === undefined) return {};
  part("the answer", "{ reward, info } or undefined", answer, typeof answer === "object" && answer !== null);
  const { reward, info } = answer as Readonly<Record<keyof EndResult, unknown>>;
  if (reward !== undefined) checkReward(part, reward);
  return {
    ...(reward === undefined ? {} : { reward: reward as number }),
    ...(info === undefined ? {} : { info: checkInfo(part, info) }),
  };
}
