/**
 * # 3 · The matrix product: a ladder to the limit of the machine
 *
 * **What you will understand:** why programs that do the same multiplications differ in speed by a factor of thirty or
 * more: what loads, cache lines, registers and vector instructions cost, and how to know that nothing is left to gain.
 *
 * Most of the time of training goes into C = A·B, c_ij = Σ_k a_ik·b_kj. For n × n matrices these are n³ multiply-adds,
 * or 2n³ flops (floating-point operations). For each of eight rungs we **count** how often instructions touch memory
 * per multiply-add, and **measure** GFLOP/s, 10⁹ flops per second, on your machine.
 *
 * The elements are multiples of 1/8 from −1 to 1. So products are multiples of 1/64, and a sum of n ≤ 1024 of them is a
 * whole number of 64ths of at most 65,536, which f32 (24 bits of 32) need not round. All orders of summation must give
 * the same bits, and one element that differs from rung 1 is an error.
 */
import { device, matmul, Rng, scope, tensor, type Tensor } from "../index.ts";
import { F32x4, type F32, type I32, i32s, kernelModule, load } from "../kernels/wasm/assembler.ts";

const memory = new WebAssembly.Memory({ initial: 1536, maximum: 65536 }); // pages of 64 KiB: 96 MiB
const rng = new Rng(0);
let used = 0; // floats of the memory
const room = (floats: number): Float32Array => new Float32Array(memory.buffer, 4 * ((used += floats) - floats), floats);
function problem(n: number) {
  const [A, B] = [room(n * n), room(n * n)];
  for (const matrix of [A, B]) matrix.forEach((_, i) => (matrix[i] = (rng.int(17) - 8) / 8));
  return { n, A, B, C: room(n * n), packed: room(n * n), right: undefined as Float32Array | undefined };
}
type Problem = ReturnType<typeof problem>;
/** Milliseconds of the best of several runs: the first find code that is not optimised yet, others a busy machine. */
function best(run: () => void): number {
  const times: number[] = [];
  for (let total = 0; times.length < 3 || total < 150; total += times.at(-1)!) {
    const start = performance.now();
    run();
    times.push(performance.now() - start);
  }
  return Math.min(...times);
}
function rung(name: string, touches: number, on: Problem, run: () => void): void {
  on.C.fill(NaN);
  const rate = (2e-6 * on.n ** 3) / best(run);
  on.right ??= on.C.slice();
  const wrong = on.C.filter((c, i) => c !== on.right![i]).length;
  const counted = `n = ${on.n}, ${touches.toFixed(2)} touches, ${wrong} wrong`;
  console.log(`${name.padEnd(28)} ${counted}, measured ${rate.toFixed(2)} GFLOP/s`);
}

/**
 * ## Three loops in JavaScript
 *
 * A matrix is one piece of memory, row after row. Rung 1 is the formula: two loads for a multiply-add; the sum is in a
 * *register*, inside the processor. Memory comes in **cache lines** of 64 bytes, 16 floats. Down a column of B each
 * step needs another line and uses one float of it. Rung 2 swaps two loops: the inner one goes along rows of B and C,
 * 16 steps per line. The price: sums are loaded and stored each time. This pays if lines are far away; here B, of 590
 * KB, fits in many second caches. Rung 3 computes a **tile** of 2 × 2 elements of C. Their sums stay in registers while
 * k runs, and each loaded number serves twice: a tile of r × c loads r + c for r·c multiply-adds.
 */

const small = problem(384);
const { n, A, B, C } = small;
rung("1 JavaScript, loops i j k", 2, small, () => {
  for (let i = 0; i < n; i++)
    for (let j = 0; j < n; j++) {
      let sum = 0;
      for (let k = 0; k < n; k++) sum += A[i * n + k]! * B[k * n + j]!;
      C[i * n + j] = sum;
    }
});
rung("2 loops i k j", 3, small, () => {
  C.fill(0);
  for (let i = 0; i < n; i++)
    for (let k = 0; k < n; k++) {
      const a = A[i * n + k]!;
      for (let j = 0; j < n; j++) C[i * n + j]! += a * B[k * n + j]!;
    }
});
rung("3 tiles of 2 × 2", 1, small, () => {
  for (let i = 0; i < n; i += 2)
    for (let j = 0; j < n; j += 2) {
      let [c00, c01, c10, c11] = [0, 0, 0, 0];
      for (let k = 0, a = i * n, b = j; k < n; k++, a++, b += n) {
        const a0 = A[a]!;
        const a1 = A[a + n]!;
        const b0 = B[b]!;
        const b1 = B[b + 1]!;
        c00 += a0 * b0;
        c01 += a0 * b1;
        c10 += a1 * b0;
        c11 += a1 * b1;
      }
      C.set([c00, c01], i * n + j);
      C.set([c10, c11], i * n + n + j);
    }
});

/**
 * ## The same in WebAssembly
 *
 * WebAssembly is machine code for an imagined processor; the engine translates it for the real one. The library has an
 * assembler that writes its bytes. `load.f32(p)` is an *expression*: it stands for code, nothing is computed yet.
 * `f.let(x)` computes x into a variable, `f.store(p, x)` into memory, `f.for` is a loop, `p.at(i)` the address of float
 * i behind p. Rung 4 is rung 2 in f32 (JavaScript computes in 64 bits and converts). Rung 5 has **SIMD**: an f32x4 is
 * four floats in one register; adding all of them is one instruction. `load.splat` fills them with one float.
 */

function start(bytes: Uint8Array<ArrayBuffer>): (...args: number[]) => void {
  const { exports } = new WebAssembly.Instance(new WebAssembly.Module(bytes), { env: { memory } });
  return exports["run"] as (...args: number[]) => void;
}
type Load<V> = (address: I32) => V;
const loops = <V extends F32 | F32x4>(one: Load<V>, some: Load<V>, madd: (sum: V, x: V, y: V) => V, step: number) =>
  kernelModule(i32s("a", "b", "c", "n"), (f, { a, b, c, n }) => {
    f.for(0, n, 1, (i) => {
      const to = f.let(c.at(i.mul(n)));
      f.for(0, n, 1, (k) => {
        const x = f.let(one(a.at(i.mul(n).add(k))));
        const from = f.let(b.at(k.mul(n)));
        f.for(0, n, step, (j) => f.store(to.at(j), madd(some(to.at(j)), x, some(from.at(j)))));
      });
    });
  });
const scalar = start(loops(load.f32, load.f32, (sum, x, y) => sum.add(x.mul(y)), 1));
const simd = start(loops(load.splat, load.f32x4, (sum, x, y) => sum.add(x.mul(y)), 4));
const addresses = [A, B, C].map((matrix) => matrix.byteOffset);
rung("4 WebAssembly, loops i k j", 3, small, () => (C.fill(0), scalar(...addresses, n)));
rung("5 four floats at a time", 3 / 4, small, () => (C.fill(0), simd(...addresses, n)));

/**
 * ## A tile of vectors, and B in the order in which it is read
 *
 * Rung 6: a tile of 4 × 8 has eight vectors of sums. For one k it loads two vectors of B and four floats of A, for 32
 * multiply-adds. Eight sums, two vectors of B, one of A and a product are 12 of the 16 vector registers of x86; what
 * does not fit would wait in memory. TypeScript's loops over `sums` unroll: they run now, `f.for` runs later.
 *
 * A tile reads 8 columns of B. From k to k + 1 that is a step of n floats: to another line, and if n is a multiple of
 * 1024 to the same few places of the first cache, where lines drive each other out. Rung 7 first **packs** B: panels of
 * 8 columns, each in one piece. It copies n² floats to save time in n³ multiply-adds. The kernel is the same; `step`
 * (bytes from k to k + 1) and `panel` (the start of a panel is j · panel floats) differ. Rung 8: the library.
 */

const range = (length: number): number[] => Array.from({ length }, (_, i) => i);
const tiles = kernelModule(i32s("a", "b", "c", "n", "step", "panel"), (f, { a, b, c, n, step, panel }) => {
  f.for(0, n, 8, (j) => {
    f.for(0, n, 4, (i) => {
      const sums = range(4).map(() => range(2).map(() => f.let(F32x4.of(0))));
      const fromA = range(4).map((r) => f.let(a.at(i.add(r).mul(n))));
      const fromB = f.let(b.at(j.mul(panel)));
      f.for(0, n, 1, () => {
        const y = range(2).map((v) => f.let(load.f32x4(fromB, 16 * v)));
        fromA.forEach((pointer, r) => {
          const x = f.let(load.splat(pointer));
          sums[r]!.forEach((sum, v) => f.set(sum, sum.add(x.mul(y[v]!))));
          f.set(pointer, pointer.add(4));
        });
        f.set(fromB, fromB.add(step));
      });
      sums.forEach((row, r) => row.forEach((sum, v) => f.store(c.at(i.add(r).mul(n).add(j)), sum, 16 * v)));
    });
  });
});
const runTiles = start(tiles);
function pack({ n, B, packed }: Problem): number {
  for (let j = 0; j < n; j += 8)
    for (let k = 0; k < n; k++) for (let v = 0; v < 8; v++) packed[j * n + 8 * k + v] = B[k * n + j + v]!;
  return packed.byteOffset;
}
await device("wasm", { threads: 1 });
for (const on of [small, problem(1024)]) {
  const { n, A, B, C } = on;
  const [a, b] = [A, B].map((matrix) => tensor(matrix, { shape: [n, n] })) as [Tensor, Tensor];
  const product = (): Float32Array => scope(() => matmul(a, b)).readSync() as Float32Array;
  on.right ??= product(); // for n = 1024, where the first rungs would take long
  rung("6 tiles of 4 × 8", 6 / 32, on, () => runTiles(A.byteOffset, B.byteOffset, C.byteOffset, n, 4 * n, 1));
  rung("7 the same, B packed before", 6 / 32, on, () => runTiles(A.byteOffset, pack(on), C.byteOffset, n, 32, n));
  rung("8 the library, one thread", 6 / 32, on, () => C.set(product()));
}

/**
 * ## Where the ladder ends: the roofline
 *
 * Two things bound every program: flops per second, and bytes per second from memory. With **intensity** I, flops per
 * byte, it reaches at most min(peak, I · bandwidth): the *roofline* (Williams, Waterman and Patterson 2009). The peak
 * is measured in a loop that touches no memory, the bandwidth by adding arrays of 32 MiB, too large for most caches. If
 * A, B and C go through memory once, I = 2n³ / (3 · 4n²) = n/6, here 64 or more: a large product is bound by the peak,
 * and the last rungs are near it. A matrix times one vector has I = 2n² / 4n² = 1/2: bound by bandwidth.
 */

const peak = kernelModule(i32s("at", "turns"), (f, { at, turns }) => {
  const x = f.let(F32x4.of(0.5));
  const sums = range(12).map(() => f.let(F32x4.of(1))); // so many that none waits for its own last addition
  f.for(0, turns, 1, () => sums.forEach((sum) => f.set(sum, sum.mul(x).add(x))));
  sums.forEach((sum, v) => f.store(at, sum, 16 * v)); // else the engine might see that nobody needs them
});
const add = kernelModule(i32s("x", "y", "n"), (f, { x, y, n }) => {
  f.for(0, n, 4, (i) => f.store(y.at(i), load.f32x4(y.at(i)).add(load.f32x4(x.at(i)))));
});
const [runPeak, runAdd] = [start(peak), start(add)];
const [x, y, size] = [room(2 ** 23), room(2 ** 23), 2 ** 23];
const flops = (8 * 12 * 500_000 * 1e-6) / best(() => runPeak(x.byteOffset, 500_000));
const bytes = (12 * size * 1e-6) / best(() => runAdd(x.byteOffset, y.byteOffset, size)); // x and y in, y out
console.log(`peak measured ${flops.toFixed(1)} GFLOP/s`);
console.log(`memory measured ${bytes.toFixed(1)} GB/s: the peak needs I ≥ ${(flops / bytes).toFixed(1)}`);

/**
 * ## When sums round
 *
 * With other numbers each product and each addition rounds by at most u = 2⁻²⁴ of its result. For a sum of n products
 * in any order |computed − exact| ≤ γ·Σ_k |a_ik|·|b_kj| with γ = n·u / (1 − n·u) (Higham, *Accuracy and Stability of
 * Numerical Algorithms*, 2002, §3.1 and §3.5). That is what a test may demand of a kernel, no more and no less.
 */

for (const matrix of [A, B]) matrix.forEach((_, i) => (matrix[i] = rng.normal()));
runTiles(...addresses, n, 4 * n, 1);
let worst = 0;
for (let at = 0; at < 8 * n; at++) {
  let [sum, size] = [0, 0]; // in 64 bits, as good as exact here
  for (let k = 0; k < n; k++) {
    const product = A[Math.floor(at / n) * n + k]! * B[k * n + (at % n)]!;
    sum += product;
    size += Math.abs(product);
  }
  worst = Math.max(worst, Math.abs(C[at]! - sum) / size);
}
const bound = (n * 2 ** -24) / (1 - n * 2 ** -24);
console.log(`largest error, as a part of the bound: ${(worst / bound).toFixed(4)}`);

/**
 * ## Break it
 *
 * ```diff
 * -      const sums = range(4).map(() => range(2).map(() => f.let(F32x4.of(0))));
 * +      const sums = range(4).map(() => range(2).map(() => f.variable("f32x4")));
 * ```
 *
 * A variable of WebAssembly is 0 once, when the function begins. In a loop it keeps what the last turn left, so a tile
 * adds to the sums of the one before, and only the first is right. A test with a single tile would not notice.
 *
 * ## Simplifications so far
 *
 * - n is a multiple of 8: no edges. The peak is WebAssembly's, which has vectors of four; native code has wider ones.
 * - One thread. Rows of C are independent, so t threads can share them: nearly t times as fast (`docs/performance.md`).
 *
 * ## In the library
 *
 * `kernels/wasm/matmul.ts` has these tiles for all shapes, after Goto and van de Geijn, *Anatomy of High-Performance
 * Matrix Multiplication* (2008); `kernels/wasm/pack.ts` packs; `bench/roofline.ts` measures the machine.
 *
 * ## Exercises
 *
 * Write the inner product of two vectors as a SIMD kernel. Transpose a matrix in an order that uses each line well.
 */
