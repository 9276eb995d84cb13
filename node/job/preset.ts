/** The settings of a run as data: what its `config.json` holds, so that it can be repeated and resumed. presets.ts makes them. */
import type { EnvironmentOptions } from "../../environments/index.ts";
import type { DataSettings } from "./data.ts";
import type { MethodSettings } from "./methods.ts";

/** Options of an environment as plain data. The run itself chooses between training tasks and held-out ones. */
export type TaskOptions = Omit<EnvironmentOptions, "split"> & Readonly<Record<string, unknown>>;

/** Of training and evaluation alike; and what of them is different in training alone, and in the demonstrations alone. */
export interface Tasks {
  readonly tasks?: TaskOptions;
  /** A control may train in a changed world; it is evaluated in the true one. */
  readonly trainTasks?: TaskOptions;
  /** Those of the warm start, and what the tokenizer is learnt from. */
  readonly demoTasks?: TaskOptions;
}

export interface Preset extends Tasks {
  readonly env: string;
  readonly seed: number;
  readonly tokenizer: {
    readonly vocabSize: number;
    readonly corpusEpisodes: number;
    /** Whether a novice plays its share of them, as of the demonstrations; none: no. */
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
  /** Warm start: supervised fine-tuning on a limited set of demonstrations. */
  readonly sft: {
    readonly demonstrations: number;
    /**
     * Share of the demonstrations that a novice plays (random commands with names of the task), the rest is the expert's: a mixture
     * as in the `medium-expert` sets of D4RL (Fu et al. 2020, arXiv 2004.07219). Imitation copies both; which of them pays is for
     * RL to find out. And the model reads what a terminal answers to mistakes, of which an expert makes none.
     */
    readonly noviceShare: number;
    /** Whether what the novice guesses is imitated, too, and not only read; none: yes. */
    readonly imitateNovices?: boolean;
    /** Whether thoughts come before the actions (the environment's `thoughts`), and the agent is read as one that thinks; none: no. */
    readonly thoughts?: boolean;
    /** The model has read nothing before: it also reads the terminal's answers in the demonstrations, at this weight. */
    readonly observationWeight: number;
    /** −log p, or DFT's −p·log p; none: the first. */
    readonly loss?: "sft" | "dft";
    readonly steps: number;
    readonly batchSize: number;
    readonly lr: number;
    readonly warmup: number;
    readonly checkpointEvery: number;
  };
  /** The method (methods.ts), and how it is run. */
  readonly rl: MethodSettings & {
    readonly steps: number;
    readonly groups: number;
    readonly groupSize: number;
    readonly lr: number;
    readonly warmup: number;
    readonly betas: readonly [number, number];
    readonly clipNorm: number;
    readonly weightDecay: number;
    /** Passes over each batch of episodes; none: one. */
    readonly iterations?: number;
    /** Steps between two comparisons of the world model's gradient with the policy's (rl/train/gradients.ts); none: the library's. */
    readonly gradEvery?: number;
  };
  readonly rollout: {
    readonly temperature: number;
    readonly topK?: number;
    readonly topP?: number;
    readonly minP?: number;
    readonly maxTurns: number;
    readonly maxActionTokens: number;
    readonly maxObservationTokens: number;
  };
  /** What is played beside new tasks, and how (data.ts); none: nothing. */
  readonly data?: DataSettings;
  /** Threads that play while the learner learns (rl/async); none: play and learn in turn. */
  readonly async?: { readonly workers: number; readonly maxStaleness: number };
  /** Held-out tasks: `episodes` at every evaluation during training, `finalEpisodes` before and after. */
  readonly evaluation: {
    readonly every: number;
    readonly episodes: number;
    readonly finalEpisodes: number;
    /** Episodes of each task before and after, for pass@k; none: one. */
    readonly tries?: number;
  };
  readonly checkpointEvery: number;
}
