/** The live page in a real Chromium: its buttons do what they say. numbers.test.ts compares its numbers with Node's. */
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { launchChromium } from "../../support/browser.ts";
import { openLive } from "../../support/livePage.ts";
import { serveSite } from "../../support/sitePages.ts";

/** A few seconds; without a warm start beside the page, so that the first agent makes it for both. */
const SETTINGS = "?quick=true&seed=3&steps=5";
/** For one step on a busy machine. */
const PATIENCE = { timeout: 30_000 };
let close: () => void;
let address: string;
let browser: Browser;

beforeAll(async () => {
  ({ address, close } = await serveSite());
  browser = await launchChromium();
}, 60_000);
afterAll(async () => {
  await browser.close();
  close();
});

test("plays to the end, goes back and comes again to the same; a wrong address is one line", async () => {
  const { page, problems } = await openLive(browser, address + SETTINGS);
  const status = page.locator("#status");
  const ended = /^plain: step 5, solves [\d.]+ % · predictor: step 5, solves [\d.]+ %$/;
  const button = (name: string): ReturnType<Page["locator"]> => page.getByRole("button", { name, exact: true });
  await expect.poll(() => status.innerText(), { timeout: 50_000 }).toMatch(ended);
  await expect.poll(() => button("Play").isDisabled()).toBe(true);
  const end = await status.innerText();
  await expect
    .poll(() => page.locator(".way h3").allInnerTexts(), PATIENCE)
    .toEqual([
      expect.stringMatching(/^plain \(rewards alone\) (✔ solved|✘ failed)$/),
      expect.stringMatching(/^predictor \(rewards and answers\) (✔ solved|✘ failed)$/),
    ]);
  await expect.poll(() => page.locator("#ways .task").innerText(), PATIENCE).toMatch(/ after 5 steps$/);
  // What both know, a summary, and a try of the visitor's own, in the same world.
  await expect
    .poll(() => page.locator(".fact-map").getAttribute("aria-label"), PATIENCE)
    .toMatch(/^Facts of the world: plain knows \d+ of 50; predictor knows \d+ of 50$/);
  const facts = page.locator(".fact-groups .fact");
  expect(await facts.count()).toBe(50);
  // One of them is spelt out, and so is whatever one points at.
  const spelt = page.locator(".fact-example");
  expect(await spelt.innerText()).toMatch(/^\w+\.\w+ is in \w+:\s+plain \d+\s% sure, predictor \d+\s% sure$/);
  await facts.last().hover();
  expect(await spelt.innerText()).toMatch(/^\.\w+ opens with \w+:\s+plain /);
  expect(await page.locator(".ending").innerText()).toMatch(/^The end\. plain solves \d+ %, predictor solves \d+ %/);
  await page.getByLabel("your command").fill("ls");
  await button("Type it").click();
  await expect.poll(() => page.locator(".yours dd").allInnerTexts()).toEqual(["ls", "ls: Permission denied"]);
  for (let i = 0; i < 2; i++) {
    await button("Show me how").click();
    await button("Type it").click();
  }
  await expect.poll(() => page.locator(".yours").innerText()).toContain("You have solved 1 of 1.");
  await button("Reset").click();
  await expect.poll(() => status.innerText(), PATIENCE).toMatch(/^plain: step 0, .*predictor: step 0, /);
  await expect.poll(() => button("One step").isEnabled(), PATIENCE).toBe(true);
  await button("One step").click();
  await expect.poll(() => status.innerText(), PATIENCE).toMatch(/^plain: step 1, .*predictor: step 1, /);
  await expect.poll(() => button("Play").isEnabled(), PATIENCE).toBe(true);
  await button("Play").click();
  await expect.poll(() => status.innerText(), { timeout: 30_000 }).toBe(end);
  await page.close();

  const wrong = await openLive(browser, `${address}?sed=3`);
  // What knows the settings is loaded for who needs it: here, after the page.
  await expect
    .poll(() => wrong.page.locator("#status").innerText(), PATIENCE)
    .toBe('unknown setting "sed" in the address; did you mean "seed"?');
  await wrong.page.close();
  expect([...problems, ...wrong.problems]).toEqual([]);
});

test("λ and the switch restart the experiment under a new address, and the tour goes round by keys", async () => {
  const { page, problems } = await openLive(browser, `${address}${SETTINGS}&arms=grpo,grpo%2Becho[lambda=0.2]`);
  await page.locator("#lambda").waitFor(PATIENCE);
  expect(await page.locator("#quick output").innerText()).toBe("0.2");
  await page.locator("#lambda").focus();
  await page.keyboard.press("ArrowRight");
  await expect.poll(() => new URL(page.url()).searchParams.get("arms"), PATIENCE).toBe("grpo,grpo+echo[lambda=0.5]");
  await expect.poll(() => page.locator("#quick output").innerText(), PATIENCE).toBe("0.5");
  await page.getByText("random facts", { exact: true }).click();
  await expect.poll(() => new URL(page.url()).searchParams.getAll("set"), PATIENCE).toEqual(["train.facts=random"]);
  // A second change, before the agents of the first have made a step, does not take the first back.
  await page.locator("#lambda").focus();
  await page.keyboard.press("ArrowLeft");
  await page.getByText("no facts", { exact: true }).click();
  await expect
    .poll(() => [...new URL(page.url()).searchParams].map((pair) => pair.join("=")).slice(-2), PATIENCE)
    .toEqual(["arms=grpo,grpo+echo[lambda=0.2]", "set=train.hints=none"]);
  await expect.poll(() => page.locator("#quick output").innerText(), PATIENCE).toBe("0.2");
  await page.locator("#quick .muted").waitFor({ state: "detached", ...PATIENCE });
  await page.locator("#status", { hasText: "step 5" }).waitFor({ timeout: 50_000 });

  await page.getByRole("button", { name: "Show me around" }).focus();
  await page.keyboard.press("Enter");
  const tour = page.getByRole("dialog");
  const stops: string[] = [];
  for (let i = 0; i < 6; i++) {
    stops.push(await tour.locator("p").first().innerText());
    expect(await page.locator(".lit").count()).toBe(1);
    expect(await page.locator("details:not([open]) .lit, .lit details:not([open])").count()).toBe(0);
    const { href } = await tour.locator("a").evaluate((own: HTMLAnchorElement) => ({ href: own.href }));
    expect(href).toContain("/book/0");
    await page.keyboard.press("ArrowRight");
  }
  expect(stops).toEqual(Array.from({ length: 6 }, (_, i) => `${i + 1} of 6`));
  expect(await tour.count()).toBe(0);
  expect(await page.evaluate(() => document.activeElement!.id)).toBe("tour");
  expect(problems).toEqual([]);
  await page.close();
}, 120_000);

test("Pause stops both agents, and the page answers while steps are fast", async () => {
  const { page, problems } = await openLive(browser, `${address}?quick=true&seed=3&steps=1000`);
  const status = page.locator("#status");
  await expect.poll(() => status.innerText(), { timeout: 50_000 }).toMatch(/: step \d\d.*: step \d\d/);
  await page.getByRole("button", { name: "Pause", exact: true }).click();
  await expect.poll(() => page.getByRole("button", { name: "One step", exact: true }).isEnabled()).toBe(true);
  const paused = await status.innerText();
  await page.waitForTimeout(1000);
  expect(await status.innerText()).toBe(paused);

  // The slider spans the whole run, and goes no further than both agents have been.
  const slider = page.locator("#controls input[type=range]");
  expect(await slider.getAttribute("max")).toBe("1000");
  const reached = Math.min(...Array.from(paused.matchAll(/: step (\d+)/g), ([, step]) => Number(step)));
  await slider.fill("1000");
  expect(await slider.inputValue()).toBe(String(reached));
  expect(problems).toEqual([]);
  await page.close();
});

/** What happened on the page since `watch`: when all agents had done a step more, and how far things moved. */
interface Watched {
  /** `performance.now()` at each. */
  readonly steps: number[];
  shift: number;
}

/** Watches the line of the run, and layout shifts, where the page is scrolled to. */
function watch(): void {
  const seen: Watched = { steps: [], shift: 0 };
  Object.assign(globalThis, { seen });
  let last = 0;
  new MutationObserver(() => {
    const steps = [...document.getElementById("status")!.textContent.matchAll(/: step (\d+),/g)].map(([, n]) => +n!);
    const step = steps.length === 2 ? Math.min(...steps) : last;
    if (step > last) seen.steps.push(performance.now());
    last = step;
  }).observe(document.getElementById("status")!, { childList: true, characterData: true, subtree: true });
  new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) seen.shift += (entry as unknown as { value: number }).value;
  }).observe({ type: "layout-shift", buffered: false });
}

test("both agents keep a pause between steps, until there is none; ways change and nothing moves", async () => {
  const { page, problems } = await openLive(browser, address + SETTINGS.replace("steps=5", "steps=16"));
  await page.evaluate(watch);
  await page.getByLabel("speed").selectOption("500");
  await page.evaluate(() => document.getElementById("world")!.scrollIntoView({ block: "start" }));
  const stepsSeen = (): Promise<number[]> =>
    page.evaluate(() => (globalThis as unknown as { seen: Watched }).seen.steps);
  await expect.poll(async () => (await stepsSeen()).length, { timeout: 60_000 }).toBeGreaterThan(5);
  const slow = await stepsSeen();
  const gaps = (times: readonly number[]): number[] => times.slice(1).map((time, i) => time - times[i]!);
  // The first may have been under way when the pause was chosen. A clock may be a few milliseconds off.
  expect(Math.min(...gaps(slow.slice(1)))).toBeGreaterThan(495);
  const [one, two] = [...(await page.locator("#status").innerText()).matchAll(/: step (\d+),/g)].map(([, n]) => +n!);
  expect(Math.abs(one! - two!)).toBeLessThanOrEqual(1); // they wait for each other
  await page.locator(".way h3").nth(1).waitFor();
  expect(await page.evaluate(() => (globalThis as unknown as { seen: Watched }).seen.shift)).toBeLessThan(0.02);

  await page.getByLabel("speed").selectOption("0");
  await expect.poll(() => page.locator("#status").innerText(), { timeout: 60_000 }).toMatch(/step 16, .*step 16, /);
  const fast = gaps((await stepsSeen()).slice(slow.length + 1));
  expect(Math.min(...fast)).toBeLessThan(Math.min(...gaps(slow.slice(1)))); // without a pause, as fast as they can
  expect(await page.locator("#inspector details[open]").count()).toBe(1); // on one token, from the first step on
  expect(problems).toEqual([]);
  await page.close();
}, 150_000);
