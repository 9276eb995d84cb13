/**
 * The places where rollout workers run: on the learner's own thread (`localWorkers`: playing and learning alternate,
 * everything else is the same), in Web Workers (`messageWorkers`), or in threads of Node (`threadWorkers` in
 * `worldgrad/node`).
 */
import type { Device } from "../../engine/index.ts";
import type { Model, ModelConfig } from "../../nn/index.ts";
import type { RolloutOptions } from "../../rl/play/rollout.ts";
import type { Metrics } from "../../rl/episode/metrics.ts";
import type { TokenStream } from "../../rl/episode/stream.ts";
import type { HistoryTemplateOptions } from "../../data/history.ts";
import type { Template } from "../../rl/episode/template.ts";
import { checkCount } from "./count.ts";
import type { FrozenWeights } from "./frozen.ts";
import { type FromWorker, type Policy, type ToWorker, toWire } from "./messages.ts";
import { RolloutServer } from "./server.ts";

/** The setup of a worker, which it gets when it starts. */
export interface WorkerSetup {
  readonly config: ModelConfig;
  /** The learner's model, if an adapter of it is trained: workers on the learner's device share its frozen weights. */
  readonly model?: Model | undefined;
  /** Its frozen weights by their paths in the tree, copied to the host for workers that do not share them. */
  readonly frozen?: FrozenWeights | undefined;
  /** The learner's device. */
  readonly device: Device;
  readonly template: Template;
  /** The rollout options without their signal: workers are stopped, not aborted. */
  readonly rollout: RolloutOptions;
  /** The number of episodes that the worker has to play at a time. */
  readonly rows: number;
}

/** Listeners to a worker. Neither is called before `start` has returned. */
export interface WorkerEvents {
  /** Is called with each message of the worker. */
  readonly receive: (message: FromWorker) => void;
  /**
   * Is called when the worker has ended by itself: it was killed, it crashed, or it could not start. No message comes
   * after that.
   */
  readonly ended: (reason: string) => void;
}

/** One worker as the learner sees it. */
export interface RolloutWorker {
  /**
   * Sends a message; messages arrive in order. A worker that has ended ignores it.
   * @throws if the message holds functions, which cannot be sent
   */
  post(message: ToWorker): void;
  /** Ends the worker, whatever it is doing, and resolves when it is gone. `ended` is not called. */
  terminate(): Promise<void>;
}

/** A way to start workers. */
export interface RolloutWorkers {
  readonly count: number;
  /** Whether workers send `alive` about once a second, so that a worker that hangs can be recognised. */
  readonly heartbeat?: boolean;
  /** Whether they play on the learner's own device, so that they share the weights that do not change. */
  readonly sharesDevice?: boolean;
  /** Starts a worker. @param index from 0 to count − 1; a worker that replaces a dead one has the same index */
  start(index: number, setup: WorkerSetup, events: WorkerEvents): RolloutWorker;
  /** Is told of episodes that a step has learnt from, or that were dropped because they are too old. */
  learnt?(streams: readonly TokenStream[]): void;
  /** Metrics that the workers add to those of a step: counts since the last call. */
  metrics?(): Metrics;
  /** For workers with a memory of their own, plain data for a checkpoint; restored before the first worker starts. */
  readonly memory?: { state(): unknown; restore(saved: unknown): void };
}

/**
 * Workers on this thread, which play while the learner waits. They can play every request, because nothing has to be
 * sent.
 */
export function localWorkers(count: number): RolloutWorkers {
  checkCount("localWorkers", count);
  return {
    count,
    sharesDevice: true,
    start(_, setup, { receive }) {
      const server = new RolloutServer(setup, receive);
      return { post: (message) => server.receive(message), terminate: () => server.close() };
    },
  };
}

/** The common part of a message port, a Web Worker and the global scope of a Web Worker. */
export interface MessageTarget {
  postMessage(message: unknown): void;
  addEventListener(type: "message", listener: (event: { readonly data: unknown }) => void): void;
}

/** An adapter without its weights, which come with the policies, and the weights of the model that it was added to. */
export interface WireAdapter {
  readonly settings: Readonly<Record<string, unknown>>;
  readonly frozen: FrozenWeights;
}

/** The setup as plain data. A device cannot be sent, so the worker makes one of the same kind. */
export interface WireSetup {
  readonly kind: "setup";
  readonly config: ModelConfig;
  /** The adapter that is trained, and the weights under it. */
  readonly adapter?: WireAdapter;
  readonly device: { readonly kind: Device["kind"]; readonly precision: Device["float"] };
  readonly tokenizer: unknown;
  readonly template: HistoryTemplateOptions;
  readonly rollout: RolloutOptions;
  readonly rows: number;
}

/** The setup as plain data. */
export const setupToWire = ({ config, model, frozen, device, template, rollout, rows }: WorkerSetup): WireSetup => ({
  kind: "setup",
  config,
  ...(frozen ? { adapter: { settings: model?.trainable?.settings ?? {}, frozen } } : {}),
  device: { kind: device.kind, precision: device.float },
  tokenizer: template.tokenizer.toJSON(),
  template: template.options,
  rollout,
  rows,
});

/**
 * Turns messages into plain data for workers in other threads. Where shared memory exists (in Node, and on pages that
 * are cross-origin isolated), weights are put into it: they are copied once per version and not twice per worker.
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

/** A copy of the numbers in shared memory, if that exists. */
export function inSharedMemory<T extends Float32Array | Float64Array | Int32Array>(numbers: T): T {
  if (typeof SharedArrayBuffer === "undefined") return numbers;
  const type = numbers.constructor as new (memory: SharedArrayBuffer) => T;
  const shared = new type(new SharedArrayBuffer(numbers.byteLength));
  shared.set(numbers);
  return shared;
}

/** The part of a Web Worker that is used here. */
export interface WebWorkerLike {
  postMessage(message: unknown): void;
  addEventListener(type: "message", listener: (event: { readonly data: unknown }) => void): void;
  addEventListener(type: "error" | "messageerror", listener: (event: { readonly message?: string }) => void): void;
  terminate(): void;
}

/**
 * Workers in Web Workers. Each runs a script of the application that calls `serveRollouts(self, …)`.
 *
 * @example
 * const make = () => new Worker(new URL("./rollouts.js", import.meta.url), { type: "module" });
 * const workers = messageWorkers(2, make);
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
      // Without the message an episode would be missing, so the worker is replaced.
      worker.addEventListener("messageerror", () => over("a message of the worker cannot be read"));
      worker.postMessage(setupToWire(setup));
      return {
        post: (message) => worker.postMessage(toSend(message)),
        terminate: () => Promise.resolve(worker.terminate()),
      };
    },
  };
}
