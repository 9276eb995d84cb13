/**
 * What a browser fetches of the live page by itself: opened without words in its address, its experiment run to the
 * end, nothing asked for.
 */
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import type { Server } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, inject, test } from "vitest";
import { check } from "../../../engine/errors.ts";
import { serveFolder } from "../../../scripts/sitePage.ts";
import { experimentOf } from "../../../site/experiment.ts";
import { launchChromium } from "../../support/browser.ts";
import { openLive, statusOf } from "../../support/livePage.ts";

/** The page's own agents in small sizes; beyond the step at which the doctor looks first. */
const SHORT = new URLSearchParams("quick=true&steps=5");
const EMPTY = new URLSearchParams();
const HTML = "some/where/index.html";

let folder: string;
let server: Server;
let address: string;
let browser: Browser;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "worldgrad-fetched-"));
  cpSync(inject("sitePages"), folder, { recursive: true });
  const text = readFileSync(join(folder, HTML), "utf8");
  const own = JSON.stringify(experimentOf(EMPTY));
  check(text.includes(own), () => `${HTML} has no settings of its own`);
  writeFileSync(
    join(folder, HTML),
    text.replace(own, () => JSON.stringify(experimentOf(SHORT))),
  );
  ({ server, address } = await serveFolder(folder, 0));
  browser = await launchChromium();
}, 60_000);
afterAll(async () => {
  await browser.close();
  server.close();
  rmSync(folder, { recursive: true, force: true });
});

test("the settings in the page are those of an address without words", () => {
  const experiment = experimentOf(EMPTY);
  expect(JSON.parse(JSON.stringify(experiment))).toEqual(experiment);
});

test("Chromium fetches what the experiment needs, and nothing else, until it has ended", async () => {
  const { page, problems, requests } = await openLive(browser, `${address}some/where/`);
  await expect.poll(() => statusOf(page), { timeout: 100_000 }).toMatch(/: step 5, .*: step 5, /);
  await expect
    .poll(() => page.locator("#diagnoses").innerText(), { timeout: 30_000 })
    .not.toContain("The doctor looks when");
  await expect.poll(() => page.getByRole("button", { name: "Pause" }).count(), { timeout: 30_000 }).toBe(0);
  const fetched = [...new Set(requests)].filter((url) => url.startsWith(address) && !url.includes("/warm/"));
  const names = fetched.map((url) => url.slice(url.lastIndexOf("/") + 1));
  // What agents compute with is fetched by their workers, so these were heard, too.
  for (const part of ["page.js", "agent.js", "drawing.js", "frame.css", "page.css"]) expect(names).toContain(part);
  for (const part of ["shared", "wasm", "diagnosis"])
    expect(names.some((name) => name.startsWith(`${part}-`))).toBe(true);
  // Words, the form and other methods are loaded by who asks for them.
  expect(names.filter((name) => /^(experiment|words|controls|presets|webgpu|rules)-/.test(name))).toEqual([]);
  await page.close();
  expect(problems).toEqual([]);
}, 180_000);
