/** Cases of attention: each schedule of the WGSL kernels, forward and backward apart. */
import { attentionSchedules } from "../../kernels/wgsl/attentionTable.ts";
import { headPlaces, noise } from "../data.ts";
import type { Case } from "./case.ts";
import type { AttentionTask } from "./task.ts";

type Shape = Pick<AttentionTask, "B" | "T" | "H" | "D">;

const SHAPES: readonly Shape[] = [
  { B: 4, T: 64, H: 4, D: 32 },
  { B: 8, T: 512, H: 12, D: 64 },
  { B: 1, T: 2048, H: 12, D: 64 },
  { B: 128, T: 64, H: 4, D: 32 },
];

export const attentionLadderCases = (): Case[] =>
  SHAPES.flatMap((shape) => {
    let known: Samples | undefined; // made once for all schedules
    const expected = (): Samples => (known ??= samples(shape));
    return Object.keys(attentionSchedules).flatMap((schedule) =>
      [false, true].map((backward) => ladderCase(shape, schedule, backward, expected)),
    );
  });

function ladderCase(shape: Shape, schedule: string, backward: boolean, expected: () => Samples): Case {
  const { B, T, H, D } = shape;
  const pairs = (B * H * T * (T + 1)) / 2;
  return {
    name: `ladderAttention/${schedule}/B${B}-T${T}-H${H}-D${D}${backward ? "-backward" : ""}`,
    task: { op: "attention", ...shape, backward, schedule },
    flops: (backward ? 8 : 4) * D * pairs,
    bytes: 4 * (backward ? 8 : 4) * B * T * H * D,
    expected: () => (backward ? expected().gradients : expected().o),
    tolerance: 1e-4,
    asks: (c) => c.name === "worldgrad-webgpu",
    alone: false,
  };
}

interface Samples {
  readonly o: readonly number[];
  /** Samples of dq, dk and dv, in this order. */
  readonly gradients: readonly number[];
}

/**
 * Expected values of the last head of the last row, in f64, at `headPlaces`: all heads of a large shape would take
 * minutes.
 */
function samples(shape: Shape): Samples {
  const { B, T, H, D } = shape;
  const { positions } = headPlaces(shape);
  const [q, k, v, g] = [1, 2, 3, 4].map((seed) => {
    const all = noise(seed, B * T * H * D, seed === 4 ? 1 : 2);
    const rows = Array.from({ length: T }, (_, t) => (((B - 1) * T + t) * H + H - 1) * D);
    return rows.map((first) => Float64Array.from(all.subarray(first, first + D)));
  }) as [Float64Array[], Float64Array[], Float64Array[], Float64Array[]];
  const dot = (x: Float64Array, y: Float64Array): number => {
    let sum = 0;
    for (let d = 0; d < D; d++) sum += x[d]! * y[d]!;
    return sum;
  };
  const add = (y: Float64Array, w: number, x: Float64Array): void => {
    for (let d = 0; d < D; d++) y[d]! += w * x[d]!;
  };
  const zeros = (): Float64Array[] => positions.map(() => new Float64Array(D));
  const [o, dq, dk, dv] = [zeros(), zeros(), zeros(), zeros()];
  for (let t = 0; t < T; t++) {
    const scores = Array.from({ length: t + 1 }, (_, j) => dot(q[t]!, k[j]!) / Math.sqrt(D));
    const top = scores.reduce((a, b) => Math.max(a, b));
    const weights = scores.map((s) => Math.exp(s - top));
    const total = weights.reduce((a, b) => a + b);
    // ds = p·(g·v − D), and D = Σ p·(g·v).
    const gradients = weights.map((_, j) => dot(g[t]!, v[j]!));
    const mean = weights.reduce((sum, w, j) => sum + (w / total) * gradients[j]!, 0);
    const ds = (j: number): number => ((weights[j]! / total) * (gradients[j]! - mean)) / Math.sqrt(D);
    positions.forEach((position, i) => {
      if (position === t) {
        weights.forEach((w, j) => {
          add(o[i]!, w / total, v[j]!);
          add(dq[i]!, ds(j), k[j]!);
        });
      }
      if (position > t) return;
      add(dk[i]!, ds(position), q[t]!);
      add(dv[i]!, weights[position]! / total, g[t]!);
    });
  }
  const flat = (vectors: readonly Float64Array[]): number[] => vectors.flatMap((x) => [...x]);
  return { o: flat(o), gradients: [dq, dk, dv].flatMap(flat) };
}
