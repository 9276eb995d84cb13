/**
 * Matrix multiplication with transpose flags and an epilogue: act(scale · op(A)·op(B) + addends), batched. With the
 * flags the op is closed under its own derivative: every gradient of a matmul is a matmul, and nothing is ever
 * transposed in memory.
 *
 * A matrix that is shared by the whole batch (the weights of a layer) multiplies all rows in one big product.
 */
import { type Expr, input } from "../../kernels/expr.ts";
import type { MatmulSpec } from "../../kernels/specs.ts";
import { check, fail } from "../errors.ts";
import { apply1, type Call, type OpDef, type Sample, type SampleInput } from "../op.ts";
import { checkTensor } from "../operands.ts";
import { checkKeys } from "../options.ts";
import type { Rng } from "../random.ts";
import { filled, normal } from "../sampling.ts";
import type { Tensor } from "../tensor.ts";
import {
  broadcastShapes,
  checkFloat,
  checkSameDtype,
  sameShape,
  type Shape,
  showShape,
  sizeOf,
  type TensorType,
} from "../types.ts";
import { broadcastTo, reshape } from "./movement.ts";
import { gelu, geluErf, geluErfExpr, geluTanhExpr, relu, reluExpr, silu, siluExpr } from "./pointwise.ts";

/** Functions that `matmul` can apply to its result in the same kernel. */
export type Activation = "relu" | "gelu" | "geluErf" | "silu";

/** Each activation as the expression in the kernel, and as the op with its plain definition and its derivative. */
const ACTIVATIONS: Record<Activation, { expr: Expr; op: typeof relu.op }> = {
  relu: { expr: reluExpr(input(0)), op: relu.op },
  gelu: { expr: geluTanhExpr(input(0)), op: gelu.op },
  geluErf: { expr: geluErfExpr(input(0)), op: geluErf.op },
  silu: { expr: siluExpr(input(0)), op: silu.op },
};

interface MatmulParams {
  /** Whether A is stored [..., K, M]. */
  readonly transA: boolean;
  /** Whether B is stored [..., N, K]. */
  readonly transB: boolean;
  readonly activation: Activation | null;
  readonly scale: number;
}

interface Sizes {
  readonly m: number;
  readonly n: number;
  readonly k: number;
  readonly leadA: Shape;
  readonly leadB: Shape;
}

/** M, N, K and the batch axes, or an error that names both shapes. */
function sizesOf(a: TensorType, b: TensorType, transA: boolean, transB: boolean): Sizes {
  const shown = (): string =>
    `${showShape(a.shape)}${transA ? " (transA)" : ""} · ${showShape(b.shape)}${transB ? " (transB)" : ""}`;
  check(
    a.shape.length >= 2 && b.shape.length >= 2,
    () => `matmul: expected matrices [..., M, K] · [..., K, N], got ${shown()}; reshape a vector to [1, n] or [n, 1]`,
  );
  const [rowsA, colsA] = a.shape.slice(-2) as [number, number];
  const [rowsB, colsB] = b.shape.slice(-2) as [number, number];
  const [m, k] = transA ? [colsA, rowsA] : [rowsA, colsA];
  const [inner, n] = transB ? [colsB, rowsB] : [rowsB, colsB];
  check(k === inner, () => `matmul: inner dimensions differ: ${shown()}`);
  return { m, n, k, leadA: a.shape.slice(0, -2), leadB: b.shape.slice(0, -2) };
}

function specOf({ inputs: [a, b, ...addends], outputs: [c], params }: Call<MatmulParams>): MatmulSpec {
  const { transA, transB, scale, activation } = params;
  const { m, n, k, leadA, leadB } = sizesOf(a!, b!, transA, transB);
  const batch = sizeOf(c!.shape.slice(0, -2));
  // One B for all: the rows of all batches are the rows of one matrix, unless A is stored transposed.
  const collapse = sizeOf(leadB) === 1 && !transA;
  return {
    batch: collapse ? 1 : batch,
    m: collapse ? batch * m : m,
    n,
    k,
    transA,
    transB,
    batchA: !collapse && batch > 1 && sizeOf(leadA) > 1,
    batchB: batch > 1 && sizeOf(leadB) > 1,
    scale,
    addends: addends.map(({ shape }) => (shape.length === 1 ? "row" : "whole")),
    ...(activation === null ? {} : { activation: ACTIVATIONS[activation].expr }),
  };
}

export const matmulOp: OpDef<MatmulParams> = {
  name: "matmul",
  infer(inputs, { transA, transB }) {
    const [a, b, ...addends] = inputs as [TensorType, TensorType, ...TensorType[]];
    inputs.forEach((x) => checkFloat("matmul", x));
    checkSameDtype("matmul", inputs);
    const { m, n, leadA, leadB } = sizesOf(a, b, transA, transB);
    const lead = broadcastShapes("matmul: batch axes", [leadA, leadB]);
    check(
      [leadA, leadB].every((batchAxes) => sizeOf(batchAxes) === 1 || sizeOf(batchAxes) === sizeOf(lead)),
      () => `matmul: batch axes must be equal or absent on one side: ${showShape(a.shape)} · ${showShape(b.shape)}`,
    );
    const shape = [...lead, m, n];
    for (const { shape: got } of addends) {
      const [name, wanted] = got.length === 1 ? ["a bias", [n]] : ["an addend", shape];
      check(
        sameShape(got, wanted),
        () => `matmul: expected ${name} of shape ${showShape(wanted)}, got ${showShape(got)}`,
      );
    }
    return [{ shape, dtype: a.dtype }];
  },
  reference([a, b, ...addends], [c], call) {
    const { transA, transB, scale, activation } = call.params;
    const { m, n, k, leadA, leadB } = sizesOf(call.inputs[0]!, call.inputs[1]!, transA, transB);
    const z = new Float64Array(c!.length);
    for (let batch = 0; batch < c!.length / (m * n); batch++) {
      const atA = sizeOf(leadA) === 1 ? 0 : batch * m * k;
      const atB = sizeOf(leadB) === 1 ? 0 : batch * k * n;
      for (let i = 0; i < m; i++) {
        for (let j = 0; j < n; j++) {
          let sum = 0;
          for (let p = 0; p < k; p++) {
            sum += a![atA + (transA ? p * m + i : i * k + p)]! * b![atB + (transB ? j * k + p : p * n + j)]!;
          }
          const at = (batch * m + i) * n + j;
          z[at] = addends.reduce((y, addend) => y + addend[addend.length === n ? j : at]!, scale * sum);
        }
      }
    }
    if (activation === null) c!.set(z);
    else {
      const type: TensorType = { shape: call.outputs[0]!.shape, dtype: "f64" };
      ACTIVATIONS[activation].op.reference([z], [c!], { inputs: [type], outputs: [type], params: { args: [null] } });
    }
  },
  kernel: (call) => ({ family: "matmul", spec: specOf(call) }),
  vjp({ g: [gY], x: [a, b, ...addends], params, needs }) {
    const { transA, transB, scale, activation } = params;
    const g = activation === null ? gY! : throughActivation(activation, gY!, a!, b!, addends, params);
    const collapse = sizeOf(b!.shape.slice(0, -2)) === 1 && !transA;
    return [
      needs[0] ? gradientOfA() : null,
      needs[1] ? gradientOfB() : null,
      ...addends.map((_, i) => (needs[2 + i] ? g : null)),
    ];

    function gradientOfA(): Tensor {
      return transA
        ? matmul(b!, g, { transA: transB, transB: true, scale })
        : matmul(g, b!, { transB: !transB, scale });
    }

    /** Over a shared B the product sums over the batch; the engine sums the batch axes that remain. */
    function gradientOfB(): Tensor {
      const [rowsA, rowsG] = collapse ? [asMatrix(a!), asMatrix(g)] : [a!, g];
      const d = transB
        ? matmul(rowsG, rowsA, { transA: true, transB: transA, scale })
        : matmul(rowsA, rowsG, { transA: !transA, scale });
      return collapse ? reshape(d, b!.shape) : d;
    }
  },
  samples: (rng) => [...productSamples(rng), ...epilogueSamples(rng)],
};

const asMatrix = (x: Tensor): Tensor => reshape(x, [-1, x.shape[x.rank - 1]!]);

/** The gradient before the activation. Its input was not kept: it is cheaper to multiply again than to store it. */
function throughActivation(
  activation: Activation,
  g: Tensor,
  a: Tensor,
  b: Tensor,
  addends: readonly Tensor[],
  params: MatmulParams,
): Tensor {
  const z = apply1(matmulOp, [a, b, ...addends], { ...params, activation: null });
  const { op } = ACTIVATIONS[activation];
  const [dz] = op.vjp({ g: [g], x: [z], y: [], params: { args: [null] }, needs: [true] });
  return dz ?? fail(`matmul: ${activation} has no derivative`);
}

/** Options of `matmul`. */
export interface MatmulOptions {
  /** Whether A is stored transposed: [..., K, M]. */
  readonly transA?: boolean;
  /** Whether B is stored transposed: [..., N, K], as the weights of linear layers usually are. */
  readonly transB?: boolean;
  /** [N], added to every row before the activation. */
  readonly bias?: Tensor | undefined;
  /** [..., M, N], as the result: added after the bias and before the activation, as a residual. */
  readonly addend?: Tensor | undefined;
  /** The function that is applied last; `gelu` is the tanh approximation, `geluErf` the exact one. */
  readonly activation?: Activation;
  /** The factor of the product before anything is added; 1 unless given. */
  readonly scale?: number;
}

/**
 * act(scale · A·B + bias + addend).
 * @param a [..., M, K]
 * @param b [..., K, N]; without batch axes (or with axes of size 1) it is shared by all of A's, and the other way
 *   round; other batch axes broadcast as in NumPy, at the cost of a copy
 * @returns [..., M, N]
 * @throws if an operand is no matrix, if inner dimensions differ (`matmul: inner dimensions differ: [4, 3] · [5, 2]`),
 *   if batch axes do not broadcast, if the bias is not [N], or if the addend is not [..., M, N]
 *
 * @example
 * matmul(x_BTC, weight_NC, { transB: true, bias: bias_N, activation: "gelu" });   // [B, T, N], one kernel
 */
export function matmul(a: Tensor, b: Tensor, options: MatmulOptions = {}): Tensor {
  checkKeys("matmul", options, ["transA", "transB", "bias", "addend", "activation", "scale"]);
  const { transA = false, transB = false, bias, addend, activation = null, scale = 1 } = options;
  check(
    activation === null || Object.hasOwn(ACTIVATIONS, activation),
    () => `matmul: expected an activation of ${Object.keys(ACTIVATIONS).join(", ")}, got "${String(activation)}"`,
  );
  for (const x of [a, b]) checkTensor("matmul", x);
  const { leadA, leadB } = sizesOf(a, b, transA, transB);
  const lead = broadcastShapes("matmul: batch axes", [leadA, leadB]);
  const operand = (x: Tensor, batchAxes: Shape): Tensor =>
    sizeOf(batchAxes) === 1 || sizeOf(batchAxes) === sizeOf(lead) ? x : broadcastTo(x, [...lead, ...x.shape.slice(-2)]);
  const inputs = [operand(a, leadA), operand(b, leadB), ...[bias, addend].filter((x) => x !== undefined)];
  return apply1(matmulOp, inputs, { transA, transB, activation, scale });
}

const flagged = (rows: number, cols: number, trans: boolean): Shape => (trans ? [cols, rows] : [rows, cols]);

/** Every pair of flags with every kind of batch. */
function productSamples(rng: Rng): Sample<MatmulParams>[] {
  const batches: [Shape, Shape][] = [
    [[], []],
    [[2], [2]],
    [[2, 1], []],
    [[], [3]],
  ];
  const samples = [false, true].flatMap((transA) =>
    [false, true].flatMap((transB) =>
      batches.map(([leadA, leadB]) => ({
        label: `${leadA.join("×")}${transA ? "ᵀ" : ""} · ${leadB.join("×")}${transB ? "ᵀ" : ""}`,
        inputs: [normal(rng, [...leadA, ...flagged(3, 5, transA)]), normal(rng, [...leadB, ...flagged(5, 2, transB)])],
        params: { transA, transB, activation: null, scale: 0.5 },
      })),
    ),
  );
  const plain = { transA: false, transB: false, activation: null, scale: 1 };
  return [
    ...samples,
    { label: "size 1", inputs: [normal(rng, [1, 1]), normal(rng, [1, 1])], params: plain },
    { label: "a row", inputs: [normal(rng, [1, 67]), normal(rng, [67, 7])], params: plain },
    { label: "a column", inputs: [normal(rng, [9, 1]), normal(rng, [1, 5])], params: plain },
    { label: "axes of size 1", inputs: [normal(rng, [2, 3, 2]), normal(rng, [1, 1, 2, 3])], params: plain },
  ];
}

/** A bias of ±4 keeps the sums away from the kink of relu and reaches both sides of it. */
function epilogueSamples(rng: Rng): Sample<MatmulParams>[] {
  const far = (n: number): SampleInput => filled([n], (i) => (i % 2 === 0 ? 4 : -4) + 0.1 * i);
  const names: Activation[] = ["relu", "gelu", "geluErf", "silu"];
  const base = { transA: false, transB: true, scale: 0.4 };
  return [
    ...names.map((activation) => ({
      label: activation,
      inputs: [normal(rng, [2, 3]), normal(rng, [5, 3]), activation === "relu" ? far(5) : normal(rng, [5])],
      params: { ...base, activation },
    })),
    {
      label: "bias, batch, A transposed",
      inputs: [normal(rng, [2, 3, 2]), normal(rng, [5, 3]), normal(rng, [5])],
      params: { ...base, transA: true, activation: null },
    },
    {
      label: "bias, addend, shared B, silu",
      inputs: [normal(rng, [2, 3, 3]), normal(rng, [7, 3]), normal(rng, [7]), normal(rng, [2, 3, 7])],
      params: { ...base, activation: "silu" as const },
    },
    {
      label: "addend, batch, A transposed",
      inputs: [normal(rng, [2, 3, 4]), normal(rng, [2, 4, 3]), normal(rng, [2, 4, 4])],
      params: { ...base, transA: true, activation: null },
    },
    {
      label: "silu without bias",
      inputs: [normal(rng, [2, 2, 3]), normal(rng, [2, 5, 3])],
      params: { ...base, activation: "silu" as const },
    },
  ];
}
