/**
 * The answers of `patch` to actions. It is loaded when somebody plays, so it imports nothing that imports the engine;
 * the parsed action is passed in.
 */
import type { StepInfo } from "../../rl/environment.ts";
import type { Move } from "../game.ts";
import { judge, type ProgramInfo } from "../program/judge.ts";
import { dataFlowMatch, syntaxMatch } from "../program/likeness.ts";
import { run, sameValue, show } from "../program/machine.ts";
import { readEdit } from "./edits.ts";
import type { PatchEpisode, PatchState, PatchTask } from "./episode.ts";
import { applyEdit, build, type Files, unifiedDiff } from "./repository.ts";
import { ENTRY } from "./tasks.ts";

export function play({ task, state }: PatchEpisode, [verb, rest]: readonly [string, string]): Move<PatchState> {
  const { files } = state;
  const failed = (observation: string): Move<PatchState> => ({ observation, failed: true });
  if (verb === "ls" && rest === "") return { observation: Object.keys(files).join(" ") };
  if (verb === "read") {
    if (!Object.hasOwn(files, rest)) return failed("no such file");
    return { observation: files[rest]!, state: { ...state, read: [...state.read, rest] } };
  }
  if (verb === "edit") {
    const edit = readEdit(rest);
    if (!edit) return failed("use edit FILE OLD->NEW");
    const edited = applyEdit(files, edit);
    if ("error" in edited) return failed(edited.error);
    return { observation: edited.line, state: { ...state, files: edited.files, passed: false } };
  }
  if (verb === "undo") {
    if (!Object.hasOwn(files, rest)) return failed("no such file");
    return { observation: "", state: { ...state, files: { ...files, [rest]: task.broken[rest]! }, passed: false } };
  }
  if (verb === "test" && rest === "") {
    const observation = tested(files, task);
    return { observation, state: { ...state, passed: observation === PASS } };
  }
  if (verb === "submit" && rest === "") {
    const info = judged(files, task);
    return { observation: "", ending: { kind: "submit", score: info["outcome"] === "passed" ? 1 : 0 }, info };
  }
  return failed("use ls, read, edit, undo, test or submit");
}

const PASS = "pass";

/** The result of the visible tests: the first that fails, or why they cannot run. */
function tested(files: Files, { visible }: PatchTask): string {
  const built = build(files);
  if ("error" in built) return `error in ${built.error.file} at ${built.error.at}: ${built.error.message}`;
  for (const { input, output } of visible) {
    const outcome = run(built.codes.get(ENTRY)!, input, built.codes);
    const called = `${ENTRY}(${show(input)})`;
    if ("error" in outcome) return `${called}: error: ${outcome.error}`;
    if (!sameValue(outcome.value, output)) return `${called}=${cut(show(outcome.value))}, not ${cut(show(output))}`;
  }
  return PASS;
}

const cut = (text: string): string => (text.length > 24 ? `${text.slice(0, 24)}..` : text);

/** The info of a submission: its tests, its similarity to the right files, and both patches. */
function judged(files: Files, { broken, right, visible, hidden }: PatchTask): StepInfo & Pick<ProgramInfo, "outcome"> {
  const patches = { patch: unifiedDiff(broken, files), solution: unifiedDiff(broken, right) };
  const [built, wanted] = [build(files), build(right)];
  if ("error" in built || "error" in wanted)
    return { outcome: "compile error", passed: 0, syntaxMatch: 0, dataFlowMatch: 0, ...patches };
  const tests = [...visible, ...hidden];
  const { outcome, passed } = judge(built.codes.get(ENTRY)!, tests, built.codes);
  const names = Object.keys(right);
  const mean = (match: typeof syntaxMatch): number =>
    names.reduce((sum, name) => sum + match(built.programs[name]!, wanted.programs[name]!), 0) / names.length;
  return {
    outcome,
    passed: passed / tests.length,
    syntaxMatch: mean(syntaxMatch),
    dataFlowMatch: mean(dataFlowMatch),
    ...patches,
  };
}
