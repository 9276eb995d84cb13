/**
 * The pages in a second browser engine, Firefox: on WebAssembly the live page has the numbers of Node, bit for bit, and
 * what does not work there is said on it; exact.html computes, and a chapter of the book runs. vitest.config.ts leaves
 * this file out where there is no Firefox.
 */
import { type Browser, launch, type Page } from "puppeteer-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { serveBook } from "../../support/bookPages.ts";
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

async function open(path: string, problems: string[], folder = address): Promise<Page> {
  const page = await browser.newPage();
  page.on("console", (message) => problems.push(message.text()));
  page.on("pageerror", (error) => problems.push(String(error)));
  await page.goto(folder + path);
  return page;
}

const status = (page: Page): Promise<string> => page.$eval("#status", ({ textContent }) => textContent);

test("an agent in a worker has the metrics of a session in Node, bit for bit", async () => {
  const { preset, metrics } = await playedInNode(SETTINGS);
  const page = await open("?env=nowhere", []); // a page that trains nothing meanwhile
  const inPage = await page.evaluate(playInWorker, [`${address}agent.js`, preset] as const);
  await page.close();
  expect(timeless(inPage.metrics)).toEqual(timeless(metrics));
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

test("exact.html computes its figures", async () => {
  const problems: string[] = [];
  const page = await open("exact.html?method=rloo&group=4&steps=20", problems);
  await page.waitForFunction(() => !document.body.hasAttribute("aria-busy"), { timeout: 50_000 });
  expect(await page.$$eval("main canvas, main svg", (all) => all.length)).toBeGreaterThan(0);
  expect(await page.$eval("main", ({ textContent }) => textContent)).not.toMatch(/NaN|undefined/);
  expect(problems).toEqual([]);
  await page.close();
});

test("a chapter of the book runs in its page and checks an exercise", async () => {
  const book = await serveBook();
  const problems: string[] = [];
  const page = await open("book/01-tape.html", problems, book.address);
  const ended = async (host: string): Promise<string> => {
    const status = (): Promise<string> => page.$eval(`${host} .status`, ({ textContent }) => textContent);
    await expect.poll(status, { timeout: 50_000 }).toMatch(/^(?!Running)./);
    return status();
  };
  const press = (host: string, name: string): Promise<void> =>
    page.$$eval(
      `${host} button`,
      (all, text) => (all.find(({ textContent }) => textContent === text) as HTMLButtonElement).click(),
      name,
    );
  const last = `.cell[data-cell="${(await page.$$(".cell")).length - 1}"]`;
  await press(last, "Run");
  expect(await ended(last)).toMatch(/^Ran in [\d.]+ s; the output is the one that CI checked/);
  await press(".exercise", "Check"); // the first, as it stands there
  expect(await ended(".exercise")).toBe("Not yet.");
  expect(problems).toEqual([]);
  await page.close();
  book.close();
});
