/**
 * The fences behind the first, each alone: code with all of Node in reach, in the process that programs are given,
 * tries files, processes, threads, addons and the network. And what the runner does when it is aborted, has much to do,
 * or gets bad options.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { once } from "node:events";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { type AddressInfo, createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { createInterface } from "node:readline";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { HARNESS } from "../../../run/node/sandbox/harness.ts";
import { canLimit, limitProcess, startSandbox } from "../../../run/node/sandbox/process.ts";
import { codeReward, type CodeRewardOptions, javascriptRunner, type SandboxOptions } from "../../../run/node/index.ts";
import { gone, isAlive } from "../../support/alive.ts";
import { programAt } from "../../support/programs.ts";

let folder: string;
let server: Server;
let port: number;
let connections = 0;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "sandbox-"));
  writeFileSync(join(folder, "secret"), "needle");
  server = createServer((socket) => {
    connections++;
    socket.destroy();
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  port = (server.address() as AddressInfo).port;
});

afterAll(() => {
  server.close();
  rmSync(folder, { recursive: true });
});

/** Runs `body` with all of Node and `attempt(name, f)`, which notes the code of the error, or that there was none. */
async function withNode(body: string, limited: boolean): Promise<Record<string, string>> {
  const source = `
    const net = require("node:net"), fs = require("node:fs");
    const out = {};
    const note = (name, error) => { out[name] = error ? String(error.code ?? error.name) : "escaped"; };
    const attempt = (name, f) => { try { f(); note(name); } catch (error) { note(name, error); } };
    fs.writeSync(1, "ready\\n");
    const input = fs.readFileSync(0, "utf8");
    (async () => { ${body} })().finally(() => fs.writeSync(1, JSON.stringify(out)));`;
  const child = startSandbox(source, 64);
  const written = text(child.stdout!);
  await once(child.stdout!, "readable");
  if (limited) await limitProcess(child.pid!, 128, 10);
  child.stdin!.end("go");
  const [first, second] = (await written).split("\n");
  expect(first).toBe("ready");
  return JSON.parse(second!) as Record<string, string>;
}

const CONNECT = (): string => `
  const connect = (name, start) => new Promise((done) => {
    try { start().on("connect", () => { note(name); done(); }).on("error", (error) => { note(name, error); done(); }); }
    catch (error) { note(name, error); done(); }
  });
  await connect("net", () => net.connect(${port}, "127.0.0.1"));
  await new Promise((done) => {
    const fail = (error) => { note("listen", error); done(); };
    process.once("uncaughtException", fail); // so Node 25 and later refuse it
    net.createServer().on("error", fail).listen(0, "127.0.0.1", function () { note("listen"); this.close(done); });
  });
  await connect("udp", () => {
    const socket = require("node:dgram").createSocket("udp4").unref();
    socket.connect(${port}, "127.0.0.1");
    return socket;
  });`;

describe("the permission model", () => {
  it("refuses files, processes, threads, WASI, addons and the inspector", async () => {
    const secret = JSON.stringify(join(folder, "secret"));
    const made = JSON.stringify(join(folder, "made"));
    const seen = await withNode(
      `attempt("read", () => fs.readFileSync(${secret}));
       attempt("list", () => fs.readdirSync(${JSON.stringify(folder)}));
       attempt("stat", () => fs.statSync(${secret}));
       attempt("self", () => fs.readFileSync(process.execPath));
       attempt("module", () => require(${secret}));
       attempt("write", () => fs.writeFileSync(${made}, "x"));
       attempt("directory", () => fs.mkdirSync(${made}));
       attempt("link", () => fs.symlinkSync(${secret}, ${made}));
       attempt("rename", () => fs.renameSync(${secret}, ${made}));
       attempt("spawn", () => require("node:child_process").spawnSync(process.execPath));
       attempt("exec", () => require("node:child_process").execSync("true"));
       attempt("worker", () => new (require("node:worker_threads").Worker)("1", { eval: true }));
       attempt("WASI", () => new (require("node:wasi").WASI)({ version: "preview1" }));
       attempt("inspector", () => require("node:inspector").open(0));
       attempt("binding", () => process.binding("fs"));
       await fs.promises.readFile(${secret}).then(() => note("promises"), (error) => note("promises", error));`,
      false,
    );
    expect(Object.keys(seen)).toHaveLength(16);
    expect(new Set(Object.values(seen))).toEqual(new Set(["ERR_ACCESS_DENIED"]));
    expect(existsSync(join(folder, "made"))).toBe(false);
    const addon = await withNode(`attempt("addon", () => process.dlopen({ exports: {} }, ${secret}));`, false);
    expect(addon["addon"]).toMatch(/^ERR_(DLOPEN_DISABLED|ACCESS_DENIED)$/);
  });
  it("goes with an empty environment, no code from text, and built-in objects that nobody changes", async () => {
    const seen = await withNode(
      `out.environment = Object.keys(process.env).join();
       attempt("Function", () => Function("1"));
       attempt("eval", () => (0, eval)("1"));
       attempt("prototype", () => { "use strict"; Array.prototype.push = 1; });`,
      false,
    );
    expect(seen).toEqual({ environment: "TZ", Function: "EvalError", eval: "EvalError", prototype: "TypeError" });
  });
});

describe("the harness", () => {
  it("leaves nothing of Node in its own realm either", async () => {
    const names =
      '["process", "global", "require", "module", "fs", "net", "fetch", "WebAssembly", "setTimeout", "Object"]';
    const source = `const write = require("node:fs").writeSync, node = process;
      ${HARNESS}
      write(1, JSON.stringify([
        ${names}.filter((name) => name in globalThis),
        ["binding", "mainModule", "getBuiltinModule", "dlopen", "kill", "exit"].filter((name) => name in node),
      ]));`;
    const child = startSandbox(`{ ${source} }`, 64);
    child.stdin!.end(JSON.stringify({ nonce: "n", program: "", entry: "f", calls: [], limit: 100 }));
    expect(await text(child.stdout!)).toBe('ready\n[["Object"],[]]');
  });
});

describe("the limits of the kernel", () => {
  it("close the network, which the permission model leaves open before Node 25", async () => {
    const isDenied = Number(process.versions.node.split(".")[0]) >= 25;
    const result = isDenied ? "ERR_ACCESS_DENIED" : "escaped"; // or this test would show nothing
    expect(await withNode(CONNECT(), false)).toEqual({ net: result, listen: result, udp: result });
    expect(connections > 0).toBe(!isDenied);
    if (!canLimit()) return expect(() => javascriptRunner({ limits: "required" })).toThrow("there is no prlimit here");
    connections = 0;
    const again = `fs.closeSync(0);
      await connect("net with one descriptor less", () => net.connect(${port}, "127.0.0.1"));`;
    const closed = await withNode(CONNECT() + again, true);
    expect(Object.keys(closed)).toHaveLength(4);
    expect(Object.values(closed)).not.toContain("escaped");
    expect(closed["net"]).toBe(isDenied ? result : "EMFILE");
    expect(connections).toBe(0);
  });
});

describe("a process whose parent is killed", () => {
  const wait = "Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);";
  it.each([
    ["loops", "for (;;);"],
    ["sleeps", wait],
  ])("ends, although it %s", { timeout: 60_000 }, async (_, program) => {
    const source = `require("node:fs").writeSync(1, "ready"); ${program}`;
    const text = `
      import { startSandbox } from ${JSON.stringify(programAt("run/node/sandbox/process.ts"))};
      const child = startSandbox(${JSON.stringify(source)}, 64);
      child.stdout.once("data", () => console.log(child.pid));`;
    const parent = spawn(process.execPath, ["--input-type=module", "--eval", text], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    const lines = createInterface({ input: parent.stdout });
    const pid = Number(await new Promise<string>((resolve) => lines.once("line", resolve)));
    expect(pid > 0 && isAlive(pid)).toBe(true);
    parent.kill("SIGKILL");
    await gone([pid]).finally(() => isAlive(pid) && process.kill(pid, "SIGKILL"));
  });
});

describe("the runner", () => {
  it("ends when its signal says so, before and during a run", async () => {
    const run = javascriptRunner({ timeout: 20_000 });
    const reason = new Error("enough");
    await expect(run("const solve = 1;", "solve", [[]], AbortSignal.abort(reason))).rejects.toBe(reason);
    const controller = new AbortController();
    const running = run("for (;;);", "solve", [[]], controller.signal);
    setTimeout(() => controller.abort(reason), 300);
    await expect(running).rejects.toBe(reason);
  });
  it("runs many programs, no more than `concurrency` at a time, in order", async () => {
    // Every process that is started, beside those that then live: the programs' own, and those that limit them.
    const started: { child: ChildProcess; others: ChildProcess[] }[] = [];
    const onStart = (message: unknown): void => {
      const living = started.map(({ child }) => child).filter((child) => !child.killed && child.exitCode === null);
      started.push({ child: (message as { process: ChildProcess }).process, others: living });
    };
    subscribe("child_process", onStart);
    const run = javascriptRunner({ concurrency: 2, timeout: 10_000 });
    const results = await Promise.all(
      [1, 2, 3, 4, 5].map(async (n) => run(`const solve = () => ${n};`, "solve", [[]])),
    );
    unsubscribe("child_process", onStart);
    expect(results.flat()).toEqual([1, 2, 3, 4, 5].map((value) => ({ kind: "value", value })));
    const isProgram = (child: ChildProcess): boolean => child.spawnfile === process.execPath;
    const programs = started.filter(({ child }) => isProgram(child));
    expect(programs.map(({ others }) => 1 + others.filter(isProgram).length)).toEqual([1, 2, 2, 2, 2]);
  });
  it.each<[string, SandboxOptions]>([
    ["javascriptRunner: timeout must be an integer in [10, 2147483647], got 0", { timeout: 0 }],
    ["javascriptRunner: timeout must be an integer in [10, 2147483647], got Infinity", { timeout: Infinity }],
    ["javascriptRunner: memoryMb must be an integer in [16, 2147483647], got 1.5", { memoryMb: 1.5 }],
    ["javascriptRunner: outputLimit must be an integer in [100, 2147483647], got -1", { outputLimit: -1 }],
    ["javascriptRunner: concurrency must be an integer in [1, 2147483647], got 0", { concurrency: 0 }],
    ['javascriptRunner: limits must be "auto" or "required", got "off"', { limits: "off" as "auto" }],
    ["javascriptRunner: unknown option 'timeOut'; did you mean 'timeout'?", { timeOut: 5 } as SandboxOptions],
  ])("refuses: %s", (message, options) => {
    expect(() => javascriptRunner(options)).toThrow(message);
  });
});

describe("codeReward", () => {
  const tests = [0, 1, 2, 3].map((n) => ({ args: [n], expected: n * n }));
  it("gives partial credit", async () => {
    const reward = codeReward({ tests, timeout: 10_000 });
    const answer = (body: string): string => `Here it is:\n\`\`\`js\nconst solve = (n) => ${body};\n\`\`\`\n`;
    expect((await reward(answer("n * n"))).reward).toBe(1);
    expect((await reward(answer("2 * n"))).reward).toBe(0.5);
    expect((await reward(answer("n > 2 ? nothing : n * n"))).reward).toBe(0.75);
    expect((await reward(answer("n * n +"))).reward).toBe(0);
  });
  it.each<[string, object]>([
    ["codeReward: expected at least one test, got none", { tests: [] }],
    ["codeReward: unknown option 'memory'; did you mean 'memoryMb'?", { tests, memory: 1 }],
    ["memoryMb must be an integer in [16, 2147483647], got 1", { tests, memoryMb: 1 }],
    ['codeReward: credit must be "partial" or "all"', { tests, credit: 1 }],
  ])("refuses at once: %s", (message, options) => {
    expect(() => codeReward(options as CodeRewardOptions)).toThrow(message);
  });
});
