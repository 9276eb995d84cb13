/**
 * What `measure.ts` measures: for each class of shapes problems that stand for it, and the schedules that
 * may be the fastest beside the table's own choice.
 *
 * Kernels in f16 are no candidates: they round more than the others.
 */
import type { AdapterProfile, AttentionClass, AttentionSchedule, MatmulClass, MatmulRung } from "../kernels/kernel.ts";
import type { AttentionSpec, MatmulSpec } from "../kernels/specs.ts";
import { attentionSchedules, hasLanes } from "../kernels/wgsl/attentionTable.ts";
import { TILED } from "../kernels/wgsl/matmulTable.ts";

type Rung = Exclude<MatmulRung, { kind: "naive" }>;

/** Problems and what may solve them. A linear layer has three products: its own, and two for the gradients. */
export type Contest =
  | {
      readonly family: "matmul";
      readonly name: MatmulClass;
      readonly specs: readonly MatmulSpec[];
      readonly candidates: readonly Rung[];
    }
  | {
      readonly family: "attention" | "attentionBackward";
      readonly name: AttentionClass;
      readonly specs: readonly AttentionSpec[];
      readonly candidates: readonly AttentionSchedule[];
    };

/** A direct block: see `MatmulRung`. */
const direct = (rows: number, quads: number, steps: 1 | 4, across: number, down: number): Rung => ({
  kind: "direct",
  rows,
  quads,
  steps,
  across,
  down,
});
const tiled = Object.values(TILED).map((block): Rung => ({ kind: "tiled", block }));
const subgroup: Rung = { kind: "subgroup", rows: 8 };

const ROW = [direct(1, 1, 4, 32, 1), direct(1, 1, 1, 32, 1), direct(1, 1, 4, 64, 1), direct(1, 2, 4, 32, 1)];
const ROWS = [direct(4, 1, 4, 8, 4), direct(4, 1, 1, 8, 4), direct(4, 1, 4, 32, 1), direct(4, 2, 4, 16, 2)];
/** From small blocks to large ones; four steps at a time, or one. */
const BLOCKS = [direct(8, 1, 4, 8, 4), direct(8, 2, 4, 8, 4), direct(8, 2, 1, 8, 4)];
const LARGE_BLOCKS = [direct(16, 4, 4, 4, 4), direct(16, 4, 1, 4, 4)];

/** The contests of an adapter. Software adapters have smaller problems, and no products with barriers. */
export const contestsFor = (profile: AdapterProfile): readonly Contest[] =>
  profile.schedule === "software" ? softwareContests() : gpuContests(profile);

function gpuContests(profile: AdapterProfile): readonly Contest[] {
  const blocks = [...BLOCKS, ...LARGE_BLOCKS, ...(profile.features?.includes("subgroups") ? [subgroup] : []), ...tiled];
  const lanes = hasLanes(profile);
  /** All schedules but those that take too many registers in this pass. */
  const all = (tooLarge: readonly string[]): readonly AttentionSchedule[] =>
    Object.entries(attentionSchedules).flatMap(([name, schedule]) =>
      tooLarge.includes(name) || (name.startsWith("lanes") && !lanes) ? [] : [schedule],
    );
  const [forward, backward] = [all(["lanesRows2"]), all(["tiled64chunk4", "lanesSplit4"])];
  const [few, many] = [attentionOf(1, 128, 8, 64), attentionOf(4, 1024, 8, 64)];
  return [
    { family: "matmul", name: "row", specs: [...read(1, 256, 256), ...read(1, 4096, 1024)], candidates: ROW },
    { family: "matmul", name: "rows", specs: [...read(2, 1024, 1024), ...read(4, 1024, 256)], candidates: ROWS },
    {
      family: "matmul",
      name: "edge",
      specs: [...read(8, 1024, 1024), ...read(32, 1024, 256), ...linear(1024, 16, 256)],
      candidates: blocks,
    },
    {
      family: "matmul",
      name: "small",
      specs: [...linear(64, 64, 256), ...linear(256, 256, 256), ...linear(512, 512, 512)],
      candidates: blocks,
    },
    {
      family: "matmul",
      name: "large",
      specs: [...linear(1024, 1024, 1024), ...read(4096, 512, 256)],
      candidates: blocks,
    },
    { family: "attention", name: "forward/few", specs: [few], candidates: forward },
    { family: "attention", name: "forward/many", specs: [many], candidates: forward },
    { family: "attentionBackward", name: "backward/few", specs: [few], candidates: backward },
    { family: "attentionBackward", name: "backward/many", specs: [many], candidates: backward },
  ];
}

function softwareContests(): readonly Contest[] {
  const candidates = ["thread", "tiled64", "split4", "split4chunk4"].map((name) => attentionSchedules[name]!);
  const specs = [attentionOf(1, 64, 4, 32)];
  const blocks = [...BLOCKS, ...LARGE_BLOCKS];
  return [
    { family: "matmul", name: "row", specs: [...read(1, 128, 128), ...read(1, 512, 256)], candidates: ROW },
    { family: "matmul", name: "rows", specs: [...read(2, 256, 256), ...read(4, 512, 128)], candidates: ROWS },
    {
      family: "matmul",
      name: "edge",
      specs: [...read(8, 256, 128), ...read(32, 256, 128), ...linear(256, 16, 64)],
      candidates: blocks,
    },
    {
      family: "matmul",
      name: "small",
      specs: [...linear(48, 256, 128), ...linear(256, 33, 128)],
      candidates: blocks,
    },
    {
      family: "matmul",
      name: "large",
      specs: [...linear(64, 64, 256), ...linear(256, 128, 128)],
      candidates: blocks,
    },
    { family: "attention", name: "forward/few", specs, candidates },
    { family: "attentionBackward", name: "backward/few", specs, candidates },
  ];
}

/** The products of a linear layer: x·Wᵀ, and g·W and gᵀ·x of the same size. */
function linear(m: number, n: number, k: number): readonly MatmulSpec[] {
  const plain = { batch: 1, m, n, k, batchA: false, batchB: false, scale: 1, addends: [] };
  return [
    { ...plain, transA: false, transB: true },
    { ...plain, transA: false, transB: false },
    { ...plain, transA: true, transB: false },
  ];
}

/** The product of a linear layer that is only read, as in decoding. */
const read = (m: number, n: number, k: number): readonly MatmulSpec[] => linear(m, n, k).slice(0, 1);

/** Causal attention of `batch` sequences of `length`. */
const attentionOf = (batch: number, length: number, heads: number, headDim: number): AttentionSpec => ({
  batch,
  queries: length,
  keys: length,
  heads,
  kvHeads: heads,
  headDim,
  scale: headDim ** -0.5,
  causal: true,
  mask: "none",
  window: 0,
});
