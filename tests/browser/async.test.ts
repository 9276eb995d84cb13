/**
 * Asynchronous training in a real browser: a page learns on WebAssembly while Web Workers, each with a module of its
 * own, play. At staleness 0 that is the page's synchronous run, bit for bit; with more, a worker that is terminated is
 * missed and replaced.
 */
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { type Browser, chromium, type Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import type * as worldgrad from "../../index.ts";

const TIMEOUT = 300_000; // real work, on a machine that may be busy

const PAGE = `<!doctype html><title>worldgrad</title><link rel="icon" href="data:,">
<script type="module">
  import * as worldgrad from "/worldgrad.js";
  window.worldgrad = worldgrad;
</script>`;

/** All that an application needs for a worker. */
const ROLLOUTS = `
  import { calculator, serveRollouts } from "/worldgrad.js";
  serveRollouts(self, { environments: { calculator } });`;

interface How {
  /** Undefined: the synchronous run. */
  readonly maxStaleness?: number;
  readonly schedule?: "free" | "fixed";
  readonly steps: number;
  /** A worker is terminated after this step. */
  readonly terminateAfter?: number;
}

interface Run {
  readonly metrics: Record<string, number>[];
  readonly weights: number[];
  readonly workers: number;
}

/** What runs in the page, as its own text: so it may use nothing but its arguments and what a page has. */
async function train(
  lib: typeof worldgrad,
  { maxStaleness, schedule = "free", steps, terminateAfter }: How,
): Promise<Run> {
  const page = globalThis as unknown as {
    readonly Worker: new (url: string, options: { readonly type: "module" }) => worldgrad.WebWorkerLike;
  };
  const on = await lib.device("wasm");
  const template = new lib.Template(lib.byteTokenizer({ specials: lib.SPECIAL_TOKENS }));
  const config = lib.modelConfig({
    vocabSize: template.tokenizer.vocabSize,
    hiddenSize: 16,
    layers: 1,
    heads: 2,
    maxPositions: 128,
    initializerRange: 0.2,
  });
  const model = { config, params: lib.initParams(config, new lib.Rng(3).split("init"), on) };
  const options: worldgrad.RlOptions = {
    model,
    template,
    optimizer: new lib.AdamW(model.params),
    lr: lib.schedule({ lr: 0.01 }),
    objective: lib.objectiveOf({ method: "grpo+echo" }),
    env: lib.calculator,
    envOptions: { split: "train" },
    groups: 2,
    groupSize: 2,
    rollout: { maxTurns: 2, maxActionTokens: 6 },
    steps,
    rng: new lib.Rng(7),
  };
  const made: worldgrad.WebWorkerLike[] = [];
  const workers = lib.messageWorkers(2, () => {
    made.push(new page.Worker("/rollouts.js", { type: "module" }));
    return made.at(-1)!;
  });
  // A worker that is terminated from outside says nothing of it: it is missed. Here soon, elsewhere after a minute.
  const patience = terminateAfter === undefined ? {} : { patience: 5, maxRestarts: 100 };
  const run =
    maxStaleness === undefined
      ? lib.trainRl(options)
      : lib.trainRlAsync({ ...options, ...patience, workers, maxStaleness, schedule });
  const metrics: Record<string, number>[] = [];
  for await (const report of run) {
    metrics.push({ ...report.metrics });
    if (report.step === terminateAfter) made[0]!.terminate();
  }
  const weights = [...(await model.params.embedding.read())];
  on.dispose();
  return { metrics, weights, workers: made.length };
}

let browser: Browser | undefined;
let server: Server | undefined;
let page: Page;
const problems: string[] = [];

beforeAll(async () => {
  const { outputFiles } = await build({
    entryPoints: [fileURLToPath(new URL("../../index.ts", import.meta.url))],
    bundle: true,
    write: false,
    format: "esm",
    platform: "browser",
    target: "es2023",
  });
  const files: Readonly<Record<string, { readonly type: string; readonly body: string | Uint8Array }>> = {
    "/": { type: "text/html", body: PAGE },
    "/worldgrad.js": { type: "text/javascript", body: outputFiles[0]!.contents },
    "/rollouts.js": { type: "text/javascript", body: ROLLOUTS },
  };
  server = createServer(({ url }, response) => {
    const file = files[url!];
    response.writeHead(file ? 200 : 404, { "content-type": file?.type ?? "text/plain" }).end(file?.body);
  });
  await new Promise<void>((resolve) => server!.listen(0, "127.0.0.1", resolve));
  const executablePath = process.env["WORLDGRAD_CHROMIUM"];
  if (executablePath === undefined) throw new Error("no Chromium found: set WORLDGRAD_CHROMIUM to one");
  browser = await chromium.launch({ executablePath, args: ["--no-sandbox"], timeout: 100_000 });
  page = await browser.newPage();
  page.on("console", (message) => problems.push(`${message.type()}: ${message.text()}`));
  page.on("pageerror", (error) => problems.push(error.message));
  await page.goto(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`);
  await page.waitForFunction("window.worldgrad !== undefined");
}, 120_000);

afterAll(async () => {
  await browser?.close();
  server?.close();
});

const inPage = (how: How): Promise<Run> =>
  page.evaluate<Run>(`(${train.toString()})(window.worldgrad, ${JSON.stringify(how)})`);
const common = ({ metrics }: Run): unknown =>
  metrics.map((of) => Object.fromEntries(Object.entries(of).filter(([name]) => !name.startsWith("async/"))));

test("staleness 0: the page's synchronous run, bit for bit", { timeout: TIMEOUT }, async () => {
  const sync = await inPage({ steps: 4 });
  const async = await inPage({ steps: 4, maxStaleness: 0 });
  expect(async.workers).toBe(2);
  expect(sync.metrics.length).toBe(4);
  expect(common(async)).toEqual(common(sync));
  expect(async.weights).toEqual(sync.weights);
  for (const of of async.metrics) expect(of["async/staleness_max"]).toBe(0);
});

test(
  "staleness 1: the same run every time, also if a worker is terminated, which is then replaced",
  { timeout: TIMEOUT },
  async () => {
    const how = { steps: 4, maxStaleness: 1, schedule: "fixed" } as const;
    const calm = await inPage(how);
    const { metrics, weights, workers } = await inPage({ ...how, terminateAfter: 1 });
    expect(metrics.map((of) => of["async/staleness_max"])).toEqual([0, 1, 1, 1]);
    expect(workers).toBeGreaterThan(2);
    expect(metrics.reduce((sum, of) => sum + of["async/restarts"]!, 0)).toBe(workers - 2);
    expect(common({ metrics, weights, workers })).toEqual(common(calm));
    expect(weights).toEqual(calm.weights);
    for (const of of metrics) expect(of["loss"]).toSatisfy(Number.isFinite);
  },
);

test("a script that does not exist ends the run in one line", { timeout: TIMEOUT }, async () => {
  const missing = train.toString().replace("/rollouts.js", "/nowhere.js");
  const said = await page.evaluate<string>(
    `(${missing})(window.worldgrad, { steps: 1, maxStaleness: 0 }).then(() => "no error", (error) => error.message)`,
  );
  expect(said).toMatch(/^trainRlAsync: every rollout worker has ended, after 6 restarts; the last one: /);
});

test("the page complained of nothing but the script that does not exist", () => {
  expect(problems.filter((text) => !text.includes("404"))).toEqual([]);
});
