/**
 * The common part of all environments of the library. A game is an environment written as pure functions of a task
 * (fixed for the episode) and a state (a value that each action replaces). `defineGame` makes an `EnvironmentSpec` from
 * it and adds what all games share: options, families, seeds, counters, clones and the contract.
 *
 * A move never changes the state that it was given, so a clone of a live episode is another reference to the same
 * state, and a search tree may hold as many as it likes.
 */
import { check } from "../engine/errors.ts";
import { checkKeys, showValue } from "../engine/options.ts";
import { Rng } from "../engine/index.ts";
import {
  type Achievement,
  type CallLimits,
  type EndResult,
  type Environment,
  type EnvironmentSpec,
  type FamilyInfo,
  type NoviceMove,
  type OutsideEnd,
  type ShownTurn,
  SingleUseEnvironment,
  type StepInfo,
  type StepResult,
} from "../rl/environment.ts";
import { flag, number, type Option, type Settled } from "../engine/optionTable.ts";
import {
  COMMON_OPTIONS,
  type OptionFields,
  type OptionsWith,
  type SettledOptions,
  settleOptions,
  type SHAPED,
} from "./options.ts";
import { selectFamilies } from "./selection.ts";

/** The option of games that come in three sizes. */
export const SIZED = {
  size: number(1, "how much of everything there is in a world", { integer: true, min: 1, max: 3 }),
};
/** The option of games whose names are generated. */
export const NAMED = {
  everyday: flag(
    false,
    "everyday words as names, the same in all tasks, in place of generated ones; other tasks are held out, not names",
  ),
};
/** Actions among which an expert may slip: demonstrations have to end within 16. */
const SLIPPERY = 6;
/** Options of games whose expert may slip, and whose episodes may end with a mistake. */
export const STRICT = {
  slips: number(0, `share of the expert's first ${SLIPPERY} actions that are random ones: demonstrations that err`, {
    min: 0,
    below: 1,
  }),
  mistakes: number(undefined, "failed actions after which an episode ends unsolved; by default it goes on", {
    integer: true,
    min: 1,
  }),
};
/** Options of games that come in three sizes: `size` 1 (default) to 3, and `EnvironmentOptions`. */
export type GameOptions = OptionsWith<typeof SIZED>;

/** A task of a game. */
export interface GameTask {
  /** The first observation. */
  readonly text: string;
}

/** A live episode, as the functions of its game get it. */
export interface Episode<F extends OptionFields, Task, State> {
  /** Every option has a value, unless it has no default and was not given. */
  readonly options: SettledOptions<F>;
  readonly task: Task;
  readonly state: State;
  /** The number of actions so far, and the number of those that failed. */
  readonly turns: number;
  readonly toolErrors: number;
}

/** The result of an action. */
export interface Move<State> {
  readonly observation: string;
  /** The new state. Default: the old one. */
  readonly state?: State | undefined;
  /** True if the action was malformed or impossible; counted in `info.toolErrors`. */
  readonly failed?: boolean | undefined;
  /** The ending of the episode; undefined while it goes on. */
  readonly ending?: Ending | undefined;
  /** The reward of this action. Default: the score of the ending, and 0 for an action that does not end the episode. */
  readonly reward?: number | undefined;
  /** Further info of this step. */
  readonly info?: StepInfo | undefined;
  /**
   * Entropy of the observation in nats, as in `answerEntropy` of a step's info (rl/environment.ts). Default: unknown.
   */
  readonly entropy?: number | undefined;
}
const MOVE_KEYS = ["observation", "state", "failed", "ending", "reward", "info", "entropy"] as const;

/** The ending of an episode. */
export interface Ending {
  /** A word for metrics: "answer", "buy", … */
  readonly kind: string;
  /** Graded success in [0, 1]; 1 exactly if the task is solved. */
  readonly score: number;
}

/** The head of a game: all that lists and checks of options need before it is played. */
export interface GameHead<F extends OptionFields, Family extends FamilyInfo> {
  readonly name: string;
  readonly description: string;
  /** The source of its idea, with a paper if there is one. */
  readonly source?: string;
  /** The families of tasks, easiest first. */
  readonly families: readonly Family[];
  /** Its own options, beside those of all environments. */
  readonly options: F;
  /** The number of episodes that can live at a time, as in `EnvironmentSpec`. */
  atOnce?(options: SettledOptions<F>): number;
  /** The time that calls may take, as in `EnvironmentSpec`. */
  limits?(options: SettledOptions<F>): CallLimits;
  /** Whether it can be played here, as in `EnvironmentSpec`. */
  check?(options: SettledOptions<F>): Promise<void>;
  /** What the tasks are made of, as in `EnvironmentSpec`. */
  fingerprint?(options: SettledOptions<F>): Promise<string>;
}

/** The rules of a game. */
export interface GameRules<F extends OptionFields, Family extends FamilyInfo, Task extends GameTask, State> {
  /** Makes a task; the same stream and options give the same task. */
  makeTask(rng: Rng, family: Family, options: SettledOptions<F>): Task | Promise<Task>;
  /** The state before the first action. */
  start(task: Task, options: SettledOptions<F>): State | Promise<State>;
  /** Plays one action. An error in the action's text is reported in the observation, never thrown. */
  play(episode: Episode<F, Task, State>, action: string): Move<State> | Promise<Move<State>>;
  /**
   * The ending of an episode that the caller ends; its score is added to the rewards so far. Default, and if it is
   * undefined: the caller decides how the episode counts.
   */
  end?(episode: Episode<F, Task, State>, reason: OutsideEnd): Ending | undefined | Promise<Ending | undefined>;
  /**
   * Frees what the state holds outside this program. A game with it has live states: a move changes the one that it was
   * given, and there are no clones. It is called once, at the latest when the episode is given up.
   */
  close?(state: State): void;
  /** The expert's next action. Default: there is none, and so no demonstrations. */
  expert?(episode: Episode<F, Task, State>): string;
  /** The action of the random baseline, as `EnvironmentSpec` has it. */
  random(rng: Rng, task: string | undefined, options: SettledOptions<F>): string;
  /** The novice's next action. Default: two random actions, then it gives up. */
  novice?(episode: Episode<F, Task, State>, rng: Rng): NoviceMove;
  /** The names of the subgoals that hold now: for games with the options `SHAPED`. */
  subgoals?(episode: Episode<F, Task, State>): readonly string[];
  /** A thought before the next action, as in `EnvironmentSpec`. */
  thoughts?(episode: Episode<F, Task, State>, rng: Rng): string;
  /** The task that these turns have solved, as in `EnvironmentSpec`. */
  achieved?(task: string, turns: readonly ShownTurn[]): Achievement | undefined;
  /** The task with another seed for all that is left to chance after `reset`. Default: nothing is. */
  reseed?(task: Task, seed: number): Task;
}

/**
 * A game: head and rules, which are functions of a task, fixed for the episode, and of a state, which each action
 * replaces. docs/adding-an-environment.md writes one.
 */
export interface Game<F extends OptionFields, Family extends FamilyInfo, Task extends GameTask, State>
  extends GameHead<F, Family>, GameRules<F, Family, Task, State> {}

/** The head of a game whose rules are loaded with its first episode. */
export interface LoadedGame<F extends OptionFields, Family extends FamilyInfo> extends GameHead<F, Family> {
  /** Flags of the optional functions that its rules have; they are needed before the rules are loaded. */
  readonly expert?: true;
  readonly novice?: true;
  readonly thoughts?: true;
  readonly achieved?: true;
  readonly close?: true;
}

/** Loads the rules of a game, with `import()`. */
export type LoadRules<F extends OptionFields, Family extends FamilyInfo, Task extends GameTask, State> = () => Promise<{
  readonly rules: GameRules<F, Family, Task, State>;
}>;

/** A live episode of a game. */
export class GameEnvironment<
  F extends OptionFields,
  Family extends FamilyInfo,
  Task extends GameTask,
  State,
> extends SingleUseEnvironment {
  readonly name: string;
  readonly game: GameHead<F, Family>;
  readonly #load: () => Promise<GameRules<F, Family, Task, State>>;
  readonly #given: OptionsWith<F>;
  readonly #options: SettledOptions<F>;
  readonly #families: readonly Family[];
  #rules: GameRules<F, Family, Task, State> | undefined;
  #family: Family | undefined;
  #episode: Episode<F, Task, State> | undefined;
  /** The subgoals reached so far, those before the first action included, and the number that hold now. */
  #reached: ReadonlySet<string> = new Set();
  #held = 0;
  /** Sum of the entropies of all answers so far; undefined once one of them is unknown. */
  #answerEntropy: number | undefined = 0;
  #isClosed = false;

  /** @throws on option values that make no sense */
  constructor(
    game: GameHead<F, Family>,
    load: () => Promise<GameRules<F, Family, Task, State>>,
    given: OptionsWith<F>,
  ) {
    super();
    this.#load = load;
    this.#given = given;
    this.#options = settleOptions(game.name, game.options, given);
    this.#families = selectFamilies(game.name, game.families, this.#options);
    this.name = game.name;
    this.game = game;
    // A live state cannot be copied, and whoever asks for a clone looks whether there is such a method.
    if ((game as Players).close !== undefined) Object.defineProperty(this, "clone", { value: undefined });
  }

  protected async begin(seed: number): Promise<string> {
    const options = this.#options;
    const rules = (this.#rules = await this.#load());
    const rng = new Rng(seed).split(`${this.name}/${options.split}`);
    this.#family = rng.choice(this.#families);
    const task = await rules.makeTask(rng, this.#family, options);
    const state = await rules.start(task, options);
    this.#episode = { options, task, state, turns: 0, toolErrors: 0 };
    // The caller may have given up meanwhile.
    if (this.#isClosed) rules.close?.(state);
    this.#progress(false);
    return task.text;
  }

  /** Reward by the options `SHAPED` for the subgoals that hold now. */
  #progress(isOver: boolean): number {
    const { subgoals = 0, shaping = 0 } = this.#options as Partial<Settled<typeof SHAPED>>;
    if (subgoals === 0 && shaping === 0) return 0;
    const holds = this.rules.subgoals!(this.episode);
    const fresh = holds.filter((name) => !this.#reached.has(name)).length;
    const held = isOver ? 0 : holds.length;
    const rise = held - this.#held;
    this.#reached = new Set([...this.#reached, ...holds]);
    this.#held = held;
    return subgoals * fresh + shaping * rise;
  }

  /** The episode with all that is hidden from the agent, for experts and tests. @throws before reset */
  get episode(): Episode<F, Task, State> {
    check(this.#episode !== undefined, () => `${this.name}: the episode has no task yet; call reset first`);
    return this.#episode;
  }

  /** The rules of the game. @throws before reset */
  get rules(): GameRules<F, Family, Task, State> {
    check(this.#rules !== undefined, () => `${this.name}: the episode has no task yet; call reset first`);
    return this.#rules;
  }

  /** @throws before reset */
  get info(): StepInfo {
    check(this.#family !== undefined, () => `${this.name}: the episode has no task yet; call reset first`);
    return { family: this.#family.name, level: this.#family.level };
  }

  protected async act(action: string): Promise<StepResult> {
    const before = this.episode;
    const played = await this.rules.play(before, action);
    checkKeys(`${this.name}.play`, played, MOVE_KEYS);
    if (played.ending !== undefined) checkEnding(`${this.name}.play`, played.ending);
    const { observation, state, failed, reward, info, entropy } = played;
    const turns = before.turns + 1;
    const toolErrors = before.toolErrors + (failed ? 1 : 0);
    const { mistakes = Infinity } = this.#options as Partial<Settled<typeof STRICT>>;
    const ending = played.ending ?? (toolErrors >= mistakes ? { kind: "mistakes", score: 0 } : undefined);
    this.#episode = { ...before, state: state ?? before.state, turns, toolErrors };
    const isKnown = this.#answerEntropy !== undefined && entropy !== undefined;
    this.#answerEntropy = isKnown ? this.#answerEntropy! + entropy : undefined;
    if (ending !== undefined) this.close();
    const { kind, score } = ending ?? { kind: "none", score: 0 };
    return {
      observation,
      reward: (reward ?? score) + this.#progress(ending !== undefined),
      done: ending !== undefined,
      info: {
        ...this.info,
        success: score === 1,
        score,
        toolErrors,
        turns,
        ending: kind,
        ...(this.#answerEntropy === undefined ? {} : { answerEntropy: this.#answerEntropy }),
        ...info,
      },
    };
  }

  protected override async finish(reason: OutsideEnd): Promise<EndResult | undefined> {
    const ending = await this.rules.end?.(this.episode, reason);
    if (ending === undefined) return undefined;
    checkEnding(`${this.name}.end`, ending);
    const { kind, score } = ending;
    const info = { ...this.info, success: score === 1, score, ending: kind };
    return { reward: score + this.#progress(true), info };
  }

  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    if (this.#episode !== undefined) this.rules.close?.(this.#episode.state);
  }

  clone(seed?: number): GameEnvironment<F, Family, Task, State> {
    const copy = new GameEnvironment(this.game, this.#load, this.#given);
    copy.resumeFrom(this);
    const episode = this.#episode;
    const isReseeded = episode !== undefined && seed !== undefined && this.rules.reseed !== undefined;
    copy.#episode = isReseeded ? { ...episode, task: this.rules.reseed!(episode.task, seed) } : episode;
    copy.#rules = this.#rules;
    copy.#family = this.#family;
    copy.#answerEntropy = this.#answerEntropy;
    copy.#reached = this.#reached;
    copy.#held = this.#held;
    return copy;
  }
}

/**
 * Makes an environment of a game. Options with checks and defaults, seeds, the choice of families and levels, counts of
 * turns and of failed actions (`info.turns`, `info.toolErrors`), and clones are the same for all games.
 *
 * @example
 * const coin = defineGame({
 *   name: "coin",
 *   description: "say how a coin fell",
 *   families: [{ name: "fair", level: 1, description: "heads or tails" }],
 *   options: {},
 *   makeTask: (rng) => ({ text: "Heads or tails?", side: rng.choice(["heads", "tails"]) }),
 *   start: () => 0,
 *   play: ({ task: { side } }, action) => ({
 *     observation: side,
 *     ending: { kind: "said", score: Number(action === side) },
 *   }),
 *   expert: ({ task }) => task.side,
 *   random: (rng) => rng.choice(["heads", "tails"]),
 * });
 *
 * @param load loads the rules, if `game` is the head alone: a page then loads no environment that nobody plays. The
 *   first `check` or `reset` calls it; the random player, too, is there from then on
 */
export function defineGame<F extends OptionFields, Family extends FamilyInfo, Task extends GameTask, State>(
  game: Game<F, Family, Task, State>,
): EnvironmentSpec<OptionsWith<F>>;
export function defineGame<F extends OptionFields, Family extends FamilyInfo, Task extends GameTask, State>(
  game: LoadedGame<F, Family>,
  load: LoadRules<F, Family, Task, State>,
): EnvironmentSpec<OptionsWith<F>>;
export function defineGame<F extends OptionFields, Family extends FamilyInfo, Task extends GameTask, State>(
  game: Game<F, Family, Task, State> | LoadedGame<F, Family>,
  load?: LoadRules<F, Family, Task, State>,
): EnvironmentSpec<OptionsWith<F>> {
  checkGame(game, load !== undefined);
  const { name, description, source, families, options } = game;
  type Rules = GameRules<F, Family, Task, State>;
  let rules: Rules | undefined = load === undefined ? (game as Game<F, Family, Task, State>) : undefined;
  const loaded = async (): Promise<Rules> => (rules ??= fitting(game, (await load!()).rules));
  const settled = (given = {} as OptionsWith<F>): SettledOptions<F> => settleOptions(name, options, given);
  const live = (env: Environment, asked: string): GameEnvironment<F, Family, Task, State> => {
    const isOwn = env instanceof GameEnvironment && env.game === game;
    check(isOwn, () => `${name}.${asked}: expected a ${name} episode, got "${env.name}"`);
    return env as GameEnvironment<F, Family, Task, State>;
  };
  return {
    name,
    description,
    ...(source === undefined ? {} : { source }),
    families: families.map((family) => ({ name: family.name, level: family.level, description: family.description })),
    options: { ...COMMON_OPTIONS, ...options },
    make: (given = {} as OptionsWith<F>) => new GameEnvironment(game, loaded, given),
    ...(game.atOnce && { atOnce: (given?: OptionsWith<F>) => game.atOnce!(settled(given)) }),
    ...(game.limits && { limits: (given?: OptionsWith<F>) => game.limits!(settled(given)) }),
    // Who asks first waits for the rules here, and no `reset` is late because a busy machine was loading them.
    ...((load !== undefined || game.check !== undefined) && {
      async check(given?: OptionsWith<F>) {
        await Promise.all([loaded(), game.check?.(settled(given))]);
      },
    }),
    ...(game.fingerprint && { fingerprint: (given?: OptionsWith<F>) => game.fingerprint!(settled(given)) }),
    ...(game.expert && {
      expert(env: Environment) {
        const { rules, episode } = live(env, "expert");
        const { task, turns, options } = episode;
        const { slips = 0 } = options as Partial<Settled<typeof STRICT>>;
        if (slips === 0 || turns >= SLIPPERY) return rules.expert!(episode);
        // Asked twice, it says the same.
        const rng = new Rng(0).split(`slip/${turns}/${task.text}`);
        return rng.uniform() < slips ? rules.random(rng, task.text, options) : rules.expert!(episode);
      },
    }),
    random(rng, task, given) {
      check(rules !== undefined, () => `${name}.random: nobody has played ${name} yet; reset an episode of it first`);
      return rules.random(rng, task, settled(given));
    },
    ...(game.novice && {
      novice(env: Environment, rng: Rng) {
        const { rules, episode } = live(env, "novice");
        return rules.novice!(episode, rng);
      },
    }),
    ...(game.thoughts && {
      thoughts(env: Environment, rng: Rng) {
        const { rules, episode } = live(env, "thoughts");
        return rules.thoughts!(episode, rng);
      },
    }),
    ...(game.achieved && {
      achieved: async (task: string, turns: readonly ShownTurn[]) => (await loaded()).achieved!(task, turns),
    }),
  };
}

const HEAD_KEYS = [
  "name",
  "description",
  "source",
  "families",
  "options",
  "atOnce",
  "limits",
  "check",
  "fingerprint",
  "expert",
  "novice",
  "thoughts",
  "achieved",
  "close",
];
const RULE_KEYS = ["makeTask", "start", "play", "end", "random", "subgoals", "reseed"];

/** @throws if a game in JavaScript lacks something, or has what is no part of a game */
function checkGame(game: object, isHead: boolean): void {
  const parts = game as Record<string, unknown>;
  checkKeys<Record<string, unknown>, string[]>("defineGame", parts, isHead ? HEAD_KEYS : [...HEAD_KEYS, ...RULE_KEYS]);
  const { name, families, options } = parts;
  check(typeof name === "string", () => `defineGame: name must be a text, got ${showValue(name)}`);
  const where = `defineGame: ${name}`;
  const hasFamilies = Array.isArray(families) && families.length > 0;
  const form = "a list of families { name, level, description }";
  check(hasFamilies, () => `${where}: families must be ${form}, got ${showValue(families)}`);
  const isOption = (value: unknown): boolean => typeof (value as Option<unknown> | null)?.accepts === "function";
  const areOptions = typeof options === "object" && options !== null && Object.values(options).every(isOption);
  check(
    areOptions,
    () => `${where}: options must be { NAME: option.number(…), … }, {} if there are none, got ${showValue(options)}`,
  );
  if (isHead) return;
  for (const rule of ["makeTask", "start", "play", "random"])
    check(
      typeof parts[rule] === "function",
      () => `${where}: ${rule} must be a function, got ${showValue(parts[rule])}`,
    );
}

function checkEnding(where: string, ending: Ending): void {
  checkKeys(`${where}: ending`, ending, ["kind", "score"]);
  const { kind, score } = ending;
  check(typeof kind === "string", () => `${where}: ending.kind must be a word, got ${showValue(kind)}`);
  const isScore = typeof score === "number" && score >= 0 && score <= 1;
  check(isScore, () => `${where}: ending.score must be in [0, 1], got ${showValue(score)}`);
}

/** The loaded rules. @throws if they lack what the head names, or have what it does not name */
function fitting<Rules extends Players>(head: Players & { readonly name: string }, rules: Rules): Rules {
  for (const player of ["expert", "novice", "thoughts", "achieved", "close"] as const) {
    const [said, has] = [head[player] !== undefined, rules[player] !== undefined];
    const [one, other] = said ? ["", "not "] : ["not ", ""];
    check(said === has, () => `${head.name}: ${player} is ${one}in the head and ${other}in the rules`);
  }
  return rules;
}

interface Players {
  readonly expert?: unknown;
  readonly novice?: unknown;
  readonly thoughts?: unknown;
  readonly achieved?: unknown;
  readonly close?: unknown;
}
