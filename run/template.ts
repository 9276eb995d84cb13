/** The chat template of a run, and the limit on its agent's text. */
import type { Tokenizer } from "../nn/index.ts";
import { templateOf } from "../data/history.ts";
import type { Template } from "../rl/episode/template.ts";
import type { FromSettings, Preset } from "./preset.ts";

/** The largest number of tokens that the agent can write in an episode. */
export const longestCompletion = ({ rollout, model }: Preset): number =>
  Math.min(model.maxPositions, rollout.maxTurns * rollout.maxActionTokens);

/**
 * The tags around an action that has a thought before it, unless a pretrained model has tags of its own. Each is one
 * byte and therefore a token in every vocabulary.
 */
const ACTION_TAGS = ["[", "]"] as const;

/** The chat template of a run. */
export const templateFor = (
  { sft, pretrained, from, history }: Pick<Preset, "sft" | "pretrained" | "from" | "history">,
  tokenizer: Tokenizer,
): Template => {
  const { format, ends = [], thought }: Partial<FromSettings> = pretrained ?? from ?? {};
  return templateOf(tokenizer, {
    ...(thought ? { thought } : sft.thoughts ? { action: ACTION_TAGS } : {}),
    ...(format ? { format, ends } : {}),
    ...(history ? { history } : {}),
  });
};
