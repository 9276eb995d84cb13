/**
 * Three projects: `unit` (everything but tests/browser; WGSL runs on the adapter that `tests/support/adapter.ts` finds)
 * and `browser` (pages in a Chromium; without one the run says so in one line and goes on, CI fails) are `npm test`;
 * `long` (`*.long.test.ts`: whole programs, played to their ends) is `npm run test:long`, a step of CI.
 */
import { existsSync } from "node:fs";
import { defineConfig, type ViteUserConfig } from "vitest/config";
import { provisionAdapter } from "./tests/support/adapter.ts";

const firstTime = process.env["WORLDGRAD_PROVISIONED"] === undefined;
// Before any worker starts: the dynamic linker reads LD_LIBRARY_PATH once, when a process begins, and workers are forks
// of this one.
const adapter = provisionAdapter();
Object.assign(process.env, adapter.env);
// lavapipe compiles each shader once per machine (Mesa's cache in the home folder); without optimisation that takes
// 54 s of processor time less in a first run of all tests, and running the shaders takes 11 s more in each.
if (adapter.name === "lavapipe") process.env["GALLIVM_PERF"] ??= "nopt";

const CHROMIUMS = [
  "/usr/bin/chromium",
  "/usr/bin/chromium-browser",
  "/usr/bin/google-chrome-stable",
  "/usr/bin/google-chrome",
];
const chromium = process.env["WORLDGRAD_CHROMIUM"] ?? CHROMIUMS.find((path) => existsSync(path));
if (chromium !== undefined) process.env["WORLDGRAD_CHROMIUM"] = chromium;
else if (process.env["CI"])
  throw new Error("tests/browser: no Chromium found, and CI must have one (set WORLDGRAD_CHROMIUM)");
else if (firstTime) console.warn("tests/browser: not run, no Chromium found (set WORLDGRAD_CHROMIUM to its path)");

// A second engine, for one file.
const firefox = process.env["WORLDGRAD_FIREFOX"] ?? ["/usr/bin/firefox-esr", "/usr/bin/firefox"].find(existsSync);
if (firefox !== undefined) process.env["WORLDGRAD_FIREFOX"] = firefox;
else if (process.env["CI"])
  throw new Error("tests/browser/firefox.test.ts: no Firefox found, and CI must have one (set WORLDGRAD_FIREFOX)");
else if (firstTime) console.warn("tests/browser/firefox.test.ts: not run, no Firefox found (set WORLDGRAD_FIREFOX)");

const needsGpu = ["tests/**/*wgsl*.test.ts", "tests/**/*webgpu*.test.ts"];

const config: ViteUserConfig = defineConfig({
  test: {
    // Forks, not threads: Dawn aborts when an adapter is requested inside a worker thread (node-webgpu issue 13).
    pool: "forks",
    maxWorkers: 2,
    // One process per test file already; tests of threads ask for theirs by name.
    env: { WORLDGRAD_THREADS: "1" },
    testTimeout: 20_000,
    hookTimeout: 30_000,
    projects: [
      {
        extends: true,
        test: {
          name: "unit",
          // Two processes for all files: each file would else load the engine anew.
          isolate: false,
          setupFiles: "tests/support/noDefaultDevice.ts",
          globalSetup: "tests/support/programs.ts",
          include: ["tests/**/*.test.ts"],
          exclude: ["tests/browser/**", "tests/**/*.long.test.ts", ...(adapter.name === "off" ? needsGpu : [])],
        },
      },
      ...(chromium === undefined
        ? []
        : [
            {
              extends: true as const,
              test: {
                name: "browser",
                include: ["tests/browser/**/*.test.ts"],
                exclude: [
                  "tests/**/*.long.test.ts",
                  ...(firefox === undefined ? ["tests/browser/firefox.test.ts"] : []),
                ],
                testTimeout: 60_000,
              },
            },
          ]),
      {
        extends: true,
        test: {
          name: "long",
          globalSetup: "tests/support/programs.ts",
          include: ["tests/**/*.long.test.ts"],
          exclude: chromium === undefined ? ["tests/browser/**"] : [],
          testTimeout: 300_000,
        },
      },
    ],
  },
});

export default config;
