/**
 * Draws a token from each row of logits by inverting the distribution function at one counter-based random number
 * (Threefry: Salmon et al., SC 2011). A row's token depends on its own key and counter only, and no logits go to the
 * host.
 *
 * On a GPU the 64 threads of a workgroup have neighbouring parts of the row. Each sums its own part, all of them sum
 * the parts in order, and the thread in whose part the random number falls walks that part. On a software adapter one
 * thread takes the whole row. Sums are by blocks of 64 columns, so that rounding does not grow with the vocabulary. The
 * host does top-k, top-p and min-p, which need sorted logits.
 */
import { type AdapterProfile, type Program, type WgslKernel, single, u32 } from "../kernel.ts";
import type { SampleSpec } from "../specs.ts";
import { threefryRounds } from "./random.ts";
import { independentThreads } from "./rows.ts";
import { gridFor, groupMain, linearMain, shader } from "./shader.ts";

const LANES = 64;

/** See `SampleSpec`. Buffers: logits, invTemperature, keys, counters → id, logProb, plainLogProb. */
export function sample({ rows, vocab }: SampleSpec, profile: AdapterProfile): Program<WgslKernel> {
  const shared = profile.schedule === "gpu";
  const threads = independentThreads(profile);
  const kernel = shader({
    key: `sample/${shared ? "workgroup" : `threads${threads}`}`,
    bindings: {
      logits: "read f32",
      invTemperature: "read f32",
      keys: "read i32",
      counters: "read i32",
      id: "write i32",
      logProb: "write f32",
      plainLogProb: "write f32",
    },
    params: { rows: u32(rows), vocab: u32(vocab), part: u32(shared ? Math.ceil(vocab / LANES) : vocab) },
    workgroups: gridFor(rows, shared ? 1 : threads),
    body: () => `${sampleFunctions}${shared ? sharedMain() : singleMain(threads)}`,
  });
  return single(kernel, 7);
}

const weight = "exp(max((logits[at + column] - top) * scale, -100.0))";

/** WGSL functions of both kernels. `at` is the offset of the row; columns are counted from there. */
const sampleFunctions = `
fn is_finite(x: f32) -> bool { return (bitcast<u32>(x) & 0x7f800000u) != 0x7f800000u; }
fn weight(at: u32, column: u32, top: f32, scale: f32) -> f32 { return ${weight}; }
fn block_sum(at: u32, begin: u32, end: u32, top: f32, scale: f32) -> f32 {
  var sum = 0.0;
  for (var i = begin; i < end; i++) { sum += weight(at, i, top, scale); }
  return sum;
}
fn part_sum(at: u32, begin: u32, end: u32, top: f32, scale: f32) -> f32 {
  var sum = 0.0;
  for (var i = begin; i < end; i += 64u) { sum += block_sum(at, i, min(i + 64u, end), top, scale); }
  return sum;
}
// the first column from begin on at which the weights, added to those before, exceed goal
fn walk(at: u32, begin: u32, end: u32, before: f32, goal: f32, top: f32, scale: f32) -> u32 {
  var reached = before;
  for (var i = begin; i < end; i += 64u) {
    let last = min(i + 64u, end);
    let after = reached + block_sum(at, i, last, top, scale);
    if (after > goal || last == end) {
      for (var column = i; column + 1u < last; column++) {
        reached += weight(at, column, top, scale);
        if (reached > goal) { return column; }
      }
      return last - 1u;
    }
    reached = after;
  }
  return begin;
}
fn rotate_left(x: u32, bits: u32) -> u32 { return (x << bits) | (x >> (32u - bits)); }
fn uniform_of(row: u32) -> f32 {
  let key0 = bitcast<u32>(keys[2u * row]);
  let key1 = bitcast<u32>(keys[2u * row + 1u]);
  let keys = array<u32, 3>(key0, key1, 0x1bd11bdau ^ key0 ^ key1);
  var x = vec2u(bitcast<u32>(counters[row]) + keys[0], keys[1]);
${threefryRounds()}
  return f32(x.x >> 8u) * 5.9604644775390625e-8f;
}
fn finish(row: u32, at: u32, column: u32, top: f32, scale: f32, own: f32, plain: f32) {
  id[row] = i32(column);
  let centred = logits[at + column] - top;
  plainLogProb[row] = centred - log(plain);
  logProb[row] = select(centred * scale - log(own), centred - log(plain), scale == 0.0);
}
fn refuse(row: u32, at: u32, column: u32) {
  id[row] = -1 - i32(column);
  logProb[row] = logits[at + column];
  plainLogProb[row] = logits[at + column];
}
`;

const singleMain = (threads: number): string => `
${linearMain(threads, "params.rows")}
  let at = i * params.vocab;
  var best = 0u;
  for (var column = 0u; column < params.vocab; column++) {
    if (!is_finite(logits[at + column])) { refuse(i, at, column); return; }
    if (logits[at + column] > logits[at + best]) { best = column; }
  }
  let scale = invTemperature[i];
  let top = logits[at + best];
  let plain = part_sum(at, 0u, params.vocab, top, 1.0);
  if (scale == 0.0) { finish(i, at, best, top, scale, plain, plain); return; }
  var own = plain;
  if (scale != 1.0) { own = part_sum(at, 0u, params.vocab, top, scale); }
  let column = walk(at, 0u, params.vocab, 0.0, uniform_of(i) * own, top, scale);
  finish(i, at, column, top, scale, own, plain);
}`;

/** Every thread computes the same totals from workgroup memory, so that all take the same branches. */
const sharedMain = (): string => `
var<workgroup> bests: array<u32, ${LANES}>;
var<workgroup> wrongs: array<u32, ${LANES}>;
var<workgroup> plains: array<f32, ${LANES}>;
var<workgroup> owns: array<f32, ${LANES}>;
${groupMain(LANES, "params.rows")}
  let at = row * params.vocab;
  let begin = min(lane * params.part, params.vocab);
  let end = min(begin + params.part, params.vocab);
  var mine = min(begin, params.vocab - 1u);
  var wrong = params.vocab;
  for (var column = begin; column < end; column++) {
    if (!is_finite(logits[at + column])) { wrong = column; break; }
    if (logits[at + column] > logits[at + mine]) { mine = column; }
  }
  bests[lane] = mine;
  wrongs[lane] = wrong;
  workgroupBarrier();
  var best = bests[0];
  for (var other = 0u; other < ${LANES}u; other++) {
    wrong = min(wrong, wrongs[other]);
    if (logits[at + bests[other]] > logits[at + best]) { best = bests[other]; }
  }
  let scale = invTemperature[row];
  let top = logits[at + best];
  plains[lane] = part_sum(at, begin, end, top, 1.0);
  owns[lane] = part_sum(at, begin, end, top, scale);
  workgroupBarrier();
  if (wrong < params.vocab) {
    if (lane == 0u) { refuse(row, at, wrong); }
    return;
  }
  var plain = 0.0;
  var own = 0.0;
  for (var other = 0u; other < ${LANES}u; other++) {
    plain += plains[other];
    own += owns[other];
  }
  if (scale == 0.0) {
    if (lane == 0u) { finish(row, at, best, top, scale, plain, plain); }
    return;
  }
  let goal = uniform_of(row) * own;
  var before = 0.0;
  var chosen = 0u;
  for (; chosen < ${LANES - 1}u; chosen++) {
    if (before + owns[chosen] > goal) { break; }
    before += owns[chosen];
  }
  if (lane == chosen) { finish(row, at, walk(at, begin, end, before, goal, top, scale), top, scale, own, plain); }
}`;
