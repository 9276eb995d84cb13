/** API reference, and the pages of the sources that it links to. */
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { packageFolder } from "../../packageFolder.ts";
import type { Links } from "../markdown.ts";
import { referenceIndex, referencePages } from "./pages.ts";
import { partsOf } from "./parts.ts";
import type { EntryPoint, Name } from "./reference.ts";
import { sourcePage } from "./sourcePage.ts";

/** Files and folders with source pages: all that users import, the programs of the book, and what these show. */
const SOURCES = [
  "kernels",
  "engine",
  "nn",
  "rl",
  "methods",
  "data",
  "papers",
  "environments",
  "pretrained",
  "distribute",
  "compiled",
  "math",
  "tune",
  "connect",
  "run",
  "studies",
  "learn",
  "examples",
];
const SINGLE = ["index.ts", "tensorMethods.ts", "fastCheck.ts"];

/** @returns links of pages in a folder beside that of the reference, such as `book/`, or in that of the reference */
export function linksFrom(entries: readonly EntryPoint[], toReference: string): Links {
  const pages = new Map<string, string>();
  for (const { page, names } of entries.flatMap(partsOf))
    for (const { name } of names) if (!pages.has(name)) pages.set(name, page);
  return {
    ofFile: (path) => (hasPage(path) ? `${toReference}source/${path}.html` : undefined),
    ofName: (name) => (pages.has(name) ? `${toReference}${pages.get(name)!}.html#${name}` : undefined),
  };
}

function hasPage(path: string): boolean {
  const isIn = SINGLE.includes(path) || SOURCES.includes(path.split("/")[0]!);
  const file = join(packageFolder, path);
  return isIn && path.endsWith(".ts") && !path.includes("..") && existsSync(file) && statSync(file).isFile();
}

/** Names that programs import from index.ts, each with the place of its declaration. */
export function declarationsOf(entries: readonly EntryPoint[]): ReadonlyMap<string, Name> {
  const common = entries.filter(({ page }) => !["node", "tune", "tensor-methods", "fast-check"].includes(page));
  return new Map(common.flatMap(({ names }) => names.map((one) => [one.name, one] as const)));
}

/** @param target a folder beside that of the book, which has the style sheet */
export function makeReference(target: string, entries: readonly EntryPoint[]): void {
  const links = linksFrom(entries, "");
  mkdirSync(target, { recursive: true });
  writeFileSync(join(target, "index.html"), referenceIndex(entries, links));
  for (const [page, html] of entries.flatMap((entry) => referencePages(entry, links)))
    writeFileSync(join(target, `${page}.html`), html);
  for (const path of sourceFiles()) {
    const file = join(target, "source", `${path}.html`);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, sourcePage(path, readFileSync(join(packageFolder, path), "utf8")));
  }
}

function sourceFiles(): string[] {
  const within = SOURCES.flatMap((folder) =>
    readdirSync(join(packageFolder, folder), { recursive: true, encoding: "utf8" }).map((path) => `${folder}/${path}`),
  );
  return [...SINGLE, ...within.map((path) => path.replaceAll("\\", "/"))].filter(hasPage);
}
