/** The live page as tests drive it in Chromium: what it says, what it asks for, and what its agents tell it. */
import type { Browser, BrowserContextOptions, Page } from "playwright-core";
import { expect } from "vitest";
import type { FromAgent } from "../../site/messages.ts";
import type { MetricsRecord } from "../../run/records.ts";
import { timeless } from "./liveAgent.ts";

export interface LivePage {
  readonly page: Page;
  /** Lines of the console, and errors. */
  readonly problems: string[];
  /** Addresses in order. */
  readonly requests: string[];
}

/**
 * Milliseconds until a page counts as hung. Ten times what the slowest needs: on a busy machine it computes the same
 * numbers, later.
 */
export const PATIENCE = 900_000;

/** Where a page without a warm start beside it is told that there is none: the one line that its console then has. */
const ABSENT = "/warm/warm.json";

/** @param hasWarmStart whether one lies beside the page; if not, that it is missing is no problem */
export async function openLive(
  browser: Browser,
  address: string,
  options: BrowserContextOptions = {},
  hasWarmStart = false,
): Promise<LivePage> {
  const page = await browser.newPage({ viewport: { width: 1400, height: 900 }, ...options });
  const [problems, requests]: [string[], string[]] = [[], []];
  page.on("console", (message) => {
    if (hasWarmStart || !message.location().url.endsWith(ABSENT)) problems.push(message.text());
  });
  page.on("pageerror", (error) => problems.push(error.message));
  page.on("request", (request) => requests.push(request.url()));
  await page.addInitScript(listen);
  await page.goto(address);
  return { page, problems, requests };
}

/** What was heard of the agents, in the order in which the page made their workers. */
interface Heard {
  readonly heard: FromAgent[][];
}

/** Runs in the page before its scripts: keeps a copy of what its workers send. */
function listen(): void {
  const heard: FromAgent[][] = [];
  Object.assign(globalThis, { heard });
  globalThis.Worker = class extends Worker {
    constructor(...args: ConstructorParameters<typeof Worker>) {
      super(...args);
      const own: FromAgent[] = [];
      heard.push(own);
      this.addEventListener("message", ({ data }: MessageEvent<FromAgent>) => own.push(data));
    }
  };
}

/** All that agents told this page, one after the other. */
export const messagesOf = (page: Page): Promise<FromAgent[][]> =>
  page.evaluate(() => (globalThis as unknown as Heard).heard);

/** The metrics of each agent when it last came to rest, without what depends on the clock. */
export async function restingMetrics(page: Page): Promise<MetricsRecord[][]> {
  const all = await page.evaluate(() =>
    (globalThis as unknown as Heard).heard.map((own) => own.findLast(({ kind }) => kind === "rests")),
  );
  return all.map((last) => {
    const metrics = (last as { readonly metrics?: readonly MetricsRecord[] } | undefined)?.metrics ?? [];
    expect(metrics.length).toBeGreaterThan(0);
    return timeless(metrics);
  });
}

export const statusOf = (page: Page): Promise<string> => page.locator("#status").innerText();
export const button = (page: Page, name: string): ReturnType<Page["locator"]> =>
  page.getByRole("button", { name, exact: true });

/** Waits until both agents have done so many steps and rest. */
export async function untilStep(page: Page, step: number): Promise<void> {
  await expect
    .poll(() => statusOf(page), { timeout: PATIENCE })
    .toMatch(new RegExp(`: step ${step}, .*: step ${step}, `));
  await expect.poll(() => button(page, "Pause").count(), { timeout: PATIENCE }).toBe(0);
}
