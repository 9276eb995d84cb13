/**
 * What is compared: the method of each arm, its training by `trainRl`, and the figures of the model before and after.
 * The arms of a seed have the same weights at the start, the same tasks in the same order, and are asked for the same
 * held-out stories with the same random numbers.
 *
 * GRPO: Shao et al. 2024, arXiv 2402.03300; k3: Schulman 2020, "Approximating KL divergence"; LoRA: Hu et al. 2021,
 * arXiv 2106.09685; ECHO: arXiv 2605.24517.
 */
import { type Device, Rng } from "../../engine/index.ts";
import { addLora, disposeLora, isLora } from "../../pretrained/index.ts";
import { AdamW, type Model, schedule, trainableOf } from "../../nn/index.ts";
import {
  type AdvantageEstimator,
  echo,
  grpo,
  type Objective,
  rollout,
  trainRl,
  type RolloutOptions,
  type Template,
  type Trajectory,
  worldModelLoss,
} from "../../rl/index.ts";
import { objectiveOf } from "../../methods/index.ts";
import { groupBy } from "../../rl/episode/groups.ts";
import { klEstimate } from "../../rl/objective/kl.ts";
import { tokenStatistics } from "../../rl/train/score.ts";
import type { EnvironmentSpec } from "../../environments/index.ts";
import { mean } from "../../run/figures/statistics.ts";
import { castOf, HELD_OUT_COMPANIES, TURNS } from "./cast.ts";
import { dialogueTemplate, disposeModel, type HeldOutTexts, perplexity, startModel, storyTemplate } from "./model.ts";
import { heldOutSeeds, judge, sharedSentences, story, toldIn, usesOf } from "./tell.ts";

export type Job = "tell" | "cast";

/** How large a run is. */
export interface Settings {
  readonly steps: number;
  /** Tasks per step, and episodes of each. */
  readonly groups: number;
  readonly groupSize: number;
  /** How often each held-out word is asked for, and each held-out company. */
  readonly times: number;
}
export const SETTINGS: Readonly<Record<Job, Settings>> = {
  tell: { steps: 24, groups: 4, groupSize: 8, times: 4 },
  cast: { steps: 16, groups: 4, groupSize: 8, times: 1 },
};

/** An arm; what is not said is as in plain GRPO with all weights. */
export interface Arm {
  /** β of the penalty k3 in the loss. */
  readonly beta?: number;
  readonly lora?: true;
  /** Control: every reward is given to another episode of its group. */
  readonly shuffled?: true;
  /** λ of ECHO, and whether the world says the truth. */
  readonly lambda?: number;
  readonly told?: "meaningless";
}
const BETA = 0.1;
export const ARMS: Readonly<Record<Job, Readonly<Record<string, Arm>>>> = {
  tell: {
    "GRPO, all weights": { beta: BETA },
    "GRPO, all weights, β = 0": { beta: 0 },
    "GRPO, LoRA": { beta: BETA, lora: true },
    "control: rewards shuffled, β = 0": { beta: 0, shuffled: true },
  },
  cast: {
    GRPO: {},
    "GRPO + ECHO": { lambda: 0.5 },
    "control: ECHO on meaningless sentences": { lambda: 0.5, told: "meaningless" },
  },
};
/** The name of the model before any training, in results and tables. */
export const START = "before";
/** Chosen on seed 100: at 1e-3 `tell` forgot its English within 20 steps. An adapter wants a larger one. */
const RATES: Readonly<Record<Job, number>> = { tell: 3e-4, cast: 1e-3 };
const LORA_RATE = 2e-3;
const LORA = { r: 8, loraAlpha: 16, targetModules: "all-linear" } as const;

const ROLLOUT: Readonly<Record<Job, RolloutOptions>> = {
  tell: { maxTurns: 1, maxActionTokens: 64 },
  cast: { maxTurns: TURNS, maxActionTokens: 24 },
};

/** One line of the results. */
export interface RunRecord {
  readonly job: Job;
  readonly arm: string;
  readonly seed: number;
  readonly settings: Settings;
  /** By name; which ones there are depends on the job. */
  readonly figures: Readonly<Record<string, number>>;
  /** The mean reward of each step's episodes. */
  readonly curve: readonly number[];
  /** Of the first held-out tasks, in the same order for every arm of a seed. */
  readonly samples: readonly { readonly task: string; readonly text: string }[];
  readonly seconds: number;
}

/** What all runs of a process share. */
export interface Common {
  readonly device: Device;
  readonly start: Model;
  readonly texts: HeldOutTexts;
}

/** GRPO with every reward given to a random episode of its group: the same advantages, and nothing to learn. */
export function shuffledGrpo(rng: Rng): AdvantageEstimator {
  const plain = grpo();
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
      const given = trajectories.map((t) => ({ ...t, reward: rewards.get(t)! }));
      return plain.estimate(given);
    },
  };
}

function objectiveFor({ beta = 0, shuffled, lambda = 0 }: Arm, rng: Rng): Objective {
  const plain = objectiveOf({ method: "grpo", ...(beta > 0 ? { kl: { beta, estimator: "k3" } } : {}) });
  return {
    ...plain,
    ...(shuffled ? { advantage: shuffledGrpo(rng.split("shuffled")) } : {}),
    ...(lambda > 0 ? { world: echo({ lambda }) } : {}),
  };
}

const templateOf = (job: Job): Template => (job === "tell" ? storyTemplate() : dialogueTemplate());

/** The world of a job; facts are dealt out by the seed. */
const worldOf = (
  job: Job,
  seed: number,
  { told = "truth" }: { told?: "truth" | "meaningless" } = {},
): EnvironmentSpec => (job === "tell" ? story : castOf({ facts: seed, told }));

/** Trains one arm, and measures it. `START` measures the untouched model. */
export async function runArm(
  common: Common,
  job: Job,
  name: string,
  seed: number,
  settings: Settings = SETTINGS[job],
): Promise<RunRecord> {
  const began = performance.now();
  const arm = name === START ? {} : ARMS[job][name]!;
  const rng = new Rng(seed).split(job);
  const model = arm.lora ? addLora(common.start, LORA, rng.split("lora")) : startModel(common.device);
  const template = templateOf(job);
  const curve: number[] = [];
  try {
    if (name !== START) {
      const optimizer = new AdamW(trainableOf(model).params, { clipNorm: 1, weightDecay: 0 });
      const { steps, groups, groupSize } = settings;
      const reports = trainRl({
        model,
        template,
        optimizer,
        reference: common.start,
        objective: objectiveFor(arm, rng),
        env: worldOf(job, seed, arm),
        envOptions: { split: "train" },
        rollout: ROLLOUT[job],
        reward: rewardOf(job, template),
        steps,
        groups,
        groupSize,
        lr: schedule({ lr: arm.lora ? LORA_RATE : RATES[job], warmup: Math.min(5, steps - 1) }),
        rng: rng.split("training"),
      });
      for await (const { metrics } of reports) curve.push(metrics["reward"]!);
      optimizer.dispose();
    }
    const { figures, samples } = await measure(common, job, model, seed, settings);
    return { job, arm: name, seed, settings, figures, curve, samples, seconds: (performance.now() - began) / 1000 };
  } finally {
    if (isLora(model)) disposeLora(model);
    else disposeModel(model);
  }
}

/** An episode keeps what it earned before a sentence that did not end; `trainRl` would give it 0. */
const rewardOf = (job: Job, template: Template) =>
  job === "tell"
    ? (t: Trajectory) => judge(toldIn(t, template))
    : ({ stepRewards }: Trajectory) => ({ reward: stepRewards.reduce((a, b) => a + b, 0), parts: {} });

async function measure(
  { start, texts }: Common,
  job: Job,
  model: Model,
  seed: number,
  { times }: Settings,
): Promise<Pick<RunRecord, "figures" | "samples">> {
  const template = templateOf(job);
  const rng = new Rng(seed).split(job).split("held out");
  const seeds = job === "tell" ? heldOutSeeds(times) : Array.from({ length: times * HELD_OUT_COMPANIES }, (_, i) => i);
  const spec = worldOf(job, seed);
  const asked = seeds.map((s, i) => ({
    spec,
    options: { split: "heldout" as const },
    seed: s,
    group: i,
    rng: rng.split(i),
  }));
  const played = await rollout(model, template, asked, ROLLOUT[job]);
  const own = job === "tell" ? toldFigures(played, template) : castFigures(played);
  // What the untouched model met in the true world: the same sentences for every arm of a seed.
  const met = job === "cast" ? await rollout(start, template, asked, ROLLOUT[job]) : [];
  return {
    figures: {
      ...own,
      ...(job === "cast" ? { "world loss": await worldModelLoss(model, template, met) } : {}),
      "KL to start": await klToStart(model, start, template, played),
      "ppl, own stories": await perplexity(model, texts.own),
      "ppl, by hand": await perplexity(model, texts.byHand),
    },
    samples: played.slice(0, 4).map(({ stream, task }) => ({
      task,
      text: template.tokenizer.decode(stream.ids, { specials: "skip" }).slice(task.length),
    })),
  };
}

function toldFigures(played: readonly Trajectory[], template: Template): Record<string, number> {
  const told = played.map((t) => toldIn(t, template));
  const judged = told.map((t) => judge(t));
  const part = (name: string): number => mean(judged.map(({ parts }) => parts[name]!));
  return {
    reward: mean(judged.map(({ reward }) => reward)),
    "all four": mean(judged.map(({ reward }) => Number(reward === 1))),
    again: part("again"),
    ends: part("ends"),
    whole: part("whole"),
    fresh: part("fresh"),
    "words a story": mean(told.map(({ text }) => text.split(/\s+/).filter(Boolean).length)),
    "uses of the word": mean(told.map(usesOf)),
    "shared sentences": sharedSentences(told),
  };
}

function castFigures(played: readonly Trajectory[]): Record<string, number> {
  const turns = played.map(({ stepRewards }) => stepRewards);
  const asked = TURNS * played.length;
  return {
    right: turns.flat().filter((reward) => reward > 0).length / asked,
    "sentences ended": turns.flat().length / asked,
  };
}

/** Mean of k3 over the tokens that the model sampled: an estimate of KL(model ‖ start) in nats per token. */
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
