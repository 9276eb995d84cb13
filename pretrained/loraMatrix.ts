/**
 * The matrix of a linear layer with an adapter, W + s·BA. Only products with it are computed, never the matrix itself.
 * lora.ts has the formulas, and says which layers get an adapter.
 */
import { fail } from "../engine/errors.ts";
import type { Device } from "../engine/device.ts";
import type { MatrixForm, Weight } from "../engine/matrixForm.ts";
import { tensor } from "../engine/ops/create.ts";
import { dropout } from "../engine/ops/dropout.ts";
import { matmul } from "../engine/ops/matmul.ts";
import { concat, permute, reshape } from "../engine/ops/movement.ts";
import { add, div, mul, sqrt, sub } from "../engine/ops/pointwise.ts";
import { sum } from "../engine/ops/reduce.ts";
import type { Rng } from "../engine/random.ts";
import { scope } from "../engine/scope.ts";
import { noGrad } from "../engine/tape.ts";
import { Tensor } from "../engine/tensor.ts";
import type { FloatType, Shape } from "../engine/types.ts";

/** The tensors of a layer with an adapter. */
export type LoraParts = {
  readonly base: Weight;
  readonly A: Tensor;
  readonly B: Tensor;
  /** DoRA's lengths. */
  readonly m?: Tensor;
  /** ‖W‖² of each row of the base, [out]; with DoRA. */
  readonly squares?: Tensor;
};

/** The layout, scale and dropout of a layer with an adapter. */
export interface LoraHow {
  /** The base is [in, out]. */
  readonly isTransposed: boolean;
  readonly scale: number;
  readonly dropout: { readonly p: number; readonly rng: Rng } | undefined;
}

/** The matrix of a layer with an adapter. */
export class LoraMatrix implements MatrixForm {
  readonly tensors: LoraParts;
  readonly #how: LoraHow;

  constructor(tensors: LoraParts, how: LoraHow) {
    this.tensors = tensors;
    this.#how = how;
  }

  get shape(): Shape {
    return this.tensors.base.shape;
  }
  get device(): Device {
    return this.tensors.A.device;
  }
  get dtype(): FloatType {
    return this.tensors.A.dtype as FloatType;
  }

  withTensors(tensors: LoraParts): LoraMatrix {
    return new LoraMatrix(tensors, this.#how);
  }

  times(x: Tensor, bias?: Tensor, addend?: Tensor): Tensor {
    const { base, A, B, m } = this.tensors;
    const { scale, dropout: drop } = this.#how;
    const seen = drop ? dropout(x, drop.p, drop.rng) : x;
    const inner = matmul(seen, A, { transB: true });
    if (m === undefined) {
      return matmul(inner, B, { transB: true, scale, addend: product(x, base, this.#how, bias, addend) });
    }
    const added = matmul(inner, B, { transB: true, scale });
    const y = product(x, base, this.#how, bias);
    // PEFT's form: y + (m/‖·‖ − 1)·W x + m/‖·‖·s·B A x; in these two terms dropout applies to x.
    const stretch = div(m, this.#lengths());
    const plain = drop ? product(seen, base, this.#how) : bias ? sub(y, bias) : y;
    const z = add(y, add(mul(sub(stretch, 1), plain), mul(stretch, added)));
    return addend ? add(z, addend) : z;
  }

  rows(): never {
    return fail("lora: a table of embeddings has no adapter");
  }

  /**
   * ‖W + s·BA‖ of each row, without making that matrix: ‖W‖² + 2s·Σ_r B·(W Aᵀ) + s²·Σ_r B·(B A Aᵀ). Only products with
   * the base are needed, so it may be packed. At B = 0 the result equals the start of m to the last bit.
   */
  #lengths(): Tensor {
    const { base, A, B, squares } = this.tensors;
    const { scale } = this.#how;
    return scope(
      () =>
        noGrad(() => {
          const WA = permute(product(A, base, this.#how), [1, 0]);
          const AA = matmul(A, A, { transB: true });
          const cross = sum(mul(B, WA), { axis: -1 });
          const own = sum(mul(B, matmul(B, AA)), { axis: -1 });
          return sqrt(add(squares!, add(mul(cross, 2 * scale), mul(own, scale * scale))));
        }),
      "lora lengths",
    );
  }

  /** W + s·BA in the layout of the base; in DoRA its rows are scaled to the lengths m. */
  merged(): Tensor {
    const { base, A, B, m } = this.tensors;
    const { scale, isTransposed: isAcross } = this.#how;
    return scope(
      () =>
        noGrad(() => {
          const whole = dense(base, this.#how);
          const change = isAcross ? matmul(A, B, { transA: true, transB: true, scale }) : matmul(B, A, { scale });
          const both = add(whole, change);
          if (m === undefined) return both;
          const stretch = div(m, this.#lengths());
          return mul(both, isAcross ? stretch : reshape(stretch, [-1, 1]));
        }),
      "merge",
    );
  }
}

/** x·Wᵀ + bias for a matrix in the layout of the checkpoint. */
function product(
  x: Tensor,
  weight: Weight,
  { isTransposed: isAcross }: Pick<LoraHow, "isTransposed">,
  bias?: Tensor,
  addend?: Tensor,
): Tensor {
  if (!(weight instanceof Tensor)) return weight.times(x, bias, addend);
  return matmul(x, weight, { transB: !isAcross, bias, addend });
}

/** Rows of the identity that a packed matrix is multiplied by at a time. */
const ROWS = 64;

/** The matrix as one tensor, in its layout; a tensor is returned as it is. */
export function dense(weight: Weight, how: Pick<LoraHow, "isTransposed">): Tensor {
  if (weight instanceof Tensor) return weight;
  const columns = columnsOf(weight, how); // Wᵀ, [in, out]
  return how.isTransposed ? columns : permute(columns, [1, 0]);
}

/** Wᵀ [in, out] of a matrix in any form, from its products with the rows of the identity. */
function columnsOf(weight: MatrixForm, { isTransposed: isAcross }: Pick<LoraHow, "isTransposed">): Tensor {
  const { device, dtype } = weight;
  const inputs = weight.shape[isAcross ? 0 : 1]!;
  const parts = Array.from({ length: Math.ceil(inputs / ROWS) }, (_, i) => {
    const count = Math.min(ROWS, inputs - i * ROWS);
    const unit = new Float64Array(count * inputs);
    for (let n = 0; n < count; n++) unit[n * inputs + i * ROWS + n] = 1;
    return weight.times(tensor(unit, { device, dtype, shape: [count, inputs] }));
  });
  return parts.length === 1 ? parts[0]! : concat(parts);
}

/** ‖W‖² of each row [out]. */
export function squaresOf(weight: Weight, isAcross: boolean): Tensor {
  return scope(
    () =>
      noGrad(() => {
        const whole = weight instanceof Tensor ? weight : columnsOf(weight, { isTransposed: isAcross });
        const isColumns = isAcross || !(weight instanceof Tensor);
        return sum(mul(whole, whole), { axis: isColumns ? 0 : 1 });
      }),
    "lora squares",
  );
}
