/**
 * RMSNorm (Zhang & Sennrich 2019) and LayerNorm (Ba et al. 2016), and their backward.
 *
 * With x̂ = (x − mean)·r and r = 1/√(var + eps) (mean = 0 for RMS, so var is the mean square) both share one backward:
 *   dx = r·(gw − [layer] mean(gw) − x̂·mean(gw·x̂)) with gw = g·w,   dw = Σ_rows g·x̂,   db = Σ_rows g.
 * dx is made by rows, which also leave (mean, r) for the sums over columns. These sum blocks of rows and then the
 * blocks, so that many threads take part and every sum has a fixed order without float atomics.
 */
import { type AdapterProfile, type Program, type Step, type WgslKernel, f32, single, u32 } from "../kernel.ts";
import type { NormBackwardSpec, NormSpec } from "../specs.ts";
import {
  type Bindings,
  independentThreads,
  type RowReductions,
  rowKernel,
  vectorPrelude,
  vectorType,
  vectorWidth,
} from "./rows.ts";
import { gridFor, linearMain, shader } from "./shader.ts";

/** The number of rows whose column sums one thread takes. */
const BLOCK = 64;

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
  const width = vectorWidth(cols);
  const threads = independentThreads(profile);
  const blocks = Math.ceil(rows / BLOCK);
  const columns = cols / width;

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

  const db: Bindings = layer ? { db: `write ${V}` } : {};
  const byBlock = shader({
    key: `normBackward/${kind}/blocks/v${width}/${threads}`,
    bindings: { x: `read ${V}`, g: `read ${V}`, rowStatistics: "read vec2f", dw: `write ${V}`, ...db },
    params: { count: u32(blocks * columns), rows: u32(rows), width: u32(columns) },
    workgroups: gridFor(blocks * columns, threads),
    body: () => `${vectorPrelude(cols)}
${linearMain(threads, "params.count")}
  let column = i % params.width;
  let firstRow = i / params.width * ${BLOCK}u;
  var dwSum = V(0.0);
  var dbSum = V(0.0);
  for (var row = firstRow; row < min(firstRow + ${BLOCK}u, params.rows); row++) {
    let at = row * params.width + column;
    let ofRow = rowStatistics[row];
    dwSum += g[at] * ((x[at] - V(ofRow.x)) * ofRow.y);
    dbSum += g[at];
  }
  dw[i] = dwSum;${layer ? "\n  db[i] = dbSum;" : ""}
}`,
  });

  // Buffers: x 0, w 1, g 2 → dx 3, dw 4, (db 5); then the temps.
  const results = layer ? [4, 5] : [4];
  const statisticsTemp = 4 + results.length;
  const partialTemps = results.map((_, k) => statisticsTemp + 1 + k);
  const steps: Step<WgslKernel>[] = [
    { kernel: byRow, buffers: [0, 1, 2, 3, statisticsTemp] },
    { kernel: byBlock, buffers: [0, 2, statisticsTemp, ...(blocks === 1 ? results : partialTemps)] },
  ];
  if (blocks === 1) return { temps: [8 * rows], steps };
  const totals: Bindings = layer ? { dwPartial: `read ${V}`, dbPartial: `read ${V}` } : { dwPartial: `read ${V}` };
  const overBlocks = shader({
    key: `normBackward/${kind}/total/v${width}/${threads}`,
    bindings: { ...totals, dw: `write ${V}`, ...db },
    params: { count: u32(columns), blocks: u32(blocks) },
    workgroups: gridFor(columns, threads),
    body: () => `${vectorPrelude(cols)}
${linearMain(threads, "params.count")}
  var dwSum = V(0.0);
  var dbSum = V(0.0);
  for (var block = 0u; block < params.blocks; block++) {
    dwSum += dwPartial[block * params.count + i];${layer ? "\n    dbSum += dbPartial[block * params.count + i];" : ""}
  }
  dw[i] = dwSum;${layer ? "\n  db[i] = dbSum;" : ""}
}`,
  });
  steps.push({ kernel: overBlocks, buffers: [...partialTemps, ...results] });
  return { temps: [8 * rows, ...results.map(() => 4 * blocks * cols)], steps };
}
