/** One agent of the live page: in Node, and in a worker of a page, where the same orders must give the same metrics. */
import { device } from "../../engine/index.ts";
import type { Preset } from "../../run/preset.ts";
import type { MetricsRecord } from "../../run/records.ts";
import { experimentOf } from "../../site/experiment.ts";
import type { FromAgent, ToAgent } from "../../site/messages.ts";
import { Session, warmUp } from "../../site/session.ts";

/** Metrics without what depends on the clock. */
export const timeless = (metrics: readonly MetricsRecord[]): MetricsRecord[] =>
  metrics.map(({ step_time: _time, tokens_per_second: _rate, ...line }) => line);

/** The settings of the second agent of an address, and its metrics when it is played to the end in Node. */
export async function playedInNode(address: string): Promise<{ preset: Preset; metrics: readonly MetricsRecord[] }> {
  const { warm, agents } = experimentOf(new URLSearchParams(address));
  const { preset } = agents[1]!;
  const quiet = { phase() {}, update() {}, evaluation() {}, transcript() {}, note() {} };
  const on = await device("wasm", { threads: 1 });
  const start = (await warmUp(warm, on, quiet, new AbortController().signal))!;
  const session = new Session(preset, start, on, quiet);
  await session.playTo();
  on.dispose();
  return { preset, metrics: session.metrics };
}

/** What an agent in a worker of a page told. */
export interface PlayedInPage {
  /** What computed, in the executor's words. */
  readonly executor: string;
  readonly metrics: readonly MetricsRecord[];
}

/**
 * What runs in a page, as its own text, so that it may use nothing but its arguments: an agent plays, goes back, and
 * plays to the end.
 * @param at the address of agent.js
 */
export function playInWorker([at, preset, device = "wasm"]: readonly [
  at: string,
  preset: Preset,
  device?: "wasm" | "webgpu",
]): Promise<PlayedInPage> {
  return new Promise((done, failed) => {
    const worker = new Worker(at, { type: "module" });
    const orders: ToAgent[] = [
      { kind: "begin", preset, device },
      { kind: "play", to: 2 },
      { kind: "goTo", step: 1 },
      { kind: "play" },
    ];
    let executor = "";
    worker.addEventListener("message", ({ data }: MessageEvent<FromAgent>) => {
      if (data.kind === "failed") failed(new Error(data.message));
      if (data.kind === "ready") executor = data.executor;
      if (data.kind !== "rests" || data.after === undefined) return;
      worker.terminate();
      done({ executor, metrics: data.metrics });
    });
    for (const order of orders) worker.postMessage(order);
  });
}
