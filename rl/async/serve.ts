/** The other side of `messageWorkers`: what the script of a worker calls. */
import { type Device, device as makeDevice, type DeviceOptions } from "../../engine/index.ts";
import { tokenizerFromJSON } from "../../nn/index.ts";
import type { EnvironmentSpec } from "../../environments/index.ts";
import { Template } from "../episode/template.ts";
import type { FromWorker, ToWorker } from "./messages.ts";
import { RolloutServer } from "./server.ts";
import type { MessageTarget, WireSetup } from "./workers.ts";

export interface ServeOptions {
  /** The environments that may be asked for, by name. */
  readonly environments: Readonly<Record<string, EnvironmentSpec>>;
  /** Default: the learner's, made again from its tokenizer and options. */
  readonly template?: Template;
  /** Default: of the learner's kind. One thread, unless `options` say otherwise: the workers are the threads. */
  readonly device?: { readonly kind: "wasm" | "webgpu" | "reference"; readonly options?: DeviceOptions };
}

const ALIVE_MS = 1000;

/**
 * Plays what comes over `port`, until the thread ends. An error goes to the learner, whose run it ends.
 * @returns stops it, where the thread is to live on
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
    opening = open(message, options, reply).then(
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

interface Opened {
  readonly server: RolloutServer;
  readonly executor: Device;
}

async function open(
  { config, device, tokenizer, template, rollout, rows }: WireSetup,
  { environments, template: own, device: chosen }: ServeOptions,
  reply: (message: FromWorker) => void,
): Promise<Opened> {
  const { kind, options }: NonNullable<ServeOptions["device"]> = chosen ?? { kind: device.kind, options: { precision: device.precision } }; // prettier-ignore
  const executor = await makeDevice(kind, { threads: 1, ...options });
  const environment = (name: string): EnvironmentSpec => {
    if (Object.hasOwn(environments, name)) return environments[name]!;
    throw new Error(`rollout worker: unknown environment "${name}", expected ${Object.keys(environments).join(", ")}`);
  };
  const shown = own ?? new Template(tokenizerFromJSON(tokenizer), template);
  const server = new RolloutServer({ config, device: executor, template: shown, rollout, rows, environment }, reply);
  return { server, executor };
}
