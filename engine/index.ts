/**
 * `worldgrad/engine`: tensors, ops, gradients, fused formulas, memory scopes, executors. Only names are handed on here;
 * the definitions, with their shapes and errors, are in the files that each line names.
 *
 * The ops' definitions (`…Op`, for tests, tables and benchmarks) are in `ops/index.ts` and not public.
 */

// Executors and memory
export { currentDevice, device, type Device, type DeviceOptions, setDevice } from "./device.ts";
export type { Backend, BackendKind, BackendStats } from "./backends/backend.ts";
export type { GpuRequest } from "./backends/webgpu-api.ts";
export type { WebgpuOptions } from "./backends/webgpu.ts";
export { outsideScopes, scope } from "./scope.ts";
export { assign } from "./state.ts";
export { WorldgradError } from "./errors.ts";

// Tensors and trees of them
export { type ElementsOf, Tensor } from "./tensor.ts";
export type { DType, FloatType, Shape, TensorType } from "./types.ts";
export type { MatrixForm, Weight } from "./matrixForm.ts";
export { mapTree, type Tree, type TreeNode, treeEntries, treeFromLeaves, treeLeaves, treeLeavesLike } from "./tree.ts";
export { Rng, type RngState } from "./random.ts";

// Gradients
export { checkGradient, type CheckGradientOptions, GradientCheckError } from "./check.ts";
export type { GradientDifference, GradientReport } from "./check.ts";
export { grad, stopGradient, type ValueAndGrad, valueAndGrad } from "./grad.ts";
export { checkpoint } from "./checkpoint.ts";
export { noGrad } from "./tape.ts";
export { graphToString, printGraph } from "./print.ts";
export { wgslOf } from "./showKernels.ts";

// New ops: formulas, and whole definitions
export { fuse, fuseInPlace, type Pointwise, type PointwiseOptions, type TensorLike } from "./fuse.ts";
export { constant, Expr, expr, type ExprLike, where as select } from "../kernels/expr.ts";
export type { AdapterProfile, Program, WasmKernel, WgslKernel } from "../kernels/kernel.ts";
export type { CustomSpec, Problem } from "../kernels/specs.ts";
export { apply, applyOn, type Call, type NoParams, type OpDef, type Sample, type VjpContext } from "./op.ts";

// Ops: making tensors
export { arange, causalMask, full, type Nested, ones, onesLike, randomNormal, randomUniform } from "./ops/create.ts";
export { tensor, type TensorOptions, triuMask, zeros, zerosLike } from "./ops/create.ts";

// Ops: element by element
export {
  abs,
  add,
  clamp,
  cos,
  div,
  eq,
  erf,
  exp,
  expm1,
  floor,
  ge,
  gelu,
  geluErf,
  gt,
  le,
  log,
} from "./ops/pointwise.ts";
export {
  log1p,
  lt,
  maximum,
  minimum,
  mul,
  ne,
  neg,
  pow,
  relu,
  rsqrt,
  sigmoid,
  sign,
  silu,
  sin,
} from "./ops/pointwise.ts";
export { softplus, sqrt, square, sub, tanh, where } from "./ops/pointwise.ts";
export { dropout } from "./ops/dropout.ts";
export { cast } from "./ops/indexing.ts";

// Ops: over axes
export { argmax, argmin, logsumexp, max, mean, min, type ReduceOptions, sum, sumTo, variance } from "./ops/reduce.ts";
export { maskedMax, maskedMean, maskedSum, maskedVariance, maskedWhiten } from "./ops/reduce.ts";
export { cumsum, type CumsumOptions } from "./ops/cumsum.ts";
export type { AxisOptions } from "./operands.ts";

// Ops: shape and place
export { broadcastTo, concat, pad, permute, reshape, slice, stack, transpose } from "./ops/movement.ts";
export { split } from "./ops/split.ts";
export { embedding, gather, oneHot, scatterAdd, scatterAlong, takeAlong, writeRows } from "./ops/indexing.ts";

// Ops: neural networks
export { type Activation, matmul, type MatmulOptions } from "./ops/matmul.ts";
export { logSoftmax, softmax, type SoftmaxOptions } from "./ops/softmax.ts";
export { layerNorm, rmsNorm } from "./ops/norm.ts";
export { rotary, rotaryTables } from "./ops/rotary.ts";
export { attention, type AttentionOptions } from "./ops/attention.ts";
export { crossEntropy, type CrossEntropyOptions } from "./ops/crossEntropy.ts";
export { type LogProbs, logProbs, tokenLogProbs, type TokenLogProbsOptions } from "./ops/logProbs.ts";
export { cacheAttention, type CacheAttentionOptions } from "./ops/cacheAttention.ts";
export { type Sampled, sampleTokens } from "./ops/sample.ts";
