/**
 * Arms of the comparison: the method of each, its training by `trainRl`, and figures of the model before and after. The
 * arms of a seed share initial weights and the order of tasks, and write the held-out stories with equal random
 * numbers.
 *
 * GRPO: Shao et al. 2024, arXiv 2402.03300; k3: Schulman 2020, "Approximating KL divergence"; LoRA: Hu et al. 2021,
 * arXiv 2106.09685.
 */
import { type Device, Rng } from "../../engine/index.ts";
import { addLora, disposeLora, isLora } from "../../pretrained/index.ts";
import { AdamW, type Model, schedule, trainableOf } from "../../nn/index.ts";
import { type AdvantageEstimator, grpo, rollout, trainRl, type Template, type Trajectory } from "../../rl/index.ts";
import { objectiveOf } from "../../methods/index.ts";
import { groupBy } from "../../rl/episode/groups.ts";
import { klEstimate } from "../../rl/objective/kl.ts";
import { tokenStatistics } from "../../rl/train/score.ts";
import { mean } from "../../run/figures/statistics.ts";
import * as tell from "./tell.ts";

/** Size of a run. */
export interface Settings {
  readonly steps: number;
  /** Tasks per step, and episodes of each. */
  readonly groups: number;
  readonly groupSize: number;
  /** Number of stories asked for each held-out word. */
  readonly times: number;
}
export const SETTINGS: Settings = { steps: 24, groups: 4, groupSize: 8, times: 4 };

/** An arm: what differs from GRPO with all weights. */
interface Arm {
  /** Coefficient β of the k3 penalty in the loss. */
  readonly beta?: number;
  readonly lora?: true;
  /** Control: rewards are permuted at random within each group. */
  readonly shuffled?: true;
}
export const CONTROL = "control: rewards shuffled, β = 0";
export const ARMS: Readonly<Record<string, Arm>> = {
  "GRPO, all weights": { beta: 0.1 },
  "GRPO, all weights, β = 0": {},
  "GRPO, LoRA": { beta: 0.1, lora: true },
  [CONTROL]: { shuffled: true },
};
/** Name of the pretrained model before RL, in results and tables. */
export const START = "before";
/**
 * Learning rates, chosen on seed 100: at 1e-3 the model forgot its English within 20 steps. An adapter needs a larger
 * one.
 */
const RATES = { all: 3e-4, lora: 2e-3 };
const LORA = { r: 8, loraAlpha: 16, targetModules: "all-linear" } as const;
const ROLLOUT = { maxTurns: 1, maxActionTokens: 64 };

/** A line of the results. */
export interface RunRecord {
  readonly arm: string;
  readonly seed: number;
  readonly settings: Settings;
  readonly figures: Readonly<Record<string, number>>;
  /** Mean reward of each step. */
  readonly curve: readonly number[];
  /** Stories of the first held-out tasks, in equal order for all arms of a seed. */
  readonly samples: readonly { readonly task: string; readonly text: string }[];
  readonly seconds: number;
}

/** Shared by all runs of a process. */
export interface Common {
  readonly device: Device;
  readonly start: Model;
  readonly texts: tell.HeldOutTexts;
}

/** GRPO with the rewards of each group permuted at random: equal advantages, and nothing to learn. */
export function shuffledGrpo(rng: Rng): AdvantageEstimator {
  const estimator = grpo();
  let call = 0;
  return {
    name: "grpo",
    estimate(trajectories) {
      const draw = rng.split(call++);
      const rewards = new Map<Trajectory, number>();
      for (const members of groupBy(trajectories, ({ group }) => group)) {
        const left = members.map(({ reward }) => reward);
        for (const member of members) rewards.set(member, left.splice(draw.int(left.length), 1)[0]!);
      }
      return estimator.estimate(trajectories.map((t) => ({ ...t, reward: rewards.get(t)! })));
    },
  };
}

/** Trains an arm and measures it. `START` measures the pretrained model. */
export async function runArm(common: Common, name: string, seed: number, settings = SETTINGS): Promise<RunRecord> {
  const began = performance.now();
  const { beta = 0, lora, shuffled } = ARMS[name] ?? {};
  const rng = new Rng(seed).split("tell");
  const model = lora ? addLora(common.start, LORA, rng.split("lora")) : tell.startModel(common.device);
  const template = tell.storyTemplate();
  const curve: number[] = [];
  try {
    if (name !== START) {
      const optimizer = new AdamW(trainableOf(model).params, { clipNorm: 1, weightDecay: 0 });
      const { steps, groups, groupSize } = settings;
      const objective = objectiveOf({ method: "grpo", ...(beta > 0 ? { kl: { beta, estimator: "k3" } } : {}) });
      const reports = trainRl({
        model,
        template,
        optimizer,
        reference: common.start,
        objective: shuffled ? { ...objective, advantage: shuffledGrpo(rng.split("shuffled")) } : objective,
        env: tell.story,
        envOptions: { split: "train" },
        rollout: ROLLOUT,
        reward: (t) => tell.judge(tell.toldIn(t, template)),
        steps,
        groups,
        groupSize,
        lr: schedule({ lr: lora ? RATES.lora : RATES.all, warmup: Math.min(5, steps - 1) }),
        rng: rng.split("training"),
      });
      for await (const { metrics } of reports) curve.push(metrics["reward"]!);
      optimizer.dispose();
    }
    const measured = await measure(common, model, template, rng.split("held out"), settings.times);
    return { arm: name, seed, settings, ...measured, curve, seconds: (performance.now() - began) / 1000 };
  } finally {
    if (isLora(model)) disposeLora(model);
    else tell.disposeModel(model);
  }
}

async function measure(
  { start, texts }: Common,
  model: Model,
  template: Template,
  rng: Rng,
  times: number,
): Promise<Pick<RunRecord, "figures" | "samples">> {
  const options = { split: "heldout" as const };
  const asked = tell.heldOutSeeds(times).map((seed, i) => ({
    spec: tell.story,
    options,
    seed,
    group: i,
    rng: rng.split(i),
  }));
  const played = await rollout(model, template, asked, ROLLOUT);
  const told = played.map((t) => tell.toldIn(t, template));
  const judged = told.map((t) => tell.judge(t));
  const parts = ["again", "ends", "whole", "fresh"];
  return {
    figures: {
      reward: mean(judged.map(({ reward }) => reward)),
      "all four": mean(judged.map(({ reward }) => Number(reward === 1))),
      ...Object.fromEntries(parts.map((part) => [part, mean(judged.map((one) => one.parts[part]!))])),
      "words a story": mean(told.map(({ text }) => text.split(/\s+/).filter(Boolean).length)),
      "uses of the word": mean(told.map(tell.usesOf)),
      "shared sentences": tell.sharedSentences(told),
      "KL to start": await klToStart(model, start, template, played),
      "ppl, own stories": await tell.perplexity(model, texts.own),
      "ppl, by hand": await tell.perplexity(model, texts.byHand),
    },
    samples: played.slice(0, 3).map(({ stream, task }) => ({
      task,
      text: template.tokenizer.decode(stream.ids, { specials: "skip" }).slice(task.length),
    })),
  };
}

/** Mean of k3 over the sampled tokens: an estimate of KL(model ‖ start) in nats per token. */
async function klToStart(
  model: Model,
  reference: Model,
  template: Template,
  played: readonly Trajectory[],
): Promise<number> {
  const names = ["logProbs", "refLogProbs"] as const;
  const statistics = await tokenStatistics({ model, reference }, names, played, { padId: template.padId });
  const k3 = statistics.logProbs!.flatMap((row, i) =>
    [...row].flatMap((lp, t) => (Number.isNaN(lp) ? [] : [klEstimate("k3", lp, statistics.refLogProbs![i]![t]!)])),
  );
  return mean(k3);
}
