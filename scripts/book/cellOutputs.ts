/**
 * Output of each cell of a chapter: the output of the program that CI checks, cut where the cells begin. For this the
 * program runs once more, with a mark before each cell; .cache keeps the result for each state of both texts. A program
 * of which only the last cell prints (chapter 0) needs no run.
 */
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { packageFolder } from "../packageFolder.ts";
import type { Chapter } from "./chapter.ts";
import { comparable, run } from "./program.ts";

const MARK = "\u0001cell\n";

/**
 * @param expected the output that CI checks
 * @returns an output for each section that has code
 * @throws if the program does not print `expected`
 */
export async function cellOutputs({ source, sections, path }: Chapter, expected: string): Promise<string[]> {
  const cells = sections.filter(({ code }) => code !== "");
  if (cells.slice(0, -1).every(({ code }) => !code.includes("console"))) {
    return cells.map((_, i) => (i === cells.length - 1 ? expected : ""));
  }
  const starts = cells.map(({ codeLine }) => codeLine);
  const key = createHash("sha256")
    .update(JSON.stringify([source, expected, starts]))
    .digest("hex")
    .slice(0, 16);
  const file = join(packageFolder, ".cache/book", `${key}.json`);
  if (existsSync(file)) return JSON.parse(readFileSync(file, "utf8")) as string[];
  const lines = source.split("\n");
  for (const start of starts.toReversed()) {
    lines.splice(start - 1, 0, `console.log(${JSON.stringify(MARK.trimEnd())});`);
  }
  const { text } = await run(lines.join("\n"), join(packageFolder, path));
  const [before, ...outputs] = text.split(MARK);
  if (before !== "" || comparable(outputs.join("")) !== comparable(expected)) {
    throw new Error(`${path}: it does not print what learn/output has; run npm run book`);
  }
  mkdirSync(join(packageFolder, ".cache/book"), { recursive: true });
  writeFileSync(file, JSON.stringify(outputs));
  return outputs;
}
