/**
 * A matrix of weights that is not one tensor: one in fewer bits, say, or the sum of a frozen matrix and an adapter.
 * Code that multiplies by weights takes a `Weight`. A tensor costs nothing for it: it has no wrapper.
 */
import type { Device } from "./device.ts";
import type { Tensor } from "./tensor.ts";
import type { TreeNode } from "./tree.ts";
import type { FloatType, Shape } from "./types.ts";

/**
 * A matrix in another form than one tensor. As a node of a tree it gives its tensors to the code that walks trees: to
 * free, save, count or differentiate. Tensors that may be trained are floats.
 */
export interface MatrixForm extends TreeNode {
  /** The shape of the matrix that it stands for, in the layout of the checkpoint: [out, in], in GPT-2 [in, out]. */
  readonly shape: Shape;
  readonly device: Device;
  /** The element type of the results of `times` and `rows`. */
  readonly dtype: FloatType;
  /**
   * The linear layer: x·Wᵀ + bias + addend with W [out, in], for either layout of `shape`. Differentiable by x, bias
   * and addend.
   * @param x [..., in]
   * @param bias [out]
   * @param addend [..., out], as the result: the residual stream
   * @returns [..., out]
   */
  times(x: Tensor, bias?: Tensor, addend?: Tensor): Tensor;
  /**
   * The rows of a table [V, C].
   * @param ids i32 [...]
   * @returns [..., C]
   * @throws if a host-made id is outside [0, V), or if the layout is not that of a table
   */
  rows(ids: Tensor): Tensor;
  /** The whole matrix as one float tensor of its `shape`, for merging and saving. A form without it cannot be saved. */
  readonly unpack?: () => Tensor;
}

/** A matrix of a model: a tensor or another form. */
export type Weight = Tensor | MatrixForm;
