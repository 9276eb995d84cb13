/**
 * One word problem. The first observation is the problem. `calc EXPR` is answered with a number, `7` or `5/3`, or with
 * `error: ` and what is wrong; `answer N` ends the episode. Anything else is answered with how to say it.
 */
import { check } from "../../engine/errors.ts";
import { Rng } from "../../engine/index.ts";
import { type EnvironmentOptions, SingleUseEnvironment, type StepInfo, type StepResult } from "../environment.ts";
import { selectFamilies } from "../selection.ts";
import { calculate } from "./expression.ts";
import { drawProblem, FAMILIES, type Problem, type ProblemFamily } from "./problems.ts";
import { commonDivisor, fromDecimal, isEqual, rational, type Rational, toText } from "./rational.ts";

export type CalculatorOptions = EnvironmentOptions;

interface Task {
  readonly family: ProblemFamily;
  readonly problem: Problem;
  /** The expert's actions, the last of which ends the episode. */
  readonly plan: readonly string[];
}

export class CalculatorEnvironment extends SingleUseEnvironment {
  readonly name = "calculator";
  readonly #options: CalculatorOptions;
  readonly #families: readonly ProblemFamily[];
  #task: Task | undefined;
  #turns = 0;
  #toolErrors = 0;
  #planned = 0; // how many of the plan's actions have been taken

  /** @throws on option values that make no sense */
  constructor(options: CalculatorOptions = {}) {
    super();
    this.#families = selectFamilies("calculator", FAMILIES, options, []);
    this.#options = options;
  }

  protected begin(seed: number): string {
    const { split = "train" } = this.#options;
    const rng = new Rng(seed).split(`calculator/${split}`);
    const family = rng.choice(this.#families);
    const problem = drawProblem(rng, family, split);
    const plan = [...problem.plan.map((expression) => `calc ${expression}`), `answer ${toText(problem.answer)}`];
    this.#task = { family, problem, plan };
    return rng.choice(problem.texts);
  }

  /** @throws before reset */
  get info(): StepInfo {
    const { family } = this.#started();
    return { family: family.name, level: family.level };
  }

  protected act(action: string): StepResult {
    const { problem, plan } = this.#started();
    if (action.trim() === plan[this.#planned]) this.#planned++;
    const { observation, error, answer } = respond(action);
    this.#turns++;
    if (error) this.#toolErrors++;
    const success = answer !== undefined && isEqual(answer, problem.answer);
    return {
      observation,
      reward: success ? 1 : 0,
      done: answer !== undefined,
      info: {
        ...this.info,
        success,
        turns: this.#turns,
        toolErrors: this.#toolErrors,
        ending: answer === undefined ? "none" : "answer",
      },
    };
  }

  /** The first action of the plan that has not been taken yet. @throws before reset */
  expertAction(): string {
    const { plan } = this.#started();
    return plan[this.#planned] ?? plan.at(-1)!;
  }

  clone(): CalculatorEnvironment {
    const copy = new CalculatorEnvironment(this.#options);
    copy.resumeFrom(this);
    copy.#task = this.#task;
    [copy.#turns, copy.#toolErrors, copy.#planned] = [this.#turns, this.#toolErrors, this.#planned];
    return copy;
  }

  #started(): Task {
    check(this.#task !== undefined, () => "calculator: the episode has no task yet; call reset first");
    return this.#task;
  }
}

/** What an action is answered with; `answer` if it ends the episode. */
function respond(action: string): { observation: string; error: boolean; answer?: Rational } {
  const [, command = "", rest = ""] = /^(\w+)(?:\s+(.*))?$/s.exec(action.trim()) ?? [];
  if (command.toLowerCase() === "calc") {
    const result = calculate(rest);
    if ("error" in result) return { observation: `error: ${result.error}`, error: true };
    return { observation: toText(result.value), error: false };
  }
  if (command.toLowerCase() === "answer") {
    const answer = readAnswer(rest);
    if (answer === undefined) return { observation: "error: answer a number like 42, -7, 2.5 or 5/3", error: true };
    return { observation: "", error: false, answer };
  }
  return { observation: "unknown action; use calc EXPR or answer N", error: true };
}

/**
 * One number: whole, with or without commas between thousands, decimal, or a fraction. A fraction must be in lowest terms, and
 * an expression is no number: what is left to be calculated is not an answer. Undefined for any other text.
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
