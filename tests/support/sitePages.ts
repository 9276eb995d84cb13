/**
 * The live page and exact.html, made once for all files of the tests that open them, with what they weigh: a
 * `globalSetup` of vitest.config.ts. Each file serves them by itself. Nothing is asked of the pages here.
 */
import { cpSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { inject } from "vitest";
import type { TestProject } from "vitest/node";
import type { Preset } from "../../run/preset.ts";
import { makePage, serveFolder, type SiteSizes } from "../../scripts/sitePage.ts";
import { makeWarmStart } from "../../scripts/siteWarmStart.ts";

declare module "vitest" {
  interface ProvidedContext {
    /** The folder that holds the made pages under SOMEWHERE. */
    readonly sitePages: string;
    readonly siteSizes: SiteSizes;
  }
}

/** Not the root, because the site works under any path. */
export const SOMEWHERE = "some/where/";

/** Makes the pages. @returns what removes them again */
export async function setup(project: TestProject): Promise<() => void> {
  const folder = mkdtempSync(join(tmpdir(), "worldgrad-site-"));
  project.provide("siteSizes", await makePage(join(folder, SOMEWHERE)));
  project.provide("sitePages", folder);
  return () => rmSync(folder, { recursive: true, force: true });
}

export interface Served {
  /** The folder of the live page, as an address that ends in a slash. */
  readonly address: string;
  readonly close: () => void;
}

/** @param isolated whether with the headers that isolate a page, so that it may have threads */
export async function serveSite(isolated = true): Promise<Served> {
  const { server, address } = await serveFolder(inject("sitePages"), 0, isolated);
  return { address: address + SOMEWHERE, close: () => server.close() };
}

/** The page with a warm start of these settings beside it, as `npm run site` makes it for the page's own experiment. */
export async function serveSiteWithWarmStart(preset: Preset): Promise<Served> {
  const folder = mkdtempSync(join(tmpdir(), "worldgrad-site-"));
  cpSync(inject("sitePages"), folder, { recursive: true });
  await makeWarmStart(preset, join(folder, SOMEWHERE, "warm"));
  const { server, address } = await serveFolder(folder, 0);
  const close = (): void => {
    server.close();
    rmSync(folder, { recursive: true, force: true });
  };
  return { address: address + SOMEWHERE, close };
}

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** The rules of axe-core that the page breaks as it is now, with the elements. */
export async function violations(page: Page): Promise<string[]> {
  if (!(await page.evaluate(() => "axe" in globalThis))) await page.evaluate(AXE);
  return page.evaluate(async () => {
    // What is just appearing is pale for a moment.
    await Promise.allSettled(document.getAnimations().map(({ finished }) => finished));
    const { axe } = globalThis as unknown as { axe: typeof import("axe-core") };
    const found = await axe.run();
    return found.violations.flatMap(({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html.slice(0, 120)}`));
  });
}
