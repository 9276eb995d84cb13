/** The site's pages as files, and a server for them: for `npm run site` and for the tests that open the pages. */
import { existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import { basename, extname, join, normalize, sep } from "node:path";
import { gzipSync } from "node:zlib";
import { build, type Metafile } from "esbuild";
import { minifySync } from "vite";
import { check } from "../engine/errors.ts";
import { BROKEN, listHtml, type PagePreset, WORKING } from "../site/presets.ts";
import { REPORT_FILES } from "../site/saveReport.ts";
import { bundleScript, withHashes } from "../tools/page/assets.ts";
import { FOR_BROWSERS } from "./forBrowsers.ts";
import { packageFolder } from "./packageFolder.ts";

const source = join(packageFolder, "site");

/** Bytes, gzipped, legal notices included, without a warm start's weights. */
export interface PageSize {
  /** What it loads before its first step, or its first figures. */
  readonly first: number;
  /** All that it may load: also what is loaded when asked for: another executor, threads, doctor, reports, programs. */
  readonly all: number;
}

/** A page: its text, the modules that esbuild makes files of, by the names of these, and texts of further files. */
interface Page {
  readonly html: string;
  readonly text: () => string;
  readonly entries: Readonly<Record<string, string>>;
  readonly files?: () => Promise<Readonly<Record<string, string>>>;
  /** Those of the further files that the page loads at once. */
  readonly firstFiles?: readonly string[];
}

const sourceOf = (html: string): string => readFileSync(join(source, html), "utf8");

/** Each is bundled by itself: what pages share would be in more and larger chunks for both. */
const PAGES = {
  live: {
    html: "index.html",
    text: withLists,
    entries: { "page.js": "page.ts", "agent.js": "agent.ts", "page.css": "page.css" },
    files: drawingFiles,
    firstFiles: [REPORT_FILES.style],
  },
  exact: {
    html: "exact.html",
    text: () => sourceOf("exact.html"),
    entries: { "exact.js": "exact/page.ts", "exactWorker.js": "exact/worker.ts", "exact.css": "exact.css" },
  },
} satisfies Record<string, Page>;

/** What every page computes with at first. */
const EXECUTOR = "engine/backends/wasm.ts";

/** Makes the pages in the folder `target`, which is emptied first: static files that work under any path. */
export async function makePage(target: string): Promise<Record<keyof typeof PAGES, PageSize>> {
  rmSync(target, { recursive: true, force: true });
  mkdirSync(target, { recursive: true });
  return { live: await makeOne(target, PAGES.live), exact: await makeOne(target, PAGES.exact) };
}

async function makeOne(target: string, page: Page): Promise<PageSize> {
  const { metafile, outputFiles } = await build({
    ...FOR_BROWSERS,
    absWorkingDir: packageFolder,
    entryPoints: Object.entries(page.entries).map(([out, own]) => ({
      in: join(source, own),
      out: basename(out, extname(out)),
    })),
    outdir: target,
    metafile: true,
    splitting: true,
    external: [`./${REPORT_FILES.script}`],
    legalComments: "linked",
  });
  for (const { path, text } of outputFiles) writeFileSync(path, path.endsWith(".js") ? renamed(text) : text);
  const texts = { [page.html]: page.text(), ...(await page.files?.()) };
  for (const [name, text] of Object.entries(texts)) writeFileSync(join(target, name), text);
  const gzipped = (names: readonly string[]): number =>
    names.reduce((sum, name) => sum + gzipSync(readFileSync(join(target, name))).length, 0);
  const entries = Object.values(page.entries).map((own) => `site/${own}`);
  const made = Object.keys(metafile.outputs).map((path) => basename(path));
  return {
    first: gzipped([page.html, ...(page.firstFiles ?? []), ...firstFiles(metafile, [...entries, EXECUTOR])]),
    all: gzipped([...Object.keys(texts), ...made]),
  };
}

/** What draws on the live page and in the reports that it saves: a script, a style, and their hashes. */
async function drawingFiles(): Promise<Readonly<Record<string, string>>> {
  const bundled = await bundleScript("../../site/drawing.ts");
  const { script, style, ...hashes } = withHashes({ ...bundled, script: renamed(bundled.script) });
  return {
    [REPORT_FILES.script]: script,
    [REPORT_FILES.style]: style,
    [REPORT_FILES.hashes]: JSON.stringify(hashes),
  };
}

/**
 * A script that esbuild has minified, with names that oxc chose, which Vite brings along: by how often they occur,
 * those of private fields too. Gzipped this is 3 % less than with esbuild's names. Only names and spaces change.
 */
function renamed(script: string): string {
  const { code, errors } = minifySync("script.js", script, {
    module: true,
    compress: false,
    mangle: { toplevel: true },
    codegen: { removeWhitespace: true, legalComments: "inline" },
  });
  check(errors.length === 0, () => `site: ${errors[0]!.message}`);
  return code;
}

/** The live page with its lists of experiments. */
function withLists(): string {
  const lists: readonly (readonly [id: string, presets: readonly PagePreset[]])[] = [
    ["working", WORKING],
    ["broken", BROKEN],
  ];
  return lists.reduce((text, [id, presets]) => {
    const empty = `<ul id="${id}"></ul>`;
    check(text.includes(empty), () => `site: index.html has no ${empty}`);
    return text.replace(empty, () => `<ul id="${id}">${listHtml(presets)}</ul>`);
  }, sourceOf("index.html"));
}

/** The names of the files that these modules, as esbuild names them, need at once, and not only later. */
function firstFiles({ outputs }: Metafile, modules: readonly string[]): string[] {
  const reached = new Set<string>();
  const visit = (path: string): void => {
    if (reached.has(path)) return;
    reached.add(path);
    for (const own of outputs[path]!.imports) if (own.kind === "import-statement") visit(own.path);
  };
  for (const module of modules) {
    const found = Object.keys(outputs).find((path) => outputs[path]!.entryPoint === module);
    check(found !== undefined, () => `site: esbuild made no file of ${module}`);
    visit(found);
  }
  return [...reached].map((path) => basename(path));
}

const TYPES: Readonly<Record<string, string>> = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".json": "application/json",
};

/**
 * Serves a folder to this machine alone.
 * @param port 0: any that is free
 * @param isolated whether with the headers that isolate a page, so that it may have threads
 */
export async function serveFolder(
  folder: string,
  port: number,
  isolated = true,
): Promise<{ server: Server; address: string }> {
  const isolation = { "Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Embedder-Policy": "require-corp" };
  const headers = isolated ? isolation : {};
  const server = createServer((request, response) => {
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
