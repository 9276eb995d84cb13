/**
 * An ablation's page in a real browser, opened from the disk: it holds the numbers, draws every method, and asks the
 * network for nothing.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { renderAblation } from "../../studies/ablate/render.ts";
import type { Point } from "../../studies/ablate/points.ts";
import { type CellResult, resultsOf } from "../../studies/ablate/results.ts";
import { bundlePage } from "../../run/page/assets.ts";
import { launchChromium, openPage } from "../support/browser.ts";

const ARMS = ["grpo", "grpo+echo", "rloo"];
/** Success rises from 0.4 by 0.01 (grpo), 0.02, 0.03 an evaluation; seeds lie 0.05 apart; commands become fewer. */
function cell(env: string, m: number, seed: number): CellResult {
  const points = [0, 10, 20, 30, 40].map((step, i): Point => ({
    step,
    envSteps: step * (400 - 50 * m),
    flops: step * 1e9,
    success: 0.4 + 0.05 * seed + 0.01 * (m + 1) * i,
    turns: 2,
    // One seed of one arm breaks in the middle: JSON has no NaN, and the page must draw the rest.
    worldLoss: env === "calculator" && m === 1 && seed === 0 && i > 2 ? NaN : 0.6 - 0.05 * m + 0.01 * seed,
    worldLossRandom: 0.9,
    worldLossOnPolicy: 0.3,
    worldLossExcess: undefined,
    reward: i === 0 ? null : 0.5,
    shown: { entropy: i === 0 ? null : 0.2 * (m + 1) },
    passAt: { 1: 0.4, 4: 0.5 + 0.1 * m },
  }));
  const rates = { read: { successes: 3, episodes: 4 }, count: { successes: m, episodes: 4 } };
  return { env, arm: ARMS[m]!, seed, warm: points[0]!, points, families: { before: rates, after: rates } };
}

/** What plays nothing: it has a place among RL steps, and none among environment steps. */
function lesson(env: string, seed: number): CellResult {
  const { points, ...rest } = cell(env, 0, seed);
  return {
    ...rest,
    arm: "expert",
    points: points.map((point) => ({ ...point, envSteps: 0, success: 0.9, reward: null })),
  };
}

let browser: Browser;
let folder = "";
let url = "";
const problems: string[] = [];
const requests = new Set<string>();

beforeAll(async () => {
  browser = await launchChromium();
  folder = mkdtempSync(join(tmpdir(), "worldgrad-ablation-"));
  const cells = ["terminal", "calculator"].flatMap((env) =>
    [0, 1, 2, 3, 4].flatMap((seed) => [...ARMS.map((_, m) => cell(env, m, seed)), lesson(env, seed)]),
  );
  const page = {
    name: "five </script> seeds",
    settings: { steps: 40 },
    results: resultsOf(cells, {
      arms: [...ARMS, "expert"],
      threshold: 0.6,
      trainingEpisodes: 192,
      heldOutEpisodes: 120,
      shown: ["entropy"],
      tuning: [],
      rewarded: () => ["read"],
    }),
    times: () => [90],
    planned: 41,
    linkOf: (env: string, arm: string, seed: number) => `${env}/${arm}/seed${seed}/report.html`,
  };
  writeFileSync(join(folder, "report.html"), renderAblation(page, await bundlePage("ablate")));
  url = pathToFileURL(join(folder, "report.html")).href;
}, 60_000);

afterAll(async () => {
  await browser?.close();
  if (folder) rmSync(folder, { recursive: true });
});

const visit = (width: number, colorScheme: "light" | "dark"): Promise<Page> =>
  openPage(browser, url, { width, colorScheme }, { problems, requests });

const rowOf = async (page: Page, caption: string, arm: string): Promise<string> => {
  const table = page.locator("table", { has: page.locator("caption", { hasText: caption }) }).first();
  const row = table.locator("tr", { has: page.getByRole("rowheader", { name: arm, exact: true }) });
  return (await row.innerText()).replace(/\s+/g, " ").trim();
};

test("holds the numbers: success, differences, environment steps, thresholds, losses, every cell", async () => {
  const page = await visit(1280, "light");
  expect(await page.locator("h1").innerText()).toBe("five </script> seeds");
  expect(await page.locator("main").innerText()).toContain("Not finished: 40 of 41 cells");
  // Ends: 0.44, 0.49, … 0.64 for grpo; 4 points more for each method after it.
  expect(await rowOf(page, "terminal: success on held-out", "grpo")).toMatch(
    /^grpo 54\.0 \[\d+\.\d, \d+\.\d\] 54\.0 \[.*\] 5 40$/,
  );
  expect(await rowOf(page, "terminal: success on held-out", "rloo")).toMatch(
    /62\.0 \[.*\] \+8\.0 \[\+8\.0, \+8\.0\] 62\.0 \[.*\] \+8\.0 \[\+8\.0, \+8\.0\] 5 of 5 5 40$/,
  );
  expect(await rowOf(page, "calculator: success on held-out", "warm start")).toMatch(/^warm start 50\.0 \[/);
  // The most sparing method took 12,000 commands in all.
  expect(await rowOf(page, "terminal: what it takes", "grpo")).toMatch(
    /^grpo 16k 4\.0e10 1:30 53\.0 \[.*\] 1 of 5 > 40 32 \[/,
  );
  expect(await rowOf(page, "terminal: what it takes", "rloo")).toMatch(
    /^rloo 12k 4\.0e10 1:30 62\.0 \[.*\] \+9\.0 \[\+9\.0, \+9\.0\] 3 of 5 40 /,
  );
  expect(await rowOf(page, "calculator: world-model loss", "grpo+echo")).toMatch(
    /^grpo\+echo no number no number 0\.900 \[.*\] 0\.300 \[.*\] 5$/,
  );
  expect(await rowOf(page, "terminal: world-model loss", "rloo")).toMatch(
    /−0\.100 \[−0\.100, −0\.100\] 5 of 5 0\.900 \[.*\] 0\.300 \[.*\] 5$/,
  );
  // grpo's best with seed 0 is (0.43 + 0.44) / 2, in the end; grpo+echo is there three quarters of the way from 3,500
  // to 7,000.
  expect(await rowOf(page, "until grpo's own best", "grpo+echo")).toMatch(
    /^grpo\+echo 6\.13k \[.*\] 0\.38 \[0\.38, 0\.38\] 5 of 5 53\.4 \[.*\] \+1\.9 /,
  );
  expect(await rowOf(page, "terminal: what it takes", "expert")).toMatch(/^expert none 4\.0e10 1:30 5 of 5 0 /);
  expect(await rowOf(page, "terminal: held-out tasks solved", "rloo")).toMatch(/^rloo 40\.0 \[.*\] 70\.0 \[/);
  expect(await rowOf(page, "terminal: success by family", "count")).toMatch(/^count never 0\.0 \[.*\] 50\.0 \[/);
  expect(await rowOf(page, "All 2 environments", "grpo+echo")).toMatch(
    /^grpo\+echo 58\.0 \[.*\] \+4\.0 \[\+4\.0, \+4\.0\]$/,
  );
  const link = page.getByRole("link", { name: "72.0 %" }).first();
  expect(await link.getAttribute("href")).toBe("terminal/rloo/seed4/report.html");
});

test("draws five charts for each environment; axes, bands and arms can be switched", async () => {
  const page = await visit(1280, "dark");
  expect(await page.locator(".uplot").count()).toBe(10);
  expect(await page.locator(".plot").first().getAttribute("aria-label")).toBe(
    "terminal: Success on held-out tasks. At the end: grpo 54.0 %; grpo+echo 58.0 %; rloo 62.0 %; expert 90.0 %",
  );
  const legend = async (): Promise<string> =>
    (await page.locator(".u-legend").first().innerText()).replace(/\s+/g, " ");
  expect(await legend()).toMatch(/RL steps.*grpo.*54\.0 % \[.*grpo\+echo.*58\.0 %.*rloo.*62\.0 %/);
  const ink = (): Promise<string> =>
    page
      .locator("canvas")
      .first()
      .evaluate((node) => (node as HTMLCanvasElement).toDataURL());
  const withBands = await ink();
  await page.getByRole("checkbox", { name: "bands" }).uncheck();
  const withoutBands = await ink();
  expect(withoutBands).not.toBe(withBands);
  await page.getByRole("checkbox", { name: "rloo" }).uncheck();
  expect(await legend()).not.toContain("rloo");
  await page.getByRole("radio", { name: "environment steps" }).check({ force: true });
  expect(await legend()).toContain("environment steps");
  expect(await legend()).not.toContain("expert"); // it plays nothing
  expect(await ink()).not.toBe(withoutBands);
  const canvas = page.locator(".u-over").first();
  await canvas.hover({ position: { x: 5, y: 40 } });
  expect(await legend()).toMatch(/grpo.*50\.0 % \[/); // where all begin
  // And without a mouse: from the end, where grpo took 16k, to the last evaluation of the other one.
  // It has to go, for the page scrolls to what has the focus, and what then lies under the mouse would be pointed at.
  await page.mouse.move(0, 0);
  const plot = page.locator(".plot").nth(5);
  await plot.focus();
  await page.keyboard.press("ArrowLeft");
  await page.keyboard.press("ArrowLeft");
  const steppedTo = (await page.locator(".u-legend").nth(5).innerText()).replace(/\s+/g, " ");
  expect(steppedTo).toMatch(/^environment steps ?14k ?grpo ?53\.0 % \[.*grpo\+echo ?58\.0 %/);
});

test("fits a phone; no page complained or asked for anything but itself", async () => {
  const page = await visit(360, "light");
  expect(await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)).toBeLessThanOrEqual(0);
  expect(problems).toEqual([]);
  expect([...requests]).toEqual([url]);
});
