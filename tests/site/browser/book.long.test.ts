/**
 * The chapters in a real Chromium, each run to its last cell: what is printed is what Node printed when CI checked it
 * (of figures of the machine only that they come). Their exercises refuse and accept, and two break. book.test.ts has
 * what every chapter's page does, on chapter 1.
 */
import { mkdtempSync, rmSync } from "node:fs";
import type { Server } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { chapterNames } from "../../../scripts/book/chapters.ts";
import { makePages } from "../../../scripts/book/pages.ts";
import { serveFolder } from "../../../scripts/sitePage.ts";
import { compare } from "../../../site/book/compare.ts";
import { readSource } from "../../project/sources.ts";
import { launchChromium } from "../../support/browser.ts";
import { ended, expectBreaks, expectExercises, expectFits, press } from "../../support/chapterPages.ts";
import { PATIENCE } from "../../support/livePage.ts";

const CHAPTERS = chapterNames().filter((name) => !name.startsWith("01-"));
/** One whose program trains agents and one that imports nothing: the other breaks are slower, and no other code. */
const BROKEN = CHAPTERS.filter((name) => /^0[06]-/.test(name));
const folder = mkdtempSync(join(tmpdir(), "worldgrad-chapters-"));
let server: Server;
let address: string;
let browser: Browser;

beforeAll(async () => {
  await makePages(folder, CHAPTERS);
  ({ server, address } = await serveFolder(folder, 0));
  browser = await launchChromium();
}, PATIENCE);
afterAll(async () => {
  await browser.close();
  server.close();
  rmSync(folder, { recursive: true, force: true });
});

/** Opens a chapter's page; its console must be empty in the end. */
async function withPage(name: string, use: (page: Page) => Promise<void>): Promise<void> {
  const problems: string[] = [];
  const page = await browser.newPage();
  page.on("console", (message) => problems.push(message.text()));
  page.on("pageerror", (error) => problems.push(error.message));
  await page.goto(`${address}book/${name}.html`);
  await use(page);
  expect(problems).toEqual([]);
  await page.close();
}

test.each(CHAPTERS)("%s: code and drawings fit into a phone's window", async (name) =>
  withPage(name, async (page) => {
    await page.setViewportSize({ width: 375, height: 900 });
    await expectFits(page);
  }),
);

test("these are all but one", () =>
  expect(CHAPTERS.map((name) => name.slice(0, 4))).toEqual([
    "00-b",
    "00-m",
    "02-o",
    "03-m",
    "04-t",
    "05-g",
    "06-w",
    "07-m",
    "08-s",
  ]));

test.each(CHAPTERS)("%s prints in a page what it prints in Node", { timeout: PATIENCE }, async (name) => {
  await withPage(name, async (page) => {
    const cells = page.locator(".cell");
    const last = cells.last();
    await press(last, "Run");
    expect(await ended(last, PATIENCE)).toMatch(/^Ran in [\d.]+ s; the output is the one that CI checked/);
    const printed = (await cells.locator(".output pre").allTextContents()).join("");
    expect(compare(printed, readSource(`learn/output/${name}.txt`))).not.toBe("other");
    expect(printed).not.toMatch(/measured (?:NaN|undefined|-|0[^.\d])/);
    const labels = await cells.locator(".output:not([hidden]) .label").allInnerTexts();
    expect(new Set(labels)).toEqual(new Set(["Printed just now"]));
  });
});

test.each(CHAPTERS)("%s has exercises whose checks run in a page", { timeout: PATIENCE }, (name) =>
  withPage(name, (page) => expectExercises(page, PATIENCE)),
);

test.each(BROKEN)("%s breaks in a page as it does in Node", { timeout: PATIENCE }, (name) =>
  withPage(name, (page) => expectBreaks(page, PATIENCE)),
);
