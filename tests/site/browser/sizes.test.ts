/** What the pages of the site weigh. No browser is asked. */
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, inject, test } from "vitest";
import { chapterNames } from "../../../scripts/book/chapters.ts";
import { makePages } from "../../../scripts/book/pages.ts";
import { MOST_BEFORE_THE_FIRST_STEP } from "../../../scripts/sitePage.ts";
import { SOMEWHERE } from "../../support/sitePages.ts";

test("the live page before its first step, and the rest that it and the exact page may load", () => {
  const { live, exact } = inject("siteSizes");
  expect(exact.first).toBeLessThan(exact.all);
  expect(live.first).toBeLessThan(live.all);
  expect(live.first).toBeLessThanOrEqual(MOST_BEFORE_THE_FIRST_STEP);
});

test("each chapter of the book is a page, and links of the live page lead to pages", async () => {
  const folder = mkdtempSync(join(tmpdir(), "worldgrad-sizes-"));
  try {
    const { chapters, total } = await makePages(folder);
    expect(chapters.map(({ page }) => page)).toEqual(chapterNames());
    expect(chapters.reduce((sum, { bytes }) => sum + bytes, 0)).toBeLessThan(total);
    // They lie beside the live page, whose links to them lead somewhere.
    const live = join(inject("sitePages"), SOMEWHERE);
    const links = [...readFileSync(join(live, "index.html"), "utf8").matchAll(/href="([^"?]+\.html)"/g)];
    const found = links.map(([, page]) => page!);
    expect(found).toEqual(expect.arrayContaining(["book/index.html", "api/index.html", "docs/index.html"]));
    expect(found.filter((page) => ![folder, live].some((own) => existsSync(join(own, page))))).toEqual([]);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}, 300_000);
