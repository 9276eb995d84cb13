/**
 * `npm run site`: makes the live page, the page of the exact gradients, the book and the API reference in site/dist:
 * static files that work offline and under any path. With --serve it also serves them.
 */
import { createHash } from "node:crypto";
import { cpSync, existsSync, mkdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { device } from "../engine/index.ts";
import { check } from "../engine/errors.ts";
import { encodeMetrics, packTranscript } from "../job/records.ts";
import { MOMENTS } from "../job/modelFiles.ts";
import { UsageError, wholeNumber } from "../job/usage.ts";
import { parse, report } from "../node/flags.ts";
import { experimentOf } from "../site/experiment.ts";
import { warmUp } from "../site/session.ts";
import type { WarmStartList } from "../site/warmStart.ts";
import { CHAPTER_BUDGET, makePages, PAGES_BUDGET } from "./book/pages.ts";
import { packageFolder } from "./packageFolder.ts";
import { BUDGETS, makePage, serveFolder } from "./sitePage.ts";

const HELP = `worldgrad: the live page, the book, the API reference

  npm run site -- [flags]

  --serve             serves site/dist after making it
  --port N            where (default 8080)
  --help              this text
`;

async function main(): Promise<number> {
  const values = parse(process.argv.slice(2), {
    serve: { type: "boolean" },
    port: { type: "string" },
    help: { type: "boolean" },
  });
  if (values["help"]) {
    process.stdout.write(HELP);
    return 0;
  }
  const port = wholeNumber("port", (values["port"] as string | undefined) ?? "8080", 0);
  if (values["port"] !== undefined && !values["serve"]) throw new UsageError("--port is about --serve; add it");
  const warm = await warmStartFolder();
  const target = join(packageFolder, "site/dist");
  const sizes = await makePage(target);
  cpSync(warm, join(target, "warm"), { recursive: true });
  for (const page of ["live", "exact"] as const) {
    hold(`site/dist, the ${page} page`, sizes[page].first, BUDGETS[page].first, "before its first step");
    hold(`site/dist, the ${page} page`, sizes[page].all, BUDGETS[page].all, "with all that it may load");
  }
  const { chapters, total } = await makePages(target);
  for (const { page, bytes } of chapters)
    hold(`site/dist/book/${page}.html`, bytes, CHAPTER_BUDGET, "before a cell runs");
  hold("site/dist/book and api", total, PAGES_BUDGET, "in all");
  if (!values["serve"]) return 0;
  const { server, address } = await serveFolder(target, port);
  console.log(`site: ${address}`);
  await new Promise((end) => server.once("close", end));
  return 0;
}

const kb = (bytes: number): string => `${(bytes / 1024).toFixed(1)} KB`;

/** Prints a size in bytes, gzipped. @throws if it is over its budget */
function hold(what: string, bytes: number, budget: number, how: string): void {
  console.log(`${what}: ${kb(bytes)} gzipped, ${how} (at most ${kb(budget)})`);
  check(bytes <= budget, () => `site: ${what} has ${bytes} bytes gzipped, over its budget of ${budget}`);
}

/** Makes the warm start of the page's own experiment, once for each state of its settings. @returns its folder */
async function warmStartFolder(): Promise<string> {
  const { warm: preset } = experimentOf(new URLSearchParams());
  const hash = createHash("sha256").update(JSON.stringify(preset)).digest("hex").slice(0, 12);
  const folder = join(packageFolder, ".cache", `site-warm-start-${hash}`);
  if (existsSync(folder)) return folder;
  console.log("site: the warm start is made once, which takes a minute");
  const on = await device("wasm");
  const quiet = { phase() {}, update() {}, evaluation() {}, transcript() {}, note() {} };
  const warm = (await warmUp(preset, on, quiet, new AbortController().signal))!;
  const draft = `${folder}.tmp`;
  rmSync(draft, { recursive: true, force: true });
  mkdirSync(draft, { recursive: true });
  // RL begins with a new optimiser, whose moments are zeros: a megabyte that a page makes itself.
  const files = Object.entries(warm.files).filter(([name]) => name !== MOMENTS);
  for (const [name, bytes] of files) writeFileSync(join(draft, name), bytes);
  const list: WarmStartList = {
    preset,
    step: warm.step,
    files: files.map(([name]) => name),
    metrics: warm.metrics.map(encodeMetrics),
    transcripts: warm.transcripts.map(packTranscript),
  };
  writeFileSync(join(draft, "warm.json"), JSON.stringify(list));
  renameSync(draft, folder);
  on.dispose();
  return folder;
}

process.exitCode = await main().catch(report);
process.exit();
