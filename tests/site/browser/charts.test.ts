/** The live page's curves in a real Chromium: what is drawn of the gradient, how they lie, and that they end. */
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { launchChromium } from "../../support/browser.ts";
import { openLive } from "../../support/livePage.ts";
import { serveSite } from "../../support/sitePages.ts";

/**
 * A few seconds, with the gradient measured in every step. Completions of different length are rewarded differently, so
 * that advantages are not all 0. The second agent has all terms that an agent without a critic and an expert can have.
 */
const TERMS =
  "?quick=true&seed=3&steps=3&set=reward.overlong%3D1&set=rl.gradEvery%3D1" +
  "&arms=grpo%3Dgrpo_token,grpo%2Becho%3Dgrpo_token%2Becho%2Breturn_prediction[kl%3D0.05,rl.entropy%3D0.01]";
const OTHERS = "?quick=true&seed=4&steps=1";
const RANDOM_FACTS = "?set=train.facts%3Drandom";
/** Success, four below, and three in a closed box. */
const CHARTS = 8;
/** For one step on a busy machine. */
const WAIT = { timeout: 50_000 };

let close: () => void;
let address: string;
let browser: Browser;

beforeAll(async () => {
  ({ address, close } = await serveSite());
  browser = await launchChromium(["--js-flags=--expose-gc"]);
}, 60_000);
afterAll(async () => {
  await browser.close();
  close();
});

/** What `--expose-gc` gives a page. */
interface Collecting {
  gc(how: { readonly type: "major"; readonly execution: "async" }): Promise<void>;
}

/** The number of charts in each row. */
const rowsOf = (page: Page): Promise<number[]> =>
  page.locator("#charts .card, #further .card").evaluateAll((cards) => {
    const tops = cards.map((card) => card.getBoundingClientRect().top);
    return [...new Set(tops)].map((top) => tops.filter((other) => other === top).length);
  });

test("a line for each term of the loss, in the same colours for all; charts at 1400 and 375 px", async () => {
  const { page, problems } = await openLive(browser, address + TERMS);
  const status = page.locator("#status");
  await expect.poll(() => status.innerText(), WAIT).toMatch(/step 3, .*step 3, /);
  await page.locator("#more-charts summary").click();
  const charts = page.locator(":is(#success, #charts, #further) .card");
  expect(await charts.locator("h3").allInnerTexts()).toEqual([
    "Does it solve tasks that it was never trained on?",
    "Does it earn more in training?",
    "Do the answers surprise it less?",
    "Does it still try different things?",
    "How many tasks teach nothing?",
    "Do acting and predicting pull the same way?",
    "What moves grpo?",
    "What moves grpo+echo?",
  ]);
  /** What the picture of a chart is called, which has the newest value of each line. */
  const said = async (index: number): Promise<string> =>
    (await charts.nth(index).locator(".plot").getAttribute("aria-label"))!;
  expect(await said(4)).toMatch(/At the end: grpo [\d.]+ %; grpo\+echo [\d.]+ %$/);
  // The agent without a world model, a reference and a bonus has one term, if any of its groups has spread.
  expect(await said(6)).toMatch(/At the end: policy (–|100.0 %); world –; kl –; entropy –; return_prediction –$/);
  const shares = (await said(7)).split("At the end: ")[1]!;
  expect(shares).toMatch(/^policy .*; world [\d.]+ %; kl .*; entropy [\d.]+ %; return_prediction [\d.]+ %$/);
  const total = [...shares.matchAll(/([\d.]+) %/g)].reduce((sum, [, share]) => sum + Number(share), 0);
  expect(Math.abs(total - 100)).toBeLessThan(0.3); // each is rounded to a tenth
  await expect.poll(() => charts.locator(".uplot").count(), WAIT).toBe(CHARTS);
  expect(await rowsOf(page)).toEqual([4, 3]);
  await page.setViewportSize({ width: 375, height: 800 });
  expect(await rowsOf(page)).toEqual(Array(CHARTS - 1).fill(1));
  expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(375);
  await page.close();
  expect(problems).toEqual([]);
}, 120_000);

test("a recorded run lies behind the page's own experiment with something changed, and behind no other", async () => {
  /** Lines without a name in the legend. */
  const pale = "#success .u-legend .hidden-row";
  const { page, problems } = await openLive(browser, address + RANDOM_FACTS);
  await page
    .locator(pale)
    .first()
    .waitFor({ state: "attached", ...WAIT });
  expect(await page.locator(pale).count()).toBe(2);
  expect(await page.locator("#success").innerText()).toMatch(
    /Dotted: with nothing changed: plain 24\.0 %, predictor 66\.7 %\./,
  );
  expect(problems).toEqual([]);
  for (const other of ["", OTHERS]) {
    await page.goto(address + other);
    await page.locator("#success .u-legend").waitFor(WAIT);
    expect(await page.locator(pale).count()).toBe(0);
  }
  await page.close();
});

test("charts and ways of earlier experiments are freed", async () => {
  const { page, problems } = await openLive(browser, address + OTHERS);
  const isOver = async (seed: string): Promise<void> => {
    await expect.poll(() => page.url()).toContain(seed);
    await expect.poll(() => page.locator("#status").innerText(), WAIT).toMatch(/step 1, .*step 1, /);
    await expect.poll(() => page.locator(".uplot").count(), WAIT).toBe(CHARTS);
    await expect.poll(() => page.locator("#ways .way h3").count(), WAIT).toBe(2);
  };
  await isOver("seed=4");
  for (const seed of ["seed=5", "seed=6", "seed=7", "seed=8"]) {
    await page.evaluate(
      (search) => {
        history.pushState(null, "", search);
        dispatchEvent(new PopStateEvent("popstate"));
      },
      OTHERS.replace("seed=4", seed),
    );
    await isOver(seed);
  }
  const session = await page.context().newCDPSession(page);
  /**
   * The live objects of the kind of this one. Garbage is collected in a task of its own first: while a command of the
   * protocol runs, Chromium takes whatever on its stack looks like a pointer to an element for one, and what an earlier
   * experiment has left there by chance stays alive for as long as we look (docs/log.md).
   */
  const living = async (one: string): Promise<number> => {
    await page.evaluate(() => (globalThis as unknown as Collecting).gc({ type: "major", execution: "async" }));
    const { result } = await session.send("Runtime.evaluate", { expression: one });
    const { objects } = await session.send("Runtime.queryObjects", { prototypeObjectId: result.objectId! });
    const { result: count } = await session.send("Runtime.callFunctionOn", {
      objectId: objects.objectId!,
      functionDeclaration: "function () { return this.filter((own) => own.matches?.('.plot, .way')).length; }",
      returnByValue: true,
    });
    // The list keeps what it names alive, so that a later look would find it again.
    await session.send("Runtime.releaseObject", { objectId: objects.objectId! });
    return count.value as number;
  };
  // What is still on its way when an experiment is changed, such as an answer of its worker, holds it a moment longer.
  await expect.poll(() => living("HTMLDivElement.prototype"), WAIT).toBe(CHARTS + 2);
  await page.close();
  expect(problems).toEqual([]);
}, 180_000);
