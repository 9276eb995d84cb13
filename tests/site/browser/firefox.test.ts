/**
 * The pages in a second browser engine, Firefox: on WebAssembly the live page has the numbers of Node, bit for bit, and
 * what does not work there is said on it; exact.html computes, and a chapter of the book runs. vitest.config.ts leaves
 * this file out where there is no Firefox.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Browser, launch, type Page } from "puppeteer-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { run as runInNode } from "../../../learn/00-micro.ts";
import { makeBook } from "../../../scripts/book/book.ts";
import { serveFolder } from "../../../scripts/sitePage.ts";
import { compare } from "../../../site/book/compare.ts";
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

test("an agent in a worker has the metrics of a session in Node, bit for bit", { timeout: 120_000 }, async () => {
  const { preset, metrics } = await playedInNode(SETTINGS);
  const page = await open("?env=nowhere", []); // a page that trains nothing meanwhile
  const inPage = await page.evaluate(playInWorker, [`${address}agent.js`, preset] as const);
  await page.close();
  expect(timeless(inPage.metrics)).toEqual(timeless(metrics));
});

test("the page plays to the end", async () => {
  const problems: string[] = [];
  const page = await open(SETTINGS, problems);
  const ended = /^plain: step 5, solves [\d.]+ % · predictor: step 5, solves [\d.]+ %$/;
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

test("a chapter of the book runs in its page, and an exercise is checked", { timeout: 120_000 }, async () => {
  const folder = mkdtempSync(join(tmpdir(), "worldgrad-firefox-"));
  // Chapter 0 uses nothing of the library. Without the reference there are no names to link to.
  await makeBook(join(folder, "book"), { ofFile: () => undefined, ofName: () => undefined }, new Map(), ["00-micro"]);
  const { server, address: book } = await serveFolder(folder, 0);
  const problems: string[] = [];
  const page = await open("book/00-micro.html", problems, book);
  const textOf = (selector: string): Promise<string> => page.$eval(selector, ({ textContent }) => textContent);
  const press = (host: string, name: string): Promise<void> =>
    page.$$eval(`${host} button`, (all, text) => all.find((own) => own.textContent === text)!.click(), name);
  const ended = async (host: string): Promise<string> => {
    await expect.poll(() => textOf(`${host} .status`), { timeout: 50_000 }).toMatch(/^(?!Running)./);
    return textOf(`${host} .status`);
  };
  const last = `.cell[data-cell="${(await page.$$(".cell")).length - 1}"]`;
  await press(last, "Edit");
  await page.$eval(`${last} textarea`, (area) => (area.value = area.value.replace("run()", "run(0, 2)")));
  await press(last, "Run");
  expect(await ended(last)).toContain("the code was edited, the output is another");
  expect(compare(await textOf(`${last} .output pre`), runInNode(0, 2).join("\n"))).not.toBe("other");
  await press(".exercise", "Check"); // the first, as it stands there
  expect(await ended(".exercise")).toBe("Not yet.");
  expect(await textOf(".exercise .problem")).toContain("for the scores 0, 1000: expected");
  expect(problems).toEqual([]);
  await page.close();
  server.close();
  rmSync(folder, { recursive: true, force: true });
});
