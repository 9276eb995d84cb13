/** What an agent answers to questions about its last step (questions.ts). Runs in its worker, loaded when asked. */
import { scope } from "../engine/index.ts";
import { check } from "../engine/errors.ts";
import { objectiveFrom } from "../run/objective.ts";
import type { Preset } from "../run/preset.ts";
import { longestCompletion } from "../run/template.ts";
import { describeEpisodes } from "../run/transcripts.ts";
import { isYardstick } from "../run/yardsticks.ts";
import { logits, readText } from "../nn/index.ts";
import { succeeded } from "../rl/episode/outcomes.ts";
import { lossOf, type MethodChoice } from "../methods/choice.ts";
import { CRITIC, type Objective, worldsOf } from "../rl/objective/objective.ts";
import { ALL_PARTS } from "../methods/presets.ts";
import { PAW } from "../methods/paw.ts";
import { expectedTokens } from "../data/expectation.ts";
import { logitGradients, probabilities } from "./formulas/logits.ts";
import { stepTerms, tokenNumbers, type TokenTerm } from "./formulas/step.ts";
import { type LossForm, TERMS } from "./formulas/terms.ts";
import { weightForms, type WeightNote } from "./formulas/weights.ts";
import type { LastStep } from "./lastStep.ts";
import type { Answer, EpisodeToken, EpisodeView, LogitView, PlaceView, Question, StepView } from "./questions.ts";
import type { Session } from "./session.ts";

/** How many of the likeliest tokens are shown. */
const LIKELIEST = 8;

/** @throws if no step is held */
export async function answer(question: Question, session: Session, preset: Preset): Promise<Answer> {
  if (question.about === "step") {
    const held = await session.holdLastStep();
    return held && stepView(held, preset);
  }
  const held = session.heldStep;
  check(held !== null, () => `a question about ${question.about}: no step is held; ask about the step first`);
  const count = held.report.rows.length;
  check(question.episode < count, () => `expected an episode below ${count}, got ${question.episode}`);
  return question.about === "episode"
    ? episodeView(held, preset, question.episode)
    : placeView(held, preset, question.episode, question.token);
}

function lossForm({ rl, sft }: Preset, objective: Objective): LossForm {
  // A yardstick imitates; it has no objective.
  if (isYardstick(rl.method)) return sft.loss === "dft" ? { policy: { name: "dft", options: {} } } : {};
  return formOf(objective, rl);
}

/** The parts of a loss, as plain data. @param choice what the objective was made of */
export function formOf(objective: Objective, choice: Pick<MethodChoice, "method" | "loss" | "options">): LossForm {
  const { kl, critic, terms = [] } = objective;
  const policy = lossOf(choice, ALL_PARTS);
  const isClipped = worldsOf(objective).some(({ name, tokenLoss }) => name === "paw" && tokenLoss !== undefined);
  const clip = isClipped ? PAW.read(choice.options?.["paw"]).rho : undefined;
  const penalty = kl && kl.in !== "reward" ? kl : undefined;
  const { estimator, clamp, importance = false } = penalty ?? {};
  return {
    policy,
    ...(estimator ? { kl: { estimator, importance, ...(clamp ? { clamp } : {}) } } : {}),
    ...(clip === undefined ? {} : { worldClip: clip }),
    ...(critic ? { valueClip: CRITIC.read(critic).clip } : {}),
    ...(terms.some(({ name }) => name === "return_prediction") ? { isReturnPredicted: true } : {}),
  };
}

const objectiveOf = (preset: Preset): Objective => objectiveFrom(ALL_PARTS, preset.rl, longestCompletion(preset));

function stepView({ step, report }: LastStep, preset: Preset): StepView {
  const episodes = report.rows.map(({ trajectory, advantages, mask }) => {
    const first = mask.findIndex((m) => m !== 0);
    const { group, task, reward } = trajectory;
    return { group, task, reward, success: succeeded(trajectory), advantage: first < 0 ? NaN : advantages[first]! };
  });
  return { step, form: lossForm(preset, objectiveOf(preset)), metrics: report.metrics, episodes };
}

/** The terms of all tokens of a step, which are computed once. */
const known = new WeakMap<LastStep, TokenTerm[][][]>();
function termsOf(held: LastStep, preset: Preset): TokenTerm[][][] {
  let terms = known.get(held);
  if (terms === undefined) known.set(held, (terms = stepTerms(held.report, lossForm(preset, objectiveOf(preset)))));
  return terms;
}

async function episodeView(held: LastStep, preset: Preset, episode: number): Promise<EpisodeView> {
  const { model, template, report } = held;
  const row = report.rows[episode]!;
  const { ids } = row.trajectory.stream;
  const [transcript] = await describeEpisodes(model, template, [row], "rl", report.step);
  const expected = new Map<number, string>();
  for (const place of await expectedTokens(model, template, [row.trajectory], preset.rollout.maxObservationTokens)) {
    for (let k = 0; k < place.length; k++) {
      const id = place.ids[k];
      expected.set(place.start + k, id === undefined ? "" : template.tokenizer.decode([id]));
    }
  }
  const numbers = ids.map((_, t) => tokenNumbers(report, { row: episode, t }));
  const tokens = transcript!.tokens.map((token, t): EpisodeToken => {
    const { lp, old, H } = numbers[t]!;
    const hoped = expected.get(t);
    return {
      ...token,
      // What the loss was computed with, where it was.
      ...(Number.isNaN(lp) ? {} : { logProb: lp, surprise: -lp, entropy: H }),
      ...(token.oldLogProb === undefined || Number.isNaN(lp) ? {} : { oldLogProb: old }),
      ...(hoped === undefined ? {} : { expected: hoped }),
    };
  });
  const terms = termsOf(held, preset)[episode]!;
  return { tokens, numbers, terms, weights: notesOf(held, preset, episode, terms) };
}

function notesOf(
  { report: { rows, statistics = {} } }: LastStep,
  preset: Preset,
  episode: number,
  terms: readonly (readonly TokenTerm[])[],
): WeightNote[][] {
  if (isYardstick(preset.rl.method)) return terms.map(() => []);
  const options = preset.rl.options ?? {};
  const formAt = weightForms({ objective: objectiveOf(preset), options, rows, statistics });
  return terms.map((own, t) =>
    own.flatMap(({ name }) => {
      const form = formAt(name, episode, t);
      return form ? [{ name, form }] : [];
    }),
  );
}

/** What the model had when it had read all tokens before this one. */
async function placeView(held: LastStep, preset: Preset, episode: number, token: number): Promise<PlaceView> {
  const { model, template, report } = held;
  const { ids, temperatures } = report.rows[episode]!.trajectory.stream;
  const isPlace = token >= 1 && token < ids.length;
  check(isPlace, () => `expected a token from 1 to ${ids.length - 1}, got ${token}: nothing predicts the first`);
  const read = scope(() => {
    const { attention, hidden } = readText(model, ids.slice(0, token));
    return { attention, logits: logits(model.params, hidden) };
  }, "placeView");
  const take = async (x: (typeof read)["logits"]): Promise<Float32Array> => {
    const values = Float32Array.from(await x.read());
    x.dispose();
    return values;
  };
  const z = await take(read.logits);
  const attention: Float32Array[][] = [];
  for (const weights of read.attention) {
    const all = await take(weights);
    attention.push(Array.from({ length: all.length / token }, (_, h) => all.slice(h * token, (h + 1) * token)));
  }
  const temperature = temperatures[token]!;
  const p = probabilities(z, temperature);
  const own = ids[token]!;
  const terms = termsOf(held, preset)[episode]![token]!;
  const sum = (of: (term: TokenTerm) => boolean): number =>
    terms.filter(of).reduce((total, { gradient }) => total + gradient, 0);
  const ofEntropy = sum(({ name }) => name === "entropy");
  const ofLogProb = sum(({ name }) => TERMS[name].moves === "log p");
  const gradients = logitGradients(p, own, temperature, ofLogProb, ofEntropy);
  const likeliest = [...p.keys()].toSorted((a, b) => p[b]! - p[a]! || a - b).slice(0, LIKELIEST);
  const shown = likeliest.includes(own) ? likeliest : [...likeliest, own];
  const views = shown.map((id): LogitView => {
    const text = template.tokenizer.decode([id]);
    return { text, isOwn: id === own, logit: z[id]!, p: p[id]!, gradient: gradients[id]! };
  });
  const entropy = p.reduce((sum, q) => (q > 0 ? sum - q * Math.log(q) : sum), 0);
  return { temperature, entropy, logits: views, vocabulary: z.length, attention };
}
