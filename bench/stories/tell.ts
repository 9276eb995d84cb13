/**
 * A story about a given word: "Once upon a time, there was a little cat." The model goes on to the end of the
 * paragraph, and a program that everybody can check judges what it wrote. Half of the words are never seen in training.
 */
import {
  type Environment,
  type EnvironmentSpec,
  SingleUseEnvironment,
  type StepResult,
} from "../../environments/index.ts";
import { Rng } from "../../engine/index.ts";
import { composite, type CompositeReward, repetitionPenalty } from "../../papers/index.ts";
import { isAgentToken, type Template, type Trajectory } from "../../rl/index.ts";

const WORDS = {
  train: "cat bird frog rabbit lion duck car tree doll box king star train puppy bug ship pig horse".split(" "),
  heldout: "dog fish bear mouse fox boat ball flower hat cake bee rock truck monkey cow bunny owl turtle".split(" "),
} as const;
const ADJECTIVES = ["little", "big", "happy", "pretty"] as const;
type Split = keyof typeof WORDS;

/** Seeds that ask for each held-out word `times` times, with another adjective each time. */
export const heldOutSeeds = (times: number): number[] =>
  Array.from({ length: times * WORDS.heldout.length }, (_, seed) => seed);

class Story extends SingleUseEnvironment {
  readonly name = "story";
  readonly #split: Split;

  constructor(split: Split) {
    super();
    this.#split = split;
  }

  protected begin(seed: number): string {
    const words = WORDS[this.#split];
    const adjective = ADJECTIVES[Math.floor(seed / words.length) % ADJECTIVES.length]!;
    return `Once upon a time, there was a ${adjective} ${words[seed % words.length]!}.`;
  }

  protected act(): StepResult {
    return { observation: "", reward: 0, done: true, info: {} }; // the judge below has the whole episode
  }
}

export const story: EnvironmentSpec = {
  name: "story",
  description: "go on with a story about a word",
  families: [],
  make: (options): Environment => new Story(options?.split ?? "train"),
  expert: () => "It was happy. It ran home. It slept.",
  random: (rng: Rng) => `It was a ${rng.choice(ADJECTIVES)} day.`,
};

/** What the model wrote, and of what. */
export interface Told {
  readonly word: string;
  readonly text: string;
  /** Whether the model closed the paragraph before the limit. */
  readonly ended: boolean;
}

export function toldIn(trajectory: Trajectory, template: Template): Told {
  const { stream, task, stopReason } = trajectory;
  const ids = stream.ids.filter((_, t) => isAgentToken(stream.roles[t]!));
  return {
    word: /(\w+)\.$/.exec(task)![1]!,
    text: template.actionText(ids),
    ended: stopReason === "completed",
  };
}

/** Stretches of at least three words up to `.`, `!` or `?`. */
export const sentencesOf = (text: string): string[] =>
  (text.match(/[^.!?]+[.!?]/g) ?? []).map((s) => s.trim().toLowerCase()).filter((s) => wordsOf(s).length >= 3);
const wordsOf = (text: string): string[] => text.toLowerCase().match(/[a-z']+/g) ?? [];

export const usesOf = ({ word, text }: Told): number => wordsOf(text).filter((other) => other === word).length;

/**
 * A quarter for each: the word comes up again; the paragraph ends within the limit, with the end of a sentence; it has
 * at least three sentences; no three words in a row occur twice.
 */
export const judge: (told: Told) => CompositeReward = composite<Told>(
  (
    [
      ["again", (told) => usesOf(told) > 0],
      ["ends", ({ text, ended }) => ended && /[.!?]["']?\s*$/.test(text)],
      ["whole", ({ text }) => sentencesOf(text).length >= 3],
      ["fresh", ({ text }) => repetitionPenalty(text, { n: 3 }) === 0],
    ] as const satisfies readonly (readonly [string, (told: Told) => boolean])[]
  ).map(([name, holds]) => ({ name, weight: 1 / 4, kind: "outcome", score: (told) => Number(holds(told)) })),
);

/**
 * The share of sentences that also stand in another of these stories, each story's own word put as "it": 0 where every
 * story is its own, near 1 where the model has learnt one story by heart.
 */
export function sharedSentences(all: readonly Told[]): number {
  const own = all.map(({ text, word }) => new Set(sentencesOf(text).map((s) => s.replaceAll(word, "it"))));
  const counts = new Map<string, number>();
  for (const sentences of own) for (const s of sentences) counts.set(s, (counts.get(s) ?? 0) + 1);
  const listed = own.flatMap((sentences) => [...sentences]);
  return listed.length === 0 ? 0 : listed.filter((s) => counts.get(s)! > 1).length / listed.length;
}
