/**
 * The parts of a run that `--set PART.OPTION=VALUE` can set, each with the table of its options. The tables of methods
 * and data belong to the library; those of the job itself (sizes, rates, limits, weights of rewards) are declared here.
 * An option that is added to one of these tables appears on the command line, in `--list` and in docs/methods.md.
 */
import { flag, number, oneOf, type Option, options, type OptionsOf, schedule, text } from "../engine/optionTable.ts";
import { LORA } from "../nn/index.ts";
import { ADVANTAGES } from "../rl/methods/advantages/index.ts";
import { ROLLOUT_FILTER } from "../rl/methods/filter.ts";
import { IMPORTANCE_CORRECTION, REJECTION } from "../rl/methods/importanceCorrection.ts";
import { ADAPTIVE_ENTROPY } from "../rl/methods/losses/entropy.ts";
import { POLICY_LOSSES } from "../rl/methods/losses/index.ts";
import { KL_PENALTY } from "../rl/methods/losses/kl.ts";
import { PREFERENCE } from "../rl/methods/losses/preference.ts";
import { SUPERVISED } from "../rl/methods/losses/supervised.ts";
import type { Entry } from "../rl/methods/names.ts";
import { CRITIC } from "../rl/methods/objective.ts";
import { TERMS, TOKEN_WEIGHTS, WORLD } from "../rl/methods/presets.ts";
import { METHOD } from "../rl/methods/choice.ts";
import { ROLLOUT as PLAY } from "../rl/play/rollout.ts";
import { PROCESS_FORMS, STEP_LABELS } from "../rl/rewards/process.ts";
import { SELF_PLAY } from "../rl/selfplay/options.ts";
import { TRUNCATED } from "../rl/tasks/truncated.ts";
import { SFT_ROWS } from "../rl/methods/sft.ts";
import { PLUGINS } from "./plugins.ts";

/** Options by name. */
export type Fields = Readonly<Record<string, Option<unknown>>>;

export const COUNT = { integer: true, min: 1 };
export const WHOLE = { integer: true, min: 0 };

/** An option without a default of its own: the environment or the main job provides it. */
const preset = <T>(option: Option<T>): Option<T> => ({ ...option, default: undefined });

/** Options of the tokenizer. The defaults come from the environment (environments.ts) or the main job (presets.ts). */
export const TOKENIZER = options("--set tokenizer", {
  vocabSize: number(undefined, "number of tokens in the vocabulary", COUNT),
  corpusEpisodes: number(undefined, "number of episodes that the tokenizer is trained on", COUNT),
  novices: flag(undefined, "whether a novice plays some of these episodes, in the same share as of the demonstrations"),
});

/** The warm start: supervised fine-tuning on demonstrations. */
export const SFT = options("--set sft", {
  loss: SFT_ROWS.fields.loss,
  demonstrations: number(undefined, "number of episodes by the expert and the novice", COUNT),
  noviceShare: number(undefined, "share of the demonstrations that a novice plays, who guesses actions", {
    min: 0,
    max: 1,
  }),
  imitateNovices: flag(undefined, "whether the novice's guesses are imitated and not only read; by default yes"),
  thoughts: flag(
    undefined,
    "whether a thought comes before each action, in environments that have thoughts; by default no",
  ),
  observationWeight: preset(SFT_ROWS.fields.observationWeight),
  labelled: number(
    undefined,
    "how many demonstrations have their actions; an inverse dynamics model labels the others (VPT); by default all; " +
      "not with --method sft, which goes on imitating all with their own actions",
    COUNT,
  ),
  labels: oneOf(
    ["inverse", "shuffled", "none"],
    "inverse",
    "with sft.labelled: its labels; the same dealt out anew, a control; or no others",
  ),
  general: number(
    undefined,
    "weight of general texts in the loss, 1 − η of AgentTuning, beside demonstrations at η; 0: only measured; " +
      "by default neither",
    { min: 0, below: 1 },
  ),
  generalTexts: oneOf(
    ["own", "shuffled"],
    "own",
    "with sft.general: the answers of its texts, or the same dealt out anew, a control",
  ),
  steps: number(undefined, "number of updates; more than warmup", COUNT),
  batchSize: number(undefined, "number of episodes in an update", COUNT),
  lr: number(undefined, "learning rate", { above: 0 }),
  warmup: number(undefined, "number of updates in which the learning rate rises", WHOLE),
});

/** The adapter that RL trains instead of all weights, if one of these options is given (nn/lora.ts). */
const { r, loraAlpha, loraDropout, useRslora, useDora } = LORA.fields;
const MODULES = "names with + between them, or a regular expression of whole names";
export const ADAPTER = options("--set lora", {
  r,
  loraAlpha,
  loraDropout,
  targetModules: text(undefined, `layers that get one: all-linear, ${MODULES}; by default q_proj+v_proj`),
  excludeModules: text(undefined, `layers that get none: ${MODULES}`),
  useRslora,
  useDora,
});

/** Numbers of the RL loop. */
export const LOOP = options("--set rl", {
  iterations: number(undefined, "number of passes over each batch of episodes; by default one", COUNT),
  gradEvery: number(
    undefined,
    "number of steps between two comparisons of the world loss's gradient with the policy loss's; 0: never",
    WHOLE,
  ),
  gradShares: flag(undefined, "whether each term's share of the gradient is measured in those steps; by default no"),
  truncatedReward: TRUNCATED.fields.truncatedReward,
  groups: number(undefined, "number of tasks in a step", COUNT),
  groupSize: number(undefined, "number of episodes of each task", COUNT),
  lr: number(undefined, "learning rate", { above: 0 }),
  warmup: number(undefined, "number of steps in which the learning rate rises", WHOLE),
  clipNorm: number(undefined, "norm above which the gradient is clipped", { above: 0 }),
  weightDecay: number(undefined, "AdamW's weight decay", { min: 0 }),
  mixedGroups: flag(
    undefined,
    "whether the episodes of a group may have different tasks, from an environment that ignores its seed; by default " +
      "no",
  ),
  maxBatchTokens: number(
    undefined,
    "largest number of tokens in a micro-batch, padding included; by default 1200, less takes less memory",
    COUNT,
  ),
  gradientCheckpointing: flag(
    undefined,
    "whether blocks are computed again in the backward pass: less memory, the same bits; by default no",
  ),
});

/** How often and on how many held-out tasks the agent is evaluated. */
export const EVALUATION = options("--set evaluation", {
  every: number(undefined, "number of steps between two evaluations", COUNT),
  episodes: number(undefined, "number of held-out tasks in these", COUNT),
  finalEpisodes: number(undefined, "number of held-out tasks before and after RL", COUNT),
});

/** The options of `--set rl.…`: those of the loop, and those of the method that have no part of their own. */
const { imitation, maskTruncated, trainObservations, dropConstantGroups, rewardFrom } = METHOD.fields;
const RL = {
  entropy: number(0, "coefficient of the entropy bonus; with entropy.target its value at the start", { min: 0 }),
  imitation,
  maskTruncated,
  trainObservations,
  dropConstantGroups,
  rewardFrom,
  expertsOnly: flag(undefined, "for --method sft: whether the novice's demonstrations are left out; by default no"),
  checkpointEvery: number(undefined, "number of steps between two checkpoints", COUNT),
  ...LOOP.fields,
};

/** The sampler and the limits of an episode. */
const { topK, topP, minP, maxTurns, maxActionTokens, maxObservationTokens } = PLAY.fields;
export const ROLLOUT = options("--set rollout", {
  maxTokens: number(undefined, "largest number of tokens of an episode; by default what the environment needs", COUNT),
  temperature: schedule(1, "sampling temperature", { above: 0 }),
  topK,
  topP,
  minP,
  maxTurns: preset(maxTurns),
  maxActionTokens: preset(maxActionTokens),
  maxObservationTokens: preset(maxObservationTokens),
});

/** What `--reward` may name in place of the environment's own return (rewards.ts). */
export const REWARDS = ["coderl", "ppocoder", "swerl", "toolrl", "orm", "prm", "judges"] as const;

/** Who can vote in `--reward judges`. */
export const JUDGES = ["verifier", "form", "tools", "approval"] as const;

/** What the return is, and the weights of components that are added to the outcome, whose weight is 1 (rewards.ts). */
export const REWARD = options("--set reward", {
  name: oneOf(REWARDS, undefined, "the outcome in place of the environment's own: see --reward"),
  judges: text(
    undefined,
    `who votes in --reward judges, with a plus between them: ${JUDGES.join(", ")}; by default the first three`,
  ),
  control: oneOf(
    ["chance"],
    undefined,
    "with --reward coderl, ppocoder or swerl: the grade of what does not solve the task is drawn, a control",
  ),
  timeout: number(undefined, "milliseconds that a reward may take, where others say it; by default 60000", {
    above: 0,
  }),
  matching: oneOf(
    ["greedy", "best"],
    undefined,
    "how --reward toolrl matches calls with the wanted ones; by default greedy",
  ),
  format: number(undefined, "weight of well-formed actions", { min: 0 }),
  malformed: number(undefined, "what each malformed action costs", { min: 0 }),
  tools: number(undefined, "weight of calls without errors", { min: 0 }),
  overlong: number(undefined, "weight of the punishment for long completions (DAPO)", { min: 0 }),
  repetition: number(undefined, "weight of the punishment for repeated text", { min: 0 }),
  cap: number(undefined, "largest absolute value of the weighted sum of these components", { min: 0 }),
});

/** What `--reward orm` trains before RL begins (outcomeModel.ts). */
export const ORM = options("--set orm", {
  episodes: number(256, "episodes of the warm start that it learns from; a quarter more measures it", COUNT),
  steps: number(100, "number of updates; 0: it has learnt nothing, a control", WHOLE),
  batchSize: number(16, "number of episodes in an update", COUNT),
  lr: number(1e-3, "learning rate", { above: 0 }),
  labels: oneOf(["own", "shuffled"], "own", "the verifier's judgements, or the same dealt out anew, a control"),
});
export type OrmOptions = OptionsOf<typeof ORM>;

/** What `--reward prm` trains before RL begins, and how it pays (processModel.ts). */
export const PRM = options("--set prm", {
  ...ORM.fields,
  episodes: number(64, "episodes of the warm start whose steps it learns from; a quarter more measures it", COUNT),
  samples: number(8, "N, how many times each step of these is completed", COUNT),
  labels: oneOf(
    [...STEP_LABELS, "shuffled"],
    "hard",
    "of a step: whether a completion succeeds; their share that does; or the first dealt out anew, a control",
  ),
  form: oneOf(
    PROCESS_FORMS,
    "difference",
    "a step's reward: how far its value rises; the lowest value at its step; or the value, so that length pays",
  ),
});
export type PrmOptions = OptionsOf<typeof PRM>;

/** What `+outcome_critic` trains before RL begins (outcomeModel.ts). */
export const OUTCOME_CRITIC_TRAINING = options("--set outcomeCritic", {
  ...ORM.fields,
  labels: oneOf(
    ["own", "shuffled", "uniform"],
    "own",
    "the outcomes, the same dealt out anew, or 1/4 of each: controls",
  ),
});
export type OutcomeCriticOptions = OptionsOf<typeof OUTCOME_CRITIC_TRAINING>;

/** The values that are options of a table and not undefined. */
export const only = (values: object, fields: Fields): object =>
  Object.fromEntries(
    Object.entries(values).filter(([name, value]) => Object.hasOwn(fields, name) && value !== undefined),
  );

/** The options of a table that can be given as text. */
export const plain = (fields: Fields): Fields =>
  Object.fromEntries(Object.entries(fields).filter(([, { kind }]) => kind !== "code"));

/** The option tables of methods by name. */
const fieldsOf = (entries: Readonly<Record<string, Entry<unknown>>>): Readonly<Record<string, Fields>> =>
  Object.fromEntries(Object.entries(entries).map(([name, entry]) => [name, plain(entry.options.fields)]));
/** Whether a part learns from rewards; losses over pairs and demonstrations have loops of their own. */
const isOfRewards = ([name]: readonly [string, unknown]): boolean =>
  !Object.hasOwn(PREFERENCE, name) && !Object.hasOwn(SUPERVISED, name);

/** The options of the parts of a method. */
export const METHOD_PARTS: Readonly<Record<string, Fields>> = Object.fromEntries(
  Object.entries({
    ...fieldsOf(POLICY_LOSSES),
    ...fieldsOf(ADVANTAGES),
    ...fieldsOf(WORLD),
    ...fieldsOf(TOKEN_WEIGHTS),
    ...fieldsOf(TERMS),
  }).filter(isOfRewards),
);

/** Further options: of the objective, of the loop, and of the data. */
export const OTHER_PARTS: Readonly<Record<string, Fields>> = {
  kl: KL_PENALTY.fields,
  entropy: ADAPTIVE_ENTROPY.fields,
  rolloutFilter: ROLLOUT_FILTER.fields,
  critic: CRITIC.fields,
  importanceCorrection: plain(IMPORTANCE_CORRECTION.fields),
  rejection: REJECTION.fields,
  tokenizer: TOKENIZER.fields,
  sft: SFT.fields,
  rl: RL,
  lora: ADAPTER.fields,
  rollout: ROLLOUT.fields,
  evaluation: EVALUATION.fields,
  reward: REWARD.fields,
  orm: ORM.fields,
  prm: PRM.fields,
  outcomeCritic: OUTCOME_CRITIC_TRAINING.fields,
  ...Object.fromEntries(PLUGINS.map((plugin) => [plugin.name, plugin.options])),
  selfPlay: { ...SELF_PLAY.fields, name: preset(SELF_PLAY.fields.name) },
};

/** An adapter as it is written on the command line. */
export type AdapterSettings = OptionsOf<typeof ADAPTER>;
export type LoopNumbers = OptionsOf<typeof LOOP>;
export type SftNumbers = OptionsOf<typeof SFT>;
export type TokenizerNumbers = OptionsOf<typeof TOKENIZER>;
/** With the options of what `--reward orm` or `--reward prm` trains. */
export type RewardSettings = OptionsOf<typeof REWARD> & { readonly orm?: OrmOptions; readonly prm?: PrmOptions };
/** Sampling at one temperature. */
export type SamplingNumbers = Omit<OptionsOf<typeof ROLLOUT>, "temperature"> & { readonly temperature?: number };
