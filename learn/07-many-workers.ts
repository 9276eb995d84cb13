/**
 * # 7 · Many workers: stale episodes and what corrects for them
 *
 * **What you will understand:** why large runs learn from episodes that an older policy played, what that does to the
 * gradient, exactly, and what the usual corrections (importance weights, truncation, masks, PPO's clip) cost.
 *
 * Playing is slow, token after token, so **workers** play with copies of the weights while a learner learns. Then the
 * policy that played, μ, is older than the one that learns, π; a token's **staleness** is the number of updates between
 * them. The policy gradient needs episodes x from π. Those from μ are weighed by the **importance ratio** π(x)/μ(x):
 *
 *     ∇E[R] = Σ_x π(x)·A(x)·∇log π(x) = Σ_x μ(x)·ρ(x)·A(x)·∇log π(x)
 *     ρ(x) = r_1·r_2· … ·r_L,  r_t = π(x_t | x_<t) / μ(x_t | x_<t)
 *
 * Right on average, but a product of many factors varies wildly. Corrections give up some rightness for less noise.
 */
import { AdamW, byteTokenizer, demonstrate, device, grpo, importanceCorrection, initParams } from "../index.ts";
import { type Model, modelConfig, type Objective, ppoClip, reinforce, Rng, type RlOptions } from "../index.ts";
import { schedule, SingleUseEnvironment, SPECIAL_TOKENS, type StepReport, type StepResult } from "../index.ts";
import { type EnvironmentSpec, Template, trainRl, trainRlAsync, trainSft } from "../index.ts";
import { installPolicy, policyOf } from "../distribute/async/messages.ts";

/**
 * ## A problem small enough to know the truth
 *
 * An episode is six words, each one of four; the reward is the share of words that agree with a secret code. There are
 * 4⁶ = 4096 episodes, so every expectation is a sum that we can write out: nothing is sampled, nothing estimated. The
 * policy is a table: a row of four logits z for each place and word before; ∂ log p(x_t) / ∂z_w = [w = x_t] − p(w) in
 * the row of x_t, where [w = x_t] is 1 if w is x_t, else 0. In version 0 all words are alike; each further version adds
 * the exact gradient to the logits of the one before. π is version 8; μ will be version 8 − k.
 */
const [K, L, SEED] = [4, 6, 2]; // words, places in an episode, and the seed of the training further down
const CODE = [2, 0, 3, 3, 1, 2];
const times = <T>(n: number, make: (i: number) => T): T[] => Array.from({ length: n }, (_, i) => make(i));
const sum = (x: readonly number[]): number => x.reduce((a, b) => a + b, 0);
const product = (x: readonly number[]): number => x.reduce((a, b) => a * b, 1);
const norm = (x: readonly number[]): number => Math.sqrt(sum(x.map((v) => v * v)));
const EPISODES = times(K ** L, (i) => times(L, (t) => Math.floor(i / K ** t) % K));
const REWARDS = EPISODES.map((x) => x.filter((word, t) => word === CODE[t]).length / L);
type Table = readonly number[]; // [place][word before][word], one after another: logits, or probabilities
const rowAt = (x: readonly number[], t: number): number => (t * K + (x[t - 1] ?? 0)) * K; // where its row begins
function policy(logits: Table): Table {
  const e = logits.map(Math.exp); // softmax in each row
  return e.map((v, i) => v / sum(e.slice(i - (i % K), i - (i % K) + K)));
}
const chance = (p: Table, x: readonly number[], t: number): number => p[rowAt(x, t) + x[t]!]!;
const ratios = (p: Table, mu: Table) => EPISODES.map((x) => x.map((_, t) => chance(p, x, t) / chance(mu, x, t)));
const mean = (p: Table, f: (i: number) => number): number =>
  sum(EPISODES.map((x, i) => product(x.map((_, t) => chance(p, x, t))) * f(i))); // E[f] over episodes of p
/** GRPO's advantages, as an endless group of episodes from `mu` would give them: (R − mean) / deviation. */
function advantages(mu: Table): number[] {
  const average = mean(mu, (i) => REWARDS[i]!);
  const deviation = Math.sqrt(mean(mu, (i) => (REWARDS[i]! - average) ** 2));
  return REWARDS.map((R) => (R - average) / deviation);
}
/** E[v] and E‖v‖² over episodes of `mu`, for v = Σ_t c_t·∇log π(x_t); c gives the factors c_t of episode i. */
function estimates(pi: Table, mu: Table, c: (i: number) => readonly number[]) {
  const first = pi.map(() => 0);
  let second = 0;
  for (const [i, x] of EPISODES.entries()) {
    const q = product(x.map((_, t) => chance(mu, x, t)));
    for (const [t, factor] of c(i).entries()) {
      for (let w = 0, row = rowAt(x, t); w < K; w++) {
        const v = factor * (Number(w === x[t]) - pi[row + w]!);
        first[row + w]! += q * v;
        second += q * v * v; // every place has rows of its own, so the squares of an episode's tokens add up
      }
    }
  }
  return { first, second };
}
const everyToken = (A: readonly number[]) => (i: number) => times(L, () => A[i]!); // c_t = A: what own episodes need
const versions: Table[] = [times(L * K * K, () => 0)];
for (let n = 0; n < 24; n++) {
  const p = policy(versions[n]!);
  const step = estimates(p, p, everyToken(advantages(p))).first;
  versions.push(versions[n]!.map((z, i) => z + step[i]!));
}

/**
 * ## Seven ways to weigh a token: bias and noise
 *
 * Under μ every ratio has mean 1, as Σ μ·(π/μ) = Σ π. What grows with staleness is the second moment: n weighed
 * episodes are worth about n / E[ρ²] unweighed ones, their *effective sample size* (Kong 1992). If tokens were alike
 * and independent, E[ρ²] would be E[r²] to the power of L: it grows exponentially with the length of episodes.
 *
 * An estimator gives each token a factor c_t. **Bias** is how far its mean is from the true gradient, **noise** the
 * standard deviation of one episode's estimate, both in units of the true gradient's length: a mean of n episodes is
 * off by √(bias² + noise²/n). **Along** is how far its mean goes in the true direction; below 0 it unlearns.
 */
const ESTIMATORS: Readonly<Record<string, (r: readonly number[], A: number) => number[]>> = {
  nothing: (r, A) => r.map(() => A),
  ρ: (r, A) => r.map(() => product(r) * A),
  "min(ρ, 2)": (r, A) => r.map(() => Math.min(product(r), 2) * A),
  r: (r, A) => r.map((r_t) => r_t * A),
  "min(r, 2)": (r, A) => r.map((r_t) => Math.min(r_t, 2) * A),
  "r in [½, 2]": (r, A) => r.map((r_t) => (r_t >= 0.5 && r_t <= 2 ? r_t * A : 0)),
  "PPO's clip": (r, A) => r.map((r_t) => ((A > 0 ? r_t > 1.2 : r_t < 0.8) ? 0 : r_t * A)),
};
const pi = policy(versions[8]!);
const cell = (x: number): string => x.toFixed(2).padStart(8);
for (const k of [0, 2, 8]) {
  const mu = policy(versions[8 - k]!);
  const [r, A] = [ratios(pi, mu), advantages(mu)];
  const [token, episode] = [mean(mu, (i) => sum(r[i]!.map((v) => v * v)) / L), mean(mu, (i) => product(r[i]!) ** 2)];
  const worth = [token, episode, Math.max(...r.map(product)), 64 / episode].map((x) => x.toFixed(2));
  console.log(`\nstaleness ${k}: E[r²], E[ρ²], largest ρ, what 64 episodes are worth: ${worth.join(", ")}`);
  console.log("                  bias    noise    along   off with 64 episodes");
  const truth = estimates(pi, pi, everyToken(A)).first; // A comes with the episodes, so it is μ's in both
  for (const [name, estimator] of Object.entries(ESTIMATORS)) {
    const { first, second } = estimates(pi, mu, (i) => estimator(r[i]!, A[i]!));
    const bias = norm(first.map((v, i) => v - truth[i]!)) / norm(truth);
    const noise = Math.sqrt(second - norm(first) ** 2) / norm(truth);
    const along = sum(first.map((v, i) => v * truth[i]!)) / norm(truth) ** 2;
    console.log(`  ${name.padEnd(12)}`, ...[bias, noise, along, Math.hypot(bias, noise / 8)].map(cell));
  }
}

/**
 * ## What the rows say
 * At staleness 0 all rows are the same: a fault in a correction cannot show there. At staleness 8:
 *
 * - **nothing** is off by 0.62 however many episodes come: words that π has given up are pushed down as hard as ever.
 * - **ρ** has no bias and, with 64 episodes, the largest error: a few of them, which weigh up to 28, decide.
 * - **min(ρ, 2)** is truncated importance sampling (Ionides 2008; for language models TIS, Yao et al. 2025). It cuts
 *   most of this gradient, because episodes with large ρ are the good ones, which π has learnt to write.
 * - **r** corrects the choice of a word, and not how often the words around it are now written: biased, and the least
 *   error of all. Its cap costs little, as few single ratios are above 2.
 * - **r in [½, 2]**, dropping in place of capping (IcePop, arXiv 2510.18855), is right for ratios that are a fault, say
 *   of a kernel. Here they are what π has learnt.
 * - **PPO's clip** (arXiv 1707.06347, eq. 7) is a brake and no correction. Words of good episodes stop counting at
 *   r > 1.2; left there are words that π has made rarer, and they are pulled back up: along < 0. It keeps π near μ,
 *   which protects a π that starts there. *Decoupled PPO* (arXiv 2110.00641; AReaL, arXiv 2505.24298) clips π/π_start,
 *   with π_start the policy before the step, and weighs by the constant π_start/μ.
 *
 * ## A second source: the sampler is not the trainer
 *
 * Fast samplers use fewer bits, other kernels, sums in another order: μ ≠ π even at staleness 0. We round the logits of
 * version 24, the largest, to 8 significant bits, as bfloat16 has, and to 4, as the 8-bit float e4m3 has. If tokens of
 * long episodes were like ours, E[ρ²] would be E[r²] to the power of the length: harmless for a token, not for 10000.
 */
const unit = (z: number, bits: number): number => 2 ** (Math.floor(Math.log2(Math.abs(z) || 1)) + 1 - bits);
console.log("\nbits      E[r²]   E[ρ²] of 100, 1000, 10000 tokens");
for (const bits of [8, 4]) {
  const sampler = policy(versions[24]!.map((z) => Math.round(z / unit(z, bits)) * unit(z, bits)));
  const r = ratios(policy(versions[24]!), sampler);
  const second = mean(sampler, (i) => sum(r[i]!.map((r_t) => r_t ** 2)) / L);
  console.log(`${bits}      ${second.toFixed(6)}`, ...[100, 1e3, 1e4].map((T) => cell(second ** T)));
}

/**
 * ## In training: workers, a queue, a bound on age
 *
 * `trainRlAsync` is `trainRl` of chapter 6 with episodes from workers. No token of step n is older than version n −
 * maxStaleness: at version n, workers may begin groups up to step n + maxStaleness, none later (AReaL, eq. 3). With the
 * schedule `fixed`, version n − maxStaleness plays all of step n (version 0 the first steps): a run can be repeated.
 * The loss of a token is −A log p (`reinforce`): nothing corrects but what a run's name says. The world: four safes,
 * codes of three letters. First the agent imitates a novice, who draws each letter at random half the time.
 */
const CODES: Readonly<Record<string, string>> = { w: "cba", x: "add", y: "dba", z: "bcc" };
const novice = new Rng(SEED).split("slips");
class Safe extends SingleUseEnvironment {
  readonly name = "safe";
  code = "";
  protected begin(seed: number): string {
    const [safe, code] = new Rng(seed).choice(Object.entries(CODES));
    this.code = code;
    return safe;
  }
  protected act(action: string): StepResult {
    const right = action.length === 3 ? [...this.code].filter((letter, i) => letter === action[i]).length : 0;
    return { observation: "", reward: right / 3, done: true, info: { success: right === 3 } };
  }
  guess(): string {
    return this.code.replace(/./g, (letter) => (novice.uniform() < 0.5 ? novice.choice([..."abcd"]) : letter));
  }
}
const expert: EnvironmentSpec["expert"] = (safe) => (safe instanceof Safe ? safe.guess() : "");
const env = { name: "safe", description: "", families: [], make: () => new Safe(), expert, random: () => "" };
const template = new Template(byteTokenizer({ specials: SPECIAL_TOKENS }));
const sizes = { hiddenSize: 16, layers: 1, heads: 2, maxPositions: 16, initializerRange: 0.25 };
const config = modelConfig({ vocabSize: template.tokenizer.vocabSize, ...sizes });
const on = await device("wasm");
const learner = () => {
  const model: Model = { config, params: initParams(config, new Rng(SEED).split("init"), on) };
  const optimizer = new AdamW(model.params, { clipNorm: 1, weightDecay: 0 });
  return { model, template, optimizer, lr: schedule({ lr: 0.01 }) };
};
const imitator = learner();
const demonstrations = await Promise.all(times(64, (seed) => demonstrate(env, {}, seed, template)));
for await (const _ of trainSft({ ...imitator, demonstrations, batchSize: 32, steps: 60, rng: new Rng(SEED) })) continue;
const beginning = await policyOf(imitator.model, 0); // its weights, as workers get them
const LOSS = { advantage: grpo(), policyLoss: reinforce(), aggregation: "token-mean" } as const;
const PLAY = { env, envOptions: {}, groups: 6, groupSize: 8, rollout: { maxTurns: 1, maxActionTokens: 4 }, steps: 40 };
/** Runs to the end, prints success in quarters of the run; returns the weights that it has left. */
async function show(name: string, objective: Objective, train: (o: RlOptions) => AsyncIterable<StepReport>) {
  const options = { ...learner(), ...PLAY, objective, rng: new Rng(SEED).split("rl") };
  installPolicy(options.model, beginning);
  const steps: StepReport["metrics"][] = [];
  for await (const { metrics } of train(options)) steps.push(metrics);
  const quarters = times(4, (i) => sum(steps.slice(10 * i, 10 * i + 10).map((m) => 10 * m["success"]!)));
  console.log(`${name.padEnd(28)} ${quarters.map((x) => x.toFixed(0).padStart(3)).join(" ")} %`);
  return JSON.stringify((await policyOf(options.model, 0)).weights.map((w) => [...w]));
}
const withWorkers = (maxStaleness: number) => (options: RlOptions) =>
  trainRlAsync({ ...options, workers: 2, maxStaleness, schedule: "fixed" });
console.log("\nsuccess in quarters of 40 updates");
const synchronous = await show("synchronous", LOSS, trainRl);
const zero = await show("two workers, staleness 0", LOSS, withWorkers(0));
console.log("the same weights at the end, bit for bit:", zero === synchronous);
const CORRECTIONS: Readonly<Record<string, Objective>> = {
  nothing: { ...LOSS, importanceCorrection: importanceCorrection({ mode: "none" }) },
  "min(ρ, 2)": { ...LOSS, importanceCorrection: importanceCorrection({ level: "sequence", max: 2 }) },
  "min(r, 2)": { ...LOSS, importanceCorrection: importanceCorrection({ level: "token", max: 2 }) },
  "PPO's clip": { ...LOSS, policyLoss: ppoClip() },
};
for (const maxStaleness of [2, 8])
  for (const [name, objective] of Object.entries(CORRECTIONS))
    await show(`staleness ${maxStaleness}, ${name}`, objective, withWorkers(maxStaleness));

/**
 * ## What ten seeds say
 * One seed says little. Over seeds 0 to 9 (`SEED`) the last quarter is on average 77 % synchronously; at staleness 2,
 * in the order above, 35, 58, 44 and 74 %, at staleness 8 19, 61, 41 and 49 % (standard deviation near 20 points).
 * What is uncorrected fails. The clip is best while π is near μ. Of four tokens (three letters, `<|end|>`) ρ is no wild
 * product: min(ρ, 2) beats min(r, 2). So the table says what each costs for one π, and not which one wins elsewhere.
 *
 * ## Break it
 *
 * Turn the ratio upside down, a frequent mistake. At staleness 0 it is 1 all the same, so a test without stale episodes
 * cannot see it. At 8, ρ has a bias, and with 64 episodes whatever weighs by ratios is worse than no correction.
 *
 * ```diff
 * -const ratios = (p: Table, mu: Table) => EPISODES.map((x) => x.map((_, t) => chance(p, x, t) / chance(mu, x, t)));
 * +const ratios = (p: Table, mu: Table) => EPISODES.map((x) => x.map((_, t) => chance(mu, x, t) / chance(p, x, t)));
 * ```
 *
 * ## Simplifications so far
 *
 * - All tokens of a step are equally stale (not with the schedule `free`). Workers take turns on the learner's thread.
 *
 * ## In the library
 *
 * `distribute/async/train.ts` is the loop, `distribute/async/queue.ts` the bound on age, `run/node/threads.ts` has
 * workers in threads (`docs/async.md`). `methods/importanceCorrection.ts` has the weights, made of logarithms, for a
 * whole step.
 *
 * ## Exercises
 *
 * 1. Weights of truncated importance sampling, for tokens or episodes, that survive an episode of 5000 tokens.
 * 2. Decoupled PPO: the factor of ∇log π for a token that an old policy drew, in the second pass over a step.
 */
