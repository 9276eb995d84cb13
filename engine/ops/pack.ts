/**
 * Packed tensors: many in one piece of memory, so that one kernel serves them all. An optimiser over 28 parameters then
 * costs a few dispatches and not a hundred.
 */
import { input } from "../../kernels/expr.ts";
import type { PackTensorsSpec, ReduceSpec } from "../../kernels/specs.ts";
import { check } from "../errors.ts";
import { apply1, type Call, type NoParams, type OpDef } from "../op.ts";
import { normal } from "../sampling.ts";
import { outsideScopes } from "../scope.ts";
import { noGrad } from "../tape.ts";
import { Storage, Tensor } from "../tensor.ts";
import { bytesPerElement, checkFloat, checkSameDtype, type Shape, sizeOf } from "../types.ts";
import { reshape, slice } from "./movement.ts";
import { mul } from "./pointwise.ts";

/** The offsets of tensors in a packed one, in elements, and its size. */
export interface PackParams {
  readonly offsets: readonly number[];
  readonly total: number;
}

/** The alignment of the offsets, in elements: 256 bytes of f32, which WebGPU requires of a binding. */
const ALIGNMENT = 64;

/** Places for tensors of these sizes, one after the other. */
export function packLayout(sizes: readonly number[]): PackParams {
  const offsets: number[] = [];
  let total = 0;
  for (const size of sizes) {
    offsets.push(total);
    total += Math.ceil(size / ALIGNMENT) * ALIGNMENT;
  }
  return { offsets, total };
}

const packSpec = ({ inputs, params }: Call<PackParams>): PackTensorsSpec => ({
  sizes: inputs.map((x) => sizeOf(x.shape)),
  ...params,
});

/** Inputs: tensors. Output: [total]. */
export const packOp: OpDef<PackParams> = {
  name: "pack",
  linear: true,
  infer(inputs, { offsets, total }) {
    inputs.forEach((x) => checkFloat("pack", x));
    checkSameDtype("pack", inputs);
    const ends = inputs.map((x, i) => offsets[i]! + sizeOf(x.shape));
    check(
      offsets.length === inputs.length && ends.every((end, i) => end <= (offsets[i + 1] ?? total)),
      () => `pack: ${inputs.length} tensors do not fit offsets [${offsets.join(", ")}] of ${total}`,
    );
    return [{ shape: [total], dtype: inputs[0]!.dtype }];
  },
  reference(inputs, [y], { params }) {
    y!.fill(0);
    inputs.forEach((x, i) => y!.set(x, params.offsets[i]));
  },
  kernel: (call) => ({ family: "packTensors", spec: packSpec(call) }),
  vjp: ({ g: [g], x, params }) =>
    x.map((like, i) => reshape(slice(g!, [params.offsets[i]!], [params.offsets[i]! + like.size]), like.shape)),
  samples: (rng) => [
    { inputs: [normal(rng, [3, 5]), normal(rng, [1]), normal(rng, [2])], params: { offsets: [2, 17, 18], total: 23 } },
    {
      label: "two kernels",
      inputs: Array.from({ length: 9 }, (_, i) => normal(rng, [i < 7 ? 4 : 3])),
      params: { offsets: Array.from({ length: 9 }, (_, i) => 8 * i), total: 67 },
    },
  ],
};

const squaresSpec = ({ inputs: [x] }: Call<NoParams>): ReduceSpec => ({
  kind: "sum",
  prologue: input(0).mul(input(0)),
  inputs: 1,
  outer: 1,
  length: sizeOf(x!.shape),
  inner: 1,
  scale: 1,
});

/** Input: x of any shape. Output: Σ x², a scalar. */
export const sumOfSquaresOp: OpDef = {
  name: "sumOfSquares",
  infer([x]) {
    checkFloat("sumOfSquares", x!);
    return [{ shape: [], dtype: x!.dtype }];
  },
  reference([x], [y]) {
    let total = 0;
    for (const v of x!) total += v * v;
    y![0] = total;
  },
  kernel: (call) => ({ family: "reduce", spec: squaresSpec(call) }),
  vjp: ({ g: [g], x: [x] }) => [mul(mul(x!, g!), 2)],
  samples: (rng) => [
    { inputs: [normal(rng, [7])], params: {} },
    { inputs: [normal(rng, [3, 67])], params: {} },
    { inputs: [normal(rng, [1])], params: {} },
  ],
};

/** Σ x² over all elements, in one pass. */
export const sumOfSquares = (x: Tensor): Tensor => apply1(sumOfSquaresOp, [x], {});

/** Copies tensors into one of shape [total], with zeros between them. */
export const pack = (tensors: readonly Tensor[], layout: PackParams): Tensor => apply1(packOp, tensors, layout);

/**
 * Tensors of these shapes that are parts of a packed one and share its memory. They belong to the current scope; the
 * memory is freed when `whole` and all of them are disposed.
 */
export function packedViews(whole: Tensor, layout: PackParams, shapes: readonly Shape[]): Tensor[] {
  const { buffer, device } = whole.storage;
  const bytes = bytesPerElement(whole.dtype);
  return shapes.map((shape, i) => {
    const part = device.backend.part(buffer, layout.offsets[i]! * bytes, sizeOf(shape) * bytes);
    return new Tensor(new Storage(device, part), shape, whole.dtype);
  });
}

/**
 * Moves the memory of `tensors`, of all handles on it, into one piece, and returns that as a tensor: from then on it
 * and they are two views of the same values. It belongs to no scope; the piece is freed when it is disposed and the
 * tensors are.
 * @throws if two of the tensors share memory
 */
export function packInPlace(tensors: readonly Tensor[], layout: PackParams): Tensor {
  const storages = tensors.map((x) => x.storage);
  check(new Set(storages).size === storages.length, () => "pack: two of the tensors share their memory");
  const whole = outsideScopes(() => noGrad(() => pack(tensors, layout)));
  const { buffer, device } = whole.storage;
  const bytes = bytesPerElement(whole.dtype);
  storages.forEach((storage, i) => {
    storage.moveTo(device.backend.part(buffer, layout.offsets[i]! * bytes, tensors[i]!.size * bytes));
  });
  return whole;
}
