/**
 * The roofline of this machine (Williams, Waterman and Patterson 2009): multiplications and additions per second in a
 * loop of WebAssembly SIMD that touches no memory, and bytes per second of y ← y + x over arrays that no cache holds.
 * It bounds what WebAssembly can reach with 128-bit vectors and without fused multiply-add; native code reaches more.
 *
 * Each measurement runs in its own process (`contenders/roofline.ts`); for n threads n of them run at once.
 */
import type { Case } from "./cases/case.ts";
import { FMA_FLOPS, SUM_BYTES } from "./contenders/roofline.ts";
import { ContenderProcess } from "./process.ts";

export interface Roofline {
  readonly flops: number;
  readonly bytes: number;
}

/** Calls in a row, so that processes overlap although they do not start at once. */
const CALLS = 8;

/**
 * Measures the machine with `threads` processes at once: the best of several rounds, because other work only slows them
 * down.
 */
export async function measureRoofline(threads: number): Promise<Roofline> {
  const runners = await Promise.all(
    Array.from({ length: threads }, () =>
      ContenderProcess.start({ name: "roofline" }, { threads: 1, env: {}, patience: 300 }),
    ),
  );
  const best = async (op: "fma" | "bandwidth"): Promise<number> => {
    for (const runner of runners) await runner.ask({ do: "prepare", task: { op } });
    let least = Infinity;
    for (let round = 0; round < 12; round++) {
      const times = await Promise.all(runners.map((runner) => runner.ask({ do: "time", calls: CALLS })));
      if (round > 1) least = Math.min(least, Math.max(...times.map(({ ms }) => ms! / CALLS)));
    }
    return least;
  };
  try {
    const flops = (threads * FMA_FLOPS) / (await best("fma")) / 1e-3;
    const bytes = (threads * SUM_BYTES) / (await best("bandwidth")) / 1e-3;
    return { flops, bytes };
  } finally {
    await Promise.all(runners.map((runner) => runner.stop()));
  }
}

/** Least milliseconds of a case on the machine: of its arithmetic or of its memory, whichever is more. */
export function leastMs({ flops, bytes }: Pick<Case, "flops" | "bytes">, machine: Roofline): number {
  return 1000 * Math.max(flops / machine.flops, bytes / machine.bytes);
}
