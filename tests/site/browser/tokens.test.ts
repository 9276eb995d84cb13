/** The inspector of tokens in a real Chromium: loaded when opened, by keys, the same again after a rewind. */
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { launchChromium } from "../../support/browser.ts";
import { openLive } from "../../support/livePage.ts";
import { serveSite } from "../../support/sitePages.ts";

/** Completions of different length are rewarded differently, so that advantages are not all 0. */
const SETTINGS =
  "?quick=true&seed=3&steps=4&set=reward.overlong%3D1&set=sft.steps%3D40&set=rl.groupSize%3D6&set=rl.gradEvery%3D1" +
  "&arms=grpo%2Becho%3Dgrpo_token%2Becho%2Bactfocus,cispo%3Dcispo%2Breturn_prediction";
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

const WAIT = { timeout: 90_000 };
async function ended(page: Page): Promise<void> {
  await expect.poll(() => page.locator("#status").innerText(), WAIT).toMatch(/step 4, .* · .*step 4, /);
}
/** What is shown of the token that is chosen, once it stays as it is: formulas with their numbers, logits, heads. */
async function shown(page: Page): Promise<string> {
  await page.locator(".inspector .head").first().waitFor(WAIT);
  const read = async (): Promise<string> => (await page.locator(".inspector .panel").allInnerTexts()).join("\n");
  // The parts of the token before stay until the new ones are computed.
  for (let text = await read(); ;) {
    await page.waitForTimeout(500);
    const now = await read();
    if (now === text) return now;
    text = now;
  }
}
const chosen = (page: Page): Promise<number> =>
  page.evaluate(() => Number((document.querySelector(".inspector .token.chosen") as HTMLElement).dataset["i"]));

test("formulas, logits and attention of the last step's tokens, and the same again after a rewind", async () => {
  const { page, problems, requests } = await openLive(browser, address + SETTINGS);
  await ended(page);
  const status = page.locator(".inspector > [role=status]");
  // It has opened by itself, after the first step, with the last agent, on one token.
  await expect.poll(() => status.innerText(), WAIT).toMatch(/^cispo, step [1-4]: /);
  await expect.poll(() => page.locator(".inspector .token.chosen").count(), WAIT).toBe(1);
  await page.getByRole("button", { name: "Newest step" }).click();
  await expect.poll(() => status.innerText(), WAIT).toMatch(/^cispo, step 4: /);
  await page.locator(".inspector select").first().selectOption("0");
  await expect
    .poll(() => status.innerText(), WAIT)
    .toMatch(/^grpo\+echo, step 4: loss -?−?[\d.]+ \(policy .*, world model /);
  expect(requests.some((url) => /inspector/.test(url))).toBe(true);
  const tried = (): Promise<string> =>
    page.evaluate(() =>
      [...document.querySelectorAll<HTMLSelectElement>(".inspector select")]
        .map((s) => s.selectedOptions[0]!.text)
        .join(" / "),
    );
  expect(await tried()).toMatch(/A [+−]0?\.?\d/); // an episode that the policy learns from

  await page.locator(".inspector .token.action").nth(1).click();
  const action = await shown(page);
  expect(await page.locator(".term").first().getAttribute("aria-label")).toMatch(/^policy: adds [+−±]/);
  const formulas = await page.evaluate(() =>
    [...document.querySelectorAll(".formula math")].map((math) => ({
      namespace: math.namespaceURI,
      width: math.getBoundingClientRect().width,
      rows: math.querySelectorAll("mtr").length,
    })),
  );
  expect(formulas.length).toBeGreaterThan(1);
  for (const { namespace, width, rows } of formulas) {
    expect(namespace).toBe("http://www.w3.org/1998/Math/MathML");
    expect(width).toBeGreaterThan(50);
    expect(rows).toBeGreaterThan(1);
  }
  expect(await page.locator(".logits tbody tr").count()).toBeGreaterThanOrEqual(8);
  expect(await page.locator(".logits tr.own").count()).toBe(1);
  const heads = page.locator(".inspector .head");
  await heads.nth(1).click();
  expect(await heads.nth(1).getAttribute("aria-pressed")).toBe("true");
  expect(await page.locator(".inspector .legend").innerText()).toContain("attention of layer 1, head 2");

  // The arrow keys move along the strip, and the token that they come to is opened.
  const at = await chosen(page);
  await page.locator(".inspector .tokens").focus();
  await page.keyboard.press("ArrowRight");
  expect(await chosen(page)).toBe(at + 1);
  await expect.poll(() => shown(page), WAIT).not.toBe(action);
  await page.keyboard.press("ArrowLeft");
  await expect.poll(() => shown(page), WAIT).toBe(action);

  // Back to the start and forth again: the same step, the same numbers.
  const choice = await tried();
  await page.getByRole("button", { name: "Reset", exact: true }).click();
  await expect.poll(() => page.locator("#status").innerText(), WAIT).toMatch(/step 0, .* · .*step 0, /);
  await page.getByRole("button", { name: "Newest step" }).click();
  await expect.poll(() => status.innerText(), WAIT).toBe("grpo+echo has not finished a step of RL yet.");
  await page.getByRole("button", { name: "Play", exact: true }).click();
  await ended(page);
  await page.getByRole("button", { name: "Newest step" }).click();
  await expect.poll(() => status.innerText(), WAIT).toMatch(/^grpo\+echo, step 4: /);
  await expect.poll(tried, WAIT).toBe(choice);
  await expect.poll(() => page.locator(".inspector .token.chosen").count(), WAIT).toBe(0);
  await page.locator(".inspector .token.action").nth(1).click();
  await expect.poll(() => shown(page), WAIT).toBe(action);

  // The other agent has another loss; what no term concerns says so.
  await page.locator(".inspector select").first().selectOption("1");
  await expect.poll(() => status.innerText(), WAIT).toMatch(/^cispo, step 4: /);
  await expect.poll(() => page.locator(".inspector .token.chosen").count(), WAIT).toBe(0);
  await page.locator(".inspector .token.action").nth(1).click();
  expect(await shown(page)).toContain("MiniMax-M1, arXiv 2506.13585");
  const predicted = page.locator('.term[aria-label^="return prediction: adds "]');
  expect(await predicted.getAttribute("aria-label")).toMatch(
    /adds [+−±]?[\d.e−]+ to the loss; ∂L\/∂v = [+−±]?[\d.e−]+$/,
  );
  expect(await predicted.locator("math").textContent()).not.toContain("NaN");
  await page.locator(".inspector .token.prompt").first().click();
  expect(await page.locator(".inspector .panel").first().innerText()).toContain(
    "No term of the loss concerns this token",
  );
  await page.close();
  expect(problems).toEqual([]);
}, 240_000);
