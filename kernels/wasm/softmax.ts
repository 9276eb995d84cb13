/**
 * Softmax and log-softmax over rows, with an optional mask, and their adjoint. Three passes over a row, which stays in
 * the cache: the largest value, the exponentials and their sum, the scaling. Lane selection excludes entries, never
 * arithmetic, so their content (NaN included) does not matter. NaN in an entry that is not excluded fills its row
 * through the sum; `pmax` ignores it.
 */
import { type Program, single, type WasmKernel } from "../kernel.ts";
import type { SoftmaxBackwardSpec, SoftmaxSpec } from "../specs.ts";
import { F32x4, kernelModule } from "./assembler.ts";
import { forColumnGroups, forColumns, maxOfColumns, spread, sumLanes } from "./lanes.ts";
import { exp, expWeight, log } from "./math.ts";

/** The value of excluded entries in log space, and the limit above which entries count. */
const EXCLUDED = -1e30;
const EXCLUDED_LIMIT = -1e29;

/** See `SoftmaxSpec`. Buffers: x, (mask) → y. */
export function softmax({ rows, cols, log: isLog, masked }: SoftmaxSpec): Program<WasmKernel> {
  const kernel: WasmKernel = {
    key: `${isLog ? "logSoftmax" : "softmax"}${masked ? ".masked" : ""}`,
    module: () => softmaxModule(isLog, masked),
    scalars: [cols],
    units: rows,
    costPerUnit: 40 * cols,
  };
  // Without a mask the kernel does not read its second pointer.
  return { temps: [], steps: [{ kernel, buffers: masked ? [0, 1, 2] : [0, 1, 1] }] };
}

function softmaxModule(isLog: boolean, masked: boolean): Uint8Array<ArrayBuffer> {
  const params = { x: "i32", mask: "i32", y: "i32", cols: "i32", begin: "i32", end: "i32" } as const;
  return kernelModule(params, (f, p) => {
    f.for(p.begin, p.end, 1, (row) => {
      const offset = f.let(row.mul(p.cols));
      const [x, mask, y] = [p.x, p.mask, p.y].map((pointer) => f.let(pointer.at(offset))) as [
        typeof p.x,
        typeof p.x,
        typeof p.x,
      ];

      const top = maxOfColumns(f, p.cols, ({ load }) =>
        masked ? load(mask).ne(0).bitselect(load(x), F32x4.of(-Infinity)) : load(x),
      );

      const total = f.let(F32x4.of(0));
      forColumnGroups(f, p.cols, (group) => {
        const weights = group.map(({ load }) => {
          const e = expWeight(f, load(x).sub(top));
          if (masked) f.set(e, e.and(load(mask).ne(0)));
          return e;
        });
        group.forEach(({ store, only }, i) => {
          f.set(total, total.add(only(weights[i]!)));
          if (!isLog) store(y, weights[i]!);
        });
      });
      f.set(total, spread(f, sumLanes(f, total)));

      if (isLog) {
        const logTotal = log(f, total);
        forColumns(f, p.cols, ({ load, store }) => {
          const value = load(x).sub(top).sub(logTotal);
          store(y, masked ? load(mask).ne(0).bitselect(value, F32x4.of(EXCLUDED)) : value);
        });
      } else {
        const inverse = f.let(F32x4.of(1).div(total));
        if (masked) f.set(inverse, total.eq(0).bitselect(F32x4.of(0), inverse)); // zeros if all entries are excluded
        forColumnGroups(f, p.cols, (group) => {
          // An excluded entry is 0 in a row of NaN, too.
          const values = group.map(({ load }) => {
            const value = load(y).mul(inverse);
            return f.let(masked ? value.and(load(mask).ne(0)) : value);
          });
          group.forEach(({ store }, i) => store(y, values[i]!));
        });
      }
    });
  });
}

/**
 * See `SoftmaxBackwardSpec`. Buffers: y, g → dx. Entries that the forward excluded (0, or −1e30 in log space) get 0.
 */
export function softmaxBackward({ rows, cols, log: isLog }: SoftmaxBackwardSpec): Program<WasmKernel> {
  const kernel: WasmKernel = {
    key: isLog ? "logSoftmaxBackward" : "softmaxBackward",
    module: () => softmaxBackwardModule(isLog),
    scalars: [cols],
    units: rows,
    costPerUnit: (isLog ? 24 : 5) * cols,
  };
  return single(kernel, 3);
}

function softmaxBackwardModule(isLog: boolean): Uint8Array<ArrayBuffer> {
  const params = { y: "i32", g: "i32", dx: "i32", cols: "i32", begin: "i32", end: "i32" } as const;
  return kernelModule(params, (f, p) => {
    f.for(p.begin, p.end, 1, (row) => {
      const offset = f.let(row.mul(p.cols));
      const [y, g, dx] = [p.y, p.g, p.dx].map((pointer) => f.let(pointer.at(offset))) as [
        typeof p.y,
        typeof p.y,
        typeof p.y,
      ];
      // NaN is not excluded: a gradient of 0 there would hide it.
      const excluded = (value: F32x4) => (isLog ? value.le(EXCLUDED_LIMIT) : value.eq(0));

      const total = f.let(F32x4.of(0));
      forColumns(f, p.cols, ({ load, only }) => {
        const value = f.let(load(y));
        const part = isLog ? load(g) : load(g).mul(value);
        f.set(total, total.add(only(part.andNot(excluded(value)))));
      });
      f.set(total, spread(f, sumLanes(f, total)));

      forColumns(f, p.cols, ({ load, store }) => {
        const value = f.let(load(y));
        const d = isLog ? load(g).sub(exp(f, value).mul(total)) : value.mul(load(g).sub(total));
        store(dx, d.andNot(excluded(value)));
      });
    });
  });
}
