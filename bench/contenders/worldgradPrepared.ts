/** A task on worldgrad that makes tensors from tensors. */
import { type Device, scope, type Tensor } from "../../engine/index.ts";
import { sample } from "../data.ts";
import type { Prepared } from "./engine.ts";

/** Resolves when all enqueued work is done. */
export async function finished(on: Device): Promise<void> {
  await on.synchronize();
}

/** A task that makes tensors from tensors. */
export function prepared(on: Device, work: () => readonly Tensor[], inputs: readonly Tensor[]): Prepared {
  return {
    async check() {
      const results = scope(work, "bench");
      const samples: number[] = [];
      for (const result of results) samples.push(...sample(await result.read()));
      for (const result of results) result.dispose();
      return samples;
    },
    run: () => void scope(() => void work(), "bench"),
    finish: () => finished(on),
    dispose: () => inputs.forEach((x) => x.dispose()),
  };
}
