/**
 * Worker threads for the WebAssembly executor: a queue of kernels over a shared memory. Each job's units `[0, units)`
 * are cut into chunks that the threads take until none is left; the next job begins when all of them are done. Chance
 * decides which thread computes a chunk, but the bits do not depend on it: kernels give the same ones for every
 * partition (`WasmKernel`).
 *
 * The calling thread does not wait for the jobs that it submits: it prepares the next kernels while the workers
 * compute, helps when the queue is long, and does the rest together with them when a result is read (`drain`). So the
 * time between kernels, a quarter of a small model's RL step, costs little.
 *
 * The threads communicate through one block of shared words, so that no event loop is needed. A worker that is late,
 * busy elsewhere or not even started is only missing; nothing waits for it. Module bytes lie in the same block, and a
 * worker compiles a kernel when it first takes a chunk of it. Workers look for the next job for 2 ms, then sleep in
 * `Atomics.wait` (waking one costs ~50 µs).
 *
 * Node: worker_threads, which do not keep the process alive, and one more that watches them (`WATCHER`). Browsers: Web
 * Workers, where pages are cross-origin isolated, and from a worker only, because the main thread of a page must not
 * wait; `obstacle` in `threadCount.ts` gives the reason where it is impossible. This is no scheduler of several kernels
 * at once, or of other work.
 */
import { fail, KernelFailure } from "../errors.ts";
import { node } from "./threadCount.ts";
import {
  BLOCK_BYTES,
  CODE_AT,
  MAX_ARGS,
  MESSAGE_AT,
  SLOT,
  slotOf,
  SLOTS,
  TURN_BITS,
  turnOf,
  WATCHER,
  WORD,
  WORKER,
} from "./threadWorker.ts";

/** The time that the calling thread looks for the last chunks' end before it sleeps; a worker may need its core. */
const SPIN_MS = 0.4;
/** The waiting jobs at which the calling thread helps: enough to prepare while a long kernel runs. At most `SLOTS`. */
const BACKLOG = 32;
/** The interval at which a waiting calling thread wakes up, … */
const WAIT_MS = 1000;
/**
 * … and the number of times in a row without a finished chunk after which it gives up: the thread that took one must be
 * dead. For browsers; on Node the watcher reports that at once.
 */
const PATIENCE = 60;
/**
 * The delay of a worker's chunk, in ms, that counts as a hindrance if it is also longer than the calling thread worked
 * on the job and than three of its chunks take: other programs, or garbage collection, kept the worker from running.
 * The calling thread then does the next jobs alone for a while: a short one at first, twice as long each time that it
 * happens again within `TRIED_MS`.
 */
const HINDERED_MS = 0.3;
const ALONE_MS = { least: 1, most: 32 } as const;
const TRIED_MS = 30;
/** The longest wait for a worker's first sign of life. */
const START_MS = 10_000;
/** The common interface of both kinds of worker. `onEnd` gets the reason if one ends, or fails to start, by itself. */
interface Thread {
  terminate(): void;
}
interface Start {
  readonly message: unknown;
  readonly onReady: () => void;
  readonly onEnd: (reason: string) => void;
}

/** The part of Node that is used, typed here because the library does not depend on Node. */
interface NodeWorker {
  on(event: "message" | "exit", listener: (value: unknown) => void): void;
  on(event: "error", listener: (error: Error) => void): void;
  postMessage(message: unknown, transfer?: readonly unknown[]): void;
  unref(): void;
  terminate(): Promise<number>;
}
interface NodeThreads {
  readonly Worker: new (code: string, options: object) => NodeWorker;
  readonly MessageChannel: new () => { readonly port1: unknown; readonly port2: unknown };
}
function startNodeThread(
  { Worker }: NodeThreads,
  code: string,
  { message, onReady, onEnd }: Start,
  transfer: readonly unknown[],
): Thread {
  // Without the options of the process: loaders and environment are for the application.
  const worker = new Worker(code, { eval: true, execArgv: [], env: {}, name: "worldgrad" });
  worker.on("message", onReady);
  worker.on("error", (error) => onEnd(error.message));
  worker.on("exit", (code) => onEnd(`exit code ${String(code)}`));
  worker.postMessage(message, transfer);
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

/** A kernel that workers can run: the place of its module in the control block. */
export interface SharedCode {
  readonly id: number;
  readonly at: number;
  readonly bytes: number;
}

interface Job {
  readonly code: SharedCode;
  /** The kernel on the calling thread. */
  readonly run: (...args: number[]) => void;
  /** Pointers and scalars; at most `MAX_ARGS`. */
  readonly args: readonly number[];
  readonly units: number;
  /** The number of pieces into which the units are cut; at most `units`. */
  readonly chunks: number;
  /** The approximate time of a chunk; 0 unless given. */
  readonly chunkMs?: number;
  /** The name of the job in an error. */
  readonly label?: () => string;
}

/**
 * Starts workers and waits until they run.
 * @param threads the calling one included, at least 2
 * @param makeMemory makes a shared memory or throws
 * @throws an error whose message is the reason why they did not start
 */
export async function startThreads(
  threads: number,
  makeMemory: () => WebAssembly.Memory,
): Promise<{ pool: ThreadPool; memory: WebAssembly.Memory }> {
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

const argsOf = (block: SharedArrayBuffer, slot: number): Float64Array =>
  new Float64Array(block, 4 * (slotOf(slot) + SLOT.argsAt), MAX_ARGS);

export class ThreadPool {
  /** The largest number of pointers and scalars of a job. */
  readonly maxArgs = MAX_ARGS;
  readonly #block = new SharedArrayBuffer(BLOCK_BYTES);
  readonly #words = new Int32Array(this.#block);
  /** The arguments of jobs, by slot. */
  readonly #args = Array.from({ length: SLOTS }, (_, i) => argsOf(this.#block, i));
  readonly #jobs: Job[] = [];
  /** A copy of `WORD.published`, which only this thread changes. */
  #published = 0;
  /** Threads that were started, the watcher included. */
  #all: Thread[] = [];
  #workers = 0;
  #codeEnd = CODE_AT;
  #kernels = 0;
  #disposed = false;
  /** The time, on the clock of `performance.now()`, until which jobs are done alone. */
  #aloneUntil = -Infinity;
  #aloneMs = 0;
  /** The first failure on this thread since the last `drain`. */
  #failure: { readonly error: unknown; readonly job: number } | undefined;
  /** The reason why the pool cannot be used any more. */
  #broken: string | undefined;

  /** Threads that compute, the calling one included. */
  get threads(): number {
    return this.#workers + 1;
  }

  /** Starts `count` workers; rejects with the first reason when one does not come up. */
  async start(count: number, memory: WebAssembly.Memory): Promise<void> {
    const threads = node()?.getBuiltinModule?.("node:worker_threads") as NodeThreads | undefined;
    const run = (name: string | undefined, start: (events: Omit<Start, "message">) => Thread): Promise<Thread> =>
      new Promise((resolve, reject) => {
        const onEnd = (reason: string): void => {
          clearTimeout(timer);
          reject(new Error(`the workers do not start: ${reason}`)); // nothing happens if it was ready before
          if (!this.#disposed && name !== undefined) this.#broken ??= `${name} ended by itself: ${reason}`;
        };
        const onReady = (): void => {
          clearTimeout(timer);
          resolve(thread!);
        };
        const timer = setTimeout(() => onEnd("no sign of life"), START_MS);
        let thread: Thread | undefined;
        try {
          thread = start({ onReady, onEnd });
          this.#all.push(thread);
        } catch (error) {
          onEnd(error instanceof Error ? error.message : String(error));
        }
      });
    const message = { block: this.#block, memory };
    const ports: unknown[] = [];
    const one = (number: number): Promise<Thread> =>
      run(`worker thread ${number}`, (events) => {
        if (threads === undefined) return startWebThread({ message, ...events });
        const { port1, port2 } = new threads.MessageChannel();
        ports.push(port2);
        return startNodeThread(threads, WORKER, { message: { ...message, alive: port1 }, ...events }, [port1]);
      });
    const starting = Array.from({ length: count }, (_, i) => one(i + 1));
    const watch = { message: { block: this.#block, ports }, ports };
    const watcher =
      threads && run(undefined, (events) => startNodeThread(threads, WATCHER, { ...watch, ...events }, ports));
    // All are awaited at once: if none starts, a rejection that nothing awaits would end Node.
    await Promise.all([...starting, watcher]);
    this.#workers = count;
  }

  /** Puts a module into the control block for the workers; `undefined` when there is no room left. */
  share(module: Uint8Array): SharedCode | undefined {
    const at = this.#codeEnd;
    if (at + module.length > BLOCK_BYTES) return undefined;
    new Uint8Array(this.#block, at, module.length).set(module);
    this.#codeEnd += module.length;
    return { id: this.#kernels++, at, bytes: module.length };
  }

  /**
   * Enqueues a kernel. It runs after those that were submitted before; `drain` waits for it and reports its failure.
   * @param patience seconds without a finished chunk after which a thread counts as dead
   * @throws if the pool is broken, or a job before this one has failed
   */
  submit(job: Job, patience: number = PATIENCE): void {
    this.check();
    const words = this.#words;
    if (Atomics.load(words, WORD.failed) !== 0) this.drain(patience); // while the failed job's slot is still its own
    while (((this.#published - Atomics.load(words, WORD.done)) | 0) >= BACKLOG) this.#help(patience);
    const { code, args, units, chunks } = job;
    const number = this.#published;
    const slot = slotOf(number);
    words[slot + SLOT.kernel] = code.id;
    words[slot + SLOT.codeAt] = code.at;
    words[slot + SLOT.codeBytes] = code.bytes;
    words[slot + SLOT.chunks] = chunks;
    words[slot + SLOT.units] = units;
    words[slot + SLOT.args] = args.length;
    const place = this.#args[number & (SLOTS - 1)]!;
    for (let i = 0; i < args.length; i++) place[i] = args[i]!;
    this.#jobs[number & (SLOTS - 1)] = job;
    Atomics.store(words, slot + SLOT.pending, chunks);
    Atomics.store(words, slot + SLOT.remaining, (turnOf(number) << TURN_BITS) | chunks);
    this.#published = (number + 1) | 0;
    Atomics.store(words, WORD.published, this.#published);
    if (Atomics.load(words, WORD.asleep) > 0) Atomics.notify(words, WORD.published, chunks);
  }

  /** Whether enqueued kernels are not done yet. */
  get busy(): boolean {
    return Atomics.load(this.#words, WORD.done) !== this.#published;
  }

  /** A ticket that stands for everything submitted so far: see `isDone`. */
  get ticket(): number {
    return this.#published;
  }

  /** Whether everything is done that had been submitted when `ticket` was taken. */
  isDone(ticket: number): boolean {
    return ((Atomics.load(this.#words, WORD.done) - ticket) | 0) >= 0;
  }

  /**
   * Waits until everything submitted is done.
   * @throws the first failure of any thread, once; jobs that were submitted behind it have been passed over, and their
   *   results
   *   are missing
   */
  drain(patience: number = PATIENCE): void {
    if (this.busy) this.check(); // finished results can be read, even if workers have ended
    while (this.busy) this.#help(patience);
    const failed = Atomics.load(this.#words, WORD.failed) !== 0;
    const failure = this.#failure;
    this.#failure = undefined;
    const jobs = this.#jobs.splice(0); // their labels keep tensors alive
    if (!failed) return;
    const cause = failure?.error instanceof Error ? failure.error.message : String(failure?.error);
    const message = failure ? cause : this.#message();
    const job = failure?.job ?? this.#words[WORD.failedJob]!;
    Atomics.store(this.#words, WORD.failed, 0);
    const label = jobs[job & (SLOTS - 1)]?.label;
    throw new KernelFailure(label ? `${label()}: ${message}` : message, { cause: failure?.error });
  }

  /** Takes chunks of the current job, then waits until it is done. */
  #help(patience: number): void {
    const words = this.#words;
    const job = Atomics.load(words, WORD.done);
    if (job === this.#published) return; // the workers have just done the last one
    const slot = slotOf(job);
    const { run, args, units, chunks, chunkMs = 0 } = this.#jobs[job & (SLOTS - 1)]!;
    const call = [...args, 0, 0];
    const begun = performance.now();
    for (;;) {
      const seen = Atomics.load(words, slot + SLOT.remaining);
      const index = (seen & 0xffff) - 1;
      if (index < 0) break;
      if (Atomics.compareExchange(words, slot + SLOT.remaining, seen, seen - 1) !== seen) continue;
      try {
        call[args.length] = Math.floor((index * units) / chunks);
        call[args.length + 1] = Math.floor(((index + 1) * units) / chunks);
        if (Atomics.load(words, WORD.failed) === 0) run(...call);
      } catch (error) {
        if (Atomics.compareExchange(words, WORD.failed, 0, 1) === 0) this.#failure = { error, job };
      }
      if (Atomics.sub(words, slot + SLOT.pending, 1) !== 1) continue;
      Atomics.store(words, WORD.done, (job + 1) | 0);
      if (Atomics.load(words, WORD.waiting) > 0) Atomics.notify(words, WORD.done);
      return;
    }
    const worked = performance.now();
    this.#wait(job, patience);
    const done = performance.now();
    if (done - worked > HINDERED_MS + Math.max(worked - begun, 3 * chunkMs)) {
      const again = done - this.#aloneUntil < TRIED_MS;
      this.#aloneMs = again ? Math.min(2 * this.#aloneMs, ALONE_MS.most) : ALONE_MS.least;
      this.#aloneUntil = done + this.#aloneMs;
    }
  }

  /** Whether other programs leave too little of the processors at present for sharing to pay. */
  get hindered(): boolean {
    return performance.now() < this.#aloneUntil;
  }

  /** Whether a worker sleeps, so that a job has to wake it. */
  get asleep(): boolean {
    return Atomics.load(this.#words, WORD.asleep) > 0;
  }

  /** @throws when a worker has ended by itself */
  check(): void {
    const dead = Atomics.load(this.#words, WORD.dead);
    if (dead !== 0 && !this.#disposed) this.#broken ??= `worker thread ${dead} ended by itself`;
    if (this.#broken !== undefined) fail(`wasm: ${this.#broken}`);
  }

  /** Ends the workers. */
  dispose(): void {
    this.#disposed = true;
    this.#broken ??= "the threads were used after dispose()";
    this.#end();
  }

  /** Ends the threads. The watcher, which was started last, ends first: it must not report this. */
  #end(): void {
    for (const thread of this.#all.reverse()) thread.terminate();
    this.#all = [];
  }

  /** Waits until the chunks of a job that other threads have taken are finished. */
  #wait(job: number, patience: number): void {
    const words = this.#words;
    const pendingAt = slotOf(job) + SLOT.pending;
    const deadline = performance.now() + SPIN_MS;
    for (let turns = 1; Atomics.load(words, WORD.done) === job; turns++) {
      if ((turns & 63) === 0 && performance.now() > deadline) break;
    }
    let [idle, pending] = [0, Atomics.load(words, pendingAt)];
    while (Atomics.load(words, WORD.done) === job) {
      Atomics.add(words, WORD.waiting, 1);
      Atomics.wait(words, WORD.done, job, WAIT_MS);
      Atomics.sub(words, WORD.waiting, 1);
      const now = Atomics.load(words, pendingAt);
      idle = now === pending ? idle + 1 : 0;
      pending = now;
      const isDead = Atomics.load(words, WORD.dead) !== 0;
      if (idle < patience && !isDead) continue;
      if (!isDead) this.#broken = `a worker thread took work and has not finished it for ${patience} s`;
      this.#end();
      this.check();
    }
  }

  #message(): string {
    const length = this.#words[WORD.messageLength]!;
    return String.fromCharCode(...new Uint16Array(this.#block, MESSAGE_AT, length));
  }
}
