/**
 * The bundle in a real browser: one minified file, served over HTTP, trains a transformer in the page on wasm and on
 * webgpu, and gets the numbers that Node gets. Split into chunks, a page loads the executor that it uses and no other.
 */
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { basename } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { type Browser, chromium, type Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import * as worldgrad from "../../index.ts";
import { FOR_BROWSERS } from "../../scripts/forBrowsers.ts";
import { gpuOptions } from "../support/gpu.ts";

const PAGE = `<!doctype html><title>worldgrad</title><link rel="icon" href="data:,">
<script type="module">
  import * as worldgrad from "/worldgrad.min.js";
  window.worldgrad = worldgrad;
</script>`;

/**
 * SwiftShader, wherever the test runs: a GPU process without a display has nothing else that is the same everywhere.
 */
const FLAGS = [
  "--no-sandbox",
  "--enable-unsafe-webgpu",
  "--use-webgpu-adapter=swiftshader",
  "--use-vulkan=swiftshader",
];

/**
 * What runs here and, as its own text, in the page: so it may use nothing but its arguments.
 * @returns the losses of a few steps, the elements of a gradient, and what computed them
 */
async function train(
  lib: typeof worldgrad,
  kind: "wasm" | "webgpu",
  options: worldgrad.DeviceOptions,
): Promise<{ losses: number[]; embedding: number[]; description: string }> {
  const on = await lib.device(kind, options);
  const config = lib.modelConfig({
    vocabSize: 11,
    hiddenSize: 16,
    layers: 2,
    heads: 2,
    kvHeads: 1,
    maxPositions: 8,
    initializerRange: 0.2,
  });
  const params = lib.initParams(config, new lib.Rng(7).split("init"), on);
  const optimizer = new lib.AdamW(params, { lr: 0.01, clipNorm: 1 });
  const count = (from: number): Int32Array => Int32Array.from({ length: 24 }, (_, i) => (from + 3 * (i >> 3) + i) % 11);
  const losses: number[] = [];
  for (let n = 0; n < 5; n++) {
    const loss = lib.scope(() => {
      const [ids, targets] = [n, n + 1].map((from) => lib.tensor(count(from), { shape: [3, 8], device: on }));
      const { value, grads } = lib.valueAndGrad((p: typeof params) =>
        lib.crossEntropy(lib.logits(p, lib.forward(p, config, ids!)), targets!),
      )(params);
      optimizer.step(grads);
      return value;
    });
    losses.push(await loss.item());
  }
  const result = { losses, embedding: [...(await params.embedding.read())], description: on.description };
  on.dispose();
  return result;
}
type Result = Awaited<ReturnType<typeof train>>;

let browser: Browser | undefined;
let server: Server | undefined;
let page: Page;
const problems: string[] = [];
const requests: string[] = [];
let origin = "";

const entryPoints = { worldgrad: fileURLToPath(new URL("../../index.ts", import.meta.url)) };

beforeAll(async () => {
  const whole = await build({ ...FOR_BROWSERS, entryPoints, outdir: "/" });
  const split = await build({ ...FOR_BROWSERS, entryPoints, splitting: true, outdir: "/chunks" });
  const chunks = split.outputFiles.map(({ path, contents }) => [`/chunks/${basename(path)}`, contents] as const);
  const files = new Map<string, string | Uint8Array>([
    ["/", PAGE],
    ["/worldgrad.min.js", whole.outputFiles[0]!.contents],
    ["/split", PAGE.replace("/worldgrad.min.js", "/chunks/worldgrad.js")],
    ...chunks,
  ]);
  server = createServer(({ url }, response) => {
    const file = files.get(url!);
    const type = typeof file === "string" ? "text/html" : "text/javascript";
    response.writeHead(file === undefined ? 404 : 200, { "content-type": type });
    response.end(file);
  });
  await new Promise<void>((resolve) => server!.listen(0, "127.0.0.1", resolve));
  origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  const executablePath = process.env["WORLDGRAD_CHROMIUM"];
  if (executablePath === undefined) throw new Error("no Chromium found: set WORLDGRAD_CHROMIUM to one");
  browser = await chromium.launch({ executablePath, args: FLAGS });
  page = await browser.newPage();
  page.on("console", (message) => problems.push(`${message.type()}: ${message.text()}`));
  page.on("pageerror", (error) => problems.push(error.message));
  page.on("request", (request) => requests.push(request.url()));
  await page.goto(origin);
  await page.waitForFunction("window.worldgrad !== undefined");
}, 60_000);

afterAll(async () => {
  await browser?.close();
  server?.close();
});

const inPage = (kind: "wasm" | "webgpu"): Promise<Result> =>
  page.evaluate<Result>(`(${train.toString()})(window.worldgrad, ${JSON.stringify(kind)}, {})`);

test("wasm: the bits of Node", async () => {
  const [here, there] = [await train(worldgrad, "wasm", {}), await inPage("wasm")];
  console.info(`in the page: ${there.description}, losses ${there.losses.map((x) => x.toFixed(6)).join(" ")}`);
  expect(here.losses[4]).toBeLessThan(here.losses[0]!);
  expect(there.losses).toEqual(here.losses);
  expect(there.embedding).toEqual(here.embedding);
});

test("webgpu: the numbers of Node, to the precision of another driver", async () => {
  const [here, there] = [await train(worldgrad, "webgpu", { webgpu: gpuOptions }), await inPage("webgpu")];
  console.info(`in the page: ${there.description}, losses ${there.losses.map((x) => x.toFixed(6)).join(" ")}`);
  const onWasm = await train(worldgrad, "wasm", {});
  expect(there.losses).toHaveLength(5);
  there.losses.forEach((loss, n) => {
    expect(Math.abs(loss - here.losses[n]!)).toBeLessThan(1e-4);
    expect(Math.abs(loss - onWasm.losses[n]!)).toBeLessThan(1e-4);
  });
});

test('"auto" says what it takes, and an error in the page is the error in Node', async () => {
  const [line, message] = await page.evaluate<[string, string]>(`(async () => {
    const { device, tensor, matmul } = window.worldgrad;
    let line = "";
    const on = await device("auto", { log: (text) => (line = text) });
    const x = tensor([[1, 2]], { device: on });
    try { matmul(x, x); } catch (error) { return [line, error.message]; }
  })()`);
  expect(line).toMatch(/^worldgrad: using wasm.*, because there is only a software WebGPU adapter: .*swiftshader/i);
  expect(message).toBe("matmul: inner dimensions differ: [1, 2] · [1, 2]");
});

test("the page complained of nothing and asked for nothing but its two files", () => {
  expect(problems).toEqual([]);
  expect(requests).toEqual([origin, `${origin}worldgrad.min.js`]);
});

test("split into chunks, a page loads the executor that it uses when it uses it", async () => {
  const asked: string[] = [];
  const splitPage = await browser!.newPage();
  splitPage.on("request", (request) => asked.push(request.url().replace(/.*\/|-\w+\.js$/g, "")));
  splitPage.on("pageerror", (error) => problems.push(error.message));
  await splitPage.goto(`${origin}split`);
  await splitPage.waitForFunction("window.worldgrad !== undefined");
  const trainOn = (kind: "wasm" | "webgpu"): Promise<Result> =>
    splitPage.evaluate<Result>(`(${train.toString()})(window.worldgrad, ${JSON.stringify(kind)}, {})`);
  expect(asked).not.toContain("wasm");
  expect((await trainOn("wasm")).losses).toEqual((await train(worldgrad, "wasm", {})).losses);
  expect(asked).toContain("wasm");
  expect(asked).not.toContain("webgpu");
  await trainOn("webgpu");
  expect(asked).toContain("webgpu");
  expect(asked).not.toContain("threads"); // the page is not cross-origin isolated
  expect(problems).toEqual([]);
});
