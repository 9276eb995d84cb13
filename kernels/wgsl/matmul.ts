/**
 * Matrix multiplication: C = act(scale · op(A)·op(B) + addends), for every transpose, batch, ragged size and epilogue.
 *
 * `matmulTable.ts` chooses a rung of a ladder (`MatmulRung`) by adapter and shape; a benchmark chooses with
 * `AdapterProfile.matmul`:
 * 1. naive: one thread per element, for comparison.
 * 2. direct: a thread keeps a block of rows × `vec4` columns in registers and reads from storage, without workgroup
 *   memory.
 * 3. tiled: threads share tiles in workgroup memory and keep a block of sums each; `half` does it in f16.
 * 4. subgroup: as direct, but the threads of a subgroup, of any size, exchange their elements of A.
 * `splits` of 2–4: where the result has few tiles and the sum is long (weight gradients, decoding), the sum is cut into
 * parts, which are added in a fixed order afterwards.
 *
 * There are no subgroup matrices: Dawn offers no configuration on the adapters that this was written on.
 */
import { type AdapterProfile, type MatmulRung, type Program, type WgslKernel, single } from "../kernel.ts";
import type { MatmulSpec } from "../specs.ts";
import { directKernel, subgroupKernel } from "./matmulDirect.ts";
import { bufferCount } from "./matmulCommon.ts";
import { chooseRung, TILED } from "./matmulTable.ts";
import { combineKernel, matmulNaive, tiledKernel, type TiledRung } from "./matmulTiled.ts";
import type { Generator } from "./shader.ts";

/** A, B, addends… → C. */
export function matmul(spec: MatmulSpec, profile: AdapterProfile): Program<WgslKernel> {
  return matmulBy(chooseRung(spec, profile), spec, profile);
}

// The rungs by name, for benchmarks and tests. The last two need features: see `AdapterProfile.features`.
export { matmulNaive } from "./matmulTiled.ts";
export const matmulDirect8x2: Generator<MatmulSpec> = (spec, profile) =>
  matmulBy({ kind: "direct", rows: 8, quads: 2, steps: 4, across: 8, down: 4 }, spec, profile);
export const matmulDirect16x4: Generator<MatmulSpec> = (spec, profile) =>
  matmulBy({ kind: "direct", rows: 16, quads: 4, steps: 4, across: 4, down: 4 }, spec, profile);
export const matmulDirect16x4Steps: Generator<MatmulSpec> = (spec, profile) =>
  matmulBy({ kind: "direct", rows: 16, quads: 4, steps: 1, across: 4, down: 4 }, spec, profile);
export const matmulTiled32x32: Generator<MatmulSpec> = tiled("32x32");
export const matmulTiled64x64: Generator<MatmulSpec> = tiled("64x64");
export const matmulTiled128x64: Generator<MatmulSpec> = tiled("128x64");
export const matmulTiled128x128: Generator<MatmulSpec> = tiled("128x128");
export const matmulSplit: Generator<MatmulSpec> = tiled("32x32", { splits: 4 });
export const matmulSubgroup: Generator<MatmulSpec> = (spec, profile) =>
  matmulBy({ kind: "subgroup", rows: 8 }, spec, profile);
export const matmulHalf: Generator<MatmulSpec> = tiled("64x64", { half: true });

function tiled(block: keyof typeof TILED, rest: Partial<TiledRung> = {}): Generator<MatmulSpec> {
  return (spec, profile) => matmulBy({ kind: "tiled", block: TILED[block], ...rest }, spec, profile);
}

/** The program of a rung. If the sum is split, a temporary holds its parts. */
function matmulBy(rung: MatmulRung, spec: MatmulSpec, profile: AdapterProfile): Program<WgslKernel> {
  if (rung.kind === "naive") return matmulNaive(spec, profile);
  const splits = rung.splits ?? 1;
  const kernel = productKernel(spec, rung, splits, profile);
  if (splits === 1) return single(kernel, bufferCount(spec));
  const output = bufferCount(spec) - 1;
  const partial = output + 1;
  return {
    temps: [4 * splits * spec.batch * spec.m * spec.n],
    steps: [
      { kernel, buffers: [0, 1, partial] },
      {
        kernel: combineKernel(spec, profile, splits),
        buffers: [partial, ...spec.addends.map((_, i) => 2 + i), output],
      },
    ],
  };
}

function productKernel(
  spec: MatmulSpec,
  rung: Exclude<MatmulRung, { kind: "naive" }>,
  splits: number,
  profile: AdapterProfile,
): WgslKernel {
  switch (rung.kind) {
    case "direct":
      return directKernel(spec, rung, splits);
    case "tiled":
      if (rung.half === true) need("shader-f16", profile);
      return tiledKernel(spec, rung, splits);
    case "subgroup":
      need("subgroups", profile);
      return subgroupKernel(spec, rung.rows, splits);
  }
}

function need(feature: string, { features = [] }: AdapterProfile): void {
  if (!features.includes(feature)) throw new Error(`matmul: this kernel needs "${feature}", which the adapter lacks`);
}
