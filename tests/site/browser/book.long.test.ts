/**
 * Chapters whose cells train agents, run to their last cell in a real Chromium: what is printed is what Node printed
 * when CI checked it. book.test.ts has what every chapter's page does, on a short one; chapters 2 and 3 measure the
 * machine or ask for a GPU.
 */
import { mkdtempSync, rmSync } from "node:fs";
import type { Server } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { chapterNames } from "../../../scripts/book/chapters.ts";
import { makePages } from "../../../scripts/book/pages.ts";
import { serveFolder } from "../../../scripts/sitePage.ts";
import { compare } from "../../../site/book/compare.ts";
import { readSource } from "../../project/sources.ts";
import { launchChromium } from "../../support/browser.ts";

const CHAPTERS = chapterNames().filter((name) => /^0[5-8]-/.test(name));
const folder = mkdtempSync(join(tmpdir(), "worldgrad-chapters-"));
let server: Server;
let address: string;
let browser: Browser;

beforeAll(async () => {
  await makePages(folder, CHAPTERS);
  ({ server, address } = await serveFolder(folder, 0));
  browser = await launchChromium();
}, 300_000);
afterAll(async () => {
  await browser.close();
  server.close();
  rmSync(folder, { recursive: true, force: true });
});

test("these are four", () => expect(CHAPTERS).toHaveLength(4));

test.each(CHAPTERS)(
  "%s prints in a page what it prints in Node",
  async (name) => {
    const problems: string[] = [];
    const page = await browser.newPage();
    page.on("console", (message) => problems.push(message.text()));
    page.on("pageerror", (error) => problems.push(error.message));
    await page.goto(`${address}book/${name}.html`);
    const cells = page.locator(".cell");
    const last = cells.last();
    await last.getByRole("button", { name: "Run", exact: true }).click();
    const status = last.locator(".status");
    await expect.poll(() => status.innerText(), { timeout: 280_000 }).toMatch(/^(?!Running)./);
    expect(await status.innerText()).toMatch(/^Ran in [\d.]+ s; the output is the one that CI checked/);
    const printed = (await cells.locator(".output pre").allTextContents()).join("");
    expect(compare(printed, readSource(`learn/output/${name}.txt`))).not.toBe("other");
    const labels = await cells.locator(".output:not([hidden]) .label").allInnerTexts();
    expect(new Set(labels)).toEqual(new Set(["Printed just now"]));
    expect(problems).toEqual([]);
    await page.close();
  },
  300_000,
);
