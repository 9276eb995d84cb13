/**
 * Products with packed matrices, and their rows, in WGSL (`format.ts` has the formats), with the epilogue, the grid
 * and the split sums of `kernels/wgsl/matmul.ts`:
 *
 * - direct: a thread keeps a block of y in registers. For x · Wᵀ it multiplies quads of columns, decoded from a group
 *   of four words at a time, with those of its rows of x; of x · W it owns the columns of one group.
 * - tiled, for GPUs and many rows: the tiles of `kernels/wgsl/matmulTiled.ts`, which are decoded as they are filled.
 *
 * The direct ones are tuned on no hardware.
 */
import {
  type AdapterProfile,
  type MatmulRung,
  type Program,
  type Uniform,
  type WgslKernel,
  single,
  u32,
} from "../../kernels/kernel.ts";
import type { MatmulSpec } from "../../kernels/specs.ts";
import {
  addendBindings,
  bufferCount,
  epilogueKey,
  sizes,
  storedBy,
  storeFunction,
  tilePlace,
} from "../../kernels/wgsl/matmulCommon.ts";
import { chooseRung, type SmallTiles, TILED } from "../../kernels/wgsl/matmulTable.ts";
import { combineKernel, type Operand, tiledKernel } from "../../kernels/wgsl/matmulTiled.ts";
import { independentThreads } from "../../kernels/wgsl/rows.ts";
import { each, gridFor, linearMain, shader } from "../../kernels/wgsl/shader.ts";
import { type PackedFormat, type PackedMatmulSpec, packedRow, type PackedRowsSpec } from "./format.ts";

/** Tiles are decoded as they are filled, and larger ones decode less: 0.16 ms, not 0.22, for 128 rows and 8 bits. */
const SMALL: SmallTiles = { block: TILED["64x64"], busy: 128 };

/** Quads of columns in a group of four words. */
const stepsOf = (format: PackedFormat): number => (format === "q8" ? 4 : 2);

/**
 * WGSL that decodes: `decode<s>(words, scale)` gives columns 4s … of a group, and `scaleOf(row, group)` a block's
 * scale. Binary16 is decoded by its bits, as `unpack2x16float` may take subnormal numbers for 0.
 */
function decoders(format: PackedFormat): string {
  const scale = `fn scaleOf(row: u32, group: u32) -> f32 {
  ${
    format === "q8"
      ? `let at = params.scales + group / 2u;
  return bitcast<f32>(w[row * params.rowQuads + at / 4u][at % 4u]);`
      : "return 1.0;"
  }
}
`;
  if (format === "bf16") {
    return `${scale}fn decode0(words: vec4u, scale: f32) -> vec4f { return bitcast<vec4f>(words << vec4u(16u)); }
fn decode1(words: vec4u, scale: f32) -> vec4f { return bitcast<vec4f>(words & vec4u(0xffff0000u)); }
`;
  }
  if (format === "f16") {
    return `${scale}fn halves(bits: vec4u) -> vec4f {
  let magnitude = bits & vec4u(0x7fffu);
  let normal = bitcast<vec4f>((magnitude << vec4u(13u)) + vec4u(0x38000000u));
  let value = select(normal, vec4f(magnitude) * 5.9604644775390625e-8, magnitude < vec4u(0x400u));
  return select(value, -value, bits != magnitude);
}
fn decode0(words: vec4u, scale: f32) -> vec4f { return halves(words & vec4u(0xffffu)); }
fn decode1(words: vec4u, scale: f32) -> vec4f { return halves(words >> vec4u(16u)); }
`;
  }
  return `${scale}${each(
    4,
    (s) =>
      `fn decode${s}(words: vec4u, scale: f32) -> vec4f {
  return vec4f(bitcast<vec4i>(words ${s === 3 ? "" : `<< vec4u(${24 - 8 * s}u)`}) >> vec4u(24u)) * scale;
}`,
  )}
`;
}

/** `weight(row, column)`, one element of W, as the tiles read it. */
const weightFunction = (format: PackedFormat): string => `${decoders(format)}
fn weight(row: u32, column: u32) -> f32 {
  let group = column / ${4 * stepsOf(format)}u;
  let words = w[row * params.rowQuads + group];
  let scale = scaleOf(row, group);
  var quad = decode0(words, scale);
  switch column / 4u % ${stepsOf(format)}u {
${each(stepsOf(format) - 1, (s) => `    case ${s + 1}u: { quad = decode${s + 1}(words, scale); }`)}
    default: {}
  }
  return quad[column % 4u];
}
`;

const rowParams = (format: PackedFormat, columns: number): Record<string, Uniform> => {
  const { words, scales } = packedRow(format, columns);
  return { rowQuads: u32(words / 4), scales: u32(scales) };
};

/** The product as a problem of `matmul`, whose epilogue and grid are used here. */
const plain = ({ m, rows, columns, transposed, addends }: PackedMatmulSpec): MatmulSpec => ({
  batch: 1,
  m,
  n: transposed ? rows : columns,
  k: transposed ? columns : rows,
  transA: false,
  transB: transposed,
  batchA: false,
  batchB: false,
  scale: 1,
  addends,
});

/** See `PackedMatmulSpec`. If the sum is split, a temporary holds its parts. */
export function packedMatmul(spec: PackedMatmulSpec, profile: AdapterProfile): Program<WgslKernel> {
  const matrix = plain(spec);
  // What was measured for products of floats says nothing of these.
  const rung = chooseRung(matrix, { ...profile, schedules: undefined }, SMALL);
  const splits = rung.splits ?? 1;
  const kernel = productKernel(spec, matrix, rung, splits);
  if (splits === 1) return single(kernel, bufferCount(matrix));
  const output = bufferCount(matrix) - 1;
  const partial = output + 1;
  const combine = combineKernel(matrix, profile, splits);
  return {
    temps: [4 * splits * matrix.m * matrix.n],
    steps: [
      { kernel, buffers: [0, 1, partial] },
      { kernel: combine, buffers: [partial, ...matrix.addends.map((_, i) => 2 + i), output] },
    ],
  };
}

function productKernel(spec: PackedMatmulSpec, matrix: MatmulSpec, rung: MatmulRung, splits: number): WgslKernel {
  const { format, columns, transposed } = spec;
  if (rung.kind === "tiled") {
    const operand: Operand = {
      key: `packed ${format}`,
      element: "vec4u",
      params: rowParams(format, columns),
      functions: weightFunction(format),
      at: transposed ? "weight(col, k)" : "weight(k, col)",
    };
    return tiledKernel(matrix, { ...rung, half: false }, splits, operand);
  }
  const many = matrix.m >= 8;
  const block = { rows: many ? 8 : matrix.m > 1 ? 4 : 1, across: many ? 8 : 32, down: many ? 4 : 1 };
  return transposed ? directTransposed(spec, matrix, block, splits) : direct(spec, matrix, block, splits);
}

interface Block {
  /** The number of rows of y of a thread. */
  readonly rows: number;
  /** The numbers of threads of a workgroup along a row of y, and along a column. */
  readonly across: number;
  readonly down: number;
}

const entry = ({ rows, across, down }: Block, width: number): string => `
@compute @workgroup_size(${across}, ${down})
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_id) local: vec3u) {${tilePlace(
  rows * down,
  across * width,
)}
  let row = tileRow + local.y * ${rows}u;
  let col = tileCol + local.x * ${width}u;
  if (part >= params.batch * params.splits || row >= params.m || col >= params.n) { return; }`;

const groupsOf = (matrix: MatmulSpec, { rows, across, down }: Block, width: number): number =>
  Math.ceil(matrix.m / (rows * down)) * Math.ceil(matrix.n / (across * width));

/** y = x · Wᵀ: `params.k`, `first` and `end` count groups. */
function directTransposed(spec: PackedMatmulSpec, matrix: MatmulSpec, block: Block, splits: number): WgslKernel {
  const { format, columns } = spec;
  const stored = storedBy(matrix, splits);
  const steps = stepsOf(format);
  const { padded } = packedRow(format, columns);
  const groups = Math.ceil(columns / (4 * steps));
  // x is read in fours if its rows are; behind the last column of a row are zeros.
  const vector = columns % 4 === 0;
  const exact = padded === columns;
  const quad = vector
    ? exact
      ? "return x[row * params.quads + q];"
      : "return select(vec4f(), x[row * params.quads + min(q, params.quads - 1u)], q < params.quads);"
    : `let at = row * params.columns;
  let last = params.columns - 1u;
  return vec4f(${each(4, (c) => `select(0.0, x[at + min(4u * q + ${c}u, last)], 4u * q + ${c}u <= last)`, ", ")});`;
  const { rows } = block;
  const vectorC = matrix.n % 4 === 0;
  const shape = `${rows}/${block.across}x${block.down}/${[vector, exact, vectorC].map(Number).join("")}`;
  return shader({
    key: `packed ${format}ᵀ/${shape}${epilogueKey(stored)}`,
    bindings: {
      x: `read ${vector ? "vec4f" : "f32"}`,
      w: "read vec4u",
      ...addendBindings(stored),
      c: `write ${vectorC ? "vec4f" : "f32"}`,
    },
    params: {
      ...sizes({ ...stored, k: groups }, splits),
      ...rowParams(format, columns),
      columns: u32(columns),
      quads: u32(columns / 4),
    },
    workgroups: gridFor(splits * groupsOf(matrix, block, 4), 1),
    body: () => `${storeFunction(stored, vectorC)}
${decoders(format)}
fn quad(row: u32, q: u32) -> vec4f {
  ${quad}
}
${entry(block, 4)}
${each(rows, (i) => `  let row${i} = min(row + ${i}u, params.m - 1u);`)}
${each(4, (j) => `  let col${j} = min(col + ${j}u, params.n - 1u);`)}
${each(rows, (i) => `  var sum${i} = vec4f();`)}
  for (var g = first; g < end; g++) {
${each(4, (j) => `    let words${j} = w[col${j} * params.rowQuads + g];\n    let scale${j} = scaleOf(col${j}, g);`)}
${each(
  steps,
  (s) => `${each(4, (j) => `    let w${s}_${j} = decode${s}(words${j}, scale${j});`)}
${each(rows, (i) => {
  const dots = each(4, (j) => `dot(x${s}_${i}, w${s}_${j})`, ", ");
  return `    let x${s}_${i} = quad(row${i}, ${steps}u * g + ${s}u);\n    sum${i} += vec4f(${dots});`;
})}`,
)}
  }
${each(rows, (i) => `  store(part, row + ${i}u, col, sum${i});`)}
}
`,
  });
}

/** y = x · W. */
function direct(spec: PackedMatmulSpec, matrix: MatmulSpec, block: Block, splits: number): WgslKernel {
  const { format, columns } = spec;
  const stored = storedBy(matrix, splits);
  const steps = stepsOf(format);
  const { rows } = block;
  const vectorC = matrix.n % 4 === 0;
  return shader({
    key: `packed ${format}/${rows}/${block.across}x${block.down}/${Number(vectorC)}${epilogueKey(stored)}`,
    bindings: { x: "read f32", w: "read vec4u", c: `write ${vectorC ? "vec4f" : "f32"}` },
    params: { ...sizes(stored, splits), ...rowParams(format, columns) },
    workgroups: gridFor(splits * groupsOf(matrix, block, 4 * steps), 1),
    body: () => `${storeFunction(stored, vectorC)}
${decoders(format)}
${entry(block, 4 * steps)}
  let g = col / ${4 * steps}u;
${each(rows, (i) => `  let row${i} = min(row + ${i}u, params.m - 1u) * params.k;`)}
${each(rows, (i) => each(steps, (s) => `  var sum${i}_${s} = vec4f();`))}
  for (var k = first; k < end; k++) {
    let words = w[k * params.rowQuads + g];
    let scale = scaleOf(k, g);
${each(steps, (s) => `    let w${s} = decode${s}(words, scale);`)}
${each(
  rows,
  (i) => `    let x${i} = x[row${i} + k];
${each(steps, (s) => `    sum${i}_${s} += x${i} * w${s};`)}`,
)}
  }
${each(rows, (i) => each(steps, (s) => `  store(part, row + ${i}u, col + ${4 * s}u, sum${i}_${s});`))}
}
`,
  });
}

/** See `PackedRowsSpec`. One thread per group. */
export function packedRows(
  { format, rows, columns, count }: PackedRowsSpec,
  profile: AdapterProfile,
): Program<WgslKernel> {
  const steps = stepsOf(format);
  const groups = Math.ceil(columns / (4 * steps));
  const threads = independentThreads(profile);
  const total = count * groups;
  const kernel = shader({
    key: `packed rows ${format}/${threads}`,
    bindings: { w: "read vec4u", ids: "read i32", y: "write f32" },
    params: {
      total: u32(total),
      groups: u32(groups),
      rows: u32(rows),
      columns: u32(columns),
      ...rowParams(format, columns),
    },
    workgroups: gridFor(total, threads),
    body: () => `${decoders(format)}
fn put(at: u32, column: u32, quad: vec4f) {
${each(4, (c) => `  if (column + ${c}u < params.columns) { y[at + column + ${c}u] = quad[${c}]; }`)}
}
${linearMain(threads, "params.total")}
  let g = i % params.groups;
  let n = i / params.groups;
  let id = bitcast<u32>(ids[n]); // a negative id becomes larger than any row
  let row = min(id, params.rows - 1u);
  let words = w[row * params.rowQuads + g];
  let scale = scaleOf(row, g);
${each(
  steps,
  (s) =>
    `  put(n * params.columns, ${4 * steps}u * g + ${4 * s}u, ` +
    `select(vec4f(), decode${s}(words, scale), id < params.rows));`,
)}
}`,
  });
  return single(kernel, 3);
}
