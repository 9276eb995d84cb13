/** Formulas as MathML: every loss prints, with symbols and with numbers; parentheses stand where they are needed. */
import { expect, test } from "vitest";
import { constant, type Expr, where } from "../../kernels/expr.ts";
import { POLICY_LOSSES } from "../../methods/losses/index.ts";
import { KL_ESTIMATORS } from "../../rl/objective/kl.ts";
import { type Draft, Formula, type TokenNumbers } from "../../site/formulas/language.ts";
import {
  formulaLines,
  type MathNode,
  mathTable,
  mathText,
  numberMath,
  symbolMath,
} from "../../site/formulas/mathml.ts";
import { policyFormula } from "../../site/formulas/policy.ts";
import { klFormula, TERM_NAMES, TERMS } from "../../site/formulas/terms.ts";

const token: TokenNumbers = {
  lp: -1.25,
  old: -1.5,
  ref: -0.75,
  A: -2,
  chosen: 1,
  H: 1.5,
  value: 0.25,
  oldValue: 0.5,
  target: -1,
  sideLength: 3,
};

/** The formula in one line, as it is read: sub- and superscripts with _ and ^, fractions with a slash. */
function read(node: MathNode | string): string {
  if (typeof node === "string") return node.replace(/[\u2061\u2062]/g, "");
  const parts = node.children.map(read);
  if (node.tag === "msub") return parts.join("_");
  if (node.tag === "msup") return `${parts[0]}^{${parts[1]}}`;
  if (node.tag === "mfrac") return `(${parts[0]})/(${parts[1]})`;
  if (node.tag === "mtr") return `${parts.join(" ")};`;
  return node.tag === "mspace" ? " " : parts.join("");
}
const linesOf = (write: (f: Draft) => Expr): string[] =>
  formulaLines(new Formula(write), "y", token, []).map(({ left, steps }) => [left, ...steps].map(read).join(" = "));

test("PPO's clip, with symbols and filled in", () => {
  const lines = formulaLines(policyFormula("ppo", { epsilonHigh: 0.28 }), "ℓ", token, []);
  expect(lines.map(({ left, steps }) => [left, ...steps].map(read).join(" = "))).toEqual([
    "ℓ = max(−ρA,−clip(ρ,1−ε_low,1+ε_high)A) = max(−1.284·(−2),−clip(1.284,1−0.2,1+0.28)·(−2)) = 2.568",
    "ρ = e^{log p−log p_old} = e^{−1.25−(−1.5)} = 1.284",
  ]);
  expect(read(mathTable(lines)).split(";")).toHaveLength(5); // two rows each
});

test("parentheses stand where the parts would fall apart without them, and nowhere else", () => {
  expect(linesOf(({ token: { A, H } }) => A.sub(H.sub(1)).mul(A.add(2)))[0]).toMatch(/^y = \(A−\(H−1\)\)\(A\+2\) = /);
  expect(linesOf(({ token: { A, H } }) => A.mul(H).neg().add(A))[0]).toMatch(/^y = −AH\+A = −\(−2\)·1.5\+\(−2\) = 1$/);
  expect(linesOf(({ token: { lp } }) => lp.square().sub(lp.abs()))[0]).toMatch(/^y = \(log p\)\^\{2\}−\|log p\| = /);
  expect(linesOf(({ token: { A, H } }) => A.add(1).div(H).exp().square())[0]).toMatch(
    /^y = \(e\^\{\(A\+1\)\/\(H\)\}\)\^\{2\}/,
  );
  expect(linesOf(({ token: { A, H } }) => where(A.gt(0).mul(H.le(1)), A, H))[0]).toMatch(
    /^y = \{A if A>0.and.H≤1;H else; = \{−2 if −2>0.and.1.5≤1;1.5 else; = 1.5$/,
  );
  expect(linesOf(({ token: { A } }) => constant(0.0000123).mul(A))[0]).toBe(
    "y = 1.23·10^{−5}·A = 1.23·10^{−5}·(−2) = −2.46·10^{−5}",
  );
  expect(() => linesOf(({ token: { A } }) => A.tanh())).toThrow("mathml: no way to print tanh");
});

test("numbers have four digits, and symbols what is below the line", () => {
  const numbers = [0, -0.5, 0.20004, 12345.6, 1234567, 0.00001234, NaN, -Infinity];
  const expected = ["0", "−0.5", "0.2", "12350", "1.235·10^{6}", "1.234·10^{−5}", "NaN", "−∞"];
  expect(numbers.map((x) => read(numberMath(x)))).toEqual(expected);
  expect(mathText(symbolMath("log p_<old>"))).toBe(
    '<mrow><mi>log</mi><mspace width="0.17em"></mspace><msub><mi>p</mi><mtext>&lt;old&gt;</mtext></msub></mrow>',
  );
});

test("every loss and every term prints, each part once, with the value that was computed", () => {
  const formulas = [
    ...Object.keys(POLICY_LOSSES).map((name) => policyFormula(name, {})),
    policyFormula("dual_clip", { delta: 2 }),
    policyFormula("cispo", { cap: "absolute" }),
    policyFormula("prime_rl", { symmetric: true }),
    policyFormula("dpo", { average: true }),
    ...KL_ESTIMATORS.map((estimator) => klFormula({ estimator, importance: true, clamp: { logRatio: 20, value: 10 } })),
    ...TERM_NAMES.flatMap((name) => TERMS[name].formula({ worldClip: 0.2, valueClip: 0.2 }) ?? []),
  ];
  expect(formulas.length).toBeGreaterThan(30);
  for (const formula of formulas) {
    const levels = formula.over([token, { ...token, A: 1 }], [1, 1]).levels;
    const lines = formulaLines(formula, "ℓ", token, levels);
    const names = lines.map(({ left }) => read(left));
    expect(new Set(names).size).toBe(names.length);
    expect(lines[0]!.value).toBe(formula.at(token, levels).value);
    for (const { left, steps } of lines) {
      const text = [left, ...steps].map(read).join(" = ");
      expect(text).not.toMatch(/undefined|NaN|\$/);
      expect(steps.length).toBeGreaterThanOrEqual(2);
    }
    // Each part is used by name somewhere else.
    for (const { symbol } of formula.parts) {
      const used = lines.filter(
        ({ left, steps }) =>
          read(left) !== read(symbolMath(symbol)) && read(steps[0]!).includes(read(symbolMath(symbol))),
      );
      expect(used.length, symbol).toBeGreaterThan(0);
    }
  }
});
