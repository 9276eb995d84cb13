/**
 * The settings of a run as data: what its `config.json` holds, so that it can be repeated and resumed. presets.ts makes
 * them.
 */
import type { EnvironmentOptions } from "../environments/index.ts";
import type { WeightStorage } from "../nn/index.ts";
import type { EpisodeFormat } from "../rl/episode/template.ts";
import type { TruncatedReward } from "../rl/tasks/truncated.ts";
import type { DataSettings } from "./data.ts";
import type { MethodSettings } from "./objective.ts";
import type { AdapterSettings } from "./parts.ts";
import type { EnvironmentFile } from "./startOptions.ts";

/** Options of an environment as plain data. The run itself chooses between training and held-out tasks. */
export type TaskOptions = Omit<EnvironmentOptions, "split"> & Readonly<Record<string, unknown>>;

/** The task options of training and evaluation, and changes to them for training only and for demonstrations only. */
export interface Tasks {
  readonly tasks?: TaskOptions;
  /**
   * Changes for training only: a control experiment may train in a changed environment. It is evaluated in the
   * unchanged one.
   */
  readonly trainTasks?: TaskOptions;
  /** Changes for the demonstrations of the warm start and for the corpus of the tokenizer. */
  readonly demoTasks?: TaskOptions;
}

/** A model that the run does not make but begins with. */
export interface PretrainedSettings {
  /** Its folder. The run does not copy weights that it leaves as they are. */
  readonly path: string;
  /** The hash of its configuration, tokenizer and weights. A run is resumed only if they are still the same. */
  readonly sha256: string;
  /** How its matrices lie in memory while the run trains an adapter. */
  readonly storage: WeightStorage;
  /** The text around the parts of an episode: its own chat template's, or plain lines. */
  readonly format: EpisodeFormat;
  /** Further tokens that end an action: the model's own ends of a text. */
  readonly ends?: readonly string[];
}

/** The checkpoint of another run that a run begins with. Its weights are copied into the run's first checkpoint. */
export interface FromSettings {
  /** The folder of that run, and the step of the checkpoint. */
  readonly path: string;
  readonly step: number;
  /** The hash of the checkpoint's weights. */
  readonly sha256: string;
  /** The text around the parts of an episode, if it is not the library's own. */
  readonly format?: EpisodeFormat;
  /** Further tokens that end an action. */
  readonly ends?: readonly string[];
}

/** All settings of a run. */
export interface Preset extends Tasks {
  readonly env: string;
  /** Default: the environment is one of the library's. */
  readonly environmentFile?: EnvironmentFile;
  readonly seed: number;
  /** Default: a model and a tokenizer of the run's own. */
  readonly pretrained?: PretrainedSettings;
  /** Default: it begins with no other run's weights. */
  readonly from?: FromSettings;
  readonly tokenizer: {
    readonly vocabSize: number;
    readonly corpusEpisodes: number;
    /** Whether a novice plays some of these episodes, in the same share as of the demonstrations. Default: no. */
    readonly novices?: boolean;
  };
  readonly model: {
    readonly hiddenSize: number;
    readonly layers: number;
    readonly heads: number;
    readonly intermediateSize: number;
    readonly maxPositions: number;
    readonly ropeTheta: number;
    readonly initializerRange: number;
  };
  /** The warm start: supervised fine-tuning on a limited set of demonstrations. With no steps there is none. */
  readonly sft: {
    readonly demonstrations: number;
    /**
     * The share of the demonstrations that a novice plays (random commands with names from the task); the expert plays
     * the rest. The mixture is as in the `medium-expert` sets of D4RL (Fu et al. 2020, arXiv 2004.07219). Imitation
     * copies both, and RL has to find out which of them pays. The novice's episodes also show the model how a terminal
     * answers mistakes, because an expert makes none.
     */
    readonly noviceShare: number;
    /** Whether the novice's guesses are imitated and not only read. Default: yes. */
    readonly imitateNovices?: boolean;
    /**
     * Whether thoughts come before the actions (the environment's `thoughts`), so that the template has tags for
     * actions. Default: no.
     */
    readonly thoughts?: boolean;
    /** How many demonstrations keep their actions; inverse.ts labels the others. Default: all. */
    readonly labelled?: number;
    /** What the others get: labels (default), these labels shuffled, or none; without labels they are left out. */
    readonly labels?: "inverse" | "shuffled" | "none";
    /** The weight of general texts in the loss; 0: they are only measured. Default: there are none. */
    readonly general?: number;
    /** Their own answers (default), or the same dealt out anew. */
    readonly generalTexts?: "own" | "shuffled";
    /** The weight of predicting the answers in the demonstrations. The model has had no other pretraining. */
    readonly observationWeight: number;
    /** −log p (`sft`, the default) or DFT's −p·log p (`dft`). */
    readonly loss?: "sft" | "dft";
    readonly steps: number;
    readonly batchSize: number;
    readonly lr: number;
    readonly warmup: number;
    readonly checkpointEvery: number;
  };
  /** The method (methods.ts), and the sizes and rates of RL. */
  readonly rl: MethodSettings & {
    readonly steps: number;
    readonly groups: number;
    readonly groupSize: number;
    readonly lr: number;
    readonly warmup: number;
    readonly betas: readonly [number, number];
    readonly clipNorm: number;
    readonly weightDecay: number;
    /** The number of passes over each batch of episodes. Default: one. */
    readonly iterations?: number;
    /**
     * The number of steps between two comparisons of the world loss's gradient with the policy loss's
     * (rl/train/gradients.ts). Default: the library's.
     */
    readonly gradEvery?: number;
    /** Whether the share of each term in the gradient is measured in those steps, too. Default: no. */
    readonly gradShares?: boolean;
    /** What an episode earns that was cut short. Default: the library's, `worst`. */
    readonly truncatedReward?: TruncatedReward;
    /** Whether the episodes of a group may have different tasks where the advantage compares them. */
    readonly mixedGroups?: boolean;
    /** The largest number of tokens in a micro-batch, padding included. Default: 1200. */
    readonly maxBatchTokens?: number;
    /** Whether blocks are computed again in the backward pass instead of being kept. Default: no. */
    readonly gradientCheckpointing?: boolean;
  };
  /** The adapter that RL trains on top of the frozen warm start. Default: RL trains all weights. */
  readonly lora?: AdapterSettings;
  readonly rollout: {
    readonly temperature: number;
    readonly topK?: number;
    readonly topP?: number;
    readonly minP?: number;
    readonly maxTurns: number;
    readonly maxActionTokens: number;
    readonly maxObservationTokens: number;
  };
  /** Settings of the data (data.ts). Default: new tasks only. */
  readonly data?: DataSettings;
  /**
   * What plays while the learner learns (rl/async): this number of threads, or the workers that are connected to the
   * NATS server with this address. Default: playing and learning in turn.
   */
  readonly async?: { readonly workers: number | string; readonly maxStaleness: number };
  /** The number of held-out tasks: `episodes` in evaluations during training, `finalEpisodes` before and after it. */
  readonly evaluation: {
    readonly every: number;
    readonly episodes: number;
    readonly finalEpisodes: number;
    /** The number of episodes per task before and after training, for pass@k. Default: one. */
    readonly tries?: number;
  };
  readonly checkpointEvery: number;
}
