/**
 * A matrix of weights that is not one tensor: packed into 16 or 8 bits, or the sum of a frozen matrix and an adapter
 * (LoRA). Whoever multiplies by weights takes a `Weight`, and a tensor costs nothing for it: there is no wrapper around
 * one.
 */
import type { Device } from "./device.ts";
import type { Tensor } from "./tensor.ts";
import type { TreeNode } from "./tree.ts";
import type { FloatType, Shape } from "./types.ts";

/**
 * A matrix in another form than one tensor. As a node of a tree it hands its tensors to whatever walks trees: what
 * frees, saves, counts or differentiates. Those that may be trained are floats.
 */
export interface MatrixForm extends TreeNode {
  /** Of the matrix that it stands for, in the layout of the checkpoint: [out, in], in GPT-2 [in, out]. */
  readonly shape: Shape;
  readonly device: Device;
  /** The element type of what `times` and `rows` give. */
  readonly dtype: FloatType;
  /**
   * The linear layer: x·Wᵀ + bias with W [out, in], whichever layout `shape` says. Differentiable by x.
   * @param x [..., in]
   * @param bias [out]
   * @returns [..., out]
   */
  times(x: Tensor, bias?: Tensor): Tensor;
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

/** What may stand where a model has a matrix. */
export type Weight = Tensor | MatrixForm;
