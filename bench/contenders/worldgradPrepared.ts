/** Tasks on worldgrad whose work is a function of kept tensors. */
import { type Device, scope, type Tensor } from "../../engine/index.ts";
import { sample } from "../data.ts";
import type { Prepared } from "./engine.ts";

export async function finished(on: Device): Promise<void> {
  await on.synchronize();
}

/** A task whose `work` reads `inputs`, which are freed with it. */
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
