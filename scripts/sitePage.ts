/** Pages of the site as files, and a server for them: for `npm run site` and for the tests that open the pages. */
import { existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import { extname, join, normalize, sep } from "node:path";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";
import { type MinifyOptions, type OutputChunk, rolldown } from "rolldown";
import { minifySync } from "rolldown/utils";
import { check } from "../engine/errors.ts";
import { experimentOf } from "../site/experiment.ts";
import { leadHtml } from "../site/lead.ts";
import { BROKEN, listHtml, type PagePreset, WORKING } from "../site/presets.ts";
import { REPORT_FILES } from "../site/saveReport.ts";
import { KNOWS } from "../run/knownFacts.ts";
import { bundleScript, withHashes } from "../run/page/assets.ts";
import { FOR_BROWSERS } from "./forBrowsers.ts";
import { packageFolder } from "./packageFolder.ts";

const source = join(packageFolder, "site");

/** Bytes, gzipped, with legal notices and without the weights of a warm start. */
export interface PageSize {
  /** Loaded before its first step, or its first figures. */
  readonly first: number;
  /** Loaded at most, with everything on demand: another executor, threads, doctor, reports, programs. */
  readonly all: number;
}

/** Limit of what the live page loads before its first step, in bytes, gzipped. */
export const MOST_BEFORE_THE_FIRST_STEP = 200 * 1024;

/**
 * A page: its text and style, the modules that become files, by the names of these files, and texts of further files.
 */
interface Page {
  readonly html: string;
  readonly style: string;
  readonly text: () => string;
  readonly entries: Readonly<Record<string, string>>;
  readonly files?: () => Promise<Readonly<Record<string, string>>>;
  /** Further files that the page loads at once. */
  readonly firstFiles?: readonly string[];
}

const sourceOf = (html: string): string => readFileSync(join(source, html), "utf8");

/** The pages. Each is bundled alone: shared chunks would be more and larger for both. */
const PAGES = {
  live: {
    html: "index.html",
    style: "page.css",
    text: withData,
    entries: { page: "page.ts", agent: "agent.ts" },
    files: drawingFiles,
    firstFiles: [REPORT_FILES.style],
  },
  exact: {
    html: "exact.html",
    style: "exact.css",
    text: () => sourceOf("exact.html"),
    entries: { exact: "exact/page.ts", exactWorker: "exact/worker.ts" },
  },
} satisfies Record<string, Page>;

export type SiteSizes = Readonly<Record<keyof typeof PAGES, PageSize>>;

/** The executor with which every page begins. */
const EXECUTOR = "engine/backends/wasm.ts";

/** Makes the pages in the folder `target`, which it empties first: static files that work under any path. */
export async function makePage(target: string): Promise<SiteSizes> {
  rmSync(target, { recursive: true, force: true });
  mkdirSync(target, { recursive: true });
  return { live: await makeOne(target, PAGES.live), exact: await makeOne(target, PAGES.exact) };
}

async function makeOne(target: string, page: Page): Promise<PageSize> {
  const chunks = await bundleModules(page.entries);
  for (const { fileName, code } of chunks) writeFileSync(join(target, fileName), code);
  const texts = { [page.html]: page.text(), [page.style]: await bundleStyle(page.style), ...(await page.files?.()) };
  for (const [name, text] of Object.entries(texts)) writeFileSync(join(target, name), text);
  const gzipped = (names: Iterable<string>): number =>
    [...names].reduce((sum, name) => sum + gzipSync(readFileSync(join(target, name))).length, 0);
  const entries = Object.values(page.entries).map((file) => join(source, file));
  const first = [page.html, page.style, ...(page.firstFiles ?? [])];
  return {
    first: gzipped([...first, ...firstFiles(chunks, [...entries, join(packageFolder, EXECUTOR)])]),
    all: gzipped([...Object.keys(texts), ...chunks.map(({ fileName }) => fileName)]),
  };
}

/** Options of the minifier: names get shorter the more often they occur, private fields included. */
const SHORT = {
  compress: { target: "es2023" },
  mangle: { toplevel: true },
  codegen: { removeWhitespace: true, legalComments: "inline" },
} as const satisfies MinifyOptions;

/** Readers of settings, in one file, which only an address with settings loads (tests/site/browser/fetched.test.ts). */
const OF_SETTINGS = /\/site\/(words|experiment)\./;

/**
 * Bundles modules for the page and its workers, which share files. All static imports are one file, because many small
 * files are a tenth larger, each gzipped alone; dynamic imports have their own files. The entries stay apart: one runs
 * in the page, the other in a worker.
 * @param entries files of site/, by the names of their bundles
 */
async function bundleModules(entries: Readonly<Record<string, string>>): Promise<OutputChunk[]> {
  const input = Object.fromEntries(Object.entries(entries).map(([name, file]) => [name, join(source, file)]));
  const paths = new Set(Object.values(input));
  await using bundle = await rolldown({
    input,
    cwd: packageFolder,
    platform: "browser",
    external: [`./${REPORT_FILES.script}`],
    onLog: (_level, { code, message }) => {
      // Tasks of an environment are in its own file and in that of self-play, whichever is loaded first.
      check(code === "INEFFECTIVE_DYNAMIC_IMPORT", () => `site: ${message}`);
    },
  });
  const { output } = await bundle.generate({
    format: "esm",
    minify: SHORT,
    entryFileNames: "[name].js",
    chunkFileNames: "[name]-[hash].js",
    codeSplitting: {
      groups: [
        { name: "shared", tags: ["$initial"], test: (id) => !paths.has(id), priority: 1 },
        { name: "settings", test: OF_SETTINGS },
      ],
    },
  });
  return output.filter((file) => file.type === "chunk");
}

async function bundleStyle(name: string): Promise<string> {
  const { outputFiles } = await build({ ...FOR_BROWSERS, entryPoints: [join(source, name)] });
  return outputFiles[0]!.text;
}

/** Files that draw on the live page and in saved reports: a script, a style, and their hashes. */
async function drawingFiles(): Promise<Readonly<Record<string, string>>> {
  const bundled = await bundleScript("../../site/drawing.ts");
  const { script, style, ...hashes } = withHashes({ ...bundled, script: shortened(bundled.script) });
  return {
    [REPORT_FILES.script]: script,
    [REPORT_FILES.style]: style,
    [REPORT_FILES.hashes]: JSON.stringify(hashes),
  };
}

/** A script minified by esbuild, shortened further like those of the page. */
function shortened(script: string): string {
  const { code, errors } = minifySync("script.js", script, { module: true, ...SHORT });
  check(errors.length === 0, () => `site: ${errors[0]!.message}`);
  return code;
}

/** Text of the live page with its lists of experiments, and what it says of its own one, with the settings. */
function withData(): string {
  const lists: readonly (readonly [id: string, presets: readonly PagePreset[]])[] = [
    ["working", WORKING],
    ["broken", BROKEN],
  ];
  const filled = (text: string, tag: string, id: string, content: string): string => {
    const [start, end] = [`<${tag} id="${id}">`, `</${tag.split(" ")[0]!}>`];
    check(text.includes(start + end), () => `site: index.html has no ${start}${end}`);
    return text.replace(start + end, () => start + content + end);
  };
  const listed = lists.reduce(
    (text, [id, presets]) => filled(text, "ul", id, listHtml(presets)),
    sourceOf("index.html"),
  );
  // Settings are numbers and names of this project, without a "<" that could end the element.
  const own = experimentOf(new URLSearchParams());
  const settings = JSON.stringify(own);
  check(!settings.includes("<"), () => `site: expected settings without "<", got ${settings}`);
  const withLead = filled(filled(listed, "p", "lead", leadHtml(own)), "span", "knows", KNOWS);
  return filled(withLead, 'script type="application/json"', "experiment", settings);
}

/** Names of the files that these modules, given by path, import statically. */
function firstFiles(chunks: readonly OutputChunk[], modules: readonly string[]): Set<string> {
  const reached = new Set<string>();
  const visit = (chunk: OutputChunk): void => {
    if (reached.has(chunk.fileName)) return;
    reached.add(chunk.fileName);
    for (const name of chunk.imports) for (const other of chunks) if (other.fileName === name) visit(other);
  };
  for (const module of modules) {
    const found = chunks.find(({ moduleIds }) => moduleIds.includes(module));
    check(found !== undefined, () => `site: no file has ${module}`);
    visit(found);
  }
  return reached;
}

const TYPES: Readonly<Record<string, string>> = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".json": "application/json",
};

/**
 * Serves a folder to this machine only.
 * @param port 0 for any free port
 * @param isolated whether to send the headers that isolate a page, so that it may have threads
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

/** The file of an address; undefined if the folder has none. */
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
