/**
 * Loops that measure the machine, for `../roofline.ts`: arithmetic without memory, and memory with as little arithmetic
 * as possible.
 */
import { F32x4, kernelModule, load } from "../../kernels/wasm/assembler.ts";
import type { Engine, Prepared } from "./engine.ts";

const ACCUMULATORS = 12;
const FMA_STEPS = 2_000_000;
/** Length of the two arrays, 64 MiB each: larger than most caches, and than the share of one core in any. */
const FLOATS = 2 ** 24;

/** FLOPs and bytes of one call. */
export const FMA_FLOPS: number = FMA_STEPS * ACCUMULATORS * 8;
export const SUM_BYTES: number = FLOATS * 12;

/**
 * sum_i ← sum_i · x + x for twelve sums: enough to hide the latency of both instructions, few enough for 16 registers.
 */
const fmaModule = (): Uint8Array<ArrayBuffer> =>
  kernelModule({ out: "i32", steps: "i32" }, (f, { out, steps }) => {
    const x = f.let(load.f32x4(out));
    const sums = Array.from({ length: ACCUMULATORS }, () => f.let(F32x4.of(1)));
    f.for(0, steps, 1, () => {
      for (const sum of sums) f.set(sum, sum.mul(x).add(x));
    });
    f.store(
      out,
      sums.reduce<F32x4>((a, b) => a.add(b), F32x4.of(0)),
      16,
    );
  });

/** y[i] ← y[i] + x[i], eight vectors a turn. */
const sumModule = (): Uint8Array<ArrayBuffer> =>
  kernelModule({ x: "i32", y: "i32", bytes: "i32" }, (f, { x, y, bytes }) => {
    f.for(0, bytes, 128, (at) => {
      const [from, to] = [f.let(x.add(at)), f.let(y.add(at))];
      for (let i = 0; i < 8; i++) f.store(to, load.f32x4(to, 16 * i).add(load.f32x4(from, 16 * i)), 16 * i);
    });
  });

/** Engine of these loops; each runs in its own process. */
export function roofline(): Engine {
  return {
    description: "roofline",
    async prepare({ op }): Promise<Prepared | string> {
      if (op !== "fma" && op !== "bandwidth") return `the roofline has no task "${op}"`;
      const memory = new WebAssembly.Memory({ initial: op === "fma" ? 1 : (2 * 4 * FLOATS) / 65536, maximum: 65536 });
      new Float32Array(memory.buffer, 0, 4).fill(0.5); // sums tend to 1, so there are no infinities and no subnormals
      const module = new WebAssembly.Module(op === "fma" ? fmaModule() : sumModule());
      const { run } = new WebAssembly.Instance(module, { env: { memory } }).exports as {
        run: (...args: number[]) => void;
      };
      const args = op === "fma" ? [0, FMA_STEPS] : [0, 4 * FLOATS, 4 * FLOATS];
      return { check: async () => [0], run: () => run(...args), dispose: () => undefined };
    },
  };
}
