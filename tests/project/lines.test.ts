/**
 * Every line has at most 120 columns and is laid out by prettier. A folder where that does not hold yet has a ceiling,
 * which is the number of exceptions that it holds now: whoever removes some lowers it, and nobody raises it.
 */
import { describe, expect, it } from "vitest";
import { projectFiles, readSource } from "./sources.ts";

const MAX_COLUMNS = 120;
const SOURCE = /(\.(ts|js|html|css|sh|py)|^\.ci\/run)$/;
const IGNORED = /prettier-(?:ignore)\b/;

/** Files with data tables that are easier to read than what prettier prints. Only these may switch prettier off. */
const TABLES = new Set([
  "kernels/wasm/values.ts", // a method per instruction, with its opcode
  "engine/ops/pointwise.ts", // an op per line: its formula beside its plain definition
  "environments/gridworld/tasks.ts", // a family of tasks in two lines: its description, its numbers
  "environments/household/tasks.ts",
  "environments/shop/tasks.ts",
  "environments/sokoban/tasks.ts",
  "methods.ts", // names
  "rl/methods/presets.ts", // a method per line or two
]);

interface Count {
  /** Lines over `MAX_COLUMNS`. */
  readonly long: number;
  /** Comments that switch prettier off, outside of `TABLES`. */
  readonly ignored: number;
}

/** The exceptions of each folder that still has some. The numbers are exact, so that they are lowered with the work. */
const CEILINGS: Readonly<Record<string, Count>> = {
  "tests/project": { long: 0, ignored: 1 },
  "tests/scripts": { long: 2, ignored: 0 },
  "tests/support": { long: 53, ignored: 52 },
  "tests/tools": { long: 21, ignored: 15 },
};

/** The folder that a file is counted in: the first part of its path, or the first two in `tests/`. */
function folderOf(path: string): string {
  const folders = path.split("/").slice(0, -1);
  return folders.slice(0, folders[0] === "tests" ? 2 : 1).join("/") || ".";
}

const linesOf = (path: string): string[] => readSource(path).split("\n");
const isLong = (line: string): boolean => [...line].length > MAX_COLUMNS;

describe("lines", () => {
  const files = projectFiles().filter((path) => SOURCE.test(path));
  const folders = [...new Set(files.map(folderOf))].toSorted();

  it.each(folders)("%s has as many exceptions as its ceiling says", (folder) => {
    const inFolder = files.filter((path) => folderOf(path) === folder);
    const places = (matches: (line: string, path: string) => boolean): string[] =>
      inFolder.flatMap((path) => linesOf(path).flatMap((line, i) => (matches(line, path) ? [`${path}:${i + 1}`] : [])));
    const long = places(isLong);
    const ignored = places((line, path) => IGNORED.test(line) && !TABLES.has(path));
    const found: Count = { long: long.length, ignored: ignored.length };
    const where = `too long:\n${long.join("\n")}\nignored by prettier:\n${ignored.join("\n")}`;
    expect(found, where).toEqual(CEILINGS[folder] ?? { long: 0, ignored: 0 });
  });

  it("lists no ceiling and no file with tables that is not needed", () => {
    const needless = Object.entries(CEILINGS).filter(([, { long, ignored }]) => long + ignored === 0);
    expect(needless).toEqual([]);
    expect(Object.keys(CEILINGS).filter((folder) => !folders.includes(folder))).toEqual([]);
    expect([...TABLES].filter((path) => !linesOf(path).some((line) => IGNORED.test(line)))).toEqual([]);
  });
});
