/** The figures of every chapter. */
import { GRPO, SICK, WORKERS, WORLD } from "./agents.ts";
import { BEFORE, FORMULA, LADDER, MICRO, TAPE, TRANSFORMER } from "./engine.ts";
import type { Figure } from "./figure.ts";

export const FIGURES: Readonly<Record<string, readonly Figure[]>> = {
  "00-before": BEFORE,
  "00-micro": MICRO,
  "01-tape": TAPE,
  "02-one-formula": FORMULA,
  "03-matmul-ladder": LADDER,
  "04-transformer": TRANSFORMER,
  "05-grpo": GRPO,
  "06-world-model": WORLD,
  "07-many-workers": WORKERS,
  "08-sick-run": SICK,
};
