/**
 * Packed matrices: frozen weights in 16 or 8 bits, and their layout in memory. Their kernels (`wasmProducts.ts`,
 * `wasmRows.ts`, `wgsl.ts`) decode them in registers; no f32 copy exists.
 *
 * | Format | A weight is                                                          | Bits       |
 * | ------ | -------------------------------------------------------------------- | ---------- |
 * | bf16   | the upper half of an f32                                             | 16         |
 * | f16    | IEEE 754 binary16, finite                                            | 16         |
 * | q8     | scale · q, q an integer of −127 … 127, a scale for 32 weights of a row | 9         |
 *
 * The value of every weight is exact in f32 (of a scale 16 bits are used, so that scale · q takes 23), and the kernels
 * multiply with exactly that value. So a product with a packed matrix is the product with its unpacked one. q8 is the
 * block format of GGUF's Q8_0 with an f32 scale in the place of its f16, so it holds all values of Q8_0.
 *
 * A row is a multiple of four 32-bit words and stands for its columns in *groups* of four words, with zeros behind the
 * last column. Word w of a group holds columns 4s + w, s = 0 … , from the lowest bits up: two in 16 bits each, or four
 * in 8. So one shift or mask of a vector of four words gives four neighbouring columns, on CPUs and GPUs alike. In q8
 * the scales follow as f32, one for each two groups.
 */
import type { Addend } from "../../kernels/specs.ts";

/** The formats of packed matrices, see above. */
export type PackedFormat = "bf16" | "f16" | "q8";

/** The number of columns in a block of q8, which have one scale. */
export const BLOCK = 32;

/** The layout in memory of a row of `columns` weights. */
export interface PackedRow {
  /** The number of columns in a group of four words: 8 or 16. */
  readonly group: 8 | 16;
  /** The number of columns, with those that fill up the last group, or block. */
  readonly padded: number;
  /** The offset of the scales, which is the end of the weights. */
  readonly scales: number;
  readonly words: number;
}

export function packedRow(format: PackedFormat, columns: number): PackedRow {
  if (format !== "q8") {
    const padded = Math.ceil(columns / 8) * 8;
    return { group: 8, padded, scales: padded / 2, words: padded / 2 };
  }
  const blocks = Math.ceil(columns / BLOCK);
  return {
    group: 16,
    padded: blocks * BLOCK,
    scales: blocks * (BLOCK / 4),
    words: Math.ceil((blocks * (BLOCK / 4 + 1)) / 4) * 4,
  };
}

/**
 * y = x · Wᵀ + addends (`transposed`), or y = x · W, where W [rows, columns] is packed.
 * Buffers: x [m, columns] (not transposed: [m, rows]), W i32 [rows, words], addends… → y [m, rows] (or
 * [m, columns]). Baked: format, `transposed`, number of addends.
 */
export interface PackedMatmulSpec {
  readonly format: PackedFormat;
  readonly m: number;
  readonly rows: number;
  readonly columns: number;
  readonly transposed: boolean;
  /** `row`: [rows], `whole`: [m, rows]; only with `transposed`. */
  readonly addends: readonly Addend[];
}

/** Rows of W [rows, columns] by number: W i32 [rows, words], ids i32 [count] → y [count, columns]; as `GatherSpec`. */
export interface PackedRowsSpec {
  readonly format: PackedFormat;
  readonly rows: number;
  readonly columns: number;
  readonly count: number;
}
