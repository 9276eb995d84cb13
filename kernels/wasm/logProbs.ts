/**
 * Log-probability of one target per row, and the row's entropy, at the row's temperature; and their gradient with
 * respect to the logits. With z = logits·invTemperature, m = max z, s = Σ e^(z−m) and u = Σ e^(z−m)·(z−m):
 *
 *     logp = (z[target] − m) − log s      entropy = log s − u/s      lse = m + log s
 *
 * Everything is centred on m first: subtracting Σ p·z from lse instead loses digits as the logits' common offset grows.
 * Tokens excluded with −1e30 or −∞ have no probability, no entropy and no gradient.
 */
import { type Program, single, type WasmKernel } from "../kernel.ts";
import type { LogProbsBackwardSpec, LogProbsSpec } from "../specs.ts";
import { F32x4, i32s, kernelModule, load as loads } from "./assembler.ts";
import { forColumnGroups, forColumns, maxOfColumns, spread, sumLanes } from "./lanes.ts";
import { expWeight, log } from "./math.ts";

/** The exponent at and below which e^z is 0 in f32; raising z to it keeps z·0 from being −∞·0. NaN stays. */
const NO_WEIGHT = -200;

/**
 * See `LogProbsSpec`. Buffers: logits, targets, invTemperature → logp, entropy, lse. A target outside the row gives
 * logp 0.
 */
export function logProbs({ rows, vocab }: LogProbsSpec): Program<WasmKernel> {
  return single({ key: "logProbs", module: logProbsModule, scalars: [vocab], units: rows, costPerUnit: 50 * vocab }, 6);
}

function logProbsModule(): Uint8Array<ArrayBuffer> {
  const params = i32s("logits", "targets", "invTemperature", "logp", "entropy", "lse", "vocab", "begin", "end");
  return kernelModule(params, (f, p) => {
    f.for(p.begin, p.end, 1, (row) => {
      const logits = f.let(p.logits.at(row.mul(p.vocab)));
      const invTemperature = f.let(loads.splat(p.invTemperature.at(row)));
      const top = maxOfColumns(f, p.vocab, ({ load }) => load(logits).mul(invTemperature));

      const [s, u] = [f.let(F32x4.of(0)), f.let(F32x4.of(0))];
      forColumns(f, p.vocab, ({ load, only }) => {
        const centred = f.let(load(logits).mul(invTemperature).sub(top).pmax(NO_WEIGHT));
        const e = expWeight(f, centred);
        f.set(s, s.add(only(e)));
        f.set(u, u.add(only(e.mul(centred))));
      });
      f.set(s, spread(f, sumLanes(f, s)));
      f.set(u, spread(f, sumLanes(f, u)));
      const logS = log(f, s);
      f.storeLane(p.entropy.at(row), logS.sub(u.div(s)), 0);
      f.storeLane(p.lse.at(row), top.add(logS), 0);
      const target = f.let(loads.i32(p.targets.at(row)));
      f.if(
        target.ltU(p.vocab),
        () => f.storeLane(p.logp.at(row), loads.splat(logits.at(target)).mul(invTemperature).sub(top).sub(logS), 0),
        () => f.storeLane(p.logp.at(row), F32x4.of(0), 0),
      );
    });
  });
}

/**
 * See `LogProbsBackwardSpec`. Buffers: logits, targets, invTemperature, entropy, lse, gLogp, gEntropy → dlogits. A row
 * whose two gradients are 0 (a token that is not trained on) is not computed: it gets zeros, whatever its logits hold.
 */
export function logProbsBackward({ rows, vocab }: LogProbsBackwardSpec): Program<WasmKernel> {
  return single(
    { key: "logProbsBackward", module: backwardModule, scalars: [vocab], units: rows, costPerUnit: 40 * vocab },
    8,
  );
}

function backwardModule(): Uint8Array<ArrayBuffer> {
  const params = {
    ...i32s("logits", "targets", "invTemperature", "entropy", "lse", "gLogp", "gEntropy", "d"),
    ...i32s("vocab", "begin", "end"),
  };
  return kernelModule(params, (f, p) => {
    f.for(p.begin, p.end, 1, (row) => {
      const offset = f.let(row.mul(p.vocab));
      const [logits, d] = [f.let(p.logits.at(offset)), f.let(p.d.at(offset))];
      const [gLogp, gEntropy] = [f.let(loads.splat(p.gLogp.at(row))), f.let(loads.splat(p.gEntropy.at(row)))];
      f.if(
        gLogp.ne(0).or(gEntropy.ne(0)).any(),
        () => {
          const invTemperature = f.let(loads.splat(p.invTemperature.at(row)));
          const [lse, entropy] = [f.let(loads.splat(p.lse.at(row))), f.let(loads.splat(p.entropy.at(row)))];
          // dz = gLogp·1_target − p·(gLogp + gEntropy·(log p + entropy))
          forColumnGroups(f, p.vocab, (group) => {
            const values = group.map(({ load }) => {
              const logP = f.let(load(logits).mul(invTemperature).sub(lse).pmax(NO_WEIGHT));
              const weight = gLogp.add(gEntropy.mul(logP.add(entropy)));
              return f.let(expWeight(f, logP).mul(weight).neg().mul(invTemperature));
            });
            group.forEach(({ store }, i) => store(d, values[i]!));
          });
          const target = f.let(loads.i32(p.targets.at(row)));
          f.if(target.ltU(p.vocab), () => {
            const at = f.let(d.at(target));
            f.storeLane(at, loads.splat(at).add(gLogp.mul(invTemperature)), 0);
          });
        },
        () => f.fillBytes(d, 0, p.vocab.shl(2)),
      );
    });
  });
}
