/** Sizes and rates of the RL loop and its sampler, from `--set rl.…`, `--set rollout.…` or TRL's configuration. */
import type { GrpoTraining } from "../rl/interop/grpoConfig.ts";
import { checkGroupSize, type Objective } from "../rl/methods/objective.ts";
import { usage, UsageError } from "./usage.ts";
import { LOOP, type LoopNumbers, ROLLOUT, type SamplingNumbers, SFT, type SftNumbers } from "./parts.ts";
import { only, TOKENIZER, type TokenizerNumbers } from "./parts.ts";
import type { Settings } from "./shownSettings.ts";

export interface LoopSettings {
  readonly rl: LoopNumbers;
  readonly sft?: SftNumbers;
  readonly tokenizer?: TokenizerNumbers;
  readonly rollout: SamplingNumbers;
}

/** The settings from `--set` and from TRL's configuration. @throws UsageError if both give the same one */
export function loopSettings(set: Settings, trl?: GrpoTraining): LoopSettings {
  const { temperature: _, ...rollout } = set["rollout"] ?? {};
  const rl: LoopNumbers = only(set["rl"] ?? {}, LOOP.fields);
  const { learningRate: lr, rollout: sampling, ...loop } = trl ?? { rollout: {} };
  const given = { rl: { ...loop, ...(lr === undefined ? {} : { lr }) }, rollout: sampling };
  for (const [part, own] of [
    ["rl", rl],
    ["rollout", rollout],
  ] as const) {
    const twice = Object.keys(own).find((name) => Object.hasOwn(given[part], name));
    if (twice !== undefined) {
      throw new UsageError(`--set ${part}.${twice}: --grpo-config says it, too; give one of them`);
    }
  }
  return {
    sft: set["sft"] ?? {},
    tokenizer: set["tokenizer"] ?? {},
    rl: { ...given.rl, ...rl },
    rollout: { ...given.rollout, ...rollout },
  };
}

/** Throws a UsageError with one line if the loop or the sampler cannot have one of these numbers. */
export function checkLoop({ advantage }: Objective, { rl, rollout, sft = {}, tokenizer = {} }: LoopSettings): void {
  usage(() => {
    LOOP.read(only(rl, LOOP.fields));
    ROLLOUT.read(only(rollout, ROLLOUT.fields));
    SFT.read(only(sft, SFT.fields));
    TOKENIZER.read(only(tokenizer, TOKENIZER.fields));
  });
  if (sft.noviceShare === 1 && sft.imitateNovices === false)
    throw new UsageError("--set sft.imitateNovices: with sft.noviceShare=1 there would be nobody to imitate");
  const { labelled, labels, demonstrations = Infinity } = sft;
  if (labelled === undefined && labels !== undefined)
    throw new UsageError("--set sft.labels is about sft.labelled; add --set sft.labelled=N");
  if (labelled !== undefined && labelled >= demonstrations)
    throw new UsageError(
      `--set sft.labelled: expected fewer than sft.demonstrations, ${demonstrations}, as the others are labelled, ` +
        `got ${labelled}`,
    );
  if (labelled !== undefined && sft.thoughts)
    throw new UsageError("--set sft.labelled: labels are actions without thoughts; leave sft.thoughts out");
  if (!sft.general && sft.generalTexts !== undefined)
    throw new UsageError("--set sft.generalTexts is about texts that are learnt; add --set sft.general=0.5");
  if (sft.steps !== undefined && sft.steps <= (sft.warmup ?? 0))
    throw new UsageError(
      `--set sft.steps: expected more than sft.warmup, ${sft.warmup!}, in which the rate rises, got ${sft.steps}`,
    );
  if (rl.groupSize !== undefined) usage(() => checkGroupSize(advantage, rl.groupSize!, "--set rl.groupSize"));
}
