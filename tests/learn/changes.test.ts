/** site/book/changes: the diff between what a program prints and what it prints after "Break it". */
import { describe, expect, it } from "vitest";
import { changesOf } from "../../site/book/changes.ts";

const diff = (before: string, after: string): string[] =>
  changesOf(before, after).map(({ sign, text }) => `${sign}${text}`);
const lines = (...all: string[]): string => `${all.join("\n")}\n`;

describe("changes of an output", () => {
  it("are the lines that went and came, with two around them", () => {
    const before = lines("1", "2", "3", "4", "5", "6", "7", "8", "9");
    expect(diff(before, before.replace("5", "five"))).toEqual([
      "…2 lines as before",
      " 3",
      " 4",
      "-5",
      "+five",
      " 6",
      " 7",
      "…2 lines as before",
    ]);
    expect(diff(before, before.replace("8\n9\n", ""))).toEqual(["…5 lines as before", " 6", " 7", "-8", "-9"]);
    expect(diff(before, `0\n${before}`)).toEqual(["+0", " 1", " 2", "…7 lines as before"]);
    expect(diff(before, before)).toEqual(["…9 lines as before"]);
  });

  it("put all lines back: without + they are the one text, without − the other", () => {
    const [before, after] = [lines("a", "b", "a", "c", "b"), lines("b", "c", "a", "b", "b", "c")];
    const all = changesOf(before, after);
    const kept = (sign: string): string => lines(...all.filter((line) => line.sign !== sign).map(({ text }) => text));
    const common = 3; // b, a, b or b, c, b
    expect(all.some(({ sign }) => sign === "…")).toBe(false);
    expect([kept("+"), kept("-")]).toEqual([before, after]);
    expect(all.filter(({ sign }) => sign === " ")).toHaveLength(common);
  });

  it("are no changes of the clock", () => {
    expect(diff(lines("ran: measured 3 s", "x"), lines("ran: measured 4 s", "x"))).toEqual(["…2 lines as before"]);
  });
});
