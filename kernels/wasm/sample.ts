/**
 * Draws a token from each row of logits by inverting the distribution function at one counter-based random number
 * (Threefry: Salmon et al., SC 2011), so a row's token depends on its own key and counter only.
 *
 * The first pass finds the largest logit, the second sums exponentials at the row's temperature and at 1, and the third
 * stops at the drawn token. The second and the third add in the same order: blocks of 64 columns, then their totals.
 * The host does top-k, top-p and min-p, which need sorted logits.
 */
import { type Program, single, type WasmKernel } from "../kernel.ts";
import type { SampleSpec } from "../specs.ts";
import {
  F32,
  F32x4,
  type FunctionBuilder,
  I32,
  i32s,
  I32x4,
  kernelModule,
  load,
  select,
  type Var,
} from "./assembler.ts";
import { forColumns, maxLanes, sumLanes } from "./lanes.ts";
import { exp, log } from "./math.ts";
import { loadPart } from "./partial.ts";
import { threefry, unit } from "./random.ts";

/** The number of columns whose exponentials are summed before the sum joins the total. */
const BLOCK = 64;

/** See `SampleSpec`. Buffers: logits, invTemperature, keys, counters → id, logProb, plainLogProb. */
export function sample({ rows, vocab }: SampleSpec): Program<WasmKernel> {
  return single({ key: "sample", module: sampleModule, scalars: [vocab], units: rows, costPerUnit: 60 * vocab }, 7);
}

/** The weights e^((x − top) · scale) of the columns of a row. */
interface Weights {
  readonly logits: Var<I32>;
  readonly vocab: Var<I32>;
  readonly top: Var<F32x4>;
  readonly scale: Var<F32x4>;
}

function sampleModule(): Uint8Array<ArrayBuffer> {
  const params = {
    ...i32s("logits", "invTemperature", "keys", "counters", "id", "logProb", "plainLogProb"),
    ...i32s("vocab", "begin", "end"),
  };
  return kernelModule(params, (f, p) => {
    f.for(p.begin, p.end, 1, (row) => {
      const logits = f.let(p.logits.at(row.mul(p.vocab)));
      const scale = f.let(load.splat(p.invTemperature.at(row)));
      const top = f.let(F32x4.of(-Infinity));
      const zero = f.let(F32x4.of(0)); // NaN as soon as some logit is not finite
      forColumns(f, p.vocab, (columns) => {
        const x = f.let(columns.load(logits));
        f.set(top, top.pmax(x));
        f.set(zero, zero.add(x.mul(0)));
      });
      const id = f.let(I32.of(-1));
      f.if(
        zero.ne(zero).any(),
        () => {
          f.block((found) => {
            f.for(0, p.vocab, 1, (i) => {
              const x = f.let(load.f32(logits.at(i)));
              f.set(id, I32.of(-1).sub(i));
              f.store(p.logProb.at(row), x);
              f.store(p.plainLogProb.at(row), x);
              f.breakIf(found, x.sub(x).ne(0));
            });
          });
        },
        () => {
          f.set(top, maxLanes(f, top));
          const plain = f.let(F32x4.of(1));
          const plainTotal = f.let(total(f, { logits, vocab: p.vocab, top, scale: plain }));
          const plainLog = log(f, plainTotal.splat());
          const greedy = scale.eq(0).any();
          f.if(
            greedy,
            () => f.set(id, firstOf(f, logits, p.vocab, top.lane(0))),
            () => {
              const weights: Weights = { logits, vocab: p.vocab, top, scale };
              const ownTotal = f.let(plainTotal.add(0));
              f.if(scale.ne(1).any(), () => f.set(ownTotal, total(f, weights)));
              f.set(id, draw(f, weights, uniform(f, p.keys.at(row.shl(1)), p.counters.at(row)).mul(ownTotal)));
              f.set(plain, log(f, ownTotal.splat()));
            },
          );
          const centred = f.let(load.splat(logits.at(id)).sub(top));
          f.storeLane(p.plainLogProb.at(row), centred.sub(plainLog), 0);
          // For a greedy row `plain` is still 1; for the others it is the logarithm of the row's own total.
          const atOwn = scale.eq(0).bitselect<F32x4>(centred.sub(plainLog), centred.mul(scale).sub(plain));
          f.storeLane(p.logProb.at(row), atOwn, 0);
        },
      );
      f.store(p.id.at(row), id);
    });
  });
}

/** The weights of columns i … i + 3; 0 for those from `end` on. */
function weightsAt(f: FunctionBuilder, { logits, top, scale }: Weights, i: I32, end: I32): Var<F32x4> {
  const left = f.let(end.sub(i));
  const x = f.variable("f32x4");
  f.if(
    left.ge(4),
    () => f.set(x, load.f32x4(logits.at(i))),
    () => f.set(x, loadPart(f, logits.at(i), left)),
  );
  const e = exp(f, x.sub(top).mul(scale));
  f.set(e, e.and(I32x4.lanes(0, 1, 2, 3).lt(left.splat())));
  return e;
}

/** The sum of the weights of columns begin … begin + 63. */
function blockTotal(f: FunctionBuilder, weights: Weights, begin: Var<I32>): F32 {
  const sum = f.let(F32x4.of(0));
  const end = f.let(begin.add(BLOCK).min(weights.vocab));
  f.for(begin, end, 4, (i) => f.set(sum, sum.add(weightsAt(f, weights, i, end))));
  return sumLanes(f, sum).lane(0);
}

function total(f: FunctionBuilder, weights: Weights): Var<F32> {
  const sum = f.let(F32.of(0));
  f.for(0, weights.vocab, BLOCK, (begin) => f.set(sum, sum.add(blockTotal(f, weights, begin))));
  return sum;
}

/** The first column at which the sum of the weights so far exceeds `target`, which is less than their total. */
function draw(f: FunctionBuilder, weights: Weights, target: F32): Var<I32> {
  const goal = f.let(target);
  const before = f.let(F32.of(0));
  const id = f.let(I32.of(0));
  f.block((done) => {
    f.for(0, weights.vocab, BLOCK, (begin) => {
      const after = f.let(before.add(blockTotal(f, weights, begin)));
      f.if(after.gt(goal), () => {
        const end = f.let(begin.add(BLOCK).min(weights.vocab));
        f.for(begin, end, 4, (i) => {
          const e = weightsAt(f, weights, i, end);
          for (let lane = 0; lane < 4; lane++) {
            const weight = f.let(e.lane(lane));
            f.set(before, before.add(weight));
            // Another order of addition may make the block's sum a little smaller: its last possible token is drawn
            // then.
            f.set(id, select(weight.gt(0), i.add(lane), id));
            f.breakIf(done, before.gt(goal));
          }
        });
        f.break(done);
      });
      f.set(before, after);
    });
  });
  return id;
}

/** The first column whose logit is `x`. */
function firstOf(f: FunctionBuilder, logits: Var<I32>, vocab: I32, x: F32): Var<I32> {
  const value = f.let(x);
  const id = f.let(I32.of(0));
  f.block((found) => {
    f.for(0, vocab, 1, (i) => {
      f.set(id, i);
      f.breakIf(found, load.f32(logits.at(i)).eq(value));
    });
  });
  return id;
}

/** The random number of a row, in [0, 1). */
function uniform(f: FunctionBuilder, key: I32, counter: I32): F32 {
  const [key0, key1] = [f.let(load.i32(key)), f.let(load.i32(key, 4))];
  const keys = [key0, key1, key0.xor(key1).xor(0x1bd11bda)].map((k) => f.let(k.splat()));
  const [word] = threefry(f, keys, load.i32(counter).splat());
  return unit(word).lane(0);
}
