/**
 * The one table of settings: parts of a run, each with the options that `--set PART.OPTION=VALUE` and flags set
 * (startOptions.ts), and that `config.json` holds (layout.ts). The tables of methods and data belong to the library;
 * those of the job itself (sizes, rates, limits, weights of rewards) are declared here. An option that is added to one
 * of these tables is on the command line, in `--list` and in docs/methods.md, and is checked where a run is read again.
 */
import {
  type DefaultedOption,
  flag,
  inCode,
  number,
  oneOf,
  type Option,
  options,
  type OptionsOf,
  REQUIRED,
  type Schedule,
  schedule,
  text,
  type ValueOf,
} from "../engine/optionTable.ts";
import { LORA } from "../pretrained/index.ts";
import { ADVANTAGES } from "../methods/advantages/index.ts";
import { METHOD } from "../methods/choice.ts";
import { ROLLOUT_FILTER } from "../methods/filter.ts";
import { IMPORTANCE_CORRECTION, REJECTION } from "../methods/importanceCorrection.ts";
import { ADAPTIVE_ENTROPY } from "../methods/entropy.ts";
import { POLICY_LOSSES } from "../methods/losses/index.ts";
import { KL_PENALTY } from "../methods/kl.ts";
import { PREFERENCE } from "../methods/losses/preference.ts";
import { SUPERVISED } from "../methods/losses/supervised.ts";
import { HISTORY } from "../data/history.ts";
import type { Entry } from "../rl/objective/names.ts";
import { CRITIC } from "../rl/objective/objective.ts";
import { TERMS, TOKEN_WEIGHTS, WORLD } from "../methods/presets.ts";
import { ROLLOUT as PLAY } from "../rl/play/rollout.ts";
import { SELF_PLAY } from "../papers/selfplay/options.ts";
import { TRUNCATED } from "../rl/tasks/truncated.ts";
import { SFT_ROWS } from "../methods/sft.ts";
import { PLUGINS } from "./plugins.ts";
import { byName } from "./numbersByName.ts";
import { TOOL_WEIGHTS } from "./toolWeights.ts";
import { ORM, OUTCOME_CRITIC_TRAINING, PRM, REWARD } from "./rewardOptions.ts";
import type { Value } from "./layout.ts";
import type { ScheduleData } from "./schedules.ts";

/** Options by name. */
export type Fields = Readonly<Record<string, Option<unknown>>>;

const COUNT = { integer: true, min: 1 };
const WHOLE = { integer: true, min: 0 };
const RATE = { above: 0 };

/** The method of a run that names none. */
export const DEFAULT_METHOD = "grpo_token+echo";

/** An option of the library that stands in a run's settings only where it is given. */
const open = <T>({ about, default: value, ...option }: Option<T>): Option<T> => ({
  ...option,
  about: value === undefined ? about : `${about}; by default ${String(value)}`,
  default: undefined,
});
/** An option of the library with the run's own default. */
const usual = <T>(option: Option<T>, value: T): DefaultedOption<T> => ({ ...option, default: value, required: false });
/** An option that `config.json` has, and no flag sets. */
const saved = <O extends Option<unknown>>(option: O): O => ({ ...option, kind: "code" });

/** The tokenizer. Environments have numbers of their own (environments.ts); a default here is in force without them. */
export const TOKENIZER = options("--set tokenizer", {
  vocabSize: number(352, "number of tokens in the vocabulary", COUNT),
  corpusEpisodes: number(2000, "number of episodes that the tokenizer is trained on; 0: it is another's", WHOLE),
  novices: flag(
    undefined,
    "whether a novice plays some of these episodes, in the same share as of the demonstrations; by default no",
  ),
});

/** The sizes of the model, which `--model` names (presets.ts). */
export const SIZES = options("model", {
  hiddenSize: saved(number(REQUIRED, "width of the model", COUNT)),
  layers: saved(number(REQUIRED, "number of blocks", COUNT)),
  heads: saved(number(REQUIRED, "number of attention heads", COUNT)),
  intermediateSize: saved(number(REQUIRED, "width of the feed-forward layers", COUNT)),
  maxPositions: saved(number(REQUIRED, "largest number of tokens of an episode", COUNT)),
  ropeTheta: saved(number(REQUIRED, "base of the rotary embedding", RATE)),
  initializerRange: saved(number(REQUIRED, "standard deviation of the initial weights", RATE)),
});

/**
 * The warm start: supervised fine-tuning on a limited set of demonstrations; with 0 steps there is none. The mixture of
 * expert and novice is that of the `medium-expert` sets of D4RL (Fu et al. 2020, arXiv 2004.07219). Imitation copies
 * both, and RL has to find out which of them pays. The novice's episodes also show the model how a terminal answers
 * mistakes, because an expert makes none. The model has had no other pretraining, so it also learns the answers.
 */
export const SFT = options("--set sft", {
  loss: open(SFT_ROWS.fields.loss),
  demonstrations: number(8000, "number of episodes by the expert and the novice", COUNT),
  noviceShare: number(0.2, "share of the demonstrations that a novice plays, who guesses actions", { min: 0, max: 1 }),
  imitateNovices: flag(undefined, "whether the novice's guesses are imitated and not only read; by default yes"),
  thoughts: flag(
    undefined,
    "whether a thought comes before each action, in environments that have thoughts; by default no",
  ),
  observationWeight: usual(SFT_ROWS.fields.observationWeight, 0.1),
  labelled: number(
    undefined,
    "how many demonstrations have their actions; an inverse dynamics model labels the others (VPT); by default all; " +
      "not with --method sft, which goes on imitating all with their own actions",
    COUNT,
  ),
  labels: open(
    oneOf(
      ["inverse", "shuffled", "none"],
      "inverse",
      "with sft.labelled: its labels; the same dealt out anew, a control; or no others",
    ),
  ),
  general: number(
    undefined,
    "weight of general texts in the loss, 1 − η of AgentTuning, beside demonstrations at η; 0: only measured; " +
      "by default neither",
    { min: 0, below: 1 },
  ),
  generalTexts: open(
    oneOf(
      ["own", "shuffled"],
      "own",
      "with sft.general: the answers of its texts, or the same dealt out anew, a control",
    ),
  ),
  steps: number(900, "number of updates; more than warmup", WHOLE),
  batchSize: number(32, "number of episodes in an update", COUNT),
  lr: number(4e-3, "learning rate", RATE),
  warmup: number(50, "number of updates in which the learning rate rises", WHOLE),
  checkpointEvery: number(300, "number of updates between two checkpoints", COUNT),
});

/** The adapter that RL trains instead of all weights, if one of these options is given (pretrained/lora.ts). */
const { r, loraAlpha, loraDropout, useRslora, useDora } = LORA.fields;
const MODULES = "names with + between them, or a regular expression of whole names";
export const ADAPTER = options("--set lora", {
  r,
  loraAlpha,
  loraDropout,
  targetModules: text(undefined, `layers that get one: all-linear, ${MODULES}; by default q_proj+v_proj`),
  excludeModules: text(undefined, `layers that get none: ${MODULES}`),
  rankPattern: byName(
    "other ranks, by names of layers or regular expressions of their ends; the first that fits counts",
    "ranks, as in q_proj:16+layers.0.mlp.up_proj:4",
    (rank) => Number.isInteger(rank) && rank >= 1,
  ),
  alphaPattern: byName(
    "other α, in the same way",
    "numbers > 0, as in q_proj:32+v_proj:8",
    (alpha) => alpha > 0 && alpha < Infinity,
  ),
  modulesToSave: text(undefined, "matrices that are trained whole beside it: lm_head, embed_tokens, with + between"),
  useRslora,
  useDora,
});

/** An adapter as it is written on the command line. */
export type AdapterSettings = OptionsOf<typeof ADAPTER>;

/** Numbers of the RL loop. */
export const LOOP = options("--set rl", {
  steps: number(160, "number of optimiser steps", WHOLE),
  iterations: number(undefined, "number of passes over each batch of episodes; by default one", COUNT),
  gradEvery: number(
    undefined,
    "number of steps between two comparisons of the world loss's gradient with the policy loss's; 0: never; " +
      "by default 64",
    WHOLE,
  ),
  gradShares: flag(undefined, "whether each term's share of the gradient is measured in those steps; by default no"),
  truncatedReward: open(TRUNCATED.fields.truncatedReward),
  groups: number(24, "number of tasks in a step", COUNT),
  groupSize: number(8, "number of episodes of each task", COUNT),
  lr: number(3e-4, "learning rate", RATE),
  warmup: number(5, "number of steps in which the learning rate rises", WHOLE),
  betas: saved(
    usual(inCode<readonly [number, number]>("AdamW's decay rates", "two numbers", Array.isArray), [0.9, 0.95]),
  ),
  clipNorm: number(1, "norm above which the gradient is clipped", RATE),
  weightDecay: number(0.01, "AdamW's weight decay", { min: 0 }),
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

/** The options of `--set rl.…`: those of the loop, and those of the method that have no part of their own. */
export const RL = {
  ...plain(METHOD.fields),
  entropy: number(0, "coefficient of the entropy bonus; with entropy.target its value at the start", { min: 0 }),
  method: text(DEFAULT_METHOD, "the method: see --method"),
  expertsOnly: flag(undefined, "for --method sft: whether the novice's demonstrations are left out; by default no"),
  checkpointEvery: number(undefined, "number of steps between two checkpoints; by default 20", COUNT),
  ...LOOP.fields,
};

/** The sampler and the limits of an episode. */
const { topK, topP, minP, maxTurns, maxActionTokens, maxObservationTokens } = PLAY.fields;
export const ROLLOUT = options("--set rollout", {
  maxTokens: number(undefined, "largest number of tokens of an episode; by default what the environment needs", COUNT),
  temperature: schedule(1, "sampling temperature; greedy play has no groups to compare", { above: 0 }),
  topK: open(topK),
  topP: open(topP),
  minP: open(minP),
  maxTurns: usual(maxTurns, 8),
  maxActionTokens: usual(maxActionTokens, 24),
  maxObservationTokens: usual(maxObservationTokens, 64),
});

/**
 * The workers that play while the learner learns (distribute/async): threads, or those that are connected to a NATS
 * server.
 */
export const WORKERS = options("async", {
  workers: saved(
    inCode<number | string>("number of threads, or a server's address", "a number or an address", (value) =>
      ["number", "string"].includes(typeof value),
    ),
  ),
  maxStaleness: number(0, "how many steps old an episode may be", WHOLE),
});

/** The intervals of evaluations, and their number of held-out tasks. */
export const EVALUATION = options("--set evaluation", {
  every: number(20, "number of steps between two evaluations", COUNT),
  episodes: number(120, "number of held-out tasks in these", COUNT),
  finalEpisodes: number(300, "number of held-out tasks before and after RL", COUNT),
  tries: number(undefined, "number of episodes of each task before and after RL, for pass@k; by default one", COUNT),
});

/** The options of a run beside its parts. */
export const RUN = options("run", {
  env: saved(text(REQUIRED, "name of the environment")),
  seed: saved(number(REQUIRED, "seed of all random numbers", { integer: true })),
  checkpointEvery: saved(number(20, "number of steps between two checkpoints", COUNT)),
});

/** The options of a table that can be given as text. */
function plain<F extends Fields>(fields: F): { [K in keyof F]: F[K] } {
  return Object.fromEntries(Object.entries(fields).filter(([, { kind }]) => kind !== "code")) as F;
}

/** Options that the main job adds to those of a part. */
const ADDED: Readonly<Record<string, Fields>> = { echo: { tools: TOOL_WEIGHTS } };

/** The option tables of methods by name. Losses over pairs and demonstrations have loops of their own. */
const fieldsOf = (entries: Readonly<Record<string, Entry<unknown>>>): Readonly<Record<string, Fields>> =>
  Object.fromEntries(
    Object.entries(entries)
      .filter(([name]) => !Object.hasOwn(PREFERENCE, name) && !Object.hasOwn(SUPERVISED, name))
      .map(([name, entry]) => [name, { ...plain(entry.options.fields), ...ADDED[name] }]),
  );

/** The options of the parts of a method. */
export const METHOD_PARTS: Readonly<Record<string, Fields>> = {
  ...fieldsOf(POLICY_LOSSES),
  ...fieldsOf(ADVANTAGES),
  ...fieldsOf(WORLD),
  ...fieldsOf(TOKEN_WEIGHTS),
  ...fieldsOf(TERMS),
};

/** The parts that every run has or may have, whatever its method. */
const COMMON = {
  kl: KL_PENALTY.fields,
  // A coefficient alone is a bonus of that weight; a controller has a target.
  entropy: { ...ADAPTIVE_ENTROPY.fields, target: { ...ADAPTIVE_ENTROPY.fields.target, required: false } },
  rolloutFilter: ROLLOUT_FILTER.fields,
  critic: CRITIC.fields,
  importanceCorrection: IMPORTANCE_CORRECTION.fields,
  rejection: REJECTION.fields,
  tokenizer: TOKENIZER.fields,
  model: SIZES.fields,
  sft: SFT.fields,
  rl: RL,
  lora: ADAPTER.fields,
  rollout: ROLLOUT.fields,
  history: HISTORY.fields,
  async: WORKERS.fields,
  evaluation: EVALUATION.fields,
  run: RUN.fields,
  reward: REWARD.fields,
  orm: ORM.fields,
  prm: PRM.fields,
  outcomeCritic: OUTCOME_CRITIC_TRAINING.fields,
  selfPlay: SELF_PLAY.fields,
};

/** The parts of plug-ins. One that a switch turns on has that as an option, too. */
const PLUGIN_PARTS: Readonly<Record<string, Fields>> = Object.fromEntries(
  PLUGINS.map(({ name, flag: { kind, about }, options: own }) => [
    name,
    kind === "switch" ? { on: flag(REQUIRED, about), ...own } : own,
  ]),
);

/** The parts under `data` of a run's settings. */
export const DATA_PARTS: readonly string[] = [...Object.keys(PLUGIN_PARTS), "selfPlay"];

/** All parts with their options. */
export const PARTS: Readonly<Record<string, Fields>> = { ...METHOD_PARTS, ...COMMON, ...PLUGIN_PARTS };

/** Options with two names. */
export const ALIASES: Readonly<Record<string, string>> = {
  "rollout.maxTokens": "model.maxPositions",
  "rl.checkpointEvery": "run.checkpointEvery",
  "rl.entropy": "entropy.coefficient",
};

/** Parts whose options with a default are all in the settings of a run that has the part. */
const KEPT = {
  tokenizer: TOKENIZER,
  sft: SFT,
  rl: { fields: { method: RL.method, ...LOOP.fields } },
  rollout: ROLLOUT,
  async: WORKERS,
  evaluation: EVALUATION,
  run: RUN,
};

/** These defaults by `PART.OPTION`. */
export const DEFAULTS: Readonly<Record<string, Value>> = Object.fromEntries(
  Object.entries(KEPT).flatMap(([part, { fields }]) =>
    Object.entries<Option<unknown>>(fields)
      .filter(([, option]) => option.default !== undefined)
      .map(([name, option]) => [`${part}.${name}`, option.default as Value] as const),
  ),
);

type AsData<V> = Schedule extends V ? ScheduleData : V;
type At<P extends keyof typeof COMMON, O> = O extends keyof (typeof COMMON)[P] ? ValueOf<(typeof COMMON)[P][O]> : never;
/** The type of the option `PART.OPTION`. */
export type ValueAt<K extends string> = K extends `${infer P}.${infer O}`
  ? P extends keyof typeof COMMON
    ? AsData<At<P, O>>
    : Value
  : never;
