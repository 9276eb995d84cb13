/**
 * The bundle in a real browser, on WebAssembly and on WebGPU: examples/page.html trains, and gets the numbers that the
 * same steps give in Node. The bundle is made here as scripts/build.ts makes it, so that no build has to go before `npm
 * test`.
 */
import { readFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { chromium, type Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import * as worldgrad from "../../index.ts";
import { FOR_BROWSERS } from "../../scripts/forBrowsers.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const PAGE = readFileSync(`${ROOT}/examples/page.html`, "utf8");
const STEPS = 12;

let server: Server;
let browser: Browser;

beforeAll(async () => {
  const { outputFiles } = await build({
    absWorkingDir: ROOT,
    entryPoints: ["index.ts"],
    ...FOR_BROWSERS,
  });
  const served: Record<string, { type: string; body: string | Uint8Array }> = {
    "/examples/page.html": { type: "text/html", body: PAGE },
    "/dist/worldgrad.min.js": { type: "text/javascript", body: outputFiles[0]!.contents },
  };
  server = createServer((request, response) => {
    const file = served[request.url!.split("?")[0]!];
    response.writeHead(file ? 200 : 404, { "content-type": file?.type ?? "text/plain" }).end(file?.body);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  browser = await chromium.launch({
    executablePath: process.env["WORLDGRAD_CHROMIUM"]!,
    // WebGPU on a software adapter is behind these; a sandbox cannot be had as root in a container.
    args: ["--no-sandbox", "--enable-unsafe-webgpu", "--enable-unsafe-swiftshader"],
  });
}, 60_000);

afterAll(async () => {
  await browser.close();
  server.close();
});

interface Result {
  readonly losses?: number[];
  readonly error?: string;
}

/** Opens the page and waits until it has trained, or has said why not. */
async function trainInBrowser(device: string): Promise<Result & { sample: string; status: string }> {
  const page = await browser.newPage();
  const complaints: string[] = [];
  page.on("pageerror", (error) => complaints.push(error.message));
  const { port } = server.address() as AddressInfo;
  await page.goto(`http://127.0.0.1:${port}/examples/page.html?device=${device}&steps=${STEPS}`);
  await page.waitForSelector("body[data-result]", { state: "attached", timeout: 50_000 });
  const result = JSON.parse((await page.getAttribute("body", "data-result"))!) as Result;
  const [status, sample] = [await page.innerText("#status"), await page.innerText("#sample")];
  await page.close();
  expect(complaints).toEqual([]);
  return { ...result, sample, status };
}

/** The page's own script, run in Node on the library's sources, with stand-ins for what it asks of the page. */
async function trainInNode(device: string): Promise<Result> {
  const script = /<script type="module">([^]*)<\/script>/.exec(PAGE)![1]!;
  const context = { clearRect: () => {}, beginPath: () => {}, lineTo: () => {}, stroke: () => {} };
  const element = { textContent: "", width: 1, height: 1, getContext: () => context };
  const document = { querySelector: () => element, body: { dataset: { result: "" } } };
  const given = { w: worldgrad, document, location: { search: `?device=${device}&steps=${STEPS}` } };
  (globalThis as { inNode?: typeof given }).inNode = given;
  const module = script.replace(/^\s*import .*$/m, "const { w, document, location } = globalThis.inNode;");
  await import(/* @vite-ignore */ `data:text/javascript,${encodeURIComponent(module)}`);
  return JSON.parse(document.body.dataset.result) as Result;
}

describe("the bundle in Chromium", () => {
  let expected: number[];
  beforeAll(async () => {
    expected = (await trainInNode("wasm")).losses!;
  });

  it("trains on WebAssembly and gets Node's numbers, bit for bit", async () => {
    const { losses, sample, status } = await trainInBrowser("wasm");
    expect(status).toContain("wasm");
    expect(losses).toEqual(expected);
    expect(losses!.at(-1)!).toBeLessThan(losses![0]! - 1);
    expect(sample).toMatch(/^One/);
  });

  it("trains on WebGPU and gets the same numbers to rounding", async () => {
    const { losses, status } = await trainInBrowser("webgpu");
    expect(status).toContain("webgpu");
    expect(losses).toHaveLength(STEPS);
    const worst = Math.max(...losses!.map((loss, i) => Math.abs(loss - expected[i]!)));
    // One unit in the last place of these losses is 5e-7, which is also what was measured on SwiftShader.
    expect(worst).toBeLessThan(1e-5);
  });

  it("says why when an executor does not exist", async () => {
    const { error, status } = await trainInBrowser("abacus");
    expect(error).toContain('expected "auto", "wasm", "webgpu" or "reference", got "abacus"');
    expect(status).toBe(error);
  });
});
