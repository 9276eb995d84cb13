/** The report page in a real browser, opened from the disk: it draws, explains a token on hover, and asks the network for nothing. */
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { chromium, type Browser, type Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { bundlePage } from "../../cli/report/assets.ts";
import type { MetricsRecord, Transcript } from "../../cli/report/records.ts";
import { renderReport } from "../../cli/report/render.ts";

const CANDIDATES = [
  process.env["WORLDGRAD_CHROMIUM"],
  "/usr/bin/chromium",
  "/usr/bin/chromium-browser",
  "/usr/bin/google-chrome",
  "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
];

const metrics: MetricsRecord[] = Array.from({ length: 60 }, (_, i) =>
  i < 20
    ? { step: i + 1, phase: "sft", loss: 4 / (i + 1) }
    : { step: i + 1, phase: "rl", reward: i / 60, reward_std: 0.2, policy_loss: NaN },
);
metrics.push({ step: 60, phase: "eval", success: 0.5, episodes: 40 });

const transcript = (i: number): Transcript => ({
  step: 20 + i,
  phase: "rl",
  env: "terminal",
  family: i % 2 ? "find-file" : "count-lines",
  task: "t",
  group: 0,
  reward: 1,
  success: i % 3 === 0,
  stopReason: "completed",
  turns: 1,
  tokens: [
    { id: 5, text: "Do it\n", role: "prompt", turn: 0 },
    {
      id: 6,
      text: " ls",
      role: "action",
      turn: 1,
      logProb: -0.5,
      oldLogProb: -0.75,
      advantage: 1.5,
      wPolicy: 0.1,
      surprise: 0.5,
    },
    {
      id: 7,
      text: "</script><img src=x onerror=window.hacked=1>\n",
      role: "observation",
      turn: 1,
      surprise: 3.25,
      wWorld: 0.05,
    },
    // As long as a real episode, so that the time to draw one is real.
    ...Array.from({ length: 300 }, (_, t) => ({
      id: t,
      text: t % 9 ? " word" : "\n",
      role: "observation" as const,
      turn: 1,
      surprise: 1,
    })),
  ],
});

let browser: Browser;
let folder = "";
let url = "";
const opened: { page: Page; problems: string[]; requests: string[] }[] = [];

beforeAll(async () => {
  const executablePath = CANDIDATES.find((path) => path !== undefined && existsSync(path));
  if (executablePath === undefined) throw new Error("no Chromium found: set WORLDGRAD_CHROMIUM to one");
  browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
  folder = mkdtempSync(join(tmpdir(), "worldgrad-report-"));
  const path = join(folder, "report.html");
  const transcripts = Array.from({ length: 400 }, (_, i) => transcript(i));
  writeFileSync(path, renderReport({ name: "demo", config: {}, metrics, transcripts }, await bundlePage()));
  url = pathToFileURL(path).href;
}, 60_000);

afterAll(async () => {
  await browser?.close();
  if (folder) rmSync(folder, { recursive: true });
});

async function visit(width: number, colorScheme: "light" | "dark"): Promise<Page> {
  const page = await browser.newPage({ viewport: { width, height: 800 }, colorScheme });
  const watched = { page, problems: [] as string[], requests: [] as string[] };
  opened.push(watched);
  page.on("console", (message) => watched.problems.push(message.text()));
  page.on("pageerror", (error) => watched.problems.push(error.message));
  page.on("request", (request) => watched.requests.push(request.url()));
  await page.goto(url);
  await page.locator(".uplot").first().waitFor();
  return page;
}

describe("the report in Chromium", () => {
  test("draws charts and explains a token on hover and by keyboard", async () => {
    const page = await visit(1280, "light");
    expect(await page.locator(".card h3").allTextContents()).toEqual(["Success", "Reward", "Loss"]);
    const tip = page.locator(".tip");
    expect(await tip.isVisible()).toBe(false);
    await page.locator(".token.action").hover();
    expect(await tip.isVisible()).toBe(true);
    const text = (await tip.innerText()).replace(/\s+/g, " ");
    expect(text).toContain(
      '" ls" token 1, id 6 role action, turn 1 log p −0.5000 (p 0.6065) old log p −0.7500 ratio 1.284025',
    );
    expect(text).toContain("advantage +1.500 policy weight 0.1000 world weight 0 (masked) surprise 0.5000 nats");
    await page.locator(".tokens").focus();
    await page.keyboard.press("ArrowRight");
    expect(await tip.innerText()).toContain("observation, turn 1");
    await page.keyboard.press("Escape");
    expect(await tip.isVisible()).toBe(false);
  });

  test("hovering a chart reads out the step in all of them", async () => {
    const page = await visit(1280, "light");
    const charts = page.locator(".uplot");
    await charts.nth(1).scrollIntoViewIfNeeded();
    await charts
      .nth(1)
      .locator(".u-over")
      .hover({ position: { x: 200, y: 40 } });
    const readOut = (i: number): Promise<string> =>
      charts.nth(i).locator(".u-legend tr").first().locator(".u-value").innerText();
    expect(await readOut(1)).toMatch(/^\d+$/);
    expect(await readOut(2)).toBe(await readOut(1));
  });

  test("filters and colour modes change what is shown", async () => {
    const page = await visit(1280, "dark");
    await page.getByLabel("outcome").selectOption("yes");
    await page.getByLabel("family").selectOption("find-file");
    expect(await page.locator("#viewer .controls .muted").innerText()).toMatch(/^\d+ of 67$/);
    const background = (): Promise<string> =>
      page
        .locator(".token.observation")
        .first()
        .evaluate((node) => getComputedStyle(node).backgroundColor);
    const seen = new Set([await background()]);
    for (const mode of ["mask", "advantage", "surprise"]) {
      await page.getByRole("radio", { name: mode }).check({ force: true });
      seen.add(await background());
    }
    expect(seen.size).toBe(4);
  });

  test("fits a phone", async () => {
    const page = await visit(360, "dark");
    expect(await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)).toBeLessThanOrEqual(0);
    await page.locator(".token.action").hover();
    const box = await page.locator(".tip").boundingBox();
    expect(box?.x).toBeGreaterThanOrEqual(0);
    expect((box?.x ?? 0) + (box?.width ?? 999)).toBeLessThanOrEqual(360);
  });

  test("a page of 400 trajectories draws one in under 100 ms", async () => {
    const page = await visit(1280, "light");
    const ms = await page.evaluate(() => {
      const button = [...document.querySelectorAll("button")].find((node) => node.textContent?.includes("previous"));
      const start = performance.now();
      for (let i = 0; i < 10; i++) {
        button?.click();
        void document.body.offsetHeight;
      }
      return (performance.now() - start) / 10;
    });
    expect(ms).toBeLessThan(100);
  });

  test("none of these pages complained, ran foreign text or asked for anything but itself", async () => {
    expect(opened.length).toBeGreaterThanOrEqual(5);
    for (const { page, problems, requests } of opened) {
      expect(problems).toEqual([]);
      expect(requests).toEqual([url]);
      expect(await page.evaluate(() => "hacked" in window)).toBe(false);
    }
  });
});
