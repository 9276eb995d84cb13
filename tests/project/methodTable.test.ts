/** docs/methods.md is what scripts/methodTable.ts makes of the tables that the tests run, and no row of it is empty. */
import { describe, expect, it } from "vitest";
import { methodRows, methodTable } from "../../scripts/methodTable.ts";
import { OTHER_ROWS } from "../support/rlOtherMethods.ts";
import { projectFiles, readSource } from "./sources.ts";

it("docs/methods.md is up to date (else: npx tsx scripts/methodTable.ts)", async () => {
  const text = await methodTable();
  expect(text.split("\n").length).toBeGreaterThan(90);
  expect(readSource("docs/methods.md")).toBe(text);
});

it("docs/methods.md has no cell that is empty or a dash", () => {
  const rows = readSource("docs/methods.md")
    .split("\n")
    .filter((line) => line.startsWith("| "));
  const cells = (line: string): string[] => line.split(/(?<!\\)\|/).slice(1, -1);
  expect(rows.length).toBeGreaterThan(300);
  expect(rows.filter((line) => cells(line).some((cell) => ["", "–", "-"].includes(cell.trim())))).toEqual([]);
});

describe("every row", () => {
  it("has a formula, a source, and a golden value or a property", () => {
    const rows = methodRows();
    expect(rows.length).toBeGreaterThan(70);
    expect(rows.filter((r) => r.formula === "" || r.source === "")).toEqual([]);
    expect(rows.filter((r) => r.golden.length === 0 && r.properties.length === 0)).toEqual([]);
  });

  it("names tests that exist", () => {
    const named = Object.values(OTHER_ROWS).flatMap((rows) => Object.values(rows).flatMap((row) => row.tests));
    const missing = named.filter(
      ([file, title]) => !projectFiles().includes(file) || !readSource(file).includes(title),
    );
    expect(missing).toEqual([]);
  });

  it("of a method of another system's is there, under the name that the golden cases use", () => {
    const names = new Set(methodRows().flatMap((r) => r.golden));
    for (const entry of [
      "verl.gspo",
      "trl.vespo",
      "prime_rl.ipo",
      "gigpo",
      "verl.is_icepop_token_0.95_1.1",
      "verl.kl_k3+",
    ]) {
      expect(names).toContain(entry);
    }
  });
});
