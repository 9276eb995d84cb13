/** Formulas that the page shows: each has value and gradient of what the library computes, whatever the options. */
import * as fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  device as makeDevice,
  type Device,
  exp,
  mul,
  sum,
  tensor,
  type Tensor,
  valueAndGrad,
} from "../../engine/index.ts";
import type { Option } from "../../engine/optionTable.ts";
import { KL_ESTIMATORS, klPenalty } from "../../rl/objective/kl.ts";
import { logRatio, type PolicyLoss } from "../../rl/objective/policyLoss.ts";
import { POLICY_LOSSES } from "../../methods/losses/index.ts";
import { clippedErrorLoss } from "../../methods/paw.ts";
import { crossEntropyLoss } from "../../rl/objective/crossEntropy.ts";
import { clippedValueLoss } from "../../rl/objective/value.ts";
import type { Formula, TokenNumbers } from "../../site/formulas/language.ts";
import { POLICY_FORMULAS, policyFormula } from "../../site/formulas/policy.ts";
import { klFormula, type KlForm, TERMS } from "../../site/formulas/terms.ts";
import { type Drawn, number, preparedColumn, run, sequences } from "../support/rlTokens.ts";

let exact: Device;
beforeAll(async () => void (exact = await makeDevice("reference")));
afterAll(() => exact.dispose());

const none: TokenNumbers = {
  lp: 0,
  old: 0,
  ref: 0,
  A: 0,
  chosen: 0,
  H: 0,
  value: 0,
  oldValue: 0,
  target: 0,
  sideLength: 1,
};
const near = (actual: number, expected: number, tolerance = 1e-9): void =>
  expect(Math.abs(actual - expected)).toBeLessThan(tolerance * Math.max(1, Math.abs(expected)));
/** Below |d| = 0.03 the library computes k3 by its series, whose first term left out is d⁵/120, and its slope d⁴/24. */
const SERIES = 4e-8;

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

/** The trained tokens of a sequence, as a formula sees them. */
function tokensOf(row: readonly Drawn[], prepared: Float64Array | undefined): TokenNumbers[] {
  const trained = row.flatMap((token, t) => (token.masked ? [] : [{ ...token, chosen: prepared?.[t] ?? 0 }]));
  return trained.map(({ lp, old, ref, advantage: A, chosen }) => {
    const sideLength = trained.filter((other) => other.advantage > 0 === A > 0).length;
    return { ...none, lp, old, ref, A, chosen, sideLength };
  });
}
const weight = ({ ref }: Drawn): number => 0.3 + 0.1 * ref;

describe("policy losses", () => {
  it("have a formula and a sentence each, and nothing else has", () => {
    expect(Object.keys(POLICY_FORMULAS).toSorted()).toEqual(Object.keys(POLICY_LOSSES).toSorted());
    for (const { about } of Object.values(POLICY_FORMULAS)) expect(about).toMatch(/^[A-Z].{20,}\.$/);
  });

  it.each(Object.keys(POLICY_LOSSES))("%s: value and gradient of the library's, with any options", async (name) => {
    let [compared, optioned] = [0, 0];
    await fc.assert(
      fc.asyncProperty(sequences(name.startsWith("dpo")), optionsOf(name), async (rows, options) => {
        const loss = made(name, options);
        fc.pre(loss !== undefined);
        const formula = policyFormula(name, options);
        const prepared = preparedColumn(loss, rows);
        const { perToken, gradient } = await run(exact, loss, rows, weight);
        let start = 0;
        for (const [i, row] of rows.entries()) {
          const places = row.flatMap(({ masked }, t) => (masked ? [] : [t]));
          const weights = places.map((t) => weight(row[t]!));
          const { tokens, gradients } = formula.over(tokensOf(row, prepared?.[i]), weights);
          for (const [k, t] of places.entries()) {
            near(tokens[k]!.value, perToken[start + t]!);
            near(gradients[k]!, gradient[start + t]!);
            compared++;
          }
          start += row.length;
        }
        optioned += Object.keys(options).length;
      }),
      { seed: 1, numRuns: 60 },
    );
    expect(compared).toBeGreaterThan(30);
    if (Object.keys(POLICY_LOSSES[name]!.options.fields).length > 0) expect(optioned).toBeGreaterThan(30);
  });

  it("an unknown one is one line", () => {
    expect(() => policyFormula("pppo", {})).toThrow('formula: unknown name "pppo"; did you mean "ppo"?');
  });
});

/** A formula of tokens without levels, against tensors: values, and the gradient of Σ by `input`. */
async function compare(
  formula: Formula,
  tokens: readonly TokenNumbers[],
  input: "lp" | "value",
  library: (column: (name: keyof TokenNumbers) => Tensor, ones: Tensor) => Tensor,
  tolerance?: number,
): Promise<void> {
  const floats = (values: readonly number[]): Tensor => tensor([...values], { device: exact, dtype: exact.float });
  const { grads, aux } = valueAndGrad((x: Tensor) => {
    const column = (name: keyof TokenNumbers): Tensor => (name === input ? x : floats(tokens.map((t) => t[name])));
    const y = library(column, floats(tokens.map(() => 1)));
    return [sum(y), y];
  })(floats(tokens.map((t) => t[input])));
  const [values, slopes] = [await aux.read(), await grads.read()];
  tokens.forEach((token, i) => {
    const { value, slope } = formula.at(token);
    near(value, values[i]!, tolerance);
    near(slope, slopes[i]!, tolerance);
  });
}
const tokens = fc.array(
  fc
    .record({ lp: number(-4, -0.01), old: number(-4, -0.01), ref: number(-4, -0.01), value: number(-2, 2) })
    .chain((token) =>
      fc.record({ oldValue: number(-2, 2), target: number(-2, 2) }).map((more) => ({ ...none, ...token, ...more })),
    ),
  { minLength: 1, maxLength: 6 },
);

describe("the other terms", () => {
  const clamps = [undefined, { logRatio: 20, value: 10 }, { logRatio: 0.5, value: 0.1 }];
  const forms = KL_ESTIMATORS.flatMap((estimator) =>
    clamps.flatMap((clamp) =>
      [false, true].map((importance): KlForm => ({ estimator, importance, ...(clamp ? { clamp } : {}) })),
    ),
  );
  it.each(forms.map((form) => [JSON.stringify(form), form] as const))("KL %s", async (_, form) => {
    // ρ is at most e⁴ here.
    const tolerance = form.estimator.startsWith("k3") ? SERIES * (form.importance ? Math.exp(4) : 1) : undefined;
    await fc.assert(
      fc.asyncProperty(tokens, (drawn) =>
        compare(
          klFormula(form),
          drawn,
          "lp",
          (column, ones) => {
            const penalty = klPenalty(form.estimator, column("lp"), column("ref"), ones, form.clamp);
            return form.importance ? mul(penalty, exp(logRatio(column("lp"), column("old"), ones))) : penalty;
          },
          tolerance,
        ),
      ),
      { seed: 2, numRuns: 20 },
    );
  });

  it("world model, imitation, PaW, critic", async () => {
    await fc.assert(
      fc.asyncProperty(tokens, number(0.01, 0.99), number(0.05, 1), async (drawn, worldClip, valueClip) => {
        for (const name of ["world", "imitation"] as const) {
          await compare(TERMS[name].formula({})!, drawn, "lp", (column, ones) => crossEntropyLoss(column("lp"), ones));
        }
        const paw = TERMS.paw.formula({ worldClip })!;
        await compare(paw, drawn, "lp", (column, ones) => clippedErrorLoss(column("lp"), ones, worldClip));
        await compare(TERMS.value.formula({ valueClip })!, drawn, "value", (column, ones) =>
          clippedValueLoss(column("value"), column("oldValue"), column("target"), ones, valueClip),
        );
      }),
      { seed: 3, numRuns: 40 },
    );
    expect(TERMS.paw.formula({})).toBeUndefined();
    expect(TERMS.entropy.formula({})!.at({ ...none, H: 1.5 })).toEqual({ value: -1.5, parts: [], slope: -1 });
  });
});
