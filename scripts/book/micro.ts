/**
 * learn/00-micro.ts as a chapter, the first of the book. Its prose is a comment at its head, and comments of the form
 * `// 1. Heading. Text` above its parts. Its 200 lines have no room for its other sections, which stand in the comment
 * at the head of its exercises: the last ones, and those that come before the parts.
 */
import { type Chapter, complete, fail, LAST_HEADINGS, type Section, uncommented } from "./chapter.ts";

/** Number and heading of a part, and the beginning of its text. */
const PART = /^\/\/ (\d+)\. (.*?)\.(?: (.*))?$/;
/**
 * Condition that keeps the last line from running when a test imports the file; the program of the chapter has the rest
 * of the line.
 */
const IF_PROGRAM = /^if \(import\.meta\.url === .*?\) (?=console\.log)/m;

/**
 * @param exercises text of the file `endPath`
 * @throws FormError if the head, the parts or one of the last sections is missing
 */
export function parseMicro(source: string, path: string, exercises: string, endPath: string): Chapter {
  const program = source.replace(IF_PROGRAM, "");
  const lines = program.trimEnd().split("\n");
  const head = headOf(lines, path);
  const parts = partsOf(lines, head.length + 2);
  if (parts.length === 0) fail(path, head.length + 3, 'expected parts that begin with "// 1. Heading. Text"');
  const title = "All of it, small";
  const further = sectionsIn(headOf(exercises.split("\n"), endPath));
  return complete({
    path,
    endPath,
    number: 0,
    title,
    promise:
      "reinforcement learning for a language agent, whole, in 200 lines that import nothing: what the library does, " +
      "for one small model. Read it for the whole, not for each line: chapter 1 explains its derivatives, 4 the " +
      "transformer, 5 how rewards teach, 6 the world model.",
    sections: [
      { heading: title, prose: head.join("\n").trim(), code: "", firstLine: 1, codeLine: 0 },
      ...further.filter(({ heading }) => !LAST_HEADINGS.includes(heading)),
      ...parts,
      ...further.filter(({ heading }) => LAST_HEADINGS.includes(heading)),
    ],
    source: program,
  });
}

/** Comment at the head of a file. Its line i is line i + 2 of the file, counted from 1. */
function headOf(lines: readonly string[], path: string): string[] {
  const end = lines.findIndex((line) => line.trim() === "*/");
  if (lines[0] !== "/**" || end < 0) fail(path, 1, "expected a comment at the head");
  return lines.slice(1, end).map(uncommented);
}

function partsOf(lines: readonly string[], from: number): Section[] {
  const starts = lines.flatMap((line, i) => (i >= from && PART.test(line) ? [i] : []));
  return starts.map((start, k) => {
    const [, number, heading, rest = ""] = PART.exec(lines[start]!)!;
    const codeAt = lines.findIndex((line, i) => i > start && !line.startsWith("// "));
    const prose = [rest, ...lines.slice(start + 1, codeAt).map((line) => line.slice(3))];
    return {
      heading: `${number} · ${heading}`,
      prose: prose.join("\n").trim(),
      code: lines
        .slice(codeAt, starts[k + 1] ?? lines.length)
        .join("\n")
        .trimEnd(),
      firstLine: start + 1,
      codeLine: codeAt + 1,
    };
  });
}

/** Sections below each `## Heading`. */
function sectionsIn(head: readonly string[]): Section[] {
  const starts = head.flatMap((line, i) => (line.startsWith("## ") ? [i] : []));
  return starts.map((start, k) => ({
    heading: head[start]!.slice(3),
    prose: head
      .slice(start + 1, starts[k + 1])
      .join("\n")
      .trim(),
    code: "",
    firstLine: start + 2,
    codeLine: 0,
  }));
}
