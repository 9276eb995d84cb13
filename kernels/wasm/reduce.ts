/**
 * Sums, maxima, minima and their positions over the middle axis of [outer, length, inner], after a pointwise prologue.
 *
 * A sum longer than `BLOCK` is cut into blocks. Their partial sums go to a temporary, which a second step sums in the
 * same way. So errors grow with the block and not with the length, and threads can divide one long reduction. The order
 * within a block is fixed: along rows (inner = 1) there are sixteen interleaved sums, which are added in a tree at the
 * end; otherwise each column is summed from top to bottom. So the bits depend on the shape alone.
 *
 * NaN: sums, max and min give NaN; argmax and argmin ignore it. Among equal elements they give the lowest position.
 */
import { type Expr, input } from "../expr.ts";
import type { Program, Step, WasmKernel } from "../kernel.ts";
import type { ReduceSpec } from "../specs.ts";
import {
  F32x4,
  I32x4,
  kernelModule,
  load,
  type F32,
  type FunctionBuilder,
  type I32,
  type Kind,
  type Var,
} from "./assembler.ts";
import { emitExpr } from "./expression.ts";
import { loadPart, storePart } from "./partial.ts";

/** The number of elements per partial result: along rows (sixteen running sums of 128 each), down columns. */
const BLOCK = { row: 2048, column: 128 } as const;
/** The number of columns per unit of work. */
const COLUMNS = 256;

type ReduceKind = ReduceSpec["kind"];
const isIndex = (kind: ReduceKind): boolean => kind === "argmax" || kind === "argmin";

/** See `ReduceSpec`. Buffers: inputs… → y. */
export function reduce(spec: ReduceSpec): Program<WasmKernel> {
  const temps: number[] = [];
  const steps: Step<WasmKernel>[] = [];
  const output = spec.inputs;
  const add = (part: ReduceSpec, buffers: readonly number[]): void => {
    const { kind, outer, length, inner } = part;
    const block = inner === 1 ? BLOCK.row : BLOCK.column;
    if (isIndex(kind) || length <= 2 * block) {
      steps.push({ kernel: kernel(part, length), buffers: [...buffers, output] });
      return;
    }
    const blocks = Math.ceil(length / block);
    const temp = output + temps.push(4 * outer * blocks * inner);
    steps.push({ kernel: kernel({ ...part, scale: 1 }, block), buffers: [...buffers, temp] });
    add({ ...part, prologue: input(0), inputs: 1, length: blocks }, [temp]);
  };
  add(
    spec,
    Array.from({ length: spec.inputs }, (_, k) => k),
  );
  return { temps, steps };
}

/** Reduces blocks of `block` along the axis: y is [outer, ⌈length / block⌉, inner]. */
function kernel({ kind, prologue, inputs, outer, length, inner, scale }: ReduceSpec, block: number): WasmKernel {
  const blocks = Math.ceil(length / block);
  const rows = inner === 1;
  const groups = Math.ceil(inner / COLUMNS);
  return {
    key: `reduce ${kind} ${rows ? "rows" : "columns"} ${inputs} ${prologue.id}`,
    module: () => (rows ? assembleRows(kind, prologue, inputs) : assembleColumns(kind, prologue, inputs)),
    scalars: rows ? [scale, length, block, blocks] : [scale, length, block, blocks, inner, groups],
    units: outer * blocks * groups,
    costPerUnit: 2 * Math.min(block, length) * Math.min(inner, COLUMNS),
  };
}

/** A running result for four lanes, and its position. */
interface Best {
  readonly value: Var<F32x4>;
  readonly at: Var<I32x4>;
}

const START: Record<ReduceKind, number> = {
  sum: 0,
  max: -Infinity,
  min: Infinity,
  argmax: -Infinity,
  argmin: Infinity,
};

function newBest(f: FunctionBuilder, kind: ReduceKind): Best {
  return { value: f.let(F32x4.of(START[kind])), at: f.let(I32x4.of(0)) };
}

/** Takes in four more elements at `position` along the axis, in the lanes of `valid` (all lanes if absent). */
function takeIn(f: FunctionBuilder, kind: ReduceKind, best: Best, x: F32x4, position: I32x4, valid?: I32x4): void {
  const { value, at } = best;
  if (isIndex(kind)) {
    const better = kind === "argmax" ? x.gt(value) : x.lt(value);
    const take = f.let(valid === undefined ? better : better.and(valid));
    f.set(at, take.bitselect(position, at));
    f.set(value, take.bitselect(x, value));
  } else {
    const next = kind === "sum" ? value.add(x) : kind === "max" ? value.max(x) : value.min(x);
    f.set(value, valid === undefined ? next : valid.bitselect(next, value));
  }
}

/** Merges `a` and `b` lane by lane. Lanes belong to the same column; the lowest position wins a tie. */
function merge(
  f: FunctionBuilder,
  kind: ReduceKind,
  a: { value: F32x4; at: I32x4 },
  b: { value: F32x4; at: I32x4 },
): Best {
  if (!isIndex(kind)) {
    const value = kind === "sum" ? a.value.add(b.value) : kind === "max" ? a.value.max(b.value) : a.value.min(b.value);
    return { value: f.let(value), at: f.let(a.at) };
  }
  const better = kind === "argmax" ? b.value.gt(a.value) : b.value.lt(a.value);
  const lower = b.value.eq(a.value).and(b.at.lt(a.at));
  const take = f.let(better.or(lower));
  return { value: f.let(take.bitselect(b.value, a.value)), at: f.let(take.bitselect(b.at, a.at)) };
}

const result = (kind: ReduceKind, best: Best, scale: Var<F32x4>): F32x4 | I32x4 =>
  isIndex(kind) ? best.at : kind === "sum" ? best.value.mul(scale) : best.value;

const inputParams = (inputs: number): [string, Kind][] => Array.from({ length: inputs }, (_, k) => [`x${k}`, "i32"]);

/** The parameters of both kernels; the tail differs. */
function paramsOf(inputs: number, sizes: readonly string[]): Record<string, Kind> {
  const names = ["length", "block", "blocks", ...sizes, "begin", "end"];
  return Object.fromEntries([
    ...inputParams(inputs),
    ["y", "i32"],
    ["scale", "f32"],
    ...names.map((name): [string, Kind] => [name, "i32"]),
  ]);
}

/** inner = 1: a unit is one block of one row. */
function assembleRows(kind: ReduceKind, prologue: Expr, inputs: number): Uint8Array<ArrayBuffer> {
  return kernelModule(paramsOf(inputs, []), (f, vars) => {
    const p = vars as Record<string, Var<I32>>;
    const scale = f.let((vars.scale as F32).splat());
    f.for(p.begin!, p.end!, 1, (unit) => {
      const row = f.let(unit.divU(p.blocks!));
      const from = f.let(unit.sub(row.mul(p.blocks!)).mul(p.block!));
      const count = f.let(p.length!.sub(from).min(p.block!));
      const x = Array.from({ length: inputs }, (_, k) => f.let(p[`x${k}`]!.at(row.mul(p.length!).add(from))));
      const at = (i: I32, read: (address: I32) => F32x4): F32x4 => {
        const elements = x.map((base) => f.let(read(base.at(i))));
        return emitExpr(f, prologue, elements);
      };
      const position = (i: I32): I32x4 => i.splat().add(I32x4.lanes(0, 1, 2, 3));

      const best = [0, 1, 2, 3].map(() => newBest(f, kind));
      const sixteens = f.let(count.and(-16));
      const whole = f.let(count.and(-4));
      f.for(0, sixteens, 16, (i) => {
        best.forEach((b, j) =>
          takeIn(
            f,
            kind,
            b,
            at(i, (a) => load.f32x4(a, 16 * j)),
            position(i.add(4 * j)),
          ),
        );
      });
      f.for(sixteens, whole, 4, (i) => takeIn(f, kind, best[0]!, at(i, load.f32x4), position(i)));
      const rest = f.let(count.and(3));
      f.if(rest, () => {
        const valid = f.let(I32x4.lanes(0, 1, 2, 3).lt(rest.splat()));
        takeIn(
          f,
          kind,
          best[1]!,
          at(whole, (a) => loadPart(f, a, rest)),
          position(whole),
          valid,
        );
      });

      const [a, b, c, d] = best as [Best, Best, Best, Best];
      const four = merge(f, kind, merge(f, kind, a, c), merge(f, kind, b, d));
      const half = (v: Best, lanes: [number, number, number, number]): { value: F32x4; at: I32x4 } => ({
        value: v.value.shuffle(v.value, ...lanes),
        at: v.at.shuffle(v.at, ...lanes),
      });
      const two = merge(f, kind, four, half(four, [2, 3, 2, 3]));
      const one = merge(f, kind, two, half(two, [1, 1, 1, 1]));
      f.storeLane(p.y!.at(unit), result(kind, one, scale), 0);
    });
  });
}

/** inner > 1: a unit is a group of columns of one block; sixteen columns go down the block side by side. */
function assembleColumns(kind: ReduceKind, prologue: Expr, inputs: number): Uint8Array<ArrayBuffer> {
  return kernelModule(paramsOf(inputs, ["inner", "groups"]), (f, vars) => {
    const p = vars as Record<string, Var<I32>>;
    const scale = f.let((vars.scale as F32).splat());
    const stride = f.let(p.inner!.shl(2));
    f.for(p.begin!, p.end!, 1, (unit) => {
      const outerBlock = f.let(unit.divU(p.groups!));
      const first = f.let(unit.sub(outerBlock.mul(p.groups!)).mul(COLUMNS));
      const last = f.let(p.inner!.min(first.add(COLUMNS)));
      const outer = f.let(outerBlock.divU(p.blocks!));
      const from = f.let(outerBlock.sub(outer.mul(p.blocks!)).mul(p.block!));
      const count = f.let(p.length!.sub(from).min(p.block!));
      const top = f.let(outer.mul(p.length!).add(from).mul(p.inner!));
      const y = f.let(p.y!.at(outerBlock.mul(p.inner!)));

      /**
       * Reduces the columns from `column` on, in `vectors` vectors; `read` loads one from the address of its first
       * element.
       */
      const down = (
        column: I32,
        vectors: number,
        read: (address: I32, offset: number) => F32x4,
        write: (address: I32, y: F32x4 | I32x4, offset: number) => void,
      ): void => {
        const best = Array.from({ length: vectors }, () => newBest(f, kind));
        const x = Array.from({ length: inputs }, (_, k) => f.let(p[`x${k}`]!.at(top.add(column))));
        f.for(0, count, 1, (j) => {
          const position = isIndex(kind) ? f.let(j.splat()) : I32x4.of(0);
          best.forEach((b, v) => {
            const elements = x.map((base) => f.let(read(base, 16 * v)));
            const value = emitExpr(f, prologue, elements);
            takeIn(f, kind, b, value, position);
          });
          x.forEach((base) => f.set(base, base.add(stride)));
        });
        best.forEach((b, v) => write(y.at(column), result(kind, b, scale), 16 * v));
      };

      const sixteens = f.let(first.add(last.sub(first).and(-16)));
      const whole = f.let(first.add(last.sub(first).and(-4)));
      const store = (address: I32, value: F32x4 | I32x4, offset: number): void => f.store(address, value, offset);
      f.for(first, sixteens, 16, (column) => down(column, 4, load.f32x4, store));
      f.for(sixteens, whole, 4, (column) => down(column, 1, load.f32x4, store));
      const rest = f.let(last.and(3));
      f.if(rest, () =>
        down(
          whole,
          1,
          (address) => loadPart(f, address, rest),
          (address, value) => storePart(f, address, value, rest),
        ),
      );
    });
  });
}
