/** Files that can be read at one sitting. */
import { expect, it } from "vitest";
import { isTypeScript, projectFiles, readSource } from "./sources.ts";

const MAX_LINES = 400;

it(`no source file is over ${MAX_LINES} lines`, () => {
  const sources = projectFiles().filter(isTypeScript);
  expect(sources.length).toBeGreaterThan(100);
  const long = sources.map((path) => [path, readSource(path).split("\n").length - 1] as const);
  expect(long.filter(([, lines]) => lines > MAX_LINES)).toEqual([]);
});
