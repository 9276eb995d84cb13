/**
 * Softmax and log-softmax over the last axis, with an optional mask, and their backward. The maximum is subtracted
 * first, so that exp never overflows. It is taken over entries that are not excluded, so the content of an excluded one
 * does not matter.
 */
import { type AdapterProfile, type Program, type WgslKernel, single } from "../kernel.ts";
import type { SoftmaxBackwardSpec, SoftmaxSpec } from "../specs.ts";
import { type Bindings, rowKernel, vectorType } from "./rows.ts";

/** x [rows, cols], (mask [rows, cols]) → y [rows, cols]. */
export function softmax(spec: SoftmaxSpec, profile: AdapterProfile): Program<WgslKernel> {
  const { rows, cols, log, masked } = spec;
  const V = vectorType(cols);
  const mask: Bindings = masked ? { mask: `read ${V}` } : {};
  const allowed = (value: string, otherwise: string): string =>
    masked ? `select(V(${otherwise}), ${value}, !(mask[i] == V(0.0)))` : value;
  const kernel = rowKernel(profile, {
    key: `softmax/${log ? "log" : "exp"}${masked ? "/masked" : ""}`,
    rows,
    cols,
    bindings: { x: `read ${V}`, ...mask, y: `write ${V}` },
    functions: ["from_bits", "max_f32"],
    body: (reduce) => `
  var top = V(-infinity()); // a row of nothing but −∞ is NaN, as −∞ − −∞ is
  for (var i = begin + first; i < end; i += step) {
    top = max(top, ${allowed("x[i]", "-infinity()")});
  }
  let highestAllowed = ${reduce.max("highest(top)")};
  var sums = V(0.0);
  for (var i = begin + first; i < end; i += step) {
    let e = ${allowed("exp(x[i] - highestAllowed)", "0.0")};
    ${log ? "" : "y[i] = e;"}
    sums += e;
  }
  let sum = ${reduce.sum("total(sums)")};
  ${
    log
      ? `let logSum = log(max_f32(sum, 1e-30));
  for (var i = begin + first; i < end; i += step) {
    y[i] = ${allowed("x[i] - highestAllowed - logSum", "-1e30")};
  }`
      : `let divisor = select(sum, 1.0, sum == 0.0); // nothing left: all zeros
  for (var i = begin + first; i < end; i += step) {
    y[i] = ${allowed("y[i] / divisor", "0.0")};
  }`
  }`,
  });
  return single(kernel, masked ? 3 : 2);
}

/** y (the forward's result), g → dx; all [rows, cols]. Excluded entries have y = 0 (softmax) or y ≤ −1e29 (log); NaN
 * is none of them. */
export function softmaxBackward(spec: SoftmaxBackwardSpec, profile: AdapterProfile): Program<WgslKernel> {
  const { rows, cols, log } = spec;
  const V = vectorType(cols);
  const kernel = rowKernel(profile, {
    key: `softmaxBackward/${log ? "log" : "exp"}`,
    rows,
    cols,
    bindings: { y: `read ${V}`, g: `read ${V}`, dx: `write ${V}` },
    body: (reduce) => `
  var sums = V(0.0);
  for (var i = begin + first; i < end; i += step) {
    sums += ${log ? "select(g[i], V(0.0), y[i] <= V(-1e29))" : "select(g[i] * y[i], V(0.0), y[i] <= V(0.0))"};
  }
  let sum = ${reduce.sum("total(sums)")};
  for (var i = begin + first; i < end; i += step) {
    dx[i] = ${
      log
        ? "select(g[i] - exp(y[i]) * sum, V(0.0), y[i] <= V(-1e29))"
        : "select(y[i] * (g[i] - sum), V(0.0), y[i] <= V(0.0))"
    };
  }`,
  });
  return single(kernel, 3);
}
