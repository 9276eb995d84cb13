/**
 * The return of a run's episodes: its outcome, and components in addition to it. The outcome is the environment's own,
 * or the one that `--reward` names: CodeRL's, PPOCoder's or SWE-RL's of a submitted program, ToolRL's of calls, a
 * trained model's of the episode or of its steps, the vote of judges, or a function of the user's own. The components
 * (form, use of tools, length, repetition) have small weights, and their sum is capped so that it cannot outweigh the
 * outcome (papers/rewards/composite.ts). Episodes also keep the components separately, for metrics and for GDPO.
 */
import { fail } from "../engine/errors.ts";
import type { Model } from "../nn/index.ts";
import { nearest } from "../engine/options.ts";
import { Rng } from "../engine/random.ts";
import { approvalJudge } from "../papers/preferences/judges.ts";
import { formatScore, malformedActions, repetitionPenalty, toolEfficiency } from "../papers/rewards/behaviour.ts";
import { composite, type CompositeReward, type RewardComponent } from "../papers/rewards/composite.ts";
import { type Judge, judgesReward } from "../papers/rewards/judge.ts";
import { softOverlong } from "../papers/rewards/length.ts";
import { chanceReward, PROGRAM_REWARDS, type ProgramRewardName } from "../papers/rewards/program.ts";
import { toolRlReward } from "../papers/rewards/toolCalls.ts";
import { turnsOf } from "../rl/episode/turns.ts";
import { succeeded } from "../rl/episode/outcomes.ts";
import { sampledCount, type Trajectory } from "../rl/episode/stream.ts";
import type { Template } from "../rl/episode/template.ts";
import type { EpisodeReward, RewardFunction, RewardOptions } from "../rl/tasks/scoring.ts";
import type { Reader } from "../methods/reader.ts";
import { ownReward } from "./ownReward.ts";
import type { UserFile } from "./preset.ts";
import { UsageError } from "./usage.ts";
import {
  JUDGES,
  ORM,
  OUTCOME_CRITIC_TRAINING,
  type OutcomeCriticOptions,
  PRM,
  type RewardSettings,
} from "./rewardOptions.ts";
import type { Settings } from "./layers.ts";
import { isTrained } from "./trainedRewards.ts";
import { COMPONENTS, weightsOf } from "./rewardWeights.ts";

/** The default components for GDPO, with common weights. With the outcome only, GDPO would be much the same as GRPO. */
const CUSTOMARY = { format: 0.2, tools: 0.1 };

/** Rewards that are computed from the info of an episode, and the environments that provide it. */
const OF_INFO: Readonly<Record<ProgramRewardName | "toolrl", readonly string[]>> = {
  coderl: ["code", "patch"],
  ppocoder: ["code", "patch"],
  swerl: ["patch"],
  toolrl: ["tools"],
};

/**
 * Sets the customary components for GDPO if there are none.
 * @throws UsageError on a cap that would bound nothing
 */
export function settleReward(settings: Settings, advantage: string): void {
  const hasWeights = COMPONENTS.some((name) => settings.get(`reward.${name}`) !== undefined);
  const isCapped = settings.get("reward.cap") !== undefined;
  if (isCapped && !hasWeights)
    throw new UsageError(
      `${settings.by("reward.cap")} bounds what the return has beside the outcome, which is nothing; ` +
        "add --set reward.format=0.2 or another",
    );
  if (advantage !== "gdpo") return;
  if (isCapped)
    throw new UsageError(
      `${settings.by("reward.cap")} bounds a sum, and the advantage gdpo compares the components one by one; ` +
        "leave it out",
    );
  if (!hasWeights) for (const [name, weight] of Object.entries(CUSTOMARY)) settings.put(`reward.${name}`, weight);
}

/** The share of the longest completion at which DAPO's overlong punishment begins. */
const OVERLONG_FROM = 0.8;

type Scores = Readonly<Record<(typeof COMPONENTS)[number], (trajectory: Trajectory) => number>>;

/** The settings of a run that its rewards depend on. */
interface RunOfRewards {
  readonly env: string;
  readonly rewardFile?: UserFile;
  readonly async?: unknown;
  readonly pretrained?: unknown;
}

/** The settings of a run that a critic of outcomes depends on. */
interface RunOfCritic extends RunOfRewards {
  readonly data?: { readonly selfPlay?: unknown };
  readonly rl: {
    readonly method: string;
    readonly reward?: RewardSettings;
    readonly outcomeCritic?: OutcomeCriticOptions;
  };
}

/** @throws if the settings of the return contradict each other or the run */
export function checkRewards(settings: RewardSettings, { env, rewardFile, async, pretrained }: RunOfRewards): void {
  const nothing = (): number => NaN;
  compositeOf(settings, {
    format: nothing,
    malformed: nothing,
    tools: nothing,
    overlong: nothing,
    repetition: nothing,
  });
  const { name } = settings;
  if (name === "file") {
    if (rewardFile === undefined)
      throw new UsageError("--set reward.name=file: the path of the file is missing; name it with --reward FILE");
  } else if (name === "judges") {
    if (judgesOf(settings).includes("approval") && async !== undefined)
      throw new UsageError(
        "--set reward.judges: approval asks the learner's model while it learns; leave --workers out",
      );
  } else if (isTrained(name)) {
    if (name === "orm") ORM.read(settings.orm);
    else PRM.read(settings.prm);
    if (async) throw new UsageError(`--reward ${name} asks a model on the learner's device; leave --workers out`);
    if (pretrained)
      throw new UsageError(`--reward ${name} trains a copy of the run's own warm start; leave --model-path out`);
  } else if (name !== undefined) {
    const envs = OF_INFO[name];
    if (!envs.includes(env))
      throw new UsageError(`--reward ${name} is for the environments ${envs.join(", ")}, not ${env}`);
  }
}

type JudgeName = (typeof JUDGES)[number];

/** The names of the judges. @throws UsageError */
function judgesOf({ judges = "verifier+form+tools" }: RewardSettings): readonly JudgeName[] {
  const names = judges.split("+");
  for (const name of names) {
    if ((JUDGES as readonly string[]).includes(name)) continue;
    const near = nearest(name, JUDGES);
    const hint = near === undefined ? `expected ${JUDGES.join(", ")}` : `did you mean "${near}"?`;
    throw new UsageError(`--set reward.judges: unknown judge "${name}"; ${hint}`);
  }
  const twice = names.find((name, i) => names.indexOf(name) < i);
  if (twice !== undefined) throw new UsageError(`--set reward.judges: ${twice} is there twice`);
  return names as readonly JudgeName[];
}

/** The properties of a run that its rewards depend on. */
interface RewardContext {
  readonly template: Template;
  /** The file of the reward `file`. */
  readonly rewardFile?: UserFile | undefined;
  /** The seed of the run, from which the draws of `reward.control=chance` follow. */
  readonly seed: number;
  /** The model of the judge `approval`. */
  readonly model: Model;
  /** The judge of `--reward orm` and `--reward prm`. */
  readonly reader?: Reader | undefined;
  /** The largest number of tokens that the agent can write in an episode. */
  readonly maxLength: number;
}

/** The function that computes an episode's return, and its limits. */
export function rewardOptionsOf(settings: RewardSettings, context: RewardContext): RewardOptions {
  const { name, timeout } = settings;
  const joined = rewardOf(settings, context);
  if (name === undefined) return { reward: joined };
  const outcome = outcomeFor(name, settings, context);
  const hasShaping = Object.keys(weightsOf(settings)).length > 0;
  const join = (t: Trajectory, verdict: EpisodeReward): EpisodeReward => {
    if (!hasShaping) return verdict;
    const { parts, ...rest } = joined({ ...t, reward: verdict.reward });
    return { ...verdict, ...rest, parts: { ...verdict.parts, ...parts } };
  };
  const reward: RewardFunction = (t, signal) => {
    const verdict = outcome(t, signal);
    return verdict instanceof Promise ? verdict.then((later) => join(t, later)) : join(t, verdict);
  };
  return { reward, rewardLimits: timeout === undefined ? undefined : { timeout } };
}

/** A reward, or the environment's own, with a critic's shares of the tokens for `+outcome_critic`. */
export function criticised(
  reward: RewardFunction | undefined,
  { reader, template }: RewardContext,
  { labels }: OutcomeCriticOptions = {},
): RewardFunction {
  const critic = reader ?? fail("outcome_critic: there is no critic yet");
  return async (t, signal) => {
    const verdict = reward ? await reward(t, signal) : { reward: t.reward, parts: {} };
    return (await import("./judgements.ts")).withShares(critic, template, t, verdict, labels);
  };
}

/** @throws UsageError if there are no outcomes that a critic could foretell, or no part that would use it */
export function checkCritic({ env, async, pretrained, data, rl }: RunOfCritic): void {
  OUTCOME_CRITIC_TRAINING.read(rl.outcomeCritic);
  const envs: readonly string[] = OF_INFO.coderl;
  if (!envs.includes(env))
    throw new UsageError(
      `--method ${rl.method}: outcome_critic is for the environments ${envs.join(", ")}, not ${env}`,
    );
  if (data?.selfPlay) throw new UsageError("--self-play has rewards of its own; leave outcome_critic out");
  if (isTrained(rl.reward?.name))
    throw new UsageError(
      `outcome_critic and --reward ${rl.reward.name}: a run trains one such model; leave one of them out`,
    );
  if (async) throw new UsageError("outcome_critic asks a model on the learner's device; leave --workers out");
  if (pretrained)
    throw new UsageError("outcome_critic trains a copy of the run's own warm start; leave --model-path out");
}

function outcomeFor(
  name: NonNullable<RewardSettings["name"]>,
  settings: RewardSettings,
  { template, model, reader, seed, rewardFile }: RewardContext,
): RewardFunction {
  if (name === "file") return ownReward(rewardFile ?? fail("--reward: there is no file of a reward"), template);
  if (isTrained(name)) {
    const judge = reader ?? fail(`--reward ${name}: there is no ${name === "orm" ? "outcome" : "process"} model yet`);
    if (name === "orm") return async (t) => (await import("./judgements.ts")).judgeOutcome(judge, template, t);
    const { form } = PRM.read(settings.prm);
    return async (t) => (await import("./judgements.ts")).judgeSteps(judge, template, t, form);
  }
  if (name !== "judges") {
    const chance = new Rng(seed).split("reward.control");
    return (t) => {
      // The draw of an episode does not depend on the episodes before it.
      const draw = (): Rng => chance.split(t.seed).split(t.stream.ids.join());
      const ofProgram = (of: ProgramRewardName): number =>
        settings.control ? chanceReward(of, t.info, draw()) : PROGRAM_REWARDS[of](t.info);
      const reward = name === "toolrl" ? toolRlReward(t.info, { matching: settings.matching }) : ofProgram(name);
      return { reward, parts: { [name]: reward } };
    };
  }
  const approval = approvalJudge({ model });
  const all: Readonly<Record<JudgeName, Judge<Trajectory>>> = {
    verifier: async (t) => succeeded(t),
    form: async (t) => formatScore(t, 0) === 1, // no action was cut off; mistakes are for `tools`
    tools: async ({ info }) => (typeof info["toolErrors"] === "number" ? info["toolErrors"] === 0 : undefined),
    approval: async (t) => {
      const [score = NaN] = await approval.score([t], { model, template });
      return Number.isNaN(score) ? undefined : score > 0.5;
    },
  };
  return judgesReward(Object.fromEntries(judgesOf(settings).map((judge) => [judge, all[judge]])));
}

/** The environment's own outcome with the components that are added to it. */
export function rewardOf(
  settings: RewardSettings,
  { template, maxLength }: Pick<RewardContext, "template" | "maxLength">,
): (trajectory: Trajectory) => CompositeReward {
  const textOf = (t: Trajectory): string => {
    const actions = turnsOf(t, template).map(({ action }) => action);
    return actions.join("\n");
  };
  return compositeOf(settings, {
    format: (t) => formatScore(t),
    malformed: (t) => -malformedActions(t),
    tools: (t) => toolEfficiency(turnsOf(t, template), { tools: [], unknown: 0 }),
    overlong: (t) => softOverlong(sampledCount(t), { max: maxLength, cache: (1 - OVERLONG_FROM) * maxLength }),
    repetition: (t) => repetitionPenalty(textOf(t)),
  });
}

function compositeOf(settings: RewardSettings, scores: Scores): (trajectory: Trajectory) => CompositeReward {
  const { cap } = settings;
  const shaping = Object.entries(weightsOf(settings)).map(([name, weight]): RewardComponent<Trajectory> => {
    return { name, weight, kind: "shaping", score: scores[name as keyof Scores] };
  });
  const outcome: RewardComponent<Trajectory> = { name: "outcome", weight: 1, kind: "outcome", score: (t) => t.reward };
  return composite([outcome, ...shaping], cap === undefined ? {} : { cap });
}
