/**
 * Watchdog of fuzzing: a thread that ends the process, and prints the document, when reading it takes too long. A
 * thread that hangs, as in a regular expression, cannot report itself.
 */
import { Worker } from "node:worker_threads";

/** Length after which a document is cut for printing. */
const MOST_BYTES = 2 ** 20;
const WORDS = 2;

const PROGRAM = `"use strict";
const { writeSync } = require("node:fs");
const { workerData: { block, patience } } = require("node:worker_threads");
const words = new Int32Array(block, 0, ${WORDS});
let [seen, since] = [0, performance.now()];
setInterval(() => {
  const now = Atomics.load(words, 0);
  if (now !== seen) [seen, since] = [now, performance.now()];
  if (performance.now() - since < patience) return;
  const text = Buffer.from(new Uint8Array(block, ${4 * WORDS}, words[1]).slice()).toString();
  writeSync(2, "fuzz: nothing was read for " + patience / 1000 + " s; the document that hangs:\\n" + text + "\\n");
  process.kill(process.pid, "SIGKILL");
}, patience / 10);
`;

/** @param patience milliseconds @returns a function to call with each document, as JSON, before it is read */
export function watchdog(patience: number): (document: string) => void {
  const block = new SharedArrayBuffer(4 * WORDS + MOST_BYTES);
  const [words, bytes] = [new Int32Array(block, 0, WORDS), new Uint8Array(block, 4 * WORDS)];
  new Worker(PROGRAM, { eval: true, workerData: { block, patience }, execArgv: [] }).unref();
  return (document) => {
    const text = Buffer.from(document).subarray(0, MOST_BYTES);
    bytes.set(text);
    words[1] = text.length;
    Atomics.add(words, 0, 1);
  };
}
