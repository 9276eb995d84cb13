/**
 * Exercises of a chapter (`learn/exercises/NN-name.ts`). For N = 1, 2 and perhaps 3 the file exports `exerciseN`, which
 * the student edits and whose doc comment is the task, `checkN`, which throws if an answer is wrong, `solutionN`, and
 * `wrongN`, a list of answers that `checkN` must refuse. At its end the comment has `@difficulty`, 1 to 3, and a
 * `@hint` or two.
 */
import { fail, FormError, uncommented } from "./chapter.ts";

export interface Exercise {
  readonly number: number;
  /** The first line of the task. */
  readonly title: string;
  /** The rest of the task, Markdown. */
  readonly task: string;
  /** From 1, a few minutes, to 3, an hour. */
  readonly difficulty: number;
  /** What a student may ask for, one after the other; Markdown. */
  readonly hints: readonly string[];
  /** Exported types of the file that `start` names, with their comments: they describe what an answer gets. */
  readonly given: string;
  /** Code that the student edits: the declaration of `exerciseN` without its comment. */
  readonly start: string;
  /** Declarations of `checkN` and `solutionN`, without comments. */
  readonly check: string;
  readonly solution: string;
  readonly wrong: string;
  /** Line of `exerciseN` in the file, from 1. */
  readonly firstLine: number;
}

/** Lines `from` (inclusive) to `to` (exclusive) of a file. */
interface Range {
  readonly from: number;
  readonly to: number;
}

const LONGEST_TITLE = 60;

/** @throws FormError if an export or a task is missing */
export function parseExercises(source: string, path: string): Exercise[] {
  const lines = source.split("\n");
  const numbers = lines.flatMap((line) => /^export (?:async )?(?:function|const) exercise(\d)\b/.exec(line)?.[1] ?? []);
  if (numbers.join() !== [1, 2, 3].slice(0, Math.max(2, numbers.length)).join())
    fail(path, 1, `expected exercise1, exercise2 and perhaps exercise3, got ${numbers.join(", ") || "none"}`);
  return numbers
    .map((text) => Number(text))
    .map((number) => {
      const text = (name: string): string => {
        const { from, to } = declarationOf(lines, `${name}${number}`, path);
        return lines.slice(from, to).join("\n");
      };
      const { from } = declarationOf(lines, `exercise${number}`, path);
      const [title, ...rest] = commentAbove(lines, from, path, `exercise${number}`);
      const tagsFrom = rest.findIndex((line) => line.startsWith("@"));
      const task = tagsFrom < 0 ? rest : rest.slice(0, tagsFrom);
      const tags = (tagsFrom < 0 ? [] : rest.slice(tagsFrom)).join("\n").split(/^(?=@)/m);
      const tagged = (name: string): string[] =>
        tags.flatMap((tag) => (tag.startsWith(`@${name} `) ? [tag.slice(name.length + 2).trim()] : []));
      const difficulty = Number(tagged("difficulty")[0]);
      if (![1, 2, 3].includes(difficulty)) fail(path, from + 1, `exercise${number} needs "@difficulty", 1, 2 or 3`);
      if (tagged("hint").length === 0) fail(path, from + 1, `exercise${number} needs a "@hint"`);
      if (task.join("").trim() === "")
        fail(path, from + 1, `the comment above exercise${number} must be a title and a task`);
      if (title!.length > LONGEST_TITLE)
        fail(path, from + 1, `the comment above exercise${number} must begin with a line of its own, a short title`);
      return {
        number,
        title: title!.replace(/^#+ /, ""),
        task: task.join("\n").trimEnd().replace(/^\n+/, ""),
        difficulty,
        hints: tagged("hint"),
        given: typesIn(lines, text("exercise")),
        start: text("exercise"),
        check: text("check"),
        solution: text("solution"),
        wrong: text("wrong"),
        firstLine: from + 1,
      };
    });
}

/**
 * The exercise file with the answer in place of `exerciseN`; its `checkN(exerciseN)` then judges the answer.
 * @param answer a text that declares and exports `exerciseN`
 */
export function withAnswer(source: string, path: string, number: Exercise["number"], answer: string): string {
  const lines = source.split("\n");
  const { from, to } = declarationOf(lines, `exercise${number}`, path);
  return [...lines.slice(0, from), answer, ...lines.slice(to)].join("\n");
}

/** The solution under the name of the exercise: an accepted answer. */
export function solutionAsAnswer({ number, solution }: Exercise): string {
  return solution.replaceAll(new RegExp(`\\bsolution${number}\\b`, "g"), `exercise${number}`);
}

/**
 * Range of the declaration of an export. It ends before the next line that begins at column 0 with anything but a
 * closing bracket; prettier indents everything inside a declaration.
 */
function declarationOf(lines: readonly string[], name: string, path: string): Range {
  const start = new RegExp(`^export (?:async )?(?:function\\*?|const) ${name}\\b`);
  const found = lines.flatMap((line, i) => (start.test(line) ? [i] : []));
  if (found.length !== 1) {
    fail(
      path,
      (found[1] ?? lines.length - 1) + 1,
      `expected one "export function ${name}" or "export const ${name}", got ${found.length}`,
    );
  }
  const from = found[0]!;
  const next = lines.findIndex((line, i) => i > from && /^[^\s)\]}]/.test(line));
  let to = next < 0 ? lines.length : next;
  while (lines[to - 1] === "") to--;
  return { from, to };
}

/** Exported types of a file that a text names, in order, each with the doc comment directly above it. */
function typesIn(lines: readonly string[], text: string): string {
  const found = lines.flatMap((line, i) => {
    const name = /^export (?:interface|type) (\w+)/.exec(line)?.[1];
    if (name === undefined || !new RegExp(`\\b${name}\\b`).test(text)) return [];
    const to = lines.findIndex((other, k) => k > i && /^[^\s)\]}]/.test(other));
    const hasComment = lines[i - 1]?.endsWith("*/") ?? false;
    const from = hasComment ? lines.findLastIndex((other, k) => k < i && other.startsWith("/**")) : i;
    const declaration = lines.slice(i, to < 0 ? lines.length : to).join("\n");
    return [[...lines.slice(from, i), declaration.replace(/^export /, "").trimEnd()].join("\n")];
  });
  return found.join("\n");
}

/** Text of the doc comment that ends directly above a line. */
function commentAbove(lines: readonly string[], at: number, path: string, name: string): string[] {
  const from = lines.findLastIndex((line, i) => i < at && line.startsWith("/**"));
  const to = from < 0 ? -1 : lines.findIndex((line, i) => i >= from && line.includes("*/"));
  if (to !== at - 1) throw new FormError(`${path}:${at + 1}: ${name} has no doc comment directly above it`);
  const text = lines.slice(from, at).map(uncommented);
  while (text[0] === "") text.shift();
  return text;
}
