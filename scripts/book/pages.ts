/** The book, the reference and the documents in the folder of the site, and their sizes. */
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { declarationsOf, linksFrom, makeReference } from "./api/api.ts";
import { readReference } from "./api/reference.ts";
import { makeDocs } from "./docs.ts";
import { makeBook, type PageSize } from "./book.ts";

export interface PagesMade {
  readonly chapters: readonly PageSize[];
  /** Bytes of all files of these folders, each gzipped. */
  readonly total: number;
}

/**
 * Makes `book/`, `api/` and `docs/` in the site's folder.
 * @param chapters names such as `05-grpo`; default all
 */
export async function makePages(site: string, chapters?: readonly string[]): Promise<PagesMade> {
  const entries = readReference();
  const made = await makeBook(join(site, "book"), linksFrom(entries, "../api/"), declarationsOf(entries), chapters);
  makeReference(join(site, "api"), entries);
  makeDocs(join(site, "docs"), linksFrom(entries, "../api/"));
  const total = ["book", "api", "docs"].reduce((sum, folder) => sum + weightOf(join(site, folder)), 0);
  return { chapters: made, total };
}

function weightOf(folder: string): number {
  const paths = readdirSync(folder, { recursive: true, encoding: "utf8" }).map((path) => join(folder, path));
  const files = paths.filter((path) => statSync(path).isFile());
  return files.reduce((sum, path) => sum + gzipSync(readFileSync(path)).length, 0);
}
