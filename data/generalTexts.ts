/**
 * General texts, which belong to no world: a question about a few words and its answer, in one turn. They are mixed
 * into a warm start so that it does not forget everything but one world (AgentTuning, Zeng et al. 2023, arXiv
 * 2310.12823, which mixes the conversations of ShareGPT), and a loss on others of them shows what it has forgotten.
 * They are small on purpose: a model of this size can know word order and copying in general, and no more.
 */
import { check } from "../engine/errors.ts";
import type { Rng } from "../engine/random.ts";
import { isHeldOut } from "../environments/index.ts";
import { emptyStream, type Trajectory } from "../rl/episode/stream.ts";
import type { Template } from "../rl/episode/template.ts";

/** A question and its answer. */
export interface GeneralText {
  readonly question: string;
  readonly answer: string;
}

/** The words of the questions, none of which is a name in a world of the library. */
const WORDS =
  "apple bridge cloud dance eagle forest garden honey island jungle kettle lemon music north ocean pearl".split(" ");

const KINDS: Readonly<Record<string, (words: readonly string[]) => readonly string[]>> = {
  "Say again": (words) => words,
  "Say backwards": (words) => words.toReversed(),
  "Sort by letters": (words) => words.toSorted(),
  "Say the first": (words) => words.slice(0, 1),
  "Say the last": (words) => words.slice(-1),
};

/** A text of a split; the same stream gives the same text. A hash of the question decides the split. */
export function drawGeneralText(rng: Rng, split: "train" | "heldout"): GeneralText {
  for (;;) {
    const kind = rng.choice(Object.keys(KINDS));
    const words = rng.shuffle(WORDS).slice(0, 2 + rng.int(3));
    const question = `${kind}: ${words.join(" ")}`;
    if (isHeldOut(question) === (split === "heldout")) return { question, answer: KINDS[kind]!(words).join(" ") };
  }
}

/** `count` texts. @param shuffled whether each has the answer of another, a control that teaches words and no task */
export function drawGeneralTexts(
  rng: Rng,
  count: number,
  { split, shuffled = false }: { readonly split: "train" | "heldout"; readonly shuffled?: boolean },
): GeneralText[] {
  check(Number.isInteger(count) && count > 0, () => `general texts: count must be an integer ≥ 1, got ${count}`);
  const texts = Array.from({ length: count }, (_, i) => drawGeneralText(rng.split(i), split));
  if (!shuffled) return texts;
  const answers = rng.split("shuffled").shuffle(texts.map(({ answer }) => answer));
  return texts.map(({ question }, i) => ({ question, answer: answers[i]! }));
}

/** The text as a demonstration: the question is the task, the answer the one action. */
export function generalLesson({ question, answer }: GeneralText, template: Template, seed: number): Trajectory {
  const stream = emptyStream();
  template.appendTask(stream, question);
  template.appendAction(stream, 0, answer);
  template.appendObservation(stream, 0, [], "", true);
  return {
    stream,
    group: seed,
    reward: 1,
    stepRewards: [1],
    stopReason: "completed",
    masked: false,
    env: "general",
    task: question,
    seed,
    info: {},
  };
}
