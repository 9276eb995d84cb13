/**
 * Where rollout workers run: on the thread of the learner (`localWorkers`: nothing overlaps, everything else is the same), or behind
 * anything that has messages, a Web Worker (`messageWorkers`) or a thread of Node (`threadWorkers` in `worldgrad/node`).
 */
import type { Device } from "../../engine/index.ts";
import { check } from "../../engine/errors.ts";
import type { ModelConfig } from "../../nn/index.ts";
import type { RolloutOptions } from "../play/rollout.ts";
import type { Template, TemplateOptions } from "../episode/template.ts";
import { type FromWorker, type Policy, type ToWorker, toWire } from "./messages.ts";
import { RolloutServer } from "./server.ts";

/** What a worker is told when it starts. */
export interface WorkerSetup {
  readonly config: ModelConfig;
  /** The learner's. */
  readonly device: Device;
  readonly template: Template;
  /** Without its signal: workers are stopped, not aborted. */
  readonly rollout: RolloutOptions;
  /** Episodes that it will have to play at a time. */
  readonly rows: number;
}

/** Neither is called before `start` has returned. */
export interface WorkerEvents {
  /** It says something. */
  readonly receive: (message: FromWorker) => void;
  /** It has ended by itself: killed, crashed, or it could not start. Nothing comes after it. */
  readonly ended: (reason: string) => void;
}

/** One worker, seen from the learner. Who plays, and where, is its own business. */
export interface RolloutWorker {
  /**
   * Hands a message over; messages arrive in order. One that has ended ignores it.
   * @throws if the message cannot be sent: it holds functions of this program
   */
  post(message: ToWorker): void;
  /** Ends it, whatever it is doing. Resolves when it is gone; `ended` is not called then. */
  terminate(): Promise<void>;
}

export interface RolloutWorkers {
  readonly count: number;
  /** They say `alive` about once a second, so that one that hangs can be told from one that works. */
  readonly heartbeat?: boolean;
  /** @param index from 0 to count − 1; a worker that takes the place of a dead one has its index */
  start(index: number, setup: WorkerSetup, events: WorkerEvents): RolloutWorker;
}

/** Workers on this thread, which play while the learner waits. They run wherever the library does, and understand every request. */
export function localWorkers(count: number): RolloutWorkers {
  checkCount("localWorkers", count);
  return {
    count,
    start(_, setup, { receive }) {
      const server = new RolloutServer(setup, receive);
      return { post: (message) => server.receive(message), terminate: () => server.close() };
    },
  };
}

/** What a message port, a Web Worker and the inside of one have in common. */
export interface MessageTarget {
  postMessage(message: unknown): void;
  addEventListener(type: "message", listener: (event: { readonly data: unknown }) => void): void;
}

/** The setup as plain data. Executors cannot be sent: the worker makes its own of the same kind. */
export interface WireSetup {
  readonly kind: "setup";
  readonly config: ModelConfig;
  readonly device: { readonly kind: Device["kind"]; readonly precision: Device["float"] };
  readonly tokenizer: unknown;
  readonly template: TemplateOptions;
  readonly rollout: RolloutOptions;
  readonly rows: number;
}

export const setupToWire = ({ config, device, template, rollout, rows }: WorkerSetup): WireSetup => ({
  kind: "setup",
  config,
  device: { kind: device.kind, precision: device.float },
  tokenizer: template.tokenizer.toJSON(),
  template: template.options,
  rollout,
  rows,
});

/**
 * Messages as they are sent to workers that share no objects. Weights go into memory that threads share, where there is such (in Node,
 * and on pages that are cross-origin isolated): they are copied once for a version, not twice for each worker.
 */
export function wireMessages(): (message: ToWorker) => ToWorker {
  const sent = new WeakMap<Policy, Policy>();
  return (message) => {
    if (message.kind === "play") return { kind: "play", jobs: message.jobs.map(toWire) };
    const known = sent.get(message.policy);
    const policy = known ?? { ...message.policy, weights: message.policy.weights.map(inSharedMemory) };
    sent.set(message.policy, policy);
    return { kind: "policy", policy };
  };
}

/** The same numbers, in memory that threads share if there is such. */
function inSharedMemory(weights: Float32Array | Float64Array): Float32Array | Float64Array {
  if (typeof SharedArrayBuffer === "undefined") return weights;
  const memory = new SharedArrayBuffer(weights.byteLength);
  const shared = weights instanceof Float32Array ? new Float32Array(memory) : new Float64Array(memory);
  shared.set(weights);
  return shared;
}

/** A Web Worker, as far as it is needed here. */
export interface WebWorkerLike {
  postMessage(message: unknown): void;
  addEventListener(type: "message", listener: (event: { readonly data: unknown }) => void): void;
  addEventListener(type: "error" | "messageerror", listener: (event: { readonly message?: string }) => void): void;
  terminate(): void;
}

/**
 * Workers behind Web Workers, each of which runs a script of the application that calls `serveRollouts(self, …)`.
 *
 * @example
 * const workers = messageWorkers(2, () => new Worker(new URL("./rollouts.js", import.meta.url), { type: "module" }));
 */
export function messageWorkers(count: number, make: (index: number) => WebWorkerLike): RolloutWorkers {
  checkCount("messageWorkers", count);
  const toSend = wireMessages();
  return {
    count,
    heartbeat: true,
    start(index, setup, { receive, ended }) {
      const worker = make(index);
      const over = (reason: string): void => {
        worker.terminate();
        ended(reason);
      };
      worker.addEventListener("message", ({ data }) => receive(data as FromWorker));
      worker.addEventListener("error", ({ message }) => over(message ?? "the script of the worker does not load"));
      worker.addEventListener("messageerror", () => over("a message of the worker cannot be read")); // an episode is lost
      worker.postMessage(setupToWire(setup));
      return {
        post: (message) => worker.postMessage(toSend(message)),
        terminate: () => Promise.resolve(worker.terminate()),
      };
    },
  };
}

export function checkCount(where: string, count: number): void {
  check(Number.isInteger(count) && count >= 1 && count <= 64, () => `${where}: expected 1 to 64 workers, got ${count}`);
}
