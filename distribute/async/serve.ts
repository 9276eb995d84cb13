/** The worker's side of `messageWorkers`, which the script of a worker calls. */
import { type Device, device as makeDevice, type DeviceOptions, outsideScopes } from "../../engine/index.ts";
import { addLora, tokenizerFromJSON } from "../../pretrained/index.ts";
import type { Model, ModelConfig } from "../../nn/index.ts";
import type { EnvironmentSpec } from "../../rl/environment.ts";
import { templateOf } from "../../data/history.ts";
import type { Template } from "../../rl/episode/template.ts";
import { frozenModel } from "./frozen.ts";
import type { FromWorker, ToWorker } from "./messages.ts";
import { RolloutServer } from "./server.ts";
import type { MessageTarget, WireAdapter, WireSetup } from "./workers.ts";

/** Options of `serveRollouts`: the environments that a worker can play, and the device that it plays on. */
export interface ServeOptions {
  /** The environments that the learner may request, by name. */
  readonly environments: Readonly<Record<string, EnvironmentSpec>>;
  /** The template. Default: the learner's, made again from its tokenizer and options. */
  readonly template?: Template;
  /**
   * The device. Default: the same kind as the learner's. It uses one thread unless `options` say otherwise, because
   * each worker is a thread.
   */
  readonly device?: { readonly kind: "wasm" | "webgpu" | "reference"; readonly options?: DeviceOptions };
}

/** Milliseconds between two messages `alive`. */
const ALIVE_MS = 1000;

/**
 * Plays the episodes that are requested over `port` until the thread ends. An error is sent to the learner and ends its
 * run.
 * @returns a function that stops playing, if the thread is to live on
 */
export function serveRollouts(port: MessageTarget, options: ServeOptions): () => Promise<void> {
  const reply = (message: FromWorker): void => port.postMessage(message);
  const early: ToWorker[] = [];
  let server: RolloutServer | undefined;
  let opening: Promise<Opened | undefined> | undefined;
  let pulse: ReturnType<typeof setInterval> | undefined;
  port.addEventListener("message", ({ data }) => {
    const message = data as WireSetup | ToWorker;
    if (message.kind !== "setup") {
      if (server) server.receive(message);
      else early.push(message);
      return;
    }
    pulse = setInterval(() => reply({ kind: "alive" }), ALIVE_MS);
    opening = openServer(message, options, reply).then(
      (opened) => {
        server = opened.server;
        for (const waiting of early.splice(0)) server.receive(waiting);
        return opened;
      },
      (error: unknown) => {
        reply({ kind: "failed", message: error instanceof Error ? error.message : String(error) });
        return undefined;
      },
    );
  });
  return async () => {
    clearInterval(pulse);
    const opened = await opening;
    await opened?.server.close();
    opened?.executor.dispose();
  };
}

/** A server with the device that it plays on. */
export interface Opened {
  readonly server: RolloutServer;
  readonly executor: Device;
}

/** A server for a setup that came as plain data. @throws if the setup does not fit the options */
export async function openServer(
  { config, adapter, device, tokenizer, template, rollout, rows }: WireSetup,
  { environments, template: own, device: chosen }: ServeOptions,
  reply: (message: FromWorker) => void,
): Promise<Opened> {
  const learners = { kind: device.kind, options: { precision: device.precision } };
  const { kind, options }: NonNullable<ServeOptions["device"]> = chosen ?? learners;
  const executor = await makeDevice(kind, { threads: 1, ...options });
  try {
    const shown = own ?? templateOf(tokenizerFromJSON(tokenizer), template);
    const model = adapter && adaptedModel(config, adapter, executor);
    const environment = finder(environments);
    const served = { config, model, device: executor, template: shown, rollout, rows, environment };
    return { server: new RolloutServer(served, reply), executor };
  } catch (error) {
    executor.dispose();
    throw error;
  }
}

const finder =
  (environments: ServeOptions["environments"]) =>
  (name: string): EnvironmentSpec => {
    if (Object.hasOwn(environments, name)) return environments[name]!;
    throw new Error(`rollout worker: unknown environment "${name}", expected ${Object.keys(environments).join(", ")}`);
  };

/** The model under an adapter, with an adapter of the same shape. */
const adaptedModel = (config: ModelConfig, { settings, frozen }: WireAdapter, device: Device): Model =>
  outsideScopes(() => addLora(frozenModel(config, frozen, device), settings));
