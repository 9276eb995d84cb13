/**
 * Frozen matrices in 16 or 8 bits. They save memory if a checkpoint is not trained, or only by an adapter. A packed
 * matrix takes the place of a matrix in a model (`MatrixForm`). The kernels of its products decode it as they multiply
 * (`ops.ts`), so no f32 copy exists, on the device or on the host.
 *
 * Each packed weight stands for a number that is exact in f32. So a model with packed matrices computes what the f32
 * model with the unpacked ones computes, up to the order of its sums. Activations, gradients and whatever is trained
 * stay in f32.
 *
 * Not here: 4 bits, activations in 8 bits, calibration.
 */
import type { Device } from "../../engine/device.ts";
import { check } from "../../engine/errors.ts";
import type { MatrixForm } from "../../engine/matrixForm.ts";
import { showValue } from "../../engine/options.ts";
import { arange } from "../../engine/ops/create.ts";
import { transpose } from "../../engine/ops/movement.ts";
import { scope } from "../../engine/scope.ts";
import { Storage, Tensor } from "../../engine/tensor.ts";
import type { Tree } from "../../engine/tree.ts";
import { type FloatType, type Shape, showShape, sizeOf } from "../../engine/types.ts";
import { freezeWeight, replaceWeights, type TransformerParams } from "../../nn/parameters.ts";
import type { Model } from "../../nn/transformer.ts";
import { type PackedFormat, packedRow } from "./format.ts";
import { packedMatmul, packedRows } from "./ops.ts";
import { type MatrixBytes, packRows } from "./packing.ts";

export type { PackedFormat } from "./format.ts";
export type { MatrixBytes, PackableDtype } from "./packing.ts";

/** Options of `packMatrix`. */
export interface PackOptions {
  /** `bf16` and `f16`: 16 bits a weight. `q8`: 9 bits, integers of 8 with a scale for each 32. */
  readonly format: PackedFormat;
  readonly device: Device;
  /** The matrix is stored [in, out], as in GPT-2; otherwise [out, in]. */
  readonly transposed?: boolean;
}

/** A packed matrix as plain data, from which another process can make it again (`packedFromHost`). */
export interface PackedWords {
  readonly format: PackedFormat;
  readonly shape: Shape;
  /** `shape` is [in, out] and not [out, in]. */
  readonly transposed: boolean;
  /** The words of all rows, which hold the scales, too. */
  readonly words: Int32Array;
}

/** A frozen matrix in 16 or 8 bits; `packMatrix` makes one. */
export class PackedMatrix implements MatrixForm {
  readonly shape: Shape;
  readonly format: PackedFormat;
  /** i32 [out, words]: the rows of the matrix that x is multiplied by, as `format.ts` describes them. */
  readonly packed: Tensor;
  readonly #transposed: boolean;

  /** @param transposed `shape` is [in, out] and not [out, in] */
  constructor(packed: Tensor, shape: Shape, format: PackedFormat, transposed = false) {
    this.packed = packed;
    this.shape = shape;
    this.format = format;
    this.#transposed = transposed;
  }

  get device(): Device {
    return this.packed.device;
  }
  get dtype(): FloatType {
    return this.device.float;
  }
  /** Bytes of the device's memory. */
  get bytes(): number {
    return 4 * this.packed.size;
  }
  /** For trees; see `TreeNode`. */
  get tensors(): { readonly packed: Tensor } {
    return { packed: this.packed };
  }
  withTensors({ packed }: Readonly<Record<string, Tree | undefined>>): PackedMatrix {
    return new PackedMatrix(packed as Tensor, this.shape, this.format, this.#transposed);
  }

  /** x·Wᵀ + bias + addend, differentiable by all but W; see `MatrixForm.times`. */
  times(x: Tensor, bias?: Tensor, addend?: Tensor): Tensor {
    const addends = [bias, addend].filter((y) => y !== undefined);
    return packedMatmul(x, this.packed, this.#layout, addends);
  }

  /**
   * Rows of the matrix, unpacked. @param ids i32 [...] @returns [..., columns]
   * @throws if a host-made id is outside the matrix, or if that is stored [in, out]
   */
  rows(ids: Tensor): Tensor {
    check(!this.#transposed, () => `PackedMatrix.rows: a matrix ${showShape(this.shape)} that is stored [in, out]`);
    return packedRows(this.packed, ids, this.#layout);
  }

  /** A copy as plain data. */
  async toHost(): Promise<PackedWords> {
    const words = (await this.packed.read()) as Int32Array;
    return { format: this.format, shape: this.shape, transposed: this.#transposed, words };
  }

  /** The whole matrix as a float tensor of its `shape`, for merging and saving. */
  unpack(): Tensor {
    const rows = (): Tensor =>
      packedRows(this.packed, arange(this.packed.shape[0]!, { device: this.device }), this.#layout);
    return scope(() => (this.#transposed ? transpose(rows()) : rows()), "unpack");
  }

  get #layout(): { format: PackedFormat; columns: number } {
    return { format: this.format, columns: this.shape[this.#transposed ? 0 : 1]! };
  }
}

/** Bytes of the packed form of a matrix [out, in]; `fit` adds them up. */
export const packedBytes = (format: PackedFormat, [rows, columns]: readonly [number, number]): number =>
  4 * rows * packedRow(format, columns).words;

/** The matrix that `toHost` copied. @throws if the words do not fit its format and shape */
export function packedFromHost({ format, shape, transposed, words }: PackedWords, device: Device): PackedMatrix {
  check(FORMATS.includes(format), () => `packedFromHost: expected ${FORMATS.join(", ")}, got "${format}"`);
  check(shape.length === 2, () => `packedFromHost: expected a matrix, got ${showShape(shape)}`);
  const [rows, columns] = (transposed ? [shape[1], shape[0]] : shape) as [number, number];
  const inRow = packedRow(format, columns).words;
  check(
    words.length === rows * inRow,
    () => `packedFromHost: ${format}${showShape(shape)} has ${rows * inRow} words, got ${words.length}`,
  );
  const packed = empty(device, rows, inRow);
  device.backend.write(packed.storage.buffer, words);
  return new PackedMatrix(packed, [...shape], format, transposed);
}

const FORMATS: readonly PackedFormat[] = ["bf16", "f16", "q8"];

/** Words that are yet to be written; `tensor` would keep a copy of them on the host. */
const empty = (device: Device, rows: number, words: number): Tensor =>
  new Tensor(new Storage(device, 4 * rows * words), [rows, words], "i32");

/** Unpacked weights on the host at a time, while a matrix is packed. */
const CHUNK = 2 ** 20;

/**
 * Packs a matrix as it lies in a checkpoint, some rows at a time: neither host nor device ever holds it in f32.
 * @returns a matrix in the current scope
 * @throws if it is no matrix, if `bytes` has another size, or if a weight is not finite or too large for f16
 *
 * @example
 * const { dtype, shape, bytes } = entry;   // of a safetensors file: BF16 [out, in]
 * const weight = packMatrix({ dtype, shape, bytes }, { format: "q8", device });
 * weight.times(x);                         // x · Wᵀ
 */
export function packMatrix(matrix: MatrixBytes, { format, device, transposed = false }: PackOptions): PackedMatrix {
  const { dtype, shape, bytes } = matrix;
  check(FORMATS.includes(format), () => `packMatrix: expected ${FORMATS.join(", ")}, got "${format}"`);
  check(["F32", "F16", "BF16"].includes(dtype), () => `packMatrix: expected F32, F16 or BF16, got ${dtype}`);
  check(shape.length === 2, () => `packMatrix: expected a matrix, got ${showShape(shape)}`);
  const expected = sizeOf(shape) * (dtype === "F32" ? 4 : 2);
  check(
    bytes.byteLength === expected,
    () => `packMatrix: ${dtype}${showShape(shape)} takes ${expected} bytes, got ${bytes.byteLength}`,
  );
  const [rows, columns] = (transposed ? [shape[1], shape[0]] : shape) as [number, number];
  const { words } = packedRow(format, columns);
  const { backend } = device;
  const packed = empty(device, rows, words);
  // Parts begin at multiples of 256 bytes, and 16 rows are such a multiple.
  const step = 16 * Math.max(1, Math.floor(CHUNK / (16 * columns)));
  try {
    for (let from = 0; from < rows; from += step) {
      const to = Math.min(rows, from + step);
      const part = backend.part(packed.storage.buffer, 4 * from * words, 4 * (to - from) * words);
      try {
        backend.write(part, packRows(format, matrix, transposed, from, to));
      } finally {
        backend.free(part);
      }
    }
  } catch (error) {
    packed.dispose();
    throw error;
  }
  return new PackedMatrix(packed, [...shape], format, transposed);
}

/**
 * The model with its linear layers, embedding and head packed; gains, biases and learned positions stay tensors, which
 * both models share. Nothing is freed: `model` stays usable. To load a checkpoint in a packed form, pack each tensor
 * as it is read (`packMatrix`), which needs no room for the f32 model.
 * @param format of all matrices, or of each by its path (`layers.0.mlp.up.weight`); undefined: it stays as it is
 */
export async function packModel(
  model: Model,
  format: PackedFormat | ((path: string) => PackedFormat | undefined),
): Promise<Model> {
  const isFormat = typeof format === "string" || typeof format === "function";
  check(
    isFormat,
    () => `packModel: expected a format, such as "q8", or a function of the path, got ${showValue(format)}`,
  );
  const values = new Map<string, Float32Array>();
  const of = typeof format === "string" ? (): PackedFormat => format : format;
  const tensors: [path: string, weight: Tensor][] = [];
  replaceWeights(model.params, (weight, path) => {
    if (weight instanceof Tensor && of(path) !== undefined) tensors.push([path, weight]);
    return weight;
  });
  for (const [path, weight] of tensors) values.set(path, Float32Array.from((await weight.read()) as Float32Array));
  const transposed = model.config.family === "gpt2";
  const params: TransformerParams = replaceWeights(model.params, (weight, path) => {
    const data = values.get(path);
    if (data === undefined) return weight;
    values.delete(path);
    const matrix = { dtype: "F32" as const, shape: weight.shape, bytes: new Uint8Array(data.buffer) };
    const isTable = path === "embedding" || path === "head";
    const how = { format: of(path)!, device: weight.device, transposed: transposed && !isTable };
    const packed = packMatrix(matrix, how);
    freezeWeight(packed, path);
    return packed;
  });
  return { config: model.config, params };
}
