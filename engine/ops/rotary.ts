/**
 * Rotary position embedding (Su et al. 2021, arXiv 2104.09864) in the halves convention of Llama: dimension j turns
 * together with dimension j + D/2. A rotation is linear and orthogonal, so its derivative is the rotation back.
 */
import type { RotarySpec } from "../../kernels/specs.ts";
import { check, onHost } from "../errors.ts";
import { apply1, type Call, type OpDef, type Sample, typed } from "../op.ts";
import { checkTensor } from "../operands.ts";
import type { Rng } from "../random.ts";
import { filled, integers, normal } from "../sampling.ts";
import type { Tensor } from "../tensor.ts";
import {
  checkFloat,
  checkInt,
  checkSameDtype,
  checkShape,
  sameShape,
  showShape,
  sizeOf,
  type Shape,
  type TensorType,
} from "../types.ts";
import { tensor, type TensorOptions } from "./create.ts";
import { checkIds } from "./indexing.ts";
import { broadcastTo } from "./movement.ts";

interface RotaryParams {
  /** Whether to rotate back. */
  readonly inverse: boolean;
}

function specOf({ inputs: [x, positions, cos], params: { inverse } }: Call<RotaryParams>): RotarySpec {
  const [heads, headDim] = x!.shape.slice(-2) as [number, number];
  return { tokens: sizeOf(positions!.shape), heads, headDim, tableRows: cos!.shape[0]!, inverse };
}

/**
 * Inputs x [..., H, D], positions i32 [...], cos and sin [P, D/2]. Gradients flow to x only: the tables are constants.
 */
export const rotaryOp: OpDef<RotaryParams> = {
  name: "rotary",
  linear: true,
  infer(inputs) {
    const [x, positions, cos, sin] = inputs as [TensorType, TensorType, TensorType, TensorType];
    [x, cos, sin].forEach((input) => checkFloat("rotary", input));
    checkSameDtype("rotary", [x, cos, sin]);
    checkInt("rotary", positions);
    check(
      x.shape.length >= 2 && sameShape(positions.shape, x.shape.slice(0, -2)),
      () =>
        `rotary: expected x [..., H, D] and positions [...], got ${showShape(x.shape)} · ${showShape(positions.shape)}`,
    );
    const headDim = x.shape[x.shape.length - 1]!;
    check(headDim % 2 === 0, () => `rotary: the head dimension must be even, got x ${showShape(x.shape)}`);
    check(
      cos.shape.length === 2 && cos.shape[1] === headDim / 2 && sameShape(cos.shape, sin.shape),
      () =>
        `rotary: expected tables [P, ${headDim / 2}] for x ${showShape(x.shape)}, ` +
        `got ${showShape(cos.shape)} · ${showShape(sin.shape)}`,
    );
    return typed(x.shape, x);
  },
  reference([x, positions, cos, sin], [y], call) {
    const { tokens, heads, headDim, tableRows, inverse } = specOf(call);
    const half = headDim / 2;
    for (let token = 0; token < tokens; token++) {
      for (let head = 0; head < heads; head++) {
        const at = (token * heads + head) * headDim;
        for (let j = 0; j < half; j++) {
          const row = Math.min(Math.max(positions![token]!, 0), tableRows - 1); // if a device computed it: the nearest
          const c = cos![row * half + j]!;
          const s = (inverse ? -1 : 1) * sin![row * half + j]!;
          const [a, b] = [x![at + j]!, x![at + half + j]!];
          y![at + j] = a * c - b * s;
          y![at + half + j] = b * c + a * s;
        }
      }
    }
  },
  kernel: (call) => ({ family: "rotary", spec: specOf(call) }),
  vjp: ({ g, x: [, positions, cos, sin], params: { inverse } }) => [
    apply1(rotaryOp, [g[0]!, positions!, cos!, sin!], { inverse: !inverse }),
    null,
    null,
    null,
  ],
  samples: (rng) => [
    sample(rng, [2, 3, 2, 4], 5, false),
    sample(rng, [3, 1, 2], 4, true),
    sample(rng, [1, 7, 3, 10], 9, false),
    sample(rng, [5, 2, 16], 67, true),
  ],
};

function sample(rng: Rng, shape: Shape, tableRows: number, inverse: boolean): Sample<RotaryParams> {
  const half = shape[shape.length - 1]! / 2;
  const angle = (i: number): number => Math.floor(i / half) * 10 ** -((i % half) / half);
  return {
    inputs: [
      normal(rng, shape),
      integers(rng, shape.slice(0, -2), tableRows),
      filled([tableRows, half], (i) => Math.cos(angle(i))),
      filled([tableRows, half], (i) => Math.sin(angle(i))),
    ],
    params: { inverse },
    differentiable: [true, false, false, false],
  };
}

/**
 * Turns every pair (x_j, x_{j+D/2}) by its position's angle.
 * @param x [B, T, H, D], D even
 * @param positions i32 [B, T], or [T] for all rows alike; at most the tables' rows − 1
 * @param cos [P, D/2], see `rotaryTables`
 * @param sin [P, D/2]
 * @throws if shapes do not fit, or if a position that came from the host is outside the tables
 */
export function rotary(x: Tensor, positions: Tensor, cos: Tensor, sin: Tensor): Tensor {
  for (const table of [x, cos, sin]) checkTensor("rotary", table);
  checkIds("rotary", positions, cos.shape[0] ?? 1);
  const tokens = x.shape.slice(0, -2);
  const spread = positions.rank < tokens.length ? broadcastTo(positions, tokens) : positions;
  return apply1(rotaryOp, [x, spread, cos, sin], { inverse: false });
}

/** cos and sin of position · θ^(−2j/D), [maxPositions, D/2] each; computed on the host in double precision. */
export function rotaryTables(
  maxPositions: number,
  headDim: number,
  theta = 10000,
  options: TensorOptions = {},
): { cos: Tensor; sin: Tensor } {
  check(headDim % 2 === 0, () => `rotaryTables: the head dimension must be even, got ${headDim}`);
  const half = headDim / 2;
  const shape = [maxPositions, half];
  checkShape("rotaryTables", shape);
  const angleOf = (i: number): number => Math.floor(i / half) * theta ** ((-2 * (i % half)) / headDim);
  const angles = onHost(
    () => `rotaryTables: ${showShape(shape)} is made on the host first`,
    () => Float64Array.from({ length: maxPositions * half }, (_, i) => angleOf(i)),
  );
  const table = (f: (angle: number) => number): Tensor => tensor(angles.map(f), { ...options, shape });
  return { cos: table(Math.cos), sin: table(Math.sin) };
}
