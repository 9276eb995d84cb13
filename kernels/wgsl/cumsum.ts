/**
 * Running sums. If there are many columns, one thread walks each column of the middle axis. Few long ones are cut into
 * blocks, whose sums are added first, so that every block knows its start (the scan of Blelloch 1990 with two levels).
 * The order of additions depends on the shape only.
 */
import { type Program, single, u32, type Uniform, type WgslKernel } from "../kernel.ts";
import type { CumsumSpec } from "../specs.ts";
import { gridFor, linearMain, shader, type Generator } from "./shader.ts";

const GROUP = 64;
/** The number of elements per thread of the blocked kernels. */
const BLOCK = 128;
/** The number of columns from which on there is a thread for every execution unit of a large GPU. */
const BUSY = 4096;

/** See `CumsumSpec`. */
export const cumsum: Generator<CumsumSpec> = (spec) => {
  const columns = spec.outer * spec.inner;
  if (columns >= BUSY || spec.length <= 4 * BLOCK) return single(walk(spec, spec.length, 1), 2);
  return blocked(spec, Math.ceil(spec.length / BLOCK));
};

/** Thread i walks the steps from `start` to `end` of a column; if `reverse`, step s is the element s from the end. */
const PLACE = `
  let column = i / params.blocks;
  let part = i % params.blocks;
  let start = part * params.block;
  let end = min(start + params.block, params.length);
  let origin = (column / params.inner) * params.length * params.inner + column % params.inner;`;
const at = (reverse: boolean): string => `origin + ${reverse ? "(params.length - 1u - step)" : "step"} * params.inner`;

/** The number of additions after which a part joins the sum: a long chain would lose terms small beside the sum. */
const fold = (step: string): string => `
    if ((${step}) % ${BLOCK}u == ${BLOCK - 1}u) {
      sum += recent;
      recent = 0.0f;
    }`;

const sizes = ({ outer, length, inner }: CumsumSpec, block: number, blocks: number): Record<string, Uniform> => ({
  count: u32(outer * inner * blocks),
  length: u32(length),
  inner: u32(inner),
  block: u32(block),
  blocks: u32(blocks),
});

/** Buffers: x → y; with several blocks: x, the sum before each block → y. */
function walk(spec: CumsumSpec, block: number, blocks: number): WgslKernel {
  const { reverse } = spec;
  const isPart = blocks > 1;
  return shader({
    key: `cumsum${isPart ? " blocks" : ""}${reverse ? " reverse" : ""}`,
    bindings: { x: "read f32", ...(isPart ? { before: "read f32" } : {}), y: "write f32" },
    params: sizes(spec, block, blocks),
    workgroups: gridFor(spec.outer * spec.inner * blocks, GROUP),
    body: () => `${linearMain(GROUP, "params.count")}${PLACE}
  var sum = ${isPart ? "before[i]" : "0.0f"};
  var recent = 0.0f;
  for (var step = start; step < end; step++) {
    recent += x[${at(reverse)}];
    y[${at(reverse)}] = sum + recent;${fold("step - start")}
  }
}`,
  });
}

/** The sum of every block, then the running sums of these per column, then each block by itself. */
function blocked(spec: CumsumSpec, blocks: number): Program<WgslKernel> {
  const { reverse } = spec;
  const columns = spec.outer * spec.inner;
  const total = shader({
    key: `cumsum totals${reverse ? " reverse" : ""}`,
    bindings: { x: "read f32", totals: "write f32" },
    params: sizes(spec, BLOCK, blocks),
    workgroups: gridFor(columns * blocks, GROUP),
    body: () => `${linearMain(GROUP, "params.count")}${PLACE}
  var sum = 0.0f;
  for (var step = start; step < end; step++) { sum += x[${at(reverse)}]; }
  totals[i] = sum;
}`,
  });
  const before = shader({
    key: "cumsum before",
    bindings: { totals: "readwrite f32" },
    params: { columns: u32(columns), blocks: u32(blocks) },
    workgroups: gridFor(columns, GROUP),
    body: () => `${linearMain(GROUP, "params.columns")}
  var sum = 0.0f;
  var recent = 0.0f;
  for (var block = 0u; block < params.blocks; block++) {
    let at = i * params.blocks + block;
    let own = totals[at];
    totals[at] = sum + recent;
    recent += own;${fold("block")}
  }
}`,
  });
  return {
    temps: [4 * columns * blocks],
    steps: [
      { kernel: total, buffers: [0, 2] },
      { kernel: before, buffers: [2] },
      { kernel: walk(spec, BLOCK, blocks), buffers: [0, 2, 1] },
    ],
  };
}
