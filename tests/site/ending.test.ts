/** The summary at the end of a run on the page: its figures of ten seeds are those of docs/evidence.md. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { packageFolder } from "../../scripts/packageFolder.ts";
import { TEN_SEEDS } from "../../site/ending.ts";

it("says what docs/evidence.md has for the same arms", () => {
  const evidence = readFileSync(join(packageFolder, "docs/evidence.md"), "utf8");
  const ofArm = (row: RegExp): string => row.exec(evidence)![1]!;
  const figures = [
    ofArm(/^\| GRPO +\| +([\d.]+) \[/m),
    ofArm(/^\| \*\*GRPO \+ ECHO\*\* +\| +([\d.]+) \[/m),
    ofArm(/^\| GRPO \+ ECHO on random facts +\| +([\d.]+) \[/m),
  ];
  expect([...TEN_SEEDS.matchAll(/([\d.]+) %/g)].map((found) => found[1])).toEqual(figures);
});
