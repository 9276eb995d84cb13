/**
 * Ops with integer operands: rows by number and their adjoint sums, one element per row, one-hot vectors, embeddings,
 * writing rows in place, conversion between integers and floats.
 *
 * Integers that came from the host are checked at the call (`tensor` keeps them). Integers that a device computed
 * cannot be checked without waiting for it: if such an id is out of range, the result is 0 and nothing is written.
 */
import type { CastSpec, GatherSpec } from "../../kernels/specs.ts";
import { check, fail, onHost } from "../errors.ts";
import { apply, apply1, type Call, type Elements, type OpDef, type Sample, type SampleInput, typed } from "../op.ts";
import { type AxisOptions, axisOf, checkTensor } from "../operands.ts";
import { filled, integers, normal, uniform } from "../sampling.ts";
import type { Tensor } from "../tensor.ts";
import {
  checkFloat,
  checkInt,
  checkSameDtype,
  checkShape,
  type DType,
  isFloat,
  sameShape,
  type Shape,
  showShape,
  showType,
  sizeOf,
  type TensorType,
} from "../types.ts";
import { tensor } from "./create.ts";
import { reshape } from "./movement.ts";
import { eq } from "./pointwise.ts";

/** Throws if an id that came from the host is outside [0, rows) and not one of the exceptions. */
export function checkIds(where: string, ids: Tensor, rows: number, isException?: (id: number) => boolean): void {
  checkTensor(where, ids);
  checkInt(where, ids);
  const { hostInts } = ids.storage;
  if (hostInts === undefined) return;
  const wrong = outsideOf(hostInts, rows, isException);
  check(wrong < 0, () => `${where}: id ${hostInts[wrong]} at position ${wrong} is outside a table of ${rows} rows`);
}

/** The position of the first id that is outside; −1 if there is none. */
function outsideOf(ids: Int32Array, rows: number, isException?: (id: number) => boolean): number {
  for (let i = 0; i < ids.length; i++) {
    const id = ids[i]!;
    if ((id < 0 || id >= rows) && isException?.(id) !== true) return i;
  }
  return -1;
}

interface AxisParams {
  readonly axis: number;
}
interface ScatterParams extends AxisParams {
  /** The size of the result along the axis. */
  readonly rows: number;
}

/** `narrow` has `count` entries along the axis (the ids' side), `wide` has `rows`. */
function specOf(narrow: Shape, axis: number, rows: number): GatherSpec {
  return { outer: sizeOf(narrow.slice(0, axis)), rows, count: narrow[axis]!, inner: sizeOf(narrow.slice(axis + 1)) };
}
const resized = (shape: Shape, axis: number, n: number): Shape => shape.map((old, d) => (d === axis ? n : old));

/** Calls `visit` for every element that an id connects; ids out of range connect nothing. */
function connect(
  { outer, rows, count, inner }: GatherSpec,
  ids: Elements,
  along: boolean,
  visit: (narrow: number, wide: number) => void,
): void {
  for (let o = 0; o < outer; o++) {
    for (let n = 0; n < count; n++) {
      for (let i = 0; i < inner; i++) {
        const narrow = (o * count + n) * inner + i;
        const row = ids[along ? narrow : n]!;
        if (row >= 0 && row < rows) visit(narrow, (o * rows + row) * inner + i);
      }
    }
  }
}
function readConnected(spec: GatherSpec, x: Elements, ids: Elements, y: Elements, along: boolean): void {
  y.fill(0);
  connect(spec, ids, along, (narrow, wide) => void (y[narrow] = x[wide]!));
}
function sumConnected(spec: GatherSpec, g: Elements, ids: Elements, y: Elements, along: boolean): void {
  const sums = new Float64Array(y.length);
  connect(spec, ids, along, (narrow, wide) => void (sums[wide]! += g[narrow]!));
  y.set(sums);
}

const gatherSpec = ({ inputs: [x], outputs: [y], params: { axis } }: Call<AxisParams>): GatherSpec =>
  specOf(y!.shape, axis, x!.shape[axis]!);
const scatterSpec = ({ inputs: [g], params: { axis, rows } }: Call<ScatterParams>): GatherSpec =>
  specOf(g!.shape, axis, rows);

/** Inputs x, ids [N]. */
export const gatherOp: OpDef<AxisParams> = {
  name: "gather",
  linear: true,
  infer([x, ids], { axis }) {
    checkFloat("gather", x!);
    checkIdList("gather", ids!);
    return typed(resized(x!.shape, axis, ids!.shape[0]!), x!);
  },
  reference: ([x, ids], [y], call) => readConnected(gatherSpec(call), x!, ids!, y!, false),
  kernel: (call) => ({ family: "gather", spec: gatherSpec(call) }),
  vjp: ({ g, x: [x, ids], params: { axis } }) => [
    apply1(scatterAddOp, [g[0]!, ids!], { axis, rows: x!.shape[axis]! }),
    null,
  ],
  samples: (rng) => [
    { inputs: [normal(rng, [5, 3]), integers(rng, [7], 5)], params: { axis: 0 } },
    { inputs: [normal(rng, [2, 4, 3]), integers(rng, [1], 4)], params: { axis: 1 } },
    { inputs: [normal(rng, [2, 9]), integers(rng, [67], 9)], params: { axis: 1 } },
    { label: "out of range", inputs: [normal(rng, [3, 2]), listed(0, -1, 2, 3)], params: { axis: 0 } },
  ],
};
const listed = (...data: number[]): SampleInput => ({ shape: [data.length], dtype: "i32", data });

function checkIdList(where: string, ids: TensorType): void {
  checkInt(where, ids);
  check(ids.shape.length === 1, () => `${where}: expected ids of shape [N], got ${showType(ids)}`);
}

/** Inputs g, ids [N]. */
export const scatterAddOp: OpDef<ScatterParams> = {
  name: "scatterAdd",
  linear: true,
  infer([g, ids], { axis, rows }) {
    checkFloat("scatterAdd", g!);
    checkIdList("scatterAdd", ids!);
    check(
      g!.shape[axis] === ids!.shape[0],
      () => `scatterAdd: ${ids!.shape[0]} ids for ${showShape(g!.shape)} along axis ${axis}`,
    );
    return typed(resized(g!.shape, axis, rows), g!);
  },
  reference: ([g, ids], [y], call) => sumConnected(scatterSpec(call), g!, ids!, y!, false),
  kernel: (call) => ({ family: "scatterAdd", spec: scatterSpec(call) }),
  vjp: ({ g, x: [, ids], params: { axis } }) => [apply1(gatherOp, [g[0]!, ids!], { axis }), null],
  samples: (rng) => [
    { inputs: [normal(rng, [7, 3]), integers(rng, [7], 5)], params: { axis: 0, rows: 5 } },
    { inputs: [normal(rng, [2, 1, 3]), integers(rng, [1], 4)], params: { axis: 1, rows: 4 } },
    { inputs: [normal(rng, [67]), integers(rng, [67], 3)], params: { axis: 0, rows: 3 } },
    { label: "out of range", inputs: [normal(rng, [4, 2]), listed(0, -1, 2, 3)], params: { axis: 0, rows: 3 } },
  ],
};

/**
 * Rows by number: y[…, n, …] = x[…, ids[n], …] along `axis`, the first unless given.
 * @param ids i32 [N]
 * @throws if a host-made id is out of range
 */
export function gather(x: Tensor, ids: Tensor, options: AxisOptions = {}): Tensor {
  const axis = axisOf("gather", x, options, 0);
  checkIds("gather", ids, x.shape[axis]!);
  return apply1(gatherOp, [x, ids], { axis });
}

/**
 * The adjoint of `gather`: zeros with `rows` entries along `axis` (the first unless given), to which x[…, n, …] is
 * added at ids[n], in the order of n.
 */
export function scatterAdd(x: Tensor, ids: Tensor, rows: number, options: AxisOptions = {}): Tensor {
  const axis = axisOf("scatterAdd", x, options, 0);
  checkIds("scatterAdd", ids, rows);
  return apply1(scatterAddOp, [x, ids], { axis, rows });
}

/** Inputs x, ids: like x but for the size of the axis. */
export const takeAlongOp: OpDef<AxisParams> = {
  name: "takeAlong",
  linear: true,
  infer([x, ids], { axis }) {
    checkFloat("takeAlong", x!);
    checkInt("takeAlong", ids!);
    check(
      ids!.shape.length === x!.shape.length && sameShape(resized(ids!.shape, axis, 1), resized(x!.shape, axis, 1)),
      () => `takeAlong: x ${showShape(x!.shape)} and ids ${showShape(ids!.shape)} may differ along axis ${axis} only`,
    );
    return typed(ids!.shape, x!);
  },
  reference: ([x, ids], [y], call) => readConnected(gatherSpec(call), x!, ids!, y!, true),
  kernel: (call) => ({ family: "takeAlong", spec: gatherSpec(call) }),
  vjp: ({ g, x: [x, ids], params: { axis } }) => [
    apply1(scatterAlongOp, [g[0]!, ids!], { axis, rows: x!.shape[axis]! }),
    null,
  ],
  samples: (rng) => [
    { inputs: [normal(rng, [3, 5]), integers(rng, [3, 1], 5)], params: { axis: 1 } },
    { inputs: [normal(rng, [4, 3]), integers(rng, [7, 3], 4)], params: { axis: 0 } },
    { inputs: [normal(rng, [2, 67, 2]), integers(rng, [2, 3, 2], 67)], params: { axis: 1 } },
  ],
};

/** Inputs g and ids of one shape. */
export const scatterAlongOp: OpDef<ScatterParams> = {
  name: "scatterAlong",
  linear: true,
  infer([g, ids], { axis, rows }) {
    checkFloat("scatterAlong", g!);
    checkInt("scatterAlong", ids!);
    check(
      sameShape(g!.shape, ids!.shape),
      () => `scatterAlong: shapes differ: ${showShape(g!.shape)} · ids ${showShape(ids!.shape)}`,
    );
    return typed(resized(g!.shape, axis, rows), g!);
  },
  reference: ([g, ids], [y], call) => sumConnected(scatterSpec(call), g!, ids!, y!, true),
  kernel: (call) => ({ family: "scatterAlong", spec: scatterSpec(call) }),
  vjp: ({ g, x: [, ids], params: { axis } }) => [apply1(takeAlongOp, [g[0]!, ids!], { axis }), null],
  samples: (rng) => [
    { inputs: [normal(rng, [3, 1]), integers(rng, [3, 1], 5)], params: { axis: 1, rows: 5 } },
    { inputs: [normal(rng, [7, 3]), integers(rng, [7, 3], 4)], params: { axis: 0, rows: 4 } },
    { inputs: [normal(rng, [2, 67, 2]), integers(rng, [2, 67, 2], 3)], params: { axis: 1, rows: 3 } },
  ],
};

/**
 * One element per id: y[…, n, …] = x[…, ids[…, n, …], …] along `axis`, the last unless given.
 * @param ids i32, the shape of x but for the size of the axis
 * @throws if shapes differ elsewhere, or if a host-made id is out of range
 *
 * @example
 * takeAlong(logProbs_NV, targets_N1);   // [N, 1]: the log-probability of each row's target
 */
export function takeAlong(x: Tensor, ids: Tensor, options: AxisOptions = {}): Tensor {
  const axis = axisOf("takeAlong", x, options, -1);
  checkIds("takeAlong", ids, x.shape[axis]!);
  return apply1(takeAlongOp, [x, ids], { axis });
}

/**
 * The adjoint of `takeAlong`: zeros with `rows` entries along `axis` (the last unless given), to which every element of
 * x is added at its id.
 */
export function scatterAlong(x: Tensor, ids: Tensor, rows: number, options: AxisOptions = {}): Tensor {
  const axis = axisOf("scatterAlong", x, options, -1);
  checkIds("scatterAlong", ids, rows);
  return apply1(scatterAlongOp, [x, ids], { axis, rows });
}

/**
 * Rows of a table.
 * @param weight [V, C]
 * @param ids i32 of any shape
 * @returns [...ids, C]
 * @throws `embedding: id 99 at position 3 is outside a table of 96 rows`, if the ids came from the host
 */
export function embedding(weight: Tensor, ids: Tensor): Tensor {
  checkTensor("embedding", weight);
  check(weight.rank === 2, () => `embedding: expected a table [V, C], got ${showType(weight)}`);
  checkIds("embedding", ids, weight.shape[0]!);
  const rows = apply1(gatherOp, [weight, reshape(ids, [ids.size])], { axis: 0 });
  return reshape(rows, [...ids.shape, weight.shape[1]!]);
}

/** 1 at the id and 0 elsewhere: i32 [...] → float [..., depth]. @throws if a host-made id is outside [0, depth) */
export function oneHot(ids: Tensor, depth: number, dtype?: DType): Tensor {
  checkShape("oneHot", [depth]);
  checkIds("oneHot", ids, depth);
  const type = dtype ?? ids.device.float;
  const columns = tensor(
    onHost(
      () => `oneHot: ${depth} columns are made on the host first`,
      () => Float64Array.from({ length: depth }, (_, i) => i),
    ),
    { device: ids.device, dtype: type },
  );
  return eq(cast(reshape(ids, [...ids.shape, 1]), type), columns);
}

interface WriteRowsParams {
  readonly axis: 0;
}
/** Inputs src [N, ...], ids [N], dest [R, ...], which is overwritten. No outputs. */
export const writeRowsOp: OpDef<WriteRowsParams> = {
  name: "writeRows",
  overwrites: () => [2],
  infer([src, ids, dest]) {
    checkFloat("writeRows", dest!);
    checkIdList("writeRows", ids!);
    checkSameDtype("writeRows", [src!, dest!]);
    check(
      dest!.shape.length > 0 && sameShape(src!.shape, [ids!.shape[0]!, ...dest!.shape.slice(1)]),
      () =>
        `writeRows: ${showShape(ids!.shape)} ids and rows of ${showShape(dest!.shape)} need a source [N, ...rows], ` +
        `got ${showShape(src!.shape)}`,
    );
    return [];
  },
  reference([src, ids, dest], _, { inputs }) {
    const [count] = inputs[0]!.shape;
    const inner = src!.length / count!;
    ids!.forEach((row, n) => {
      if (row >= 0 && row * inner < dest!.length) dest!.set(src!.subarray(n * inner, (n + 1) * inner), row * inner);
    });
  },
  kernel: ({ inputs }) => ({ family: "writeRows", spec: rowsSpec(inputs) }),
  vjp: () => [null, null, null],
  samples: (rng): Sample<WriteRowsParams>[] =>
    [
      { inputs: [normal(rng, [3, 5]), listed(4, -1, 0), normal(rng, [6, 5])], params: { axis: 0 as const } },
      { inputs: [normal(rng, [1]), listed(2), normal(rng, [3])], params: { axis: 0 as const } },
      { inputs: [normal(rng, [2, 2, 7]), listed(1, 0), normal(rng, [2, 2, 7])], params: { axis: 0 as const } },
    ].map((sample) => ({ ...sample, differentiable: [false, false, false] })),
};
function rowsSpec([src, ids, dest]: readonly TensorType[]): { rows: number; count: number; inner: number } {
  return { rows: dest!.shape[0]!, count: ids!.shape[0]!, inner: sizeOf(src!.shape.slice(1)) };
}

/**
 * Overwrites rows in place: dest[ids[n]] = src[n]; negative ids are skipped. For caches; no gradient flows.
 * @param dest [R, ...]
 * @param ids i32 [N], distinct
 * @param src [N, ...]
 * @throws if shapes do not fit, or if host-made ids are ≥ R or repeat
 */
export function writeRows(dest: Tensor, ids: Tensor, src: Tensor): void {
  for (const x of [dest, src]) checkTensor("writeRows", x);
  checkIds("writeRows", ids, dest.shape[0] ?? 1, (id) => id < 0);
  const written = ids.storage.hostInts?.filter((id) => id >= 0).toSorted();
  const repeated = written?.find((id, n) => id === written[n - 1]);
  check(repeated === undefined, () => `writeRows: row ${repeated} is written twice`);
  apply(writeRowsOp, [src, ids, dest], { axis: 0 });
}

interface CastParams {
  readonly dtype: DType;
}
function castSpec({ inputs: [x], outputs: [y] }: Call<CastParams>): CastSpec {
  const word = (type: TensorType): "f32" | "i32" =>
    type.dtype === "f64" ? fail(`cast: ${showType(type)} exists on the reference executor only`) : type.dtype;
  return { count: sizeOf(x!.shape), from: word(x!), to: word(y!) };
}
export const castOp: OpDef<CastParams> = {
  name: "cast",
  infer: ([x], { dtype }) => [{ shape: x!.shape, dtype }],
  reference: ([x], [y], { outputs }) => {
    const limit = outputs[0]!.dtype === "i32" ? 2 ** 31 : Infinity;
    x!.forEach((v, i) => {
      y![i] = limit === Infinity ? v : Math.max(-limit, Math.min(Math.trunc(v), limit - 1));
    });
  },
  kernel: (call) => ({ family: "cast", spec: castSpec(call) }),
  vjp: ({ g, x: [x] }) => [g[0] && isFloat(x!.dtype) ? cast(g[0], x!.dtype) : null],
  samples: (rng) => [
    { inputs: [integers(rng, [2, 5], 1000)], params: { dtype: "f32" } },
    { inputs: [listed(-7)], params: { dtype: "f32" } },
    { inputs: [uniform(rng, [67], -9, 9)], params: { dtype: "i32" }, differentiable: [false] },
    { inputs: [filled([2, 2], (i) => i - 1.5)], params: { dtype: "i32" }, differentiable: [false] },
  ],
};

/**
 * Converts the elements to another type. Floats become integers by dropping their fraction; integers above 2^24 are
 * rounded in f32. Gradients pass between float types and not through integers. To the type that x has, the result
 * shares memory with `x` (see `assign`).
 */
export function cast<D extends DType>(x: Tensor, dtype: D): Tensor<D> {
  checkTensor("cast", x);
  return (x.dtype === dtype ? reshape(x, x.shape) : apply1(castOp, [x], { dtype })) as Tensor<D>;
}
