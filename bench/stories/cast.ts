/**
 * A story that two write. The cast is fixed: eight animals, each of which likes one of eight deeds, dealt out by a
 * seed. The model ends "The dog wanted to …"; the world answers with a sentence that depends on it, by a rule: "Then
 * the dog was happy." if that was the dog's deed, and else "Then the dog said, "I like to swim."". Three animals come
 * in turn, each once, so that no answer helps in its own episode: it has to be remembered in the weights.
 */
import {
  type Environment,
  type EnvironmentSpec,
  SingleUseEnvironment,
  type StepResult,
} from "../../environments/index.ts";
import { Rng } from "../../engine/index.ts";

const ANIMALS = "dog cat bird frog bear fish duck mouse".split(" ");
/** All of them come up by themselves, in 1 to 14 of 100 sentences of the untouched model. */
export const DEEDS: readonly string[] = "play help eat see find run swim fly".split(" ");
export const TURNS = 3;

export interface CastOptions {
  /** Deals out the deeds. */
  readonly facts: number;
  /** `meaningless`: the world names a deed at random. The sentences are the same, and they tell nothing. */
  readonly told: "truth" | "meaningless";
}

/** The deed of each animal. */
export const deedsOf = (facts: number): Map<string, string> => {
  const left = [...DEEDS];
  const rng = new Rng(facts).split("deeds");
  return new Map(ANIMALS.map((animal) => [animal, left.splice(rng.int(left.length), 1)[0]!]));
};

/** Three animals in every order; each fourth is held out. */
const TRIPLES = ANIMALS.flatMap((a) => ANIMALS.flatMap((b) => ANIMALS.map((c) => [a, b, c] as const))).filter(
  (triple) => new Set(triple).size === TURNS,
);
const COMPANIES = {
  train: TRIPLES.filter((_, i) => i % 4 !== 0),
  heldout: TRIPLES.filter((_, i) => i % 4 === 0),
} as const;
export const HELD_OUT_COMPANIES: number = COMPANIES.heldout.length;

/** The only deed that a sentence names, or undefined. */
export function deedIn(sentence: string): string | undefined {
  const named = DEEDS.filter((deed) => new RegExp(`\\b${deed}\\b`, "i").test(sentence));
  return named.length === 1 ? named[0] : undefined;
}

class Cast extends SingleUseEnvironment {
  readonly name = "cast";
  readonly #options: CastOptions;
  readonly #split: keyof typeof COMPANIES;
  #company: readonly string[] = [];
  #noise = new Rng(0);
  #turn = 0;
  #right = 0;

  constructor(options: CastOptions, split: keyof typeof COMPANIES) {
    super();
    this.#options = options;
    this.#split = split;
  }

  get animal(): string {
    return this.#company[this.#turn]!;
  }
  get deed(): string {
    return deedsOf(this.#options.facts).get(this.animal)!;
  }

  protected begin(seed: number): string {
    const companies = COMPANIES[this.#split];
    this.#company = companies[seed % companies.length]!;
    this.#noise = new Rng(seed).split("meaningless");
    const [a, b, c] = this.#company;
    return `Once upon a time, there was a ${a}, a ${b} and a ${c}. The ${a} wanted to`;
  }

  protected act(sentence: string): StepResult {
    const { animal, deed } = this;
    const isRight = deedIn(sentence) === deed;
    const named = this.#options.told === "truth" ? deed : this.#noise.choice(DEEDS);
    const answer = isRight ? ` the ${animal} was happy.` : ` the ${animal} said, "I like to ${named}."`;
    this.#right += Number(isRight);
    const done = ++this.#turn === TURNS;
    const next = done ? "" : ` The ${this.animal} wanted to`;
    const info = { right: this.#right, turns: this.#turn, success: this.#right === TURNS };
    return { observation: answer + next, reward: Number(isRight) / TURNS, done, info };
  }
}

export const castOf = (options: CastOptions): EnvironmentSpec => ({
  name: "cast",
  description: "what each of a cast wants to do",
  families: [],
  make: (common): Environment => new Cast(options, common?.split ?? "train"),
  expert: (env) => (env instanceof Cast ? ` ${env.deed}` : ""),
  random: (rng) => ` ${rng.choice(DEEDS)}`,
});
