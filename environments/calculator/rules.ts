/** The answers of `calculator`, and its scripted players. It is loaded later: it imports no value of ../game.ts. */
import type { Rng } from "../../engine/index.ts";
import type { GameRules, Move } from "../game.ts";
import type { SettledOptions } from "../options.ts";
import type { CALCULATOR, CalculatorEpisode, CalculatorTask, ProblemFamily } from "./episode.ts";
import { calculate } from "./expression.ts";
import { makePlainTask, playPlain } from "./plain.ts";
import { DRAFTS, drawProblem } from "./problems.ts";
import { commonDivisor, fromDecimal, isEqual, rational, type Rational, toText } from "./rational.ts";

function makeTask(
  rng: Rng,
  family: ProblemFamily,
  { split, negatives }: SettledOptions<typeof CALCULATOR>,
): CalculatorTask {
  if (negatives > 0 && rng.uniform() < negatives) return makePlainTask(rng, split);
  const { texts, plan, answer } = drawProblem(rng, DRAFTS[family.name], split);
  const actions = [...plan.map((expression) => `calc ${expression}`), `answer ${toText(answer)}`];
  return { text: rng.choice(texts), answer, plan: actions };
}

/**
 * `calc EXPR` is answered with a number, `7` or `5/3`, or with `error: ` and what is wrong; `answer N` ends the
 * episode. Anything else is answered with how to say it.
 */
function play(episode: CalculatorEpisode, action: string): Move<number> {
  const [, command = "", rest = ""] = /^(\w+)(?:\s+(.*))?$/s.exec(action.trim()) ?? [];
  const { task } = episode;
  const move = playProblem(episode, action.trim(), command.toLowerCase(), rest);
  return task.plain === undefined ? move : playPlain(episode, command.toLowerCase(), rest, move);
}

function playProblem({ task, state }: CalculatorEpisode, said: string, command: string, rest: string): Move<number> {
  const planned = said === task.plan[state] ? state + 1 : state;
  const error = (observation: string): Move<number> => ({ observation, failed: true, state: planned });
  if (command === "calc") {
    const result = calculate(rest);
    if ("error" in result) return error(`error: ${result.error}`);
    return { observation: toText(result.value), state: planned };
  }
  if (command === "answer") {
    const answer = readAnswer(rest);
    if (answer === undefined) return error("error: answer a number like 42, -7, 2.5 or 5/3");
    return {
      observation: "",
      ending: { kind: "answer", score: Number(isEqual(answer, task.answer)) },
      state: planned,
    };
  }
  return error("unknown action; use calc EXPR or answer N");
}

/**
 * One number: whole, with or without commas between thousands, decimal, or a fraction. A fraction must be in lowest
 * terms, and an expression is no number: what is left to be calculated is not an answer. Undefined for any other text.
 */
export function readAnswer(text: string): Rational | undefined {
  const plain = /^[-+]?\d{1,3}(,\d{3})+(\.\d+)?$/.test(text) ? text.replaceAll(",", "") : text;
  if (plain.length > 60) return undefined;
  if (/^[-+]?\d+(\.\d+)?$/.test(plain)) return fromDecimal(plain.replace("+", ""));
  const [, a, b] = /^([-+]?\d+)\/(\d+)$/.exec(plain) ?? [];
  if (a === undefined || b === undefined) return undefined;
  const [numerator, denominator] = [BigInt(a.replace("+", "")), BigInt(b)];
  if (denominator < 2n || commonDivisor(numerator, denominator) !== 1n) return undefined;
  return rational(numerator, denominator);
}

/**
 * A plausible action with numbers of the task, if it is given, else of three to six digits; one in five ends the
 * episode.
 */
function random(rng: Rng, task: string = ""): string {
  const numbers = task.match(/\d+/g) ?? [];
  const number = (): string => {
    if (numbers.length > 0) return rng.choice(numbers);
    const low = 10 ** (2 + rng.int(4));
    return String(low + rng.int(9 * low));
  };
  return rng.int(5) === 0
    ? `answer ${number()}`
    : `calc ${number()}${rng.choice(["+", "-", "*", "//", "%", "/"])}${number()}`;
}

export const rules: GameRules<typeof CALCULATOR, ProblemFamily, CalculatorTask, number> = {
  makeTask,
  start: () => 0,
  play,
  // The first action of the plan that has not been taken yet.
  expert: ({ task: { plan }, state }) => plan[state] ?? plan.at(-1)!,
  random,
};
