/** The live page's files, and a server for them: for `npm run site` and for the tests that open the page. */
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { createServer, type Server } from "node:http";
import { extname, join, normalize, sep } from "node:path";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";
import { FOR_BROWSERS } from "./forBrowsers.ts";
import { packageFolder } from "./packageFolder.ts";

const source = join(packageFolder, "site");

/**
 * Makes the page in the folder `target`, which is emptied first: static files that work under any path.
 * @returns the bytes of all of them together, gzipped
 */
export async function makePage(target: string): Promise<number> {
  rmSync(target, { recursive: true, force: true });
  mkdirSync(target, { recursive: true });
  await build({
    ...FOR_BROWSERS,
    entryPoints: ["page.ts", "agent.ts", "page.css"].map((name) => join(source, name)),
    outdir: target,
    splitting: true,
    write: true,
    legalComments: "linked",
  });
  cpSync(join(source, "index.html"), join(target, "index.html"));
  return readdirSync(target).reduce((sum, name) => sum + gzipSync(readFileSync(join(target, name))).length, 0);
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
