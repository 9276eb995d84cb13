/** The live page for people: its form and address, what leaves it, axe-core's rules, narrow windows, layout shift. */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Browser, BrowserContextOptions, Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { experimentOf } from "../../../site/experiment.ts";
import { programOf } from "../../../site/exportProgram.ts";
import { BROKEN, WORKING } from "../../../site/presets.ts";
import { launchChromium } from "../../support/browser.ts";
import { serveSite, violations } from "../../support/sitePages.ts";

/** Nothing is trained under this address, which names no world. */
const IDLE = "?env=nowhere";
const SHORT = "?quick=true&seed=3&steps=2&set=rl.groups%3D2";
const folder = mkdtempSync(join(tmpdir(), "worldgrad-controls-"));
let close: () => void;
let address: string;
let browser: Browser;

beforeAll(async () => {
  ({ address, close } = await serveSite());
  browser = await launchChromium();
}, 120_000);
afterAll(async () => {
  await browser.close();
  close();
  rmSync(folder, { recursive: true, force: true });
});

async function open(settings: string, options: BrowserContextOptions = {}): Promise<Page> {
  const page = await browser.newPage({ viewport: { width: 1400, height: 900 }, ...options });
  await page.goto(address + settings);
  return page;
}
const button = (page: Page, name: string): ReturnType<Page["locator"]> =>
  page.getByRole("button", { name, exact: true });
async function toTheEnd(page: Page): Promise<void> {
  await expect.poll(() => page.locator("#status").innerText(), { timeout: 200_000 }).toMatch(/step 2.*step 2/);
}

test("a wrong value is one line by its field; Apply writes the address, and back goes back", async () => {
  const page = await open(IDLE);
  // What reads an address with words is loaded first.
  const status = page.locator("#status");
  await expect.poll(() => status.innerText(), { timeout: 20_000 }).toContain('unknown name "nowhere"');
  await page.locator("#form summary").click();
  await page.getByLabel("group size").fill("0");
  await page.getByLabel("method").first().fill("grpo");
  await page.getByLabel("method").last().fill("grpo+echo");
  await button(page, "Apply").click();
  const wrong = page.locator("#all-rl-groupSize-wrong");
  expect(await wrong.innerText()).toBe("--set rl.groupSize must be an integer ≥ 1, got 0");
  expect(new URL(page.url()).search).toBe(IDLE);
  await page.getByLabel("group size").fill("4");
  await page.getByLabel("RL steps").fill("2");
  await page.getByLabel("tasks in a step").fill("2");
  await page.locator("#all-more").fill("quick");
  await page.locator("#agent-2-lambda").fill("0.2");
  await page.keyboard.press("Enter"); // as Apply
  const words = experimentOf(new URL(page.url()).searchParams).words;
  expect(words).toEqual({
    shared: { steps: "2", quick: undefined, "rl.groupSize": "4", "rl.groups": "2" },
    agents: [
      { name: undefined, method: "grpo", settings: {} },
      { name: undefined, method: "grpo+echo", settings: { lambda: "0.2" } },
    ],
  });
  await page.goBack();
  expect(new URL(page.url()).search).toBe(IDLE);
  await expect.poll(() => status.innerText(), { timeout: 20_000 }).toContain('unknown name "nowhere"');
  await page.goForward();
  await expect.poll(() => page.getByLabel("group size").inputValue()).toBe("4");
  await page.close();
});

test("a run leaves the page as a program and as a report; nothing shifts; axe finds nothing", async () => {
  const page = await open(SHORT, { acceptDownloads: true });
  const shift = await page.evaluate(() => {
    const seen = { total: 0 };
    new PerformanceObserver((list) => {
      for (const entry of list.getEntries()) {
        const { value, hadRecentInput } = entry as unknown as { value: number; hadRecentInput: boolean };
        if (!hadRecentInput) seen.total += value;
      }
    }).observe({ type: "layout-shift", buffered: true });
    (globalThis as unknown as { shift: typeof seen }).shift = seen;
    return seen.total;
  });
  await toTheEnd(page);
  await page.locator(".diagnosis h3").first().waitFor();
  const shifted = await page.evaluate(() => (globalThis as unknown as { shift: { total: number } }).shift.total);
  console.info(`cumulative layout shift: ${(shift + shifted).toFixed(4)}`);
  expect(shift + shifted).toBeLessThan(0.02);

  const [program] = await Promise.all([page.waitForEvent("download"), button(page, "Export as TypeScript").click()]);
  expect(program.suggestedFilename()).toBe("experiment.ts");
  expect(readFileSync(await program.path(), "utf8")).toBe(programOf(experimentOf(new URLSearchParams(SHORT))));

  const [report] = await Promise.all([page.waitForEvent("download"), button(page, "Save report").click()]);
  const path = join(folder, "report.html");
  await report.saveAs(path);
  const saved = await browser.newPage();
  const problems: string[] = [];
  saved.on("console", (message) => problems.push(message.text()));
  saved.on("pageerror", (error) => problems.push(error.message));
  await saved.goto(`file://${path}`);
  await saved.locator(".uplot").first().waitFor();
  expect(await saved.locator("h1").innerText()).toBe("2 agents in home: home-seed3");
  expect(await saved.locator("#result ~ p").first().innerText()).toMatch(
    /16 episodes took plain to .* and predictor to /,
  );
  expect(problems).toEqual([]);
  await saved.close();

  await page.locator("#form summary").click();
  expect(await violations(page)).toEqual([]);
  await page.emulateMedia({ colorScheme: "dark" });
  expect(await violations(page)).toEqual([]);
  await page.setViewportSize({ width: 375, height: 800 });
  // Charts take their new width from a ResizeObserver, so a frame later.
  await expect.poll(() => page.evaluate(() => document.documentElement.scrollWidth)).toBe(375);
  expect(await violations(page)).toEqual([]);

  // Nothing on it moves by itself for somebody who wants no motion.
  await page.emulateMedia({ reducedMotion: "reduce" });
  const moving = await page.evaluate(() =>
    [...document.querySelectorAll("*")]
      .filter((own) => {
        const { transitionDuration, animationName, scrollBehavior } = getComputedStyle(own);
        return /[1-9]/.test(transitionDuration) || animationName !== "none" || scrollBehavior !== "auto";
      })
      .map((own) => own.outerHTML.slice(0, 80)),
  );
  expect(moving).toEqual([]);
  await page.close();
});

test.each([667, 812])(
  "on a phone, 375 × %d, both agents are on the first screen, beside each other",
  async (height) => {
    const page = await open(SHORT, { viewport: { width: 375, height }, reducedMotion: "reduce" });
    await page.locator(".way h3").nth(1).waitFor({ timeout: 60_000 });
    const { ways, bar } = await page.evaluate(() => {
      const box = (own: Element): { left: number; right: number; top: number; bottom: number } =>
        own.getBoundingClientRect().toJSON() as { left: number; right: number; top: number; bottom: number };
      // Who it is, and the command that it has typed.
      const ways = [...document.querySelectorAll(".way")].map((way) =>
        [...way.querySelectorAll("h3, dd.typed")].map(box),
      );
      return {
        ways: ways.map(([name, typed]) => ({ name: name!, typed: typed! })),
        bar: box(document.querySelector("#controls")!),
      };
    });
    expect(bar.bottom).toBeLessThanOrEqual(height);
    for (const { name, typed } of ways) {
      expect(name.top).toBeGreaterThanOrEqual(0);
      expect(typed.top).toBeGreaterThanOrEqual(name.bottom);
      expect(typed.bottom).toBeLessThanOrEqual(bar.top); // the buttons cover what is below
    }
    expect(ways[1]!.name.top).toBe(ways[0]!.name.top);
    expect(ways[1]!.name.left).toBeGreaterThan(ways[0]!.name.right);
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(375);
    await page.close();
  },
);

test("what is not needed at once is closed, and a page without it is less than two screens", async () => {
  const page = await open(IDLE);
  await expect.poll(() => page.locator("#status").innerText(), { timeout: 20_000 }).toContain("nowhere");
  expect(await page.locator("main details").evaluateAll((all) => all.map((own) => own.hasAttribute("open")))).toEqual(
    Array(4).fill(false),
  );
  expect(await page.evaluate(() => document.documentElement.scrollHeight)).toBeLessThan(1800);
  expect(await page.locator("#working a").first().isVisible()).toBe(false);
  await page.getByText("Experiments that work", { exact: true }).click();
  expect(await page.locator("#working a").first().isVisible()).toBe(true);
  await page.close();
});

test("says what it is without JavaScript, and what is missing without workers", async () => {
  const still = await open("", { javaScriptEnabled: false });
  expect(await still.locator("h1").innerText()).toBe("Is it worth predicting the world?");
  expect(await still.locator("#status").innerText()).toBe("The page needs JavaScript, to compute.");
  await still.close();
  const page = await browser.newPage();
  await page.goto(`${address}${SHORT}&device=webgpu`);
  await expect
    .poll(() => page.locator("#status").innerText(), { timeout: 60_000 })
    .toMatch(/^This browser has (no WebGPU|WebGPU, but no GPU for it)/);
  expect(await page.locator(".presets li").count()).toBe(WORKING.length + BROKEN.length);
  await page.close();
});

test("where memory cannot be shared each agent has one thread, and says why", async () => {
  const plain = await serveSite(false);
  const page = await browser.newPage();
  await page.goto(`${plain.address}${SHORT}`);
  await toTheEnd(page);
  expect(await page.evaluate(() => crossOriginIsolated)).toBe(false);
  expect(await page.locator("#machine").innerText()).toMatch(
    /^wasm \(SIMD, 1 thread.*\) · [\d,]+ tokens per second, both agents together · Each agent has one thread, because/,
  );
  await page.close();
  plain.close();
});
