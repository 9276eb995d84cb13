/** Cases of the model: training step, forward pass, one block, sampling, GRPO, and growth of the cost of a step. */
import { type Case, everybody, ours } from "./case.ts";
import type { BlockTask, GptShape, GrpoTask, Task, TaskOf } from "./task.ts";

/**
 * FLOPs per token of the forward pass of a block: four matrices C×C, two C×4C, and attention over T/2 keys on average.
 */
const blockFlops = (T: number, C: number): number => 2 * 12 * C * C + 2 * 2 * C * ((T + 1) / 2);

/** FLOPs of the forward pass. Norms, GELU and softmax are left out, as is usual: they are less than 2 %. */
export function forwardFlops({ B, T, C, L, V }: GptShape): number {
  return B * T * (L * blockFlops(T, C) + 2 * C * V);
}

/**
 * FLOPs of a training step. The backward pass costs twice the forward pass: each product has a gradient for each
 * operand.
 */
export const stepFlops = (shape: GptShape): number => 3 * forwardFlops(shape);

export function parameterCount({ T, C, L, V }: GptShape): number {
  return V * C + T * C + L * (12 * C * C + 13 * C) + 2 * C;
}

/**
 * Bytes that a step must move: parameters, gradients and two moments, each read and written once. Activations are left
 * out.
 */
const stepBytes = (shape: GptShape): number => 4 * 8 * parameterCount(shape);

export const nameOf = ({ B, T, C, L }: GptShape): string => `B${B}-T${T}-C${C}-L${L}`;

/** Sizes of a first experiment, of a small model, and of the largest model for a CPU here. */
export const SIZES: readonly GptShape[] = [
  { B: 4, T: 64, C: 128, H: 4, L: 2, V: 65 },
  { B: 16, T: 128, C: 256, H: 4, L: 4, V: 65 },
  { B: 8, T: 512, C: 384, H: 6, L: 6, V: 65 },
];

function step(shape: GptShape, family = "step", extra: Partial<Case> = {}): Case {
  const task: Task = { op: "step", ...shape };
  const small = stepFlops(shape) < 1e9;
  return {
    name: `${family}/${nameOf(shape)}`,
    task,
    flops: stepFlops(shape),
    bytes: stepBytes(shape),
    work: { amount: shape.B * shape.T, unit: "tok/s" },
    expected: small ? { reference: task } : "first",
    tolerance: 1e-4,
    asks: everybody,
    alone: true,
    ...extra,
  };
}

function block({ B, T, C, H }: GptShape): Case {
  const task: BlockTask = { op: "block", B, T, C, H };
  const flops = 3 * B * T * blockFlops(T, C);
  return {
    name: `block/B${B}-T${T}-C${C}-H${H}`,
    task,
    flops,
    bytes: 4 * (3 * B * T * C + 2 * 12 * C * C),
    expected: flops < 1e9 ? { reference: task } : "first",
    tolerance: 1e-4,
    asks: everybody,
    alone: true,
  };
}

const DECODE = { prompt: 8, tokens: 56, T: 64, C: 128, H: 4, L: 2, V: 65 };

function decode(B: number): Case {
  const task: TaskOf<"decode"> = { op: "decode", B, ...DECODE };
  const { prompt, tokens } = task;
  const amount = B * tokens;
  return {
    name: `decode/B${B}`,
    task,
    // The model never reads the last sampled token.
    flops: forwardFlops({ ...task, T: prompt + tokens - 1 }),
    bytes: 0,
    work: { amount, unit: "tok/s" },
    expected: { reference: { ...task, B: 1 } },
    tolerance: 0,
    asks: ours,
    alone: true,
  };
}

/** Forward pass in training of the decoder's model on as many rows, to compare decoding with. */
function trainingForward(B: number): Case {
  const shape: GptShape = { B, T: 64, C: 128, H: 4, L: 2, V: 65 };
  return {
    name: `forward/${nameOf(shape)}`,
    task: { op: "forward", ...shape },
    flops: forwardFlops(shape),
    bytes: 0,
    work: { amount: B * shape.T, unit: "tok/s" },
    expected: "first",
    tolerance: 1e-4,
    asks: (c) => ours(c),
    alone: true,
  };
}

/** Cases in which one dimension grows and the others stay. */
export const GROWTH: Readonly<
  Record<string, { readonly shapes: readonly GptShape[]; readonly x: (s: GptShape) => number }>
> = {
  T: { x: (s) => s.T, shapes: [32, 64, 128, 256, 512].map((T) => ({ B: 2, T, C: 128, H: 4, L: 2, V: 65 })) },
  V: { x: (s) => s.V, shapes: [64, 256, 1024, 4096, 16384].map((V) => ({ B: 4, T: 64, C: 128, H: 4, L: 1, V })) },
  batch: { x: (s) => s.B, shapes: [1, 2, 4, 8, 16].map((B) => ({ B, T: 64, C: 128, H: 4, L: 2, V: 65 })) },
  parameters: { x: parameterCount, shapes: [64, 128, 256, 512].map((C) => ({ B: 4, T: 64, C, H: 4, L: 2, V: 65 })) },
};

const growth = (): Case[] =>
  Object.entries(GROWTH).flatMap(([dimension, { shapes }]) =>
    shapes.map((shape) =>
      step(shape, `growth/${dimension}`, {
        name: `growth/${dimension}/${nameOf(shape)}-V${shape.V}`,
        expected: "first",
        asks: (c) => ours(c) && c.executor === "wasm" && c.threads === "one",
      }),
    ),
  );

/** Time of the first training step by op. Several threads would make it less exact. */
const profile: Case = {
  name: `profile/${nameOf(SIZES[0]!)}`,
  task: { op: "profile", ...SIZES[0]! },
  flops: stepFlops(SIZES[0]!),
  bytes: 0,
  work: { amount: 256, unit: "tok/s" },
  expected: "first",
  tolerance: 1e-4,
  asks: (c) => ours(c) && c.name !== "worldgrad-threads",
  alone: true,
};

/** An RL step with the settings of `npm start`. Its FLOPs depend on the episodes, and are among its figures. */
const rl: Case = {
  name: "rl/terminal",
  task: { op: "rl", warmup: 150 },
  flops: 0,
  bytes: 0,
  work: { amount: 192, unit: "episodes/s" },
  expected: "first",
  tolerance: 1e-4,
  asks: (c) => ours(c) && c.executor === "wasm",
  alone: true,
};

/** Parameters of the Llama of a `GrpoTask`: tied embedding, four projections, gate, up and down, two norms a block. */
export function llamaParameterCount({ C, H, kvHeads, F, L, V }: GrpoTask): number {
  const attention = 2 * C * C + 2 * C * (C / H) * kvHeads;
  return V * C + L * (attention + 3 * C * F + 2 * C) + C;
}

/** A whole GRPO step, playing and learning, in worldgrad and in TRL. */
function grpo(name: string, sizes: Omit<GrpoTask, "op">): Case {
  const task: GrpoTask = { op: "grpo", ...sizes };
  const tokens = task.groups * task.groupSize * (task.prompt + task.completion);
  return {
    name: `grpo/${name}`,
    task,
    // Two operations per parameter and token, in playing (forward) and in learning (forward, backward twice). Attention
    // is left out.
    flops: 4 * 2 * llamaParameterCount(task) * tokens,
    bytes: 0,
    work: { amount: task.groups * task.groupSize, unit: "episodes/s" },
    expected: "first",
    tolerance: 0,
    asks: ({ engine }) => engine === "trl" || engine === "worldgrad",
    alone: true,
  };
}

const SMALL_JOB = { groups: 8, groupSize: 8, prompt: 16, completion: 32, lr: 1e-3 };
/** TRL's default batch: 8 completions per device, 8 per prompt. */
const DEFAULT_JOB = { ...SMALL_JOB, groups: 1 };
const LARGE_JOB = { groups: 2, groupSize: 4, prompt: 16, completion: 16, lr: 1e-5 };

const GRPO_CASES: readonly Case[] = [
  grpo("27K", { C: 32, H: 4, kvHeads: 4, F: 64, L: 1, V: 512, ...SMALL_JOB }),
  grpo("260K", { C: 64, H: 8, kvHeads: 4, F: 172, L: 5, V: 512, ...SMALL_JOB }),
  grpo("1M", { C: 128, H: 4, kvHeads: 4, F: 344, L: 4, V: 512, ...SMALL_JOB }),
  grpo("27K-1x8", { C: 32, H: 4, kvHeads: 4, F: 64, L: 1, V: 512, ...DEFAULT_JOB }),
  grpo("260K-1x8", { C: 64, H: 8, kvHeads: 4, F: 172, L: 5, V: 512, ...DEFAULT_JOB }),
  grpo("1M-1x8", { C: 128, H: 4, kvHeads: 4, F: 344, L: 4, V: 512, ...DEFAULT_JOB }),
  grpo("SmolLM2-135M", { C: 576, H: 9, kvHeads: 3, F: 1536, L: 30, V: 49152, ...LARGE_JOB }),
];

/** GPT-2 124M on 8 × 512 tokens, for a GPU; CPUs do not take part. */
const gpt2: Case = step({ B: 8, T: 512, C: 768, H: 12, L: 12, V: 50257 }, "gpt2", {
  name: "gpt2/B8-T512",
  asks: ({ executor }) => executor === "webgpu" || executor === "cuda",
});

export const modelCases = (): Case[] => [
  ...SIZES.map(block),
  ...SIZES.map((shape) => step(shape)),
  trainingForward(4),
  trainingForward(128),
  ...[1, 16, 128].map(decode),
  profile,
  rl,
  ...GRPO_CASES,
  gpt2,
  ...growth(),
];
