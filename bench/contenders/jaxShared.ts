/**
 * Shared by all tasks on jax-js: the part of its API that they use, arrays from numbers, LayerNorm, and a task under
 * `jit`.
 */
import { sample } from "../data.ts";
import type { Prepared } from "./engine.ts";

export interface Arr {
  readonly ref: Arr;
  readonly shape: number[];
  add(x: Arr | number): Arr;
  sub(x: Arr | number): Arr;
  mul(x: Arr | number): Arr;
  div(x: Arr | number): Arr;
  reshape(shape: readonly number[]): Arr;
  dispose(): void;
  blockUntilReady(): Promise<Arr>;
  data(): Promise<Float32Array>;
}
interface Keep {
  readonly keepdims: boolean;
}
export type Fn = (...args: never[]) => unknown;
export interface Jax {
  readonly numpy: {
    array(values: Float32Array | Int32Array, options: { shape: readonly number[]; dtype: string }): Arr;
    mean(x: Arr, axis?: number, options?: Keep): Arr;
    sum(x: Arr, axis?: number): Arr;
    sqrt(x: Arr): Arr;
    matmul(a: Arr, b: Arr): Arr;
    matrixTranspose(a: Arr): Arr;
    split(a: Arr, parts: number, axis: number): [Arr, Arr, Arr];
    readonly float32: string;
    readonly int32: string;
  };
  readonly nn: {
    gelu(x: Arr): Arr;
    softmax(x: Arr, axis: number): Arr;
    logSoftmax(x: Arr, axis: number): Arr;
    oneHot(ids: Arr, depth: number): Arr;
    dotProductAttention(q: Arr, k: Arr, v: Arr, options: { isCausal: boolean }): Arr;
  };
  jit<F extends Fn>(f: F): F;
  valueAndGrad<F extends Fn>(f: F, options?: { argnums?: number }): (...args: Parameters<F>) => [Arr, Parameters<F>[0]];
  grad<F extends Fn>(f: F): (...args: Parameters<F>) => Parameters<F>[0];
  blockUntilReady<T>(x: T): Promise<T>;
  init(device: string): Promise<string[]>;
  defaultDevice(device: string): string;
}

export const floats = ({ numpy: np }: Jax, values: Float32Array, shape: readonly number[]): Arr =>
  np.array(values, { shape, dtype: np.float32 });
export const integers = ({ numpy: np }: Jax, values: Int32Array, shape: readonly number[]): Arr =>
  np.array(values, { shape, dtype: np.int32 });

export function layerNorm({ numpy: np }: Jax, x: Arr, gain: Arr, bias: Arr): Arr {
  const centred = x.ref.sub(np.mean(x, -1, { keepdims: true }));
  const variance = np.mean(centred.ref.mul(centred.ref), -1, { keepdims: true });
  return centred
    .div(np.sqrt(variance.add(1e-5)))
    .mul(gain)
    .add(bias);
}

/** A task that computes new arrays from kept inputs. Each call is awaited, because jax-js computes only then. */
export function preparedJax(
  jax: Jax,
  inputs: readonly Arr[],
  make: (...x: Arr[]) => Arr[],
  compared = (results: Arr[]): Arr[] => results,
): Prepared {
  const work = jax.jit(make);
  const call = (): Arr[] => work(...inputs.map((x) => x.ref));
  return {
    async check() {
      const samples: number[] = [];
      for (const result of compared(call())) samples.push(...sample(await result.data()));
      return samples;
    },
    run: async () => {
      const results = call();
      await jax.blockUntilReady(results);
      for (const result of results) result.dispose();
    },
    dispose: () => inputs.forEach((x) => x.dispose()),
  };
}
