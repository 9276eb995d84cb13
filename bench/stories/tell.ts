/**
 * The environment of `npm run stories`: a story about a given word, "Once upon a time, there was a little cat." The
 * model, stories260K (tests/fixtures), continues to the end of the paragraph, and a program judges what it wrote. Half
 * of the words are held out from training.
 */
import {
  type Environment,
  type EnvironmentSpec,
  SingleUseEnvironment,
  type StepResult,
} from "../../environments/index.ts";
import { type Device, logProbs, Rng, scope, tensor, treeLeaves } from "../../engine/index.ts";
import { forward, logits, type Model } from "../../nn/index.ts";
import { generate } from "../../nn/generate.ts";
import { composite, type CompositeReward, repetitionPenalty } from "../../papers/index.ts";
import { modelFromLlama2c } from "../../pretrained/llama2c.ts";
import { isAgentToken, Template, type Trajectory } from "../../rl/index.ts";
import { BOS, stories, tokenizer } from "../../tests/support/stories.ts";

const WORDS = {
  train: "cat bird frog rabbit lion duck car tree doll box king star train puppy bug ship pig horse".split(" "),
  heldout: "dog fish bear mouse fox boat ball flower hat cake bee rock truck monkey cow bunny owl turtle".split(" "),
} as const;
const ADJECTIVES = ["little", "big", "happy", "pretty"] as const;
type Split = keyof typeof WORDS;

/** Seeds that ask for each held-out word `times` times, each time with another adjective. */
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
    return { observation: "", reward: 0, done: true, info: {} }; // `judge` rewards the whole episode
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

/** A story of the model, and its word. */
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

/** Sentences: at least three words up to `.`, `!` or `?`. */
export const sentencesOf = (text: string): string[] =>
  (text.match(/[^.!?]+[.!?]/g) ?? []).map((s) => s.trim().toLowerCase()).filter((s) => wordsOf(s).length >= 3);
const wordsOf = (text: string): string[] => text.toLowerCase().match(/[a-z']+/g) ?? [];

export const usesOf = ({ word, text }: Told): number => wordsOf(text).filter((other) => other === word).length;

/**
 * Reward of a story, a quarter for each: the word comes up again; the paragraph ends within the limit, with the end of
 * a sentence; it has at least three sentences; no three words in a row occur twice.
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
 * Share of sentences that also stand in another of these stories, with the word of each story replaced by "it": 0 if no
 * story repeats another, near 1 if the model has memorised one story.
 */
export function sharedSentences(all: readonly Told[]): number {
  const sets = all.map(({ text, word }) => new Set(sentencesOf(text).map((s) => s.replaceAll(word, "it"))));
  const counts = new Map<string, number>();
  for (const sentences of sets) for (const s of sentences) counts.set(s, (counts.get(s) ?? 0) + 1);
  const listed = sets.flatMap((sentences) => [...sentences]);
  return listed.length === 0 ? 0 : listed.filter((s) => counts.get(s)! > 1).length / listed.length;
}

/** The published weights; the caller frees them. */
export const startModel = (device: Device): Model => modelFromLlama2c(stories, device);

export function disposeModel({ params }: Model): void {
  for (const x of treeLeaves(params)) x.dispose();
}

/**
 * Template of an episode: the first paragraph of a story, which the model closes with a line break, and nothing around
 * it. The model ends a whole story by `<s>`, but in only 1 of 70 continuations of 96 tokens, too few to learn from.
 */
export const storyTemplate = (): Template =>
  new Template(tokenizer, {
    format: { task: ["<s>", ""], observation: ["<s>", ""], action: "", end: "<0x0A>", pad: "<unk>" },
  });

/**
 * Texts written by hand for this measurement, in the words of a child of four. Neither the model nor RL has seen them.
 */
const BY_HAND = [
  "Once upon a time, there was a boy named Sam. Sam had a red kite. One day, the wind was strong and the kite flew " +
    "into a tall tree. Sam was sad. His dad came with a long stick and got the kite down. Sam hugged his dad and " +
    'said, "Thank you!" They went home and had soup.',
  "Mia liked to paint. She painted a big yellow sun and a green house. Her brother wanted to paint too, but he had " +
    "no paper. Mia gave him half of her paper. They painted all day. At night, their mom put the pictures on the " +
    "wall. She was very proud.",
  "A little duck lived near a lake. Every morning, the duck swam with her mom. One morning, the water was very cold. " +
    'The duck said, "I do not want to swim." Her mom smiled and said, "We can walk today." So they walked to the ' +
    "park and ate some bread. The duck was happy.",
  "Tom found an old box under his bed. He opened it and saw a small key. He ran to the garden and looked for a door. " +
    "There was no door, but there was a tiny car that did not start. Tom put the key in the car. The car made a loud " +
    "noise and Tom laughed.",
] as const;
const OWN_STORIES = 32;
const OWN_TOKENS = 128;

/** Token ids of texts, `<s>` first. */
export interface HeldOutTexts {
  /** Samples of the pretrained model at temperature 1, from `<s>` alone: what it knew before RL. */
  readonly own: readonly (readonly number[])[];
  readonly byHand: readonly (readonly number[])[];
}

export async function heldOutTexts(start: Model): Promise<HeldOutTexts> {
  const begun = Array.from({ length: OWN_STORIES }, () => [BOS]);
  // One random stream for all seeds of a table, which are thus measured on equal texts.
  const rng = new Rng(0).split("held-out texts");
  const drawn = await generate(start, begun, { maxNewTokens: OWN_TOKENS, temperature: 1, stopIds: [], rng });
  return {
    own: drawn.map(({ tokens }) => [BOS, ...tokens.map(({ id }) => id)]),
    byHand: BY_HAND.map((text) => [BOS, ...tokenizer.encode(text)]),
  };
}

/** Perplexity: exp of the mean of −log p over all tokens but the first of each text. */
export async function perplexity({ params, config }: Model, texts: HeldOutTexts[keyof HeldOutTexts]): Promise<number> {
  const { device } = params.embedding;
  let [nats, tokens] = [0, 0];
  for (const ids of texts) {
    const all = scope(() => {
      const scores = logits(params, forward(params, config, tensor([ids.slice(0, -1)], { device, dtype: "i32" })));
      return logProbs(scores, tensor([ids.slice(1)], { device, dtype: "i32" })).logProbs;
    });
    for (const lp of await all.read()) nats -= lp;
    all.dispose();
    tokens += ids.length - 1;
  }
  return Math.exp(nats / tokens);
}
