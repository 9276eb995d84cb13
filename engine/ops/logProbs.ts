/**
 * Log-probabilities of given tokens and the entropy of their distributions, both differentiable, at a temperature per
 * row. The logits are the only kept tensor of their size; `tokenLogProbs` starts from hidden states and does not even
 * keep those: above a size it works through chunks of tokens and computes each chunk's logits again in the backward
 * pass.
 */
import { where } from "../../kernels/expr.ts";
import type { LogProbsSpec } from "../../kernels/specs.ts";
import { checkpoint, vjpOf } from "../checkpoint.ts";
import { check } from "../errors.ts";
import { fuse, type Pointwise } from "../fuse.ts";
import { apply, apply1, type Call, type Elements, type NoParams, type OpDef, typed } from "../op.ts";
import { checkTensor } from "../operands.ts";
import { checkKeys } from "../options.ts";
import { integers, listed, normal, tiedOrFar, uniform } from "../sampling.ts";
import type { Weight } from "../matrixForm.ts";
import { Tensor } from "../tensor.ts";
import { treeFromLeaves, treeLeaves } from "../tree.ts";
import {
  bytesPerElement,
  checkFloat,
  checkInt,
  checkSameDtype,
  sameShape,
  type Shape,
  showShape,
  showType,
  sizeOf,
  type TensorType,
} from "../types.ts";
import { full, zerosLike } from "./create.ts";
import { checkIds, oneHot } from "./indexing.ts";
import { matmul } from "./matmul.ts";
import { concat, reshape, slice } from "./movement.ts";
import { add, div, exp, maximum, mul, ne, sub, where as select } from "./pointwise.ts";
import { sum } from "./reduce.ts";
import { EXCLUDED } from "./softmax.ts";

function specOf({ inputs: [logits] }: Call<NoParams>): LogProbsSpec {
  const vocab = logits!.shape[logits!.shape.length - 1]!;
  return { rows: sizeOf(logits!.shape) / vocab, vocab };
}

/** logits [..., V], targets [...], and any number of float tensors [...]. */
function checkOperands(where: string, inputs: readonly TensorType[]): Shape {
  const [logits, targets, ...perRow] = inputs as [TensorType, TensorType, ...TensorType[]];
  [logits, ...perRow].forEach((input) => checkFloat(where, input));
  checkInt(where, targets);
  checkSameDtype(where, [logits, ...perRow]);
  const rows = logits.shape.slice(0, -1);
  check(logits.shape.length > 0, () => `${where}: expected logits [..., V], got a scalar`);
  for (const x of [targets, ...perRow]) {
    check(
      sameShape(x.shape, rows),
      () => `${where}: logits ${showShape(logits.shape)} need one value per row ${showShape(rows)}, got ${showType(x)}`,
    );
  }
  return rows;
}

/** Inputs logits [..., V], targets i32 [...], invTemperature [...] → log-probability, entropy, lse, each [...]. */
export const logProbsOp: OpDef = {
  name: "logProbs",
  infer(inputs) {
    const type = { shape: checkOperands("logProbs", inputs), dtype: inputs[0]!.dtype };
    return [type, type, type];
  },
  reference([logits, targets, invTemperature], [logp, entropy, lse], call) {
    const { rows, vocab } = specOf(call);
    for (let row = 0; row < rows; row++) {
      const z = rowOf(logits!, row, vocab, invTemperature![row]!);
      const largest = z.reduce((a, b) => Math.max(a, b));
      const logTotal = largest + Math.log(z.reduce((total, v) => total + Math.exp(v - largest), 0));
      const target = z[targets![row]!];
      logp![row] = target === undefined ? 0 : target - logTotal; // an id that a device computed may be outside
      entropy![row] = z.reduce((total, v) => {
        const p = Math.exp(v - logTotal);
        return p === 0 ? total : total - p * (v - logTotal);
      }, 0);
      lse![row] = logTotal;
    }
  },
  kernel: (call) => ({ family: "logProbs", spec: specOf(call) }),
  vjp({ g: [gLogp, gEntropy, gLse], x: [logits, targets, invTemperature], y: [, entropy, lse], needs }) {
    const zero = gLogp && gEntropy ? null : zerosLike(lse!);
    const inputs = [logits!, targets!, invTemperature!, entropy!, lse!, gLogp ?? zero!, gEntropy ?? zero!];
    let dLogits = apply1(logProbsBackwardOp, inputs, {});
    if (gLse) {
      // Only a second derivative reaches this line: lse is passed only to the backward op.
      const scale = column(invTemperature!);
      const p = exp(logarithm(logits!, scale, column(lse!), ne(column(gLse), 0)));
      dLogits = add(dLogits, mul(p, mul(column(gLse), scale)));
    }
    // The logits matter as logits · invTemperature only, so one derivative gives the other.
    const dInvTemperature = needs[2] ? div(sum(alongLogits(dLogits, logits!), { axis: -1 }), invTemperature!) : null;
    return [needs[0] ? dLogits : null, null, dInvTemperature];
  },
  samples: (rng) => [
    ...sampleShapes.map((shape) => ({
      inputs: [
        normal(rng, shape),
        integers(rng, shape.slice(0, -1), shape.at(-1)!),
        uniform(rng, shape.slice(0, -1), 0.5, 2),
      ],
      params: {},
    })),
    {
      label: "points: ties, and one that has nearly all",
      inputs: [tiedOrFar(), { ...listed([0, 3, 2, 1]), dtype: "i32" }, listed([1, 1, 2, 1])],
      params: {},
    },
  ],
};
/** d·z, but 0 where z is not finite: a logit of −∞ has no probability, and for a NaN that counts d is NaN. */
const alongLogits: Pointwise<Tensor> = fuse("alongLogits", (d, z) => d.mul(where(z.abs().lt(Infinity), z, 0)));

const sampleShapes: Shape[] = [[3, 5], [2, 1], [1, 67], [2, 2, 7], [4]];
const column = (x: Tensor): Tensor => reshape(x, [...x.shape, 1]);

function rowOf(logits: Elements, row: number, vocab: number, invTemperature: number): Float64Array {
  return Float64Array.from({ length: vocab }, (_, v) => logits[row * vocab + v]! * invTemperature);
}

/** Inputs logits, targets, invTemperature, entropy, lse, gLogp, gEntropy → the gradient of the logits. */
export const logProbsBackwardOp: OpDef = {
  name: "logProbsBackward",
  infer(inputs) {
    checkOperands("logProbsBackward", inputs);
    return typed(inputs[0]!.shape, inputs[0]!);
  },
  reference([logits, targets, invTemperature, entropy, lse, gLogp, gEntropy], [dLogits], call) {
    const { rows, vocab } = specOf(call);
    for (let row = 0; row < rows; row++) {
      if (gLogp![row] === 0 && gEntropy![row] === 0) {
        dLogits!.fill(0, row * vocab, (row + 1) * vocab); // a row without gradient may hold anything
        continue;
      }
      rowOf(logits!, row, vocab, invTemperature![row]!).forEach((z, v) => {
        const p = Math.exp(z - lse![row]!);
        const ofLogp = gLogp![row]! * ((v === targets![row] ? 1 : 0) - p);
        const ofEntropy = p === 0 ? 0 : -gEntropy![row]! * p * (z - lse![row]! + entropy![row]!);
        dLogits![row * vocab + v] = invTemperature![row]! * (ofLogp + ofEntropy);
      });
    }
  },
  kernel: (call) => ({ family: "logProbsBackward", spec: specOf(call) }),
  vjp: ({ g, x, needs }) => vjpOf(unfusedBackward, x, g, needs),
  samples: (rng) =>
    sampleShapes.map((shape) => {
      const rows = shape.slice(0, -1);
      const perRow = [
        uniform(rng, rows, 0.5, 2),
        normal(rng, rows),
        uniform(rng, rows, 1, 3),
        normal(rng, rows),
        normal(rng, rows),
      ];
      return { inputs: [normal(rng, shape), integers(rng, rows, shape.at(-1)!), ...perRow], params: {} };
    }),
};

/** The computation of `logProbsBackwardOp`, op by op. */
function unfusedBackward(inputs: readonly Tensor[]): Tensor[] {
  const [logits, targets, ...perRow] = inputs as [Tensor, Tensor, ...Tensor[]];
  const [scale, entropy, lse, gLogp, gEntropy] = perRow.map(column) as [Tensor, Tensor, Tensor, Tensor, Tensor];
  const counts = maximum(ne(gLogp, 0), ne(gEntropy, 0));
  const isKnown = isRow(lse, counts);
  const logp = logarithm(logits, scale, lse, counts);
  const p = exp(logp);
  const ofLogp = mul(gLogp, sub(oneHot(targets, logits.shape[logits.rank - 1]!, logits.dtype), p));
  const ofEntropy = mul(gEntropy, mul(p, add(logp, select(isKnown, entropy, 0))));
  return [select(isKnown, mul(scale, sub(ofLogp, ofEntropy)), 0)];
}

/** 0 for a row without a gradient whose numbers are none: it may hold anything, and none of its derivatives is NaN. */
const isRow: Pointwise<Tensor> = fuse("isRow", (lse, counts) => where(lse.abs().lt(Infinity), 1, counts));
/**
 * ln p; −1e30 for a logit of −∞, which has no probability. It is chosen before the product, too, and all of a row that
 * is none (`isRow`): the gradient of the other one is 0 times the rest, which is NaN beside an infinity.
 */
const logarithm: Pointwise<Tensor> = fuse("logarithm", (z, scale, lse, counts) => {
  const isNumber = lse.abs().lt(Infinity);
  const isOut = where(isNumber, z.eq(-Infinity), counts.eq(0));
  const chosen = where(isOut, 0, z)
    .mul(scale)
    .sub(where(isNumber, lse, where(counts, lse, 0)));
  return where(isOut, EXCLUDED, chosen);
});

/** The result of `logProbs` and `tokenLogProbs`: two tensors, one value per row each. */
export interface LogProbs {
  /** ln of the probability of each row's target, in nats. */
  readonly logProbs: Tensor;
  /** Entropy of each row's distribution, in nats. */
  readonly entropy: Tensor;
}

/**
 * Log-probability of one target per row and the entropy of the row, both under softmax(logits / temperature).
 * @param logits [..., V]
 * @param targets i32 [...]
 * @param temperature a number > 0, or one positive value per row [...]; differentiable too
 * @returns two tensors [...]
 * @throws if shapes do not fit, if the temperature is no positive number, or if a host-made target is outside [0, V)
 */
export function logProbs(logits: Tensor, targets: Tensor, temperature: Tensor | number = 1): LogProbs {
  checkTensor("logProbs", logits);
  checkIds("logProbs", targets, logits.shape[logits.rank - 1] ?? 1);
  const [logp, entropy] = apply(logProbsOp, [logits, targets, inverse(temperature, targets.shape, logits)], {});
  return { logProbs: logp!, entropy: entropy! };
}

function inverse(temperature: Tensor | number, rows: Shape, like: Tensor): Tensor {
  if (temperature instanceof Tensor) return div(1, temperature);
  check(temperature > 0, () => `logProbs: the temperature must be positive, got ${temperature}`);
  return full(rows, 1 / temperature, { device: like.device, dtype: like.dtype });
}

/** Options of `tokenLogProbs`. */
export interface TokenLogProbsOptions {
  /** A number > 0, or one value per token [...]; 1 unless given. */
  readonly temperature?: Tensor | number;
  /** [V], added to the logits. */
  readonly bias?: Tensor;
  /** The largest size, in bytes, of the logits that exist at a time; 32 MiB unless given. */
  readonly maxChunkBytes?: number;
}

/**
 * `logProbs` straight from hidden states: logits = hidden · weightᵀ + bias. If all logits take at most `maxChunkBytes`,
 * they are made once and kept for the backward pass. Above that, tokens are processed in chunks whose logits are made
 * again there, so that [tokens, V] never exists. The result is the same.
 * @param hidden [..., C]
 * @param weight [V, C], a tensor or another form of such a matrix
 * @param targets i32 [...]
 * @returns two tensors [...]
 */
export function tokenLogProbs(
  hidden: Tensor,
  weight: Weight,
  targets: Tensor,
  options: TokenLogProbsOptions = {},
): LogProbs {
  checkKeys("tokenLogProbs", options, ["temperature", "bias", "maxChunkBytes"]);
  const { temperature = 1, bias, maxChunkBytes = 2 ** 25 } = options;
  const parts = treeLeaves(weight);
  for (const x of [hidden, targets, ...parts]) checkTensor("tokenLogProbs", x);
  check(
    weight.shape.length === 2 && hidden.rank > 0 && hidden.shape[hidden.rank - 1] === weight.shape[1],
    () => `tokenLogProbs: expected hidden [..., C] and weight [V, C], got ${showType(hidden)} · ${showType(weight)}`,
  );
  check(
    sameShape(targets.shape, hidden.shape.slice(0, -1)),
    () => `tokenLogProbs: hidden ${showShape(hidden.shape)} needs one target per token, got ${showType(targets)}`,
  );
  check(maxChunkBytes > 0, () => `tokenLogProbs: maxChunkBytes must be positive, got ${maxChunkBytes}`);
  const [vocab, channels] = weight.shape as [number, number];
  checkIds("tokenLogProbs", targets, vocab);

  const rows = targets.size;
  const perToken = temperature instanceof Tensor ? reshape(temperature, [rows]) : constant(temperature, rows, hidden);
  const [x, ids] = [reshape(hidden, [rows, channels]), reshape(targets, [rows])];
  const ofTokens = (from: number, to: number): readonly Tensor[] => {
    const part = (y: Tensor): Tensor => (to - from === rows ? y : slice(y, [from], [to]));
    const inputs = [part(x), part(ids), part(perToken), ...parts, ...(bias ? [bias] : [])];
    const run = (given: readonly Tensor[]): Tensor[] => fromHidden(given, weight, parts.length);
    return to - from === rows ? run(inputs) : checkpoint(run, inputs);
  };
  const chunk = Math.max(1, Math.floor(maxChunkBytes / (vocab * bytesPerElement(hidden.dtype))));
  const chunks = Array.from({ length: Math.ceil(rows / chunk) }, (_, i) =>
    ofTokens(i * chunk, Math.min(rows, (i + 1) * chunk)),
  );
  const joined = (output: number): Tensor => {
    const parts = chunks.map((c) => c[output]!);
    return reshape(parts.length === 1 ? parts[0]! : concat(parts), targets.shape);
  };
  return { logProbs: joined(0), entropy: joined(1) };
}

/** Inputs: hidden [n, C], targets [n], temperature [n], the weight's tensors, and a bias [V] if there is one. */
function fromHidden(inputs: readonly Tensor[], weight: Weight, parts: number): Tensor[] {
  const [x, targets, temperature, ...rest] = inputs as [Tensor, Tensor, Tensor, ...Tensor[]];
  const matrix = treeFromLeaves<Weight>(weight, rest);
  const bias = rest[parts];
  const logits = matrix instanceof Tensor ? matmul(x, matrix, { transB: true, bias }) : matrix.times(x, bias);
  const result = logProbs(logits, targets, temperature);
  return [result.logProbs, result.entropy];
}

function constant(temperature: number, rows: number, like: Tensor): Tensor {
  check(temperature > 0, () => `tokenLogProbs: the temperature must be positive, got ${temperature}`);
  return full([rows], temperature, { device: like.device, dtype: like.dtype });
}
