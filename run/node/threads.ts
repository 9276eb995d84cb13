/**
 * Rollout workers in threads of Node, for `trainRlAsync`. They play while the learner computes. If a thread dies, only
 * its unfinished episodes are lost, and other threads play these again.
 *
 * A thread imports this module and runs `playInThread`, so that it works from sources, from a build and under a loader.
 */
import { createRequire } from "node:module";
import process from "node:process";
import { pathToFileURL } from "node:url";
import { type MessagePort, parentPort, Worker } from "node:worker_threads";
import { fail } from "../../engine/errors.ts";
import { worldNamed, WORLDS } from "../worlds.ts";
import type { UserFile } from "../preset.ts";
import { loadEnvironment } from "./environmentFile.ts";
import { giveWebSocket } from "./webSocket.ts";
import { checkCount } from "../../distribute/async/count.ts";
import type { FromWorker } from "../../distribute/async/messages.ts";
import { type ServeOptions, serveRollouts } from "../../distribute/async/serve.ts";
import {
  type MessageTarget,
  type RolloutWorkers,
  setupToWire,
  wireMessages,
  type WireSetup,
  type WorkerSetup,
} from "../../distribute/async/workers.ts";

export interface ThreadOptions {
  /**
   * The URL of a module whose export `rollouts` (`ServeOptions`) has the environments that a thread can play; an
   * application needs it for its own environments. Default: the environments of this library.
   */
  readonly module?: string | URL;
  /** The file of a further environment that a thread can play. */
  readonly environmentFile?: UserFile | undefined;
  /** The name of the environment that is played: a mixture is made of its name (`calculator:2+tools`). */
  readonly env?: string;
  /**
   * Node's command-line arguments for the threads, without those that concern the whole process. Default: those of this
   * process that threads may have.
   */
  readonly execArgv?: readonly string[];
  /** A callback for every thread that starts. */
  readonly onStart?: (thread: Worker, index: number) => void;
}

/**
 * Rollout workers in `count` threads of Node.
 *
 * @example
 * const steps = trainRlAsync({ ...options, workers: threadWorkers(2), maxStaleness: 1 });
 * for await (const { metrics } of steps) console.log(metrics);
 */
export function threadWorkers(count: number, options: ThreadOptions = {}): RolloutWorkers {
  const { execArgv, onStart } = options;
  checkCount("threadWorkers", count);
  const code = programOf(options);
  const toSend = wireMessages();
  // If a thread inherits its arguments, Node leaves out --max-old-space-size and the like; if they are given, it
  // throws.
  const args = execArgv ? { execArgv: [...execArgv] } : {};
  return {
    count,
    heartbeat: true,
    start(index, setup, { receive, ended }) {
      const thread = new Worker(code, { eval: true, name: `rollouts ${index}`, ...args });
      let reason: string | undefined;
      let isOver = false;
      thread.on("message", (message: FromWorker) => receive(message));
      thread.on("error", (error) => (reason = error.message));
      thread.on("messageerror", (error) => {
        // Without the message an episode would be missing, so the thread is replaced.
        reason = `a message of the thread cannot be read: ${error.message}`;
        void thread.terminate();
      });
      thread.on("exit", (exitCode) => {
        if (isOver) return;
        isOver = true;
        ended(reason ?? `the thread ended with exit code ${exitCode}`);
      });
      thread.postMessage(setupFor(setup));
      onStart?.(thread, index);
      return {
        post: (message) => thread.postMessage(toSend(message)),
        async terminate() {
          isOver = true;
          await thread.terminate();
        },
      };
    },
  };
}

/**
 * The setup for a thread. Dawn ends the process if a thread requests an adapter, so threads of a learner on WebGPU play
 * on WebAssembly.
 */
function setupFor(setup: WorkerSetup): WireSetup {
  const wire = setupToWire(setup);
  return setup.device.kind === "webgpu" ? { ...wire, device: { kind: "wasm", precision: "f32" } } : wire;
}

/**
 * The program of a thread. When running from sources, it registers the loader for TypeScript first; Bun and Deno read
 * TypeScript by themselves, and a thread of Deno waits for ever for the loader.
 */
function programOf({ module, environmentFile, env }: ThreadOptions): string {
  const here = import.meta.url;
  const given = JSON.stringify({ module: module?.toString(), environmentFile, env });
  const play = `import(${JSON.stringify(here)}).then(({ playInThread }) => playInThread(${given}))`;
  const readsTypeScript = "bun" in process.versions || "deno" in process.versions;
  if (!here.endsWith(".ts") || readsTypeScript) return play;
  const require = createRequire(here);
  const { exports } = require("tsx/package.json") as { exports: { "./esm/api": { import: { default: string } } } };
  const loader = new URL(exports["./esm/api"].import.default, pathToFileURL(require.resolve("tsx/package.json")));
  return `import(${JSON.stringify(loader.href)}).then((tsx) => { tsx.register(); return ${play}; })`;
}

/**
 * The main function of a thread, which plays until the thread is ended.
 * @param given see `ThreadOptions` @public imported by the text of `programOf`
 */
export async function playInThread(
  given: Pick<ThreadOptions, "environmentFile" | "env"> & { module?: string },
): Promise<void> {
  const { module, environmentFile, env } = given;
  const port = parentPort ?? fail("playInThread: this is not a thread");
  if (module === undefined) await giveWebSocket().catch(() => {}); // only one environment needs it, and says so
  if (environmentFile) await loadEnvironment(environmentFile.path);
  if (env !== undefined) worldNamed(env);
  const options = module === undefined ? { environments: WORLDS } : await servedBy(module);
  serveRollouts(targetOf(port), options);
}

async function servedBy(module: string): Promise<ServeOptions> {
  const { rollouts } = (await import(module)) as { readonly rollouts?: ServeOptions };
  return rollouts ?? fail(`threadWorkers: ${module} has no export "rollouts"`);
}

/** A Node message port with the interface of the web. */
const targetOf = (port: MessagePort): MessageTarget => ({
  postMessage: (message) => port.postMessage(message),
  addEventListener: (_, listener) => void port.on("message", (data: unknown) => listener({ data })),
});
