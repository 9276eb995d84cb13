/**
 * The experiments of the live page that break, each played to its end in Chromium: the doctor names the disease of the
 * first agent, and not in its healthy twin.
 */
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { experimentOf } from "../../../site/experiment.ts";
import { BROKEN } from "../../../site/presets.ts";
import { launchChromium } from "../../support/browser.ts";
import { serveSite } from "../../support/sitePages.ts";

let close: () => void;
let address: string;
let browser: Browser;

beforeAll(async () => {
  ({ address, close } = await serveSite());
  browser = await launchChromium();
}, 60_000);
afterAll(async () => {
  await browser.close();
  close();
});

test.each(BROKEN)("$title: the doctor names $disease, and not for the healthy twin", async (own) => {
  const problems: string[] = [];
  const page = await browser.newPage();
  page.on("console", (message) => {
    if (!message.location().url.endsWith("/warm/warm.json")) problems.push(message.text()); // there is none beside it
  });
  page.on("pageerror", (error) => problems.push(error.message));
  await page.goto(`${address}?env=nowhere`); // an address under which nothing is trained
  await page.getByRole("link", { name: own.title, exact: true }).click();
  const { steps } = experimentOf(new URL(page.url()).searchParams).agents[0]!.preset.rl;
  const ended = new RegExp(`: step ${steps}, solves .*: step ${steps}, solves `);
  await expect.poll(() => page.locator("#status").innerText(), { timeout: 250_000 }).toMatch(ended);
  const [sick, healthy] = [page.locator(".diagnosis").nth(0), page.locator(".diagnosis").nth(1)];
  const disease = `[data-mode=${own.disease}]`;
  await expect.poll(() => sick.locator(disease).count(), { timeout: 30_000 }).toBe(1);
  expect(await healthy.innerText()).not.toBe("");
  expect(await healthy.locator(disease).count()).toBe(0);
  expect(problems).toEqual([]);
  await page.close();
});
