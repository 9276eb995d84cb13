/**
 * The tasks of `patch`, its answers and its scripted players. It is loaded later: it imports no value of ../game.ts.
 *
 * A right repository is drawn, with words that describe each file; then a token of a file (of two files at level 4) is
 * replaced by another token of its kind. A hash of the right programs decides whether a task is held out.
 */
import type { Rng } from "../../engine/index.ts";
import type { NoviceMove, StepInfo } from "../../rl/environment.ts";
import { readCommand } from "../actions.ts";
import type { GameRules, Move } from "../game.ts";
import { drawList, drawNumber, type ProgramTest, testsOf } from "../program/cases.ts";
import { drawCalculation, drawReduction, drawSelection, sayParts } from "../program/draw.ts";
import { judge, type ProgramInfo } from "../program/judge.ts";
import { dataFlowMatch, syntaxMatch } from "../program/likeness.ts";
import { run, sameValue, show } from "../program/machine.ts";
import { drawUntil, isHeldOut, type Split } from "../selection.ts";
import { type Edit, readEdit, sayEdit } from "./edits.ts";
import type { PATCH, PatchEpisode, PatchFamily, PatchState, PatchTask } from "./episode.ts";
import { applyEdit, build, type Files, unifiedDiff } from "./repository.ts";

/** The file that is tested; it may call the others. */
const ENTRY = "f";
const VISIBLE = 2;
const TASK_CHARACTERS = 100;
const EDIT_CHARACTERS = 24;

/** A file and the words for what it does. */
interface Draft {
  readonly code: string;
  readonly words: string;
}

type Part = ReturnType<typeof drawSelection>;
const row = (rng: Rng, parts: readonly Part[], called = ""): Draft => ({
  code: `x${called === "" ? "" : `.${called}`}${parts.map(({ code }) => code).join("")}`,
  words: [...(called === "" ? [] : [called]), sayParts(rng, parts)].join(", "),
});

/** The generator of each family's repositories. */
const DRAFTS: Readonly<Record<PatchFamily["name"], (rng: Rng, largest: number) => Readonly<Record<string, Draft>>>> = {
  number: (rng, largest) => ({
    f: row(rng, [drawCalculation(rng, largest, ["*"]), drawCalculation(rng, largest, ["+", "-"])]),
  }),
  list: (rng) => ({ f: row(rng, [drawSelection(rng), drawReduction(rng)]) }),
  callee: (rng, largest) => ({
    f: row(rng, [drawCalculation(rng, largest, ["+", "-", "*"])], "g"),
    g: row(rng, [drawSelection(rng), drawReduction(rng)]),
  }),
  files(rng, largest) {
    const then = drawCalculation(rng, largest, ["+", "-"]);
    return {
      f: { code: `s=x.g.h\ns*s${then.code}`, words: `s is g, h; s times s, ${sayParts(rng, [then])}` },
      g: row(rng, [drawSelection(rng)]),
      h: row(rng, [drawReduction(rng)]),
    };
  },
  two: (rng, largest) => ({
    f: row(rng, [drawCalculation(rng, largest, ["+", "-", "*"])], "g"),
    g: row(rng, [drawSelection(rng), drawReduction(rng)]),
  }),
};

/** Tokens that may be mistaken for one another. */
const KINDS: readonly (readonly string[])[] = [
  ["sum", "max", "min", "len", "head", "last"],
  ["even", "odd", "sort", "rev"],
  ["take", "drop", "above", "below"],
];

const tokensOf = (text: string): string[] => text.match(/[a-z]+|\d+|[^]/g)!;

/** The text with a token replaced by another of its kind. */
function breakText(rng: Rng, text: string): string | undefined {
  const tokens = tokensOf(text);
  const at = rng.int(tokens.length);
  const token = tokens[at]!;
  const kind = KINDS.find((names) => names.includes(token));
  const other = kind
    ? rng.choice(kind)
    : /^\d+$/.test(token)
      ? String(2 + rng.int(Number(token) < 10 ? 8 : 98))
      : token;
  return other === token ? undefined : tokens.with(at, other).join("");
}

/** An edit of whole tokens that makes the right text of one in which a single token is wrong. */
function editTo(file: string, right: string, wrong: string): Edit | undefined {
  const [tokens, wanted] = [tokensOf(wrong), tokensOf(right)];
  const at = tokens.findIndex((token, i) => token !== wanted[i]);
  if (at < 0 || tokens.with(at, wanted[at]!).join("") !== right) return undefined;
  // The searched text must occur once: tokens before it are added until it does.
  for (let from = at; from >= 0; from--) {
    const search = tokens.slice(from, at + 1).join("");
    if (search.includes("\n")) return undefined;
    if (wrong.split(search).length > 2) continue;
    const edit = { file, search, replace: wanted.slice(from, at + 1).join("") };
    return sayEdit(edit).length > EDIT_CHARACTERS ? undefined : edit;
  }
  return undefined;
}

function makeTask(
  rng: Rng,
  { name, input, wrong }: PatchFamily,
  { split, hidden, largest }: { readonly split: Split; readonly hidden: number; readonly largest: number },
): PatchTask {
  return drawUntil("patch", () => {
    const drafts = DRAFTS[name](rng, largest);
    const names = Object.keys(drafts);
    const right: Files = Object.fromEntries(names.map((name) => [name, drafts[name]!.code]));
    if (isHeldOut(Object.values(right).join(" ")) !== (split === "heldout")) return undefined;
    const text = `Mend ${names.map((name) => `${name}: ${drafts[name]!.words}`).join("; ")}`;
    const edits: Edit[] = [];
    const broken: Record<string, string> = { ...right };
    for (const name of wrong === names.length ? names : rng.shuffle(names).slice(0, wrong)) {
      const wrong = breakText(rng, right[name]!);
      const edit = wrong === undefined ? undefined : editTo(name, right[name]!, wrong);
      if (wrong === undefined || !edit) return undefined;
      broken[name] = wrong;
      edits.push(edit);
    }
    const tests = testsFor(rng, input, right, hidden);
    if (!tests || text.length > TASK_CHARACTERS) return undefined;
    const bad = build(broken);
    const visible = tests.slice(0, VISIBLE);
    // The mistake must show in a visible test.
    if ("error" in bad || judge(bad.codes.get(ENTRY)!, visible, bad.codes).outcome === "passed") return undefined;
    return { text, broken, right, edits, visible, hidden: tests.slice(VISIBLE) };
  });
}

/** Tests of the right repository: visible lists are short, hidden ones long. */
function testsFor(
  rng: Rng,
  input: PatchFamily["input"],
  right: Files,
  hidden: number,
): readonly ProgramTest[] | undefined {
  const built = build(right);
  if ("error" in built) return undefined;
  return testsOf(
    built.codes.get(ENTRY)!,
    VISIBLE + hidden,
    (i) => (input === "number" ? drawNumber(rng) : drawList(rng, i < VISIBLE ? 3 : 5 + rng.int(4))),
    built.codes,
  );
}

function play({ task, state }: PatchEpisode, [verb, rest]: readonly [string, string]): Move<PatchState> {
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
    return { observation: edited.line, state: { ...state, files: edited.files, verdict: undefined } };
  }
  if (verb === "undo") {
    if (!Object.hasOwn(files, rest)) return failed("no such file");
    const undone = { ...files, [rest]: task.broken[rest]! };
    return { observation: "", state: { ...state, files: undone, verdict: undefined } };
  }
  if (verb === "test" && rest === "") {
    const observation = tested(files, task);
    return { observation, state: { ...state, verdict: observation === PASS ? "pass" : "fail" } };
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

/** The expert: reads the files in order, mends each wrong one after reading it, tests, and submits. */
function expert({ task: { edits, broken, right }, state: { files, read, verdict } }: PatchEpisode): string {
  if (verdict === "pass") return "submit";
  const names = Object.keys(right);
  // A file that somebody else has edited.
  const spoilt = names.find((name) => files[name] !== right[name] && files[name] !== broken[name]);
  if (spoilt !== undefined) return `undo ${spoilt}`;
  const wrong = edits.filter(({ file }) => files[file] !== right[file]);
  if (wrong.length === 0) return "test";
  const known = wrong.find(({ file }) => read.includes(file));
  return known ? sayEdit(known) : `read ${names.find((name) => !read.includes(name))!}`;
}

const WORDS = ["sum", "max", "min", "len", "head", "last", "even", "odd", "sort", "rev", "take", "drop", "above"];

/** A random command, with a file and tokens that may exist. */
function random(rng: Rng): string {
  const file = rng.choice(["f", "f", "g", "h"]);
  const word = (): string => rng.choice(WORDS);
  const digit = (): number => 1 + rng.int(99);
  return rng.choice<() => string>([
    () => "ls",
    () => "test",
    () => "submit",
    () => `read ${file}`,
    () => `edit ${file} ${word()}->${word()}`,
    () => `edit ${file} ${digit()}->${digit()}`,
  ])();
}

/**
 * The novice: reads, and makes edits of which a third are right. In half of the episodes it tests what it has edited,
 * and in half of those whose tests fail it goes on: it reads another file, or edits the wrong one again.
 */
function novice({ task, state, options }: PatchEpisode, rng: Rng): NoviceMove {
  const names = Object.keys(task.right);
  const wrong = names.filter((name) => state.files[name] !== task.right[name]);
  const unread = names.find((name) => !state.read.includes(name));
  const isUntouched = (name: string): boolean => state.files[name] === task.broken[name];
  const [goesOn, reads] = [rng.int(2) > 0, rng.int(2) > 0];
  let known = wrong.find((name) => isUntouched(name) && state.read.includes(name));
  if (known === undefined) {
    if (wrong.some(isUntouched)) return { action: `read ${unread!}`, isGuess: false };
    if (state.verdict === "pass" || !goesOn) return { action: "submit", isGuess: false };
    if (state.verdict === undefined) return { action: "test", isGuess: false };
    if (unread !== undefined && reads) return { action: `read ${unread}`, isGuess: false };
    known = wrong[0]!;
  }
  const edit = editTo(known, task.right[known]!, state.files[known]!);
  if (!edit) return { action: `undo ${known}`, isGuess: false };
  const isNumber = /\d$/.test(edit.replace);
  const drawn = isNumber ? String(1 + rng.int(options.largest)) : rng.choice(WORDS);
  const guess = edit.replace.replace(/\d+$|[a-z]+$/, drawn);
  const isFair = rng.int(3) === 0 || guess === edit.search;
  return { action: sayEdit({ ...edit, replace: isFair ? edit.replace : guess }), isGuess: true };
}

export const rules: GameRules<typeof PATCH, PatchFamily, PatchTask, PatchState> = {
  makeTask,
  start: ({ broken }) => ({ files: broken, read: [], verdict: undefined }),
  play: (episode, action) => play(episode, readCommand(action)),
  expert,
  random,
  novice,
};
