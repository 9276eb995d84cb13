/** docs/rows.md has every row of scripts/rows.ts, each with commands that can be run or why it has none. */
import { existsSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { rowsText } from "../../scripts/methodTable.ts";
import { ROWS } from "../../scripts/rows.ts";
import { parseAblate } from "../../studies/ablate/options.ts";
import { planOf } from "../../studies/ablate/plan.ts";
import { blocksOf } from "./diffs.ts";
import { readSource } from "./sources.ts";

const page = readSource("docs/rows.md");
const headings = page.split(/^## /m).slice(1);
const sections = new Map(headings.map((text) => [text.split("\n", 1)[0]!, text]));

/** The arguments of every `npm run ablate -- …` in fences of a text, without the quotes that a shell takes away. */
const commandsIn = (text: string): string[][] =>
  blocksOf(text)
    .map((block) => block.text.replaceAll("\\\n", " "))
    .filter((block) => block.startsWith("npm run ablate -- "))
    .map((block) => [...block.matchAll(/"([^"]*)"|(\S+)/g)].slice(4).map(([, quoted, plain]) => quoted ?? plain!));

/** The measurements of a text that are programs of their own, by their paths. */
const programsIn = (text: string): string[] =>
  blocksOf(text).flatMap((block) => /^npx tsx (bench\/\S+)/.exec(block.text)?.slice(1) ?? []);

it("is up to date (else: npx tsx scripts/methodTable.ts), with one heading of the first level", async () => {
  expect(page).toBe(await rowsText(page));
  expect(page.match(/^# /gm)).toHaveLength(1);
});

describe.each(ROWS.map((row) => [row.name, row] as const))("%s", (_, row) => {
  it("has a source, a promise and what came out of it", () => {
    const { name, flag, source, promise, outcome } = row;
    expect([name, flag, source, promise, outcome]).not.toContain("");
    expect(page).toContain(`| ${name} `);
  });

  it("has a command in the section that it names, or a sentence that says why not", () => {
    const { evidence } = row;
    if ("why" in evidence) expect(evidence.why.split(" ").length).toBeGreaterThan(4);
    else {
      const section = sections.get(evidence.run) ?? "";
      expect([...commandsIn(section), ...programsIn(section)], evidence.run).not.toEqual([]);
    }
  });

  it("has no figure that is not in that section", () => {
    const section = "run" in row.evidence ? (sections.get(row.evidence.run) ?? "") : "";
    const known = new Set(section.match(/\d+(?:\.\d+)?/g));
    const figures = row.outcome.match(/\d+\.\d+/g) ?? [];
    expect(figures.filter((figure) => !known.has(figure))).toEqual([]);
  });
});

it("has no name twice, and no section that no row names", () => {
  expect(new Set(ROWS.map(({ name }) => name)).size).toBe(ROWS.length);
  const named = new Set(ROWS.map(({ evidence }) => ("run" in evidence ? evidence.run : "")));
  expect([...sections.keys()].filter((heading) => !named.has(heading))).toEqual([]);
});

it("has commands that are still accepted", () => {
  expect(programsIn(page).filter((path) => !existsSync(path))).toEqual([]);
  const commands = commandsIn(page);
  expect(commands.length).toBeGreaterThanOrEqual(2);
  for (const args of commands) {
    const options = parseAblate(args);
    if (typeof options === "string") throw new Error(`it prints its ${options}`);
    expect(planOf({ ...options, name: "no-folder-of-this-name" }).cells.length).toBeGreaterThan(2);
  }
});
