/**
 * From ∂L/∂log p to the logits of a position. A softmax is no expression of one token, so its formula is written here.
 * With p = softmax(z/T), y the token that came and H the entropy of p,
 *
 *     ∂log p_y/∂z_v = (1[v = y] − p_v) / T,   ∂H/∂z_v = −p_v·(log p_v + H) / T
 */
import { expr } from "../../kernels/expr.ts";
import { type Filled, filled } from "./formula.ts";

/** p = softmax(z/T). */
export function probabilities(logits: ArrayLike<number>, temperature: number): Float64Array {
  const scaled = Float64Array.from(logits, (z) => z / temperature);
  const largest = scaled.reduce((a, b) => Math.max(a, b), -Infinity);
  const powers = scaled.map((z) => Math.exp(z - largest));
  const total = powers.reduce((a, b) => a + b, 0);
  return powers.map((x) => x / total);
}

/** The gradients that reach a position: g is ∂L/∂log p of the token that came, g_H is ∂L/∂H. */
export interface Sent {
  readonly ofLogProb: number;
  readonly ofEntropy: number;
}

/** ∂L/∂z of a token of the vocabulary. @param H of p */
export const logitGradient = (p: number, isOwn: boolean, temperature: number, H: number, sent: Sent): Filled =>
  filled((number) => {
    const [q, g] = [number("p_v", p), number("g", sent.ofLogProb)];
    const own = isOwn ? g.mul(expr(1).sub(q)) : g.mul(q).neg();
    const bonus = (): typeof q =>
      number("g_H", sent.ofEntropy)
        .mul(q)
        .mul(q.log().add(number("H", H)));
    const sum = sent.ofEntropy === 0 || p === 0 ? own : own.sub(bonus());
    return temperature === 1 ? sum : sum.div(number("T", temperature));
  });
