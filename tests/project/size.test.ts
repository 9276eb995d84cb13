/** Files that can be read at one sitting, and lines that fit a screen. */
import { expect, it } from "vitest";
import { isTypeScript, projectFiles, readSource } from "./sources.ts";

const MAX_LINES = 400;
const MAX_COLUMNS = 120;

it(`no source file is over ${MAX_LINES} lines`, () => {
  const sources = projectFiles().filter(isTypeScript);
  expect(sources.length).toBeGreaterThan(100);
  const long = sources.map((path) => [path, readSource(path).split("\n").length - 1] as const);
  expect(long.filter(([, lines]) => lines > MAX_LINES)).toEqual([]);
});

it(`no line of engine/ and nn/ is over ${MAX_COLUMNS} columns`, () => {
  const sources = projectFiles().filter((path) => isTypeScript(path) && /^(engine|nn)\//.test(path));
  expect(sources.length).toBeGreaterThan(50);
  const long = sources.flatMap((path) =>
    readSource(path)
      .split("\n")
      .flatMap((line, i) => (line.length > MAX_COLUMNS ? [`${path}:${i + 1}`] : [])),
  );
  expect(long).toEqual([]);
});
