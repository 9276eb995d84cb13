/** The toy world for rollout threads whose memory is smaller than a model (`threadWorkers({ module })`). */
import type { ServeOptions } from "../../distribute/async/serve.ts";
import { SMALL_MEMORY } from "./smallMemory.ts";
import { rollouts as plain } from "./toyRollouts.ts";

export const rollouts: ServeOptions = { ...plain, device: { kind: "wasm", options: { maxBytes: SMALL_MEMORY } } };
