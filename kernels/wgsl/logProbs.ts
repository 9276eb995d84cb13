/**
 * Log-probability of one target per row and the row's entropy, at a temperature per row, and their backward.
 *
 * With m = max z and c = z − m: s = Σ e^c, u = Σ e^c·c, log p = c_target − log s, entropy = log s − u/s. Centring u
 * keeps the entropy exact where logits are far from 0; lse − Σ p·z would subtract two large numbers. c is limited to
 * −100 from below, where e^c is no longer a normal f32, so that a logit of −1e30 gives 0 and not 0·∞.
 */
import { type AdapterProfile, type Program, type WgslKernel, single } from "../kernel.ts";
import type { LogProbsBackwardSpec, LogProbsSpec } from "../specs.ts";
import { rowKernel, vectorType, vectorWidth } from "./rows.ts";

/** logits [rows, vocab], targets i32 [rows], invTemperature [rows] → logp, entropy, lse [rows]. */
export function logProbs(spec: LogProbsSpec, profile: AdapterProfile): Program<WgslKernel> {
  const { rows, vocab } = spec;
  const V = vectorType(vocab);
  const kernel = rowKernel(profile, {
    key: "logProbs",
    rows,
    cols: vocab,
    bindings: {
      logits: `read ${V}`,
      targets: "read i32",
      invTemperature: "read f32",
      logp: "write f32",
      entropy: "write f32",
      lse: "write f32",
    },
    functions: ["from_bits"],
    body: (reduce) => `
  let scale = invTemperature[row];
  var top = V(-infinity());
  for (var i = begin + first; i < end; i += step) {
    top = max(top, scale * logits[i]);
  }
  let m = ${reduce.max("highest(top)")};
  var sums = V(0.0);
  var weighted = V(0.0);
  for (var i = begin + first; i < end; i += step) {
    let x = scale * logits[i] - m;
    let c = at_least(x, -100.0);
    let e = exp(c);
    sums += e;
    weighted += e * c;
  }
  let s = ${reduce.sum("total(sums)")};
  let u = ${reduce.sum("total(weighted)")};
  if (first == 0u) {
    let t = u32(targets[row]);
    let z = scale * ${vectorWidth(vocab) === 4 ? "logits[begin + t / 4u][t % 4u]" : "logits[begin + t]"};
    logp[row] = select(0.0, z - m - log(s), t < ${vectorWidth(vocab) === 4 ? "4u * (end - begin)" : "end - begin"});
    entropy[row] = log(s) - u / s;
    lse[row] = m + log(s);
  }`,
  });
  return single(kernel, 6);
}

/** logits, targets, invTemperature, entropy, lse, gLogp [rows], gEntropy [rows] → dlogits [rows, vocab]. */
export function logProbsBackward(spec: LogProbsBackwardSpec, profile: AdapterProfile): Program<WgslKernel> {
  const { rows, vocab } = spec;
  const V = vectorType(vocab);
  const kernel = rowKernel(profile, {
    key: "logProbsBackward",
    rows,
    cols: vocab,
    bindings: {
      logits: `read ${V}`,
      targets: "read i32",
      invTemperature: "read f32",
      entropy: "read f32",
      lse: "read f32",
      gLogp: "read f32",
      gEntropy: "read f32",
      dlogits: `write ${V}`,
    },
    body: () => `
  let scale = invTemperature[row];
  if (gLogp[row] == 0.0 && gEntropy[row] == 0.0) {
    for (var i = begin + first; i < end; i += step) {
      dlogits[i] = V(0.0); // a row without gradient may hold anything
    }
    return;
  }
  // Read once: a shader may not assume that dlogits is other memory than these.
  let lseHere = lse[row];
  let entropyHere = entropy[row];
  let slope = gLogp[row];
  let entropySlope = gEntropy[row];
  let targetColumn = Columns(u32(targets[row]));
  for (var i = begin + first; i < end; i += step) {
    let x = scale * logits[i] - lseHere;
    let logP = at_least(x, -100.0);
    let prob = select(exp(logP), V(0.0), logP <= V(-100.0));
    let hit = select(V(0.0), V(1.0), columns(i - begin) == targetColumn);
    dlogits[i] = scale * (slope * (hit - prob) - entropySlope * prob * (logP + entropyHere));
  }`,
  });
  return single(kernel, 8);
}
