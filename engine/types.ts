/**
 * Shapes and element types. A shape is a plain list of positive sizes, row-major; `[]` is a scalar. Tensors without
 * elements do not exist: a size of 0 is an error where it is made, not a special case in every kernel.
 */
import { check, fail } from "./errors.ts";
import { showValue } from "./options.ts";

/** Sizes of the axes, row-major: `[2, 3]` has two rows of three; `[]` is a scalar. No size is 0. */
export type Shape = readonly number[];

/** f64 exists on the reference executor only. Truth values and masks are floats: 1 and 0. */
export type DType = "f32" | "f64" | "i32";
/** Element types that have gradients. */
export type FloatType = "f32" | "f64";

/** The shape and element type of a tensor: all that is known without its elements. */
export interface TensorType {
  readonly shape: Shape;
  readonly dtype: DType;
}

export const bytesPerElement = (dtype: DType): number => (dtype === "f64" ? 8 : 4);
export const isFloat = (dtype: DType): dtype is FloatType => dtype !== "i32";

export function sizeOf(shape: Shape): number {
  let size = 1;
  for (const n of shape) size *= n;
  return size;
}

export const showShape = (shape: Shape): string => `[${shape.join(", ")}]`;
export const showType = (type: TensorType): string => `${type.dtype}${showShape(type.shape)}`;

export function sameShape(a: Shape, b: Shape): boolean {
  return a.length === b.length && a.every((n, i) => n === b[i]);
}

/** The largest number of elements: sizes stay exact integers in sums, also times the bytes of an element. */
const MAX_ELEMENTS = 2 ** 48;

/** Checks that a shape is a list of positive integers whose product fits into memory; an error starts with `where`. */
export function checkShape(where: string, shape: Shape): void {
  check(
    Array.isArray(shape) && shape.every((n) => Number.isInteger(n) && n > 0),
    () => `${where}: a shape is a list of positive integers such as [2, 3], got ${showValue(shape)}`,
  );
  check(
    sizeOf(shape) <= MAX_ELEMENTS,
    () => `${where}: ${showShape(shape)} has ${sizeOf(shape)} elements, more than any memory (2^48)`,
  );
}

/** The shape of NumPy broadcasting: aligned at the right, sizes equal or 1. */
export function broadcastShapes(where: string, shapes: readonly Shape[]): Shape {
  const rank = Math.max(...shapes.map((s) => s.length));
  const out = new Array<number>(rank).fill(1);
  for (const shape of shapes) {
    for (let d = 0; d < shape.length; d++) {
      const axis = rank - shape.length + d;
      if (shape[d] === 1 || shape[d] === out[axis]) continue;
      if (out[axis] === 1) out[axis] = shape[d]!;
      else fail(`${where}: shapes do not broadcast: ${shapes.map(showShape).join(" · ")}`);
    }
  }
  return out;
}

/** An axis counted from either end, as a number in [0, rank). */
export function normalizeAxis(where: string, axis: number, rank: number): number {
  check(
    Number.isInteger(axis) && axis >= -rank && axis < rank,
    () => `${where}: axis ${axis} is outside a tensor of rank ${rank}`,
  );
  return axis < 0 ? axis + rank : axis;
}

export function checkFloat(where: string, type: TensorType): void {
  check(isFloat(type.dtype), () => `${where}: expected a float tensor, got ${showType(type)}`);
}
export function checkInt(where: string, type: TensorType): void {
  check(type.dtype === "i32", () => `${where}: expected an i32 tensor, got ${showType(type)}`);
}
export function checkSameDtype(where: string, types: readonly TensorType[]): void {
  check(
    types.every((t) => t.dtype === types[0]!.dtype),
    () => `${where}: element types differ: ${types.map(showType).join(" · ")}`,
  );
}
