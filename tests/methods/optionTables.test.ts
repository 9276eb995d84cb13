/**
 * The default and the range of every number among the options of methods, as papers and systems have them
 * (docs/methods.md names the sources). They stand here once more because a run's results depend on them: who changes
 * one has to change it twice. A range is tried at its ends and not read from its text.
 */
import { describe, expect, it } from "vitest";
import type { OptionTable } from "../../engine/optionTable.ts";
import { ADVANTAGES } from "../../methods/advantages/index.ts";
import { IMPORTANCE_CORRECTION, REJECTION } from "../../methods/importanceCorrection.ts";
import { ADAPTIVE_ENTROPY } from "../../methods/entropy.ts";
import { POLICY_LOSSES } from "../../methods/losses/index.ts";
import { ADAPTIVE_KL, DECAYING_KL, KL_PENALTY } from "../../methods/kl.ts";
import { TERMS, TOKEN_WEIGHTS, WORLD } from "../../methods/presets.ts";
import { REPETITION, TOOL_EFFICIENCY } from "../../papers/rewards/behaviour.ts";
import { PREFERENCE_ROWS } from "../../methods/preference.ts";
import { SFT_ROWS } from "../../methods/sft.ts";

/** Option by option `DEFAULT in RANGE`; the default is `needed` if it has to be given, and `none` if there is none. */
type Numbers = Readonly<Record<string, string>>;

const ANY = "(-∞, ∞)";
const CLIP = { epsilon: "0.2 in (0, 1)", epsilonHigh: "none in (0, ∞)" };
const DPO = { beta: "0.1 in (0, ∞)" };
const GROUP = { ddof: "1 in integers [0, 1]", eps: "0.0001 in [0, ∞)" };
const STEP = { gamma: "0.95 in [0, 1]", eps: "0.000001 in [0, ∞)" };
const SHARE = "1 in [0, 1]";

const LOSSES: Readonly<Record<string, Numbers>> = {
  ppo: { ...CLIP, dualClip: "none in (1, ∞)", delta: "none in (1, ∞)" },
  dual_clip: { ...CLIP, dualClip: "3 in (1, ∞)", delta: "none in (1, ∞)" },
  sapo: { temperaturePositive: "1 in (0, ∞)", temperatureNegative: "1.05 in (0, ∞)" },
  cispo: { epsilon: "none in [0, 1]", epsilonHigh: "none in (0, ∞)" },
  dro: { beta: "0.05 in [0, ∞)" },
  dppo_tv: { epsilon: "0.2 in [0, ∞)", epsilonHigh: "0.28 in [0, ∞)" },
  dppo_kl: { epsilon: "0.2 in [0, ∞)", epsilonHigh: "0.28 in [0, ∞)" },
  prime_rl: { threshold: "0.2 in [0, ∞)", klTau: "0.001 in [0, ∞)" },
  kl_cov: { ratio: "0.0002 in [0, 1]", coefficient: "1 in [0, ∞)" },
  clip_cov: { ...CLIP, ratio: "0.0002 in [0, 1]", low: `1 in ${ANY}`, high: `5 in ${ANY}`, seed: `0 in ${ANY}` },
  m2po: { threshold: "0.04 in (0, ∞)" },
  gspo: { epsilon: "0.0003 in (0, 1)", epsilonHigh: "none in (0, ∞)" },
  gmpo: { epsilon: "0.4 in (0, ∞)", epsilonHigh: "none in (0, ∞)" },
  vespo: { kPos: "2 in [0, ∞)", lambdaPos: "3 in [0, ∞)", kNeg: "3 in [0, ∞)", lambdaNeg: "2 in [0, ∞)" },
  webrl: { beta: "1 in (0, ∞)" },
  dpo: DPO,
  dpo_ipo: DPO,
  dpo_hinge: DPO,
};

const ESTIMATORS: Readonly<Record<string, Numbers>> = {
  grpo: GROUP,
  pass_at_k: GROUP,
  gdpo: GROUP,
  rae: { decay: "0.95 in [0, 1]" },
  rft: { perTask: "4 in integers [1, ∞]" },
  "reinforce++": { gamma: SHARE },
  gae: { gamma: SHARE, alpha: "none in (0, ∞)", lambda: "none in [0, 1]", lambdaValue: "none in [0, 1]" },
  vapo: { gamma: SHARE, alpha: "0.05 in (0, ∞)" },
  bi_level_gae: { gammaTurn: "0.95 in [0, 1]", gamma: SHARE, lambda: SHARE },
  vtrace: { gamma: SHARE, lambda: SHARE, rhoBar: "1 in (0, ∞)", cBar: "1 in (0, ∞)" },
  gigpo: { omega: "1 in [0, ∞)", ...STEP },
  milestone: { lambda: "1 in [0, ∞)", ...STEP },
};

const WORLD_LOSSES: Readonly<Record<string, Numbers>> = {
  echo: { lambda: "0.05 in [0, ∞)" },
  paw: {
    alpha: "0.75 in [0, 1]",
    rho: "0.2 in [0, 1]",
    rewardMax: "1 in (0, ∞)",
    coefficient: "1 in [0, ∞)",
    seed: `0 in ${ANY}`,
  },
};

const WEIGHTS: Readonly<Record<string, Numbers>> = {
  actfocus: { alpha: "0.1 in [0, ∞)", beta: "0.5 in [0, ∞)" },
  top_entropy: { share: "0.2 in [0, 1]" },
  outcome_critic: {},
};

const OTHERS: readonly (readonly [name: string, table: OptionTable, numbers: Numbers])[] = [
  ["AdaptiveKl", ADAPTIVE_KL, { beta: "needed in [0, ∞)", target: "needed in (0, ∞)", horizon: "10000 in (0, ∞)" }],
  ["DecayingKl", DECAYING_KL, { beta: "needed in [0, ∞)", decay: "needed in (0, 1]" }],
  [
    "kl",
    KL_PENALTY,
    { beta: "needed in [0, ∞)", target: "none in (0, ∞)", horizon: "10000 in (0, ∞)", decay: "1 in (0, 1]" },
  ],
  [
    "AdaptiveEntropy",
    ADAPTIVE_ENTROPY,
    {
      target: "needed in [0, ∞)",
      coefficient: "0 in [0, ∞)",
      delta: "0.005 in (0, ∞)",
      min: "0 in [0, ∞)",
      max: "1 in [0, ∞)",
    },
  ],
  [
    "importanceCorrection",
    IMPORTANCE_CORRECTION,
    { max: "2 in (0, ∞)", min: "none in [0, ∞)", offPolicyMask: `none in ${ANY}` },
  ],
  ["rejection", REJECTION, { max: `needed in ${ANY}`, min: `0 in ${ANY}` }],
  ["toolEfficiency", TOOL_EFFICIENCY, { duplicate: "0.05 in [0, ∞)", unknown: "0.3 in [0, ∞)", cap: "1 in [0, ∞)" }],
  ["repetitionPenalty", REPETITION, { n: "3 in integers [1, ∞)", maxPenalty: "-1 in (-∞, 0]" }],
  ["sftRows", SFT_ROWS, { observationWeight: "0 in [0, ∞)" }],
  ["preferenceRows", PREFERENCE_ROWS, { imitation: "0 in [0, ∞)" }],
];

const FURTHER: Readonly<Record<string, Numbers>> = {
  return_prediction: { coefficient: "0.1 in [0, ∞)", rate: "1 in (0, ∞)" },
};

const cases: readonly (readonly [name: string, table: OptionTable, numbers: Numbers])[] = [
  ...[
    [POLICY_LOSSES, LOSSES] as const,
    [ADVANTAGES, ESTIMATORS] as const,
    [WORLD, WORLD_LOSSES] as const,
    [TOKEN_WEIGHTS, WEIGHTS] as const,
    [TERMS, FURTHER] as const,
  ].flatMap(([entries, numbers]) =>
    Object.entries(entries).map(([name, { options }]) => [name, options, numbers[name] ?? {}] as const),
  ),
  ...OTHERS,
];

const valueOf = (text: string): number => Number(text.replace("∞", "Infinity"));

/** Values just inside and just outside of a range, and at its ends. */
function samplesOf(range: string): { inside: number[]; outside: unknown[] } {
  const [, integers, open, low, high, close] = /^(integers )?([[(])(\S+), (\S+)([\])])$/.exec(range)!;
  const [inside, outside]: [number[], unknown[]] = [[], [NaN, "1", null]];
  const step = integers ? 1 : 1e-9;
  for (const [end, isClosed, inwards] of [
    [valueOf(low!), open === "[", step],
    [valueOf(high!), close === "]", -step],
  ] as const) {
    (isClosed ? inside : outside).push(end);
    inside.push(Number.isFinite(end) ? end + inwards : -Math.sign(inwards) * 1e300);
    if (Number.isFinite(end)) outside.push(end - inwards);
  }
  if (integers) outside.push(valueOf(low!) + 0.5);
  return { inside, outside };
}

describe("defaults and ranges", () => {
  it.each(cases)("%s", (_, { fields }, numbers) => {
    const declared = Object.entries(fields).filter(([, { kind }]) => kind === "number" || kind === "schedule");
    expect(declared.map(([name]) => name).toSorted()).toEqual(Object.keys(numbers).toSorted());
    for (const [name, { default: value, required, accepts }] of declared) {
      const [, fallback, range] = /^(\S+) in (.*)$/.exec(numbers[name]!)!;
      expect(required ? "needed" : value === undefined ? "none" : value, name).toBe(
        fallback === "needed" || fallback === "none" ? fallback : Number(fallback),
      );
      const { inside, outside } = samplesOf(range!);
      for (const x of inside) expect(accepts(x), `${name}: ${x} is allowed`).toBe(true);
      for (const x of outside) expect(accepts(x), `${name}: ${String(x)} is not allowed`).toBe(false);
    }
  });

  it("the bounds of PaW's λ_g", () => expect(WORLD.paw!.options.fields.clamp!.default).toEqual([0, 1]));
});
