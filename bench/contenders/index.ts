/** The contenders: names, engines, executors and threads. */

export interface Contender {
  readonly name: string;
  /** Engine of the contender; several contenders may be one engine with different settings. */
  readonly engine: "worldgrad" | "plain" | "jax-js" | "tfjs" | "torch" | "trl";
  readonly executor: "wasm" | "webgpu" | "javascript" | "cpu" | "cuda";
  readonly threads: "one" | "all";
  /** Device and mode of torch and TRL. */
  readonly variant?: string;
}

export const CONTENDERS: readonly Contender[] = [
  { name: "worldgrad", engine: "worldgrad", executor: "wasm", threads: "one" },
  { name: "worldgrad-threads", engine: "worldgrad", executor: "wasm", threads: "all" },
  { name: "worldgrad-webgpu", engine: "worldgrad", executor: "webgpu", threads: "all" },
  { name: "plain", engine: "plain", executor: "javascript", threads: "one" },
  { name: "jax-js", engine: "jax-js", executor: "wasm", threads: "one" },
  { name: "jax-js-webgpu", engine: "jax-js", executor: "webgpu", threads: "all" },
  { name: "tfjs", engine: "tfjs", executor: "wasm", threads: "one" },
  { name: "tfjs-webgpu", engine: "tfjs", executor: "webgpu", threads: "all" },
  { name: "torch", engine: "torch", executor: "cpu", threads: "one", variant: "cpu" },
  { name: "torch-threads", engine: "torch", executor: "cpu", threads: "all", variant: "cpu" },
  { name: "torch-cuda", engine: "torch", executor: "cuda", threads: "all", variant: "cuda" },
  { name: "torch-cuda-compiled", engine: "torch", executor: "cuda", threads: "all", variant: "cuda-compiled" },
  { name: "torch-cuda-f16", engine: "torch", executor: "cuda", threads: "all", variant: "cuda-f16" },
  { name: "trl", engine: "trl", executor: "cpu", threads: "one", variant: "cpu" },
  { name: "trl-threads", engine: "trl", executor: "cpu", threads: "all", variant: "cpu" },
];
