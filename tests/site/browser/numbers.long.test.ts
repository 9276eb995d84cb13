/**
 * The numbers of the live page in a real Chromium. Its buttons go back and come again to the same, number by number. On
 * WebGPU, by a software adapter, an agent has the numbers of Node up to rounding. numbers.test.ts has single agents on
 * WebAssembly.
 */
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { launchChromium } from "../../support/browser.ts";
import { playedInNode, playInWorker, timeless } from "../../support/liveAgent.ts";
import { button, openLive, PATIENCE, restingMetrics, untilStep } from "../../support/livePage.ts";
import { serveSite } from "../../support/sitePages.ts";

/** A few seconds; without a warm start beside the page, so that the first agent makes it for both. */
const SETTINGS = "?quick=true&seed=3&steps=5";
/** As little as there can be: on a processor that plays the GPU, kernels take their time to compile. */
const LEAST = "?quick=true&seed=3&steps=2&set=rl.groups%3D2&set=rl.groupSize%3D2&set=sft.steps%3D2&set=sft.warmup%3D1";
let close: () => void;
let address: string;
let browser: Browser;
let withGpu: Browser;

beforeAll(async () => {
  ({ address, close } = await serveSite());
  browser = await launchChromium();
  withGpu = await launchChromium(["--enable-unsafe-webgpu", "--enable-unsafe-swiftshader"]);
}, PATIENCE);
afterAll(async () => {
  await browser.close();
  await withGpu.close();
  close();
});

const WHAT = "is played again after going back is the same, number by number";

test(`the page's own buttons: what ${WHAT}`, { timeout: PATIENCE }, async () => {
  const { page, problems } = await openLive(browser, address + SETTINGS);
  await untilStep(page, 5);
  const end = await restingMetrics(page);
  const { metrics } = await playedInNode(SETTINGS); // of the second agent
  expect(end).toHaveLength(2);
  expect(end[1]).toEqual(timeless(metrics));
  /** All lines until the end of this step are those of the first time. */
  const expectSameUntil = async (step: number): Promise<void> => {
    await untilStep(page, step);
    for (const [i, lines] of (await restingMetrics(page)).entries()) {
      const first = end[i]!;
      const last = first.filter(({ phase }) => phase === "rl")[step - 1]!;
      const count = first.indexOf(last) + 1;
      expect(count, `lines of agent ${i} until step ${step}`).toBeGreaterThan(step);
      expect(lines.slice(0, count)).toEqual(first.slice(0, count));
    }
  };

  await page.locator("#controls input[type=range]").fill("2"); // between two checkpoints
  await expectSameUntil(2);
  await button(page, "One step").click();
  await expectSameUntil(3);
  await button(page, "Reset").click();
  await untilStep(page, 0);
  await button(page, "Play").click();
  await untilStep(page, 5);
  expect(await restingMetrics(page)).toEqual(end);
  expect(problems).toEqual([]);
  await page.close();
});

test("on WebGPU an agent in a worker has the metrics of Node up to rounding", { timeout: PATIENCE }, async () => {
  const { preset, metrics } = await playedInNode(LEAST);
  const { page, problems } = await openLive(withGpu, `${address}?env=nowhere`);
  const inPage = await page.evaluate(playInWorker, [`${address}agent.js`, preset, "webgpu"] as const);
  await page.close();
  expect(inPage.executor).toMatch(/^webgpu/);
  const [ours, wanted] = [inPage.metrics, metrics].map(timeless);
  expect(ours!.map((line) => Object.keys(line))).toEqual(wanted!.map((line) => Object.keys(line)));
  const far: string[] = [];
  wanted!.forEach((line, i) => {
    for (const [name, value] of Object.entries(line)) {
      const own = ours![i]![name];
      if (typeof value !== "number" || typeof own !== "number") expect(own).toEqual(value);
      else if (!(Math.abs(own - value) <= 1e-4 * Math.max(1, Math.abs(value))) && !Object.is(own, value))
        far.push(`line ${i}, ${name}: ${own}, in Node ${value}`);
    }
  });
  expect(far).toEqual([]);
  expect(problems).toEqual([]);
});

test(`on WebGPU what ${WHAT}`, { timeout: PATIENCE }, async () => {
  const { page, problems } = await openLive(withGpu, `${address}${LEAST}&device=webgpu`);
  await untilStep(page, 2);
  expect(await page.locator("#machine").innerText()).toMatch(/^webgpu.* · [\d,]+ tokens per second, both agents/);
  const end = await restingMetrics(page);
  await button(page, "Reset").click();
  await untilStep(page, 0);
  await button(page, "Play").click();
  await untilStep(page, 2);
  expect(await restingMetrics(page)).toEqual(end);
  expect(problems).toEqual([]);
  await page.close();
});
