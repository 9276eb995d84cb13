/** Sizes and rates of the RL loop and of its sampler, where `--set rl.…`, `--set rollout.…` or TRL's configuration say them. */
import { checkSampling } from "../../nn/sampler.ts";
import type { GrpoTraining } from "../../rl/interop/grpoConfig.ts";
import type { Objective } from "../../rl/methods/objective.ts";
import { UsageError } from "../flags.ts";
import type { Settings } from "./settings.ts";

interface LoopNumbers {
  readonly iterations?: number;
  readonly gradEvery?: number;
  readonly groups?: number;
  readonly groupSize?: number;
  readonly lr?: number;
  readonly warmup?: number;
  readonly clipNorm?: number;
  readonly weightDecay?: number;
}
interface SamplingNumbers {
  readonly temperature?: number;
  readonly topK?: number;
  readonly topP?: number;
  readonly minP?: number;
  readonly maxTurns?: number;
  readonly maxActionTokens?: number;
  readonly maxObservationTokens?: number;
}
/** Of the warm start. */
interface SftNumbers {
  readonly loss?: "sft" | "dft";
  readonly demonstrations?: number;
  readonly noviceShare?: number;
  readonly imitateNovices?: boolean;
  readonly thoughts?: boolean;
  readonly observationWeight?: number;
  readonly steps?: number;
  readonly batchSize?: number;
  readonly lr?: number;
  readonly warmup?: number;
}
interface TokenizerNumbers {
  readonly vocabSize?: number;
  readonly corpusEpisodes?: number;
  readonly novices?: boolean;
}
export interface LoopSettings {
  readonly rl: LoopNumbers;
  readonly sft?: SftNumbers;
  readonly tokenizer?: TokenizerNumbers;
  readonly rollout: SamplingNumbers;
}

const RL = ["iterations", "gradEvery", "groups", "groupSize", "lr", "warmup", "clipNorm", "weightDecay"] as const;

/** @throws UsageError if both say one thing */
export function loopSettings(set: Settings, trl?: GrpoTraining): LoopSettings {
  const { temperature: _, ...rollout } = set["rollout"] ?? {};
  const rl = Object.fromEntries(
    RL.flatMap((name) => (set["rl"]?.[name] === undefined ? [] : [[name, set["rl"][name]]])),
  );
  const { learningRate: lr, rollout: sampling, ...loop } = trl ?? { rollout: {} };
  const given = { rl: { ...loop, ...(lr === undefined ? {} : { lr }) }, rollout: sampling };
  for (const [part, own] of [["rl", rl], ["rollout", rollout]] as const) {
    const twice = Object.keys(own).find((name) => Object.hasOwn(given[part], name));
    if (twice !== undefined) throw new UsageError(`--set ${part}.${twice}: --grpo-config says it, too; give one of them`);
  } // prettier-ignore
  return {
    sft: set["sft"] ?? {},
    tokenizer: set["tokenizer"] ?? {},
    rl: { ...given.rl, ...rl },
    rollout: { ...given.rollout, ...rollout },
  };
}

/** Estimators that compare the episodes of a group: one alone teaches them nothing. */
const NEED_GROUPS: ReadonlySet<string> = new Set(["grpo", "centred", "rloo", "opo", "max_rl", "pass_at_k", "gpg", "gdpo", "reinforce++-baseline", "optimal_token_baseline", "gigpo", "milestone"]); // prettier-ignore

/** @throws UsageError with one line on a number that the loop or the sampler cannot have */
export function checkLoop({ advantage }: Objective, { rl, rollout, sft = {}, tokenizer = {} }: LoopSettings): void {
  const least = (part: string, values: object, names: readonly string[], low: number): void => {
    for (const [name, value] of Object.entries(values) as [string, unknown][]) {
      if (!names.includes(name)) continue;
      const isWhole = low === 1;
      if (typeof value === "number" && Number.isFinite(value) && value >= low && (!isWhole || Number.isInteger(value))) continue; // prettier-ignore
      throw new UsageError(
        `--set ${part}.${name}: expected ${isWhole ? "an integer ≥ 1" : `a number ≥ ${low}`}, got ${String(value)}`,
      );
    }
  };
  least("rl", rl, ["iterations", "groups", "groupSize"], 1);
  least("rollout", rollout, ["maxTurns", "maxActionTokens", "maxObservationTokens"], 1);
  least("tokenizer", tokenizer, ["vocabSize", "corpusEpisodes"], 1);
  least("sft", sft, ["demonstrations", "steps", "batchSize"], 1);
  least("sft", sft, ["noviceShare", "observationWeight", "lr", "warmup"], 0);
  if ((sft.noviceShare ?? 0) > 1)
    throw new UsageError(`--set sft.noviceShare: expected a share, got ${sft.noviceShare!}`);
  if (sft.noviceShare === 1 && sft.imitateNovices === false)
    throw new UsageError("--set sft.imitateNovices: with sft.noviceShare=1 there would be nobody to imitate");
  least("rl", rl, ["lr", "warmup", "clipNorm", "weightDecay"], 0);
  const { gradEvery = 0 } = rl;
  if (!Number.isInteger(gradEvery) || gradEvery < 0)
    throw new UsageError(`--set rl.gradEvery: expected an integer ≥ 0 (0: never), got ${gradEvery}`);
  for (const [part, { lr, warmup }] of [["rl", rl], ["sft", sft]] as const) {
    if (lr === 0) throw new UsageError(`--set ${part}.lr: expected a number > 0, got 0`);
    if (!Number.isInteger(warmup ?? 0)) throw new UsageError(`--set ${part}.warmup: expected an integer ≥ 0, got ${warmup!}`);
  } // prettier-ignore
  if (sft.steps !== undefined && sft.steps <= (sft.warmup ?? 0))
    throw new UsageError(`--set sft.steps: expected more than sft.warmup, ${sft.warmup!}, in which the rate rises, got ${sft.steps}`); // prettier-ignore
  if (rl.clipNorm === 0) throw new UsageError("--set rl.clipNorm: expected a number > 0, got 0");
  if (rl.groupSize === 1 && NEED_GROUPS.has(advantage.name)) {
    throw new UsageError(
      `--set rl.groupSize=1: the advantage ${advantage.name} compares the episodes of a group, which needs at least 2`,
    );
  }
  const { temperature, topK, topP, minP } = rollout;
  try {
    checkSampling({
      ...(temperature === undefined ? {} : { temperature }),
      ...(topK === undefined ? {} : { topK }),
      ...(topP === undefined ? {} : { topP }),
      ...(minP === undefined ? {} : { minP }),
    });
  } catch (error) {
    throw new UsageError(
      `--set rollout: ${error instanceof Error ? error.message.replace(/^sampling: /, "") : String(error)}`,
    );
  }
}
