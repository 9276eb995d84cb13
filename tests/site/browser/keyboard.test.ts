/**
 * The live page by keys alone: Tab, Enter, Space and arrows reach and do what a mouse does, and one always sees where
 * the keyboard is. And what axe-core finds when everything that can be opened is open.
 */
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { experimentOf } from "../../../site/experiment.ts";
import { launchChromium } from "../../support/browser.ts";
import { openLive } from "../../support/livePage.ts";
import { serveSite, violations } from "../../support/sitePages.ts";

const WAIT = { timeout: 90_000 };
/** More stops than the page has. */
const STOPS = 120;
let close: () => void;
let address: string;
let browser: Browser;

beforeAll(async () => {
  ({ address, close } = await serveSite());
  browser = await launchChromium();
});
afterAll(async () => {
  await browser.close();
  close();
});

const status = (page: Page): Promise<string> => page.locator("#status").innerText();

/** The element that has the focus: what it is, and whether a ring is drawn around it or its label. */
function focused(page: Page): Promise<{ readonly what: string; readonly isSeen: boolean }> {
  return page.evaluate(() => {
    const own = document.activeElement as HTMLElement;
    const drawn = own.matches(".choice input") ? own.nextElementSibling! : own;
    const { outlineStyle, outlineWidth } = getComputedStyle(drawn);
    const { width, height } = drawn.getBoundingClientRect();
    const what = `${own.localName} ${own.id || own.getAttribute("aria-label") || own.textContent.slice(0, 40)}`;
    return { what, isSeen: outlineStyle !== "none" && parseFloat(outlineWidth) >= 2 && width > 0 && height > 0 };
  });
}

/** Presses Tab (or Shift+Tab) until the element that `selector` names has the focus. @returns where it has been */
async function tabTo(page: Page, selector: string, key: "Tab" | "Shift+Tab" = "Tab"): Promise<string[]> {
  const stops: string[] = [];
  for (;;) {
    await page.keyboard.press(key);
    const { what, isSeen } = await focused(page);
    stops.push(what);
    expect(isSeen, `the focus is seen on ${what}`).toBe(true);
    if (await page.evaluate((wanted) => document.activeElement!.matches(wanted), selector)) return stops;
    expect(stops.length, `stops on the way to ${selector}: ${stops.join(" | ")}`).toBeLessThan(STOPS);
  }
}
/** What a page says of the element with the focus. */
const here = (page: Page): Promise<string> => page.evaluate(() => document.activeElement!.textContent);

test("a preset, pace, pause, one step, rewind, the form, a token's formulas, and closing them again", async () => {
  // an address under which nothing is trained
  const { page, problems } = await openLive(browser, `${address}?env=nowhere`);
  await tabTo(page, ".presets summary:has(+ #working)");
  await page.keyboard.press("Enter");
  await tabTo(page, '.presets a[href*="steps=6"]');
  await page.keyboard.press("Enter");
  expect(new URL(page.url()).search).toBe("?quick=true&steps=6");

  // Two seconds between steps: the arrow keys choose. The controls come early on the page, so that the pause is there
  // before the first step is; after the preset's link the way back to them is too long for six quick steps.
  await page.reload();
  await page.locator("#controls select").waitFor();
  await tabTo(page, "#controls select");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("ArrowDown");
  expect(await page.locator("#controls select").inputValue()).toBe("2000");
  await tabTo(page, "#controls button:first-child", "Shift+Tab");
  await expect.poll(() => status(page), WAIT).toMatch(/step [1-5], .*step [1-5], /);
  expect(await here(page)).toBe("Pause");
  await page.keyboard.press("Space");
  await expect.poll(() => here(page), WAIT).toBe("Play"); // the focus has stayed on the button
  const one = page.getByRole("button", { name: "One step", exact: true });
  await expect.poll(() => one.isEnabled(), WAIT).toBe(true);

  // One step, and again without another Tab: the button that could not act for a moment has kept the focus. Before the
  // pauses one agent may have got ahead; then the other one catches up.
  const stepsOf = async (): Promise<number[]> =>
    Array.from((await status(page)).matchAll(/step (\d)/g), ([, step]) => Number(step));
  const before = await stepsOf();
  await tabTo(page, "#controls button:nth-child(2)");
  for (const step of [1, 2].map((n) => Math.min(...before) + n).filter((step) => step <= 6)) {
    await page.keyboard.press("Enter");
    await expect.poll(stepsOf, WAIT).toEqual(before.map((own) => Math.max(own, step)));
    expect(await here(page)).toBe("One step");
    if (step < 6) await expect.poll(() => one.isEnabled(), WAIT).toBe(true);
  }
  await tabTo(page, "#controls input[type=range]");
  await page.keyboard.press("Home");
  await expect.poll(() => status(page), WAIT).toMatch(/step 0, .*step 0, /);
  await page.keyboard.press("ArrowRight");
  await expect.poll(() => status(page), WAIT).toMatch(/step 1, .*step 1, /);

  // The inspector: a token by arrows, its formula and a head by Tab.
  // It has opened by itself after the first step, which was taken back meanwhile.
  // What stands there until the worker has answered would be gone below the arrow keys.
  await tabTo(page, ".inspector .controls button");
  await expect.poll(() => page.locator(".inspector [role=status]").innerText(), WAIT).not.toContain("Asking");
  await page.evaluate(() => document.querySelectorAll(".inspector .token").forEach((own) => (own.id = "old")));
  await page.keyboard.press("Enter");
  await page.locator(".inspector .token:not(#old)").first().waitFor(WAIT);
  await tabTo(page, ".inspector .tokens");
  await page.keyboard.press("End");
  await page.keyboard.press("ArrowLeft");
  const token = page.locator(".inspector .token.chosen");
  await expect.poll(() => token.count(), WAIT).toBe(1);
  const said = await page.locator(".inspector .spoken").innerText();
  expect(said).toMatch(/token \d+, id \d+, role \w+, turn \d+/);
  for (let i = 0; i < 200 && (await page.locator(".inspector .formula").count()) === 0; i++)
    await page.keyboard.press("ArrowLeft");
  await page.locator(".inspector .head").first().waitFor(WAIT);
  await tabTo(page, ".inspector .formula");
  await tabTo(page, ".inspector .head");
  await page.keyboard.press("Space");
  expect(await page.locator(".inspector .head").first().getAttribute("aria-pressed")).toBe("true");

  // The curves below the stage, and the experiments, which another box has.
  for (const box of ["#more-charts > summary", ".presets summary:has(+ #broken)"]) {
    await tabTo(page, box);
    await page.keyboard.press("Enter");
  }
  expect(await page.locator("#charts .uplot").count()).toBe(4);
  await tabTo(page, '.presets a[href*="arms"]');

  // Everything is open now: what axe finds, in both schemes, wide and narrow.
  await page.locator(".way h3").first().waitFor(WAIT);
  expect(await violations(page), "1400 px, light").toEqual([]);
  await page.emulateMedia({ colorScheme: "dark" });
  await page.setViewportSize({ width: 375, height: 800 });
  expect(await violations(page), "375 px, dark").toEqual([]);
  expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(375);
  await page.emulateMedia({ colorScheme: "light" });
  expect(await violations(page), "375 px, light").toEqual([]);
  await page.setViewportSize({ width: 1400, height: 900 });

  await tabTo(page, "#inspector > details > summary", "Shift+Tab");
  await page.keyboard.press("Enter");
  await expect.poll(() => page.locator(".inspector").isVisible(), WAIT).toBe(false);
  await page.keyboard.press("Tab");
  expect(await page.evaluate(() => document.activeElement!.closest("#inspector"))).toBeNull();

  // The form: a wrong word is said and gets the focus, a right one is applied.
  await tabTo(page, "#form summary");
  await page.keyboard.press("Enter");
  await page.locator("#all-rl-groupSize").waitFor(WAIT); // the form's code is loaded now
  await tabTo(page, "#all-rl-groupSize");
  await page.keyboard.type("0");
  await tabTo(page, "#form button");
  await page.keyboard.press("Enter");
  expect((await focused(page)).what).toBe("input all-rl-groupSize");
  expect(await page.locator("#all-rl-groupSize-wrong").innerText()).toContain("must be an integer ≥ 1, got 0");
  await page.keyboard.press("Backspace");
  await page.keyboard.type("4");
  await tabTo(page, "#form button");
  await page.keyboard.press("Space");
  const groupSize = (): unknown => experimentOf(new URL(page.url()).searchParams).words.shared["rl.groupSize"];
  await expect.poll(groupSize, WAIT).toBe("4"); // the browser tells of a new address a little later
  await tabTo(page, "#form summary", "Shift+Tab");
  await page.keyboard.press("Enter");
  expect(await page.locator("#all-rl-groupSize").isVisible()).toBe(false);
  expect(problems).toEqual([]);
  await page.close();
}, 240_000);
