/**
 * examples/embed in a real Chromium: agents that learn in workers of somebody's page, under a strict Content Security
 * Policy, isolated or not; the page's rewards are those that the same agent has in Node, and the page stays responsive.
 */
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { extname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { build as viteBuild } from "vite";
import { FOR_BROWSERS } from "../../scripts/forBrowsers.ts";
import { launchChromium } from "../support/browser.ts";
import { PATIENCE } from "../support/livePage.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const POLICY = [
  "default-src 'none'",
  "script-src 'self' 'wasm-unsafe-eval'",
  "worker-src 'self' blob:",
  "connect-src 'self'",
  "img-src data:",
].join("; ");
const TYPES: Readonly<Record<string, string>> = { ".html": "text/html", ".js": "text/javascript" };
/** What /bare/ is served without. */
const ISOLATION = { "Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Embedder-Policy": "require-corp" };

const folder = mkdtempSync(join(tmpdir(), "worldgrad-embed-"));
let server: Server;
let browser: Browser;

/** A bundle in the place where `npm run build` puts it. */
async function bundle(entry: string, name: string): Promise<void> {
  const { outputFiles } = await build({ absWorkingDir: ROOT, entryPoints: [entry], ...FOR_BROWSERS });
  writeFileSync(join(folder, "dist", name), outputFiles[0]!.contents);
}

beforeAll(async () => {
  mkdirSync(join(folder, "dist"));
  await bundle("index.ts", "worldgrad.min.js");
  await bundle("distribute/worker/agentWorker.ts", "agentWorker.min.js");
  // As the example's `npm run build`, which has no settings of its own; check:consumer builds it from the package.
  await viteBuild({
    root: join(ROOT, "examples/embed/vite"),
    base: "./",
    logLevel: "error",
    configFile: false,
    resolve: {
      alias: [
        { find: "worldgrad/worker", replacement: join(ROOT, "distribute/worker/index.ts") },
        { find: "worldgrad", replacement: join(ROOT, "index.ts") },
      ],
    },
    build: { outDir: join(folder, "vite") },
  });
  server = createServer((request, response) => {
    const [, mode, ...rest] = request.url!.split("?")[0]!.split("/");
    const path = rest.join("/");
    const at = path.startsWith("examples/") ? join(ROOT, path) : join(folder, path);
    const headers = { "Content-Security-Policy": POLICY, ...(mode === "bare" ? {} : ISOLATION) };
    try {
      const body = readFileSync(at);
      response.writeHead(200, { ...headers, "Content-Type": TYPES[extname(at)] ?? "text/plain" }).end(body);
    } catch {
      response.writeHead(404, headers).end();
    }
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  browser = await launchChromium();
}, PATIENCE);
afterAll(async () => {
  await browser.close();
  server.close();
  rmSync(folder, { recursive: true, force: true });
});

async function open(path: string, problems: string[]): Promise<Page> {
  const page = await browser.newPage();
  page.on("console", (message) => problems.push(message.text()));
  page.on("pageerror", (error) => problems.push(error.message));
  await page.goto(`http://localhost:${(server.address() as AddressInfo).port}/${path}`);
  return page;
}

describe.each([
  ["isolated", true],
  ["bare", false],
] as const)("examples/embed/plain, %s", (mode, isIsolated) => {
  test("learns while the page stays responsive, pauses, and plays", { timeout: PATIENCE }, async () => {
    const problems: string[] = [];
    const page = await open(`${mode}/examples/embed/plain/index.html?seed=1`, problems);
    const status = page.locator("#status");
    const button = (name: string): ReturnType<Page["locator"]> => page.getByRole("button", { name, exact: true });
    await expect
      .poll(() => status.innerText(), { timeout: PATIENCE })
      .toBe("The agent has seen twelve games of an expert.");
    expect(await page.evaluate("crossOriginIsolated")).toBe(isIsolated);

    await page.evaluate("globalThis.ticks = 0; setInterval(() => globalThis.ticks++, 50)");
    await button("Train").click();
    await expect.poll(() => status.innerText(), { timeout: PATIENCE }).toMatch(/^step \d\d: mean reward/);
    const before = (await page.evaluate("globalThis.ticks")) as number;
    await page.waitForTimeout(2000);
    const ticks = ((await page.evaluate("globalThis.ticks")) as number) - before;
    // 40 if nothing ever waited. A step takes some 50 to 200 ms: in the page it would leave one tick for each.
    expect(ticks).toBeGreaterThan(30);
    await button("Pause").click();
    await expect.poll(() => button("Train").count(), { timeout: PATIENCE }).toBe(1);
    const paused = await status.innerText();
    await button("Watch a game").click();
    await expect.poll(() => page.locator("#game li").count()).toBeGreaterThan(2);
    const lines = await page.locator("#game li").allInnerTexts();
    expect(lines[0]).toBe("1-5?");
    expect(lines.at(-1)).toMatch(/^(won|lost)$/);
    expect(await status.innerText()).toBe(paused);
    expect(problems).toEqual([]);
    await page.close();
  });
});

test(
  "examples/embed/vite: the agent learns at the doors of the page, under any path",
  { timeout: PATIENCE },
  async () => {
    const problems: string[] = [];
    const page = await open("isolated/vite/index.html?seed=1", problems);
    const status = page.locator("#status");
    const ended = /^Mean reward: ([\d.]+) in the first ten steps, ([\d.]+) in the last ten\.$/;
    await expect.poll(() => status.innerText(), { timeout: PATIENCE }).toMatch(ended);
    const [, first, last] = ended.exec(await status.innerText())!;
    // The games played well have a mean reward of 0.76: 1 for one in five, 0.8 for two, 0.6 for two.
    expect(Number(last)).toBeGreaterThan(Number(first) + 0.1);
    expect(await page.locator("#doors button[style*=outline]").count()).toBe(5);
    expect(problems).toEqual([]);
    await page.close();
  },
);
