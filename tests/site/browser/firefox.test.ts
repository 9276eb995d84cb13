/**
 * The live page in a second browser engine, Firefox: on WebAssembly it has the numbers of Node, bit for bit, and what
 * does not work there is said on the page. vitest.config.ts leaves this file out where there is no Firefox.
 */
import { type Browser, launch, type Page } from "puppeteer-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { playedInNode, playInWorker, timeless } from "../../support/liveAgent.ts";
import { serveSite } from "../../support/sitePages.ts";

/** A few seconds; without a warm start beside the page, so that the first agent makes it for both. */
const SETTINGS = "?quick=true&seed=3&steps=5";
let close: () => void;
let address: string;
let browser: Browser;

beforeAll(async () => {
  ({ address, close } = await serveSite());
  browser = await launch({ browser: "firefox", executablePath: process.env["WORLDGRAD_FIREFOX"]! });
}, 60_000);
afterAll(async () => {
  await browser.close();
  close();
});

async function open(settings: string, problems: string[]): Promise<Page> {
  const page = await browser.newPage();
  page.on("console", (message) => problems.push(message.text()));
  page.on("pageerror", (error) => problems.push(String(error)));
  await page.goto(address + settings);
  return page;
}

const status = (page: Page): Promise<string> => page.$eval("#status", ({ textContent }) => textContent);

test("an agent in a worker has the metrics of a session in Node, bit for bit", async () => {
  const { preset, metrics } = await playedInNode(SETTINGS);
  const page = await open("?env=nowhere", []); // a page that trains nothing meanwhile
  const inPage = await page.evaluate(playInWorker, [`${address}agent.js`, preset] as const);
  await page.close();
  expect(timeless(inPage)).toEqual(timeless(metrics));
});

test("the page plays to the end", async () => {
  const problems: string[] = [];
  const page = await open(SETTINGS, problems);
  const ended = /^grpo: step 5, solves [\d.]+ % · grpo\+echo: step 5, solves [\d.]+ %$/;
  await expect.poll(() => status(page), { timeout: 50_000 }).toMatch(ended);
  expect(problems).toEqual([]);
  await page.close();
});

test("the page says what is missing for WebGPU, where it is", async () => {
  const problems: string[] = [];
  const page = await open(`${SETTINGS}&device=webgpu`, problems);
  const hasWebGpu = await page.evaluate(() => "gpu" in navigator); // Firefox ESR on Linux has none
  const missing = hasWebGpu ? "This browser has WebGPU, but no GPU for it" : "This browser has no WebGPU";
  await expect
    .poll(() => status(page), { timeout: 20_000 })
    .toMatch(new RegExp(`^${missing}.*: choose the executor wasm`));
  expect(await page.$$eval(".presets li", (items) => items.length)).toBeGreaterThan(0);
  expect(problems).toEqual([]);
  await page.close();
});
