/** The column "Ran" of docs/testing.md is made of what ran. */
import { describe, expect, it } from "vitest";
import { type Ran, ranCell, testsNamed, withRan, withTable } from "../../scripts/attacks.ts";

const TESTS: readonly Ran[] = [
  { file: "tests/a.test.ts", name: "on wasm keeps a | b", passed: true, tried: { calls: 1000, runs: 2 } },
  { file: "tests/a.test.ts", name: "on webgpu keeps a | b", passed: false, tried: { calls: 5 } },
  { file: "tests/a.test.ts", name: "is another", passed: true },
  { file: "tests/b.test.ts", name: "keeps a | b", passed: true },
];

describe("the column Ran", () => {
  it("counts the tests whose file and title a row names, those that passed, and what they tried", () => {
    expect(ranCell("`tests/a.test.ts`: “keeps a \\| b”", TESTS)).toBe("1 of 2; 1,005 calls; 2 runs");
    expect(ranCell("`tests/a.test.ts`: “another”, “is another”; `tests/b.test.ts`: “keeps”", TESTS)).toBe("2 of 2");
    expect(ranCell("`tests/a.test.ts`: “%s”", TESTS)).toBe("2 of 3; 1,005 calls; 2 runs");
  });

  it("does not take a title that no test has", () => {
    expect(() => ranCell("`tests/b.test.ts`: “another”", TESTS)).toThrow("tests/b.test.ts has no test “another”");
  });

  it("stands in every table that has it beside its tests, and nothing else changes", () => {
    const row = (ran: string): string => `| x | ${ran} | \`tests/b.test.ts\`: “keeps” |`;
    const page = (ran: string): string =>
      ["# A", "| What | Ran | Test |", "| --- | --- | --- |", row(ran), "", "| What |", "| --- |", "| y |"].join("\n");
    expect(withRan(page("as before"), TESTS)).toBe(page("1 of 1"));
  });
});

it("a table is put in the place of the one with the same head", () => {
  const page = "a\n\n| Reader | Failed |\n| ------ | ------ |\n| x | 1 |\n\nb\n";
  const table = "| Reader | Failed |\n| --- | --- |\n| x | 0 |\n| y | 0 |\n";
  expect(withTable(page, table)).toBe("a\n\n| Reader | Failed |\n| --- | --- |\n| x | 0 |\n| y | 0 |\n\nb\n");
  expect(() => withTable(page, "| Other |\n")).toThrow("has no table | Other |");
});

it("names files and words of titles", () => {
  expect(testsNamed("`tests/a.test.ts`: “b”, “c; d”; `tests/e.test.ts`: “f”")).toEqual([
    { file: "tests/a.test.ts", titles: ["b", "c; d"] },
    { file: "tests/e.test.ts", titles: ["f"] },
  ]);
});
