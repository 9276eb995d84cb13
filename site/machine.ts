/** Sentences about the browser: what it lacks for training, and the threads that each agent gets. */

/** The part of a browser that matters here; tests hand in their own. */
export interface Surroundings {
  readonly WebAssembly?: { validate(bytes: Uint8Array<ArrayBuffer>): boolean } | undefined;
  readonly Worker?: unknown;
  readonly navigator: {
    readonly gpu?: { requestAdapter(): Promise<object | null> } | undefined;
    readonly hardwareConcurrency: number;
  };
  readonly crossOriginIsolated?: boolean;
}

/** A module with one function that returns a v128: (i32.const 0) (i8x16.splat) (drop). */
const SIMD = [0, 97, 115, 109, 1, 0, 0, 0, 1, 4, 1, 96, 0, 0, 3, 2, 1, 0, 10, 9, 1, 7, 0, 65, 0, 253, 15, 26, 11];

/** @returns a sentence about what an experiment on this executor lacks; null if nothing is missing */
export async function missingFor(device: "wasm" | "webgpu", here: Surroundings): Promise<string | null> {
  if (here.Worker === undefined) return "This browser has no workers, in which agents are trained.";
  if (device === "wasm") {
    if (here.WebAssembly === undefined)
      return "This browser has no WebAssembly: choose the executor webgpu, or another browser.";
    const hasSimd = here.WebAssembly.validate(new Uint8Array(SIMD));
    return hasSimd
      ? null
      : "The WebAssembly of this browser has no SIMD, which the kernels need: choose another browser.";
  }
  const { gpu } = here.navigator;
  if (gpu === undefined)
    return "This browser has no WebGPU (or the page does not come from https or localhost): choose the executor wasm.";
  const adapter = await gpu.requestAdapter().catch(() => null);
  return adapter === null ? "This browser has WebGPU, but no GPU for it: choose the executor wasm." : null;
}

/** A sentence about the threads of each of so many agents. */
export function threadsInWords(agents: number, { navigator, crossOriginIsolated }: Surroundings): string {
  const share = Math.max(1, Math.floor(navigator.hardwareConcurrency / agents));
  if (crossOriginIsolated) return `Each agent has ${share} of ${navigator.hardwareConcurrency} processors.`;
  return "Each agent has one thread, because the page is not cross-origin isolated (no COOP and COEP in its headers).";
}
