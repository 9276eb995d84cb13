/**
 * Which matrix kernel for which adapter and shape: the one place to change after a measurement. Choices depend on the adapter's
 * name, the shape and its limits only, never on a subgroup size; a new shape of the same class compiles nothing new.
 *
 * Measured with `npm run bench -- matmul` (see docs/log.md): SwiftShader and llvmpipe on two cores. The rows for GPUs are from
 * the literature (Boehm 2022; vinhowe/torchlette splits the sum where there are fewer than 128 tiles) until someone measures them.
 */
import type { AdapterProfile, MatmulRung } from "../kernel.ts";
import type { MatmulSpec } from "../specs.ts";
import { tileCount } from "./matmulShared.ts";
import { TILE } from "./matmulTiled.ts";

export type DirectBlock = Omit<Extract<MatmulRung, { kind: "direct" }>, "kind" | "splits">;

/** SwiftShader reads lane by lane: the largest block, and four steps at a time. */
const SWIFTSHADER: SplitRung = { kind: "direct", rows: 16, quads: 4, steps: 4, across: 4, down: 4 };
/** llvmpipe's LLVM wants a short loop: one step at a time is 2–3 times as fast as four. */
const LLVMPIPE: SplitRung = { kind: "direct", rows: 16, quads: 4, steps: 1, across: 4, down: 4 };
/** For small products: compiled in a quarter of the time. */
const SMALL: SplitRung = { kind: "direct", rows: 8, quads: 2, steps: 4, across: 8, down: 4 };
/** Few rows, as in decoding: all threads along a row of C. */
const FOUR_ROWS: SplitRung = { kind: "direct", rows: 4, quads: 1, steps: 4, across: 8, down: 4 };
const ONE_ROW: SplitRung = { kind: "direct", rows: 1, quads: 1, steps: 4, across: 32, down: 1 };
const GPU_EDGE: SplitRung = { kind: "direct", rows: 8, quads: 1, steps: 4, across: 8, down: 4 };

/** A block is worth its compilation from this size of C on. */
const LARGE = 64;

/** The rung for `spec`: what the profile asks for, if it does, else what the table says. */
export function chooseRung(spec: MatmulSpec, profile: AdapterProfile): MatmulRung {
  if (profile.matmul !== undefined) return profile.matmul;
  const { m, n } = spec;
  if (m === 1) return withSplits(spec, profile, ONE_ROW);
  if (m <= 4) return withSplits(spec, profile, FOUR_ROWS);
  if (profile.schedule === "software") {
    if (Math.min(m, n) < LARGE) return SMALL;
    return profile.adapter === "swiftshader" ? SWIFTSHADER : LLVMPIPE;
  }
  // Few rows or columns leave most of a 64×64 tile idle.
  if (m <= 32 || n <= 16) return withSplits(spec, profile, GPU_EDGE);
  return withSplits(spec, profile, { kind: "tiled" });
}

type SplitRung = Extract<MatmulRung, { kind: "direct" | "tiled" }>;

/** GPUs: enough workgroups to fill one, and enough steps in each part to be worth the second pass. */
function withSplits(spec: MatmulSpec, profile: AdapterProfile, rung: SplitRung): MatmulRung {
  if (profile.schedule !== "gpu") return rung;
  const tiles =
    rung.kind === "direct"
      ? tileCount(spec, rung.rows * rung.down, rung.quads * 4 * rung.across)
      : tileCount(spec, TILE, TILE);
  const splits = Math.max(1, Math.min(32, Math.floor(128 / tiles), Math.floor(spec.k / 256)));
  return { ...rung, splits };
}
