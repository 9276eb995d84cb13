/**
 * Time of a step by op. One step is recorded: each program with its buffers and their contents. Then each program runs
 * alone many times, between two moments at which the device is idle, and the times are summed by op. This works on
 * every executor. The sum differs from the time of a step: each program finds its data in the cache, and none overlaps
 * with the next.
 */
import type { Buffer } from "../../engine/backends/backend.ts";
import type { Device } from "../../engine/index.ts";
import type { Prepared } from "./engine.ts";

interface Recorded {
  readonly program: never;
  readonly label: string;
  readonly sizes: readonly number[];
  readonly contents: Promise<readonly ArrayBuffer[]>;
}

type Run = (program: never, buffers: readonly Buffer[], label: () => string) => void;

/** Approximate length of a try, in which a program repeats. */
const TRY_MS = 2;

export function profileTask(on: Device, step: Prepared): Prepared {
  return { ...step, figures: () => profile(on, step) };
}

async function profile(on: Device, step: Prepared): Promise<Record<string, number>> {
  const recorded = await record(on, step);
  const totals = new Map<string, { ms: number; calls: number }>();
  for (const { program, label, sizes, contents } of recorded) {
    const { backend } = on;
    const initial = await contents;
    const buffers = sizes.map((bytes) => backend.alloc(bytes));
    initial.forEach((bytes, i) => backend.write(buffers[i]!, new Uint32Array(bytes)));
    const run = (): void => backend.run(program, buffers, () => label);
    const ms = await timed(on, run);
    for (const buffer of buffers) backend.free(buffer);
    const name = label.split("(")[0]!;
    const total = totals.get(name) ?? { ms: 0, calls: 0 };
    totals.set(name, { ms: total.ms + ms, calls: total.calls + 1 });
  }
  const sorted = [...totals].sort(([, a], [, b]) => b.ms - a.ms);
  return Object.fromEntries(sorted.map(([name, { ms, calls }]) => [`${name} (${calls} calls) ms`, ms]));
}

/** Runs one step with a backend that records what it runs. */
async function record(on: Device, step: Prepared): Promise<Recorded[]> {
  const backend = on.backend as { run: Run; read(buffer: Buffer, bytes: number): Promise<ArrayBuffer> };
  const recorded: Recorded[] = [];
  const original = backend.run.bind(backend);
  backend.run = (program, buffers, label) => {
    const sizes = buffers.map(({ bytes }) => bytes);
    // `read` copies at once, before this program runs.
    const contents = Promise.all(buffers.map((buffer) => backend.read(buffer, buffer.bytes)));
    recorded.push({ program, label: label(), sizes, contents });
    original(program, buffers, label);
  };
  try {
    await step.run();
    await step.finish?.();
  } finally {
    Reflect.deleteProperty(backend, "run"); // restores the method of the class
  }
  return recorded;
}

/** Milliseconds per run: the least of several tries, because other work on the machine only adds time. */
async function timed(on: Device, run: () => void): Promise<number> {
  const perRun = async (repeats: number): Promise<number> => {
    const begin = performance.now();
    for (let i = 0; i < repeats; i++) run();
    await on.synchronize();
    return (performance.now() - begin) / repeats;
  };
  await perRun(1);
  let least = await perRun(1);
  const repeats = Math.max(1, Math.round(TRY_MS / least));
  for (let tries = 0; tries < 12; tries++) least = Math.min(least, await perRun(repeats));
  return least;
}
