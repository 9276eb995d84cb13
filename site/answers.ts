/** An agent's answers to questions about its last step (questions.ts). Runs in its worker, loaded when asked. */
import { scope } from "../engine/index.ts";
import { check } from "../engine/errors.ts";
import { objectiveFrom } from "../run/objective.ts";
import type { Preset } from "../run/preset.ts";
import { longestCompletion } from "../run/template.ts";
import { describeEpisodes } from "../run/transcripts.ts";
import { isBaseline } from "../run/baselines.ts";
import { logits, readText } from "../nn/index.ts";
import { succeeded } from "../rl/episode/outcomes.ts";
import { lossOf } from "../methods/choice.ts";
import { dft, POLICY_LOSSES } from "../methods/losses/index.ts";
import type { Objective } from "../rl/objective/objective.ts";
import { NO_POLICY } from "../rl/objective/policyLoss.ts";
import type { LossParts } from "../rl/train/loss.ts";
import { ALL_PARTS } from "../methods/presets.ts";
import { expectedTokens } from "../data/expectation.ts";
import { logitGradient, probabilities } from "./formulas/logits.ts";
import { oldLogProb, type StepTerms, stepTerms } from "./formulas/step.ts";
import { weightFormulas } from "./formulas/weights.ts";
import { termWords } from "./lossWords.ts";
import type { LastStep } from "./lastStep.ts";
import type {
  Answer,
  EpisodeTerm,
  EpisodeToken,
  EpisodeView,
  LogitView,
  PlaceView,
  Question,
  StepView,
} from "./questions.ts";
import type { Session } from "./session.ts";

/** Number of likeliest tokens shown. */
const LIKELIEST = 8;

/** @throws if no step is held */
export async function answer(question: Question, session: Session, preset: Preset): Promise<Answer> {
  if (question.about === "step") {
    const held = await session.holdLastStep();
    return held && (await stepView(held, preset));
  }
  const held = session.heldStep;
  check(held !== null, () => `a question about ${question.about}: no step is held; ask about the step first`);
  const count = held.report.rows.length;
  check(question.episode < count, () => `expected an episode below ${count}, got ${question.episode}`);
  return question.about === "episode"
    ? episodeView(held, preset, question.episode)
    : placeView(held, preset, question.episode, question.token);
}

/** The parts of a step's loss. A baseline imitates and has no objective. */
const partsOf = ({ rl, sft }: Preset, objective: Objective): LossParts =>
  !isBaseline(rl.method) ? objective : { policyLoss: sft.loss === "dft" ? dft() : NO_POLICY };

/** The name of the policy loss. */
const policyOf = ({ rl, sft }: Preset): string =>
  isBaseline(rl.method) ? (sft.loss ?? "sft") : lossOf(rl, ALL_PARTS).name;

const objectiveOf = (preset: Preset): Objective => objectiveFrom(ALL_PARTS, preset.rl, longestCompletion(preset));

async function stepView(held: LastStep, preset: Preset): Promise<StepView> {
  const { step, report } = held;
  const episodes = report.rows.map(({ trajectory, advantages, mask }) => {
    const first = mask.findIndex((m) => m !== 0);
    const { group, task, reward } = trajectory;
    return { group, task, reward, success: succeeded(trajectory), advantage: first < 0 ? NaN : advantages[first]! };
  });
  const objective = objectiveOf(preset);
  const policy = policyOf(preset);
  const { formulas } = await termsOf(held, preset);
  const terms = Object.entries(formulas).map(([name, term]) => {
    const source = name === "policy" ? POLICY_LOSSES[policy]?.source : undefined;
    return [name, { ...term, ...termWords(name, policy, objective.kl), ...(source ? { source } : {}) }] as const;
  });
  return { step, terms: Object.fromEntries(terms), metrics: report.metrics, episodes };
}

/** The terms of all tokens of a step, computed once. */
const known = new WeakMap<LastStep, Promise<StepTerms>>();
function termsOf(held: LastStep, preset: Preset): Promise<StepTerms> {
  let terms = known.get(held);
  if (terms === undefined) known.set(held, (terms = stepTerms(held.report, partsOf(preset, objectiveOf(preset)))));
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
  const tokens = transcript!.tokens.map((token, t): EpisodeToken => {
    const [lp, H] = [report.scores.logProbs[episode]![t]!, report.scores.entropy[episode]![t]!];
    const old = oldLogProb(report, { row: episode, t });
    const hoped = expected.get(t);
    return {
      ...token,
      // The values that the loss was computed with, where they exist.
      ...(Number.isNaN(lp) ? {} : { logProb: lp, surprise: -lp, entropy: H }),
      ...(token.oldLogProb === undefined || Number.isNaN(lp) ? {} : { oldLogProb: old }),
      ...(hoped === undefined ? {} : { expected: hoped }),
    };
  });
  return { tokens, terms: await weighed(held, preset, episode, ids.length) };
}

/** The terms of each token of an episode, with the formulas of their weights. */
async function weighed(held: LastStep, preset: Preset, episode: number, length: number): Promise<EpisodeTerm[][]> {
  const { formulas, tokens } = await termsOf(held, preset);
  const { rows, statistics = {} } = held.report;
  const options = preset.rl.options ?? {};
  const weightOf = isBaseline(preset.rl.method)
    ? (): undefined => undefined
    : weightFormulas({ objective: objectiveOf(preset), options, rows, statistics, formulas });
  return Array.from({ length }, (_, t) =>
    tokens[episode]![t]!.map((term) => {
      const ofWeight = weightOf(term, episode, t);
      return { ...term, ...(ofWeight ? { ofWeight } : {}) };
    }),
  );
}

/** The model's logits, entropy and attention after all tokens before this one. */
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
  const { formulas, tokens } = await termsOf(held, preset);
  const sum = (moved: string): number =>
    tokens[episode]![token]!.reduce(
      (all, { name, gradient }) => (formulas[name]!.moves === moved ? all + gradient : all),
      0,
    );
  const sent = { ofLogProb: sum("log p"), ofEntropy: sum("H") };
  const entropy = p.reduce((total, q) => (q > 0 ? total - q * Math.log(q) : total), 0);
  const likeliest = [...p.keys()].toSorted((a, b) => p[b]! - p[a]! || a - b).slice(0, LIKELIEST);
  const shown = likeliest.includes(own) ? likeliest : [...likeliest, own];
  const views = shown.map((id): LogitView => {
    const text = template.tokenizer.decode([id]);
    const gradient = logitGradient(p[id]!, id === own, temperature, entropy, sent);
    return { text, isOwn: id === own, logit: z[id]!, p: p[id]!, gradient };
  });
  return { temperature, entropy, logits: views, vocabulary: z.length, attention };
}
