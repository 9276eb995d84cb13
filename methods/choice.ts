/**
 * A method as names and numbers, and the objective made from it. A preset names the parts of a method. A plus sign adds
 * add-ons (a world model, a token weighting, a further loss term) to any preset: `dapo+echo+actfocus`. An add-on alone
 * is added to GRPO. Each part of a preset can also be replaced by name. The caller passes the available parts, so that
 * a page loads only those that its methods name; `objectiveOf` has all.
 */
import { check, fail } from "../engine/errors.ts";
import { showValue } from "../engine/options.ts";
import { inCode, number, options, type OptionsOf, text } from "../engine/optionTable.ts";
import type { AdvantageEstimator } from "../rl/objective/estimator.ts";
import { type Aggregation } from "../rl/objective/aggregation.ts";
import { aggregationByName } from "./aggregation.ts";
import { rolloutFilter, type RolloutFilterOptions } from "./filter.ts";
import { importanceCorrection, type ImportanceCorrectionOptions } from "./importanceCorrection.ts";
import { AdaptiveEntropy, type AdaptiveEntropyOptions } from "./entropy.ts";
import { AdaptiveKl, DecayingKl, KL_PENALTY, type KlChoice, klClampByName, klEstimatorByName } from "./kl.ts";
import type { PolicyLoss } from "../rl/objective/policyLoss.ts";
import { entryByName, type Table } from "../rl/objective/names.ts";
import {
  checkObjective,
  type CriticOptions,
  type KlOptions,
  type Objective,
  SWITCHES,
} from "../rl/objective/objective.ts";
import type { LossTerm } from "../rl/objective/terms.ts";
import type { TokenWeighting } from "../rl/objective/weighting.ts";
import type { WorldObjective } from "../rl/objective/echo.ts";

/** A preset: the names of a method's parts. */
export interface Method extends OptionsOf<typeof SWITCHES> {
  readonly description: string;
  readonly source: string;
  readonly advantage: string;
  readonly loss: string;
  readonly aggregation: Aggregation;
  readonly advantageOptions?: object;
  readonly lossOptions?: object;
  readonly critic?: true;
}

const method = (
  description: string,
  source: string,
  advantage: string,
  loss: string,
  aggregation: Aggregation = "token-mean",
  more: Partial<Method> = {},
): Method => ({ description, source, advantage, loss, aggregation, ...more });

const CLIP_HIGHER = { lossOptions: { epsilon: 0.2, epsilonHigh: 0.28 } };
const CRITIC = { critic: true } as const;

/** All presets. */
// prettier-ignore
export const METHODS: Readonly<Record<string, Method>> = {
  grpo: method("group-relative advantages, PPO's clip, mean over sequences", "arXiv 2402.03300",
    "grpo", "ppo", "seq-mean-token-mean"),
  grpo_token: method("GRPO with the clip and the mean over tokens of DAPO; groups without spread stay in",
    "arXiv 2402.03300, 2503.14476", "grpo", "ppo", "token-mean", CLIP_HIGHER),
  dapo: method("GRPO with clip-higher, mean over tokens, groups without spread left out", "arXiv 2503.14476",
    "grpo", "ppo", "token-mean", { ...CLIP_HIGHER, dropConstantGroups: true }),
  dr_grpo: method("GRPO without its two biases: no division by the deviation, none by the length", "arXiv 2503.20783",
    "centred", "ppo", "seq-mean-token-sum-norm"),
  cispo: method("the ratio is a capped weight; every token keeps its gradient", "arXiv 2506.13585", "grpo", "cispo"),
  gspo: method("one ratio per sequence, clipped", "arXiv 2507.18071", "grpo", "gspo", "seq-mean-token-mean"),
  luspo: method("GSPO, each sequence weighed by its length", "LUSPO 2026; TRL `luspo`",
    "grpo", "gspo", "seq-mean-token-sum"),
  gmpo: method("one geometric-mean ratio per sequence, clipped token by token", "arXiv 2507.20673",
    "grpo", "gmpo", "seq-mean-token-mean"),
  vespo: method("sequence weights through a smooth kernel", "arXiv 2602.10693", "grpo", "vespo"),
  sapo: method("a smooth gate in the clip's place", "arXiv 2511.20347", "grpo", "sapo", "seq-mean-token-mean"),
  dppo_tv: method("trust region by total variation", "arXiv 2602.04879", "grpo", "dppo_tv"),
  dppo_kl: method("trust region by binary KL", "arXiv 2602.04879", "grpo", "dppo_kl"),
  kl_cov: method("a KL penalty on the tokens that cost entropy", "arXiv 2505.22617", "grpo", "kl_cov"),
  clip_cov: method("no gradient on some of the tokens that cost entropy", "arXiv 2505.22617", "grpo", "clip_cov"),
  m2po: method("a budget for the second moment of the ratios, for old samples", "arXiv 2510.01161", "grpo", "m2po"),
  dro: method("regression towards the advantage, off-policy", "arXiv 2405.19107", "grpo", "dro"),
  webrl: method("regression of a sequence's log-ratio to the reference; a group's mean in the place of the critic",
    "arXiv 2411.02337", "centred", "webrl", "seq-mean-token-mean"),
  gpg: method("plain policy gradient, scaled by what was informative", "arXiv 2504.02546", "gpg", "reinforce"),
  rloo: method("REINFORCE, baseline: the mean of the others", "arXiv 2402.14740",
    "rloo", "reinforce", "seq-mean-token-sum"),
  opo: method("REINFORCE, baseline weighed by length", "arXiv 2505.23585", "opo", "reinforce"),
  max_rl: method("rare successes weigh more", "arXiv 2602.02710", "max_rl", "reinforce"),
  pass_at_k: method("only the best of a group is trained", "arXiv 2503.19595", "pass_at_k", "ppo"),
  gdpo: method("each component of the reward compared by itself, then their sum over the batch", "arXiv 2601.05242",
    "gdpo", "ppo"),
  rae: method("REINFORCE, baseline: a running mean of the returns; no groups", "arXiv 2506.24119", "rae", "reinforce"),
  rft: method("imitates its own successes, and nothing else", "arXiv 2304.06767", "rft", "reinforce"),
  remax: method("REINFORCE, baseline: the greedy rollout", "arXiv 2310.10505", "remax", "reinforce"),
  "reinforce++": method("returns-to-go, whitened over the batch; no groups", "arXiv 2501.03262", "reinforce++", "ppo"),
  "reinforce++-baseline": method("minus the group's mean, whitened over the batch", "arXiv 2501.03262",
    "reinforce++-baseline", "ppo"),
  "trr++": method("REINFORCE++ with a baseline for each family of tasks, as self-play has", "arXiv 2505.03335",
    "trr++", "ppo"),
  otb: method("a baseline of least variance for every token", "arXiv 2602.07078",
    "optimal_token_baseline", "reinforce"),
  ppo: method("a critic and GAE", "arXiv 1707.06347", "gae", "ppo", "token-mean", CRITIC),
  vapo: method("PPO with a λ that grows with length, clip-higher, successes imitated", "arXiv 2504.05118",
    "vapo", "ppo", "token-mean", { ...CRITIC, ...CLIP_HIGHER, imitation: 0.1 }),
  ragen: method("PPO with GAE over turns, then over tokens", "arXiv 2504.20073",
    "bi_level_gae", "ppo", "token-mean", CRITIC),
  vtrace: method("actor-critic corrected for an older sampler", "arXiv 1802.01561",
    "vtrace", "reinforce", "token-mean", CRITIC),
  gigpo: method("GRPO, and steps compared where the same state was met", "arXiv 2505.10978", "gigpo", "ppo"),
  beacon: method("GRPO, and steps compared on the way to the same milestone", "arXiv 2605.06078", "milestone", "ppo"),
};

const isObject = (value: unknown): boolean => typeof value === "object" && value !== null;

/** A method as names and numbers, so that a file can hold it. Options that are objects have tables of their own. */
export const METHOD = options("method", {
  method: text("grpo", "a preset and any add-ons: `grpo`, `echo`, `dapo+echo+actfocus`"),
  advantage: text(undefined, "the advantage estimator to use in place of the preset's"),
  loss: text(undefined, "the policy loss to use in place of the preset's"),
  aggregation: text(undefined, "the aggregation to use in place of the preset's"),
  options: inCode<Readonly<Record<string, object>>>(
    "options of the parts, by name of the part: { echo: { lambda: 0.02 }, ppo: { epsilonHigh: 0.28 } }",
    "an object with an object of options for each part",
    isObject,
  ),
  maxLength: number(undefined, "L_max of `seq-mean-token-sum-norm`", { above: 0 }),
  kl: inCode<KlChoice>("a penalty on moving away from the reference", "an object of options", isObject),
  entropy: inCode<number | AdaptiveEntropyOptions>(
    "coefficient of the entropy bonus: a number, or an object with a `target` that the coefficient adapts to " +
      "(`AdaptiveEntropy`)",
    "a number ≥ 0, or an object of options",
    (value) => isObject(value) || (typeof value === "number" && value >= 0),
  ),
  rolloutFilter: inCode<RolloutFilterOptions>("leaves out groups of little spread", "an object of options", isObject),
  critic: inCode<CriticOptions>(
    "options of the value loss, for a method with a critic",
    "an object of options",
    isObject,
  ),
  importanceCorrection: inCode<ImportanceCorrectionOptions>(
    "importance correction for a sampler that is not the learner",
    "an object of options",
    isObject,
  ),
  ...SWITCHES.fields,
});
/**
 * A method for `objectiveOf`, as names and numbers that a file can hold: a preset with add-ons (`method`, default
 * `grpo`), parts to use in place of the preset's, and options of the parts by their names (docs/methods.md lists all).
 */
export type MethodChoice = OptionsOf<typeof METHOD>;

/** The parts that methods are made of, by name. */
export interface MethodParts {
  readonly advantages: Table<AdvantageEstimator>;
  readonly losses: Table<PolicyLoss>;
  readonly worlds: Table<WorldObjective>;
  readonly tokenWeights: Table<TokenWeighting>;
  readonly terms: Table<LossTerm>;
}

/** The parts that can follow a plus sign in a method's name. */
type AddOns = Pick<MethodParts, "worlds" | "tokenWeights" | "terms">;

/**
 * The objective that the names and numbers describe, made from the given parts.
 * @throws if a name is unknown, or if the parts do not fit together
 */
export function objectiveFrom(parts: MethodParts, given: MethodChoice): Objective {
  check(
    typeof given === "object",
    () => `objectiveOf: expected an object such as { method: "grpo" }, got ${showValue(given)}`,
  );
  const choice = METHOD.read(given);
  const { options = {}, maxLength, kl, entropy = 0, critic } = choice;
  const names = splitNames(choice.method, parts);
  const presets = names.filter((name) => Object.hasOwn(METHODS, name));
  check(
    presets.length <= 1,
    () => `method: "${choice.method}" names ${presets.length} presets, ${presets.join(" and ")}; one is possible`,
  );
  const preset = METHODS[presets[0] ?? "grpo"]!;
  const advantage = choice.advantage ?? preset.advantage;
  const loss = choice.loss ?? preset.loss;
  const worlds = names.filter((name) => Object.hasOwn(parts.worlds, name));
  const weighting = names.filter((name) => Object.hasOwn(parts.tokenWeights, name));
  check(weighting.length <= 1, () => `method: one token weighting is possible, got ${weighting.join(" and ")}`);
  const terms = names.filter((name) => Object.hasOwn(parts.terms, name));
  const used = [advantage, loss, ...worlds, ...weighting, ...terms];
  for (const name of Object.keys(options)) {
    check(
      used.includes(name),
      () => `method: options for "${name}", which is no part of it; its parts are ${used.join(", ")}`,
    );
  }
  const estimator = entryByName("advantage", parts.advantages, advantage).make({
    ...(advantage === preset.advantage ? preset.advantageOptions : {}),
    ...options[advantage],
  });
  const policyLoss = entryByName("policy loss", parts.losses, loss).make(lossOf(choice, parts).options);
  const aggregation = aggregationByName(choice.aggregation ?? preset.aggregation);
  check(
    aggregation !== "seq-mean-token-sum-norm" || maxLength !== undefined,
    () => "method: seq-mean-token-sum-norm needs maxLength, the longest completion",
  );
  const switches = (Object.keys(SWITCHES.fields) as (keyof typeof SWITCHES.fields)[])
    .map((name) => [name, choice[name] ?? preset[name]] as const)
    .filter(([, value]) => value); // an objective omits the switches that are off
  const objective: Objective = {
    advantage: estimator,
    policyLoss,
    aggregation,
    ...(maxLength === undefined ? {} : { maxLength }),
    ...(worlds.length > 0 ? { world: worlds.map((name) => parts.worlds[name]!.make(options[name])) } : {}),
    ...(weighting.length > 0 ? { tokenWeights: parts.tokenWeights[weighting[0]!]!.make(options[weighting[0]!]) } : {}),
    ...(terms.length > 0 ? { terms: terms.map((name) => parts.terms[name]!.make(options[name])) } : {}),
    ...(estimator.needs?.includes("values") ? { critic: {} } : {}),
    ...(critic ? { critic } : {}),
    ...(kl ? { kl: klOf(kl) } : {}),
    ...(typeof entropy !== "number" ? { entropy: new AdaptiveEntropy(entropy) } : entropy === 0 ? {} : { entropy }),
    ...(choice.rolloutFilter ? { rolloutFilter: rolloutFilter(choice.rolloutFilter) } : {}),
    ...(choice.importanceCorrection ? { importanceCorrection: importanceCorrection(choice.importanceCorrection) } : {}),
    ...Object.fromEntries(switches),
  };
  checkObjective(objective);
  return objective;
}

/** The name of a method's policy loss, and its options as far as they are given. */
export function lossOf(
  { method = "grpo", loss, options = {} }: Pick<MethodChoice, "method" | "loss" | "options">,
  addOns: AddOns,
): { name: string; options: object } {
  const preset = METHODS[splitNames(method, addOns).find((name) => Object.hasOwn(METHODS, name)) ?? "grpo"]!;
  const name = loss ?? preset.loss;
  return { name, options: { ...(name === preset.loss ? preset.lossOptions : {}), ...options[name] } };
}

function klOf(choice: KlChoice): KlOptions {
  const { beta, target, horizon, decay, in: where, importance, ...given } = KL_PENALTY.read(choice);
  const { estimator = where === "reward" ? "k1" : "k3" } = given;
  check(target === undefined || decay === 1, () => "kl: target and decay both change beta; give one of them");
  const clamp = klClampByName(estimator);
  const constant = decay === 1 ? beta : new DecayingKl({ beta, decay });
  return {
    beta: target === undefined ? constant : new AdaptiveKl({ beta, target, horizon }),
    estimator: klEstimatorByName(estimator),
    ...(clamp ? { clamp } : {}),
    in: where,
    importance,
  };
}

/**
 * The names between plus signs. `reinforce++` and `reinforce++-baseline` contain plus signs themselves.
 * @throws if a name is unknown or appears twice
 */
export function splitNames(text: string, { worlds, tokenWeights, terms }: AddOns): string[] {
  const all = [METHODS, worlds, tokenWeights, terms].flatMap((table) => Object.keys(table));
  const known = all.toSorted((a, b) => b.length - a.length); // so that the longest name that fits is found first
  const names: string[] = [];
  for (let rest = text; rest !== "";) {
    const name = known.find((k) => rest === k || rest.startsWith(`${k}+`)) ?? rest.split("+")[0]!;
    if (!known.includes(name)) {
      entryByName("method", Object.fromEntries(all.map((k) => [k, k])), name);
      fail(`method: unknown name "${name}"`);
    }
    check(!names.includes(name), () => `method: "${name}" is there twice in "${text}"`);
    names.push(name);
    rest = rest.slice(name.length + 1);
  }
  check(names.length > 0, () => "method: the name is empty");
  return names;
}
