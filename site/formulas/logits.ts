/**
 * From ∂L/∂log p to the logits of a position. With p = softmax(z/T), y the token that came and H the entropy of p,
 *
 *     ∂log p_y/∂z_v = (1[v = y] − p_v) / T,   ∂H/∂z_v = −p_v·(log p_v + H) / T
 *
 * (the derivative of softmax; of its entropy by the product rule).
 */
import { expr } from "../../kernels/expr.ts";
import { Formula } from "./language.ts";

/** p = softmax(z/T). */
export function probabilities(logits: ArrayLike<number>, temperature: number): Float64Array {
  const scaled = Float64Array.from(logits, (z) => z / temperature);
  const largest = scaled.reduce((a, b) => Math.max(a, b), -Infinity);
  const powers = scaled.map((z) => Math.exp(z - largest));
  const total = powers.reduce((a, b) => a + b, 0);
  return powers.map((x) => x / total);
}

/**
 * ∂L/∂z_v for every v.
 * @param own the token that came
 * @param ofLogProb ∂L/∂log p of it
 * @param ofEntropy ∂L/∂H
 */
export function logitGradients(
  p: Float64Array,
  own: number,
  temperature: number,
  ofLogProb: number,
  ofEntropy: number,
): Float64Array {
  const H = p.reduce((sum, q) => (q > 0 ? sum - q * Math.log(q) : sum), 0);
  return p.map((q, v) => {
    const ofH = q > 0 ? -q * (Math.log(q) + H) : 0;
    return (ofLogProb * (Number(v === own) - q) + ofEntropy * ofH) / temperature;
  });
}

/** What `logitGradients` computes for one token of the vocabulary, as a formula: g is ∂L/∂log p, g_H is ∂L/∂H. */
export function logitFormula(
  { isOwn, p }: { readonly isOwn: boolean; readonly p: number },
  temperature: number,
  ofLogProb: number,
  ofEntropy: number,
  H: number,
): Formula {
  return new Formula((f) => {
    const q = f.option("p_v", p);
    const g = f.option("g", ofLogProb);
    const own = isOwn ? g.mul(expr(1).sub(q)) : g.mul(q).neg();
    const bonus = (): typeof q =>
      f
        .option("g_H", ofEntropy)
        .mul(q)
        .mul(q.log().add(f.option("H", H)));
    const sum = ofEntropy === 0 ? own : own.sub(bonus());
    return temperature === 1 ? sum : sum.div(f.option("T", temperature));
  });
}
