/** The choice of a run's checkpoint: the newest, the best, or that of a step. */
import { bestOf } from "../best.ts";
import type { Checkpoint } from "../runStore.ts";
import { UsageError } from "../usage.ts";
import type { RunFolder } from "./runFolder.ts";

/**
 * Reads the checkpoint of a run that has this name.
 * @param flag that named the run
 * @throws UsageError in one line if there is none
 */
export function checkpointNamed(flag: string, folder: RunFolder, name = "newest"): Checkpoint {
  const steps = folder.listCheckpoints();
  if (steps.length === 0) throw new UsageError(`--${flag}: ${folder.path} has no checkpoint yet`);
  if (name === "newest") return folder.loadLatestCheckpoint()!;
  const best = name === "best" ? bestOf(folder.readMetrics(), steps)?.step : undefined;
  const step = best ?? (/^\d+$/.test(name) ? Number(name) : undefined);
  if (step !== undefined && steps.includes(step)) return folder.loadCheckpoint(step);
  const found =
    name === "best"
      ? "none of its checkpoints has been evaluated"
      : `got "${name}"; it has those of ${steps.join(", ")}`;
  throw new UsageError(`--checkpoint: expected newest, best, or the step of a checkpoint of ${folder.path}, ${found}`);
}
