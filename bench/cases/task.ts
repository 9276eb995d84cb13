/**
 * Tasks: what can be measured. A task is plain data and goes as JSON to a contender in another process or another
 * language. Each contender makes its inputs with `data.ts` and the seeds given here, and answers with samples of its
 * results.
 */

/**
 * C[b] = op(A[b]) · op(B[b]); A is [batch, M, K], or [batch, K, M] if transA. A = noise(1), B = noise(2). Result: C.
 * `version` names one rung of the ladder of WGSL kernels.
 */
export interface MatmulTask {
  readonly op: "matmul";
  readonly batch: number;
  readonly m: number;
  readonly n: number;
  readonly k: number;
  readonly transA: boolean;
  readonly transB: boolean;
  readonly version?: string;
}

/**
 * A linear layer with frozen weights in 16 or 8 bits: y = x·Wᵀ, x [m, k] = noise(1), W [n, k] = noise(2) in the given
 * form. Result: y, compared with its f64 value for the packed weights.
 */
export interface PackedTask {
  readonly op: "packed";
  readonly m: number;
  readonly n: number;
  readonly k: number;
  readonly format: "f32" | "bf16" | "q8";
}

/**
 * Softmax over the last axis of x [rows, cols] = 3·noise(1). Result: y; with `backward`: dx for the gradient noise(2).
 */
export interface SoftmaxTask {
  readonly op: "softmax";
  readonly rows: number;
  readonly cols: number;
  readonly backward: boolean;
}

/**
 * LayerNorm with ε = 1e-5 of x [rows, cols] = noise(1), gain 1 + noise(3)/4, bias noise(4)/4. Result: y; with
 * `backward`: dx, dgain, dbias for the gradient noise(2).
 */
export interface NormTask {
  readonly op: "norm";
  readonly rows: number;
  readonly cols: number;
  readonly backward: boolean;
}

/**
 * Causal attention, scale 1/√D, q, k, v [B, T, H, D] = 2·noise(1, 2, 3). Result: o; with `backward`: dq, dk, dv for
 * noise(4). `schedule` names a schedule of the WGSL kernels: the backward pass then runs alone, and results are
 * compared at `headPlaces` only.
 */
export interface AttentionTask {
  readonly op: "attention";
  readonly B: number;
  readonly T: number;
  readonly H: number;
  readonly D: number;
  readonly backward: boolean;
  readonly schedule?: string;
}

/**
 * Log-softmax of logits [rows, V] = 4·noise(1) at targets noiseIds(2). Result: lp [rows]; with `backward`: dlogits for
 * noise(3).
 */
export interface LogProbsTask {
  readonly op: "logProbs";
  readonly rows: number;
  readonly V: number;
  readonly backward: boolean;
}

/**
 * GPT-2 (Radford et al. 2019) in f32. Every contender computes exactly this:
 *
 *     x = E[ids] + P[0…T−1]
 *     for each layer:
 *   x += attention(layerNorm(x)) : q, k, v = h·Wqkv + b in thirds, H heads of C/H, causal softmax(q·kᵀ/√(C/H))·v·Wo + b
 *       x += mlp(layerNorm(x))       : gelu_tanh(h·W1 + b)·W2 + b, W1 [C, 4C]
 *     logits = layerNorm(x)·Eᵀ       : the output matrix is the embedding (tied)
 *     loss = mean over B·T of −log softmax(logits)[next id]
 *
 * layerNorm: ε = 1e-5, gain, bias. Weights: √3·0.02·noise(100 + place in the list of parameters), gains 1, biases 0.
 */
export interface GptShape {
  readonly B: number;
  readonly T: number;
  readonly C: number;
  readonly H: number;
  readonly L: number;
  readonly V: number;
}

/**
 * Loss, gradient and AdamW in place: β = 0.9, 0.999, ε = 1e-8, lr 1e-3, decoupled weight decay 0.1 on matrices, no
 * clipping. Step s takes batch s mod 4: ids noiseIds(10 + s mod 4) of [B, T + 1], inputs without the last column,
 * targets without the first. Result: the first four losses.
 */
export interface StepTask extends GptShape {
  readonly op: "step";
}

/** Loss of the model of `StepTask` on its four batches. Result: the four losses. */
export interface ForwardTask extends GptShape {
  readonly op: "forward";
}

/** One block of the model: x = noise(1) [B, T, C], gradient noise(2) of the output. Result: dx, dWqkv. */
export interface BlockTask {
  readonly op: "block";
  readonly B: number;
  readonly T: number;
  readonly C: number;
  readonly H: number;
}

/**
 * Sampling with a cache at temperature 1: B equal prompts of `prompt` tokens, then `tokens` more. Result: the ids of
 * row 0.
 */
export interface DecodeTask extends GptShape {
  readonly op: "decode";
  readonly prompt: number;
  readonly tokens: number;
}

/** One step of RL in `terminal` with the settings of `npm start`, after `warmup` steps of its warm start. */
export interface RlTask {
  readonly op: "rl";
  readonly warmup: number;
}

/**
 * A step of GRPO as a practitioner's script runs it: `groups` prompts, `groupSize` completions each, a reward that is a
 * function of the completion (the share of its ids below V/2), group advantages, the clipped loss, one AdamW update of
 * all parameters. The model is a Llama of the given shape with random weights (standard deviation 0.02, tied output
 * matrix); prompts are `prompt` random ids, completions at most `completion` tokens, sampled at temperature 1. Sampling
 * differs between contenders, so that only amounts are compared: episodes, prompt tokens, parameters. The reward
 * before and after is among the figures.
 */
export interface GrpoTask {
  readonly op: "grpo";
  readonly C: number;
  readonly H: number;
  readonly kvHeads: number;
  readonly F: number;
  readonly L: number;
  readonly V: number;
  readonly groups: number;
  readonly groupSize: number;
  readonly prompt: number;
  readonly completion: number;
  readonly lr: number;
}

/** Time of a training step by op: each program of one step, run alone many times. */
export interface ProfileTask extends GptShape {
  readonly op: "profile";
}

/** Limits of this machine: multiply-adds in WebAssembly SIMD, and memory bandwidth. */
export interface RooflineTask {
  readonly op: "fma" | "bandwidth";
}

export type Task =
  | MatmulTask
  | PackedTask
  | SoftmaxTask
  | NormTask
  | AttentionTask
  | LogProbsTask
  | StepTask
  | ForwardTask
  | BlockTask
  | DecodeTask
  | RlTask
  | GrpoTask
  | ProfileTask
  | RooflineTask;
export type TaskOf<K extends Task["op"]> = Extract<Task, { op: K }>;

/** A parameter of the model. Its place in the list is part of its seed; names are those of `nn/parameters.ts`. */
export interface GptParameter {
  readonly name: string;
  readonly shape: readonly number[];
  readonly kind: "weight" | "one" | "zero";
}

export function gptParameters({ T, C, L, V }: GptShape): GptParameter[] {
  return [
    { name: "embedding", shape: [V, C], kind: "weight" },
    { name: "positions", shape: [T, C], kind: "weight" },
    ...Array.from({ length: L }, (_, n) => blockParameters(C, `layers.${n}.`)).flat(),
    ...normParameters("norm", C),
  ];
}

const normParameters = (name: string, C: number): GptParameter[] => [
  { name: `${name}.weight`, shape: [C], kind: "one" },
  { name: `${name}.bias`, shape: [C], kind: "zero" },
];

export function blockParameters(C: number, path: string): GptParameter[] {
  const linear = (name: string, inputs: number, outputs: number): GptParameter[] => [
    { name: `${path}${name}.weight`, shape: [inputs, outputs], kind: "weight" },
    { name: `${path}${name}.bias`, shape: [outputs], kind: "zero" },
  ];
  return [
    ...normParameters(`${path}inputNorm`, C),
    ...linear("attention.qkv", C, 3 * C),
    ...linear("attention.o", C, C),
    ...normParameters(`${path}postNorm`, C),
    ...linear("mlp.up", C, 4 * C),
    ...linear("mlp.down", 4 * C, C),
  ];
}
