/** What the pages of the site weigh is within the budgets of scripts/. No browser is asked. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, inject, test } from "vitest";
import { chapterNames } from "../../../scripts/book/chapters.ts";
import { CHAPTER_BUDGET, makePages, PAGES_BUDGET } from "../../../scripts/book/pages.ts";
import { BUDGETS } from "../../../scripts/sitePage.ts";

/** A budget that is further than this above what it holds is lowered. */
const SLACK = 1.05;

/** Each size with its budget; empty if all are within theirs and close to it. */
function outside(sizes: Readonly<Record<string, readonly [bytes: number, budget: number]>>): string[] {
  return Object.entries(sizes).flatMap(([what, [bytes, budget]]) => {
    if (bytes > budget) return [`${what}: ${bytes} bytes, over its budget of ${budget}`];
    return bytes * SLACK < budget ? [`${what}: ${bytes} bytes; lower its budget of ${budget}`] : [];
  });
}

test("the live page and the exact page, before their first step and with all that they may load", () => {
  const { live, exact } = inject("siteSizes");
  expect(exact.first).toBeLessThan(exact.all);
  expect(live.first).toBeLessThan(live.all);
  expect(
    outside({
      "live, first": [live.first, BUDGETS.live.first],
      "live, all": [live.all, BUDGETS.live.all],
      "exact, first": [exact.first, BUDGETS.exact.first],
      "exact, all": [exact.all, BUDGETS.exact.all],
    }),
  ).toEqual([]);
});

test("the chapters of the book before a cell runs, and the book and the reference in all", async () => {
  const folder = mkdtempSync(join(tmpdir(), "worldgrad-sizes-"));
  try {
    const { chapters, total } = await makePages(folder);
    expect(chapters.map(({ page }) => page)).toEqual(chapterNames());
    expect(chapters.filter(({ bytes }) => bytes > CHAPTER_BUDGET)).toEqual([]);
    expect(outside({ "book and api": [total, PAGES_BUDGET] })).toEqual([]);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}, 300_000);
