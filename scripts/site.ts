/**
 * `npm run site`: the live page, the page of the exact gradients, the book, the API reference and the documents in
 * site/dist, as static files that work offline and under any path. With --serve it also serves them.
 */
import { cpSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { check } from "../engine/errors.ts";
import { UsageError, wholeNumber } from "../run/usage.ts";
import { parse, report } from "../run/node/flags.ts";
import { makePages } from "./book/pages.ts";
import { packageFolder } from "./packageFolder.ts";
import { makePage, MOST_BEFORE_THE_FIRST_STEP, serveFolder } from "./sitePage.ts";
import { warmStartFolder } from "./siteWarmStart.ts";

const HELP = `worldgrad: the live page, the book, the API reference, the docs

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
  if (values["port"] !== undefined && !values["serve"]) throw new UsageError("--port needs --serve");
  const warm = await warmStartFolder();
  const target = join(packageFolder, "site/dist");
  const sizes = await makePage(target);
  cpSync(warm, join(target, "warm"), { recursive: true });
  for (const page of ["live", "exact"] as const) {
    tell(`site/dist, the ${page} page`, sizes[page].first, "before its first step");
    tell(`site/dist, the ${page} page`, sizes[page].all, "with all that it may load");
  }
  check(
    sizes.live.first <= MOST_BEFORE_THE_FIRST_STEP,
    () => `site: the live page loads more than ${kb(MOST_BEFORE_THE_FIRST_STEP)} before its first step`,
  );
  const { chapters, total } = await makePages(target);
  for (const { page, bytes } of chapters) tell(`site/dist/book/${page}.html`, bytes, "before a cell runs");
  tell("site/dist/book, api and docs", total, "in all");
  if (!values["serve"]) return 0;
  const { server, address } = await serveFolder(target, port);
  console.log(`site: ${address}`);
  await new Promise((end) => server.once("close", end));
  return 0;
}

const kb = (bytes: number): string => `${(bytes / 1024).toFixed(1)} KB`;

/** Prints a size in bytes, gzipped. */
function tell(what: string, bytes: number, how: string): void {
  console.log(`${what}: ${kb(bytes)} gzipped, ${how}`);
}

process.exitCode = await main().catch(report);
process.exit();
