/**
 * The program of a worker thread of the WebAssembly executor, and the block of shared words through which it gets
 * kernels. `threads.ts` is the other side, and describes how they work together.
 */

/**
 * The time that a worker without work keeps looking before it sleeps: longer than the gap between two shared kernels of
 * a step, a garbage collection included.
 */
const SPIN_MS = 2;

/** Words of the control block. Those that several threads change lie a cache line (16 words) apart. */
export const WORD = {
  /** Jobs published so far; workers sleep on it. Counts wrap at 32 bits. */
  published: 0,
  /** Workers asleep there, or about to be. */
  asleep: 16,
  /** Jobs done so far, so also the number of the current job; threads that wait for its last chunks sleep on it. */
  done: 32,
  /** Threads asleep there, or about to be. */
  waiting: 48,
  /** 1 when a chunk failed: those that follow are passed over, until the calling thread has noticed. */
  failed: 64,
  failedJob: 65,
  messageLength: 66,
  /** The number of a worker that has ended by itself, from 1; written by the watcher. */
  dead: 80,
} as const;
/**
 * Words of a job, in a slot that it shares with every `SLOTS`th job. Words that only one thread changes are written
 * before `remaining`, and stay as they are until `pending` is 0: a thread that has a chunk may read them.
 */
export const SLOT = {
  /**
   * Chunks that no thread has taken, and in the bits above the job's turn in the slot, so that a late worker takes no
   * chunk of a later job.
   */
  remaining: 0,
  /** Chunks that are not finished. */
  pending: 16,
  kernel: 32,
  codeAt: 33,
  codeBytes: 34,
  chunks: 35,
  units: 36,
  args: 37,
  argsAt: 48,
} as const;
/** The largest number of arguments of a job. */
export const MAX_ARGS = 128;
const SLOT_WORDS: number = SLOT.argsAt + 2 * MAX_ARGS;
export const SLOTS = 64;
export const TURN_BITS = 16;
const TURNS = 0x7fff;
/** Bytes: the slots, the message of the first failure as UTF-16, and the modules. */
const SLOTS_AT = 512;
export const MESSAGE_AT: number = SLOTS_AT + 4 * SLOTS * SLOT_WORDS;
const MAX_MESSAGE = 512;
export const CODE_AT: number = MESSAGE_AT + 2 * MAX_MESSAGE;
/**
 * Room for about a thousand modules; pages that are never written cost nothing. Kernels that do not fit run on the
 * calling thread.
 */
export const BLOCK_BYTES: number = 4 * 2 ** 20;

/**
 * The offset of a job's words, and its turn there, which comes again after two million jobs: no thread is late by so
 * many. The workers' text repeats both.
 */
export const slotOf = (job: number): number => SLOTS_AT / 4 + (job & (SLOTS - 1)) * SLOT_WORDS;
export const turnOf = (job: number): number => (job >>> Math.log2(SLOTS)) & TURNS;

/**
 * The watcher's program, on Node. It has one end of a channel to each worker, and a thread that ends, for whatever
 * reason, closes the other. The watcher writes that into the block and wakes the threads that wait. The calling thread
 * could not do this: it hears of ends through its event loop, which does not run while it waits for a chunk. Nor could
 * a worker that computes.
 */
export const WATCHER: string = `"use strict";
require("node:worker_threads").parentPort.once("message", ({ block, ports }) => {
  const words = new Int32Array(block);
  ports.forEach((port, i) => {
    port.on("close", () => {
      Atomics.store(words, ${WORD.dead}, i + 1);
      Atomics.notify(words, ${WORD.done});
    });
    port.ref(); // else this thread would end, having nothing to do
  });
  require("node:worker_threads").parentPort.postMessage("ready");
});
`;

/**
 * A worker's program, as text, so that it needs no file of its own: it works from sources, from a build and from a
 * bundle. It never returns to its event loop.
 */
export const WORKER: string = `"use strict";
const node = typeof require === "function" ? require("node:worker_threads") : undefined;
const reply = (text) => (node ? node.parentPort : self).postMessage(text);
// alive: the watcher hears when this thread has let go of it.
const start = ({ block, memory, alive }) => {
  const words = new Int32Array(block);
  const kernels = [];
  const argsAt = (slot) => ${SLOTS_AT} + 4 * (slot * ${SLOT_WORDS} + ${SLOT.argsAt});
  const argsOf = Array.from({ length: ${SLOTS} }, (_, i) => new Float64Array(block, argsAt(i), ${MAX_ARGS}));
  // The arguments of the last job, and behind them the units: read once, not for each chunk.
  let [known, call] = [-1, []];
  const compute = (job, slot, index) => {
    try {
      const id = words[slot + ${SLOT.kernel}];
      if (kernels[id] === undefined) {
        const at = words[slot + ${SLOT.codeAt}];
        const module = new WebAssembly.Module(new Uint8Array(block, at, words[slot + ${SLOT.codeBytes}]).slice());
        kernels[id] = new WebAssembly.Instance(module, { env: { memory } }).exports.run;
      }
      const chunks = words[slot + ${SLOT.chunks}], units = words[slot + ${SLOT.units}];
      const count = words[slot + ${SLOT.args}];
      if (job !== known) [known, call] = [job, Array.from(argsOf[job & ${SLOTS - 1}].subarray(0, count))];
      call[count] = Math.floor((index * units) / chunks);
      call[count + 1] = Math.floor(((index + 1) * units) / chunks);
      if (Atomics.load(words, ${WORD.failed}) === 0) kernels[id](...call);
    } catch (error) {
      if (Atomics.compareExchange(words, ${WORD.failed}, 0, 1) === 0) {
        const text = String(error instanceof Error ? error.message : error).slice(0, ${MAX_MESSAGE});
        const message = new Uint16Array(block, ${MESSAGE_AT}, ${MAX_MESSAGE});
        for (let i = 0; i < text.length; i++) message[i] = text.charCodeAt(i);
        words[${WORD.messageLength}] = text.length;
        words[${WORD.failedJob}] = job;
      }
    }
    if (Atomics.sub(words, slot + ${SLOT.pending}, 1) !== 1) return;
    Atomics.store(words, ${WORD.done}, (job + 1) | 0);
    if (Atomics.load(words, ${WORD.waiting}) > 0) Atomics.notify(words, ${WORD.done});
  };
  const takeAll = (job) => {
    const slot = ${SLOTS_AT / 4} + (job & ${SLOTS - 1}) * ${SLOT_WORDS};
    const turn = (job >>> ${Math.log2(SLOTS)}) & ${TURNS};
    for (;;) {
      const seen = Atomics.load(words, slot);
      if (seen >> ${TURN_BITS} !== turn || (seen & 0xffff) === 0) return;
      if (Atomics.compareExchange(words, slot, seen, seen - 1) === seen) compute(job, slot, (seen & 0xffff) - 1);
    }
  };
  const whileIs = (word, value, sleepers) => {
    const deadline = performance.now() + ${SPIN_MS};
    let turns = 0;
    while (Atomics.load(words, word) === value && ((++turns & 63) !== 0 || performance.now() < deadline));
    if (Atomics.load(words, word) !== value) return;
    Atomics.add(words, sleepers, 1);
    Atomics.wait(words, word, value);
    Atomics.sub(words, sleepers, 1);
  };
  reply("ready");
  for (;;) {
    const job = Atomics.load(words, ${WORD.done});
    if (Atomics.load(words, ${WORD.published}) === job) whileIs(${WORD.published}, job, ${WORD.asleep});
    else {
      takeAll(job);
      whileIs(${WORD.done}, job, ${WORD.waiting});
    }
  }
};
if (node) node.parentPort.once("message", start);
else self.onmessage = (event) => start(event.data);
`;
