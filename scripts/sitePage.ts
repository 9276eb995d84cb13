/** The site's pages as files, and a server for them: for `npm run site` and for the tests that open the pages. */
import { cpSync, existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import { basename, extname, join, normalize, sep } from "node:path";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";
import { REPORT_ASSETS } from "../site/saveReport.ts";
import { bundlePage } from "../tools/page/assets.ts";
import { FOR_BROWSERS } from "./forBrowsers.ts";
import { packageFolder } from "./packageFolder.ts";

const source = join(packageFolder, "site");

/** The pages, each with its entries: the name of what is made, and the source in site/. Chunks are shared. */
const PAGES = {
  "index.html": { "page.js": "page.ts", "agent.js": "agent.ts", "page.css": "page.css" },
  "exact.html": { "exact.js": "exact/page.ts", "exactWorker.js": "exact/worker.ts", "exact.css": "exact.css" },
} as const;

/** How large a page is, in bytes, gzipped. */
export interface PageSize {
  /** All files that it may load. */
  readonly all: number;
  /** Those that no page before it in the list may load. */
  readonly own: number;
}

/**
 * Makes the pages in the folder `target`, which is emptied first: static files that work under any path.
 * @returns the size of each, legal notices included
 */
export async function makePage(target: string): Promise<Record<keyof typeof PAGES, PageSize>> {
  rmSync(target, { recursive: true, force: true });
  mkdirSync(target, { recursive: true });
  const entries = Object.values(PAGES).flatMap((page) => Object.entries(page));
  const { metafile } = await build({
    ...FOR_BROWSERS,
    entryPoints: entries.map(([out, own]) => ({ in: join(source, own), out: basename(out, extname(out)) })),
    outdir: target,
    splitting: true,
    write: true,
    metafile: true,
    legalComments: "linked",
  });
  writeFileSync(join(target, REPORT_ASSETS), JSON.stringify(await bundlePage("compare")));
  for (const page of Object.keys(PAGES)) cpSync(join(source, page), join(target, page));
  const outputs = new Map(Object.entries(metafile.outputs).map(([path, made]) => [basename(path), made]));
  const counted = new Set<string>();
  const sizeOf = (html: string, scripts: readonly string[]): PageSize => {
    // The live page loads the report's parts when it is asked to save one.
    const files = new Set(html === "index.html" ? [html, REPORT_ASSETS] : [html]);
    const add = (name: string): void => {
      if (files.has(name)) return;
      files.add(name);
      if (existsSync(join(target, `${name}.LEGAL.txt`))) files.add(`${name}.LEGAL.txt`);
      for (const { path } of outputs.get(name)?.imports ?? []) if (outputs.has(basename(path))) add(basename(path));
    };
    for (const name of scripts) add(name);
    const bytes = (names: readonly string[]): number =>
      names.reduce((sum, name) => sum + gzipSync(readFileSync(join(target, name))).length, 0);
    const own = [...files].filter((name) => !counted.has(name));
    for (const name of own) counted.add(name);
    return { all: bytes([...files]), own: bytes(own) };
  };
  const sizes = Object.entries(PAGES).map(([html, page]) => [html, sizeOf(html, Object.keys(page))] as const);
  return Object.fromEntries(sizes) as Record<keyof typeof PAGES, PageSize>;
}

const TYPES: Readonly<Record<string, string>> = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".json": "application/json",
};

/**
 * Serves a folder to this machine alone, with the headers that isolate a page, so that it may have threads.
 * @param port 0: any that is free
 */
export async function serveFolder(folder: string, port: number): Promise<{ server: Server; address: string }> {
  const server = createServer((request, response) => {
    const headers = { "Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Embedder-Policy": "require-corp" };
    const file = fileAt(folder, request.url ?? "/");
    if (file === undefined) return void response.writeHead(404, headers).end("not found\n");
    const type = TYPES[extname(file)] ?? "application/octet-stream";
    response.writeHead(200, { ...headers, "Content-Type": type, "Cache-Control": "no-cache" }).end(readFileSync(file));
  });
  await new Promise<void>((done, failed) => {
    server.once("error", failed);
    server.listen(port, "127.0.0.1", done);
  });
  return { server, address: `http://localhost:${(server.address() as { readonly port: number }).port}/` };
}

/** The file that an address names; undefined if there is none in the folder. */
function fileAt(folder: string, url: string): string | undefined {
  let path: string;
  try {
    path = normalize(decodeURIComponent(url.split("?")[0]!));
  } catch {
    return undefined; // not an address: %zz
  }
  const file = join(folder, path.endsWith(sep) ? join(path, "index.html") : path);
  return file.startsWith(folder + sep) && existsSync(file) && statSync(file).isFile() ? file : undefined;
}
