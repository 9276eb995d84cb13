/**
 * Form of the chapters of the book (`learn/NN-name.ts`): a program whose block comments are its text. Chapter 0 has its
 * own form, which `micro.ts` reads.
 *
 * A block comment at column 0 is prose (Markdown) if an empty line follows it, if it begins with a heading, or if it
 * comes first in the file; a block comment directly above a declaration belongs to the code. `## Heading` begins a
 * section: prose, then the code until the next heading. `exercises.ts` reads the exercises of a chapter.
 */

/** Prose and the code that follows it. */
export interface Section {
  /** Heading without `## `; for the first section the title of the chapter, without `# ` and its number. */
  readonly heading: string;
  /** Markdown without the heading. The first section begins with the promise of the chapter. */
  readonly prose: string;
  /** Live cell of the page, without empty lines around it; "" if the section has none. */
  readonly code: string;
  /** Line of the heading in the file, from 1. */
  readonly firstLine: number;
  /** First line of `code` in the file; 0 if there is none. */
  readonly codeLine: number;
}

/** Lines of the program that "Break it" replaces. */
export interface Change {
  readonly before: readonly string[];
  readonly after: readonly string[];
}

export interface Chapter {
  readonly path: string;
  /** The file of its last sections: for chapter 0 its exercises, else its own. */
  readonly endPath: string;
  readonly number: number;
  readonly title: string;
  /** What the reader will understand: one paragraph of Markdown. */
  readonly promise: string;
  readonly sections: readonly Section[];
  /** Changes of "Break it"; `broken` applies them. */
  readonly changes: readonly Change[];
  readonly source: string;
}

/** The number of the chapter before chapter 0. */
const BEFORE = -1;

/** A chapter's number as it is read. */
export const labelOf = ({ number }: Pick<Chapter, "number">): string =>
  number === BEFORE ? "Before 0" : String(number);

/** Words of technical prose, and lines of code, that are read in a minute. */
const [WORDS, LINES] = [150, 12];
/** Minutes to read a chapter, in fives. */
export function readingMinutes({ sections }: Pick<Chapter, "sections">): number {
  const words = sections.reduce((sum, { prose }) => sum + prose.split(/\s+/).length, 0);
  const lines = sections.reduce(
    (sum, { code }) => sum + code.split("\n").filter((line) => line.trim() !== "").length,
    0,
  );
  return 5 * Math.max(1, Math.round((words / WORDS + lines / LINES) / 5));
}

/** Error in the form of a chapter or an exercise file. The message begins with FILE:LINE. */
export class FormError extends Error {
  override readonly name = "FormError";
}

/** @throws FormError with the place in front */
export function fail(path: string, line: number, message: string): never {
  throw new FormError(`${path}:${line}: ${message}`);
}

const MAX_COLUMNS = 120;
/** Headings at the end of each chapter, in this order. */
export const LAST_HEADINGS: readonly string[] = ["Break it", "Simplifications so far", "In the library", "Exercises"];
const PROMISE = "**What you will understand:**";

/** A line of Markdown with its place in the file. */
interface Line {
  readonly text: string;
  readonly at: number;
}

/** A prose comment, or the code between two of them. */
interface Part {
  readonly kind: "prose" | "code";
  readonly lines: Line[];
}

/**
 * @param path of the file, such as `learn/01-tape.ts`; its number must be that of the title
 * @throws FormError if an obligatory part is missing or the form is broken in another way
 */
export function parseChapter(source: string, path: string): Chapter {
  const lines = source.trimEnd().split("\n");
  lines.forEach((line, i) => {
    const columns = [...line].length;
    if (columns > MAX_COLUMNS) fail(path, i + 1, `a line has at most ${MAX_COLUMNS} columns, got ${columns}`);
  });
  const { number, title, sections } = sectionsOf(partsOf(lines, path), path);
  const promise = sections[0]!.prose.split(/\n\s*\n/)[0]!;
  if (!promise.startsWith(PROMISE)) fail(path, 2, `the text below the title must begin with "${PROMISE}"`);
  return complete({
    path,
    endPath: path,
    number,
    title,
    promise: promise.slice(PROMISE.length).trim(),
    sections,
    source,
  });
}

/**
 * Finds the changes of "Break it".
 * @throws FormError if one of the last sections is missing, a section has no text, or the diff does not fit
 */
export function complete(parts: Omit<Chapter, "changes">): Chapter {
  const { sections, path, endPath } = parts;
  const lastLine = sections.at(-1)!.firstLine;
  const seen = new Set<string>();
  for (const [i, { heading, prose, firstLine }] of sections.entries()) {
    const file = i < sections.length - LAST_HEADINGS.length ? path : endPath;
    if (seen.has(heading)) fail(file, firstLine, `the heading "${heading}" occurs twice`);
    seen.add(heading);
    if (prose === "") fail(file, firstLine, `the section "${heading}" has no text`);
  }
  const last = sections.slice(-LAST_HEADINGS.length).map(({ heading }) => heading);
  LAST_HEADINGS.forEach((heading, i) => {
    if (!seen.has(heading)) fail(endPath, lastLine, `the section "${heading}" is missing`);
    const order = `the last sections must be ${LAST_HEADINGS.join(", ")}, in this order; got ${last.join(", ")}`;
    if (last[i] !== heading) fail(endPath, lastLine, order);
  });
  const changes = changesOf(
    sections.find(({ heading }) => heading === "Break it")!,
    endPath,
  );
  const chapter = { ...parts, changes };
  broken(chapter); // throws if the diff does not fit
  return chapter;
}

/** The program with the changes of "Break it". @throws FormError unless each changed block occurs exactly once */
export function broken({ endPath, source, sections, changes }: Chapter): string {
  const { firstLine } = sections.find(({ heading }) => heading === "Break it")!;
  return changes.reduce((text, { before, after }) => {
    const parts = `\n${text}\n`.split(`\n${before.join("\n")}\n`);
    if (parts.length !== 2) {
      fail(
        endPath,
        firstLine,
        `the diff must match one place that reads "${before.join("\n")}", found ${parts.length - 1}`,
      );
    }
    return parts.join(`\n${after.join("\n")}\n`).slice(1, -1);
  }, source);
}

/** Cuts the file into prose and code. */
function partsOf(lines: readonly string[], path: string): Part[] {
  if (!lines[0]!.startsWith("/*")) fail(path, 1, "a chapter must begin with a block comment: its title and promise");
  const parts: Part[] = [];
  let code: Line[] = [];
  for (let i = 0; i < lines.length; i++) {
    const end = lines[i]!.startsWith("/*") ? lines.findIndex((line, k) => k >= i && line.includes("*/")) : -1;
    const first = lines
      .slice(i, end + 1)
      .map(uncommented)
      .find((line) => line !== "");
    const isAlone = i === 0 || end + 1 >= lines.length || lines[end + 1] === "";
    const isProse = end >= 0 && (isAlone || /^## \S/.test(first ?? ""));
    if (lines[i]!.startsWith("/*") && end < 0) fail(path, i + 1, "this comment is not closed");
    if (!isProse) {
      for (const to = Math.max(i, end); i <= to; i++) code.push({ text: lines[i]!, at: i + 1 });
      i--;
      continue;
    }
    if (i > 0) parts.push({ kind: "code", lines: code });
    code = [];
    const comment = lines.slice(i, end + 1).map((line, k) => ({ text: uncommented(line), at: i + k + 1 }));
    parts.push({ kind: "prose", lines: comment });
    i = end;
  }
  return [...parts, { kind: "code", lines: code }];
}

/** A line of a block comment without its comment marks. */
export function uncommented(line: string): string {
  return line
    .replace(/^\/\*\*? ?/, "")
    .replace(/\s*\*\/\s*$/, "")
    .replace(/^ \* ?/, "")
    .trimEnd();
}

function sectionsOf(parts: readonly Part[], path: string): { number: number; title: string; sections: Section[] } {
  const open: { heading: string; firstLine: number; prose: string[]; code: Line[] }[] = [];
  let [number, title] = [-1, ""];
  for (const { kind, lines } of parts) {
    if (kind === "code") {
      open.at(-1)!.code.push(...lines);
      continue;
    }
    const text = [...lines];
    while (text[0]?.text === "") text.shift();
    const first = text[0] ?? lines[0]!;
    let inFence = false;
    if (open.length === 0) {
      const found = /^# (\d+|Before 0) · (\S.*)$/.exec(first.text);
      if (found === null) fail(path, first.at, `the title must read "# NUMBER · Title", got "${first.text}"`);
      const isBefore = found[1] === labelOf({ number: BEFORE });
      [number, title] = [isBefore ? BEFORE : Number(found[1]), found[2]!];
      const inPath = isBefore && path.endsWith("/00-before.ts") ? BEFORE : /(\d+)-[^/]*$/.exec(path)?.[1];
      if (Number(inPath) !== number) fail(path, first.at, `the title has number ${number}, the file ${String(inPath)}`);
      open.push({ heading: title, firstLine: first.at, prose: [], code: [] });
      text.shift();
    } else if (!/^## \S/.test(first.text)) {
      fail(path, first.at, `prose must begin with "## Heading", got "${first.text}"`);
    }
    for (const { text: line, at } of text) {
      if (line.startsWith("```")) inFence = !inFence;
      if (!inFence && /^## \S/.test(line)) open.push({ heading: line.slice(3), firstLine: at, prose: [], code: [] });
      else open.at(-1)!.prose.push(line);
    }
    if (inFence) fail(path, lines.at(-1)!.at, "a ``` of this comment is not closed");
  }
  const sections = open.map(({ heading, firstLine, prose, code }): Section => {
    const from = code.findIndex(({ text }) => text !== "");
    const text = code.map((line) => line.text).join("\n");
    return {
      heading,
      firstLine,
      prose: prose.join("\n").trim(),
      code: from < 0 ? "" : text.replace(/^\n+|\n+$/g, ""),
      codeLine: from < 0 ? 0 : code[from]!.at,
    };
  });
  return { number, title, sections };
}

/** Changes of the diff of "Break it". Its lines begin with `-`, `+` or, where both texts have them, a space. */
function changesOf({ prose, firstLine }: Section, path: string): Change[] {
  const diffs = [...prose.matchAll(/^```diff\n(.*?)^```$/gms)].map((found) => found[1]!);
  if (diffs.length !== 1) fail(path, firstLine, `"Break it" must have one \`\`\`diff block, got ${diffs.length}`);
  const changes: { before: string[]; after: string[] }[] = [];
  let last = "";
  for (const line of diffs[0]!.trimEnd().split("\n")) {
    const sign = line.slice(0, 1);
    if (line === "") {
      last = "";
      continue;
    }
    if (!["-", "+", " "].includes(sign))
      fail(path, firstLine, `a line of a diff begins with -, + or a space: "${line}"`);
    // A change ends at an empty line, and where a removal follows an addition.
    if (last === "" || (last === "+" && sign === "-")) changes.push({ before: [], after: [] });
    const change = changes.at(-1)!;
    if (sign !== "+") change.before.push(line.slice(1));
    if (sign !== "-") change.after.push(line.slice(1));
    last = sign;
  }
  for (const { before, after } of changes) {
    if (before.length === 0) fail(path, firstLine, `the diff adds "${after.join("\n")}" and does not say where`);
  }
  return changes;
}
