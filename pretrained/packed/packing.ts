/**
 * Packing on the host: rows of weights, in the element types of checkpoints, to the words of `format.ts`, and
 * their rounding.
 *
 * - bf16, f16: to nearest, ties to even (IEEE 754 §4.3.1). Weights that are stored in that type already are not
 *   rounded.
 * - q8: for each 32 neighbouring weights of a row scale = max |w| / 127, rounded up to 16 significant bits, and
 *   q = w / scale to nearest, ties away from zero; so |w − scale · q| ≤ scale / 2. It is the rounding of GGUF's Q8_0
 *   (`quantize_row_q8_0_ref` in ggml), which rounds its scale to f16 after the division instead of before it.
 */
import { check } from "../../engine/errors.ts";
import { bfloat16Bits, float16Bits, fromBfloat16Bits, fromFloat16Bits } from "../../nn/half.ts";
import { BLOCK, type PackedFormat, packedRow } from "./format.ts";

/** Element types of checkpoints that can be packed, as safetensors names them. */
export type PackableDtype = "F32" | "F16" | "BF16";

/** A matrix as it lies in a checkpoint: row-major, little-endian. */
export interface MatrixBytes {
  readonly dtype: PackableDtype;
  /** [rows, columns] */
  readonly shape: readonly number[];
  readonly bytes: Uint8Array;
}

type Chunk =
  | { readonly dtype: "F32"; readonly data: Float32Array }
  | { readonly dtype: "F16" | "BF16"; readonly data: Uint16Array };

/**
 * The packed rows `from` … `to` − 1 of a matrix, or of its transpose.
 * @throws if a weight is not finite, or is beyond the range of the format
 */
export function packRows(
  format: PackedFormat,
  matrix: MatrixBytes,
  transposed: boolean,
  from: number,
  to: number,
): Int32Array<ArrayBuffer> {
  const columns = matrix.shape[transposed ? 0 : 1]!;
  const chunk = transposed ? columnsOf(matrix, from, to) : rowsOf(matrix, from, to);
  checkFinite(chunk, columns, from);
  if (format === "q8") return pack8(widen(chunk), columns);
  const bits = chunk.dtype === DTYPE[format] ? chunk.data : narrow(format, widen(chunk));
  if (format === "f16") {
    const wrong = chunk.dtype === "F16" ? -1 : bits.findIndex((b) => (b & 0x7c00) === 0x7c00);
    check(
      wrong < 0,
      () => `packMatrix: the weight in row ${from + Math.floor(wrong / columns)} is beyond the range of f16 (65504)`,
    );
  }
  return pack16(bits, columns);
}

const DTYPE = { bf16: "BF16", f16: "F16" } as const;
const narrow = (format: "bf16" | "f16", values: Float32Array): Uint16Array =>
  format === "bf16" ? bfloat16Bits(values) : float16Bits(values);

function widen({ dtype, data }: Chunk): Float32Array {
  return dtype === "F32" ? data : dtype === "F16" ? fromFloat16Bits(data) : fromBfloat16Bits(data);
}

const elementBytes = (dtype: PackableDtype): number => (dtype === "F32" ? 4 : 2);

/** Views of the bytes, or a copy where they are not aligned. */
function chunkOf(dtype: PackableDtype, bytes: Uint8Array): Chunk {
  const { buffer, byteOffset, byteLength } = bytes.byteOffset % elementBytes(dtype) === 0 ? bytes : bytes.slice();
  return dtype === "F32"
    ? { dtype, data: new Float32Array(buffer, byteOffset, byteLength / 4) }
    : { dtype, data: new Uint16Array(buffer, byteOffset, byteLength / 2) };
}

function rowsOf({ dtype, shape, bytes }: MatrixBytes, from: number, to: number): Chunk {
  const rowBytes = elementBytes(dtype) * shape[1]!;
  return chunkOf(dtype, bytes.subarray(from * rowBytes, to * rowBytes));
}

/** Columns `from` … `to` − 1 as rows. */
function columnsOf({ dtype, shape, bytes }: MatrixBytes, from: number, to: number): Chunk {
  const [rows, columns] = shape as [number, number];
  const whole = chunkOf(dtype, bytes);
  const data = new (whole.dtype === "F32" ? Float32Array : Uint16Array)((to - from) * rows);
  for (let r = 0; r < rows; r++) {
    for (let c = from; c < to; c++) data[(c - from) * rows + r] = whole.data[r * columns + c]!;
  }
  return { dtype, data } as Chunk;
}

function checkFinite({ dtype, data }: Chunk, columns: number, firstRow: number): void {
  const exponent = dtype === "F16" ? 0x7c00 : 0x7f80;
  let wrong = -1;
  if (dtype === "F32") wrong = data.findIndex((value) => !Number.isFinite(value));
  else {
    for (let i = 0; i < data.length && wrong < 0; i++) if ((data[i]! & exponent) === exponent) wrong = i;
  }
  check(wrong < 0, () => {
    const place = `row ${firstRow + Math.floor(wrong / columns)}, column ${wrong % columns}`;
    return `packMatrix: the weight in ${place} is not finite`;
  });
}

/** Words of rows of 16-bit patterns. */
function pack16(bits: Uint16Array, columns: number): Int32Array<ArrayBuffer> {
  const { words } = packedRow("bf16", columns);
  const rows = bits.length / columns;
  const packed = new Int32Array(rows * words);
  for (let row = 0; row < rows; row++) {
    for (let group = 0; 8 * group < columns; group++) {
      const at = row * columns + 8 * group;
      const left = columns - 8 * group;
      const to = row * words + 4 * group;
      for (let w = 0; w < 4 && w < left; w++) {
        packed[to + w] = bits[at + w]! | (w + 4 < left ? bits[at + w + 4]! << 16 : 0);
      }
    }
  }
  return packed;
}

/** A block whose scale would be below this is zeros: the kernels move the scale by 2⁻²⁴. */
const LEAST_SCALE = 2 ** -100;

const bitsOf = new Int32Array(1);
const floatOf = new Float32Array(bitsOf.buffer);

/** max |w| / 127, rounded up to 16 significant bits. */
function scaleOf(largest: number): number {
  if (largest < 127 * LEAST_SCALE) return 0;
  floatOf[0] = largest / 127;
  bitsOf[0] = (bitsOf[0]! + 0xff) & ~0xff;
  return floatOf[0];
}

/** Words of rows of floats, in q8. */
function pack8(values: Float32Array, columns: number): Int32Array<ArrayBuffer> {
  const { words, scales } = packedRow("q8", columns);
  const rows = values.length / columns;
  const packed = new Int32Array(rows * words);
  const packedScales = new Float32Array(packed.buffer);
  for (let row = 0; row < rows; row++) {
    const begin = row * words;
    for (let first = 0; first < columns; first += BLOCK) {
      const at = row * columns + first;
      const count = Math.min(BLOCK, columns - first);
      let largest = 0;
      for (let c = 0; c < count; c++) largest = Math.max(largest, Math.abs(values[at + c]!));
      const scale = scaleOf(largest);
      packedScales[begin + scales + first / BLOCK] = scale;
      if (scale === 0) continue;
      for (let c = 0; c < count; c++) {
        const exact = values[at + c]! / scale;
        const q = Math.trunc(exact + (exact < 0 ? -0.5 : 0.5));
        const column = first + c;
        packed[begin + (column >> 4) * 4 + (column & 3)]! |= (q & 0xff) << (8 * ((column >> 2) & 3));
      }
    }
  }
  return packed;
}
