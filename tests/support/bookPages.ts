/**
 * The book's first two chapters and the API reference, made once for all files of the tests that open them: a
 * `globalSetup` of vitest.config.ts. Each file serves them by itself.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { inject } from "vitest";
import type { TestProject } from "vitest/node";
import { makePages } from "../../scripts/book/pages.ts";
import { serveFolder } from "../../scripts/sitePage.ts";
import type { Served } from "./sitePages.ts";

declare module "vitest" {
  interface ProvidedContext {
    /** The folder that holds `book/` and `api/`. */
    readonly bookPages: string;
  }
}

/** The chapters that are made. */
export const MADE = ["00-micro", "01-tape"] as const;

/** Makes the pages. @returns what removes them again */
export async function setup(project: TestProject): Promise<() => void> {
  const folder = mkdtempSync(join(tmpdir(), "worldgrad-book-"));
  await makePages(folder, MADE);
  project.provide("bookPages", folder);
  return () => rmSync(folder, { recursive: true, force: true });
}

export async function serveBook(): Promise<Served> {
  const { server, address } = await serveFolder(inject("bookPages"), 0);
  return { address, close: () => server.close() };
}
