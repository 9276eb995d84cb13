/**
 * Common parts of all matrix kernels: sizes as uniforms, the place of a tile in the grid, the part of the sum that a
 * split takes, and the epilogue `store`, which is the only place that writes C.
 */
import { exprToString } from "../expr.ts";
import { type Uniform, f32, u32 } from "../kernel.ts";
import type { MatmulSpec } from "../specs.ts";
import { emitExpression } from "./expression.ts";
import { type Bindings, vectorType } from "./rows.ts";
import { each, type ElementType, LINEAR_GROUP } from "./shader.ts";

export const bufferCount = (spec: MatmulSpec): number => 3 + spec.addends.length;
export const addendBindings = ({ addends, n }: MatmulSpec, element: ElementType = vectorType(n)): Bindings =>
  Object.fromEntries(addends.map((_, i) => [`addend${i}`, `read ${element}`]));

export const orderKey = (spec: MatmulSpec): string => `${spec.transA ? "T" : "N"}${spec.transB ? "T" : "N"}`;
export const epilogueKey = (spec: MatmulSpec): string =>
  `/plus${spec.addends.length}${spec.activation === undefined ? "" : `/${exprToString(spec.activation)}`}`;

/** A kernel that writes parts of sums leaves scale, addends and activation to the kernel that adds them. */
export const storedBy = (spec: MatmulSpec, splits: number): MatmulSpec =>
  splits === 1 ? spec : { ...spec, scale: 1, addends: [], activation: undefined };

export const sizes = (spec: MatmulSpec, splits = 1): Record<string, Uniform> => ({
  batch: u32(spec.batch),
  m: u32(spec.m),
  n: u32(spec.n),
  k: u32(spec.k),
  strideA: u32(spec.batchA ? spec.m * spec.k : 0),
  strideB: u32(spec.batchB ? spec.k * spec.n : 0),
  scale: f32(spec.scale),
  splits: u32(splits),
  ...Object.fromEntries(spec.addends.map((kind, i) => [`pitch${i}`, u32(kind === "row" ? 0 : spec.n)])),
});

export function activationFunction({ activation }: MatmulSpec): string {
  if (activation === undefined) return "";
  const { functions, statements, results } = emitExpression([activation], ["x"]);
  return `${functions}
fn activation(x: f32) -> f32 {
${statements}
  return ${results[0]!};
}
`;
}

/** `store(batch, row, col, sum)`: the epilogue for four neighbouring columns. */
export function storeFunction(spec: MatmulSpec, vector: boolean): string {
  const { addends, activation } = spec;
  const addend = (i: number): string => {
    const at = `line * params.pitch${i}`;
    if (vector) return `  y += addend${i}[(${at} + col) / 4u];`;
    return `  y += vec4f(${each(4, (c) => `addend${i}[${at} + min(col + ${c}u, params.n - 1u)]`, ", ")});`;
  };
  return `${activationFunction(spec)}
fn store(batch: u32, row: u32, col: u32, sum: vec4f) {
  if (row >= params.m || col >= params.n) { return; }
  let line = batch * params.m + row;
  var y = params.scale * sum;
${each(addends.length, addend)}
  ${activation === undefined ? "" : "y = vec4f(activation(y.x), activation(y.y), activation(y.z), activation(y.w));"}
  let at = line * params.n + col;
  ${
    vector
      ? "c[at / 4u] = y;"
      : `c[at] = y.x;
  if (col + 1u < params.n) { c[at + 1u] = y.y; }
  if (col + 2u < params.n) { c[at + 2u] = y.z; }
  if (col + 3u < params.n) { c[at + 3u] = y.w; }`
  }
}
`;
}

/** The steps of the sum in a part, as `tilePlace` has them: a multiple of four, unless there is one part only. */
export const spanOf = (k: number, splits: number): number => (splits === 1 ? k : 4 * Math.ceil(k / splits / 4));

/**
 * Sets the place of this workgroup in a one-dimensional grid of `tileRows`×`tileCols` tiles, and its part of the sum.
 * `part` is the number (split, batch) of a matrix of the output; `first` and `end` bound the steps, in multiples of
 * four except at the end.
 */
export const tilePlace = (tileRows: number, tileCols: number): string => `
  let tile = ${LINEAR_GROUP};
  let across = (params.n + ${tileCols - 1}u) / ${tileCols}u;
  let down = (params.m + ${tileRows - 1}u) / ${tileRows}u;
  let part = tile / (across * down);
  let tileRow = tile / across % down * ${tileRows}u;
  let tileCol = tile % across * ${tileCols}u;
  let batch = part % params.batch;
  let span = ((params.k + params.splits - 1u) / params.splits + 3u) / 4u * 4u;
  let first = min(part / params.batch * span, params.k);
  let end = min(first + span, params.k);`;

export const tileCount = (spec: MatmulSpec, tileRows: number, tileCols: number): number =>
  spec.batch * Math.ceil(spec.m / tileRows) * Math.ceil(spec.n / tileCols);
