/**
 * Worker threads for the WebAssembly executor: a pool that runs one kernel at a time over a shared memory, `[0, units)` cut
 * into chunks that the threads take from a common counter until none is left. Who computes what depends on chance; the bits
 * do not, because kernels give the same bits for every partition (`WasmKernel`).
 *
 * All talk goes through one block of shared words, so that nothing needs an event loop: the calling thread publishes a job,
 * takes chunks like everyone else, and waits for those still being computed. A worker that is late, busy elsewhere or not
 * even started costs nothing but its help. Module bytes lie in the same block, and a worker compiles a kernel when it first
 * takes a chunk of it. Workers look for the next job for `SPIN_MS.worker`, then sleep in `Atomics.wait` (waking one costs ~50 µs).
 *
 * Node: worker_threads, which do not keep the process alive. Browsers: Web Workers, where pages are cross-origin isolated,
 * and from a worker only, because the main thread of a page must not wait. `startThreads` says why where it is impossible.
 * What this is not: a scheduler of several kernels at once, or of anything but kernels.
 */
import { fail } from "../errors.ts";

/**
 * How long a worker without work keeps looking before it sleeps: longer than what lies between two shared kernels of a step, a
 * garbage collection included. And how long the calling thread does that waits for the last chunks: a worker may need its processor.
 */
const SPIN_MS = { worker: 2, caller: 0.4 } as const;
/** The calling thread wakes up this often while it waits, … */
const WAIT_MS = 1000;
/** … and gives up when this many times in a row no chunk was finished: the thread that took one must be dead. */
const PATIENCE = 60;
/**
 * Other programs want the processors, too, and so does the JavaScript engine, for its garbage. When a worker with a chunk in its
 * hands was kept from running for so long (in ms, and longer than the calling thread worked on the whole job), the next jobs had
 * better be done alone for a while: a short one at first, twice as long each time that it happens again within `TRIED_MS`.
 */
const HINDERED_MS = 0.3;
const ALONE_MS = { least: 1, most: 32 } as const;
const TRIED_MS = 30;
/** The longest wait for a worker's first sign of life. */
const START_MS = 10_000;
const MAX_THREADS = 64;
/** Threads that are used unless a number is given: kernels of small models feed no more. */
const DEFAULT_THREADS = 8;

/**
 * Words of the control block. Those that several threads change lie a cache line (16 words) apart. A job's other words are
 * written before REMAINING and stay as they are until PENDING is 0, so whoever got a chunk may read them.
 */
const WORD = {
  /** Jobs published so far; workers sleep on it. */
  signal: 0,
  /** Workers asleep, or about to be. */
  asleep: 16,
  /** Chunks that nobody has taken; below 0 when several reached for the last. Chunk `remaining − 1` is the next. */
  remaining: 32,
  /** Chunks that are not finished; the calling thread sleeps on it. */
  pending: 48,
  /** 1 when a chunk of this job failed: the others are passed over. */
  failed: 64,
  kernel: 80,
  codeAt: 81,
  codeBytes: 82,
  chunks: 83,
  units: 84,
  args: 85,
  messageLength: 86,
} as const;
/** Bytes: the arguments as f64, the message of the first failure as UTF-16, and the modules. */
const ARGS_AT = 512;
const MAX_ARGS = 128;
const MESSAGE_AT = ARGS_AT + 8 * MAX_ARGS;
const MAX_MESSAGE = 512;
const CODE_AT = MESSAGE_AT + 2 * MAX_MESSAGE;
/** Room for about a thousand modules; pages that nobody writes cost nothing. What does not fit runs on the calling thread. */
const BLOCK_BYTES = 4 * 2 ** 20;

/**
 * A worker's program, as text, so that it needs no file of its own: it works from sources, from a build and from a bundle.
 * It never returns to its event loop.
 */
const WORKER = `"use strict";
const node = typeof require === "function" ? require("node:worker_threads") : undefined;
const reply = (text) => (node ? node.parentPort : self).postMessage(text);
const start = ({ block, memory }) => {
  const words = new Int32Array(block);
  const kernels = [];
  const chunk = (index) => {
    try {
      const id = words[${WORD.kernel}];
      if (kernels[id] === undefined) {
        const at = words[${WORD.codeAt}];
        const module = new WebAssembly.Module(new Uint8Array(block, at, words[${WORD.codeBytes}]).slice());
        kernels[id] = new WebAssembly.Instance(module, { env: { memory } }).exports.run;
      }
      const chunks = words[${WORD.chunks}], units = words[${WORD.units}];
      const begin = Math.floor((index * units) / chunks), end = Math.floor(((index + 1) * units) / chunks);
      const args = new Float64Array(block, ${ARGS_AT}, words[${WORD.args}]);
      if (Atomics.load(words, ${WORD.failed}) === 0) kernels[id](...args, begin, end);
    } catch (error) {
      if (Atomics.compareExchange(words, ${WORD.failed}, 0, 1) === 0) {
        const text = String(error instanceof Error ? error.message : error).slice(0, ${MAX_MESSAGE});
        const message = new Uint16Array(block, ${MESSAGE_AT}, ${MAX_MESSAGE});
        for (let i = 0; i < text.length; i++) message[i] = text.charCodeAt(i);
        words[${WORD.messageLength}] = text.length;
      }
    }
    if (Atomics.sub(words, ${WORD.pending}, 1) === 1) Atomics.notify(words, ${WORD.pending});
  };
  reply("ready");
  for (;;) {
    const seen = Atomics.load(words, ${WORD.signal});
    while (Atomics.load(words, ${WORD.remaining}) > 0) {
      const taken = Atomics.sub(words, ${WORD.remaining}, 1);
      if (taken > 0) chunk(taken - 1);
    }
    const deadline = performance.now() + ${SPIN_MS.worker};
    let turns = 0;
    while (Atomics.load(words, ${WORD.signal}) === seen && ((++turns & 63) !== 0 || performance.now() < deadline));
    if (Atomics.load(words, ${WORD.signal}) !== seen) continue;
    Atomics.add(words, ${WORD.asleep}, 1);
    Atomics.wait(words, ${WORD.signal}, seen);
    Atomics.sub(words, ${WORD.asleep}, 1);
  }
};
if (node) node.parentPort.once("message", start);
else self.onmessage = (event) => start(event.data);
`;

/** What both kinds of worker are reduced to. `onEnd` is called with the reason when one ends, or fails to start, by itself. */
interface Thread {
  terminate(): void;
}
interface Start {
  readonly message: unknown;
  readonly onReady: () => void;
  readonly onEnd: (reason: string) => void;
}

/** The few things of Node that are used, typed here because the library does not depend on Node. */
interface NodeWorker {
  on(event: "message" | "exit", listener: (value: unknown) => void): void;
  on(event: "error", listener: (error: Error) => void): void;
  postMessage(message: unknown): void;
  unref(): void;
  terminate(): Promise<number>;
}
interface NodeThreads {
  readonly Worker: new (code: string, options: object) => NodeWorker;
}
interface NodeProcess {
  readonly env?: Readonly<Record<string, string | undefined>>;
  readonly getBuiltinModule?: (name: string) => unknown;
}
const node = (): NodeProcess | undefined => (globalThis as { process?: NodeProcess }).process;

function startNodeThread({ Worker }: NodeThreads, { message, onReady, onEnd }: Start): Thread {
  // Without the options of the process: loaders and environment are for the application.
  const worker = new Worker(WORKER, { eval: true, execArgv: [], env: {}, name: "worldgrad" });
  worker.on("message", onReady);
  worker.on("error", (error) => onEnd(error.message));
  worker.on("exit", (code) => onEnd(`exit code ${String(code)}`));
  worker.postMessage(message);
  worker.unref();
  return { terminate: () => void worker.terminate() };
}

function startWebThread({ message, onReady, onEnd }: Start): Thread {
  const url = URL.createObjectURL(new Blob([WORKER], { type: "text/javascript" }));
  const worker = new Worker(url, { name: "worldgrad" });
  worker.addEventListener("message", () => {
    URL.revokeObjectURL(url);
    onReady();
  });
  worker.addEventListener("error", (event) => onEnd(event.message || "the page's security policy forbids it"));
  worker.postMessage(message);
  return worker;
}

/** Why threads are impossible here; `undefined` when nothing speaks against them. */
function obstacle(): string | undefined {
  if (typeof SharedArrayBuffer === "undefined") return "no shared memory: the page is not cross-origin isolated";
  try {
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 0);
  } catch {
    return "the main thread of a page must not wait: create the device in a worker";
  }
  return node()?.getBuiltinModule === undefined && typeof Worker === "undefined" ? "no workers" : undefined;
}

/**
 * Threads to use unless the program says: the environment variable `WORLDGRAD_THREADS`, else one per processor, at most 8.
 * @throws if the variable is not a number from 1 to 64
 */
export function defaultThreads(): number {
  const variable = node()?.env?.["WORLDGRAD_THREADS"];
  if (variable !== undefined && variable !== "") return checkThreads(Number(variable), "WORLDGRAD_THREADS");
  const os = node()?.getBuiltinModule?.("node:os") as { availableParallelism(): number } | undefined;
  const cores = os?.availableParallelism() ?? (globalThis as { navigator?: Navigator }).navigator?.hardwareConcurrency;
  return Math.max(1, Math.min(cores ?? 1, DEFAULT_THREADS));
}

/** @throws unless `threads` is a whole number from 1 to 64 */
export function checkThreads(threads: number, where: string): number {
  const valid = Number.isInteger(threads) && threads >= 1 && threads <= MAX_THREADS;
  return valid ? threads : fail(`${where} must be a whole number from 1 to ${MAX_THREADS}, got ${threads}`);
}

/** A kernel that workers can run: where its module lies in the control block. */
export interface SharedCode {
  readonly id: number;
  readonly at: number;
  readonly bytes: number;
}

interface Job {
  readonly code: SharedCode;
  /** The kernel on the calling thread. */
  readonly run: (...args: number[]) => void;
  /** Pointers and scalars. */
  readonly args: readonly number[];
  readonly units: number;
  /** Into how many pieces the units are cut; at most `units`. */
  readonly chunks: number;
}

/**
 * Starts workers and waits until they are there.
 * @param threads the calling one included, at least 2
 * @param makeMemory called once it is clear that threads are possible; makes a shared memory or throws
 * @throws an error whose message is the reason why there can be no threads here
 */
export async function startThreads(
  threads: number,
  makeMemory: () => WebAssembly.Memory,
): Promise<{ pool: ThreadPool; memory: WebAssembly.Memory }> {
  const reason = obstacle();
  if (reason !== undefined) fail(reason);
  const memory = makeMemory();
  const pool = new ThreadPool();
  try {
    await pool.start(threads - 1, memory);
  } catch (error) {
    pool.dispose();
    throw error;
  }
  return { pool, memory };
}

export class ThreadPool {
  readonly #block = new SharedArrayBuffer(BLOCK_BYTES);
  readonly #words = new Int32Array(this.#block);
  readonly #args = new Float64Array(this.#block, ARGS_AT, MAX_ARGS);
  #workers: Thread[] = [];
  #codeEnd = CODE_AT;
  #kernels = 0;
  #disposed = false;
  /** Until when, on the clock of `performance.now()`, jobs are better done alone. */
  #aloneUntil = -Infinity;
  #aloneMs = 0;
  /** Why the pool cannot be used any more. */
  #broken: string | undefined;

  /** Threads that compute, the calling one included. */
  get threads(): number {
    return this.#workers.length + 1;
  }

  /** Starts `count` workers; rejects with the first reason when one does not come up. */
  async start(count: number, memory: WebAssembly.Memory): Promise<void> {
    const threads = node()?.getBuiltinModule?.("node:worker_threads") as NodeThreads | undefined;
    const one = (number: number): Promise<void> =>
      new Promise((resolve, reject) => {
        const onEnd = (reason: string): void => {
          clearTimeout(timer);
          reject(new Error(`the workers do not start: ${reason}`)); // nothing happens if it was ready before
          if (!this.#disposed) this.#broken ??= `worker thread ${number} ended by itself: ${reason}`;
        };
        const onReady = (): void => {
          clearTimeout(timer);
          resolve();
        };
        const timer = setTimeout(() => onEnd("no sign of life"), START_MS);
        const start = { message: { block: this.#block, memory }, onReady, onEnd };
        try {
          this.#workers.push(threads === undefined ? startWebThread(start) : startNodeThread(threads, start));
        } catch (error) {
          onEnd(error instanceof Error ? error.message : String(error));
        }
      });
    await Promise.all(Array.from({ length: count }, (_, i) => one(i + 1)));
  }

  /** Puts a module where workers find it; `undefined` when there is no room left. */
  share(module: Uint8Array): SharedCode | undefined {
    const at = this.#codeEnd;
    if (at + module.length > BLOCK_BYTES) return undefined;
    new Uint8Array(this.#block, at, module.length).set(module);
    this.#codeEnd += module.length;
    return { id: this.#kernels++, at, bytes: module.length };
  }

  /**
   * Runs all units of a kernel and returns when they are done.
   * @param patience seconds without a finished chunk after which a thread counts as dead
   * @throws the first failure of any thread, after all have stopped
   */
  run({ code, run, args, units, chunks }: Job, patience: number = PATIENCE): void {
    this.check();
    if (args.length > MAX_ARGS) return run(...args, 0, units);
    const words = this.#words;
    words[WORD.kernel] = code.id;
    words[WORD.codeAt] = code.at;
    words[WORD.codeBytes] = code.bytes;
    words[WORD.chunks] = chunks;
    words[WORD.units] = units;
    words[WORD.args] = args.length;
    for (let i = 0; i < args.length; i++) this.#args[i] = args[i]!;
    Atomics.store(words, WORD.failed, 0);
    Atomics.store(words, WORD.pending, chunks);
    Atomics.store(words, WORD.remaining, chunks);
    Atomics.add(words, WORD.signal, 1);
    if (Atomics.load(words, WORD.asleep) > 0) Atomics.notify(words, WORD.signal, chunks - 1);

    let failure: Error | undefined;
    const begun = performance.now();
    while (Atomics.load(words, WORD.remaining) > 0) {
      const taken = Atomics.sub(words, WORD.remaining, 1);
      if (taken <= 0) break;
      try {
        const [begin, end] = [Math.floor(((taken - 1) * units) / chunks), Math.floor((taken * units) / chunks)];
        if (Atomics.load(words, WORD.failed) === 0) run(...args, begin, end);
      } catch (error) {
        failure ??= error instanceof Error ? error : new Error(String(error));
        Atomics.store(words, WORD.failed, 1);
      }
      Atomics.sub(words, WORD.pending, 1);
    }
    const worked = performance.now();
    this.#wait(patience);
    const done = performance.now();
    if (done - worked > HINDERED_MS + (worked - begun)) {
      const again = done - this.#aloneUntil < TRIED_MS;
      this.#aloneMs = again ? Math.min(2 * this.#aloneMs, ALONE_MS.most) : ALONE_MS.least;
      this.#aloneUntil = done + this.#aloneMs;
    }
    if (failure !== undefined) throw failure;
    if (Atomics.load(words, WORD.failed) !== 0) throw new Error(this.#message());
  }

  /** Whether other programs leave too little of the processors just now for sharing to pay. */
  get hindered(): boolean {
    return performance.now() < this.#aloneUntil;
  }

  /** Whether a worker sleeps, so that a job has to wake it. */
  get asleep(): boolean {
    return Atomics.load(this.#words, WORD.asleep) > 0;
  }

  /** @throws when a worker has ended by itself */
  check(): void {
    if (this.#broken !== undefined) fail(`wasm: ${this.#broken}`);
  }

  /** Ends the workers. */
  dispose(): void {
    this.#disposed = true;
    this.#broken ??= "the threads were used after dispose()";
    this.#workers.forEach((worker) => worker.terminate());
    this.#workers = [];
  }

  /** Until the chunks that other threads have taken are finished. */
  #wait(patience: number): void {
    const words = this.#words;
    const deadline = performance.now() + SPIN_MS.caller;
    for (let turns = 1; Atomics.load(words, WORD.pending) > 0; turns++) {
      if ((turns & 63) === 0 && performance.now() > deadline) break;
    }
    let idle = 0;
    for (let pending = Atomics.load(words, WORD.pending); pending > 0;) {
      Atomics.wait(words, WORD.pending, pending, WAIT_MS);
      const now = Atomics.load(words, WORD.pending);
      idle = now === pending ? idle + 1 : 0;
      pending = now;
      if (idle < patience) continue;
      this.#broken = `a worker thread took work and has not finished it for ${patience} s`;
      this.#workers.forEach((worker) => worker.terminate());
      this.check();
    }
  }

  #message(): string {
    const length = this.#words[WORD.messageLength]!;
    return String.fromCharCode(...new Uint16Array(this.#block, MESSAGE_AT, length));
  }
}
