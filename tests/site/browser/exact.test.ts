/**
 * exact.html in a real Chromium: its figures are Node's, its address holds its state, and nothing moves while it
 * computes.
 */
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { device } from "../../../engine/index.ts";
import { type Figures, figuresOf } from "../../../site/exact/figures.ts";
import { Laboratory, type Question } from "../../../site/exact/laboratory.ts";
import type { Answered, Asked } from "../../../site/exact/messages.ts";
import { DEFAULTS, settingsIn } from "../../../site/exact/settings.ts";
import { launchChromium } from "../../support/browser.ts";
import { serveSite, violations } from "../../support/sitePages.ts";

let close: () => void;
let address: string;
let browser: Browser;
let laboratory: Laboratory;

beforeAll(async () => {
  ({ address, close } = await serveSite());
  browser = await launchChromium();
  laboratory = new Laboratory(await device("reference"));
}, 60_000);
afterAll(async () => {
  await browser.close();
  close();
});

interface Opened {
  readonly page: Page;
  readonly problems: string[];
  readonly requests: string[];
}

async function open(settings: string, width: number, colorScheme: "light" | "dark" = "light"): Promise<Opened> {
  const page = await browser.newPage({ viewport: { width, height: 900 }, colorScheme, reducedMotion: "reduce" });
  const [problems, requests]: [string[], string[]] = [[], []];
  page.on("console", (message) => problems.push(message.text()));
  page.on("pageerror", (error) => problems.push(error.message));
  page.on("request", (request) => requests.push(request.url()));
  await page.goto(`${address}exact.html${settings}`);
  return { page, problems, requests };
}

/** Until everything that was asked for is there. */
const computed = (page: Page): Promise<unknown> =>
  page.waitForFunction(() => !document.body.hasAttribute("aria-busy"), undefined, { timeout: 120_000 });

test("its worker has the figures and the sampled steps of Node, number for number", async () => {
  const settings = settingsIn(
    new URLSearchParams("method=rloo&group=4&lambda=0.05&compare=dapo&steps=20&player=older"),
  );
  const { page } = await open("?group=nothing", 800); // a page that computes nothing meanwhile
  const answers = await page.evaluate(
    ([at, asked]) =>
      new Promise<readonly Answered[]>((done, failed) => {
        const heard: Answered[] = [];
        const worker = new Worker(at, { type: "module" });
        worker.addEventListener("message", ({ data }: MessageEvent<Answered>) => {
          heard.push(data);
          if (data.kind === "failed") failed(new Error(data.message));
          if (data.kind === "progress" && data.done === data.all) done(heard);
        });
        worker.postMessage(asked);
      }),
    [`${address}exactWorker.js`, { question: 1, settings } satisfies Asked] as const,
  );
  await page.close();
  const figures = answers.flatMap((answer) => (answer.kind === "figures" ? [answer] : []));
  expect(new Set(figures.map(({ method, group }) => `${method} ${group}`)).size).toBe(10);
  for (const { method, group, figures: inPage } of figures) {
    const question: Question = { ...settings, method, group };
    const here = figuresOf(laboratory.moments(question), laboratory.state("half").truth.reward, settings.scale);
    for (const name of Object.keys(here) as (keyof Figures)[]) expect(inPage[name]).toBeCloseTo(here[name], 9);
  }
  const sample = answers.find((answer) => answer.kind === "sample")!.sample;
  const here = laboratory.sample(settings, settings.steps, settings.plane, settings.scale);
  sample.points.flat().forEach((x, i) => expect(x).toBeCloseTo(here.points.flat()[i]!, 9));
}, 240_000);

test("shows them, keeps its state in the address, and says every picture in words", async () => {
  const { page, problems, requests } = await open("", 1400);
  await computed(page);
  const row = (label: string): Promise<string[]> =>
    page
      .locator("#figures tr", { has: page.locator("th", { hasText: new RegExp(`^${label}$`) }) })
      .locator("td")
      .allInnerTexts();
  const usual = laboratory.figures(DEFAULTS, "equal");
  const [length, angle, bias] = await row("GRPO");
  expect(Number(length)).toBeCloseTo(usual.length, 3);
  expect(angle).toBe("4.31°");
  expect(Number(bias)).toBeCloseTo(usual.bias, 4);
  expect((await row("RLOO")).slice(0, 3)).toEqual(["1", "0°", "0"]);
  expect(await page.locator("#status").innerText()).toMatch(/^GRPO in groups of 8: its mean is turned .* by 4\.31°/);
  for (const picture of await page.locator('[role="img"]').all())
    expect((await picture.getAttribute("aria-label"))!.length).toBeGreaterThan(60);
  expect(await page.locator('[role="img"]').count()).toBe(3);

  const field = (name: string): ReturnType<Page["locator"]> => page.getByRole("combobox", { name, exact: true });
  // Other settings, by keyboard and mouse; the address follows, and says the same when it is opened again.
  await field("Method").selectOption("rloo_clip");
  await field("Episodes are played by").selectOption("older");
  await page.getByRole("button", { name: "Sample 100 more steps" }).focus();
  await page.keyboard.press("Enter");
  await computed(page);
  expect(new URL(page.url()).search).toBe("?player=older&method=rloo_clip&steps=200");
  const said = await page.locator("main").innerText();
  expect(said).toMatch(/Of 200 sampled steps \d+ raise/);
  await page.reload();
  await computed(page);
  expect(await page.locator("main").innerText()).toBe(said);
  await field("Policy").selectOption("start");
  expect(new URL(page.url()).search).toBe("?state=start&method=rloo_clip");
  expect(await field("Episodes are played by").isDisabled()).toBe(true);
  expect(problems).toEqual([]); // the content security policy would say here what it has refused
  expect(requests.filter((url) => !url.startsWith(address))).toEqual([]);
  await page.close();
}, 240_000);

test.each([
  [1400, "light"],
  [375, "dark"],
] as const)(
  "at %i pixels, %s: nothing moves while numbers arrive, nothing is wider than the screen, and axe finds nothing",
  async (width, scheme) => {
    const { page, problems } = await open("?compare=rloo", width, scheme);
    await page.evaluate(() => {
      const seen = globalThis as unknown as { shift: number };
      seen.shift = 0;
      new PerformanceObserver((list) => {
        for (const entry of list.getEntries()) seen.shift += (entry as unknown as { value: number }).value;
      }).observe({ type: "layout-shift", buffered: true });
    });
    await computed(page);
    expect(await page.evaluate(() => (globalThis as unknown as { shift: number }).shift)).toBeLessThan(0.02);
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(width);
    await page.locator("details summary").click(); // what is folded is looked at as well
    expect(await violations(page)).toEqual([]);
    expect(problems).toEqual([]);
    await page.close();
  },
  120_000,
);

test("a wrong address is one line", async () => {
  const { page, problems } = await open("?methd=grpo", 800);
  await expect
    .poll(() => page.locator("#status").innerText(), { timeout: 20_000 })
    .toBe('unknown setting "methd" in the address; did you mean "method"?');
  expect(problems).toEqual([]);
  await page.close();
});
