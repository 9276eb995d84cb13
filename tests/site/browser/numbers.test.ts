/**
 * The numbers of the live page in a real Chromium: those of Node, bit for bit, whether memory can be shared or not, on
 * one thread or several. numbers.long.test.ts has the whole page, and WebGPU.
 */
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { MetricsRecord } from "../../../run/records.ts";
import type { Preset } from "../../../run/preset.ts";
import { launchChromium } from "../../support/browser.ts";
import { playedInNode, playInWorker, timeless } from "../../support/liveAgent.ts";
import { openLive, PATIENCE } from "../../support/livePage.ts";
import { type Served, serveSite } from "../../support/sitePages.ts";

/** A few seconds; without a warm start beside the page, so that the first agent makes it for both. */
const SETTINGS = "?quick=true&seed=3&steps=5";
/** An address under which nothing is trained. */
const IDLE = "?env=nowhere";
let isolated: Served;
let plain: Served;
let browser: Browser;
let inNode: { readonly preset: Preset; readonly metrics: readonly MetricsRecord[] };

beforeAll(async () => {
  [isolated, plain] = [await serveSite(), await serveSite(false)];
  browser = await launchChromium();
  inNode = await playedInNode(SETTINGS);
}, PATIENCE);
afterAll(async () => {
  await browser.close();
  isolated.close();
  plain.close();
});

test.each([
  ["isolated, with one thread", true, 2, /^wasm \(SIMD, 1 thread\b/],
  ["isolated, with three threads", true, 6, /^wasm \(SIMD, 3 threads\b/],
  ["where memory cannot be shared, whatever processors there are", false, 6, /^wasm \(SIMD, 1 thread\b/],
])("an agent in a worker has the metrics of Node: %s", { timeout: PATIENCE }, async (_, isIsolated, processors, on) => {
  const { address } = isIsolated ? isolated : plain;
  const { page } = await openLive(browser, address + IDLE);
  // An agent takes half of the processors that its browser tells it of.
  await page.route("**/agent.js", async (route) => {
    const response = await route.fetch();
    const before = `Object.defineProperty(navigator, "hardwareConcurrency", { value: ${processors} });\n`;
    await route.fulfill({ response, body: before + (await response.text()) });
  });
  expect(await page.evaluate(() => crossOriginIsolated)).toBe(isIsolated);
  const { executor, metrics } = await page.evaluate(playInWorker, [`${address}agent.js`, inNode.preset] as const);
  await page.close();
  expect(executor).toMatch(on);
  expect(timeless(metrics)).toEqual(timeless(inNode.metrics));
});
