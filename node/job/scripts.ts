/**
 * What is played without the model: demonstrations for the warm start, and what the tokenizer is learnt from; the fixed episodes that a
 * world model is judged by; random play. Experts, novices and random players are the environment's.
 */
import { Rng } from "../../engine/index.ts";
import { type Tokenizer, trainBpe } from "../../nn/index.ts";
import { taskSeed } from "../../rl/tasks/play.ts";
import { demonstrate, type DemonstrationOptions, playScripted } from "../../rl/play/demonstrations.ts";
import {
  type Environment,
  type EnvironmentOptions,
  ENVIRONMENTS,
  type EnvironmentSpec,
  type NoviceMove,
} from "../../environments/index.ts";
import type { Trajectory } from "../../rl/episode/stream.ts";
import { SPECIAL_TOKENS, type Template } from "../../rl/episode/template.ts";
import type { SftOptions } from "../../rl/train/loop.ts";
import { taskOptions } from "./environments.ts";
import type { Preset } from "./preset.ts";

/** Seeds of held-out tasks start here; training draws below 2^31. */
export const HELD_OUT_SEEDS: number = 2 ** 40;

/**
 * Words without the space before them, single digits, runs of punctuation: a name is the same tokens wherever it stands (in a
 * question, in a path, at the start of an answer), so that copying it is copying.
 */
const PATTERN = "[A-Za-z]+|[0-9]|\\s|[^\\sA-Za-z0-9]+";

/** Random actions of an episode, where they are to be read and not to get anywhere. */
const RANDOM_TURNS = 2;

export class Scripts {
  readonly #preset: Preset;
  readonly #env: EnvironmentSpec;
  readonly #train: EnvironmentOptions;
  readonly #heldOut: EnvironmentOptions;
  readonly #demo: EnvironmentOptions;
  readonly #rng: Rng;
  /** Turns of demonstrations that are a novice's guesses; of an expert's nothing. */
  readonly #guesses = new WeakMap<Trajectory, ReadonlySet<number>>();

  constructor(preset: Preset) {
    this.#preset = preset;
    this.#env = ENVIRONMENTS[preset.env]!;
    this.#train = taskOptions(preset, "train");
    this.#heldOut = taskOptions(preset, "heldout");
    this.#demo = taskOptions(preset, "demo");
    this.#rng = new Rng(preset.seed);
  }

  /** A byte-level BPE learnt from demonstrations of training tasks: an expert's, and a novice's among them if the preset says so. */
  async trainTokenizer(): Promise<Tokenizer> {
    const { vocabSize, corpusEpisodes, novices = false } = this.#preset.tokenizer;
    const texts: string[] = [];
    const seeds = this.#rng.split("corpus");
    for (let i = 0; i < corpusEpisodes; i++) {
      const rng = seeds.split(i);
      const env = this.#env.make(this.#demo);
      const seed = rng.int(2 ** 31);
      const task = await env.reset(seed);
      const { think } = this.#limits(seed);
      const isNovice = novices && rng.uniform() < this.#preset.sft.noviceShare;
      const turns = isNovice ? this.#noviceTurns() : Infinity;
      texts.push(task);
      for (let turn = 0, done = false; !done && turn < turns; turn++) {
        const action = isNovice ? this.#novice(env, rng, turn, task).action : this.#env.expert(env);
        const thought = think?.(env, turn) ?? "";
        const result = await env.step(action);
        texts.push(thought, action, result.observation);
        done = result.done;
      }
    }
    return trainBpe(texts, { vocabSize, specials: SPECIAL_TOKENS, pattern: PATTERN });
  }

  /** The limited set of episodes that the warm start sees: the expert's and, on a share of the tasks, a novice's. */
  async demonstrations(template: Template): Promise<Trajectory[]> {
    const { demonstrations, noviceShare } = this.#preset.sft;
    const draw = this.#rng.split("demonstrations");
    const episodes: Trajectory[] = [];
    for (let i = 0; i < demonstrations; i++) {
      const rng = draw.split(i);
      const seed = rng.int(2 ** 31);
      const isNovice = rng.uniform() < noviceShare;
      episodes.push(await (isNovice ? this.#try(template, seed, rng) : this.#expert(template, this.#demo, seed)));
    }
    return this.#readable(episodes);
  }

  /** The expert's episodes of all tasks that RL would train on. */
  async lessons(template: Template): Promise<Trajectory[]> {
    const { steps, groups } = this.#preset.rl;
    const draw = this.#rng.split("rl");
    const lessons: Trajectory[] = [];
    for (let i = 0; i < steps * groups; i++) {
      lessons.push(await this.#expert(template, this.#train, taskSeed(draw.split(Math.floor(i / groups)), i % groups)));
    }
    return this.#readable(lessons);
  }

  /** Which tokens of demonstrations are imitated, where not all are. */
  imitated(): Pick<SftOptions, "imitate"> {
    const { imitateNovices = true } = this.#preset.sft;
    return imitateNovices ? {} : { imitate: (t, k) => !this.#guesses.get(t)?.has(t.stream.turns[k]!) };
  }

  isNovice(episode: Trajectory): boolean {
    return this.#guesses.has(episode);
  }

  /**
   * What a world model is judged by: answers to the expert's commands and, in turn, to random ones, most of which are mistakes.
   * The episodes are fixed, so that losses before and after compare; names in unread files cannot be predicted by anyone.
   */
  async fixedEpisodes(template: Template): Promise<FixedEpisode[]> {
    const mixed: FixedEpisode[] = [];
    for (let i = 0; i < Math.ceil(this.#preset.evaluation.finalEpisodes / 2); i++) {
      const rng = this.#rng.split("random play").split(i);
      const seed = HELD_OUT_SEEDS + i;
      mixed.push({ episode: await this.#expert(template, this.#heldOut, seed), isRandom: false });
      const random = (): string => this.#env.random(rng, undefined, this.#heldOut);
      const episode = await this.#scripted(template, this.#heldOut, seed, random, RANDOM_TURNS);
      mixed.push({ episode, isRandom: true });
    }
    return mixed.filter(({ episode }) => this.#readable([episode]).length > 0);
  }

  /** A held-out task as the random player plays it. */
  randomEpisode(template: Template, seed: number, rng: Rng): Promise<Trajectory> {
    const random = (_env: Environment, _turn: number, task: string): string => this.#env.random(rng, task, this.#heldOut); // prettier-ignore
    return this.#scripted(template, this.#heldOut, seed, random, this.#preset.rollout.maxTurns);
  }

  /** Those that the model has positions for. */
  #readable(episodes: readonly Trajectory[]): Trajectory[] {
    return episodes.filter(({ stream }) => stream.ids.length <= this.#preset.model.maxPositions);
  }

  #expert(template: Template, options: EnvironmentOptions, seed: number): Promise<Trajectory> {
    return demonstrate(this.#env, options, seed, template, this.#limits(seed));
  }

  /** Of scripted episodes of the task that `seed` makes. Whoever plays it thinks, or nobody does. */
  #limits(seed: number): DemonstrationOptions {
    const { sft, rollout } = this.#preset;
    const { maxObservationTokens } = rollout;
    if (!sft.thoughts) return { maxObservationTokens };
    const words = this.#rng.split("thoughts").split(seed);
    const think = (env: Environment, turn: number): string => this.#env.thoughts!(env, words.split(turn));
    return { maxObservationTokens, think };
  }

  /** An episode of the novice's; which of its turns are guesses is kept. */
  async #try(template: Template, seed: number, rng: Rng): Promise<Trajectory> {
    const guesses = new Set<number>();
    const policy = (env: Environment, turn: number, task: string): string => {
      const { action, isGuess } = this.#novice(env, rng, turn, task);
      if (isGuess) guesses.add(turn);
      return action;
    };
    const episode = await this.#scripted(template, this.#demo, seed, policy, this.#noviceTurns());
    this.#guesses.set(episode, guesses);
    return episode;
  }

  /** Without a script of its own a novice guesses, for which it may read the task. */
  #novice(env: Environment, rng: Rng, turn: number, task: string): NoviceMove {
    if (this.#env.novice) return this.#env.novice(env, rng, turn, task);
    return { action: this.#env.random(rng, task, this.#demo), isGuess: true };
  }

  #noviceTurns(): number {
    return this.#env.novice ? this.#preset.rollout.maxTurns : RANDOM_TURNS;
  }

  #scripted(
    template: Template,
    options: EnvironmentOptions,
    seed: number,
    policy: (env: Environment, turn: number, task: string) => string,
    maxTurns: number,
  ): Promise<Trajectory> {
    return playScripted(this.#env, options, seed, template, policy, { ...this.#limits(seed), maxTurns });
  }
}

export interface FixedEpisode {
  readonly episode: Trajectory;
  /** Whether it is random play; else it is the expert's. */
  readonly isRandom: boolean;
}
