/**
 * The experiments of the live page in Chromium. Those that break are played to their ends: the doctor names the disease
 * of the first agent, and not in its healthy twin. Those that work are played for two steps after a short warm start.
 */
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { experimentOf } from "../../../site/experiment.ts";
import { BROKEN, WORKING } from "../../../site/presets.ts";
import { launchChromium } from "../../support/browser.ts";
import { openLive, PATIENCE, restingMetrics, statusOf, untilStep } from "../../support/livePage.ts";
import { serveSiteWithWarmStart } from "../../support/sitePages.ts";

let close: () => void;
let address: string;
let browser: Browser;

beforeAll(async () => {
  ({ address, close } = await serveSiteWithWarmStart(experimentOf(new URLSearchParams()).warm));
  browser = await launchChromium();
}, PATIENCE);
afterAll(async () => {
  await browser.close();
  close();
});

test.each(BROKEN)(
  "$title: the doctor names $disease, and not for the healthy twin",
  { timeout: PATIENCE },
  async (own) => {
    const { page, problems } = await openLive(browser, `${address}?env=nowhere`); // under which nothing is trained
    await page.getByText(/^Experiments that break/).click();
    await page.getByRole("link", { name: own.title, exact: true }).click();
    const { steps } = experimentOf(new URL(page.url()).searchParams).agents[0]!.preset.rl;
    const ended = new RegExp(`: step ${steps}, solves .*: step ${steps}, solves `);
    await expect.poll(() => statusOf(page), { timeout: PATIENCE }).toMatch(ended);
    const [sick, healthy] = [page.locator(".diagnosis").nth(0), page.locator(".diagnosis").nth(1)];
    // The cause comes first, and its consequences behind it.
    await expect.poll(() => sick.locator("details").first().getAttribute("data-mode")).toBe(own.disease);
    expect(await healthy.innerText()).toContain("Nothing found.");
    // The twin has visibly learnt: it comes from 1 %.
    const solved = [...(await statusOf(page)).matchAll(/solves (\d+)/g)].map(([, percent]) => Number(percent));
    expect(solved[1]).toBeGreaterThan(10);
    expect(problems).toEqual([]);
    await page.close();
  },
);

/** What is cut from an experiment that works: its warm start, its steps, and how many episodes an evaluation has. */
const CUT = ["sft.steps=8", "sft.warmup=2", "sft.demonstrations=128", "evaluation.episodes=15"];
const LAST = "evaluation.finalEpisodes=15";

test.each(WORKING)(
  "$title: two steps, with numbers all of which are finite",
  { timeout: PATIENCE },
  async ({ address: words, title }) => {
    const cut = new URLSearchParams(words);
    cut.set("steps", "2");
    for (const setting of [...CUT, LAST]) cut.append("set", setting);
    const { page, problems } = await openLive(browser, `${address}?${cut.toString()}`);
    await untilStep(page, 2);
    const { agents } = experimentOf(cut);
    const all = await restingMetrics(page);
    expect(all).toHaveLength(agents.length);
    for (const [i, lines] of all.entries()) {
      expect(lines.filter(({ phase }) => phase === "rl")).toHaveLength(2);
      for (const line of lines)
        for (const [name, value] of Object.entries(line))
          if (typeof value === "number") expect(value, `${title}, agent ${i}: ${name}`).toSatisfy(Number.isFinite);
    }
    expect(problems).toEqual([]);
    await page.close();
  },
);
