/** The moving picture of README: it ends where the run ended, moves from 0 to its end, and is what the script draws. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { type Followed, pictureOf } from "../../scripts/movingPicture/picture.ts";
import { packageFolder } from "../../scripts/packageFolder.ts";
import { themeColours } from "../support/theme.ts";

const agent = (label: string, ps: readonly number[], shares: readonly number[]): Followed => ({
  label,
  knowledge: ps.map((p, step) => ({ step, facts: [{ kind: "k", known: "a", right: "b", says: "a is in <b>", p }] })),
  success: shares.map((share, step) => ({ step, share })),
});

it("has a square for each fact and agent, with its shades in order, and times from 0 to 1", () => {
  const svg = pictureOf([agent("one", [0, 0.26, 1], [0, 0.5]), agent("two", [0, 0, 0], [0, 0])], 2);
  const animated = [...svg.matchAll(/<animate attributeName="opacity"[^>]* values="([^"]+)" keyTimes="([^"]+)"/g)];
  expect(animated.map(([, values]) => values)).toEqual([
    "0.0;0.3;1.0;1.0",
    "1;1;0;0", // knows 0
    "0;0;1;1", // knows 1
    "0.0;0.0;0.0;0.0",
    "1;1;1;1",
  ]);
  const counts = [...svg.matchAll(/opacity="([01])">knows (\d) of 1 facts/g)].map(([, seen, count]) => [count, seen]);
  expect(counts).toEqual([
    ["0", "0"],
    ["1", "1"],
    ["0", "1"],
  ]);
  for (const [, , times] of animated) expect(times).toBe("0;0.375;0.75;1");
  expect(svg).toContain("one ends at 50 %, two ends at 0 % of new tasks");
  expect(svg).not.toContain("NaN");
  expect(svg).not.toContain("<b>");
});

it("and the one in docs/plots have the agents' colours of the pages, in both themes", () => {
  const drawn = pictureOf([agent("one", [0], [0]), agent("two", [0], [0])], 1);
  for (const svg of [drawn, readFileSync(join(packageFolder, "docs/plots/agents.svg"), "utf8")]) {
    const fills = [...svg.matchAll(/\.of-(\d) \{ fill: (#\w+); \}/g)].map(([, i, colour]) => [i, colour]);
    const [first, second] = [themeColours("line-1"), themeColours("line-2")];
    expect(fills).toEqual([
      ["0", first.light],
      ["1", second.light],
      ["0", first.dark],
      ["1", second.dark],
    ]);
    for (const kind of ["of-0", "of-1", "line-0", "line-1"]) expect(svg).toContain(`class="${kind}"`);
  }
});

it("of agents that solve nothing has an axis, too", () => {
  expect(pictureOf([agent("one", [0], [0])], 1)).toMatch(/>10 %<.*>1 steps of training</s);
});

it("in docs/plots is one that this script drew: 50 facts, two agents, and nothing from elsewhere", () => {
  const svg = readFileSync(join(packageFolder, "docs/plots/agents.svg"), "utf8");
  expect(svg.match(/<animate attributeName="opacity" dur="16s" repeatCount="indefinite" values/g)).toHaveLength(100);
  expect(svg.match(/attributeName="width"/g)).toHaveLength(2);
  expect(svg).not.toMatch(/<script|href=|@import/);
});
