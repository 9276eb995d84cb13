/**
 * The table of matrix kernels by adapter and shape: the one place to change after a measurement. Choices depend on the
 * adapter's name and limits and on the shape only, never on a subgroup size; a new shape of the same class compiles
 * nothing new.
 *
 * Measured with `npm run bench -- matmul` (see docs/log.md) for SwiftShader and llvmpipe on two cores, and with
 * `npm run gpu` on an NVIDIA H200 (docs/performance.md). The rows for few rows or columns on GPUs are not tuned; sums
 * are split there as vinhowe/torchlette splits them, where there are fewer than 128 tiles.
 */
import type { AdapterProfile, MatmulClass, MatmulRung, TiledBlock } from "../kernel.ts";
import type { MatmulSpec } from "../specs.ts";
import { tileCount } from "./matmulCommon.ts";
import { tileOf, type TiledRung } from "./matmulTiled.ts";

export type DirectBlock = Omit<Extract<MatmulRung, { kind: "direct" }>, "kind" | "splits">;

/** SwiftShader reads lane by lane, so the largest block is best, with four steps at a time. */
const SWIFTSHADER: SplitRung = { kind: "direct", rows: 16, quads: 4, steps: 4, across: 4, down: 4 };
/** LLVM in llvmpipe wants a short loop: one step at a time is 2–3 times as fast as four. */
const LLVMPIPE: SplitRung = { kind: "direct", rows: 16, quads: 4, steps: 1, across: 4, down: 4 };
/** For small products: it compiles in a quarter of the time. */
const SMALL: SplitRung = { kind: "direct", rows: 8, quads: 2, steps: 4, across: 8, down: 4 };
/** For few rows, as in decoding: all threads are along a row of C. */
const FOUR_ROWS: SplitRung = { kind: "direct", rows: 4, quads: 1, steps: 4, across: 8, down: 4 };
const ONE_ROW: SplitRung = { kind: "direct", rows: 1, quads: 1, steps: 4, across: 32, down: 1 };
const GPU_EDGE: SplitRung = { kind: "direct", rows: 8, quads: 1, steps: 4, across: 8, down: 4 };

/**
 * Blocks of tiled products, by their rows × columns. More sums a thread take fewer reads of workgroup memory for each,
 * smaller blocks make more workgroups. 128×128 is the block of Boehm's kernel.
 */
export const TILED = {
  "32x32": { rows: 4, quads: 1, across: 8, down: 8, depth: 16 },
  "64x64": { rows: 4, quads: 1, across: 16, down: 16, depth: 16 },
  "128x64": { rows: 8, quads: 1, across: 16, down: 16, depth: 16 },
  "128x128": { rows: 8, quads: 2, across: 16, down: 16, depth: 16 },
} as const satisfies Record<string, TiledBlock>;
/** The fastest of the blocks on an H200 from 1024³ on, where there are as many workgroups as multiprocessors. */
const GPU_LARGE: TiledRung = { kind: "tiled", block: TILED["128x64"] };
/** The workgroups that keep a GPU busy: about its multiprocessors. */
const BUSY = 128;
/** Tiles for products that have too few large ones. `busy`: the workgroups of them up to which sums are split. */
export interface SmallTiles {
  readonly block: TiledBlock;
  readonly busy: number;
}
/** The fastest on an H200, with some to each multiprocessor: 9.0 TFLOP/s at 512³, where 64×64 makes 7.6. */
const GPU_SMALL: SmallTiles = { block: TILED["32x32"], busy: 512 };

/** The size of C from which on a large block is worth its compilation. */
const LARGE = 64;

/**
 * The k above which sums are made in parts of at most it, as long as the parts' sums fit into so many elements: the
 * rounding error grows with the longest chain of additions. For a million times 0.1 one chain is 1 % off.
 */
const LONGEST_CHAIN = 65536;
const MOST_PARTIALS = 2 ** 24;

/**
 * The rung for `spec`: the profile's, if it names one, else the one that was measured for its class, else the table's,
 * with the small tiles of GPUs as given.
 */
export function chooseRung(spec: MatmulSpec, profile: AdapterProfile, small = GPU_SMALL): MatmulRung {
  if (profile.matmul !== undefined) return profile.matmul;
  const rung = rungOfClass(spec, profile, small);
  const parts = Math.ceil(spec.k / LONGEST_CHAIN);
  const splits = Math.min(parts, Math.floor(MOST_PARTIALS / (spec.batch * spec.m * spec.n)));
  return splits > (rung.splits ?? 1) ? { ...rung, splits } : rung;
}

/** The class of a product. Few rows or columns leave most of a tile idle (`edge`). */
export function classOf(spec: MatmulSpec, { schedule }: AdapterProfile): MatmulClass {
  const { m, n } = spec;
  if (m === 1) return "row";
  if (m <= 4) return "rows";
  if (m <= 32 || n <= 16) return "edge";
  if (schedule === "software") return Math.min(m, n) < LARGE ? "small" : "large";
  return tileCount(spec, ...tileOf(GPU_LARGE)) >= BUSY ? "large" : "small";
}

function rungOfClass(
  spec: MatmulSpec,
  profile: AdapterProfile,
  small: SmallTiles,
): Exclude<MatmulRung, { kind: "naive" }> {
  const name = classOf(spec, profile);
  const rung = profile.schedules?.matmul[name] ?? tableRung(name, profile, small);
  if (profile.schedule === "software" || name === "large" || rung.kind === "subgroup") return rung;
  return withSplits(spec, rung, name === "small" ? small.busy : BUSY);
}

function tableRung(name: MatmulClass, { schedule, adapter }: AdapterProfile, small: SmallTiles): SplitRung {
  const isSoftware = schedule === "software";
  switch (name) {
    case "row":
      return ONE_ROW;
    case "rows":
      return FOUR_ROWS;
    case "edge":
      return isSoftware ? SMALL : GPU_EDGE;
    case "small":
      return isSoftware ? SMALL : { kind: "tiled", block: small.block };
    case "large":
      if (isSoftware) return adapter === "swiftshader" ? SWIFTSHADER : LLVMPIPE;
      return GPU_LARGE;
  }
}

type SplitRung = Extract<MatmulRung, { kind: "direct" | "tiled" }>;

/** Splits the sum on GPUs: enough workgroups to keep one busy, and enough steps per part to pay for the second pass. */
function withSplits(spec: MatmulSpec, rung: SplitRung, busy: number): SplitRung {
  const tiles =
    rung.kind === "direct"
      ? tileCount(spec, rung.rows * rung.down, rung.quads * 4 * rung.across)
      : tileCount(spec, ...tileOf(rung));
  const splits = Math.max(1, Math.min(32, Math.floor(busy / tiles), Math.floor(spec.k / 256)));
  return { ...rung, splits };
}
