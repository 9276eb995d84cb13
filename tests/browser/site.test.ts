/** The live page in a real Chromium: its agents have the numbers of Node, and its controls do what they say. */
import { mkdtempSync, rmSync } from "node:fs";
import type { Server } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { device } from "../../engine/index.ts";
import type { MetricsRecord } from "../../job/records.ts";
import { makePage, serveFolder } from "../../scripts/sitePage.ts";
import { experimentOf } from "../../site/experiment.ts";
import type { FromAgent, ToAgent } from "../../site/messages.ts";
import { Session, warmUp } from "../../site/session.ts";
import { launchChromium } from "../support/browser.ts";

/** A few seconds; without a warm start beside the page, so that the first agent makes it for both. */
const SETTINGS = "?quick=true&seed=3&steps=5";
const folder = mkdtempSync(join(tmpdir(), "worldgrad-site-"));
let server: Server;
let address: string;
let browser: Browser;

beforeAll(async () => {
  await makePage(join(folder, "site"));
  ({ server, address } = await serveFolder(join(folder, "site"), 0));
  browser = await launchChromium();
}, 60_000);
afterAll(async () => {
  await browser.close();
  server.close();
  rmSync(folder, { recursive: true, force: true });
});

const timeless = (metrics: readonly MetricsRecord[]): unknown[] =>
  metrics.map(({ step_time: _time, tokens_per_second: _rate, ...line }) => line);

/** Opens the page; what it says in its console is added to `problems`, but that there is no warm start beside it. */
async function open(settings: string, problems: string[]): Promise<Page> {
  const page = await browser.newPage({ viewport: { width: 1400, height: 900 } });
  page.on("console", (message) => {
    if (!message.location().url.endsWith("/warm/warm.json")) problems.push(message.text());
  });
  page.on("pageerror", (error) => problems.push(error.message));
  await page.goto(address + settings);
  return page;
}

test("an agent in a worker of the page has the metrics of a session in Node, bit for bit", async () => {
  const { warm: settings, agents } = experimentOf(new URLSearchParams(SETTINGS));
  const { preset } = agents[1]!;
  const quiet = { phase() {}, update() {}, evaluation() {}, transcript() {}, note() {} };
  const on = await device("wasm", { threads: 1 });
  const session = new Session(preset, (await warmUp(settings, on, quiet, new AbortController().signal))!, on, quiet);
  await session.playTo();
  on.dispose();

  const page = await open("?env=nowhere", []); // a page that trains nothing meanwhile
  const inPage = await page.evaluate(
    ([at, own]) =>
      new Promise<readonly MetricsRecord[]>((done, failed) => {
        const worker = new Worker(at, { type: "module" });
        const orders: ToAgent[] = [
          { kind: "begin", preset: own, device: "wasm" },
          { kind: "play", to: 2 },
          { kind: "goTo", step: 1 },
          { kind: "play" },
        ];
        worker.addEventListener("message", ({ data }: MessageEvent<FromAgent>) => {
          if (data.kind === "failed") failed(new Error(data.message));
          if (data.kind === "rests" && data.after !== undefined) done(data.metrics);
        });
        for (const order of orders) worker.postMessage(order);
      }),
    [`${address}agent.js`, preset] as const,
  );
  await page.close();
  expect(timeless(inPage)).toEqual(timeless(session.metrics));
});

test("plays to the end, goes back and comes again to the same; a wrong address is one line", async () => {
  const problems: string[] = [];
  const page = await open(SETTINGS, problems);
  const status = page.locator("#status");
  const ended = /^grpo: step 5, solves [\d.]+ % · grpo\+echo: step 5, solves [\d.]+ %$/;
  const button = (name: string): ReturnType<Page["locator"]> => page.getByRole("button", { name, exact: true });
  await expect.poll(() => status.innerText(), { timeout: 50_000 }).toMatch(ended);
  await expect.poll(() => button("Play").isDisabled()).toBe(true);
  const end = await status.innerText();
  expect(await page.locator(".way h3").allInnerTexts()).toEqual([
    expect.stringMatching(/^grpo (✔ solved|✘ failed) after 5 steps of RL$/),
    expect.stringMatching(/^grpo\+echo (✔ solved|✘ failed) after 5 steps of RL$/),
  ]);
  await button("Reset").click();
  await expect.poll(() => status.innerText()).toMatch(/^grpo: step 0, .*grpo\+echo: step 0, /);
  await expect.poll(() => button("One step").isEnabled()).toBe(true);
  await button("One step").click();
  await expect.poll(() => status.innerText()).toMatch(/^grpo: step 1, .*grpo\+echo: step 1, /);
  await expect.poll(() => button("Play").isEnabled()).toBe(true);
  await button("Play").click();
  await expect.poll(() => status.innerText(), { timeout: 30_000 }).toBe(end);
  await page.close();

  const wrong = await open("?sed=3", problems);
  expect(await wrong.locator("#status").innerText()).toBe('unknown setting "sed" in the address; did you mean "seed"?');
  await wrong.close();
  expect(problems).toEqual([]);
});
