/** Shared by all tasks on tfjs: the part of its API that they use, LayerNorm, attention, and a tidied task. */
import { sample } from "../data.ts";
import type { Prepared } from "./engine.ts";

export interface TfTensor {
  readonly shape: number[];
  add(x: TfTensor): TfTensor;
  sub(x: TfTensor): TfTensor;
  mul(x: TfTensor | number): TfTensor;
  div(x: TfTensor | number): TfTensor;
  reshape(shape: readonly number[]): TfTensor;
  transpose(axes: readonly number[]): TfTensor;
  data(): Promise<Float32Array>;
  dispose(): void;
}
export interface TfVariable extends TfTensor {
  readonly name: string;
  assign(x: TfTensor): void;
}
export interface Tf {
  tensor(values: Float32Array | Int32Array, shape: readonly number[], dtype?: string): TfTensor;
  variable(x: TfTensor, trainable?: boolean, name?: string): TfVariable;
  scalar(x: number): TfTensor;
  tidy<T>(f: () => T): T;
  keep<T extends TfTensor>(x: T): T;
  matMul(a: TfTensor, b: TfTensor, transA?: boolean, transB?: boolean): TfTensor;
  transpose(x: TfTensor): TfTensor;
  readonly fused: { matMul(operands: { a: TfTensor; b: TfTensor; bias: TfTensor }): TfTensor };
  getBackend(): string;
  split(x: TfTensor, parts: number, axis: number): TfTensor[];
  mean(x: TfTensor, axis?: number, keep?: boolean): TfTensor;
  sum(x: TfTensor, axis?: number): TfTensor;
  slice(x: TfTensor, begin: readonly number[], size: readonly number[]): TfTensor;
  square(x: TfTensor): TfTensor;
  rsqrt(x: TfTensor): TfTensor;
  tanh(x: TfTensor): TfTensor;
  softmax(x: TfTensor): TfTensor;
  logSoftmax(x: TfTensor): TfTensor;
  where(condition: TfTensor, x: TfTensor, y: TfTensor): TfTensor;
  oneHot(ids: TfTensor, depth: number): TfTensor;
  variableGrads(f: () => TfTensor, variables?: TfVariable[]): { value: TfTensor; grads: Record<string, TfTensor> };
  grads(f: (...x: TfTensor[]) => TfTensor): (x: TfTensor[], dy?: TfTensor) => TfTensor[];
  readonly train: {
    adam(lr: number, b1: number, b2: number, eps: number): { applyGradients(g: Record<string, TfTensor>): void };
  };
  setBackend(name: string): Promise<boolean>;
  ready(): Promise<void>;
  memory(): { readonly numBytes: number };
  env(): { set(flag: string, value: boolean | number): void };
}
/**
 * A product of transposed matrices. On WebAssembly tfjs multiplies plain matrices with XNNPACK, and transposed ones
 * with a loop nest that is up to 20 times slower, so this transposes them first. The gradients that tfjs itself has for
 * a product do not.
 */
export function product(tf: Tf, a: TfTensor, b: TfTensor, transA: boolean, transB: boolean): TfTensor {
  if (tf.getBackend() !== "wasm" || a.shape.length !== 2) return tf.matMul(a, b, transA, transB);
  return tf.matMul(transA ? tf.transpose(a) : a, transB ? tf.transpose(b) : b);
}

export function layerNorm(tf: Tf, x: TfTensor, gain: TfTensor, bias: TfTensor): TfTensor {
  const centred = x.sub(tf.mean(x, -1, true));
  const variance = tf.mean(tf.square(centred), -1, true);
  return centred
    .mul(tf.rsqrt(variance.add(tf.scalar(1e-5))))
    .mul(gain)
    .add(bias);
}

/** The lower triangle [T, T], and a large negative number outside it. */
export interface Mask {
  readonly causal: TfTensor;
  readonly outside: TfTensor;
}
export function maskFor(tf: Tf, T: number): Mask {
  const causal = Int32Array.from({ length: T * T }, (_, i) => Number(i % T <= Math.floor(i / T)));
  return { causal: tf.tensor(causal, [T, T], "bool"), outside: tf.tensor(Float32Array.of(-1e9), [1, 1]) };
}

/** Causal attention; q, k, v and the result are [B, T, H, D]. */
export function attention(tf: Tf, q: TfTensor, k: TfTensor, v: TfTensor, mask: Mask): TfTensor {
  const heads = (x: TfTensor): TfTensor => x.transpose([0, 2, 1, 3]);
  const scores = tf.matMul(heads(q), heads(k), false, true).mul(1 / Math.sqrt(q.shape[3]!));
  const weights = tf.softmax(tf.where(mask.causal, scores, mask.outside));
  return heads(tf.matMul(weights, heads(v)));
}

/** A task that computes new tensors from kept inputs. */
export function preparedTf(tf: Tf, inputs: readonly TfTensor[], make: () => TfTensor[]): Prepared {
  let last: TfTensor[] = [];
  const call = (): TfTensor[] => {
    for (const x of last) x.dispose();
    return (last = tf.tidy(make));
  };
  return {
    async check() {
      const samples: number[] = [];
      for (const result of call()) samples.push(...sample(await result.data()));
      return samples;
    },
    run: () => void call(),
    finish: async () => {
      // WebAssembly has finished by now. WebGPU works in order, so reading one element of the last result waits for
      // all.
      await tf.tidy(() => tf.slice(last[0]!.reshape([-1]), [0], [1])).data();
    },
    dispose: () => [...inputs, ...last].forEach((x) => x.dispose()),
  };
}
