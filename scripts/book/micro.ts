/**
 * learn/00-micro.ts in the form of a chapter. It is the book's first, but its text stands in one comment at the head
 * and in comments `// 1. Heading. Text` above its parts.
 */
import type { Chapter, Section } from "./chapter.ts";
import { fail, uncommented } from "./chapter.ts";

/** The number and heading of a part, and the beginning of its text. */
const PART = /^\/\/ (\d+)\. (.*?)\.(?: (.*))?$/;
/** Why its last line does nothing when a test imports the file; a page runs it. */
const IF_PROGRAM = /^if \(import\.meta\.url === .*?\) (?=console\.log)/m;

/** @throws FormError if the head or the parts are missing */
export function parseMicro(source: string, path: string): Chapter {
  const lines = source.trimEnd().split("\n");
  const end = lines.findIndex((line) => line.trim() === "*/");
  if (!lines[0]!.startsWith("/**") || end < 0) fail(path, 1, "expected a comment at the head");
  const head = lines.slice(1, end).map(uncommented).join("\n").trim();
  const sections: Section[] = [
    { heading: "All of it, small", prose: head, code: "", firstLine: 1, codeLine: 0 },
    ...partsOf(lines, end + 1),
  ];
  if (sections.length < 2) fail(path, end + 2, 'expected parts that begin with "// 1. Heading. Text"');
  const promise =
    "reinforcement learning for a language agent, whole, in 200 lines that import nothing: what the library does, " +
    "for one small model. Read it for the whole, not for each line: chapter 1 explains its derivatives, 4 the " +
    "transformer, 5 how rewards teach, 6 the world model.";
  return { path, number: 0, title: "All of it, small", promise, sections, changes: [], source };
}

function partsOf(lines: readonly string[], from: number): Section[] {
  const starts = lines.flatMap((line, i) => (i >= from && PART.test(line) ? [i] : []));
  return starts.map((start, k) => {
    const [, number, heading, rest = ""] = PART.exec(lines[start]!)!;
    const codeAt = lines.findIndex((line, i) => i > start && !line.startsWith("// "));
    const prose = [rest, ...lines.slice(start + 1, codeAt).map((line) => line.slice(3))];
    const code = lines.slice(codeAt, starts[k + 1] ?? lines.length).join("\n");
    return {
      heading: `${number} · ${heading}`,
      prose: prose.join("\n").trim(),
      code: code.trimEnd().replace(IF_PROGRAM, ""),
      firstLine: start + 1,
      codeLine: codeAt + 1,
    };
  });
}
