/** The memory of a run that begins with a model from a folder, before the model is loaded: a line of `npm start`. */
import type { Device } from "../../engine/index.ts";
import { MAX_BATCH_TOKENS } from "../experiment.ts";
import { loraOptionsOf } from "../adapter.ts";
import type { Preset } from "../preset.ts";
import type { ModelConfig } from "../../nn/index.ts";
import { memoryLine, placeOn } from "../node/modelMemory.ts";
import { rowsAtOnce } from "../../rl/play/rollout.ts";
import { rlStepMemory } from "./promptSteps.ts";

/**
 * The number of tokens that are drawn when memory is counted: each takes as much as the last, so the rest may be a
 * prompt.
 */
const DRAWN = 16;

/**
 * The line; none on the reference executor. It counts a step on episodes of the largest length, as many as are played
 * at once, and at least those of two micro-batches.
 */
export async function runMemory(config: ModelConfig, preset: Preset, { kind }: Device): Promise<string | undefined> {
  if (kind === "reference") return undefined;
  const { rl, lora, pretrained, model } = preset;
  const { maxBatchTokens = MAX_BATCH_TOKENS, gradientCheckpointing = false } = rl;
  const room = model.maxPositions;
  const completion = Math.min(DRAWN, Math.floor(room / 4));
  const needed = Math.max(rowsAtOnce(config, room, 4), 2 * Math.ceil(maxBatchTokens / room));
  const counted = await rlStepMemory(config, {
    groups: 1,
    groupSize: Math.max(2, Math.min(needed, rl.groups * rl.groupSize)),
    prompt: room - completion - 1,
    completion,
    maxBatchTokens,
    gradientCheckpointing,
    trains: lora === undefined ? "all" : { lora: loraOptionsOf(lora) },
    storage: pretrained?.storage ?? "f32",
    ...placeOn(kind),
  });
  const trained = lora === undefined ? "all weights" : `an adapter on weights in ${pretrained?.storage ?? "f32"}`;
  const what = `a step on episodes of up to ${room.toLocaleString("en")} tokens that trains ${trained}`;
  return memoryLine(config, kind, what, counted);
}
