/**
 * `npm run runtimes`: what runs under which version of Node, under Bun and under Deno, from the sources. The runtimes
 * are npm's packages of their binaries for Linux on x64, installed into .cache/runtimes; the project does not depend on
 * them.
 *
 *     npm run runtimes                                    all; writes its table into docs/runtimes.md
 *     npm run runtimes -- --only deno,bun --cells serve   some; the table keeps the others
 *     npm run runtimes -- --whole                         the whole core suite, all examples, the whole quick job
 *     npm run runtimes -- --ci                            the newest Node, Bun and Deno, in part; writes nothing
 *
 * It fails if a cell fails otherwise than `KNOWN` says, or takes longer than its limit.
 */
import { spawn, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import process from "node:process";
import { createInterface } from "node:readline";
import { parseArgs } from "node:util";
import { format, resolveConfig } from "prettier";
import { provisionAdapter } from "../tests/support/adapter.ts";
import { cellsOf, withTable } from "./attacks.ts";
import { packageFolder } from "./packageFolder.ts";
import { install, programOf, type Runtime, RUNTIMES } from "./runtimes/install.ts";

/**
 * CI runs everything on Node 20, the oldest, and these cells under the newest of the others. One test of threads has
 * failed once under Deno on a busy machine, so threads are tried in the table alone.
 */
const IN_CI = { runtimes: ["node26", "bun", "deno"], cells: ["core", "quick", "serve"] };

type Known = readonly [test: string, why: string];
/**
 * Tests that are known to fail under a runtime: a part of their names, and why (docs/runtimes.md). Only `--whole` runs
 * them.
 */
const LATE: Known = ["a worker that dies with work in its hands", "it tells of a thread's death after 60 s"];
const KNOWN: Readonly<Record<string, readonly Known[]>> = {
  bun: [LATE],
  deno: [
    LATE,
    ["does not keep the process alive", "the test starts a program by Node's --input-type"],
    ["a kernel that does not compile: op, key", "its WebGPU says where in other words"],
  ],
};

const CORE = ["tests/engine/", "tests/kernels/wasm", "tests/ops/", "tests/nn/", "tests/rl/"];
/** Without the files that take most of the time. */
const CORE_SHORT = [
  ...["arguments", "capture", "device", "grad", "mistakes", "options", "refused"].map(
    (name) => `tests/engine/${name}.`,
  ),
  ...["wasm-backend", "wasm-math", "wasm-rows"].map((name) => `tests/kernels/${name}.`),
  ...["extremes", "heavy", "movement", "reduce"].map((name) => `tests/ops/${name}.`),
  ...["checkpoint", "config", "decoder", "optimizer"].map((name) => `tests/nn/${name}.`),
  ...["columns", "echo", "learner", "rollout", "scoring", "stream"].map((name) => `tests/rl/${name}.`),
];
const WEBGPU = ["tests/engine/webgpu.", "tests/ops/ops-webgpu."];
const EXAMPLES_SHORT = ["dpo.ts", "fused-loss.ts", "mcp.ts", "run-folder.ts"];
/** Seconds that a process may take; a test may take a fifth. */
const LIMIT_S = { short: 600, whole: 3600 };

const PAGE = join(packageFolder, "docs/runtimes.md");
const HEAD = ["Runtime", "Core suite", "Examples", "Quick job", "`serve`", "Threads", "WebGPU"];
const MODEL = "tests/fixtures/pretrained/stories260K";

const CELLS: Readonly<Record<string, (runtime: Runtime) => Promise<string> | string>> = {
  core: (runtime) => suite(runtime, whole ? CORE : CORE_SHORT, { WORLDGRAD_GPU: "off", WORLDGRAD_PROVISIONED: "off" }),
  examples(runtime) {
    const all = readdirSync(join(packageFolder, "examples")).filter((name) => name.endsWith(".ts"));
    const names = whole ? all : EXAMPLES_SHORT;
    for (const name of names) {
      const promised = /Its last line: `([^`]+)`/.exec(
        readFileSync(join(packageFolder, "examples", name), "utf8"),
      )?.[1];
      const folder = mkdtempSync(join(tmpdir(), "worldgrad-runtimes-"));
      const args = name === "run-folder.ts" ? [join(folder, "run")] : []; // else it goes on with what lies in runs/
      const last = start(runtime, [...runtime.typescript, `examples/${name}`, ...args])
        .trimEnd()
        .split("\n")
        .at(-1);
      if (promised !== undefined && last !== promised)
        throw new Error(`${name} ends with "${last}", not "${promised}"`);
    }
    return `${names.length} passed`;
  },
  quick(runtime) {
    if (weightsOf(runtime) !== (expected ??= weightsOf(undefined)))
      throw new Error("its weights are not those of Node");
    return "the same weights";
  },
  serve,
  threads: (runtime) => suite(runtime, ["tests/kernels/wasm-threads."], { WORLDGRAD_GPU: "off" }),
  webgpu: (runtime) => suite(runtime, whole ? WEBGPU : WEBGPU.slice(0, 1), adapter.env),
};

const { values: flags } = parseArgs({
  options: {
    only: { type: "string", default: RUNTIMES.map(({ id }) => id).join() },
    cells: { type: "string", default: Object.keys(CELLS).join() },
    ci: { type: "boolean", default: false },
    whole: { type: "boolean", default: false },
  },
});
const { whole, ci } = flags;
const limit = 1000 * LIMIT_S[whole ? "whole" : "short"];
const adapter = provisionAdapter();
let expected: string | undefined;

/** The end of what a process printed, for a message. */
const endOf = (text: string): string => text.trim().split("\n").slice(-15).join("\n");

/** The environment of a process: other programs that it starts by the name `node` run under the same version. */
function environment(runtime: Runtime | undefined, more: Record<string, string> = {}): NodeJS.ProcessEnv {
  const { CI: _, ...inherited } = process.env; // in CI the configuration of the tests asks for browsers and WGSL
  const path = [...(runtime ? [dirname(programOf(runtime))] : []), inherited["PATH"]].join(delimiter);
  return { ...inherited, PATH: path, NO_COLOR: "1", ...more };
}

/** Runs a program to its end: what it printed. Without a runtime: under this one, Node. */
function start(runtime: Runtime | undefined, args: readonly string[], more?: Record<string, string>): string {
  const { status, signal, stdout, stderr } = spawnSync(runtime ? programOf(runtime) : process.execPath, args, {
    cwd: packageFolder,
    env: environment(runtime, more),
    encoding: "utf8",
    stdio: ["ignore", "pipe", "pipe"],
    timeout: limit,
    killSignal: "SIGKILL",
    maxBuffer: 2 ** 28,
  });
  if (status !== 0) throw new Error(`${args.join(" ")}: ${signal ?? `exit code ${status}`}\n${endOf(stdout + stderr)}`);
  return stdout;
}

/** Runs test files under the runtime: its own Vitest process, and its own processes of tests. */
function suite(runtime: Runtime, files: readonly string[], more: Record<string, string>): string {
  const folder = mkdtempSync(join(tmpdir(), "worldgrad-runtimes-"));
  const path = join(folder, "report.json");
  const options = ["--project=unit", "--reporter=json", `--outputFile=${path}`, `--testTimeout=${limit / 5}`];
  const known = KNOWN[runtime.id] ?? [];
  const left = whole || known.length === 0 ? [] : ["-t", `^(?!.*(?:${known.map(([part]) => part).join("|")}))`];
  const vitest = [...runtime.javascript, "node_modules/vitest/vitest.mjs", "run", ...options, ...left, ...files];
  let said = "";
  try {
    start(runtime, vitest, more);
  } catch (error) {
    said = String(error); // failed tests, which the report tells of; or there is none
  }
  try {
    if (!existsSync(path)) throw new Error(said);
    const { testResults } = JSON.parse(readFileSync(path, "utf8")) as {
      testResults: { name: string; message: string; assertionResults: { fullName: string; status: string }[] }[];
    };
    const all = testResults.flatMap(({ assertionResults }) => assertionResults);
    const bad = all.filter(({ status }) => status !== "passed").map(({ fullName }) => fullName);
    const broken = testResults
      .filter(({ message }) => message !== "")
      .map(({ name, message }) => `${name}: ${message}`);
    const unknown = [...broken, ...bad.filter((test) => !known.some(([part]) => test.includes(part)))];
    if (unknown.length > 0) throw new Error(`${unknown.length} of ${all.length} tests failed\n${unknown.join("\n")}`);
    if (all.length === 0) throw new Error(`no test ran\n${said}`);
    return bad.length === 0 ? `${all.length} passed` : `${all.length - bad.length} passed, ${bad.length} known to fail`;
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** A hash of the weights of all checkpoints of a quick job. */
function weightsOf(runtime: Runtime | undefined): string {
  const name = `runtimes-${runtime?.id ?? "reference"}-${process.pid}`;
  const size = whole ? [] : ["--method", "grpo+echo", "--model", "tiny", "--steps", "2", "--workers", "1"];
  const loader = runtime ? runtime.typescript : ["--import", "tsx"];
  const run = join(packageFolder, "runs", name);
  try {
    start(runtime, [...loader, "run/cli/main.ts", "--quick", "--device", "wasm", "--name", name, ...size]);
    const files = readdirSync(run, { recursive: true, encoding: "utf8" }).filter((file) =>
      file.endsWith(".safetensors"),
    );
    if (files.length === 0) throw new Error("no weights");
    const hash = createHash("sha256");
    for (const file of files.toSorted()) hash.update(file).update(readFileSync(join(run, file)));
    return hash.digest("hex");
  } finally {
    rmSync(run, { recursive: true, force: true });
  }
}

/** Serves a model, asks it for a text, and stops it by SIGTERM. */
async function serve(runtime: Runtime): Promise<string> {
  const args = ["connect/serve/main.ts", "--model-path", MODEL, "--port", "0", "--device", "wasm"];
  const server = spawn(programOf(runtime), [...runtime.typescript, ...args], {
    cwd: packageFolder,
    env: environment(runtime),
    stdio: ["ignore", "pipe", "inherit"],
    timeout: limit,
    killSignal: "SIGKILL",
  });
  const ended = once(server, "exit") as Promise<[number | null]>;
  let address: string | undefined;
  for await (const line of createInterface(server.stdout)) {
    address = /http:\S+/.exec(line)?.[0];
    if (address !== undefined) break;
  }
  if (address === undefined) throw new Error(`ended before it served: exit code ${(await ended)[0]}`);
  const body = JSON.stringify({ model: "stories260K", prompt: "a", max_tokens: 4, temperature: 0 });
  const headers = { "content-type": "application/json" };
  const answer = await fetch(`${address}/completions`, { method: "POST", headers, body });
  const text = await answer.text();
  server.kill("SIGTERM");
  const [code] = await ended;
  if (!answer.ok || !text.includes('"completion_tokens":4')) throw new Error(`${answer.status}: ${text}`);
  if (code !== 0) throw new Error(`exit code ${code} after SIGTERM`);
  return "passed";
}

const wanted = RUNTIMES.filter(({ id }) => (ci ? IN_CI.runtimes : flags.only.split(",")).includes(id));
install(wanted);
const verdicts = new Map<string, string>();
let failures = 0;
for (const runtime of wanted) {
  for (const cell of ci ? IN_CI.cells : flags.cells.split(",")) {
    const [began, run] = [performance.now(), CELLS[cell]];
    if (run === undefined) throw new Error(`--cells: expected ${Object.keys(CELLS).join(", ")}, got ${cell}`);
    let verdict: string;
    try {
      verdict = await run(runtime);
    } catch (error) {
      failures++;
      verdict = "failed";
      console.error(`--- ${runtime.title}, ${cell}: ${error instanceof Error ? error.message : String(error)}`);
    }
    verdicts.set(runtime.id + cell, verdict);
    console.log(`${runtime.title}, ${cell}: ${verdict} (${((performance.now() - began) / 1000).toFixed(0)} s)`);
  }
}
if (!ci) {
  const page = readFileSync(PAGE, "utf8");
  const rows = RUNTIMES.map(({ id, title }) => {
    const line = page.split("\n").find((one) => one.startsWith(`| ${title} `));
    const before = line === undefined ? [] : cellsOf(line).slice(1);
    return [title, ...Object.keys(CELLS).map((cell, i) => verdicts.get(id + cell) ?? before[i] ?? "not run")];
  });
  const lines = [HEAD, HEAD.map(() => "-"), ...rows].map((cells) => `| ${cells.join(" | ")} |`);
  const config = await resolveConfig(PAGE);
  writeFileSync(PAGE, await format(withTable(page, lines.join("\n")), { ...config, parser: "markdown" }));
}
if (failures > 0) throw new Error(`runtimes: ${failures} cells failed`);
