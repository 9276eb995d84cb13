/** Where worker threads cannot start, one thread does everything, and the process goes on. */
import { spawnSync } from "node:child_process";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { expect, it } from "vitest";

const NEVER = "class extends EventEmitter { postMessage() {} unref() {} async terminate() { return 0; } }";
const FAILS = `class extends (${NEVER}) { unref() { setImmediate(() => this.emit("error", new Error("no pid"))); } }`;

it.each([
  ["throws", 'class { constructor() { throw new Error("EAGAIN"); } }', "EAGAIN"],
  ["fails", FAILS, "no pid"],
  ["says nothing", NEVER, "no sign of life"],
])("every thread %s as it starts: there is one, and nothing ends the process", (_, worker, reason) => {
  // A rejection that nobody handles ends Node with code 1, after the sum was printed.
  const script = `
    import { EventEmitter } from "node:events";
    const later = setTimeout;
    globalThis.setTimeout = (call, ms) => later(call, ms / 100);
    process.getBuiltinModule("node:worker_threads").Worker = ${worker};
    const { device, sum, tensor } = await import(process.argv[1]);
    const on = await device("wasm", { threads: 3 });
    console.log(on.description, await sum(tensor([1, 2])).item());
    await new Promise((resolve) => later(resolve, 300));`;
  const engine = new URL("../../engine/index.ts", import.meta.url).href;
  const args = ["--import", "tsx", "--input-type=module", "-e", script, engine];
  const run = spawnSync(process.execPath, args, { encoding: "utf8", timeout: 60_000 });
  expect(run.stderr).toBe("");
  expect(run.stdout.trim()).toBe(`wasm (SIMD, 1 thread: the workers do not start: ${reason}) 3`);
  expect(run.status).toBe(0);
});

it("under Node's permission model there is one thread, and nothing ends the process", async () => {
  // Bundled, because a loader of TypeScript needs permissions itself.
  const contents = `
    import { device, sum, tensor } from "./engine/index.ts";
    const on = await device("wasm", { threads: 3 });
    console.log(on.description, await sum(tensor([1, 2])).item());`;
  const stdin = { contents, resolveDir: fileURLToPath(new URL("../..", import.meta.url)), loader: "ts" } as const;
  const { outputFiles } = await build({ stdin, bundle: true, format: "esm", platform: "node", write: false });
  const isOld = !process.allowedNodeEnvironmentFlags.has("--permission"); // its name before Node 23.5
  const args = [isOld ? "--experimental-permission" : "--permission", "--no-warnings", "--input-type=module", "-"];
  const run = spawnSync(process.execPath, args, { encoding: "utf8", input: outputFiles[0]!.text, timeout: 60_000 });
  expect(run.stderr).toBe("");
  expect(run.stdout.trim()).toMatch(/^wasm \(SIMD, 1 thread: the workers do not start: Access to this API .*\) 3$/);
  expect(run.status).toBe(0);
});
