/** The check of a teacher (`Preset.teacher`) against the model that learns from it. */
import { treeLeaves } from "../engine/index.ts";
import type { Model, Tokenizer } from "../nn/index.ts";
import type { ModelWithTokenizer } from "./modelFiles.ts";
import type { Preset } from "./preset.ts";
import { UsageError } from "./usage.ts";

/** The teacher's model. @throws UsageError, and frees it, if it cannot read what the run's model reads */
export function fittingTeacher({ model, tokenizer }: ModelWithTokenizer, own: Tokenizer, preset: Preset): Model {
  const isSame = JSON.stringify(own.toJSON()) === JSON.stringify(tokenizer.toJSON());
  const [needed, most] = [preset.model.maxPositions, model.config.maxPositions];
  if (isSame && most >= needed) return model;
  for (const x of treeLeaves(model.params)) x.dispose();
  throw new UsageError(
    `--teacher ${preset.teacher!.path}: ` +
      (isSame
        ? `it reads ${most} tokens at most, and an episode may have ${needed} (--set rollout.maxTokens=${most})`
        : "it has another tokenizer than the run's model, and the two are compared token by token"),
  );
}
