/**
 * The two questions that a visitor asks first: how much is predicted (λ), and what the answers say. A change restarts
 * the experiment at once, from the same warm start.
 */
import { choice, element } from "../run/page/dom.ts";
import { ECHO } from "../rl/objective/echo.ts";
import type { ExperimentWords, Words } from "./words.ts";

/** The weights that the slider offers. */
const LAMBDAS = ["0", "0.02", "0.05", "0.1", "0.2", "0.5", "1", "2"] as const;

/** What the answers of training say, and the options that make them say it. */
const ANSWERS = {
  true: ["the truth", {}],
  random: ["random facts", { "train.facts": "random" }],
  none: ["no facts", { "train.hints": "none" }],
} as const satisfies Readonly<Record<string, readonly [string, Words]>>;
type Said = keyof typeof ANSWERS;

const OF_ANSWERS: readonly string[] = ["train.facts", "train.hints"];

/** The other name of λ among an agent's settings. */
const LONG = "echo.lambda";

const without = (words: Words, keys: readonly string[]): Words =>
  Object.fromEntries(Object.entries(words).filter(([key]) => !keys.includes(key)));

/** The λ that an agent of these words has; undefined if it predicts nothing. */
export const lambdaIn = ({ agents }: ExperimentWords): string | undefined =>
  agents.flatMap(({ method, settings }) =>
    method.includes("+echo") ? [settings["lambda"] ?? settings[LONG] ?? String(ECHO.fields.lambda.default)] : [],
  )[0];

/** The same experiment with another λ for every agent that predicts. */
export const withLambda = (words: ExperimentWords, lambda: string): ExperimentWords => ({
  ...words,
  agents: words.agents.map((own) =>
    own.method.includes("+echo") ? { ...own, settings: { ...without(own.settings, [LONG]), lambda } } : own,
  ),
});

/** The same experiment with other answers in training. */
export function withAnswers(words: ExperimentWords, said: Said): ExperimentWords {
  return { ...words, shared: { ...without(words.shared, OF_ANSWERS), ...ANSWERS[said][1] } };
}

/** Whether an agent's own settings say what answers tell: then no switch for both can. */
export const isSaidByAgent = ({ agents }: ExperimentWords): boolean =>
  agents.some(({ settings }) => OF_ANSWERS.some((key) => key in settings));

const answersIn = ({ shared }: ExperimentWords): Said =>
  shared["train.facts"] === "random" ? "random" : shared["train.hints"] === "none" ? "none" : "true";

/** The controls of an experiment; nothing for one whose words they do not change. */
export function quickControls(
  words: ExperimentWords,
  hasFacts: boolean,
  change: (words: ExperimentWords) => void,
): HTMLElement[] {
  const lambda = lambdaIn(words);
  const parts: HTMLElement[] = [];
  // The next change is one of what the last has made, also before that has begun.
  let now = words;
  const go = (to: ExperimentWords): void => change((now = to));
  const say = (text: string): void => void parts.push(element("p", { class: "muted" }, text));
  if (lambda !== undefined) {
    const values = [...new Set([...LAMBDAS, lambda])].toSorted((a, b) => Number(a) - Number(b));
    const at = values.indexOf(lambda);
    const shown = element("output", {}, lambda);
    const slider = element("input", { type: "range", min: 0, max: values.length - 1, value: at, id: "lambda" });
    slider.setAttribute("aria-valuetext", `λ ${lambda}`);
    slider.addEventListener("input", () => {
      shown.textContent = values[Number(slider.value)]!;
      slider.setAttribute("aria-valuetext", `λ ${shown.textContent}`);
    });
    slider.addEventListener("change", () => go(withLambda(now, values[Number(slider.value)]!)));
    parts.push(
      element(
        "label",
        { class: "field" },
        element("span", {}, "How strongly it predicts: λ = ", shown, " (0.05 in ECHO's paper)"),
        slider,
      ),
    );
    if (lambda === "0") say("It predicts nothing now, and keeps its rate of learning, which may not be the first's.");
  }
  if (hasFacts && !isSaidByAgent(words)) {
    const options = Object.entries(ANSWERS).map(([said, [text]]) => [said as Said, text] as const);
    parts.push(
      choice("A wrong command is answered with", options, answersIn(words), (said) => go(withAnswers(now, said))),
    );
    if (answersIn(words) === "random")
      say("The answers look the same and teach nothing: now predicting them should be worth nothing.");
  }
  return parts;
}
