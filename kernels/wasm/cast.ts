/** Conversion between i32 and f32. i32 → f32 rounds to nearest; f32 → i32 truncates, saturates, and makes NaN 0. */
import { type Program, type WasmKernel, single } from "../kernel.ts";
import type { CastSpec } from "../specs.ts";
import { kernelModule, load, type F32x4, type I32x4 } from "./assembler.ts";
import { loadPart, storePart } from "./partial.ts";

/** The number of elements per unit of work. */
const CHUNK = 16384;

/** See `CastSpec`. Buffers: x → y. */
export function cast({ count, from, to }: CastSpec): Program<WasmKernel> {
  const convert = (x: F32x4): F32x4 | I32x4 => {
    if (from === to) return x;
    return to === "f32" ? x.asI32x4().toF32x4() : x.toI32x4();
  };
  return single(
    {
      key: `cast ${from} ${to}`,
      module: () =>
        kernelModule({ x: "i32", y: "i32", count: "i32", begin: "i32", end: "i32" }, (f, p) => {
          const last = f.let(p.end.mul(CHUNK).min(p.count));
          const whole = f.let(last.and(-4));
          f.for(p.begin.mul(CHUNK), whole, 4, (i) => f.store(p.y.at(i), convert(load.f32x4(p.x.at(i)))));
          // Only the last unit has a rest: the others end at a multiple of CHUNK.
          f.if(p.begin.lt(p.end).and(last.gt(whole)), () => {
            const rest = f.let(last.sub(whole));
            storePart(f, p.y.at(whole), convert(loadPart(f, p.x.at(whole), rest)), rest);
          });
        }),
      scalars: [count],
      units: Math.ceil(count / CHUNK),
      costPerUnit: 2 * Math.min(count, CHUNK),
    },
    2,
  );
}
