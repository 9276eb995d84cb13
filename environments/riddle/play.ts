/** The answers of `riddle` to actions. */
import type { Move } from "../game.ts";
import { play as playCode } from "../code/play.ts";
import { compile, readValue, run, sameValue, type Value } from "../program/machine.ts";
import { parseProgram, type Program } from "../program/syntax.ts";
import { readProposal } from "./proposal.ts";
import { INPUTS, type Riddle, type RiddleTask } from "./riddle.ts";

/** Answers follow from the task's text and the actions, so their entropy is 0. */
const CERTAIN = 0;

/** An action that ends the episode. `form` says whether it was well-formed, and what kind of proposal it was. */
const ended = (score: number, form: string, more: Readonly<Record<string, string>> = {}): Move<string> => ({
  observation: "",
  ending: { kind: form, score },
  info: { form, ...more },
  failed: form === "malformed",
  entropy: CERTAIN,
});

export function play(task: RiddleTask, state: string, [verb, rest]: readonly [string, string]): Move<string> {
  if (task.role === "propose") {
    if (verb !== "propose") return ended(0, "malformed");
    const reading = readProposal(task.kind, rest, task.program);
    if (reading.form !== "valid") return ended(0, reading.form);
    return ended(1, "valid", { riddle: JSON.stringify(reading.riddle) });
  }
  if (task.riddle.kind === "induction") return writeProgram(task.text, task.riddle, state, [verb, rest]);
  const value = verb === "say" ? readValue(rest) : undefined;
  if (value === undefined) return ended(0, "malformed");
  return ended(isAnswer(task.riddle, value) ? 1 : 0, "answer", { answer: rest });
}

const programOf = (text: string): Program => {
  const reading = parseProgram(text);
  if ("error" in reading) throw new Error(`riddle: no program: ${text}`);
  return reading.program;
};

/** Any input with this output is right, not only the proposer's. */
function isAnswer({ kind, program, outputs }: Riddle, value: Value): boolean {
  if (kind === "deduction") return sameValue(value, outputs[0]!);
  const outcome = run(compile(programOf(program)), value);
  return "value" in outcome && sameValue(outcome.value, outputs[0]!);
}

/** A program is written as in `code`: run on what is shown, and submitted to be judged by the rest, too. */
function writeProgram(text: string, riddle: Riddle, state: string, said: readonly [string, string]): Move<string> {
  const tests = riddle.inputs.map((input, i) => ({ input, output: riddle.outputs[i]! }));
  const [visible, hidden] = [tests.slice(0, INPUTS / 2), tests.slice(INPUTS / 2)];
  const task = { text, solution: riddle.program, reference: programOf(riddle.program), visible, hidden };
  const move = playCode({ task, state }, said);
  if (!move.ending) return move;
  return { ...move, info: { ...move.info, form: move.info!["outcome"] === "compile error" ? "malformed" : "answer" } };
}
