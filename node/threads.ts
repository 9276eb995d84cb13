/**
 * Rollout workers in threads of Node, for `trainRlAsync`. They play while the learner computes; a thread that dies takes nothing
 * with it but the episodes that it had not finished, which others then play.
 *
 * A thread runs `playInThread` of this file: it imports this very module, so that it works from sources, from a build and under a loader.
 */
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import { type MessagePort, parentPort, Worker } from "node:worker_threads";
import { fail } from "../engine/errors.ts";
import { ENVIRONMENTS } from "../environments/index.ts";
import type { FromWorker } from "../rl/async/messages.ts";
import { type ServeOptions, serveRollouts } from "../rl/async/serve.ts";
import {
  checkCount,
  type MessageTarget,
  type RolloutWorkers,
  setupToWire,
  wireMessages,
  type WireSetup,
  type WorkerSetup,
} from "../rl/async/workers.ts";

export interface ThreadOptions {
  /**
   * URL of a module whose export `rollouts` (`ServeOptions`) says what can be played in a thread: for environments of an application.
   * Default: the environments of this library.
   */
  readonly module?: string | URL;
  /** Arguments of Node for the threads, none that concern the whole process; default: those of this process that may be given. */
  readonly execArgv?: readonly string[];
  /** Called with every thread that starts. */
  readonly onStart?: (thread: Worker, index: number) => void;
}

/**
 * `count` threads of Node.
 *
 * @example
 * for await (const { metrics } of trainRlAsync({ ...options, workers: threadWorkers(2), maxStaleness: 1 })) console.log(metrics);
 */
export function threadWorkers(count: number, { module, execArgv, onStart }: ThreadOptions = {}): RolloutWorkers {
  checkCount("threadWorkers", count);
  const code = programOf(module?.toString());
  const toSend = wireMessages();
  // Node leaves out --max-old-space-size and the like when a thread inherits its arguments, and throws when they are given.
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
        reason = `a message of the thread cannot be read: ${error.message}`; // an episode is lost
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

/** Dawn ends the process when a thread asks it for an adapter, so threads of a learner on WebGPU play on WebAssembly. */
function setupFor(setup: WorkerSetup): WireSetup {
  const wire = setupToWire(setup);
  return setup.device.kind === "webgpu" ? { ...wire, device: { kind: "wasm", precision: "f32" } } : wire;
}

/** A thread's program. Node does not read TypeScript by itself: threads of the sources register the loader that the sources run under. */
function programOf(module: string | undefined): string {
  const own = import.meta.url;
  const play = `import(${JSON.stringify(own)}).then(({ playInThread }) => playInThread(${JSON.stringify(module)}))`;
  if (!own.endsWith(".ts")) return play;
  const require = createRequire(own);
  const { exports } = require("tsx/package.json") as { exports: { "./esm/api": { import: { default: string } } } };
  const loader = new URL(exports["./esm/api"].import.default, pathToFileURL(require.resolve("tsx/package.json")));
  return `import(${JSON.stringify(loader.href)}).then((tsx) => { tsx.register(); return ${play}; })`;
}

/**
 * What a thread runs: it plays until it is ended.
 * @param module see `ThreadOptions`
 * @public imported by the text of `programOf`
 */
export async function playInThread(module?: string): Promise<void> {
  const port = parentPort ?? fail("playInThread: this is not a thread");
  const options = module === undefined ? { environments: ENVIRONMENTS } : await servedBy(module);
  serveRollouts(targetOf(port), options);
}

async function servedBy(module: string): Promise<ServeOptions> {
  const { rollouts } = (await import(module)) as { readonly rollouts?: ServeOptions };
  return rollouts ?? fail(`threadWorkers: ${module} has no export "rollouts"`);
}

/** Messages of Node as those of the web. */
const targetOf = (port: MessagePort): MessageTarget => ({
  postMessage: (message) => port.postMessage(message),
  addEventListener: (_, listener) => void port.on("message", (data: unknown) => listener({ data })),
});
