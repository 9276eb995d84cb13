/**
 * Products with packed matrices: frozen weights in 16 or 8 bits (`format.ts` has the formats), which the kernels
 * decode as they multiply. A packed matrix W [rows, columns] is an i32 tensor [rows, words] to these ops, so
 * nothing is differentiated by it; the two products, x · Wᵀ and x · W, are each other's derivative. Users hold a
 * `PackedMatrix` (`matrix.ts`).
 *
 * These ops stand outside of the engine and bring their kernels along (the family `custom`): a page that trains from
 * scratch carries none of them. The checks of tests/ops run over them as over the engine's own.
 */
import { check } from "../../engine/errors.ts";
import { apply1, type Call, type Elements, type OpDef, type SampleInput, typed } from "../../engine/op.ts";
import { checkIds } from "../../engine/ops/indexing.ts";
import { reshape } from "../../engine/ops/movement.ts";
import type { Rng } from "../../engine/random.ts";
import { integers, normal } from "../../engine/sampling.ts";
import type { Tensor } from "../../engine/tensor.ts";
import {
  checkFloat,
  checkInt,
  sameShape,
  type Shape,
  showShape,
  showType,
  sizeOf,
  type TensorType,
} from "../../engine/types.ts";
import type { AdapterProfile, Program, WasmKernel, WgslKernel } from "../../kernels/kernel.ts";
import type { Addend, Problem } from "../../kernels/specs.ts";
import { type PackedFormat, type PackedMatmulSpec, packedRow, type PackedRowsSpec } from "./format.ts";
import * as wasm from "./wasmProducts.ts";
import * as wasmRows from "./wasmRows.ts";
import * as wgsl from "./wgsl.ts";

interface PackedParams {
  readonly format: PackedFormat;
  /** The number of columns of the unpacked matrix. */
  readonly columns: number;
}
interface ProductParams extends PackedParams {
  /** Whether the product is x · Wᵀ rather than x · W. */
  readonly transposed: boolean;
}

const words = new Int32Array(1);
const floats = new Float32Array(words.buffer);

/** The weight in one row and column, decoded word by word. */
function weightAt(w: Elements, row: number, column: number, { format, columns }: PackedParams): number {
  const layout = packedRow(format, columns);
  const begin = row * layout.words;
  const place = column % layout.group;
  const word = w[begin + Math.floor(column / layout.group) * 4 + (place % 4)]!;
  const slot = Math.floor(place / 4);
  if (format === "q8") {
    words[0] = w[begin + layout.scales + Math.floor(column / 32)]!;
    return ((word << (24 - 8 * slot)) >> 24) * floats[0]!;
  }
  const bits = (word >>> (16 * slot)) & 0xffff;
  if (format === "bf16") {
    words[0] = bits << 16;
    return floats[0]!;
  }
  const exponent = (bits >>> 10) & 0x1f;
  const fraction = bits & 0x3ff;
  const magnitude = exponent === 0 ? fraction * 2 ** -24 : (1024 + fraction) * 2 ** (exponent - 25);
  return bits & 0x8000 ? -magnitude : magnitude;
}

function checkPacked(where: string, w: TensorType, { format, columns }: PackedParams): void {
  checkInt(where, w);
  const { words } = packedRow(format, columns);
  check(
    w.shape.length === 2 && w.shape[1] === words,
    () => `${where}: ${columns} columns in ${format} take ${words} words a row, got ${showType(w)}`,
  );
}

function specOf({ inputs: [x, w, ...addends], params }: Call<ProductParams>): PackedMatmulSpec {
  const m = sizeOf(x!.shape.slice(0, -1));
  const rows = w!.shape[0]!;
  return { ...params, m, rows, addends: addends.map(({ shape }) => (sameShape(shape, [rows]) ? "row" : "whole")) };
}

/**
 * Inputs x [..., columns], W i32 [rows, words], and up to two addends, [rows] or [..., rows]; or, not transposed,
 * x [..., rows] and W.
 */
export const packedMatmulOp: OpDef<ProductParams> = {
  name: "packedMatmul",
  linear: true,
  infer([x, w, ...addends], params) {
    checkFloat("packedMatmul", x!);
    checkPacked("packedMatmul", w!, params);
    const { columns, transposed } = params;
    const rows = w!.shape[0]!;
    const [inner, outer] = transposed ? [columns, rows] : [rows, columns];
    const shape = x!.shape;
    check(
      shape[shape.length - 1] === inner,
      () => `packedMatmul: expected x [..., ${inner}] for a matrix [${rows}, ${columns}], got ${showType(x!)}`,
    );
    const y = [...shape.slice(0, -1), outer];
    for (const addend of addends) {
      const [name, expected] = addend.shape.length === 1 ? ["a bias", [outer]] : ["an addend", y];
      check(
        transposed && sameShape(addend.shape, expected) && addend.dtype === x!.dtype,
        () => `packedMatmul: expected ${name} ${showType({ ...x!, shape: expected })}, got ${showType(addend)}`,
      );
    }
    return typed(y, x!);
  },
  reference([x, w, ...addends], [y], call) {
    const { m, rows, columns, transposed } = specOf(call);
    const [inner, outer] = transposed ? [columns, rows] : [rows, columns];
    const weights = Float64Array.from({ length: rows * columns }, (_, i) =>
      weightAt(w!, Math.floor(i / columns), i % columns, call.params),
    );
    for (let i = 0; i < m; i++) {
      for (let j = 0; j < outer; j++) {
        let total = 0;
        for (let p = 0; p < inner; p++) {
          total += x![i * inner + p]! * weights[transposed ? j * columns + p : p * columns + j]!;
        }
        const at = i * outer + j;
        y![at] = addends.reduce((sum, addend) => sum + addend[addend.length === outer ? j : at]!, total);
      }
    }
  },
  kernel: (call) => problem(specOf(call), wasm.packedMatmul, wgsl.packedMatmul),
  vjp({ g: [g], x: [, w, ...addends], params, needs }) {
    const back = { ...params, transposed: !params.transposed };
    return [
      needs[0] ? apply1(packedMatmulOp, [g!, w!], back) : null,
      null,
      ...addends.map((_, i) => (needs[2 + i] ? g! : null)),
    ];
  },
  samples: (rng) =>
    FORMATS.flatMap((format) =>
      PRODUCTS.flatMap(([lead, rows, columns, addends]) =>
        [true, false].map((transposed) => {
          const [inner, outer] = transposed ? [columns, rows] : [rows, columns];
          const inputs = [normal(rng, [...lead, inner]), randomPacked(rng, format, rows, columns)];
          if (transposed) {
            inputs.push(...addends.map((kind) => normal(rng, kind === "row" ? [outer] : [...lead, outer])));
          }
          return { label: `${format}${transposed ? "ᵀ" : ""}`, inputs, params: { format, columns, transposed } };
        }),
      ),
    ),
};

const FORMATS: readonly PackedFormat[] = ["bf16", "f16", "q8"];
/** Axes of x before the last, rows and columns of W, addends. */
const PRODUCTS: readonly (readonly [Shape, number, number, readonly Addend[]])[] = [
  [[1], 5, 8, ["row"]],
  [[2, 3], 6, 32, ["whole"]],
  [[9], 4, 37, ["row", "whole"]],
  [[], 1, 1, []],
];

/** A random matrix of values around 1: patterns without infinities, all kinds of exponents below, both signs. */
function randomPacked(rng: Rng, format: PackedFormat, rows: number, columns: number): SampleInput {
  const layout = packedRow(format, columns);
  const data = Array.from({ length: rows * layout.words }, (_, i) => {
    const at = i % layout.words;
    if (format === "q8") return at < layout.scales ? rng.int(2 ** 32) | 0 : scaleBits(rng);
    // bf16: exponents −14 … 1; f16: all but the largest two, subnormal numbers among them.
    const half = (): number => {
      const bits = format === "bf16" ? 0x3880 + rng.int(0x780) : rng.int(0x4000);
      return bits | (rng.int(2) << 15);
    };
    return half() | (half() << 16);
  });
  // `packMatrix` fills the space behind the last column with 0, which the kernels rely on.
  data.forEach((_, i) => {
    const at = i % layout.words;
    if (at >= layout.scales) return;
    const bits = layout.group === 8 ? 16 : 8;
    for (let slot = 0; slot < 32 / bits; slot++) {
      const column = Math.floor(at / 4) * layout.group + slot * 4 + (at % 4);
      if (column >= columns) data[i] = data[i]! & ~(((1 << bits) - 1) << (bits * slot));
    }
  });
  return { shape: [rows, layout.words], dtype: "i32", data };
}

/** A scale of 16 bits, about 2⁻⁷. */
function scaleBits(rng: Rng): number {
  return 0x3c000000 | (rng.int(2 ** 15) << 8);
}

function rowsSpec({ inputs: [w, ids], params }: Call<PackedParams>): PackedRowsSpec {
  return { ...params, rows: w!.shape[0]!, count: ids!.shape[0]! };
}

interface RowsParams extends PackedParams {
  /** The element type of the result. */
  readonly dtype: "f32" | "f64";
}

/** Inputs W i32 [rows, words], ids i32 [N] → [N, columns]; a row of zeros for an id outside of W. */
export const packedRowsOp: OpDef<RowsParams> = {
  name: "packedRows",
  infer([w, ids], params) {
    checkPacked("packedRows", w!, params);
    checkInt("packedRows", ids!);
    check(ids!.shape.length === 1, () => `packedRows: expected ids of shape [N], got ${showShape(ids!.shape)}`);
    return [{ shape: [ids!.shape[0]!, params.columns], dtype: params.dtype }];
  },
  reference([w, ids], [y], call) {
    const { rows, columns } = rowsSpec(call);
    ids!.forEach((row, n) => {
      for (let c = 0; c < columns; c++) {
        y![n * columns + c] = row >= 0 && row < rows ? weightAt(w!, row, c, call.params) : 0;
      }
    });
  },
  kernel: (call) => problem(rowsSpec(call), wasmRows.packedRows, wgsl.packedRows),
  vjp: () => [null, null],
  samples: (rng) =>
    FORMATS.flatMap((format) => [
      ...[1, 8, 37, 64].map((columns) => ({
        label: format,
        inputs: [randomPacked(rng, format, 5, columns), integers(rng, [7], 5)],
        params: { format, columns, dtype: "f32" as const },
      })),
      {
        label: `${format}, out of range`,
        inputs: [randomPacked(rng, format, 3, 4), { shape: [4], dtype: "i32" as const, data: [0, -1, 2, 3] }],
        params: { format, columns: 4, dtype: "f32" as const },
      },
    ]),
};

function problem<S>(
  spec: S,
  forWasm: (spec: S) => Program<WasmKernel>,
  forWgsl: (spec: S, profile: AdapterProfile) => Program<WgslKernel>,
): Problem {
  return { family: "custom", spec: { wasm: () => forWasm(spec), wgsl: (profile) => forWgsl(spec, profile) } };
}

/** x [..., columns] · Wᵀ + addends; see `PackedMatrix.times`. */
export function packedMatmul(x: Tensor, w: Tensor, params: PackedParams, addends: readonly Tensor[]): Tensor {
  const { format, columns } = params;
  return apply1(packedMatmulOp, [x, w, ...addends], { format, columns, transposed: true });
}

/** The rows with these numbers, [...ids, columns]; see `PackedMatrix.rows`. */
export function packedRows(w: Tensor, ids: Tensor, { format, columns }: PackedParams): Tensor {
  checkIds("packedRows", ids, w.shape[0]!);
  const dtype = w.device.float;
  const rows = apply1(packedRowsOp, [w, reshape(ids, [ids.size])], { format, columns, dtype });
  return reshape(rows, [...ids.shape, columns]);
}
