/** The sentence of an option's table becomes the comment that an editor shows. */
import { expect, test } from "vitest";
import { number, oneOf, options, REQUIRED } from "../../engine/optionTable.ts";
import { documented } from "../../scripts/optionDocs.ts";

test("each option without a comment gets its sentence and its default; everything else stays", () => {
  const PART = options("part", {
    rate: number(0.5, "how fast it is, as a*/b"),
    need: number(REQUIRED, "how much of it"),
    most: number(undefined, "λ, how much at most; by default no limit"),
    kind: oneOf(["x", "y"], "x", "which of the two"),
    told: number(1, "told twice"),
  });
  const declaration = `export declare const OTHER: number;
export declare const PART: import("./optionTable.js").OptionTable<{
    rate: import("./optionTable.js").DefaultedOption<number>;
    need: import("./optionTable.js").RequiredOption<number>;
    most: import("./optionTable.js").Option<number>;
    kind: import("./optionTable.js").DefaultedOption<"x" | "y">;
    /** In the source's own words. */
    told: import("./optionTable.js").DefaultedOption<number>;
}>;
export interface Later {
    rate: number;
}
declare const HIDDEN: import("./optionTable.js").OptionTable<{
    rate: import("./optionTable.js").DefaultedOption<number>;
}>;
`;
  const { text, added } = documented(declaration, { PART, OTHER: 1 });
  expect(added).toBe(4);
  expect(text.split("\n").filter((line) => line.trim().startsWith("/**"))).toEqual([
    "    /** How fast it is, as a* /b. Default 0.5. */",
    "    /** How much of it. Required. */",
    "    /** λ, how much at most; by default no limit. */",
    '    /** Which of the two. Default "x". */',
    "    /** In the source's own words. */",
  ]);
  expect(text.replace(/ {4}\/\*\* [HWλ].*\n/g, "")).toBe(declaration);
});
