/**
 * Every line has at most 120 columns and is laid out by prettier, except for tables of data that are easier to read
 * than what prettier prints.
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
  "environments/gridworld/episode.ts", // a family of tasks in two lines: its description, its numbers
  "environments/household/episode.ts",
  "environments/shop/episode.ts",
  "environments/sokoban/episode.ts",
  "tensorMethods.ts", // names
  "methods/choice.ts", // a method per line or two
]);

const linesOf = (path: string): string[] => readSource(path).split("\n");
const isLong = (line: string): boolean => [...line].length > MAX_COLUMNS;

describe("lines", () => {
  const files = projectFiles().filter((path) => SOURCE.test(path));
  /** Where lines are that `matches` finds, as FILE:LINE. */
  const places = (matches: (line: string, path: string) => boolean): string[] =>
    files.flatMap((path) => linesOf(path).flatMap((line, i) => (matches(line, path) ? [`${path}:${i + 1}`] : [])));

  it(`have at most ${MAX_COLUMNS} columns`, () => {
    expect(files.length).toBeGreaterThan(500);
    expect(places(isLong)).toEqual([]);
  });

  it("are laid out by prettier, except in tables that need it", () => {
    expect(places((line, path) => IGNORED.test(line) && !TABLES.has(path))).toEqual([]);
    expect([...TABLES].filter((path) => !linesOf(path).some((line) => IGNORED.test(line)))).toEqual([]);
  });
});
