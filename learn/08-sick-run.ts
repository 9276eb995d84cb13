/**
 * # 8 · Reading a sick run
 *
 * **What you will understand:** how runs of reinforcement learning break in practice, what each break does to the
 * numbers that a run logs, which number tells first, and what a program can read from them.
 *
 * A program with a mistake usually stops. A run with a mistake goes on, and often even learns. So one looks at several
 * numbers at once, each of which should move in a known way. We train one small agent nine times: once as it should
 * be, and eight times with one thing wrong, always from the same weights.
 *
 * - `success`: share of episodes that the world's verifier accepts. What we want; usually the last number to tell.
 * - `reward`: what was paid. It should rise together with success, and not without it.
 * - `entropy`: mean −Σ p·log p of the distributions that actions were drawn from, in *nats* (log is to base e). Falls
 *   slowly while the agent makes up its mind; at 0 all tries are the same. A long rise: the policy is being destroyed.
 * - `grad_norm`: the gradient's length before it is cut to 1 (chapter 4). Not finite: the update was skipped.
 * - `frac_reward_zero_std`: the share of groups in which all tries earned the same. They teach nothing (A = 0).
 * - `sampling/sampling_logp_difference/mean`: mean |log π − log μ| over trained tokens, π as the learner scores them, μ
 *   as the sampler recorded them. 0 but for rounding if episodes are fresh and everything is masked as it should be.
 * - `completions/mean_length`: tokens that the agent wrote in an episode.
 */
import { AdamW, type AdvantageEstimator, byteTokenizer, demonstrate, device, type EnvironmentSpec } from "../index.ts";
import { grpo, importanceCorrection, importanceSampling, initParams, type Model, modelConfig } from "../index.ts";
import { ppoClip, reinforce, type RlOptions, Rng, schedule, SingleUseEnvironment, SPECIAL_TOKENS } from "../index.ts";
import { type StepResult, Template, trainRl, trainRlAsync, trainSft } from "../index.ts";
import type { MetricsRecord, Transcript } from "../run/records.ts";
import { describeEpisodes, pickEpisodes } from "../run/transcripts.ts";
import { installPolicy, policyOf } from "../distribute/async/messages.ts";
import { diagnose } from "../studies/doctor/diagnose.ts";
import type { RunLog } from "../studies/doctor/run.ts";

/**
 * ## The agent and its world
 *
 * Four safes have codes of two letters. A task names a safe, the agent writes a code, the world answers `yes` or `no`,
 * and after a `no` there is one more try. Paid is the share of right letters in the last try. The agent has imitated a
 * novice, who draws each letter at random half the time.
 */
const CODES: Readonly<Record<string, string>> = { w: "cb", x: "ad", y: "db", z: "bc" };
type Pay = (action: string, code: string) => number;
const rightLetters: Pay = (action, code) =>
  action.length === 2 ? [...code].filter((letter, i) => letter === action[i]).length / 2 : 0;
const novice = new Rng(3).split("novice");
class Safe extends SingleUseEnvironment {
  readonly name = "safe";
  readonly #pay: Pay;
  code = "";
  tries = 0;
  constructor(pay: Pay) {
    super();
    this.#pay = pay;
  }
  protected begin(seed: number): string {
    const [safe, code] = new Rng(seed).choice(Object.entries(CODES));
    this.code = code;
    return safe;
  }
  protected act(action: string): StepResult {
    const success = action === this.code;
    const done = success || ++this.tries === 2;
    const reward = done ? this.#pay(action, this.code) : 0;
    return { observation: success ? "yes" : "no", reward, done, info: { success } };
  }
  guess(): string {
    return this.code.replace(/./g, (letter) => (novice.uniform() < 0.5 ? novice.choice([..."abcd"]) : letter));
  }
}
const safes = (pay: Pay): EnvironmentSpec => {
  const expert: EnvironmentSpec["expert"] = (safe) => (safe instanceof Safe ? safe.guess() : "");
  return { name: "safe", description: "", families: [], make: () => new Safe(pay), expert, random: () => "" };
};
const tokenizer = byteTokenizer({ specials: SPECIAL_TOKENS });
const template = new Template(tokenizer);
const sizes = { hiddenSize: 16, layers: 1, heads: 2, maxPositions: 32, initializerRange: 0.25 };
const config = modelConfig({ vocabSize: tokenizer.vocabSize, ...sizes });
const on = await device("wasm");
function learner(lr: number) {
  const model: Model = { config, params: initParams(config, new Rng(3).split("init"), on) };
  const optimizer = new AdamW(model.params, { clipNorm: 1, weightDecay: 0 });
  return { model, template, optimizer, lr: schedule({ lr }) };
}
const env = safes(rightLetters);
const imitator = learner(0.01);
const demonstrations = await Promise.all([...Array(64).keys()].map((seed) => demonstrate(env, {}, seed, template)));
for await (const _ of trainSft({ ...imitator, demonstrations, batchSize: 32, steps: 60, rng: new Rng(3) })) continue;
const beginning = await policyOf(imitator.model, 0);

/**
 * ## One run, and what it logs
 *
 * A run leaves what a run folder holds: its settings, a line of metrics for each step, and now and then two episodes
 * token by token (a success and a failure). Nobody who reads them later has anything else.
 */
const OBJECTIVE = { advantage: grpo(), policyLoss: ppoClip(), aggregation: "token-mean" } as const;
interface Change extends Partial<RlOptions> {
  readonly rate?: number;
  readonly staleness?: number; // by how many steps the policy is old that plays
}
async function run({ rate = 0.01, staleness = 0, ...change }: Change): Promise<RunLog> {
  const rollout = { maxTurns: 2, maxActionTokens: 3, temperature: 1 };
  const data = { env, envOptions: {}, groups: 6, groupSize: 8, steps: 32, rng: new Rng(3).split("rl"), rollout };
  const warn = (): void => undefined; // the loop sees some of it, too; here the doctor is to find it
  const options = { ...learner(rate), ...data, objective: OBJECTIVE, warn, ...change };
  installPolicy(options.model, beginning);
  const metrics: MetricsRecord[] = [];
  const transcripts: Transcript[] = [];
  const old = { workers: 1, maxStaleness: staleness, schedule: "fixed" } as const;
  for await (const report of staleness > 0 ? trainRlAsync({ ...options, ...old }) : trainRl(options)) {
    metrics.push({ step: report.step, phase: "rl", ...report.metrics });
    if (report.step % 4 > 0) continue;
    const picked = pickEpisodes(report.rows);
    transcripts.push(...(await describeEpisodes(options.model, template, picked, "rl", report.step)));
  }
  return { config: { preset: { rl: { lr: rate }, rollout: options.rollout } }, metrics, transcripts };
}

/**
 * ## Eight diseases
 *
 * Each is one change, and each is a mistake that people have made in earnest:
 *
 * 1. The answers of the world have the role `action`, so the policy is trained as if it had said them (chapter 5).
 * 2. The advantage is (R − mean)/std without the 1e-4: 0/0 in a group whose tries all earned the same.
 * 3. The advantage is R + 1, without a baseline: everything that was sampled becomes likelier.
 * 4. The reward has a hole: any code that holds a `d` earns one more.
 * 5. Episodes are eight steps old and nothing corrects for that, neither ratio nor clip (chapter 7).
 * 6. Episodes are sampled at temperature 0.3: the tries of a group hardly differ.
 * 7. The learning rate is ten times too high.
 * 8. Each batch is used in four passes, with the ratio of chapter 5 but without its clip.
 */
/** GRPO's groups with another formula for the advantage. */
const advantageOf = (formula: (R: number, mean: number, std: number) => number): AdvantageEstimator => ({
  ...grpo(),
  estimate: (episodes, ...rest) => {
    const perToken = episodes.map(({ stream, group, reward }) => {
      const rewards = episodes.flatMap((other) => (other.group === group ? [other.reward] : []));
      const mean = rewards.reduce((a, b) => a + b, 0) / rewards.length;
      const std = Math.sqrt(rewards.reduce((a, R) => a + (R - mean) ** 2, 0) / (rewards.length - 1));
      return Float64Array.from(stream.roles, (role) => (role === "action" ? formula(reward, mean, std) : 0));
    });
    return { ...grpo().estimate(episodes, ...rest), perToken };
  },
});
/** A template that forgets who wrote the answers. */
class Forgetful extends Template {
  override appendObservation(...args: Parameters<Template["appendObservation"]>): void {
    super.appendObservation(...args);
    const { roles } = args[0];
    roles.forEach((role, t) => (roles[t] = role === "observation" ? "action" : role));
  }
}
const uncorrected = { policyLoss: reinforce(), importanceCorrection: importanceCorrection({ mode: "none" }) };
const DISEASES: Readonly<Record<string, Change>> = {
  "1 answers trained as actions": { template: new Forgetful(tokenizer) },
  "2 divided by std alone": { objective: { ...OBJECTIVE, advantage: advantageOf((R, mean, std) => (R - mean) / std) } },
  "3 no baseline": { objective: { ...OBJECTIVE, advantage: advantageOf((R) => R + 1) } },
  "4 a hole in the reward": { env: safes((action, code) => rightLetters(action, code) + Number(action.includes("d"))) },
  "5 old episodes, uncorrected": { staleness: 8, objective: { ...OBJECTIVE, ...uncorrected } },
  "6 sampled too cold": { rollout: { maxTurns: 2, maxActionTokens: 3, temperature: 0.3 } },
  "7 a learning rate of 0.1": { rate: 0.1 },
  "8 four passes, no clip": { iterations: 4, objective: { ...OBJECTIVE, policyLoss: importanceSampling() } },
};

/**
 * ## Beside the healthy run, and the doctor
 *
 * For each run: each number's means over the first and the last quarter, and the first step at which it *leaves* the
 * healthy run: above or below all that the healthy run had from four steps before to four after, by more than a quarter
 * of that run's whole range. Then what the *doctor* finds in the same logs: a program of rules that knows neither the
 * healthy run nor the change (`npm run doctor -- runs/NAME`). KL is the mean of log μ − log π over tokens drawn from μ.
 */
const WATCHED: Readonly<Record<string, string>> = {
  success: "success",
  reward: "reward",
  entropy: "entropy",
  "gradient norm": "grad_norm",
  "groups without spread": "frac_reward_zero_std",
  "sampler and learner differ": "sampling/sampling_logp_difference/mean",
  "tokens written": "completions/mean_length",
};
const column = ({ metrics }: RunLog, name: string): number[] => metrics.map((line) => Number(line[name] ?? NaN));
const meanOf = (x: readonly number[]): string => (x.reduce((a, b) => a + b, 0) / x.length).toFixed(2).padStart(5);
/** The first step at which a number has left the healthy run; Infinity if it never has. NaN has left. */
function leaves(sick: readonly number[], sound: readonly number[]): number {
  const margin = (Math.max(...sound) - Math.min(...sound)) / 4 + 1e-4; // rounding is no disease
  const step = sick.findIndex((x, s) => {
    const near = sound.slice(Math.max(0, s - 4), s + 5);
    return !(x >= Math.min(...near) - margin && x <= Math.max(...near) + margin);
  });
  return step < 0 ? Infinity : step;
}
const first: string[] = [];
function show(name: string, sick: RunLog, sound: RunLog): void {
  console.log(`\n${name}`);
  const left = Object.entries(WATCHED).map(([label, metric]) => {
    const [x, step] = [column(sick, metric), leaves(column(sick, metric), column(sound, metric))];
    const when = step < Infinity ? `   leaves at step ${step}` : "";
    console.log(`  ${label.padEnd(27)} ${meanOf(x.slice(0, 8))} → ${meanOf(x.slice(-8))}${when}`);
    return { label, step };
  });
  const { findings } = diagnose(sick);
  if (findings.length === 0) console.log("  the doctor: nothing found");
  for (const { title, evidence, change } of findings)
    console.log(`  the doctor: ${title}\n    - ${evidence[0]}\n    → ${change[0]}`);
  const earliest = Math.min(...left.map(({ step }) => step));
  const labels = left.filter(({ step }) => step === earliest).map(({ label }) => label);
  first.push(`${name.padEnd(30)} step ${earliest}: ${labels.join(", ")}; success: ${left[0]!.step}`);
}
const healthy = await run({});
show("0 the healthy run", healthy, healthy);
for (const [disease, change] of Object.entries(DISEASES)) show(disease, await run(change), healthy);
console.log(`\nwhich number tells first (Infinity: never)\n${first.slice(1).join("\n")}`);

/**
 * ## What to learn from it
 *
 * - Success may tell late, or nothing: run 1 ends as well as the healthy one, and run 2 looks like slow learning until
 *   step 23, although 26 of its 32 updates were skipped (one flat group makes the whole gradient NaN).
 * - A reward that rises (4) means nothing without success beside it. In run 5 log π − log μ tells 11 steps earlier.
 * - A learner can leave its episodes in two ways. In run 5 ("has left its sampler") they are old from the start; in
 *   run 8 ("off-policy drift") they are fresh: sampler and learner agree before the first pass, and in the last they
 *   are far apart (`ppo_kl/last`, logged, too). With PPO's clip run 8 ends at 82 % success instead of 39 %.
 * - One symptom has many causes. The healthy run ends with flat groups, too, as nearly all tries succeed; in run 6 the
 *   sampler tries too little from the first step on (entropy); in run 7 the first update destroys what was imitated.
 * - Which number tells first depends on the disease, so no single one is enough; nor is one run: compare. On the live
 *   page sick runs have healthy twins: [Answers in the policy mask](preset:) (1), [A reward with a hole](preset:) (4),
 *   [Entropy collapse](preset:) (6), [Off-policy without a clip](preset:) (8), [A sum where a mean belongs](preset:).
 *
 * ## Break it
 *
 * Keep no episodes, only curves. Then nothing shows that failures are praised in run 3; what is left is a consequence,
 * with advice that does not help. In run 1 the doctor still sees that sampler and learner differ, and no longer why.
 *
 * ```diff
 * -    if (report.step % 4 > 0) continue;
 * +    if (report.step >= 0) continue;
 * ```
 *
 * ## Simplifications so far
 *
 * - One seed, 32 steps, large changes; no reference model, so the KL to it, often the first number to rise, is missing.
 *
 * ## In the library
 *
 * `studies/doctor/diagnose.ts` lists all detectors, causes before consequences; `rl/train/report.ts` makes the numbers.
 * `tests/studies/doctor.long.test.ts` breaks runs on purpose, as here, and expects the doctor to say so.
 *
 * ## Exercises
 *
 * 1. Triage: name the first fault that a run's numbers show.
 * 2. Find the tokens that are trained although nobody sampled them, when the roles lie.
 */
