/**
 * Episodes that are played without the model: demonstrations for the warm start, the corpus of the tokenizer, the fixed
 * episodes on which the world-model loss is measured, and random play. Experts, novices and random players belong to
 * the environment.
 */
import { Rng } from "../engine/index.ts";
import { type Tokenizer, trainBpe } from "../nn/index.ts";
import { checkAnswer, checkTask, mostLetters } from "../rl/play/answers.ts";
import { taskSeed } from "../rl/tasks/play.ts";
import { drawGeneralTexts, generalLesson } from "../data/generalTexts.ts";
import { demonstrate, type DemonstrationOptions, expertOf, playScripted, timedCalls } from "../data/demonstrations.ts";
import type { Environment, EnvironmentOptions, EnvironmentSpec, NoviceMove } from "../environments/index.ts";
import { longestRead, type Trajectory } from "../rl/episode/stream.ts";
import { SPECIAL_TOKENS, type Template } from "../rl/episode/template.ts";
import type { SftOptions } from "../methods/sft.ts";
import { playScripts } from "./failures.ts";
import { environmentOf, taskOptions } from "./worlds.ts";
import type { Preset } from "./preset.ts";

/** The first seed of held-out tasks; training draws seeds below 2^31. */
export const HELD_OUT_SEEDS: number = 2 ** 40;

/**
 * Splits text into words (without the space before them), single digits, single spaces and runs of punctuation. So a
 * name has the same tokens wherever it occurs (in a question, in a path, at the start of an answer), and the model can
 * copy it token by token.
 */
const PATTERN = "[A-Za-z]+|[0-9]|\\s|[^\\sA-Za-z0-9]+";

/** The number of random actions in an episode that serves for reading answers only. */
const RANDOM_TURNS = 2;

/** The numbers of general texts that a warm start draws from, and of others that are measured. */
const GENERAL_TEXTS = 2000;
const HELD_OUT_TEXTS = 64;

/** Whether a demonstration is an episode of `riddle`, in a run with self-play: every second one is. */
const isRiddle = (i: number): boolean => i % 2 === 1;

/** The random numbers of RL, which draw its tasks; they differ from those of the run whose weights it begins with. */
export function rlNumbers({ seed, from }: Pick<Preset, "seed" | "from">): Rng {
  const rng = new Rng(seed).split("rl");
  return from ? rng.split(from.sha256) : rng;
}

/** The players of a run's scripted episodes. */
export class ScriptedPlayers {
  readonly #preset: Preset;
  readonly #env: EnvironmentSpec;
  readonly #train: EnvironmentOptions;
  readonly #heldOut: EnvironmentOptions;
  readonly #demo: EnvironmentOptions;
  readonly #rng: Rng;
  /** The turns of each novice's demonstration that are guesses; the expert's demonstrations have no entry. */
  readonly #guesses = new WeakMap<Trajectory, ReadonlySet<number>>();

  constructor(preset: Preset) {
    this.#preset = preset;
    this.#env = environmentOf(preset);
    this.#train = taskOptions(preset, "train");
    this.#heldOut = taskOptions(preset, "heldout");
    this.#demo = taskOptions(preset, "demo");
    this.#rng = new Rng(preset.seed);
  }

  /**
   * A byte-level BPE tokenizer, trained on demonstrations of training tasks by the expert and, if the preset says so,
   * by a novice.
   * @throws the reason of the signal once it is aborted, as all methods here that play many episodes
   */
  async trainTokenizer(signal?: AbortSignal): Promise<Tokenizer> {
    const { vocabSize, corpusEpisodes, novices = false } = this.#preset.tokenizer;
    const most = mostLetters(this.#preset.model.maxPositions);
    const seeds = this.#rng.split("corpus");
    const riddles = await this.#riddles();
    const play = async (i: number): Promise<string[]> => {
      const rng = seeds.split(i);
      const spec = isRiddle(i) ? (riddles ?? this.#env) : this.#env;
      const options = spec === riddles ? {} : this.#demo;
      const seed = rng.int(2 ** 31);
      const { think, ...limits } = this.#limits(seed, signal);
      const timed = timedCalls(spec, options, limits);
      const env = spec.make(options);
      try {
        const task = checkTask(spec.name, await timed("reset", (call) => env.reset(seed, call)));
        const isNovice = spec !== riddles && novices && rng.uniform() < this.#preset.sft.noviceShare;
        const turns = isNovice ? this.#noviceTurns() : Infinity;
        const texts = [task.slice(0, most)];
        for (let turn = 0, done = false; !done && turn < turns; turn++) {
          const action = isNovice ? this.#novice(env, rng, turn, task).action : expertOf(spec)(env);
          const thought = think?.(env, turn) ?? "";
          const result = checkAnswer(spec.name, await timed("step", (call) => env.step(action, call)));
          texts.push(thought, action, result.observation.slice(0, most));
          done = result.done;
        }
        return texts;
      } finally {
        env.close?.();
      }
    };
    const texts = await playScripts(this.#env, this.#demo, corpusEpisodes, play, signal);
    return trainBpe(texts.flat(), { vocabSize, specials: SPECIAL_TOKENS, pattern: PATTERN });
  }

  /** The demonstrations of the warm start, by the expert and, on a share of the tasks, by a novice. */
  async demonstrations(template: Template, signal?: AbortSignal): Promise<Trajectory[]> {
    const { demonstrations, noviceShare } = this.#preset.sft;
    const draw = this.#rng.split("demonstrations");
    const riddles = await this.#riddles();
    const play = (i: number): Promise<Trajectory> => {
      const rng = draw.split(i);
      const seed = rng.int(2 ** 31);
      if (riddles && isRiddle(i)) return demonstrate(riddles, {}, seed, template, this.#limits(seed, signal));
      const isNovice = rng.uniform() < noviceShare;
      return isNovice ? this.#try(template, seed, rng, signal) : this.#expert(template, this.#demo, seed, signal);
    };
    return this.#readable(await playScripts(this.#env, this.#demo, demonstrations, play, signal));
  }

  /** The world of self-play; half of the demonstrations come from it if the run plays it. */
  async #riddles(): Promise<EnvironmentSpec | undefined> {
    if (!this.#preset.data?.selfPlay) return undefined;
    return (await import("../environments/riddle/selfPlay.ts")).riddles;
  }

  /** The expert's episodes on all tasks that RL would train on. */
  async lessons(template: Template, signal?: AbortSignal): Promise<Trajectory[]> {
    const { steps, groups } = this.#preset.rl;
    const draw = rlNumbers(this.#preset);
    const play = (i: number): Promise<Trajectory> => {
      const seed = taskSeed(draw.split(Math.floor(i / groups)), i % groups);
      return this.#expert(template, this.#train, seed, signal);
    };
    return this.#readable(await playScripts(this.#env, this.#train, steps * groups, play, signal));
  }

  /** The tokens of the longest of the expert's episodes on some tasks of training; 0 without an expert. */
  async longestLesson(template: Template, count: number): Promise<number> {
    if (this.#env.expert === undefined) return 0;
    const draw = this.#rng.split("lengths");
    const play = (i: number): Promise<Trajectory> => this.#expert(template, this.#train, draw.split(i).int(2 ** 31));
    const played = await playScripts(this.#env, this.#train, count, play);
    return Math.max(0, ...played.map(({ stream }) => longestRead(stream)));
  }

  /** The texts of `sft.general`, and their weight; nothing without them. */
  general(template: Template): Pick<SftOptions, "general"> {
    const { general: weight = 0, generalTexts = "own" } = this.#preset.sft;
    if (weight === 0) return {};
    const shuffled = generalTexts === "shuffled";
    const texts = drawGeneralTexts(this.#rng.split("general"), GENERAL_TEXTS, { split: "train", shuffled });
    return { general: { episodes: texts.map((text, i) => generalLesson(text, template, i)), weight } };
  }

  /** The held-out general texts that are measured; undefined without `sft.general`. */
  heldOutGeneral(template: Template): readonly Trajectory[] | undefined {
    if (this.#preset.sft.general === undefined) return undefined;
    const texts = drawGeneralTexts(this.#rng.split("general heldout"), HELD_OUT_TEXTS, { split: "heldout" });
    return texts.map((text, i) => generalLesson(text, template, i));
  }

  /** The choice of imitated tokens of demonstrations, if not all are imitated. */
  imitated(): Pick<SftOptions, "imitate"> {
    const { imitateNovices = true } = this.#preset.sft;
    return imitateNovices ? {} : { imitate: (t, k) => !this.#guesses.get(t)?.has(t.stream.turns[k]!) };
  }

  /** Whether a novice played this demonstration. */
  isNovice(episode: Trajectory): boolean {
    return this.#guesses.has(episode);
  }

  /**
   * The episodes on which the world-model loss is measured: alternately the expert's, if there is one, and random play,
   * whose commands are mostly mistakes. The episodes are fixed, so that losses before and after training can be
   * compared. No model can predict everything in them, for example names in files that it has not read.
   */
  async fixedEpisodes(template: Template, signal?: AbortSignal): Promise<FixedEpisode[]> {
    const play = async (i: number): Promise<FixedEpisode[]> => {
      const rng = this.#rng.split("random play").split(i);
      const seed = HELD_OUT_SEEDS + i;
      const experts = this.#env.expert && (await this.#expert(template, this.#heldOut, seed, signal));
      const random = (env: Environment): string => this.#env.random(rng, undefined, this.#heldOut, env);
      const episode = await this.#scripted(template, this.#heldOut, seed, random, RANDOM_TURNS, signal);
      return [...(experts ? [{ episode: experts, isRandom: false }] : []), { episode, isRandom: true }];
    };
    const half = Math.ceil(this.#preset.evaluation.finalEpisodes / 2);
    const mixed = await playScripts(this.#env, this.#heldOut, half, play, signal);
    return mixed.flat().filter(({ episode }) => this.#readable([episode]).length > 0);
  }

  /** An episode of the random player on the task of a seed. */
  randomEpisode(
    template: Template,
    options: EnvironmentOptions,
    seed: number,
    rng: Rng,
    signal?: AbortSignal,
  ): Promise<Trajectory> {
    const random = (env: Environment, _turn: number, task: string): string => this.#env.random(rng, task, options, env);
    return this.#scripted(template, options, seed, random, this.#preset.rollout.maxTurns, signal);
  }

  /** The expert's episode of the training task of a seed. */
  demonstration(template: Template, seed: number): Promise<Trajectory> {
    return this.#expert(template, this.#train, seed);
  }

  /** The episodes that fit into the model's positions. */
  #readable(episodes: readonly Trajectory[]): Trajectory[] {
    return episodes.filter(({ stream }) => longestRead(stream) <= this.#preset.model.maxPositions);
  }

  #expert(template: Template, options: EnvironmentOptions, seed: number, signal?: AbortSignal): Promise<Trajectory> {
    return demonstrate(this.#env, options, seed, template, this.#limits(seed, signal));
  }

  /** The options of scripted episodes on the task of `seed`. With thoughts, every player has them, the novice too. */
  #limits(seed: number, signal?: AbortSignal): DemonstrationOptions {
    const { sft, rollout, model } = this.#preset;
    const limits = { maxObservationTokens: rollout.maxObservationTokens, maxTokens: model.maxPositions, signal };
    if (!sft.thoughts) return limits;
    const words = this.#rng.split("thoughts").split(seed);
    const think = (env: Environment, turn: number): string => this.#env.thoughts!(env, words.split(turn));
    return { ...limits, think };
  }

  /** Plays an episode with the novice and remembers the turns that are guesses. */
  async #try(template: Template, seed: number, rng: Rng, signal?: AbortSignal): Promise<Trajectory> {
    const guesses = new Set<number>();
    const policy = (env: Environment, turn: number, task: string): string => {
      const { action, isGuess } = this.#novice(env, rng, turn, task);
      if (isGuess) guesses.add(turn);
      return action;
    };
    const episode = await this.#scripted(template, this.#demo, seed, policy, this.#noviceTurns(), signal);
    this.#guesses.set(episode, guesses);
    return episode;
  }

  /** The move of a novice. If the environment has no novice, it is a random action with names from the task. */
  #novice(env: Environment, rng: Rng, turn: number, task: string): NoviceMove {
    if (this.#env.novice) return this.#env.novice(env, rng, turn, task);
    return { action: this.#env.random(rng, task, this.#demo, env), isGuess: true };
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
    signal?: AbortSignal,
  ): Promise<Trajectory> {
    return playScripted(this.#env, options, seed, template, policy, { ...this.#limits(seed, signal), maxTurns });
  }
}

/** An episode on which the world-model loss is measured. */
export interface FixedEpisode {
  readonly episode: Trajectory;
  /** True for random play, false for the expert's. */
  readonly isRandom: boolean;
}
