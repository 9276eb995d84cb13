/**
 * Cases of matrix products: squares, the shapes of a small transformer, a batch. T marks a transposed operand, N one
 * that is not.
 */
import { noise, samplePlaces } from "../data.ts";
import { ladderNames } from "../contenders/ladder.ts";
import { type Case, everybody, ours } from "./case.ts";
import type { MatmulTask, PackedTask } from "./task.ts";
import { packedBytes } from "../../pretrained/packed/matrix.ts";

/**
 * Layout and M×K×N, after a number of batches: `NT:64x128x512`, `8*NN:64x32x64`. NT is the forward pass of a linear
 * layer.
 */
const SHAPES = [
  "NN:256x256x256",
  "NN:512x512x512",
  "NN:1024x1024x1024",
  "NN:2048x128x512",
  "NT:2048x128x512",
  "TN:128x2048x512",
  "NT:64x128x512",
  "NT:1x512x128",
  "NN:256x128x65",
  "16*NT:64x32x64",
  "16*NN:64x64x32",
];

/** Shapes on which every rung of the WGSL ladder is timed. A CPU is too slow for those from 1024³ on. */
const LADDER_SHAPES = [
  "NN:256x256x256",
  "NN:512x512x512",
  "TN:128x2048x512",
  "NN:1024x1024x1024",
  "NN:2048x2048x2048",
  "NN:4096x4096x4096",
  "NT:4096x768x3072",
  "TN:768x4096x3072",
];

const PATTERN = /^(?:(\d+)\*)?([NT])([NT]):(\d+)x(\d+)x(\d+)$/;
export const isShape = (word: string): boolean => PATTERN.test(word);

export function matmulCase(shape: string, version?: string): Case {
  const [, batch = "1", a, b, ...sizes] = PATTERN.exec(shape)!;
  const [m, k, n] = sizes.map(Number) as [number, number, number];
  const task: MatmulTask = { op: "matmul", batch: Number(batch), m, n, k, transA: a === "T", transB: b === "T" };
  return {
    name: version === undefined ? `matmul/${shape}` : `ladder/${version}/${shape}`,
    task: version === undefined ? task : { ...task, version },
    flops: 2 * task.batch * m * n * k,
    bytes: 4 * task.batch * (m * k + k * n + m * n),
    expected: () => samples(task),
    // A rung in half precision keeps 11 bits of each operand.
    tolerance: /half|f16/i.test(version ?? "") ? 2e-3 : 1e-5,
    asks: version === undefined ? everybody : (c) => c.name === "worldgrad-webgpu",
    alone: false,
  };
}

/** Elements of the product at `samplePlaces`, in f64. */
function samples({ batch, m, n, k, transA, transB }: MatmulTask): number[] {
  const [a, b] = [noise(1, batch * m * k), noise(2, batch * k * n)];
  return samplePlaces(batch * m * n).map((place) => {
    const [z, i, j] = [Math.floor(place / (m * n)), Math.floor(place / n) % m, place % n];
    let sum = 0;
    for (let p = 0; p < k; p++) {
      sum += a[z * m * k + (transA ? p * m + i : i * k + p)]! * b[z * k * n + (transB ? j * k + p : p * n + j)]!;
    }
    return sum;
  });
}

/** A linear layer of Qwen3-0.6B, for one row (drawing a token) and for many (a prompt, a training step). */
function packedCase(m: number, format: PackedTask["format"]): Case {
  const task: PackedTask = { op: "packed", m, n: 3072, k: 1024, format };
  const { n, k } = task;
  const weights = format === "f32" ? 4 * n * k : packedBytes(format, [n, k]);
  return {
    name: `packed/${format}:${m}x${k}x${n}`,
    task,
    flops: 2 * m * n * k,
    bytes: 4 * (m * k + m * n) + weights,
    expected: { reference: task },
    tolerance: 1e-5,
    asks: ours,
    alone: false,
  };
}

export const matmulCases = (): Case[] => [
  ...SHAPES.map((shape) => matmulCase(shape)),
  ...[1, 128].flatMap((m) => (["f32", "bf16", "q8"] as const).map((format) => packedCase(m, format))),
  ...ladderNames().flatMap((version) => LADDER_SHAPES.map((shape) => matmulCase(shape, version))),
];
