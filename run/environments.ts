/**
 * The environments of the main job: the needs of their episodes, and their settings of warm start and RL that differ
 * from the defaults. It also turns texts such as `--set env.size=2` into options of the environment.
 */
import { nearest } from "../engine/options.ts";
import type { Option } from "../engine/optionTable.ts";
import { COMMON_OPTIONS, type EnvironmentSpec, FAULTS } from "../environments/index.ts";
import { usage, UsageError } from "./usage.ts";
import type { Preset, TaskOptions, Tasks } from "./preset.ts";
import { taskOptions, USES, WORLDS } from "./worlds.ts";
import type { Value } from "./layout.ts";
import type { SetValues } from "./settings.ts";
import { showSetting } from "./shownSettings.ts";

/** The settings of the main job for one environment. */
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

/** Room for eight turns of a command and a short answer, which are the default limits. */
const DEFAULTS: EnvironmentSettings = { maxPositions: 512 };

/**
 * In sokoban, shop, search and household the demonstrations are by an expert that slips (`slips`). Imitation copies the
 * slips, and rewards tell them from the rest.
 *
 * The limits have room for the expert's longest episodes and a few turns more. A board takes a token for every cell and
 * for every space between cells, in every turn, so the harder levels of the two environments with boards would need
 * contexts of a thousand tokens.
 */
const SETTINGS: Readonly<Record<string, EnvironmentSettings>> = {
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
  // With 900 steps of warm start the model has not learnt to copy names, and RL has nothing to select from. The
  // settings were chosen on seeds 100 to 103: 67.5 → 85.6 % on average.
  shell: {
    tasks: { levels: [1, 2] },
    limits: { maxTurns: 5, maxActionTokens: 32, maxObservationTokens: 48 },
    small: { layers: 2, heads: 4 },
    tokenizer: { vocabSize: 370, corpusEpisodes: 1000, novices: true },
    sft: { demonstrations: 4000, steps: 2500 },
    rl: { steps: 100, groups: 12, lr: 5e-4 },
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

/** One line for each environment, for `--list`. */
export function listEnvironments(): string {
  const line = ([name, { default: value, expected, about }]: readonly [string, Option<unknown>]): string =>
    `    env.${name.padEnd(18)}${value === undefined ? "" : `${showSetting(value as Value)}; `}${expected}: ${about}`;
  // A run chooses between training tasks and held-out ones by itself.
  const { split: _, ...common } = { ...COMMON_OPTIONS, ...FAULTS };
  const lines = Object.values(WORLDS).flatMap(({ name, description, source = "unpublished", options = {} }) => [
    `  ${name.padEnd(24)}${description} (${source})`,
    ...Object.entries(options)
      .filter(([option]) => option !== "split" && !Object.hasOwn(common, option))
      .map(line),
  ]);
  return ["Environments (--env)", ...lines, "  options of all of them", ...Object.entries(common).map(line)].join("\n");
}

/**
 * The settings of an environment.
 * @param thoughts whether thoughts come before the actions
 * @throws UsageError if the name is unknown
 */
export function environmentSettings(env: string, thoughts = false): EnvironmentSettings {
  if (Object.hasOwn(WORLDS, env)) {
    const settings = SETTINGS[env] ?? DEFAULTS;
    return thoughts ? { ...settings, ...settings.thoughts } : settings;
  }
  const known = Object.keys(WORLDS);
  const near = nearest(env, known);
  const hint = near === undefined ? `expected ${known.join(", ")}` : `did you mean "${near}"?`;
  throw new UsageError(`--env: unknown name "${env}"; ${hint}`);
}

/** Throws a UsageError with the environment's own message if it does not accept these options. */
export function checkTasks(spec: EnvironmentSpec, tasks: Tasks): void {
  for (const use of USES) usage(() => spec.make(taskOptions(tasks, use)).close?.());
}

/** Throws a UsageError that names the environments with thoughts if this one has none. */
export function checkThoughts(env: string): void {
  if (WORLDS[env]!.thoughts !== undefined) return;
  const names = Object.keys(WORLDS).filter((name) => WORLDS[name]!.thoughts !== undefined);
  throw new UsageError(
    `--set sft.thoughts: ${env} has no thoughts for its demonstrations; those that have: ${names.join(", ")}`,
  );
}

/** The task options of an environment, changed by `--set env.…`, `--set train.…` and `--set demo.…`. */
export function tasksOf(
  env: string,
  { tasksOfSeed, ...ofWorld }: EnvironmentSettings,
  set: SetValues["tasks"],
  seed: number,
): Tasks {
  const spec = WORLDS[env]!;
  const tasks = readOptions("env", spec, set.env, {}, { ...ofWorld.tasks, ...tasksOfSeed?.(seed) });
  const trainTasks = readOptions("train", spec, set.train, { ...tasks }, ofWorld.trainTasks);
  const demoTasks = readOptions("demo", spec, set.demo, { ...tasks }, ofWorld.demoTasks);
  return { tasks, trainTasks, demoTasks };
}

/**
 * Reads options as the environment accepts them. Only the environment knows whether an option is a number, a word or a
 * list, so each text is tried as the value that it looks like and, if the environment refuses that, as the text itself.
 */
function readOptions(
  part: string,
  spec: EnvironmentSpec,
  texts: Readonly<Record<string, string>> = {},
  under: TaskOptions,
  defaults?: TaskOptions,
): TaskOptions | undefined {
  let tried: TaskOptions[] = [{}];
  for (const [name, text] of Object.entries(texts)) {
    const readings = readingsOf(`--set ${part}.${name}`, name, text);
    tried = tried.flatMap((others) => readings.map((value): TaskOptions => ({ ...others, [name]: value })));
  }
  let first: UsageError | undefined;
  for (const options of tried) {
    const all = { ...yielding(defaults, options), ...options };
    try {
      checkTasks(spec, { tasks: { ...under, ...all } });
      return Object.keys(all).length > 0 ? all : undefined;
    } catch (error) {
      if (!(error instanceof UsageError)) throw error;
      first ??= new UsageError(`--set ${part}: ${error.message}`);
    }
  }
  throw first!;
}

/** The defaults that stay beside what was chosen: chosen levels are those of all families. */
function yielding({ families, ...rest }: TaskOptions = {}, chosen: TaskOptions): TaskOptions {
  return chosen.levels === undefined && families !== undefined ? { ...rest, families } : rest;
}

function readingsOf(where: string, name: string, text: string): readonly unknown[] {
  if (name === "split") throw new UsageError(`${where}: the run itself trains on train and evaluates on heldout`);
  if (name === "families") return [text.split("+")];
  const range = /^(-?\d+)-(-?\d+)$/.exec(text);
  const bounds = range && [Number(range[1]), Number(range[2])];
  const number = text.trim() === "" ? NaN : Number(text);
  if (name === "levels") {
    if (!bounds && !Number.isInteger(number))
      throw new UsageError(`${where}: expected levels as in 1-2, got "${text}"`);
    return [bounds ?? [number, number]];
  }
  const texts = [text, text.split("+")];
  if (bounds) return [bounds, ...texts];
  if (Number.isFinite(number)) return [number, ...texts];
  if (text === "true" || text === "false") return [text === "true", ...texts];
  return texts;
}
