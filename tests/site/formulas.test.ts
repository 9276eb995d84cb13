/**
 * Formulas that the page shows: each is the library's own, and evaluated it has the library's values, whatever the
 * options. Its gradient is the library's. That the losses themselves are right is tested in tests/rl.
 */
import * as fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { cumsum, device as makeDevice, type Device } from "../../engine/index.ts";
import type { Option } from "../../engine/optionTable.ts";
import { KL_ESTIMATORS, klEstimate } from "../../rl/objective/kl.ts";
import { NO_POLICY, type PolicyLoss } from "../../rl/objective/policyLoss.ts";
import { POLICY_LOSSES } from "../../methods/losses/index.ts";
import { paw } from "../../methods/paw.ts";
import { returnPrediction } from "../../methods/returnPrediction.ts";
import { type LossTerm, OWN_TERMS } from "../../rl/objective/terms.ts";
import { KL_ABOUT, POLICY_ABOUT, termWords } from "../../site/lossWords.ts";
import { tracedSteps } from "../support/formulas.ts";
import { type Drawn, preparedColumn, run, sequences } from "../support/rlTokens.ts";

let exact: Device;
beforeAll(async () => void (exact = await makeDevice("reference")));
afterAll(() => exact.dispose());

const near = (actual: number, expected: number, tolerance = 1e-9): void =>
  expect(Math.abs(actual - expected)).toBeLessThan(tolerance * Math.max(1, Math.abs(expected)));

/** Any value that the option allows, or none. */
function valueOf(name: string, option: Option<unknown>): fc.Arbitrary<unknown> {
  const { kind } = option;
  if (name === "seed") return fc.constantFrom(undefined, 0, 5);
  const values =
    kind === "number"
      ? [0, 1e-3, 0.05, 0.2, 0.28, 0.5, 0.9, 1, 1.3, 2, 3, 7]
      : kind === "switch"
        ? [true, false]
        : typeof kind === "string"
          ? []
          : kind;
  const allowed = values.filter((value) => option.accepts(value));
  if (allowed.length === 0) throw new Error(`no value for an option that must be ${option.expected}`);
  return fc.constantFrom(undefined, ...allowed);
}
const optionsOf = (name: string): fc.Arbitrary<object> =>
  fc
    .record(Object.fromEntries(Object.entries(POLICY_LOSSES[name]!.options.fields).map(([k, o]) => [k, valueOf(k, o)])))
    .map((given) => Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined)));
function made(name: string, options: object): PolicyLoss | undefined {
  try {
    return POLICY_LOSSES[name]!.make(options);
  } catch {
    return undefined; // two options that exclude each other
  }
}
const weight = ({ ref }: Drawn): number => 0.3 + 0.1 * ref;

describe("policy losses", () => {
  it("have a sentence each, and nothing else has; so have the terms", () => {
    expect(Object.keys(POLICY_ABOUT).toSorted()).toEqual(Object.keys(POLICY_LOSSES).toSorted());
    expect(Object.keys(KL_ABOUT).toSorted()).toEqual([...KL_ESTIMATORS].toSorted());
    const kl = { beta: 1, estimator: "k3" } as const;
    const terms = [...OWN_TERMS, "paw", "return_prediction"].map((name) => termWords(name, "ppo", kl));
    for (const about of [...Object.values(POLICY_ABOUT), ...Object.values(KL_ABOUT), ...terms.map((t) => t.about)])
      expect(about).toMatch(/^[A-Z].{20,}\.$/);
    expect(termWords("mine", "ppo", undefined)).toEqual({ title: "mine", about: "", weight: "w" });
  });

  it.each(Object.keys(POLICY_LOSSES))("%s: value and gradient of the library's, with any options", async (name) => {
    let [compared, optioned] = [0, 0];
    await fc.assert(
      fc.asyncProperty(sequences(name.startsWith("dpo")), optionsOf(name), async (rows, options) => {
        const policyLoss = made(name, options);
        fc.pre(policyLoss !== undefined);
        const prepared = preparedColumn(policyLoss, rows);
        const { perToken, gradient } = await run(exact, policyLoss, rows, weight);
        const { tokens } = await tracedSteps({ policyLoss }, rows, ({ masked, ...token }, i, t) => ({
          mask: Number(!masked),
          wPolicy: masked ? 0 : weight({ masked, ...token }),
          ...(prepared ? { prepared: prepared[i]![t]! } : {}),
        }));
        tokens.flat().forEach((own, k) => {
          for (const term of own) {
            near(term.value, perToken[k]!);
            near(term.gradient, gradient[k]!);
            compared++;
          }
        });
        optioned += Object.keys(options).length;
      }),
      { seed: 1, numRuns: 60 },
    );
    expect(compared).toBeGreaterThan(30);
    if (Object.keys(POLICY_LOSSES[name]!.options.fields).length > 0) expect(optioned).toBeGreaterThan(30);
  });
});

it("the other terms have the values that plain numbers give", async () => {
  const clamps = [undefined, { logRatio: 20, value: 10 }, { logRatio: 0.5, value: 0.1 }];
  await fc.assert(
    fc.asyncProperty(
      sequences(false),
      fc.constantFrom(...KL_ESTIMATORS),
      fc.constantFrom(...clamps),
      fc.boolean(),
      async (rows, estimator, clamp, importance) => {
        const objective = {
          policyLoss: NO_POLICY,
          world: paw({ rho: 0.2 }),
          terms: [returnPrediction()],
          kl: { beta: 1, estimator, importance, ...(clamp ? { clamp } : {}) },
          critic: { clip: 0.3 },
        };
        const { tokens } = await tracedSteps(objective, rows, ({ ref, old, advantage }) => ({
          wKl: 0.5,
          wEntropy: 0.1,
          wValue: 0.2,
          wWorld: 0.3,
          oldValues: old,
          returns: advantage,
          entropy: 1 - ref,
          weights: { paw: 0.4, return_prediction: 0.6 },
          more: { "return_prediction.return": advantage },
          predictions: { return_prediction: ref },
        }));
        tokens.forEach((row, i) =>
          row.forEach((terms, t) => {
            const { lp, old, ref, advantage } = rows[i]![t]!;
            const expected: Record<string, number> = {
              imitation: -lp,
              paw: Math.exp(lp) <= 0.2 ? 1 - Math.exp(lp) : 0,
              return_prediction: 0.5 * (ref - advantage) ** 2,
              kl: klEstimate(estimator, lp, ref, clamp) * (importance ? Math.exp(lp - old) : 1),
              entropy: ref - 1,
              value: 0.5 * (old - advantage) ** 2,
            };
            expect(terms.map(({ name }) => name)).toEqual(Object.keys(expected));
            for (const { name, value } of terms) near(value, expected[name]!);
          }),
        );
      },
    ),
    { seed: 2, numRuns: 60 },
  );
});

it("a term that an op without a formula computes is named in the error", async () => {
  const term: LossTerm = {
    name: "running",
    weigh: () => ({ weight: [] }),
    tokenLoss: ({ logProbs }) => cumsum(logProbs),
  };
  const row = [{ masked: false, lp: -1, old: -1, ref: -1, advantage: 0 }];
  await expect(
    tracedSteps({ policyLoss: NO_POLICY, terms: [term] }, [row], () => ({ weights: { running: 1 } })),
  ).rejects.toThrow('the term "running" is computed by an op that has no formula');
});
