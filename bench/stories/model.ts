/** stories260K (tests/fixtures/pretrained): the model that RL starts from, and how its stories become episodes. */
import { type Device, logProbs, Rng, scope, tensor, treeLeaves } from "../../engine/index.ts";
import { forward, logits, type Model } from "../../nn/index.ts";
import { generate } from "../../nn/generate.ts";
import { modelFromLlama2c } from "../../pretrained/llama2c.ts";
import { Template } from "../../rl/index.ts";
import { BOS, stories, tokenizer } from "../../tests/support/stories.ts";

/** The weights as they were published; the caller frees them. */
export const startModel = (device: Device): Model => modelFromLlama2c(stories, device);

export function disposeModel({ params }: Model): void {
  for (const x of treeLeaves(params)) x.dispose();
}

/**
 * The first paragraph of a story: the model closes it with a line break. (It says that a whole story is over by `<s>`,
 * which came up in 1 of 70 continuations of 96 tokens; from so few, nothing is learnt in the steps that are taken
 * here.) Nothing else stands around the text.
 */
export const storyTemplate = (): Template =>
  new Template(tokenizer, {
    format: { task: ["<s>", ""], observation: ["<s>", ""], action: "", end: "<0x0A>", pad: "<unk>" },
  });

/** A story that two write: a sentence of the model's ends with its full stop, and the world's begins with "Then". */
export const dialogueTemplate = (): Template =>
  new Template(tokenizer, {
    format: { task: ["<s>", ""], observation: ["Then", ""], action: "", end: ".", pad: "<unk>" },
  });

/** Written by hand for this measurement, in the words of a child of four. Neither model nor RL has seen them. */
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
  /** Drawn from the untouched model at temperature 1, from `<s>` alone: a sample of what it knew. */
  readonly own: readonly (readonly number[])[];
  readonly byHand: readonly (readonly number[])[];
}

export async function heldOutTexts(start: Model): Promise<HeldOutTexts> {
  const begun = Array.from({ length: OWN_STORIES }, () => [BOS]);
  // One stream for all seeds of a table: they are measured on the same texts.
  const rng = new Rng(0).split("held-out texts");
  const drawn = await generate(start, begun, { maxNewTokens: OWN_TOKENS, temperature: 1, stopIds: [], rng });
  return {
    own: drawn.map(({ tokens }) => [BOS, ...tokens.map(({ id }) => id)]),
    byHand: BY_HAND.map((text) => [BOS, ...tokenizer.encode(text)]),
  };
}

/** exp of the mean of −log p over all tokens but the first of each text. */
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
