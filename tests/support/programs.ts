/**
 * The programs that tests start as processes, compiled once for a whole run of the tests: a process that compiles for
 * itself (tsx) takes ten times as long to start. It is the `globalSetup` of vitest.config.ts.
 */
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { build, type Plugin } from "esbuild";
import { inject } from "vitest";
import type { TestProject } from "vitest/node";

declare module "vitest" {
  interface ProvidedContext {
    /** The folder of the compiled programs. */
    readonly programs: string;
  }
}

const PROGRAMS = [
  "run/cli/main.ts",
  "run/cli/generate.ts",
  "run/cli/evaluate.ts",
  "run/cli/metrics.ts",
  "run/cli/worker.ts",
  "studies/ablate/main.ts",
  "run/arms/cell.ts",
  "studies/doctor/main.ts",
  "run/node/threads.ts",
  "connect/mcp/session.ts",
  "run/node/sandbox/process.ts",
  "tests/support/mcpServer.ts",
  "tests/support/asyncProgram.ts",
  "tests/support/toyRollouts.ts",
  "tests/support/smallRollouts.ts",
];
/** These start the compiled program beside them; other modules look for files beside their source. */
const STARTERS = ["run/arms/jobs.ts", "run/node/threads.ts", "tests/support/asyncProgram.ts"];

const compiledIn = (folder: string, path: string): string => join(folder, path.replace(/\.ts$/, ".mjs"));

/** Bundling moves a module, so `import.meta.url` becomes the place that the module expects. */
const urls = (folder: string): Plugin => ({
  name: "import.meta.url",
  setup({ onLoad }) {
    onLoad({ filter: /\.ts$/ }, ({ path }) => {
      const starter = STARTERS.find((name) => resolve(name) === path);
      const url = pathToFileURL(starter === undefined ? path : compiledIn(folder, starter)).href;
      const text = readFileSync(path, "utf8");
      return { contents: text.replaceAll("import.meta.url", JSON.stringify(url)), loader: "ts" };
    });
  },
});

/** Compiles the programs. @returns what removes them again */
export async function setup(project: TestProject): Promise<() => void> {
  // Inside node_modules, so that the programs find their packages.
  const cache = resolve("node_modules/.cache/worldgrad");
  mkdirSync(cache, { recursive: true });
  const folder = mkdtempSync(join(cache, "programs-"));
  await build({
    entryPoints: PROGRAMS,
    outExtension: { ".js": ".mjs" },
    outbase: ".",
    outdir: folder,
    bundle: true,
    splitting: true,
    packages: "external",
    platform: "node",
    format: "esm",
    target: "node20",
    logLevel: "warning",
    plugins: [urls(folder)],
  });
  project.provide("programs", folder);
  return () => rmSync(folder, { recursive: true, force: true });
}

/** The compiled file of a program such as run/cli/main.ts. */
export const programAt = (path: string): string => compiledIn(inject("programs"), path);
