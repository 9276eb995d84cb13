/**
 * Ops that move elements without computing: reshape, broadcastTo, permute, slice, pad, concat, stack. All are linear,
 * work on every element type, and (but for reshape, which shares memory) copy, so that every tensor is contiguous.
 */
import { broadcastStrides } from "../../kernels/pointwise.ts";
import type { CopySpec } from "../../kernels/specs.ts";
import { check, fail } from "../errors.ts";
import { apply1, type Call, type Elements, type OpDef, type Sample } from "../op.ts";
import { type AxisOptions, axisOf, checkMove } from "../operands.ts";
import { showValue } from "../options.ts";
import { normal } from "../sampling.ts";
import type { Tensor } from "../tensor.ts";
import {
  broadcastShapes,
  checkSameDtype,
  checkShape,
  normalizeAxis,
  sameShape,
  type Shape,
  showShape,
  sizeOf,
  type TensorType,
} from "../types.ts";

const rowMajor = (shape: Shape): number[] => shape.map((_, d) => sizeOf(shape.slice(d + 1)));
const dot = (a: readonly number[], b: readonly number[]): number => a.reduce((s, n, i) => s + n * b[i]!, 0);

/** The plain version of the copy kernel. */
function copyElements(x: Elements, y: Elements, spec: CopySpec): void {
  for (let i = 0; i < sizeOf(spec.dims); i++) {
    let rest = i;
    let from = spec.inOffset;
    let to = spec.outOffset;
    for (let d = spec.dims.length - 1; d >= 0; d--) {
      from += (rest % spec.dims[d]!) * spec.inStrides[d]!;
      to += (rest % spec.dims[d]!) * spec.outStrides[d]!;
      rest = Math.floor(rest / spec.dims[d]!);
    }
    y[to] = x[from]!;
  }
}

/** An op that is one strided copy. */
function copyOp<P>(def: Omit<OpDef<P>, "kernel" | "reference"> & { spec(call: Call<P>): CopySpec }): OpDef<P> {
  return {
    ...def,
    linear: true,
    reference: ([x], [y], call) => copyElements(x!, y!, def.spec(call)),
    kernel: (call) => ({ family: "copy", spec: def.spec(call) }),
  };
}

interface ShapeParams {
  readonly shape: Shape;
}

export const reshapeOp: OpDef<ShapeParams> = {
  name: "reshape",
  view: true,
  linear: true,
  infer([x], { shape }) {
    checkShape("reshape", shape);
    check(
      sizeOf(x!.shape) === sizeOf(shape),
      () =>
        `reshape: ${showShape(x!.shape)} has ${sizeOf(x!.shape)} elements, ${showShape(shape)} has ${sizeOf(shape)}`,
    );
    return [{ shape, dtype: x!.dtype }];
  },
  reference: ([x], [y]) => void y!.set(x!),
  kernel: () => fail("reshape: shares memory and has no kernel"),
  vjp: ({ g, x }) => [reshape(g[0]!, x[0]!.shape)],
  samples: (rng) => [
    { inputs: [normal(rng, [2, 6])], params: { shape: [3, 4] } },
    { inputs: [normal(rng, [1])], params: { shape: [] } },
  ],
};

/**
 * The elements in another shape; one size may be −1 and is computed. The result shares memory with `x`, but is another
 * tensor even if the shape stays: to dispose of one leaves the other, to `assign` to one changes both.
 */
export function reshape(x: Tensor, shape: Shape): Tensor {
  checkMove("reshape", x, shape);
  const unknown = shape.indexOf(-1);
  const known = shape.reduce((size, n) => (n === -1 ? size : size * n), 1);
  check(unknown < 0 || x.size % known === 0, () => `reshape: ${showShape(x.shape)} does not fit ${showShape(shape)}`);
  const whole = unknown < 0 ? shape : shape.map((n, d) => (d === unknown ? x.size / known : n));
  return apply1(reshapeOp, [x], { shape: whole });
}

export const broadcastToOp: OpDef<ShapeParams> = copyOp({
  name: "broadcastTo",
  infer([x], { shape }) {
    const fits = x!.shape.length <= shape.length && sameShape(broadcastShapes("broadcastTo", [x!.shape, shape]), shape);
    check(fits, () => `broadcastTo: ${showShape(x!.shape)} does not broadcast to ${showShape(shape)}`);
    return [{ shape, dtype: x!.dtype }];
  },
  spec: ({ inputs: [x], params: { shape } }) => ({
    dims: shape,
    inStrides: broadcastStrides(x!.shape, shape),
    inOffset: 0,
    outStrides: rowMajor(shape),
    outOffset: 0,
  }),
  vjp: ({ g }) => [g[0]!], // larger than x: the engine sums it
  samples: (rng) => [
    { inputs: [normal(rng, [3, 1])], params: { shape: [2, 3, 5] } },
    { inputs: [normal(rng, [])], params: { shape: [4] } },
    { inputs: [normal(rng, [7])], params: { shape: [1, 7] } },
  ],
});

/** `x` repeated along axes of size 1 and new leading axes; shares memory with `x` if there are none (see `assign`). */
export function broadcastTo(x: Tensor, shape: Shape): Tensor {
  checkMove("broadcastTo", x, shape);
  return sameShape(x.shape, shape) ? reshape(x, shape) : apply1(broadcastToOp, [x], { shape });
}

interface PermuteParams {
  readonly axes: readonly number[];
}
export const permuteOp: OpDef<PermuteParams> = copyOp({
  name: "permute",
  infer([x], { axes }) {
    const sorted = axes.toSorted((a, b) => a - b);
    check(
      axes.length === x!.shape.length && sorted.every((a, d) => a === d),
      () => `permute: axes ${showShape(axes)} are no permutation of the axes of ${showShape(x!.shape)}`,
    );
    return [{ shape: axes.map((a) => x!.shape[a]!), dtype: x!.dtype }];
  },
  spec({ inputs: [x], outputs: [y], params: { axes } }) {
    const strides = rowMajor(x!.shape);
    return {
      dims: y!.shape,
      inStrides: axes.map((a) => strides[a]!),
      inOffset: 0,
      outStrides: rowMajor(y!.shape),
      outOffset: 0,
    };
  },
  vjp: ({ g, params: { axes } }) => [
    permute(
      g[0]!,
      axes.map((_, d) => axes.indexOf(d)),
    ),
  ],
  samples: (rng) => [
    { inputs: [normal(rng, [2, 3, 5])], params: { axes: [2, 0, 1] } },
    { inputs: [normal(rng, [4, 67])], params: { axes: [1, 0] } },
    { inputs: [normal(rng, [2, 3, 1, 4])], params: { axes: [0, 2, 1, 3] } },
  ],
});

/** Axes in a new order: axis d of the result is axis `axes[d]` of `x` (negative axes count from the end). */
export function permute(x: Tensor, axes: readonly number[]): Tensor {
  checkMove("permute", x, axes);
  const order = axes.map((a) => normalizeAxis("permute", a, x.rank));
  return apply1(permuteOp, [x], { axes: order });
}

/** `x` with two axes swapped, the last two unless given. */
export function transpose(x: Tensor, axis0 = -2, axis1 = -1): Tensor {
  checkMove("transpose", x);
  const [a, b] = [normalizeAxis("transpose", axis0, x.rank), normalizeAxis("transpose", axis1, x.rank)];
  return permute(
    x,
    x.shape.map((_, d) => (d === a ? b : d === b ? a : d)),
  );
}

interface SliceParams {
  readonly start: readonly number[];
  readonly size: readonly number[];
}
export const sliceOp: OpDef<SliceParams> = copyOp({
  name: "slice",
  infer([x], { start, size }) {
    const { shape } = x!;
    check(
      start.length === shape.length &&
        size.length === shape.length &&
        shape.every((n, d) => start[d]! >= 0 && size[d]! >= 1 && start[d]! + size[d]! <= n),
      () => `slice: start ${showShape(start)} with size ${showShape(size)} is not inside ${showShape(shape)}`,
    );
    return [{ shape: size, dtype: x!.dtype }];
  },
  spec: ({ inputs: [x], params: { start, size } }) => ({
    dims: size,
    inStrides: rowMajor(x!.shape),
    inOffset: dot(start, rowMajor(x!.shape)),
    outStrides: rowMajor(size),
    outOffset: 0,
  }),
  vjp: ({ g, x: [x], params: { start, size } }) => [
    pad(
      g[0]!,
      start,
      x!.shape.map((n, d) => n - start[d]! - size[d]!),
    ),
  ],
  samples: (rng) => [
    { inputs: [normal(rng, [5, 7])], params: { start: [1, 2], size: [3, 4] } },
    { inputs: [normal(rng, [9])], params: { start: [8], size: [1] } },
    { inputs: [normal(rng, [2, 1, 6])], params: { start: [0, 0, 0], size: [2, 1, 6] } },
  ],
});

/**
 * The block from `start` (inclusive) to `end` (exclusive), one entry per leading axis; missing axes are whole, negative
 * numbers count from the end.
 * @example slice(x, [1, -2], [3])   // x[1:3, -2:]
 */
export function slice(x: Tensor, start: readonly number[], end: readonly number[] = []): Tensor {
  checkMove("slice", x, start, end);
  const at = (value: number | undefined, n: number, otherwise: number): number =>
    value === undefined ? otherwise : value < 0 ? value + n : value;
  const from = x.shape.map((n, d) => at(start[d], n, 0));
  const size = x.shape.map((n, d) => at(end[d], n, n) - from[d]!);
  const isInside = (n: number, d: number): boolean =>
    Number.isInteger(from[d]) &&
    Number.isInteger(size[d]) &&
    from[d]! >= 0 &&
    size[d]! >= 1 &&
    from[d]! + size[d]! <= n;
  check(
    start.length <= x.rank && end.length <= x.rank && x.shape.every(isInside),
    () => `slice: from ${showShape(start)} to ${showShape(end)} is no block of ${showShape(x.shape)}`,
  );
  return apply1(sliceOp, [x], { start: from, size });
}

interface PadParams {
  readonly before: readonly number[];
  readonly after: readonly number[];
}
const padSpec = ({ inputs: [x], outputs: [y], params: { before } }: Call<PadParams>): CopySpec => ({
  dims: x!.shape,
  inStrides: rowMajor(x!.shape),
  inOffset: 0,
  outStrides: rowMajor(y!.shape),
  outOffset: dot(before, rowMajor(y!.shape)),
});
export const padOp: OpDef<PadParams> = {
  name: "pad",
  linear: true,
  infer([x], { before, after }) {
    const { shape, dtype } = x!;
    check(
      before.length === shape.length &&
        after.length === shape.length &&
        [...before, ...after].every((n) => Number.isInteger(n) && n >= 0),
      () =>
        `pad: before ${showShape(before)} and after ${showShape(after)} must be integers ≥ 0 for each axis of ` +
        showShape(shape),
    );
    return [{ shape: shape.map((n, d) => before[d]! + n + after[d]!), dtype }];
  },
  reference([x], [y], call) {
    y!.fill(0);
    copyElements(x!, y!, padSpec(call));
  },
  kernel: (call) => [
    { family: "fill", spec: { count: sizeOf(call.outputs[0]!.shape), bits: 0 }, operands: [1] },
    { family: "copy", spec: padSpec(call), operands: [0, 1] },
  ],
  vjp: ({ g, x: [x], params: { before } }) => [
    slice(
      g[0]!,
      before,
      before.map((n, d) => n + x!.shape[d]!),
    ),
  ],
  samples: (rng) => [
    { inputs: [normal(rng, [2, 3])], params: { before: [1, 0], after: [0, 2] } },
    { inputs: [normal(rng, [5])], params: { before: [0], after: [0] } },
  ],
};

/** Zeros around `x`: `before[d]` and `after[d]` of them along axis d. */
export function pad(x: Tensor, before: readonly number[], after: readonly number[]): Tensor {
  checkMove("pad", x, before, after);
  return apply1(padOp, [x], { before, after });
}

interface ConcatParams {
  readonly axis: number;
}
/** One copy per input, each into its place in the output. */
function concatSpecs({ inputs, outputs: [y], params: { axis } }: Call<ConcatParams>): CopySpec[] {
  const outStrides = rowMajor(y!.shape);
  let offset = 0;
  return inputs.map(({ shape }) => {
    const spec = { dims: shape, inStrides: rowMajor(shape), inOffset: 0, outStrides, outOffset: offset };
    offset += shape[axis]! * outStrides[axis]!;
    return spec;
  });
}
export const concatOp: OpDef<ConcatParams> = {
  name: "concat",
  linear: true,
  infer(inputs, { axis }) {
    const [first] = inputs as [TensorType];
    checkSameDtype("concat", inputs);
    const fits = (s: Shape): boolean =>
      s.length === first.shape.length && s.every((n, d) => d === axis || n === first.shape[d]);
    check(
      inputs.every((x) => fits(x.shape)),
      () => `concat: shapes differ off axis ${axis}: ${inputs.map((x) => showShape(x.shape)).join(" · ")}`,
    );
    const length = inputs.reduce((sum, x) => sum + x.shape[axis]!, 0);
    return [{ shape: first.shape.map((n, d) => (d === axis ? length : n)), dtype: first.dtype }];
  },
  reference: (xs, [y], call) => concatSpecs(call).forEach((spec, k) => copyElements(xs[k]!, y!, spec)),
  kernel: (call) => concatSpecs(call).map((spec, k) => ({ family: "copy", spec, operands: [k, call.inputs.length] })),
  vjp({ g, x, params: { axis } }) {
    let offset = 0;
    return x.map(({ shape }) => {
      const from = offset;
      offset += shape[axis]!;
      const start = shape.map((_, d) => (d === axis ? from : 0));
      return slice(
        g[0]!,
        start,
        shape.map((n, d) => start[d]! + n),
      );
    });
  },
  samples: (rng): Sample<ConcatParams>[] => [
    { inputs: [normal(rng, [2, 3]), normal(rng, [2, 1]), normal(rng, [2, 5])], params: { axis: 1 } },
    { inputs: [normal(rng, [3])], params: { axis: 0 } },
    { inputs: [normal(rng, [1, 2, 2]), normal(rng, [4, 2, 2])], params: { axis: 0 } },
  ],
};

/** Tensors joined along an existing axis, the first unless given; other axes must agree. */
export function concat(xs: readonly Tensor[], options: AxisOptions = {}): Tensor {
  const axis = axisOf("concat", firstOf("concat", xs), options, 0);
  return apply1(concatOp, xs, { axis });
}

/** Tensors of equal shape joined along a new axis, the first unless given. */
export function stack(xs: readonly Tensor[], options: AxisOptions = {}): Tensor {
  const first = firstOf("stack", xs);
  const axis = axisOf("stack", first, options, 0, first.rank + 1);
  const expanded = (x: Tensor): Tensor => reshape(x, [...x.shape.slice(0, axis), 1, ...x.shape.slice(axis)]);
  return concat(xs.map(expanded), { axis });
}

function firstOf(where: string, xs: readonly Tensor[]): Tensor {
  if (!Array.isArray(xs)) fail(`${where}: expected a list of tensors, got ${showValue(xs)}`);
  const [first] = xs as readonly Tensor[];
  return first ?? fail(`${where}: the list is empty`);
}
