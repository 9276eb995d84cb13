/**
 * The live page as it is published, with a warm start beside it: agents with its settings begin from it, with the
 * numbers that they have without it; others make their own. Nothing comes from elsewhere, and what is loaded goes on
 * offline.
 */
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { experimentOf } from "../../../site/experiment.ts";
import { launchChromium } from "../../support/browser.ts";
import { playedInNode, timeless } from "../../support/liveAgent.ts";
import { button, messagesOf, openLive, PATIENCE, restingMetrics, untilStep } from "../../support/livePage.ts";
import { serveSiteWithWarmStart } from "../../support/sitePages.ts";

const SETTINGS = "?quick=true&seed=3&steps=3";
/** Another warm start: of another world. */
const OTHERS = "?quick=true&seed=4&steps=1";
let close: () => void;
let address: string;
let browser: Browser;

beforeAll(async () => {
  ({ address, close } = await serveSiteWithWarmStart(experimentOf(new URLSearchParams(SETTINGS)).warm));
  browser = await launchChromium();
}, PATIENCE);
afterAll(async () => {
  await browser.close();
  close();
});

const kinds = async (page: Page): Promise<Set<string>> =>
  new Set((await messagesOf(page)).flatMap((own) => own.map(({ kind }) => kind)));
/** Names of the files of the warm start that were asked for. */
const asked = (requests: readonly string[]): string[] =>
  requests.filter((url) => url.startsWith(`${address}warm/`)).map((url) => url.slice(address.length + 5));

test(
  "agents begin from the warm start beside the page: nothing is warmed up, the numbers are Node's",
  async () => {
    const { page, problems, requests } = await openLive(browser, address + SETTINGS, {}, true);
    await untilStep(page, 3);
    expect(await kinds(page)).not.toContain("warming");
    const files = asked(requests);
    expect(files[0]).toBe("warm.json");
    expect(files.length).toBeGreaterThan(2);
    const { metrics } = await playedInNode(SETTINGS); // which warms up by itself
    expect((await restingMetrics(page))[1]).toEqual(timeless(metrics));

    // All comes from this server, and without a network the page goes on with what it has: back, and it plays again.
    await page.locator(".inspector .token").first().waitFor({ timeout: PATIENCE });
    await page.locator(".diagnosis h3").first().waitFor({ timeout: PATIENCE });
    const end = await restingMetrics(page);
    await page.context().setOffline(true);
    await button(page, "Reset").click();
    await untilStep(page, 0);
    await button(page, "Play").click();
    await untilStep(page, 3);
    expect(await restingMetrics(page)).toEqual(end);
    expect(requests.filter((url) => !url.startsWith(address) && !/^(blob|data):/.test(url))).toEqual([]);
    expect(problems).toEqual([]);
    await page.close();
  },
  PATIENCE,
);

test("agents with other settings do not take it: the first makes one for both", { timeout: PATIENCE }, async () => {
  const { page, problems, requests } = await openLive(browser, address + OTHERS, {}, true);
  await untilStep(page, 1);
  expect(await kinds(page)).toContain("warming");
  expect(asked(requests)).toEqual(["warm.json"]);
  const { metrics } = await playedInNode(OTHERS);
  expect((await restingMetrics(page))[1]).toEqual(timeless(metrics));
  expect(problems).toEqual([]);
  await page.close();
});

test("settings of RL alone do not need another one", { timeout: PATIENCE }, async () => {
  const { page, problems, requests } = await openLive(
    browser,
    `${address}${SETTINGS.replace("steps=3", "steps=1")}&arms=a%3Dgrpo%2Cb%3Drft`,
    {},
    true,
  );
  await untilStep(page, 1);
  expect(await kinds(page)).not.toContain("warming");
  expect(asked(requests).length).toBeGreaterThan(2);
  expect(problems).toEqual([]);
  await page.close();
});
