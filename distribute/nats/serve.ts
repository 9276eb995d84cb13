/** A worker anywhere: `serveNats` and its options. */
import { hostname } from "node:os";
import process from "node:process";
import { inCode, number, options, type OptionsOf, text } from "../../engine/optionTable.ts";
import type { ServeOptions } from "../async/serve.ts";
import { CONNECTION, connectTo } from "./connection.ts";
import { type Served, Worker } from "./worker.ts";

const WORKER = options("serveNats", {
  ...CONNECTION.fields,
  episodes: number(16, "episodes at a time", { integer: true, min: 1 }),
  largest: number(2 ** 32, "bytes of a policy's weights at most", { integer: true, min: 1024 }),
  inline: number(undefined, "bytes of an episode that is sent as a message; by default what the server takes", {
    integer: true,
    min: 0,
  }),
  name: text(undefined, "name in the learner's lines; by default host and process"),
  signal: inCode<AbortSignal>("ends the worker", "an AbortSignal", (value) => typeof value === "object"),
});

/** Options of `serveNats`: the server, the environments that may be played, and how many episodes at a time. */
export interface ServeNatsOptions extends OptionsOf<typeof WORKER>, ServeOptions {
  /** Is called with a line about each event. */
  readonly note?: (line: string) => void;
}

/**
 * Plays for learners until the signal is aborted. It waits for a learner, and goes on with the next run when one ends.
 * @throws if there is no server, if it refuses, or if it stays away for longer than `patience` seconds
 *
 * @example
 * await serveNats({ server: "nats://127.0.0.1:4222", environments: { calculator } });
 */
export async function serveNats(given: ServeNatsOptions): Promise<Served> {
  const { note = () => {}, environments, template, device, ...rest } = given;
  const settled = WORKER.read(rest);
  const { signal } = rest;
  const name = settled.name ?? `${hostname()}-${process.pid}`;
  const link = await connectTo(settled, `worldgrad worker ${name}`, note);
  const serve = { environments, ...(template ? { template } : {}), ...(device ? { device } : {}) };
  const worker = new Worker(link, { ...settled, name }, serve, note);
  const stop = (): void => void worker.stop();
  if (signal?.aborted) stop();
  signal?.addEventListener("abort", stop, { once: true });
  try {
    return await worker.run();
  } finally {
    signal?.removeEventListener("abort", stop);
  }
}
