/**
 * Uniform random floats from Threefry-2x32 with 20 rounds (Salmon et al., SC 2011), four blocks at a time. Word i is a
 * function of the key and i alone; every executor gives the same bits.
 */
import { type Program, type WasmKernel, single } from "../kernel.ts";
import type { RandomSpec } from "../specs.ts";
import { I32x4, kernelModule, type F32x4, type FunctionBuilder, type Var } from "./assembler.ts";
import { storePart } from "./partial.ts";

/** The number of words per unit of work, a multiple of 8. */
const CHUNK = 4096;
const ROTATIONS = [13, 15, 26, 6, 17, 29, 16, 24] as const;

/** See `RandomSpec`. Buffers: → y. */
export function random({ count, key0, key1 }: RandomSpec): Program<WasmKernel> {
  return single(
    {
      key: "random",
      module: assemble,
      scalars: [count, key0 | 0, key1 | 0],
      units: Math.ceil(count / CHUNK),
      costPerUnit: 80 * Math.min(count, CHUNK),
    },
    1,
  );
}

const assemble = (): Uint8Array<ArrayBuffer> =>
  kernelModule({ y: "i32", count: "i32", key0: "i32", key1: "i32", begin: "i32", end: "i32" }, (f, p) => {
    const keys = [p.key0, p.key1, p.key0.xor(p.key1).xor(0x1bd11bda)].map((key) => f.let(key.splat()));
    const last = f.let(p.end.mul(CHUNK).min(p.count));
    f.for(p.begin.mul(CHUNK), last, 8, (i) => {
      // Blocks i/2 … i/2 + 3 make words i … i + 7.
      const [even, odd] = threefry(
        f,
        keys,
        i
          .shrU(1)
          .splat()
          .add(I32x4.lanes(0, 1, 2, 3)),
      );
      const words = [even.shuffle(odd, 0, 4, 1, 5), even.shuffle(odd, 2, 6, 3, 7)].map((bits) => f.let(unit(bits)));
      words.forEach((y, half) => {
        const at = f.let(p.y.at(i.add(4 * half)));
        const left = f.let(last.sub(i.add(4 * half)));
        f.if(
          left.ge(4),
          () => f.store(at, y),
          () => f.if(left.gt(0), () => storePart(f, at, y, left)),
        );
      });
    });
  });

/** The upper 24 bits as a float in [0, 1). */
export const unit = (bits: I32x4): F32x4 =>
  bits
    .shrU(8)
    .toF32x4()
    .mul(2 ** -24);

/** Both words of the blocks `counter` under the keys (k0, k1, k0 ^ k1 ^ 0x1bd11bda). */
export function threefry(f: FunctionBuilder, keys: readonly I32x4[], counter: I32x4): [Var<I32x4>, Var<I32x4>] {
  const x0 = f.let(counter.add(keys[0]!));
  const x1 = f.let(keys[1]!.add(0)); // the counter's high word is 0
  for (let group = 0; group < 5; group++) {
    for (let round = 0; round < 4; round++) {
      const rotation = ROTATIONS[(group % 2) * 4 + round]!;
      f.set(x0, x0.add(x1));
      f.set(
        x1,
        x1
          .shl(rotation)
          .or(x1.shrU(32 - rotation))
          .xor(x0),
      );
    }
    f.set(x0, x0.add(keys[(group + 1) % 3]!));
    f.set(x1, x1.add(keys[(group + 2) % 3]!).add(group + 1));
  }
  return [x0, x1];
}
