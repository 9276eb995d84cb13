/** Measurements of each step of a run before its update (`StepProbe`, rl/train/step.ts). A new one is a line here. */
import { gradientProbe } from "../methods/gradients.ts";
import { echo } from "../rl/objective/echo.ts";
import type { StepProbe } from "../rl/train/step.ts";
import type { Preset } from "./preset.ts";

/** @param learnsWorld whether the run's method has a world model */
export const probesOf = ({ rl }: Preset, learnsWorld: boolean): readonly StepProbe[] => [
  gradientProbe({
    every: rl.gradEvery,
    shares: rl.gradShares,
    // Without a world model, the policy's gradient is compared with ECHO's at weight 1, so that runs with and without
    // ECHO have the same metrics.
    world: learnsWorld ? undefined : echo({ lambda: 1 }),
  }),
];
