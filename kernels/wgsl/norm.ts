/**
 * RMSNorm (Zhang & Sennrich 2019) and LayerNorm (Ba et al. 2016), and their backward.
 *
 * With x̂ = (x − mean)·r and r = 1/√(var + eps) (mean = 0 for RMS, so var is the mean square) both share one backward:
 *   dx = r·(gw − [layer] mean(gw) − x̂·mean(gw·x̂)) with gw = g·w,   dw = Σ_rows g·x̂,   db = Σ_rows g.
 * dx is made by rows, which also leave (mean, r) for the sums of columns. These sum blocks of rows and then the
 * blocks, so that many threads take part and every sum has a fixed order without float atomics.
 */
import { type AdapterProfile, type Program, type Step, type WgslKernel, f32, single, u32 } from "../kernel.ts";
import type { NormBackwardSpec, NormSpec } from "../specs.ts";
import { type Bindings, type RowReductions, rowKernel, vectorPrelude, vectorType, vectorWidth } from "./rows.ts";
import { each, gridFor, groupMain, shader } from "./shader.ts";

/** The number of neighbouring columns whose sums a workgroup takes. */
const ACROSS = 16;
/**
 * The threads of a column in a workgroup, the rows of a block, and those up to which there is only one block, as a
 * second kernel costs more than a longer walk. H200, 2026-11-27: a thread per 64 rows took 32 µs at 4096 × 768 and
 * 22 µs at 256 × 128.
 */
const COLUMNS = { software: { down: 1, block: 64, uncut: 64 }, gpu: { down: 16, block: 128, uncut: 512 } } as const;

/** Sets `mean` and `r` of this row. The variance is taken around the mean, never as a difference of squares. */
const statistics = (layer: boolean, reduce: RowReductions): string => `
  ${
    layer
      ? `var sums = V(0.0);
  for (var i = begin + first; i < end; i += step) {
    sums += x[i];
  }
  let mean = params.perColumn * ${reduce.sum("total(sums)")};`
      : "let mean = 0.0;"
  }
  var squares = V(0.0);
  for (var i = begin + first; i < end; i += step) {
    let centred = x[i] - V(mean);
    squares += centred * centred;
  }
  let r = inverseSqrt(params.perColumn * ${reduce.sum("total(squares)")} + params.eps);`;

/** x [rows, cols], w [cols], (b [cols] for layer) → y [rows, cols]. */
export function norm(spec: NormSpec, profile: AdapterProfile): Program<WgslKernel> {
  const { kind, rows, cols, eps } = spec;
  const layer = kind === "layer";
  const V = vectorType(cols);
  const bias: Bindings = layer ? { b: `read ${V}` } : {};
  const kernel = rowKernel(profile, {
    key: `norm/${kind}`,
    rows,
    cols,
    bindings: { x: `read ${V}`, w: `read ${V}`, ...bias, y: `write ${V}` },
    params: { perColumn: f32(1 / cols), eps: f32(eps) },
    body: (reduce) => `${statistics(layer, reduce)}
  for (var i = begin + first; i < end; i += step) {
    y[i] = (x[i] - V(mean)) * r * w[i - begin]${layer ? " + b[i - begin]" : ""};
  }`,
  });
  return single(kernel, layer ? 4 : 3);
}

/** x, w, g → dx [rows, cols], dw [cols], (db [cols] for layer). Temps: (mean, r) per row; column sums per block. */
export function normBackward(spec: NormBackwardSpec, profile: AdapterProfile): Program<WgslKernel> {
  const { kind, rows, cols, eps } = spec;
  const layer = kind === "layer";
  const V = vectorType(cols);
  const { block, uncut } = COLUMNS[profile.schedule];
  const blocks = rows <= uncut ? 1 : Math.ceil(rows / block);

  const byRow = rowKernel(profile, {
    key: `normBackward/${kind}`,
    rows,
    cols,
    bindings: {
      x: `read ${V}`,
      w: `read ${V}`,
      g: `read ${V}`,
      dx: `write ${V}`,
      rowStatistics: "write vec2f",
    },
    params: { perColumn: f32(1 / cols), eps: f32(eps) },
    body: (reduce) => `${statistics(layer, reduce)}
  var plain = V(0.0);
  var along = V(0.0);
  for (var i = begin + first; i < end; i += step) {
    let gw = g[i] * w[i - begin];
    plain += gw;
    along += gw * ((x[i] - V(mean)) * r);
  }
  let meanPlain = ${layer ? `params.perColumn * ${reduce.sum("total(plain)")}` : "0.0"};
  let meanAlong = params.perColumn * ${reduce.sum("total(along)")};
  for (var i = begin + first; i < end; i += step) {
    let normalised = (x[i] - V(mean)) * r;
    dx[i] = r * (g[i] * w[i - begin] - V(meanPlain) - normalised * meanAlong);
  }
  if (first == 0u) {
    rowStatistics[row] = vec2f(mean, r);
  }`,
  });

  const names = layer ? ["dw", "db"] : ["dw"];
  const byBlock = columnSums(profile, {
    key: `normBackward/${kind}/blocks`,
    rows,
    cols,
    block: blocks === 1 ? rows : block,
    bindings: { x: `read ${V}`, g: `read ${V}`, rowStatistics: "read vec2f" },
    names,
    addends: ["g[at] * ((x[at] - V(rowStatistics[j].x)) * rowStatistics[j].y)", "g[at]"],
  });

  // Buffers: x 0, w 1, g 2 → dx 3, dw 4, (db 5); then the temps.
  const results = names.map((_, k) => 4 + k);
  const statisticsTemp = 4 + results.length;
  const partialTemps = results.map((_, k) => statisticsTemp + 1 + k);
  const steps: Step<WgslKernel>[] = [
    { kernel: byRow, buffers: [0, 1, 2, 3, statisticsTemp] },
    { kernel: byBlock, buffers: [0, 2, statisticsTemp, ...(blocks === 1 ? results : partialTemps)] },
  ];
  if (blocks === 1) return { temps: [8 * rows], steps };
  const overBlocks = columnSums(profile, {
    key: `normBackward/${kind}/total`,
    rows: blocks,
    cols,
    block: blocks,
    bindings: Object.fromEntries(names.map((name) => [`${name}Partial`, `read ${V}`] as const)),
    names,
    addends: names.map((name) => `${name}Partial[at]`),
  });
  steps.push({ kernel: overBlocks, buffers: [...partialTemps, ...results] });
  return { temps: [8 * rows, ...results.map(() => 4 * blocks * cols)], steps };
}

interface ColumnSums {
  readonly key: string;
  readonly rows: number;
  readonly cols: number;
  /** The number of rows of a block, whose sums are a row of the result. */
  readonly block: number;
  readonly bindings: Bindings;
  /** The results, and what each sums: WGSL of the element `at` in row `j`. */
  readonly names: readonly string[];
  readonly addends: readonly string[];
}

/**
 * Sums of columns over blocks of rows. A workgroup takes 16 neighbouring columns of a block. On a GPU 16 threads stride
 * along each, then reduce in a tree in workgroup memory.
 */
function columnSums(profile: AdapterProfile, sums: ColumnSums): WgslKernel {
  const { key, rows, cols, block, bindings, names, addends } = sums;
  const V = vectorType(cols);
  const { down } = COLUMNS[profile.schedule];
  const threads = ACROSS * down;
  const width = cols / vectorWidth(cols);
  const perBlock = Math.ceil(width / ACROSS);
  const groups = Math.ceil(rows / block) * perBlock;
  const every = (line: (name: string, k: number) => string): string => names.map(line).join("\n");
  return shader({
    key: `${key}/v${vectorWidth(cols)}/${ACROSS}x${down}`,
    bindings: { ...bindings, ...Object.fromEntries(names.map((name) => [name, `write ${V}`] as const)) },
    params: { groups: u32(groups), perBlock: u32(perBlock), rows: u32(rows), width: u32(width), block: u32(block) },
    workgroups: gridFor(groups, 1),
    // Behind the last column, threads find nothing to do but must come to the barriers.
    body: () => `${vectorPrelude(cols)}
${down === 1 ? "" : every((name) => `var<workgroup> ${name}Sums: array<V, ${threads}>;`)}
${groupMain(threads, "params.groups")}
  let block = row / params.perBlock;
  let column = row % params.perBlock * ${ACROSS}u + lane % ${ACROSS}u;
  let end = select(0u, min((block + 1u) * params.block, params.rows), column < params.width);
${every((name) => `  var ${name}Sum = V(0.0);`)}
  for (var j = block * params.block + lane / ${ACROSS}u; j < end; j += ${down}u) {
    let at = j * params.width + column;
${every((name, k) => `    ${name}Sum += ${addends[k]!};`)}
  }
${down === 1 ? "" : every((name) => `  ${name}Sums[lane] = ${name}Sum;`)}
${each(Math.log2(down), (k) => {
  const stride = `${threads >> (k + 1)}u`;
  return `  workgroupBarrier();
  if (lane < ${stride}) {
${every((name) => `    ${name}Sums[lane] += ${name}Sums[lane + ${stride}];`)}
  }`;
})}
  if (lane < ${ACROSS}u && column < params.width) {
${every((name) => `    ${name}[block * params.width + column] = ${name}Sum${down === 1 ? "" : "s[lane]"};`)}
  }
}`,
  });
}
