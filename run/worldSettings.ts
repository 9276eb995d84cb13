/**
 * The settings of the main job for each environment: the needs of its episodes, and what differs from the defaults in
 * its warm start and its RL. docs/worlds.md says what agents reach with them.
 */
import type { Preset, TaskOptions, Tasks } from "./preset.ts";

/** The settings for one environment. */
export interface EnvironmentSettings extends Tasks {
  /** Task options that depend on the seed of the run. */
  readonly tasksOfSeed?: (seed: number) => TaskOptions;
  readonly limits?: Partial<Preset["rollout"]>;
  /** The number of positions that an episode needs, if it is more than the model's size has by default. */
  readonly maxPositions?: number;
  /** Changes to the model of size `small`. */
  readonly small?: Partial<Preset["model"]>;
  /** Changes to the warm start and RL of `terminal`; docs/log.md has the experiments. */
  readonly tokenizer?: Partial<Preset["tokenizer"]>;
  readonly sft?: Partial<Preset["sft"]>;
  readonly rl?: Partial<Pick<Preset["rl"], "steps" | "groups" | "groupSize" | "lr">>;
  /** Settings that replace these if thoughts come before the actions. */
  readonly thoughts?: Partial<Omit<EnvironmentSettings, "thoughts">>;
  /**
   * The agents that `npm start` compares if no method is named (run/arms.ts). Without them it trains one agent.
   */
  readonly arms?: string;
}

/**
 * Settings with thoughts, for 4×4 boards, which take 34 tokens with their tags. A turn has 60 tokens for its thought, 4
 * for `[up]` and the end, and 34 for the answer. With the task that makes 632 tokens in 6 turns, and the longest tasks
 * of level 1 need 6 moves. 100 RL steps take two to three minutes on one thread (docs/log.md).
 */
const THOUGHTS: EnvironmentSettings["thoughts"] = {
  tasks: { levels: [1, 1], moves: 6 },
  limits: { maxTurns: 6, maxActionTokens: 64, maxObservationTokens: 48 },
  maxPositions: 640,
  small: { layers: 2, heads: 4 },
  sft: { demonstrations: 3000, steps: 1000, batchSize: 16 },
  rl: { steps: 100, groups: 6 },
};

/** Of other environments: room for eight turns of a command and a short answer, which are the default limits. */
export const OTHERS: EnvironmentSettings = { maxPositions: 512 };

/**
 * In sokoban, shop, search and household the demonstrations are by an expert that slips (`slips`). Imitation copies the
 * slips, and rewards tell them from the rest.
 *
 * The limits have room for the expert's longest episodes and a few turns more. A board takes a token for every cell and
 * for every space between cells, in every turn, so the harder levels of the two environments with boards would need
 * contexts of a thousand tokens.
 */
export const SETTINGS: Readonly<Record<string, EnvironmentSettings>> = {
  // An episode has one command and the end, so an agent that does not know the home cannot look things up. Each seed of
  // a run has its own home; the demonstrations come from thousands of others. Each arm has the learning rate and the
  // weight that did best on other seeds (docs/evidence.md).
  home: {
    tasks: { levels: [2, 2], size: 2 },
    tasksOfSeed: (seed) => ({ home: 1000 + seed }),
    demoTasks: { home: -1 },
    limits: { maxTurns: 2, maxActionTokens: 32, maxObservationTokens: 48 },
    small: { layers: 2, heads: 4 },
    tokenizer: { vocabSize: 370, corpusEpisodes: 1500, novices: true },
    sft: { demonstrations: 3000, noviceShare: 0.5, imitateNovices: false, steps: 700, warmup: 30 },
    rl: { steps: 200, groups: 8, lr: 5e-4 },
    arms:
      "grpo=grpo_token,grpo+echo=grpo_token+echo[lambda=0.5,rl.lr=1e-3],own successes=rft," +
      "demonstrations=sft[rl.expertsOnly=true,rl.lr=1e-3],random play=random",
  },
  // The settings are those of home and were not tuned.
  castle: {
    tasks: { levels: [1, 2] },
    tasksOfSeed: (seed) => ({ castle: 1000 + seed }),
    demoTasks: { castle: -1 },
    limits: { maxTurns: 3, maxActionTokens: 32, maxObservationTokens: 48 },
    small: { layers: 2, heads: 4 },
    tokenizer: { vocabSize: 370, corpusEpisodes: 1500, novices: true },
    sft: { demonstrations: 3000, noviceShare: 0.5, imitateNovices: false, steps: 700, warmup: 30 },
    rl: { steps: 200, groups: 8, lr: 5e-4 },
  },
  terminal: {
    limits: { maxTurns: 5, maxActionTokens: 32, maxObservationTokens: 48 },
    // The warm start also imitates a novice. After it, imitation of the expert alone succeeds without rewards
    // (docs/command-line.md).
    arms: "grpo+echo=grpo_token+echo,the expert's demonstrations=sft[rl.expertsOnly=true]",
  },
  // Names as in shop. With generated ones a warm start of ten minutes is worth 39 to 77 %, by its seed (docs/log.md).
  shell: {
    tasks: { levels: [1, 2], everyday: true },
    demoTasks: { slips: 0.2 },
    limits: { maxTurns: 5, maxActionTokens: 32, maxObservationTokens: 48 },
    small: { layers: 2, heads: 4 },
    tokenizer: { vocabSize: 480, corpusEpisodes: 1000, novices: true },
    sft: { demonstrations: 4000, noviceShare: 0, steps: 1500 },
    rl: { steps: 60, groups: 12, lr: 5e-4 },
  },
  // The settings are those of home.
  host: {
    tasks: { levels: [1, 1], size: 2 },
    tasksOfSeed: (seed) => ({ host: 1000 + seed }),
    demoTasks: { host: -1 },
    limits: { maxTurns: 2, maxActionTokens: 32, maxObservationTokens: 48 },
    small: { layers: 2, heads: 4 },
    tokenizer: { vocabSize: 370, corpusEpisodes: 1500, novices: true },
    sft: { demonstrations: 3000, noviceShare: 0.5, imitateNovices: false, steps: 700, warmup: 30 },
    rl: { steps: 200, groups: 8, lr: 5e-4 },
  },
  // For a model that somebody has trained before (--model-path): the tasks are no world that a small one learns.
  harbor: {
    limits: { maxTurns: 16, maxActionTokens: 256, maxObservationTokens: 512 },
    maxPositions: 4096,
    rl: { steps: 20, groups: 4 },
  },
  gridworld: {
    tasks: { levels: [1, 2] },
    limits: { maxTurns: 12, maxActionTokens: 8, maxObservationTokens: 48 },
    maxPositions: 512,
    // Half of the usual steps: 900 leave RL little to teach.
    sft: { steps: 450 },
    rl: { lr: 5e-4 },
    thoughts: THOUGHTS,
  },
  // The demonstrations err in three moves of ten, and have moves to spare. The tasks have none, so a wrong move is the
  // last. Answers say where box and goal are: with boards of 34 tokens RL stayed where the warm start was.
  sokoban: {
    tasks: { levels: [1, 1], brief: true, spare: 0, giveUp: true },
    demoTasks: { slips: 0.3, spare: 3, giveUp: false },
    limits: { maxTurns: 8, maxActionTokens: 8, maxObservationTokens: 24 },
    maxPositions: 256,
    sft: { demonstrations: 4000, noviceShare: 0, steps: 800 },
    rl: { steps: 40, groups: 24, lr: 5e-4 },
    thoughts: { ...THOUGHTS, demoTasks: {} },
  },
  calculator: {
    tasks: { levels: [1, 3] },
    limits: { maxTurns: 6, maxActionTokens: 24, maxObservationTokens: 32 },
    maxPositions: 256,
    sft: { steps: 600 },
    rl: { steps: 60 },
  },
  // After 350 steps of warm start 86 % are solved, and little is left to learn from rewards.
  code: {
    tasks: { levels: [1, 2] },
    limits: { maxTurns: 4, maxActionTokens: 24, maxObservationTokens: 32 },
    maxPositions: 224,
    sft: { steps: 180 },
    rl: { steps: 60 },
  },
  // Four fifths of the demonstrations are a novice's, of whose edits a third are right; rewards tell which. Numbers
  // have one digit: after 900 steps few of two digits are copied rightly.
  patch: {
    tasks: { levels: [1, 2], largest: 9 },
    limits: { maxTurns: 8, maxActionTokens: 24, maxObservationTokens: 40 },
    maxPositions: 256,
    small: { layers: 2, heads: 4 },
    tokenizer: { corpusEpisodes: 1000, novices: true },
    sft: { demonstrations: 2000, noviceShare: 0.8 },
    rl: { steps: 100, groups: 12, lr: 5e-4 },
  },
  // Most of the demonstrations are a novice's, who errs in half of its actions, and rewards tell which. After 1,000
  // steps of warm start names are copied, but often wrongly.
  web: {
    tasks: { families: ["enter", "choose", "form"] },
    limits: { maxTurns: 8, maxActionTokens: 16, maxObservationTokens: 48 },
    maxPositions: 384,
    small: { layers: 2, heads: 4 },
    tokenizer: { vocabSize: 370, corpusEpisodes: 1000, novices: true },
    sft: { demonstrations: 4000, steps: 1200, noviceShare: 0.7, observationWeight: 0.5 },
    rl: { steps: 60, groups: 12, lr: 5e-4 },
  },
  // As in web; a third of the novice's actions are wrong. With demonstrations of `type` alone RL did not learn
  // `correct`.
  screen: {
    tasks: { families: ["type", "correct"] },
    limits: { maxTurns: 8, maxActionTokens: 16, maxObservationTokens: 64 },
    maxPositions: 320,
    small: { layers: 2, heads: 4 },
    tokenizer: { vocabSize: 370, corpusEpisodes: 1000, novices: true },
    sft: { demonstrations: 4000, steps: 1200, noviceShare: 0.7, observationWeight: 0.5 },
    rl: { steps: 50, groups: 12, lr: 5e-4 },
  },
  tools: {
    tasks: { levels: [1, 2] },
    limits: { maxTurns: 6, maxActionTokens: 24, maxObservationTokens: 40 },
    maxPositions: 224,
    rl: { steps: 100 },
  },
  // Names of several tokens are miscopied, and RL does not mend that; so they are words. The score would teach to buy
  // without choosing a color, which it pays by two thirds.
  shop: {
    tasks: { levels: [1, 2], everyday: true, mistakes: 1, reward: "success" },
    demoTasks: { slips: 0.2, mistakes: 16 },
    limits: { maxTurns: 6, maxActionTokens: 8, maxObservationTokens: 32 },
    maxPositions: 320,
    small: { layers: 2, heads: 4 },
    tokenizer: { vocabSize: 480, corpusEpisodes: 500 },
    sft: { demonstrations: 4000, noviceShare: 0, steps: 1400, batchSize: 16 },
    rl: { steps: 50, groups: 16, lr: 5e-4 },
  },
  // Names as in shop. An answer names its relation, as the page does, so that it can be copied from there. Questions of
  // two hops (bridge) are left out: after such a warm start 0 to 4 % are answered, too few for RL to select from.
  search: {
    tasks: { families: ["fact", "reverse", "both"], everyday: true, cite: true, mistakes: 1 },
    demoTasks: { slips: 0.2, mistakes: 16 },
    limits: { maxTurns: 5, maxActionTokens: 12, maxObservationTokens: 40 },
    maxPositions: 320,
    small: { layers: 2, heads: 4 },
    tokenizer: { vocabSize: 480, corpusEpisodes: 500 },
    sft: { demonstrations: 4000, noviceShare: 0, steps: 1000, batchSize: 16 },
    rl: { steps: 50, groups: 16, lr: 5e-4 },
  },
  // Few episodes, because a server may be slow and have only one task; --set changes it for a particular server.
  openenv: {
    limits: { maxTurns: 10, maxActionTokens: 16, maxObservationTokens: 48 },
    maxPositions: 768,
    tokenizer: { vocabSize: 300, corpusEpisodes: 40, novices: true },
    sft: { demonstrations: 60, noviceShare: 0.5, steps: 200, warmup: 20 },
    rl: { steps: 20, groups: 4 },
  },
  // Names as in shop. An impossible action ends an episode: so few tokens share the blame, and what follows a mistake
  // costs no time. The demonstrations go on after one.
  household: {
    tasks: { levels: [1, 2], everyday: true, mistakes: 1 },
    demoTasks: { slips: 0.15, mistakes: 16, maxSteps: 16 },
    limits: { maxTurns: 12, maxActionTokens: 8, maxObservationTokens: 24 },
    maxPositions: 384,
    small: { layers: 2, heads: 4 },
    tokenizer: { vocabSize: 480, corpusEpisodes: 500 },
    sft: { demonstrations: 4000, noviceShare: 0, steps: 800, batchSize: 16 },
    rl: { steps: 40, groups: 16, lr: 5e-4 },
  },
};
