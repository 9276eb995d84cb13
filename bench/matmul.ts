/**
 * Matrix products on one thread: the WebAssembly kernels against a plain JavaScript loop nest over Float32Arrays, in
 * billions of floating-point operations per second (a multiply and an add count as two). For square matrices and for the
 * shapes of a small transformer, of which N and T say how the operands lie: NT is a linear layer's forward pass, NN its
 * gradient for the input, TN the one for the weights.
 *
 * Each product is checked first. Contenders alternate, so that a busy machine disturbs them alike; a number is a median.
 * Run with `npx tsx bench/main.ts matmul`; shapes can be named: `matmul NN:256x256x256 NT:64x128x512` (layout:MxKxN).
 */
import { check } from "../engine/errors.ts";
import { Rng } from "../engine/random.ts";
import type { MatmulSpec } from "../kernels/specs.ts";
import { matmul } from "../kernels/wasm/matmul.ts";

const SHAPES = [
  "NN:128x128x128",
  "NN:256x256x256",
  "NN:512x512x512",
  "NN:1024x1024x1024",
  "NN:2048x128x512",
  "NT:2048x128x512",
  "TN:2048x128x512",
  "NT:64x128x512",
  "NT:1x512x128",
];

/** The loops that somebody in a hurry writes, in the order that reads memory in sequence. */
function plainLoops({ m, n, k, transA, transB }: MatmulSpec, a: Float32Array, b: Float32Array, c: Float32Array): void {
  if (transB) {
    for (let i = 0; i < m; i++) {
      for (let j = 0; j < n; j++) {
        let sum = 0;
        for (let p = 0; p < k; p++) sum += a[i * k + p]! * b[j * k + p]!;
        c[i * n + j] = sum;
      }
    }
    return;
  }
  c.fill(0);
  for (let i = 0; i < m; i++) {
    for (let p = 0; p < k; p++) {
      const x = a[transA ? p * m + i : i * k + p]!;
      for (let j = 0; j < n; j++) c[i * n + j]! += x * b[p * n + j]!;
    }
  }
}

/** Places operands and result in one memory and returns the call that multiplies them. */
function webAssembly(spec: MatmulSpec, a: Float32Array, b: Float32Array): { run: () => void; c: Float32Array } {
  const program = matmul(spec);
  const sizes = [a.byteLength, b.byteLength, 4 * spec.m * spec.n, ...program.temps];
  const at: number[] = [];
  let end = 64;
  for (const size of sizes) {
    at.push(end);
    end += Math.ceil(size / 64) * 64;
  }
  const memory = new WebAssembly.Memory({ initial: Math.ceil(end / 65536), maximum: 65536 });
  new Float32Array(memory.buffer, at[0]).set(a);
  new Float32Array(memory.buffer, at[1]).set(b);
  const calls = program.steps.map(({ kernel, buffers }) => {
    const instance = new WebAssembly.Instance(new WebAssembly.Module(kernel.module()), { env: { memory } });
    const call = instance.exports.run as (...args: number[]) => void;
    const args = [...buffers.map((buffer) => at[buffer]!), ...kernel.scalars, 0, kernel.units];
    return () => call(...args);
  });
  return { run: () => calls.forEach((call) => call()), c: new Float32Array(memory.buffer, at[2], spec.m * spec.n) };
}

/** Milliseconds per call: the contenders' medians over `rounds`, each round long enough to be timed. */
function race(contenders: readonly (() => void)[], rounds: number): number[] {
  const repeats = contenders.map((contender) => {
    const begin = performance.now();
    let calls = 0;
    do {
      contender(); // this is also the warm-up: optimised code arrives while it runs
      calls++;
    } while (performance.now() - begin < 100);
    return Math.max(1, Math.ceil(calls / 50)); // rounds of 2 ms or one call
  });
  const times = contenders.map((): number[] => []);
  for (let round = 0; round < rounds; round++) {
    contenders.forEach((contender, i) => {
      const begin = performance.now();
      for (let r = 0; r < repeats[i]!; r++) contender();
      times[i]!.push((performance.now() - begin) / repeats[i]!);
    });
  }
  return times.map((t) => t.toSorted((x, y) => x - y)[t.length >> 1]!);
}

function measure(name: string): string {
  const parts = /^([NT])([NT]):(\d+)x(\d+)x(\d+)$/.exec(name);
  check(parts !== null, () => `bench matmul: expected a shape like NT:64x128x512 (layout:MxKxN), got ${name}`);
  const [layoutA, layoutB, ...size] = parts.slice(1) as [string, string, string, string, string];
  // TN: the first operand is [M, K] as it lies, and its transpose multiplies.
  const [rows, inner, n] = size.map(Number) as [number, number, number];
  const [m, k] = layoutA === "T" ? [inner, rows] : [rows, inner];
  const spec: MatmulSpec = {
    batch: 1,
    m,
    n,
    k,
    transA: layoutA === "T",
    transB: layoutB === "T",
    batchA: true,
    batchB: true,
    scale: 1,
    bias: false,
  };
  const rng = new Rng(1);
  const a = Float32Array.from({ length: m * k }, () => rng.normal());
  const b = Float32Array.from({ length: k * n }, () => rng.normal());
  const expected = new Float32Array(m * n);
  const plain = (): void => plainLoops(spec, a, b, expected);
  const wasm = webAssembly(spec, a, b);
  plain();
  wasm.run();
  const error = wasm.c.reduce((worst, x, i) => Math.max(worst, Math.abs(x - expected[i]!)), 0);
  check(error < 1e-5 * Math.sqrt(k) * 4, () => `bench matmul ${name}: results differ by ${error}`);
  const flops = 2 * m * n * k;
  const [slow, fast] = race([plain, wasm.run], flops > 5e8 ? 3 : 21) as [number, number];
  const rate = (ms: number): string => (flops / ms / 1e6).toFixed(1);
  return [
    name.padEnd(18),
    rate(slow).padStart(10),
    rate(fast).padStart(10),
    fast.toFixed(3).padStart(10),
    `${(slow / fast).toFixed(1)}×`.padStart(8),
    error.toExponential(1).padStart(10),
  ].join(" ");
}

/** Prints one line per shape; `args` are shapes, none for the standard list. */
export async function run(args: readonly string[]): Promise<void> {
  console.log("one thread, GFLOP/s    loops       wasm    wasm ms   speed  max |Δ|");
  for (const name of args.length > 0 ? args : SHAPES) console.log(measure(name));
}
