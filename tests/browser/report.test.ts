/**
 * The report page in a real browser, opened from the disk: it draws, explains a token on hover, and asks the network
 * for nothing.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { bundlePage } from "../../run/page/assets.ts";
import type { MetricsRecord, Transcript } from "../../run/records.ts";
import { renderReport } from "../../run/report/render.ts";
import { launchChromium, openPage } from "../support/browser.ts";

/** Not in the catalogue, and wider than a phone. */
const LONG = "sampling/importance_sampling_ratio/of_a_very_long_name";
/** 20 warm-start steps, the evaluation of the warm start, 40 RL steps. */
const metrics: MetricsRecord[] = [
  ...Array.from({ length: 20 }, (_, i): MetricsRecord => ({ step: i, phase: "sft", loss: 4 / (i + 1), grad_norm: 1 })),
  { step: 20, phase: "eval", success: 0.25, episodes: 40 },
  ...Array.from({ length: 40 }, (_, i): MetricsRecord => {
    return { step: 20 + i, phase: "rl", reward: i / 60, reward_std: 0.2, policy_loss: NaN, grad_norm: 2, [LONG]: 1 };
  }),
  { step: 60, phase: "eval", success: 0.5, episodes: 40 },
];

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
const opened: { page: Page; address: string; problems: string[]; requests: Set<string> }[] = [];

beforeAll(async () => {
  browser = await launchChromium();
  folder = mkdtempSync(join(tmpdir(), "worldgrad-report-"));
  const path = join(folder, "report.html");
  const transcripts = Array.from({ length: 400 }, (_, i) => transcript(i));
  writeFileSync(path, renderReport({ name: "demo", config: {}, metrics, transcripts }, await bundlePage("report")));
  url = pathToFileURL(path).href;
}, 60_000);

afterAll(async () => {
  await browser?.close();
  if (folder) rmSync(folder, { recursive: true });
});

async function visit(width: number, colorScheme: "light" | "dark", address: string = url): Promise<Page> {
  const watched = { address, problems: [] as string[], requests: new Set<string>() };
  const page = await openPage(browser, address, { width, colorScheme }, watched);
  opened.push({ page, ...watched });
  return page;
}

/** Titles of the charts that are to be seen. */
const visibleTitles = (page: Page): Promise<string[]> => page.locator(".card:visible h3").allTextContents();

/** A line of the legend of a chart: what it reads out at the cursor, or without one. */
const readOut = (page: Page, chart: string, line: string): Promise<string> =>
  page
    .locator(".card", { has: page.getByRole("heading", { name: chart, exact: true }) })
    .locator(".u-legend tr", { hasText: line })
    .locator(".u-value")
    .innerText();

describe("the report in Chromium", () => {
  test("draws charts and explains a token on hover and by keyboard", async () => {
    const page = await visit(1280, "light");
    expect(await visibleTitles(page)).toEqual(["Success", "Reward", "Gradient norm", LONG]);
    const tip = page.locator(".tip");
    expect(await tip.isVisible()).toBe(false);
    await page.locator(".token.action").hover();
    await tip.waitFor({ state: "visible" }); // the page hears of the pointer a moment later
    const text = (await tip.innerText()).replace(/\s+/g, " ");
    expect(text).toContain(
      '" ls" token 1, id 6 role action, turn 1 log p −0.5000 (p 0.6065) old log p −0.7500 ratio 1.284025',
    );
    expect(text).toContain("advantage +1.500 policy weight 0.1000 world weight 0 (masked) surprise 0.5000 nats");
    await page.locator(".tokens").focus();
    await page.keyboard.press("ArrowRight");
    expect(await tip.innerText()).toContain("observation, turn 1");
    await page.keyboard.press("Escape");
    await tip.waitFor({ state: "hidden" });
  });

  test("hovering a chart reads out the step in all of them", async () => {
    const page = await visit(1280, "light");
    const charts = page.locator(".uplot");
    await charts.nth(1).scrollIntoViewIfNeeded();
    await charts
      .nth(1)
      .locator(".u-over")
      .hover({ position: { x: 200, y: 40 } });
    expect(await readOut(page, "Reward", "step")).toMatch(/^\d+$/);
    expect(await readOut(page, "Success", "step")).toBe(await readOut(page, "Reward", "step"));
  });

  test("a switch sets the steps of all charts, by keyboard too; RL comes first, the cursor stays common", async () => {
    const page = await visit(1280, "light");
    const steps = async (): Promise<string[]> => {
      const titles = await visibleTitles(page);
      return [...new Set(await Promise.all(titles.map((title) => readOut(page, title, "step"))))];
    };
    const radio = (name: string): ReturnType<Page["getByRole"]> => page.getByRole("radio", { name, exact: true });
    expect(await radio("RL").isChecked()).toBe(true);
    expect(await steps()).toEqual(["20–60"]);
    expect(await readOut(page, "Success", "held-out")).toBe("50.0 %");
    expect(await readOut(page, "Success", "warm start")).toBe("25.0 %");
    expect(await page.getByText("Nothing to draw").innerText()).toContain("Loss");

    await radio("RL").focus();
    await page.keyboard.press("ArrowLeft");
    expect(await radio("warm start").isChecked()).toBe(true);
    expect(await steps()).toEqual(["0–20"]);
    expect(await visibleTitles(page)).toEqual(["Success", "Loss", "Gradient norm"]);
    expect(await readOut(page, "Success", "held-out")).toBe("25.0 %");
    expect(await readOut(page, "Gradient norm", "before clipping")).toBe("1");

    await page.keyboard.press("ArrowLeft");
    expect(await steps()).toEqual(["0–60"]);
    expect(await visibleTitles(page)).toEqual(["Success", "Reward", "Loss", "Gradient norm", LONG]);
    const loss = page.locator(".card:visible").nth(2);
    await loss.locator(".u-over").hover({ position: { x: 5, y: 40 } });
    expect(Number((await steps())[0])).toBeLessThan(5);
    expect(await steps()).toHaveLength(1);

    // The chart's own keys stay inside what is shown.
    await radio("RL").check({ force: true });
    await page.mouse.move(0, 0);
    await page.locator(".plot:visible").first().focus();
    await page.keyboard.press("ArrowRight");
    expect(await steps()).toEqual(["20"]);

    await page.reload();
    await page.locator(".uplot").first().waitFor();
    expect(await radio("RL").isChecked()).toBe(true);
  });

  test("a run of one phase has no switch", async () => {
    const path = join(folder, "warm.html");
    const warm = metrics.filter(({ step }) => step < 20);
    writeFileSync(
      path,
      renderReport({ name: "warm", config: {}, metrics: warm, transcripts: [] }, await bundlePage("report")),
    );
    const page = await visit(1280, "light", pathToFileURL(path).href);
    expect(await page.getByRole("radio").count()).toBe(0);
    expect(await readOut(page, "Loss", "step")).toBe("0–19");
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
    for (const range of ["whole run", "warm start", "RL"]) {
      await page.getByRole("radio", { name: range, exact: true }).check({ force: true });
      expect(await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)).toBeLessThanOrEqual(0);
    }
    await page.locator(".token.action").hover();
    const box = await page.locator(".tip").boundingBox();
    expect(box?.x).toBeGreaterThanOrEqual(0);
    expect((box?.x ?? 0) + (box?.width ?? 999)).toBeLessThanOrEqual(360);
  });

  test("a page of 400 trajectories draws one in under 100 ms", async () => {
    const page = await visit(1280, "light");
    const ms = await page.evaluate(() => {
      const button = [...document.querySelectorAll("button")].find((node) => node.textContent?.includes("previous"));
      if (!button) throw new Error("no button: nothing would be drawn");
      // The best of several rounds: the mean is as slow as whatever else the machine does at that moment.
      const round = (): number => {
        const start = performance.now();
        for (let i = 0; i < 10; i++) {
          button.click();
          void document.body.offsetHeight;
        }
        return (performance.now() - start) / 10;
      };
      return Math.min(...Array.from({ length: 5 }, round));
    });
    expect(ms).toBeLessThan(100);
  });

  test("none of these pages complained, ran foreign text or asked for anything but itself", async () => {
    expect(opened.length).toBeGreaterThanOrEqual(5);
    for (const { page, address, problems, requests } of opened) {
      expect(problems).toEqual([]);
      expect([...requests]).toEqual([address]); // once per load
      expect(await page.evaluate(() => "hacked" in window)).toBe(false);
    }
  });
});
