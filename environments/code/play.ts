/**
 * The answers of `code` to actions. It is loaded when somebody plays, so it imports nothing that imports the engine;
 * the parsed action is passed in.
 */
import type { Move } from "../game.ts";
import { judge, judgeText, report } from "../program/judge.ts";
import { compile } from "../program/machine.ts";
import { parseProgram } from "../program/syntax.ts";
import type { CodeEpisode } from "./episode.ts";

/** Answers follow from the task's text and the actions, so their entropy is 0. */
const CERTAIN = 0;

export function play(
  { task, state }: Pick<CodeEpisode, "task" | "state">,
  [verb, rest]: readonly [string, string],
): Move<string> {
  const failed = (observation: string, program = state): Move<string> => {
    return { observation, failed: true, state: program, entropy: CERTAIN };
  };
  if (verb === "run") {
    const reading = parseProgram(rest);
    if ("error" in reading) return failed(`error at ${reading.error.at}: ${reading.error.message}`, rest);
    const result = judge(compile(reading.program), task.visible);
    if (result.outcome === "runtime error") return failed(report(result), rest);
    return { observation: report(result), state: rest, entropy: CERTAIN };
  }
  if (verb === "submit") {
    const program = rest === "" ? state : rest;
    if (program === "") return failed("nothing to submit");
    const info = judgeText(program, [...task.visible, ...task.hidden], task.reference);
    const ending = { kind: "submit", score: info.outcome === "passed" ? 1 : 0 };
    return { observation: "", ending, info: { ...info }, entropy: CERTAIN };
  }
  return failed("unknown action; use run PROGRAM or submit");
}
