/** The live page in a real Chromium: its agents have the numbers of Node, and its controls do what they say. */
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { launchChromium } from "../../support/browser.ts";
import { playedInNode, playInWorker, timeless } from "../../support/liveAgent.ts";
import { serveSite } from "../../support/sitePages.ts";

/** A few seconds; without a warm start beside the page, so that the first agent makes it for both. */
const SETTINGS = "?quick=true&seed=3&steps=5";
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

/** Opens the page; what it says in its console is added to `problems`, but that there is no warm start beside it. */
async function open(settings: string, problems: string[]): Promise<Page> {
  const page = await browser.newPage({ viewport: { width: 1400, height: 900 } });
  page.on("console", (message) => {
    if (!message.location().url.endsWith("/warm/warm.json")) problems.push(message.text());
  });
  page.on("pageerror", (error) => problems.push(error.message));
  await page.goto(address + settings);
  return page;
}

test("an agent in a worker of the page has the metrics of a session in Node, bit for bit", async () => {
  const { preset, metrics } = await playedInNode(SETTINGS);
  const page = await open("?env=nowhere", []); // a page that trains nothing meanwhile
  const inPage = await page.evaluate(playInWorker, [`${address}agent.js`, preset] as const);
  await page.close();
  expect(timeless(inPage)).toEqual(timeless(metrics));
});

test("plays to the end, goes back and comes again to the same; a wrong address is one line", async () => {
  const problems: string[] = [];
  const page = await open(SETTINGS, problems);
  const status = page.locator("#status");
  const ended = /^grpo: step 5, solves [\d.]+ % · grpo\+echo: step 5, solves [\d.]+ %$/;
  const button = (name: string): ReturnType<Page["locator"]> => page.getByRole("button", { name, exact: true });
  await expect.poll(() => status.innerText(), { timeout: 50_000 }).toMatch(ended);
  await expect.poll(() => button("Play").isDisabled()).toBe(true);
  const end = await status.innerText();
  expect(await page.locator(".way h3").allInnerTexts()).toEqual([
    expect.stringMatching(/^grpo (✔ solved|✘ failed) after 5 steps of RL$/),
    expect.stringMatching(/^grpo\+echo (✔ solved|✘ failed) after 5 steps of RL$/),
  ]);
  await button("Reset").click();
  await expect.poll(() => status.innerText()).toMatch(/^grpo: step 0, .*grpo\+echo: step 0, /);
  await expect.poll(() => button("One step").isEnabled()).toBe(true);
  await button("One step").click();
  await expect.poll(() => status.innerText()).toMatch(/^grpo: step 1, .*grpo\+echo: step 1, /);
  await expect.poll(() => button("Play").isEnabled()).toBe(true);
  await button("Play").click();
  await expect.poll(() => status.innerText(), { timeout: 30_000 }).toBe(end);
  await page.close();

  const wrong = await open("?sed=3", problems);
  expect(await wrong.locator("#status").innerText()).toBe('unknown setting "sed" in the address; did you mean "seed"?');
  await wrong.close();
  expect(problems).toEqual([]);
});

test("Pause stops both agents, and the page answers while steps are fast", async () => {
  const problems: string[] = [];
  const page = await open("?quick=true&seed=3&steps=1000", problems);
  const status = page.locator("#status");
  await expect.poll(() => status.innerText(), { timeout: 50_000 }).toMatch(/: step \d\d.*: step \d\d/);
  await page.getByRole("button", { name: "Pause", exact: true }).click();
  await expect.poll(() => page.getByRole("button", { name: "One step", exact: true }).isEnabled()).toBe(true);
  const paused = await status.innerText();
  await page.waitForTimeout(1000);
  expect(await status.innerText()).toBe(paused);
  expect(problems).toEqual([]);
  await page.close();
});
