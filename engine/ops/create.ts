/** Ops that make tensors: from host values, filled, counted, random. */
import { checkDevice, currentDevice, type Device } from "../device.ts";
import { check, fail, onHost } from "../errors.ts";
import { applyOn, type OpDef } from "../op.ts";
import { checkTensor } from "../operands.ts";
import { checkKeys, showValue } from "../options.ts";
import { checkRng, type Rng, threefry2x32 } from "../random.ts";
import { Storage, Tensor, toTypedArray } from "../tensor.ts";
import { bytesPerElement, checkShape, type DType, isFloat, showShape, type Shape, sizeOf } from "../types.ts";

/** The element type and device of a new tensor. */
export interface TensorOptions {
  /** Default: the device's float type; i32 for an Int32Array. */
  readonly dtype?: DType;
  /** Default: the current device. */
  readonly device?: Device;
}
const TENSOR_KEYS = ["dtype", "device"] as const;

/** A number, or lists of them nested as deep as the tensor has axes. */
export type Nested = number | readonly Nested[];

/**
 * A tensor from host values: nested lists, or a flat array with a shape.
 * @throws if lists are ragged, if the shape does not fit, if the element type does not exist, or if an i32 value is no
 *   32-bit integer
 *
 * @example
 * tensor([[1, 2, 3], [4, 5, 6]]);                          // f32[2, 3]
 * tensor(new Int32Array([7, 8]), { shape: [2, 1] });       // i32[2, 1]
 */
export function tensor<D extends DType>(
  values: Nested | Float32Array | Float64Array | Int32Array,
  options: TensorOptions & { readonly shape?: Shape; readonly dtype: D },
): Tensor<D>;
export function tensor(
  values: Nested | Float32Array | Float64Array | Int32Array,
  options?: TensorOptions & { readonly shape?: Shape },
): Tensor;
export function tensor(
  values: Nested | Float32Array | Float64Array | Int32Array,
  options: TensorOptions & { readonly shape?: Shape } = {},
): Tensor {
  checkKeys("tensor", options, [...TENSOR_KEYS, "shape"]);
  const device = options.device ?? currentDevice();
  checkDevice("tensor", device);
  const dtype = options.dtype ?? (values instanceof Int32Array ? "i32" : device.float);
  device.checkDtype("tensor", dtype);
  const isFlat = FLAT.some((kind) => values instanceof kind);
  check(
    isFlat || typeof values === "number" || Array.isArray(values),
    () =>
      `tensor: expected numbers, nested lists of them, or a Float32Array, Float64Array or Int32Array, ${came(values)}`,
  );
  const flat: ArrayLike<number> = isFlat ? (values as Float32Array) : flatten(values as Nested);
  const shape = options.shape ?? (isFlat ? [flat.length] : nestedShape(values as Nested));
  checkShape("tensor", shape);
  check(
    sizeOf(shape) === flat.length,
    () => `tensor: shape ${showShape(shape)} needs ${sizeOf(shape)} values, got ${flat.length}`,
  );
  if (dtype === "i32" && !(flat instanceof Int32Array)) {
    for (let i = 0; i < flat.length; i++) {
      check(
        flat[i] === (flat[i]! | 0),
        () => `tensor: i32 values must be 32-bit integers, got ${flat[i]} at position ${i}`,
      );
    }
  }
  const data = toTypedArray(dtype, flat);
  const result = new Tensor(new Storage(device, sizeOf(shape) * bytesPerElement(dtype)), shape, dtype);
  device.backend.write(result.storage.buffer, data);
  if (dtype === "i32") result.storage.hostInts = Int32Array.from(data);
  return result;
}

const FLAT = [Float32Array, Float64Array, Int32Array] as const;

/**
 * A description of the values for an error. A typed array or a view is named by its class: its JSON would be its
 * numbers, or nothing.
 */
const came = (values: unknown): string =>
  `got ${ArrayBuffer.isView(values) ? values.constructor.name : showValue(values)}`;

function flatten(values: Nested): number[] {
  const flat: number[] = [];
  const visit = (v: Nested): void => {
    if (typeof v === "number") flat.push(v);
    // Holes too, which forEach would pass over.
    else if (Array.isArray(v)) for (const inner of v as readonly Nested[]) visit(inner);
    else fail(`tensor: expected numbers or nested lists of numbers, got ${String(v)}`);
  };
  visit(values);
  return flat;
}

function nestedShape(values: Nested): number[] {
  if (typeof values === "number") return [];
  const shapes = values.map(nestedShape);
  const first = shapes[0] ?? fail("tensor: a list is empty; tensors without elements do not exist");
  const ragged = shapes.find((s) => s.join() !== first.join());
  check(
    ragged === undefined,
    () => `tensor: ragged lists: rows of shape ${showShape(first)} and ${showShape(ragged!)}`,
  );
  return [values.length, ...first];
}

interface FillParams {
  readonly shape: Shape;
  readonly value: number;
  readonly dtype: DType;
}
export const fillOp: OpDef<FillParams> = {
  name: "fill",
  infer: (_, { shape, dtype }) => [{ shape, dtype }],
  reference: (_, [y], { params }) => void y!.fill(params.value),
  kernel: ({ params }) => ({ family: "fill", spec: { count: sizeOf(params.shape), bits: wordOf(params) } }),
  vjp: () => [],
  samples: () => [
    { inputs: [], params: { shape: [3, 5], value: -2.5, dtype: "f32" } },
    { inputs: [], params: { shape: [], value: 7, dtype: "i32" } },
  ],
};

/** The 32 bits that stand for a value. */
function wordOf({ value, dtype }: FillParams): number {
  return dtype === "i32" ? value | 0 : new Int32Array(Float32Array.of(value).buffer)[0]!;
}

/** Every element `value`. @throws if `shape` is no list of positive integers */
export function full(shape: Shape, value: number, options: TensorOptions = {}): Tensor {
  return filled("full", shape, value, options);
}
/** Every element 0. @throws if `shape` is no list of positive integers */
export const zeros = (shape: Shape, options: TensorOptions = {}): Tensor => filled("zeros", shape, 0, options);
/** Every element 1. @throws if `shape` is no list of positive integers */
export const ones = (shape: Shape, options: TensorOptions = {}): Tensor => filled("ones", shape, 1, options);
/** Zeros of the shape, the element type and the device of `x`. */
export const zerosLike = (x: Tensor): Tensor => like("zerosLike", x, 0);
/** Ones of the shape, the element type and the device of `x`. */
export const onesLike = (x: Tensor): Tensor => like("onesLike", x, 1);

function filled(where: string, shape: Shape, value: number, options: TensorOptions): Tensor {
  const { device, dtype } = placeOf(where, shape, options);
  check(typeof value === "number", () => `${where}: expected a number, got ${showValue(value)}`);
  check(
    dtype !== "i32" || value === (value | 0),
    () => `${where}: i32 values must be 32-bit integers, got ${showValue(value)}`,
  );
  return applyOn(device, fillOp, [], { shape, value, dtype })[0]!;
}

function like(where: string, x: Tensor, value: number): Tensor {
  checkTensor(where, x);
  return filled(where, x.shape, value, { dtype: x.dtype, device: x.device });
}

/** The device and the element type of a new tensor. */
function placeOf(where: string, shape: Shape, options: TensorOptions): Required<TensorOptions> {
  checkKeys(where, options, TENSOR_KEYS);
  checkShape(where, shape);
  const { device = currentDevice() } = options;
  checkDevice(where, device);
  const { dtype = device.float } = options;
  device.checkDtype(where, dtype);
  return { device, dtype };
}

/** i32 [0, 1, …, n − 1]. @throws if n is no whole number from 1 to 2³¹, or the host has no memory for it */
export function arange(n: number, options: { readonly device?: Device } = {}): Tensor<"i32"> {
  checkKeys("arange", options, ["device"]);
  check(
    Number.isInteger(n) && n >= 1 && n <= 2 ** 31,
    () => `arange: expected a whole number from 1 to 2^31 (i32 has no more), got ${showValue(n)}`,
  );
  return tensor(
    onHostOf("arange", [n], () => Int32Array.from({ length: n }, (_, i) => i)),
    { ...options, dtype: "i32" },
  );
}

const onHostOf = <T>(where: string, shape: Shape, make: () => T): T =>
  onHost(() => `${where}: ${showShape(shape)} is made on the host first`, make);

/** [rows, cols] with 1 where `keep(row, col)`, else 0; made on the host. */
function maskOf(
  where: string,
  rows: number,
  cols: number,
  keep: (row: number, col: number) => boolean,
  options: TensorOptions = {},
): Tensor {
  const shape = [rows, cols];
  const place = placeOf(where, shape, options);
  const element = (i: number): number => Number(keep(Math.floor(i / cols), i % cols));
  const values = onHostOf(where, shape, () => Float32Array.from({ length: rows * cols }, (_, i) => element(i)));
  return tensor(values, { ...place, shape });
}
/** 1 on and below the diagonal: query t may see keys ≤ t. [t, t] */
export const causalMask = (t: number, options?: TensorOptions): Tensor =>
  maskOf("causalMask", t, t, (i, j) => j <= i, options);
/** 1 on and above the k-th diagonal. @throws if k is no whole number */
export function triuMask(rows: number, cols: number, k = 0, options?: TensorOptions): Tensor {
  check(Number.isInteger(k), () => `triuMask: k must be a whole number, the diagonal's, got ${showValue(k)}`);
  return maskOf("triuMask", rows, cols, (i, j) => j - i >= k, options);
}

interface RandomParams {
  readonly shape: Shape;
  readonly key: readonly [number, number];
  readonly dtype: DType;
}
export const randomOp: OpDef<RandomParams> = {
  name: "random",
  infer: (_, { shape, dtype }) =>
    isFloat(dtype) ? [{ shape, dtype }] : fail(`random: expected a float type, got ${dtype}`),
  reference(_, [y], { params }) {
    for (let i = 0; i < y!.length; i++) {
      y![i] = (threefry2x32(params.key[0], params.key[1], i >> 1, 0)[i & 1]! >>> 8) * 2 ** -24;
    }
  },
  kernel: ({ params: { shape, key } }) => ({
    family: "random",
    spec: { count: sizeOf(shape), key0: key[0], key1: key[1] },
  }),
  vjp: () => [],
  samples: (rng) =>
    [[], [7], [3, 67]].map((shape) => ({
      inputs: [],
      params: { shape, key: rng.split(7).key, dtype: "f32" as const },
    })),
};

/** Uniform in [0, 1) with 24 bits, the same bits on every executor. `rng` names the stream and is not advanced. */
export function randomUniform(rng: Rng, shape: Shape, options: TensorOptions = {}): Tensor {
  checkRng("randomUniform", rng);
  const { device, dtype } = placeOf("randomUniform", shape, options);
  return applyOn(device, randomOp, [], { shape, key: rng.key, dtype })[0]!;
}

/**
 * Normal values drawn on the host (log and cos differ in the last bits between executors; these do not).
 * @throws if `std` is no finite number ≥ 0
 */
export function randomNormal(rng: Rng, shape: Shape, options: TensorOptions & { readonly std?: number } = {}): Tensor {
  checkKeys("randomNormal", options, [...TENSOR_KEYS, "std"]);
  const { std = 1, ...type } = options;
  checkRng("randomNormal", rng);
  check(std >= 0 && std < Infinity, () => `randomNormal: std must be a finite number ≥ 0, got ${showValue(std)}`);
  const place = placeOf("randomNormal", shape, type);
  const values = onHostOf("randomNormal", shape, () =>
    Float32Array.from({ length: sizeOf(shape) }, () => std * rng.normal()),
  );
  return tensor(values, { ...place, shape });
}
