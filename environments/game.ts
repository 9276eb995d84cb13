/**
 * A game: an environment written as pure functions over a task (fixed for the episode) and a state (a value that each action
 * replaces). `defineGame` makes an `EnvironmentSpec` of one: options, seeds, counting and the contract are the same for all.
 *
 * An action is a verb and the rest of its line. A move never changes the state that it was given, so a clone of a live episode
 * is another reference to the same state, and a search tree may hold as many as it likes.
 */
import { check } from "../engine/errors.ts";
import { Rng } from "../engine/index.ts";
import {
  type Environment,
  type EnvironmentOptions,
  type EnvironmentSpec,
  type FamilyInfo,
  type NoviceMove,
  SingleUseEnvironment,
  type StepInfo,
  type StepResult,
} from "./environment.ts";
import { selectFamilies, type Split } from "./selection.ts";
import { drawWord } from "./words.ts";

export interface GameOptions extends EnvironmentOptions {
  /** 1 (default) to 3: how much of everything there is in the world of a task. */
  readonly size?: number;
}
export const MAX_SIZE = 3;

/** What a game makes of a seed. */
export interface GameTask {
  /** The first observation. */
  readonly text: string;
}

/** What an action does. */
export interface Move<State> {
  readonly observation: string;
  /** Default: nothing has changed. */
  readonly state?: State;
  /** True if the action was malformed or impossible; counted in `info.toolErrors`. */
  readonly failed?: boolean;
  readonly ending?: Ending;
  /** Entropy of the observation in nats, as `answerEntropy` of a step's info has it (environment.ts). Default: nobody has worked it out. */
  readonly entropy?: number;
}

/** The last move of an episode. */
export interface Ending {
  /** How it ended, for metrics: "answer", "buy", … */
  readonly kind: string;
  /** Graded success in [0, 1]; 1 exactly if the task is solved. */
  readonly score: number;
}

export interface Game<Options extends GameOptions, Family extends FamilyInfo, Task extends GameTask, State> {
  readonly name: string;
  readonly description: string;
  readonly families: readonly Family[];
  /** Names of the options that it has beside those of `GameOptions`. */
  readonly optionNames: readonly (keyof Options & string)[];
  /** @throws on values of its own options that make no sense */
  checkOptions?(options: Options): void;
  /** Makes a task; the same stream and options give the same task. */
  makeTask(rng: Rng, family: Family, options: Options): Task;
  start(task: Task, options: Options): State;
  /** @param verb the first word of the action in lower case @param rest what follows it, with single spaces */
  play(task: Task, state: State, verb: string, rest: string, options: Options): Move<State>;
  /** The expert's next action. */
  expert(task: Task, state: State): string;
  random(rng: Rng, task?: string, options?: Options): string;
  /** What a newcomer does now, if there is more to say than that two actions are random. */
  novice?(task: Task, state: State, rng: Rng, options: Options): NoviceMove;
  /** The reward of an ending. Default: its score. */
  reward?(score: number, options: Options, task: Task): number;
}

/** A live episode of a game. */
export class GameEnvironment<
  Options extends GameOptions,
  Family extends FamilyInfo,
  Task extends GameTask,
  State,
> extends SingleUseEnvironment {
  readonly name: string;
  readonly game: Game<Options, Family, Task, State>;
  readonly #options: Options;
  readonly #families: readonly Family[];
  #episode: { readonly family: Family; readonly task: Task } | undefined;
  #state: State | undefined;
  #turns = 0;
  #toolErrors = 0;
  /** Of all answers so far; undefined once one did not tell its own. */
  #answerEntropy: number | undefined = 0;

  /** @throws on option values that make no sense */
  constructor(game: Game<Options, Family, Task, State>, options: Options) {
    super();
    this.#families = checkGameOptions(game, options);
    this.name = game.name;
    this.game = game;
    this.#options = options;
  }

  protected begin(seed: number): string {
    const rng = new Rng(seed).split(`${this.name}/${this.#options.split ?? "train"}`);
    const family = rng.choice(this.#families);
    const task = this.game.makeTask(rng, family, this.#options);
    this.#episode = { family, task };
    this.#state = this.game.start(task, this.#options);
    return task.text;
  }

  /** @throws before reset */
  get info(): StepInfo {
    const { family } = this.#started();
    return { family: family.name, level: family.level };
  }

  protected act(action: string): StepResult {
    const { task } = this.#started();
    const [verb = "", ...rest] = action.trim().split(/\s+/);
    const move = this.game.play(task, this.#state as State, verb.toLowerCase(), rest.join(" "), this.#options);
    this.#turns++;
    if (move.failed) this.#toolErrors++;
    if (this.#answerEntropy !== undefined) this.#answerEntropy = move.entropy === undefined ? undefined : this.#answerEntropy + move.entropy; // prettier-ignore
    this.#state = move.state ?? this.#state;
    const { kind, score } = move.ending ?? { kind: "none", score: 0 };
    return {
      observation: move.observation,
      reward: move.ending && this.game.reward ? this.game.reward(score, this.#options, task) : score,
      done: move.ending !== undefined,
      info: {
        ...this.info,
        success: score === 1,
        score,
        toolErrors: this.#toolErrors,
        turns: this.#turns,
        ending: kind,
        ...(this.#answerEntropy === undefined ? {} : { answerEntropy: this.#answerEntropy }),
      },
    };
  }

  /** @throws before reset */
  expertAction(): string {
    return this.game.expert(this.#started().task, this.#state as State);
  }

  /** @throws before reset, and if the game has no novice */
  noviceMove(rng: Rng): NoviceMove {
    return this.game.novice!(this.#started().task, this.#state as State, rng, this.#options);
  }

  /** The games leave nothing to chance after `reset`, so there is nothing for a seed to change. */
  clone(): GameEnvironment<Options, Family, Task, State> {
    const copy = new GameEnvironment(this.game, this.#options);
    copy.resumeFrom(this);
    copy.#episode = this.#episode;
    copy.#state = this.#state;
    copy.#turns = this.#turns;
    copy.#toolErrors = this.#toolErrors;
    copy.#answerEntropy = this.#answerEntropy;
    return copy;
  }

  #started(): { readonly family: Family; readonly task: Task } {
    check(this.#episode !== undefined, () => `${this.name}: the episode has no task yet; call reset first`);
    return this.#episode;
  }
}

/** @returns the families to draw from */
function checkGameOptions<Options extends GameOptions, Family extends FamilyInfo, Task extends GameTask, State>(
  game: Game<Options, Family, Task, State>,
  options: Options,
): readonly Family[] {
  const families = selectFamilies(game.name, game.families, options, ["size", ...game.optionNames]);
  const { size = 1 } = options;
  check(
    Number.isInteger(size) && size >= 1 && size <= MAX_SIZE,
    () => `${game.name}: size must be an integer in [1, ${MAX_SIZE}], got ${size}`,
  );
  game.checkOptions?.(options);
  return families;
}

/** An environment to be listed in `ENVIRONMENTS`. */
export function defineGame<Options extends GameOptions, Family extends FamilyInfo, Task extends GameTask, State>(
  game: Game<Options, Family, Task, State>,
): EnvironmentSpec<Options> {
  const own = (env: Environment, asked: string): GameEnvironment<Options, Family, Task, State> => {
    check(
      env instanceof GameEnvironment && env.game === game,
      () => `${game.name}.${asked}: expected a ${game.name} episode, got "${env.name}"`,
    );
    return env as GameEnvironment<Options, Family, Task, State>;
  };
  return {
    name: game.name,
    description: game.description,
    families: game.families.map(({ name, level, description }) => ({ name, level, description })),
    make: (options = {} as Options) => new GameEnvironment(game, options),
    expert: (env) => own(env, "expert").expertAction(),
    ...(game.novice ? { novice: (env, rng) => own(env, "novice").noviceMove(rng) } : {}),
    random: (rng, task, options) => game.random(rng, task, options),
  };
}

/** Draws names of a split, none twice. */
export function nameMaker(rng: Rng, split: Split = "train"): () => string {
  const used = new Set<string>();
  return () => {
    for (;;) {
      const name = drawWord(rng, split);
      if (used.has(name)) continue;
      used.add(name);
      return name;
    }
  };
}

/** The number that an action names, or undefined if it is none: digits only, so not "1e3" or "". */
export const parseCount = (text: string): number | undefined => (/^\d{1,6}$/.test(text) ? Number(text) : undefined);
