/**
 * The interface of an environment. It takes text, answers with text, asynchronously; it follows from a seed and is used
 * for one episode.
 *
 * The shape `reset(seed) → observation`, `step(action) → { observation, reward, done, info }` is that of Gym (Brockman
 * et al. 2016), made single-use so that no state can leak from one episode into the next. An environment knows nothing
 * of tokens, roles or prompts. It returns its own output and nothing else, so that a world model may learn every
 * character of an observation; the loop that drives it adds warnings elsewhere.
 */
import type { Option } from "../engine/optionTable.ts";
import { check } from "../engine/errors.ts";
import { showValue } from "../engine/options.ts";
import type { Rng } from "../engine/index.ts";

/**
 * Facts about a step, for metrics and transcripts. The agent never sees them. The library reads
 *
 * - `family`, `level`: the kind of task, for tables
 * - `success`, a boolean: whether the task is solved. Metrics, evaluations, curricula, filters and imitation all read
 *   the last step's. If it is absent, an episode is solved if the sum of its rewards is positive. So an environment
 *   that charges for steps, or pays for parts, should report it; its rewards are shown beside it, as their mean.
 * - `toolErrors`: how many actions were errors so far
 * - `answerEntropy`: the entropy in nats of the episode's answers so far, each given the task, the actions and the
 *   answers before it, for an observer who knows all facts of the world. No world model can predict this part.
 */
export type StepInfo = Readonly<Record<string, number | string | boolean>>;

/** The result of an action: the world's answer, the reward, and whether the episode is over. */
export interface StepResult {
  /** The answer of the world, with nothing added; may be empty (most shells say nothing when all is well). */
  readonly observation: string;
  /** The reward of this step; an episode's return is the sum. */
  readonly reward: number;
  /** True on the last step; a further step is an error. */
  readonly done: boolean;
  readonly info: StepInfo;
}

/**
 * The reason why the caller ends an episode that the environment has not ended: the limit of actions is reached, one
 * action grew too long, the context is full, or no action was found in the agent's text.
 */
export type OutsideEnd = "max_turns" | "max_tokens" | "context_overflow" | "parse_error";

/** An environment's score of an episode that was ended from outside. */
export interface EndResult {
  /** A reward in addition to those of the steps; NaN: the episode cannot be scored. Default: the caller decides. */
  readonly reward?: number;
  /** Facts in addition to those of the last step, such as `success`. */
  readonly info?: StepInfo;
}

/** Options of every call of an environment. */
export interface CallOptions {
  /** Aborts the call: the promise rejects with the signal's reason, and the episode is over. */
  readonly signal?: AbortSignal;
}

/** One episode. `reset` is called once, then `step` until `done`, or until `end`. */
export interface Environment {
  readonly name: string;
  /**
   * Facts about the episode after `reset`, which the info of every step repeats: family and level, as Gym's `reset`
   * returns them. It is all the info of an episode whose first action is cut off. @throws before reset. Optional:
   * default nothing.
   */
  readonly info?: StepInfo;
  /** Starts the episode. Resolves to the first observation (the task). The same seed gives the same episode. */
  reset(seed: number, options?: CallOptions): Promise<string>;
  /**
   * Plays one action. Errors in the action's text are told by the observation; it never throws for them. An episode in
   * which a call throws, or takes too long, is masked: the world is broken, and nobody learns from it. So whatever an
   * agent can bring about is an answer, or the end of the episode without a reward; else it could avoid a bad end.
   */
  step(action: string, options?: CallOptions): Promise<StepResult>;
  /**
   * The notice that the episode was ended from outside, so that the environment can score the state reached. Called
   * once at most, after `reset`, never after a step with `done`; no step follows. Optional: an environment without it,
   * or one that returns no reward, leaves the return of such an episode to its caller (`truncatedReward` of `trainRl`).
   */
  end?(reason: OutsideEnd, options?: CallOptions): Promise<EndResult | undefined>;
  /**
   * A copy of the live episode, for searches that try several actions from one point; neither affects the other. Both
   * have the same random numbers, so that the same actions get the same answers, unless the copy is given a `seed`. (A
   * search without fresh seeds would know the random events that will come.) Optional: an environment whose state
   * cannot be copied, such as a remote one, has no `clone`.
   *
   * @throws while a call is running, and after one that failed
   */
  clone?(seed?: number): Environment;
  /**
   * Frees what the episode holds outside this program, such as a connection. The code that made the environment calls
   * it when the episode is over, however it ended. Never throws; a second call does nothing. Optional: most hold
   * nothing.
   */
  close?(): void;
}

/** Milliseconds that calls of an environment may take; one that is not named may take the rollout's `timeout`. */
export interface CallLimits {
  readonly reset?: number;
  readonly step?: number;
  readonly end?: number;
}

/** Options that every environment understands; each adds its own. */
export interface EnvironmentOptions {
  /** `heldout` tasks share no name with `train` tasks. Default `train`. */
  readonly split?: "train" | "heldout";
  /** Task families to draw from. Default: all of them. */
  readonly families?: readonly string[];
  /** Easiest and hardest level to draw from, both included. Default: all levels. */
  readonly levels?: readonly [number, number];
}

/** A kind of task that an environment generates. */
export interface FamilyInfo {
  readonly name: string;
  /** 1 is the easiest. */
  readonly level: number;
  /** A description in one line. */
  readonly description: string;
}

/**
 * An action of a novice. A wrong guess shows the model an answer but should not be imitated; an action that follows
 * from an answer may be.
 */
export interface NoviceMove {
  readonly action: string;
  readonly isGuess: boolean;
}

/** A turn as its transcript shows it. */
export interface ShownTurn {
  readonly action: string;
  readonly observation: string;
}

/** A task that an episode has solved, whatever it was asked to do. */
export interface Achievement {
  /** The first observation of an episode with this task. */
  readonly task: string;
  /** The number of the episode's turns after which it was solved, at least 1. */
  readonly turns: number;
}

/** A kind of environment: how to make an episode, and the scripted players (expert, novice, random). */
export interface EnvironmentSpec<Options extends EnvironmentOptions = EnvironmentOptions> {
  readonly name: string;
  readonly description: string;
  /** The source of its idea, with a paper if there is one. Optional. */
  readonly source?: string;
  readonly families: readonly FamilyInfo[];
  /**
   * All options that `make` takes, for lists and for wrappers that add options of their own. Optional: default those
   * that all environments have.
   */
  readonly options?: Readonly<Record<string, Option<unknown>>>;
  /**
   * The number of episodes that can live at a time; a rollout plays no more of them. Further ones would wait in `reset`
   * until their time limit was up. Optional: default any number.
   */
  atOnce?(options?: Options): number;
  /**
   * The time that calls may take with these options, for an environment whose calls need more than a rollout's
   * `timeout` or must end sooner: one that starts a machine, or runs tests. Optional: default `timeout` for all.
   */
  limits?(options?: Options): CallLimits;
  /**
   * Finds out whether episodes can be played here at all: whether a program is installed, a server answers. Programs
   * call it before a run begins. @throws WorldgradError in one line. Optional: default yes.
   */
  check?(options?: Options): Promise<void>;
  /** A fresh episode, not yet reset. Throws on unknown option values. */
  make(options?: Options): Environment;
  /**
   * Scripted expert: the next action in this live episode. It may read hidden state; throws if `env` is of another
   * kind. Optional: without it there are no demonstrations, so a run begins with a model that can act already.
   */
  expert?(env: Environment): string;
  /**
   * Finds out what the tasks are made of beside the options: a hash of the files, say, that they name. A run's settings
   * keep it, and a run is not resumed with another. Optional: default nothing, the tasks follow from options and seeds.
   */
  fingerprint?(options?: Options): Promise<string>;
  /**
   * Random baseline: a plausible action that does not depend on the observations. It may use names from the task's text
   * and, given the options of the episode, words of that world, as a novice would. Whoever plays a live episode gives
   * `env`, too: a spec of several worlds sees there which one is played.
   * @throws if its code is loaded with the first episode, and none has begun
   */
  random(rng: Rng, task?: string, options?: Options, env?: Environment): string;
  /** A scripted novice: its action in this turn of a live episode. Default: two random actions, then it gives up. */
  novice?(env: Environment, rng: Rng, turn: number, task: string): NoviceMove;
  /**
   * A thought before the next action in this live episode: a true trace of a search from its present state, with filler
   * words drawn from `rng`; 20 to 60 tokens where a word is one. It does not name the next action: the expert's action
   * follows from it, and a novice with the same thought acts at random. Throws if `env` is not of this kind. Optional:
   * default no thoughts.
   */
  thoughts?(env: Environment, rng: Rng): string;
  /**
   * The task that an episode with these turns has solved, in words that could have been its own task: the verifier of
   * that task would accept the turns. Reads only the text that was shown. Optional; undefined: no task was solved.
   */
  readonly achieved?: (task: string, turns: readonly ShownTurn[]) => Promise<Achievement | undefined>;
}

/**
 * The contract, enforced once for all environments: reset once, no step before reset, after the end, or while another
 * call is running; an abort ends the episode even if the environment ignores its signal. Extend it and write `begin`
 * and `act`.
 *
 * @example
 * class Echo extends SingleUseEnvironment {
 *   readonly name = "echo";
 *   protected begin(): string { return "say hi"; }
 *   protected act(action: string): StepResult {
 *     return { observation: action, reward: action === "hi" ? 1 : 0, done: true, info: {} };
 *   }
 * }
 */
export abstract class SingleUseEnvironment implements Environment {
  abstract readonly name: string;
  #phase: "new" | "busy" | "ready" | "done" | "broken" = "new";

  /** Builds the episode of this seed; returns the first observation. */
  protected abstract begin(seed: number, signal?: AbortSignal): string | Promise<string>;
  /**
   * Plays one action. Errors in the action are observations; an exception means that the environment itself is broken.
   */
  protected abstract act(action: string, signal?: AbortSignal): StepResult | Promise<StepResult>;
  /** The score of an episode that is ended from outside (`Environment.end`). Default: none. */
  protected finish?(reason: OutsideEnd, signal?: AbortSignal): EndResult | undefined | Promise<EndResult | undefined>;

  async reset(seed: number, options: CallOptions = {}): Promise<string> {
    check(
      this.#phase === "new",
      () => `${this.name}.reset: called a second time; an environment is used for one episode`,
    );
    check(
      Number.isSafeInteger(seed) && seed >= 0,
      () => `${this.name}.reset: seed must be an integer in [0, 2^53), got ${showValue(seed)}`,
    );
    return this.#exclusively(options.signal, () => this.begin(seed, options.signal));
  }

  async step(action: string, options: CallOptions = {}): Promise<StepResult> {
    this.#checkReady("step");
    check(typeof action === "string", () => `${this.name}.step: the action must be a string, got ${typeof action}`);
    const result = await this.#exclusively<StepResult | undefined>(options.signal, () =>
      this.act(action, options.signal),
    );
    if (result === undefined) this.#phase = "broken";
    check(
      result !== undefined,
      () => `${this.name}.step: act returned nothing, expected { observation, reward, done, info }`,
    );
    if (result.done) this.#phase = "done";
    return result;
  }

  async end(reason: OutsideEnd, options: CallOptions = {}): Promise<EndResult | undefined> {
    this.#checkReady("end");
    const result = await this.#exclusively(options.signal, () => this.finish?.(reason, options.signal));
    this.#phase = "done";
    return result;
  }

  #checkReady(call: string): void {
    check(this.#phase === "ready", () => `${this.name}.${call}: ${REFUSALS[this.#phase as keyof typeof REFUSALS]}`);
  }

  /**
   * For `clone` of an environment that has one: `this`, fresh from its constructor, takes over where `original` is
   * between reset and end. The state of the world is for the subclass to copy.
   */
  protected resumeFrom(original: SingleUseEnvironment): void {
    const phase = original.#phase;
    check(
      phase !== "busy" && phase !== "broken",
      () => `${original.name}.clone: ${REFUSALS[phase as keyof typeof REFUSALS]}`,
    );
    this.#phase = phase;
  }

  /** Runs one call at a time. If it throws or is aborted, the state of the world is unknown: the episode is broken. */
  async #exclusively<T>(signal: AbortSignal | undefined, call: () => T | Promise<T>): Promise<T> {
    this.#phase = "busy";
    try {
      signal?.throwIfAborted();
      const result = await untilAborted(call(), signal);
      this.#phase = "ready";
      return result;
    } catch (error) {
      this.#phase = "broken";
      throw error;
    }
  }
}

const REFUSALS = {
  new: "called before reset",
  busy: "called while another call is running",
  done: "called after the episode ended",
  broken: "called after a call failed or was aborted; make a new environment",
} as const;

/** `promise`, or a rejection with the signal's reason, whichever comes first. Leaves no listener behind. */
async function untilAborted<T>(value: T | Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (!signal || !(value instanceof Promise)) return value;
  let stop = (): void => {};
  const aborted = new Promise<never>((_, reject) => {
    stop = () => reject(signal.reason instanceof Error ? signal.reason : new Error(String(signal.reason)));
    signal.addEventListener("abort", stop, { once: true });
  });
  try {
    return await Promise.race([value, aborted]);
  } finally {
    signal.removeEventListener("abort", stop);
  }
}
