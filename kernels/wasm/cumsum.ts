/**
 * Running sums along the middle axis, one element after the other: y[j] = y[j−1] + x[j], or from the end. The sum is
 * kept in doubles: a million additions in f32 were 1 % off (pandas-dev/pandas#47488). A unit of work is one group of
 * columns; along rows (inner = 1) that is one row.
 */
import { type Program, type WasmKernel, single } from "../kernel.ts";
import type { CumsumSpec } from "../specs.ts";
import { F64x2, kernelModule, load, type I32 } from "./assembler.ts";
import { joinHalves } from "./math.ts";

/** The number of columns per unit of work. */
const COLUMNS = 64;

/** See `CumsumSpec`. Buffers: x → y. */
export function cumsum({ outer, length, inner, reverse }: CumsumSpec): Program<WasmKernel> {
  const groups = Math.ceil(inner / COLUMNS);
  return single(
    {
      key: `cumsum ${reverse ? "reverse" : "forward"}`,
      module: () => assemble(reverse),
      scalars: [length, inner, groups],
      units: outer * groups,
      costPerUnit: 8 * length * Math.min(inner, COLUMNS),
    },
    2,
  );
}

const PARAMS = { x: "i32", y: "i32", length: "i32", inner: "i32", groups: "i32", begin: "i32", end: "i32" } as const;

function assemble(reverse: boolean): Uint8Array<ArrayBuffer> {
  return kernelModule(PARAMS, (f, p) => {
    const step = f.let(reverse ? p.inner.mul(-4) : p.inner.mul(4));
    f.for(p.begin, p.end, 1, (unit) => {
      const outer = f.let(unit.divU(p.groups));
      const first = f.let(unit.sub(outer.mul(p.groups)).mul(COLUMNS));
      const last = f.let(p.inner.min(first.add(COLUMNS)));
      const start = f.let(
        outer
          .mul(p.length)
          .add(reverse ? p.length.sub(1) : 0)
          .mul(p.inner),
      );
      const walk = (column: I32, vector: boolean): void => {
        const [x, y] = [f.let(p.x.at(start.add(column))), f.let(p.y.at(start.add(column)))];
        const advance = (): void => {
          f.set(x, x.add(step));
          f.set(y, y.add(step));
        };
        const [low, high] = [f.let(F64x2.of(0)), f.let(F64x2.of(0))];
        f.for(0, p.length, 1, () => {
          const value = f.let(vector ? load.f32x4(x) : load.splat(x));
          f.set(low, low.add(value.lowF64x2()));
          if (vector) {
            f.set(high, high.add(value.highF64x2()));
            f.store(y, joinHalves(low, high));
          } else f.storeLane(y, low.toF32x4(), 0);
          advance();
        });
      };
      const whole = f.let(first.add(last.sub(first).and(-4)));
      f.for(first, whole, 4, (column) => walk(column, true));
      f.for(whole, last, 1, (column) => walk(column, false));
    });
  });
}
