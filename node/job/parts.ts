/**
 * The parts of a run that `--set PART.OPTION=VALUE` reaches, each with the table of its options. The tables of methods and of the
 * data are the library's own; those of the job itself (sizes, rates, limits, weights of rewards) are declared here. An option that
 * is added to one of these tables is on the command line, in `--list` and in docs/methods.md at once.
 */
import { flag, number, oneOf, type Option, options, type OptionsOf, schedule } from "../../engine/optionTable.ts";
import { ADVANTAGES } from "../../rl/methods/advantages/index.ts";
import { ROLLOUT_FILTER } from "../../rl/methods/filter.ts";
import { CORRECTION, REJECTION } from "../../rl/methods/importanceCorrection.ts";
import { ADAPTIVE_ENTROPY } from "../../rl/methods/losses/entropy.ts";
import { POLICY_LOSSES } from "../../rl/methods/losses/index.ts";
import { KL_PENALTY } from "../../rl/methods/losses/kl.ts";
import { PREFERENCE } from "../../rl/methods/losses/preference.ts";
import { SUPERVISED } from "../../rl/methods/losses/supervised.ts";
import type { Entry } from "../../rl/methods/names.ts";
import { CRITIC } from "../../rl/methods/objective.ts";
import { METHOD, TOKEN_WEIGHTS, WORLD } from "../../rl/methods/presets.ts";
import { LEARNABILITY } from "../../rl/tasks/curriculum.ts";
import { DYNAMIC_SAMPLING } from "../../rl/tasks/dynamic.ts";
import { EXPLORATION } from "../../rl/tasks/exploration.ts";
import { EXPERT_PREFIX } from "../../rl/tasks/expertPrefix.ts";
import { DIFFICULTY_POOLS, FAILED_TASKS } from "../../rl/tasks/pools.ts";
import { PREDICTIONS } from "../../rl/tasks/predictions.ts";
import { REPLAY } from "../../rl/tasks/replay.ts";

/** Options by name. */
export type Fields = Readonly<Record<string, Option<unknown>>>;

const COUNT = { integer: true, min: 1 };
const WHOLE = { integer: true, min: 0 };

/** Defaults are the environment's (environments.ts) or the main job's (presets.ts), so that none stands here. */
export const TOKENIZER = options("--set tokenizer", {
  vocabSize: number(undefined, "tokens in the vocabulary", COUNT),
  corpusEpisodes: number(undefined, "episodes that the tokenizer is learnt from", COUNT),
  novices: flag(undefined, "whether a novice plays its share of them, as of the demonstrations"),
});

/** The warm start: supervised fine-tuning on demonstrations. */
export const SFT = options("--set sft", {
  loss: oneOf(["sft", "dft"], undefined, "−log p, or −p·log p"),
  demonstrations: number(undefined, "episodes of the expert and the novice", COUNT),
  noviceShare: number(undefined, "share of the demonstrations that a novice plays, who guesses", { min: 0, max: 1 }),
  imitateNovices: flag(undefined, "whether the novice's actions are imitated, and not only read; by default yes"),
  thoughts: flag(undefined, "whether a thought stands before each action, in environments that have them"),
  observationWeight: number(undefined, "weight of predicting the environment's answers", { min: 0 }),
  steps: number(undefined, "updates; more than warmup", COUNT),
  batchSize: number(undefined, "episodes in an update", COUNT),
  lr: number(undefined, "learning rate", { above: 0 }),
  warmup: number(undefined, "updates in which the rate rises", WHOLE),
});

/** Numbers of the RL loop. */
export const LOOP = options("--set rl", {
  iterations: number(undefined, "passes over each batch of episodes; by default one", COUNT),
  gradEvery: number(
    undefined,
    "steps between two comparisons of the world's gradient with the policy's; 0: never",
    WHOLE,
  ),
  groups: number(undefined, "tasks in a step", COUNT),
  groupSize: number(undefined, "episodes of each task", COUNT),
  lr: number(undefined, "learning rate", { above: 0 }),
  warmup: number(undefined, "steps in which the rate rises", WHOLE),
  clipNorm: number(undefined, "largest norm of the gradient", { above: 0 }),
  weightDecay: number(undefined, "AdamW's decay", { min: 0 }),
});

/** What `--set rl.…` reaches beside the loop: options of the method that have no part of their own. */
const { imitation, maskTruncated, dropConstantGroups, rewardFrom } = METHOD.fields;
const RL = {
  entropy: number(0, "coefficient of the entropy bonus; with entropy.target where it begins", { min: 0 }),
  imitation,
  maskTruncated,
  dropConstantGroups,
  rewardFrom,
  expertsOnly: flag(undefined, "of --method sft: without the novice's demonstrations"),
  ...LOOP.fields,
};

/** The sampler and the limits of an episode. */
export const ROLLOUT = options("--set rollout", {
  temperature: schedule(1, "sampling temperature", { above: 0 }),
  topK: number(undefined, "only the k likeliest tokens are drawn; 0: all", WHOLE),
  topP: number(undefined, "only the likeliest tokens that together have this probability are drawn", {
    above: 0,
    max: 1,
  }),
  minP: number(undefined, "only tokens with this share of the likeliest one's probability are drawn", {
    min: 0,
    max: 1,
  }),
  maxTurns: number(undefined, "actions in an episode", COUNT),
  maxActionTokens: number(undefined, "tokens in an action", COUNT),
  maxObservationTokens: number(undefined, "tokens in an answer", COUNT),
});

/** Weights of what the return has beside the outcome, whose weight is 1 (rewards.ts). */
export const REWARD = options("--set reward", {
  format: number(undefined, "weight of well-formed actions", { min: 0 }),
  tools: number(undefined, "weight of calls without errors", { min: 0 }),
  overlong: number(undefined, "weight of the punishment for long completions (DAPO)", { min: 0 }),
  repetition: number(undefined, "weight of the punishment for repeated text", { min: 0 }),
  cap: number(undefined, "bound on the sum of these", { min: 0 }),
});

const by = oneOf(["family", "level"], "family", "what the kinds of tasks are");
const tasks = number(256, "of `pools`: how many tasks there are in all", { integer: true, min: 1, max: 100_000 });

/** Options of a table that text can give. */
export const plain = (fields: Fields): Fields =>
  Object.fromEntries(Object.entries(fields).filter(([, { kind }]) => kind !== "code"));

/** How tasks can be chosen, each with the options that `--set curriculum.…` gives it. */
export const CURRICULA = {
  learnability: { by, ...plain(LEARNABILITY.fields) },
  failed: plain(FAILED_TASKS.fields),
  "failed+learnability": { by, ...plain(LEARNABILITY.fields), ...plain(FAILED_TASKS.fields) },
  pools: { tasks, ...plain(DIFFICULTY_POOLS.fields) },
} as const satisfies Readonly<Record<string, Fields>>;

/** Tables of the parts of a method, under the names of `--list`; pairs and demonstrations have loops of their own. */
const fieldsOf = (entries: Readonly<Record<string, Entry<unknown>>>): Readonly<Record<string, Fields>> =>
  Object.fromEntries(Object.entries(entries).map(([name, entry]) => [name, plain(entry.options.fields)]));
const isOfRewards = ([name]: readonly [string, unknown]): boolean =>
  !Object.hasOwn(PREFERENCE, name) && !Object.hasOwn(SUPERVISED, name);

/** Options of the parts of a method. */
export const METHOD_PARTS: Readonly<Record<string, Fields>> = Object.fromEntries(
  Object.entries({
    ...fieldsOf(POLICY_LOSSES),
    ...fieldsOf(ADVANTAGES),
    ...fieldsOf(WORLD),
    ...fieldsOf(TOKEN_WEIGHTS),
  }).filter(isOfRewards),
);

/** Options around the method: of the objective, of the loop, and of the data. */
export const OTHER_PARTS: Readonly<Record<string, Fields>> = {
  kl: KL_PENALTY.fields,
  entropy: ADAPTIVE_ENTROPY.fields,
  rolloutFilter: ROLLOUT_FILTER.fields,
  critic: CRITIC.fields,
  correction: plain(CORRECTION.fields),
  rejection: REJECTION.fields,
  tokenizer: TOKENIZER.fields,
  sft: SFT.fields,
  rl: RL,
  rollout: ROLLOUT.fields,
  reward: REWARD.fields,
  curriculum: { ...CURRICULA.pools, ...CURRICULA["failed+learnability"] },
  dynamicSampling: DYNAMIC_SAMPLING.fields,
  replay: plain(REPLAY.fields),
  predictions: PREDICTIONS.fields,
  guide: plain(EXPERT_PREFIX.fields),
  exploration: {
    epsilon: EXPLORATION.fields.epsilon,
    choose: oneOf(["random", "expert"], "random", "whose actions they are"),
  },
};

export type LoopNumbers = OptionsOf<typeof LOOP>;
export type SftNumbers = OptionsOf<typeof SFT>;
export type TokenizerNumbers = OptionsOf<typeof TOKENIZER>;
export type RewardSettings = OptionsOf<typeof REWARD>;
/** Sampling at one temperature. */
export type SamplingNumbers = Omit<OptionsOf<typeof ROLLOUT>, "temperature"> & { readonly temperature?: number };
