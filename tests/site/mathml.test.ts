/** Formulas as MathML: every loss prints, with symbols and with numbers; parentheses stand where they are needed. */
import { expect, test } from "vitest";
import { constant, expr, type Expr, named, where } from "../../kernels/expr.ts";
import { POLICY_LOSSES } from "../../methods/losses/index.ts";
import { paw } from "../../methods/paw.ts";
import { returnPrediction } from "../../methods/returnPrediction.ts";
import { KL_ESTIMATORS } from "../../rl/objective/kl.ts";
import { NO_POLICY, type PolicyLoss } from "../../rl/objective/policyLoss.ts";
import type { LossParts } from "../../rl/train/loss.ts";
import { filled, type Filled } from "../../site/formulas/formula.ts";
import { formulaLines, mathTable, numberMath, symbolMath, weighedLines } from "../../site/mathml.ts";
import { filledAt, readMath as read, type Told, tracedSteps } from "../support/formulas.ts";

const token = { masked: false, lp: -1.25, old: -1.5, ref: -0.75, advantage: -2 };
const other = { masked: false, lp: -2, old: -2.5, ref: -2.25, advantage: 1 };
const told: Told = {
  mask: 1,
  wPolicy: 0.5,
  wKl: 0.5,
  wEntropy: 0.5,
  wValue: 0.5,
  wWorld: 0.5,
  prepared: 1,
  entropy: 1.5,
  oldValues: 0.5,
  returns: -1,
  weights: { paw: 0.5, return_prediction: 0.5 },
  more: { "return_prediction.return": -1 },
  predictions: { return_prediction: 0.25 },
};

const linesOf = (formula: Filled, name = "ℓ"): string[] =>
  formulaLines(name, formula).map(({ left, steps }) => [left, ...steps].map(read).join(" = "));
async function policyLines(policyLoss: PolicyLoss): Promise<string[]> {
  const steps = await tracedSteps({ policyLoss }, [[token, other]], () => told);
  return linesOf(filledAt(steps, "policy", 0, 0));
}
const loss = (name: string, options: object = {}): PolicyLoss => POLICY_LOSSES[name]!.make(options);

test("PPO's clip, with symbols and filled in", async () => {
  const ppo = loss("ppo", { epsilonHigh: 0.28 });
  expect(await policyLines(ppo)).toEqual([
    "ℓ = max(−ρ·A,−clip(ρ,1−ε_low,1+ε_high)·A) = max(−1.284·(−2),−clip(1.284,1−0.2,1+0.28)·(−2)) = 2.568",
    "ρ = e^{log p−log p_old} = e^{−1.25−(−1.5)} = 1.284",
  ]);
  const steps = await tracedSteps({ policyLoss: ppo }, [[token]], () => told);
  const shown = filledAt(steps, "policy", 0, 0);
  expect(read(mathTable(formulaLines("ℓ", shown))).split(";")).toHaveLength(5); // two rows each
  const words = { weight: "w_policy", moves: steps.formulas["policy"]!.moves };
  const weighed = weighedLines(words, steps.tokens[0]![0]![0]!);
  expect(weighed.map(({ left, steps: all }) => [left, ...all].map(read).join(" = "))).toEqual([
    "w_policy·ℓ = 0.5·2.568 = 1.284",
    "(∂L)/(∂log p) = w_policy·(∂ℓ)/(∂log p) = 0.5·2.568 = 1.284",
  ]);
});

test("a named sum over the sequence has a line of its own; a bound that is none is not shown", async () => {
  expect((await policyLines(loss("gspo"))).slice(1)).toEqual([
    "s_t = e^{log p−sg(log p)+min(ln s,10)} = e^{−1.25−sg(−1.25)+min(0.375,10)} = 1.455",
    "ln s = (∑sequence(sg(log p)−log p_old))/(max(T,1)) = (0.75)/(max(2,1)) = 0.375",
    "T = ∑sequence1 = 2",
  ]);
  expect((await policyLines(loss("dpo", { average: true }))).slice(0, 3)).toEqual([
    "ℓ = ln(1+e^{−h·β}) = ln(1+e^{−1.25·0.1}) = 0.6326",
    "h = ∑sequence(log p−log p_ref)·(A)/({n_chosen if A>0;n_rejected else;) = 1.25",
    "n_chosen = ∑sequence{1 if A>0;0 else; = 1",
  ]);
  expect((await policyLines(loss("dual_clip")))[1]).toMatch(/^ℓ_clip = max\(−ρ·A,/);
  expect((await policyLines(loss("dual_clip", { delta: 2 })))[1]).toMatch(/^ℓ_clip = max\(−min\(ρ,δ\)·A,/);
});

test("parentheses stand where the parts would fall apart without them, and nowhere else", () => {
  const written = (write: (x: Readonly<Record<"A" | "H" | "lp", Expr>>) => Expr): string =>
    linesOf(
      filled((number) => write({ A: number("A", -2), H: number("H", 1.5), lp: number("log p", -1.25) })),
      "y",
    ).join(" / ");
  expect(written(({ A, H }) => A.sub(H.sub(1)).mul(A.add(2)))).toMatch(/^y = \(A−\(H−1\)\)·\(A\+2\) = /);
  expect(written(({ A, H }) => A.mul(H).neg().add(A))).toMatch(/^y = −A·H\+A = −\(−2\)·1.5\+\(−2\) = 1$/);
  expect(written(({ lp }) => lp.square().sub(lp.abs()))).toMatch(/^y = \(log p\)\^\{2\}−\|log p\| = /);
  expect(written(({ A, H }) => A.add(1).div(H).exp().square())).toMatch(/^y = \(e\^\{\(A\+1\)\/\(H\)\}\)\^\{2\}/);
  expect(written(({ A, H }) => where(where(A.gt(0), H.le(1), 0), A, H))).toBe(
    "y = {A if A>0\u00a0and\u00a0H≤1;H else; = {−2 if −2>0\u00a0and\u00a01.5≤1;1.5 else; = 1.5",
  );
  expect(written(({ A, H }) => expr(1).sub(A.gt(H)))).toBe("y = 1−[A>H] = 1−[−2>1.5] = 1");
  expect(written(({ A }) => A.expm1().neg().mul(A.expm1()))).toMatch(/^y = \(1−e\^\{A\}\)·\(e\^\{A\}−1\) = /);
  expect(written(({ A }) => constant(0.0000123).mul(A))).toBe("y = 1.23·10^{−5}·A = 1.23·10^{−5}·(−2) = −2.46·10^{−5}");
  expect(written(({ A }) => A.tanh().clamp(-1, 1))).toMatch(/^y = clip\(tanh\(A\),−1,1\) = /);
  expect(written(({ A, H }) => named("x", A.mul(H)).add(named("A", A)))).toBe(
    "y = x+A = −3+(−2) = −5 / x = A·H = (−2)·1.5 = −3",
  );
});

test("numbers have four digits, and symbols what is below the line", () => {
  const numbers = [0, -0.5, 0.20004, 12345.6, 1234567, 0.00001234, 1.00001, NaN, -Infinity];
  const expected = ["0", "−0.5", "0.2", "12350", "1.235·10^{6}", "1.234·10^{−5}", "1.00001", "NaN", "−∞"];
  expect(numbers.map((x) => read(numberMath(x)))).toEqual(expected);
  expect(read(symbolMath("log p_old"))).toBe("log p_old");
});

test("every loss and every term prints, each part once, with the value that was computed", async () => {
  const of = (parts: Partial<LossParts>): LossParts => ({ policyLoss: NO_POLICY, ...parts });
  const clamp = { logRatio: 20, value: 10 };
  const all = [
    ...Object.keys(POLICY_LOSSES).map((name) => of({ policyLoss: loss(name) })),
    of({ policyLoss: loss("cispo", { cap: "absolute" }) }),
    of({ policyLoss: loss("prime_rl", { symmetric: true }) }),
    of({ policyLoss: loss("vespo", { detached: false }) }),
    ...KL_ESTIMATORS.map((estimator) => of({ kl: { beta: 1, estimator, importance: true, clamp } })),
    of({ world: paw(), terms: [returnPrediction()], critic: {} }),
  ];
  let printed = 0;
  for (const [k, objective] of all.entries()) {
    const steps = await tracedSteps(objective, [[token, other]], () => told, k % 2 === 0 ? "action" : "observation");
    for (const { name, value } of steps.tokens[0]![0]!) {
      const lines = formulaLines("ℓ", filledAt(steps, name, 0, 0));
      const names = lines.map(({ left }) => read(left));
      expect(new Set(names).size).toBe(names.length);
      expect(read(lines[0]!.steps.at(-1)!)).toBe(read(numberMath(value)));
      for (const { left, steps: own } of lines) {
        expect([left, ...own].map(read).join(" = ")).not.toMatch(/undefined|NaN|\$/);
        expect(own.length).toBeGreaterThanOrEqual(2);
      }
      // Each part is used by name somewhere else.
      for (const symbol of names.slice(1))
        expect(
          lines.some(({ left, steps: [first] }) => read(left) !== symbol && read(first!).includes(symbol)),
          symbol,
        ).toBe(true);
      printed++;
    }
  }
  expect(printed).toBeGreaterThan(60);
});
