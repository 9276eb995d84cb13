/**
 * The projects of the tests:
 *
 *     npm test             `unit`: the library, with WGSL on the adapter that `tests/support/adapter.ts` finds
 *     npm run test:pages   in browsers: `browser`, the library in pages, `site`, the modules of the live page and the
 *                          book, and `pages`, they in Chromium and Firefox
 *     npm run test:long    `long`, *.long.test.ts: whole programs, played to their ends, with real servers
 *     npm run test:thorough
 *                          `thorough`, files of `unit` again whose tests draw what they try, with all draws
 *
 * CI runs all but the last, which has a job of its own in .github/workflows/checks.yml. Without a browser or a server
 * those that need one say so in one line and go on; CI fails.
 */
import { existsSync } from "node:fs";
import type { TestProjectInlineConfiguration, ViteUserConfig } from "vitest/config";
import { provisionAdapter } from "./tests/support/adapter.ts";
import { THOROUGH } from "./tests/support/tries.ts";

const firstTime = process.env["WORLDGRAD_PROVISIONED"] === undefined;
// Before any worker starts: the dynamic linker reads LD_LIBRARY_PATH once, when a process begins, and workers are forks
// of this one.
const adapter = provisionAdapter();
Object.assign(process.env, adapter.env);
// lavapipe compiles each shader once per machine (Mesa's cache in the home folder); without optimisation that takes
// 54 s of processor time less in a first run of all tests, and running the shaders takes 11 s more in each.
if (adapter.name === "lavapipe") {
  process.env["GALLIVM_PERF"] ??= "nopt";
  // Workgroups run one after the other in the thread that has the queue: two test processes fill two cores already, and
  // threads for dispatches of a few workgroups take a tenth of the processor time. In CI's second pass, on
  // SwiftShader, workgroups run at once.
  process.env["LP_NUM_THREADS"] ??= "0";
}

const CHROMIUMS = [
  "/usr/bin/chromium",
  "/usr/bin/chromium-browser",
  "/usr/bin/google-chrome-stable",
  "/usr/bin/google-chrome",
];
const chromium = process.env["WORLDGRAD_CHROMIUM"] ?? CHROMIUMS.find((path) => existsSync(path));
if (chromium !== undefined) process.env["WORLDGRAD_CHROMIUM"] = chromium;
else if (process.env["CI"])
  throw new Error("tests in browsers: no Chromium found, and CI must have one (set WORLDGRAD_CHROMIUM)");
else if (firstTime) console.warn("tests in browsers: not run, no Chromium found (set WORLDGRAD_CHROMIUM to its path)");

// A second engine, for one file.
const firefox = process.env["WORLDGRAD_FIREFOX"] ?? ["/usr/bin/firefox-esr", "/usr/bin/firefox"].find(existsSync);
if (firefox !== undefined) process.env["WORLDGRAD_FIREFOX"] = firefox;
else if (process.env["CI"])
  throw new Error("tests/site/browser/firefox.test.ts: no Firefox found, and CI must have one (set WORLDGRAD_FIREFOX)");
else if (firstTime)
  console.warn("tests/site/browser/firefox.test.ts: not run, no Firefox found (set WORLDGRAD_FIREFOX)");

// Debian's package nats-server, for runs with workers on other machines.
const nats = process.env["WORLDGRAD_NATS_SERVER"] ?? ["/usr/sbin/nats-server", "/usr/bin/nats-server"].find(existsSync);
if (nats !== undefined) process.env["WORLDGRAD_NATS_SERVER"] = nats;
else if (process.env["CI"])
  throw new Error("tests/distribute/nats: no nats-server found, and CI must have one (set WORLDGRAD_NATS_SERVER)");
else if (firstTime)
  console.warn("tests/distribute/nats: the long ones are not run, no nats-server found (set WORLDGRAD_NATS_SERVER)");
const needsNats = nats === undefined ? ["tests/distribute/nats/*.long.test.ts"] : [];

const needsGpu = ["tests/**/*wgsl*.test.ts", "tests/**/*webgpu*.test.ts"];

const LONG = "tests/**/*.long.test.ts";
const BROWSER = ["tests/browser/**", "tests/site/browser/**"];
const FIREFOX = "tests/site/browser/firefox.test.ts";

/** Makes the live page once, for all files that open it. */
const SITE_PAGES = "tests/support/sitePages.ts";

/** Two processes for all files: each file would else load the engine anew. */
const TOGETHER = {
  isolate: false,
  setupFiles: "tests/support/noDefaultDevice.ts",
  globalSetup: "tests/support/programs.ts",
};

/** Tests in a process of their own for each file, with a browser. */
const inBrowsers = (name: string, folder: string, globalSetup: string[] = []): TestProjectInlineConfiguration => ({
  extends: true,
  test: {
    name,
    include: [`${folder}/**/*.test.ts`],
    exclude: [LONG, ...(firefox === undefined ? [FIREFOX] : [])],
    testTimeout: 180_000,
    globalSetup,
  },
});

const config: ViteUserConfig = {
  test: {
    // Forks, not threads: Dawn aborts when an adapter is requested inside a worker thread (node-webgpu issue 13).
    pool: "forks",
    maxWorkers: 2,
    // One process per test file already; tests of threads ask for theirs by name.
    env: { WORLDGRAD_THREADS: "1" },
    // Who waits longer hangs; a busy machine takes ten times as long as an idle one.
    testTimeout: 60_000,
    hookTimeout: 60_000,
    projects: [
      {
        extends: true,
        test: {
          name: "unit",
          ...TOGETHER,
          include: ["tests/**/*.test.ts"],
          exclude: [...BROWSER, "tests/site/**", LONG, ...(adapter.name === "off" ? needsGpu : [])],
        },
      },
      {
        extends: true,
        test: { name: "site", ...TOGETHER, include: ["tests/site/**/*.test.ts"], exclude: [...BROWSER, LONG] },
      },
      {
        extends: true,
        test: {
          name: "long",
          globalSetup: ["tests/support/programs.ts", SITE_PAGES],
          include: [LONG],
          exclude: [...(chromium === undefined ? BROWSER : []), ...needsNats],
          testTimeout: 300_000,
          hookTimeout: 300_000,
        },
      },
      {
        extends: true,
        test: {
          name: "thorough",
          ...TOGETHER,
          include: THOROUGH,
          exclude: [LONG],
          env: { WORLDGRAD_TRIES: "all" },
          testTimeout: 60_000,
        },
      },
      ...(chromium === undefined
        ? []
        : [inBrowsers("browser", "tests/browser"), inBrowsers("pages", "tests/site/browser", [SITE_PAGES])]),
    ],
  },
};

export default config;
