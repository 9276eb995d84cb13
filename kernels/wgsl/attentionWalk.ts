/**
 * The frame of the passes of attention: every owner (a query, or a key in the pass for dk and dv) walks the others that
 * it may see and adds to its sums. A pass is written once, as a `Walk`; an `AttentionSchedule` (attentionTable.ts) says
 * how its work is divided between threads (attentionPlan.ts):
 *
 * - thread: a thread per owner, which reads the others from storage.
 * - group: a workgroup takes neighbouring owners of one head and reads tiles of the others into workgroup memory
 *   (FlashAttention, Dao et al. 2022). In it
 *   - `splits` threads share an owner: each takes every so-manieth of the others, and their sums are added in a fixed
 *     order (Flash-Decoding, Dao et al. 2023), for few owners;
 *   - `lanes` threads share an owner: each keeps its part of the head in registers, and they add their parts of
 *     each product with quad operations, for long heads, whose arrays exceed the registers of one thread;
 *   - a thread has several owners (`rows`), or takes several others at a time (`chunk`), so that it reads workgroup
 *     memory less often, has more independent products, and rescales less often.
 *
 * There are no atomic additions, and every sum has a fixed order, which depends on the schedule. Workgroups with the
 * longest walks come first. There are no subgroup matrices.
 */
import { type AdapterProfile, type WgslKernel, f32, u32 } from "../kernel.ts";
import type { AttentionSpec } from "../specs.ts";
import { type Plan, planFor, sides, type Walk } from "./attentionPlan.ts";
import { mathFunctions } from "./math.ts";
import { vectorPrelude } from "./rows.ts";
import { each as lines, gridFor, LINEAR_GROUP, linearMain, shader } from "./shader.ts";

/**
 * WGSL functions that decide which query sees which key, with the same text in every pass. `sees` decides; the other
 * functions only bound the loops. No sum uses an unseen key or query, so padding may hold any bits.
 */
function visibility({ causal, mask, window }: AttentionSpec): string {
  const windowed = window > 0;
  return `
fn startOf(batch: u32) -> i32 { return ${mask === "start" ? "aux[batch]" : "0"}; }
fn sees(batch: u32, query: u32, key: u32) -> bool {
  ${causal ? "if (i32(key) > startOf(batch) + i32(query)) { return false; }" : ""}
  ${windowed ? "if (i32(key) + i32(params.window) <= startOf(batch) + i32(query)) { return false; }" : ""}
  ${
    mask === "segments"
      ? `let segment = aux[batch * params.keys + query];
  return segment >= 0 && aux[batch * params.keys + key] == segment;`
      : "return true;"
  }
}
fn keysBegin(batch: u32, query: u32) -> u32 {
  return ${windowed ? "u32(max(startOf(batch) + i32(query) + 1 - i32(params.window), 0))" : "0u"};
}
fn keysEnd(batch: u32, query: u32) -> u32 {
  return ${causal ? "u32(clamp(startOf(batch) + i32(query) + 1, 0, i32(params.keys)))" : "params.keys"};
}
fn queriesBegin(batch: u32, key: u32) -> u32 {
  return ${causal ? "u32(max(i32(key) - startOf(batch), 0))" : "0u"};
}
fn queriesEnd(batch: u32, key: u32) -> u32 {
  return ${
    windowed ? "u32(clamp(i32(key) + i32(params.window) - startOf(batch), 0, i32(params.queries)))" : "params.queries"
  };
}
`;
}

/** The kernel of a pass. */
export function walkKernel(spec: AttentionSpec, walk: Walk, profile: AdapterProfile): WgslKernel {
  const plan = planFor(spec, walk, profile);
  const { owners, ownHeads, alone, parts, ownParts, unrolled, threads, splits, lanes, rows, chunk, tile } = plan;
  const { headDim, causal, mask, window } = spec;
  const blocks = Math.ceil(owners / (rows * (threads / splits / lanes)));
  const count = spec.batch * ownHeads * (alone ? owners : blocks);
  const division = alone
    ? threads
    : `${threads}x${splits}x${lanes}/${rows}x${chunk}/${tile}${unrolled ? "" : "/loops"}`;
  return shader({
    key: `${walk.name}/${headDim}${causal ? "/causal" : ""}${window > 0 ? "/window" : ""}/${mask}/${division}`,
    enable: lanes > 1 ? ["subgroups"] : [],
    bindings: walk.bindings,
    params: {
      count: u32(count),
      queries: u32(spec.queries),
      keys: u32(spec.keys),
      heads: u32(spec.heads),
      kvHeads: u32(spec.kvHeads),
      parts: u32(ownParts),
      scale: f32(spec.scale),
      ...(window > 0 ? { window: u32(window) } : {}),
      ...(alone ? {} : { blocks: u32(blocks) }),
    },
    workgroups: gridFor(count, alone ? threads : 1),
    body: () => `${mathFunctions(["max_f32"])}${vectorPrelude(headDim)}
const PARTS = ${parts}u;
alias Head = array<V, ${ownParts}>;
${visibility(spec)}
${alone ? threadMain(plan) : groupMain(plan)}
}`,
  });
}

/**
 * A loop over the thread's parts of a head. Unrolled, so that `mine`, `sum` … are registers: software adapters would
 * read an indexed array lane by lane, 2–3× as slowly.
 */
function overParts({ unrolled, ownParts }: Plan, each: (part: string) => string): string {
  return unrolled
    ? lines(ownParts, (d) => each(`${d}u`), "\n    ")
    : `for (var d = 0u; d < params.parts; d++) { ${each("d")} }`;
}

/** Where part `d` of this thread is, from its first: neighbouring lanes have neighbouring parts. */
const partAt = ({ lanes }: Plan, d: string): string => (lanes === 1 ? d : `${d} * ${lanes}u`);

/** Registers of the thread's owners: vectors (`mine0_1` is the first of owner 1), sums, and what the softmax needs. */
function openOwners(plan: Plan): string {
  const { own, mine, sums, softmax, rows, lanes } = plan;
  const { owners, ownHeads } = sides[own];
  return lines(
    rows,
    (r) => `
  let rowOf${r} = (batch * params.${owners} + ${own}${r}) * params.${ownHeads} + ownHead;
  let at${r} = rowOf${r} * PARTS${lanes > 1 ? " + part" : ""};
  ${mine.map((_, n) => `var mine${n}_${r}: Head;`).join("\n  ")}
  ${sums.map((_, n) => `var sum${n}_${r}: Head;`).join("\n  ")}
  ${overParts(plan, (d) =>
    [
      ...mine.map((storage, n) => `mine${n}_${r}[${d}] = ${storage}[at${r} + ${partAt(plan, d)}];`),
      ...sums.map((_, n) => `sum${n}_${r}[${d}] = V(0.0);`),
    ].join(" "),
  )}
  ${
    softmax === "online"
      ? `var m${r} = -1e30;\n  var l${r} = 0.0;`
      : own === "query"
        ? `let stats${r} = stats[rowOf${r}];`
        : ""
  }`,
    "",
  );
}

/** `text` for every head of the others that belongs to the owners' head: ⌊head·Hkv/H⌋ is a query head's. */
function overHeads({ own }: Plan, text: string): string {
  return own === "query"
    ? `
  let otherHead = ownHead * params.kvHeads / params.heads;${text}`
    : `
  let headsEnd = ((ownHead + 1u) * params.heads + params.kvHeads - 1u) / params.kvHeads;
  let firstHead = (ownHead * params.heads + params.kvHeads - 1u) / params.kvHeads;
  for (var otherHead = firstHead; otherHead < headsEnd; otherHead++) {${text}
  }`;
}

/**
 * One turn of the walk: the thread's owners and a chunk of others, of which `other0` is the first. `seen(r, c)` is
 * whether they see each other, as WGSL; if undefined, they do.
 */
function turn(plan: Plan, seen?: (r: number, c: number) => string): string {
  const { own, mine, others, sums, softmax, alone, splits, lanes, rows, chunk } = plan;
  const { other, others: count, otherHeads } = sides[own];
  const vector = (n: number, c: number, d: string): string =>
    alone ? `${others[n]}[from0 + ${d}]` : `tile${n}[row${c}][${lanes > 1 ? "part" : "0u"}][${d}]`;
  const withStats = softmax === "recomputed" && own === "key";
  const places = alone
    ? `let row0 = (batch * params.${count} + ${other}0) * params.${otherHeads} + otherHead;
    let from0 = row0 * PARTS;`
    : lines(
        chunk,
        (c) => `${c === 0 ? "" : `let ${other}${c} = ${other}0 + ${c * splits}u;`}
    let row${c} = ${other}${c} - tile;`,
      );
  const statsOf = (c: number): string =>
    withStats ? `let statsOf${c} = ${alone ? "stats" : "tileStats"}[row${c}];` : "";
  const every = (text: (r: number, c: number) => string): string =>
    lines(rows, (r) => lines(chunk, (c) => text(r, c), "\n    "), "\n    ");
  const inner = (n: number, r: number, c: number): string => {
    const product = `total(products${n}_${r}_${c})`;
    return lanes > 1 ? `together(${product})` : product;
  };
  // Lanes of one owner add their products, so all threads compute all of them, seen or not.
  const products = `
    ${every((r, c) => mine.map((_, n) => `var products${n}_${r}_${c} = V(0.0);`).join(" "))}
    ${overParts(plan, (d) =>
      every((r, c) =>
        mine.map((_, n) => `products${n}_${r}_${c} += mine${n}_${r}[${d}] * ${vector(n, c, d)};`).join(" "),
      ),
    )}
    ${every((r, c) =>
      mine
        .map(
          (_, n) =>
            `let ${n === 0 ? "score" : "gradient"}${r}_${c} = ${n === 0 ? "params.scale * " : ""}${inner(n, r, c)};`,
        )
        .join(" "),
    )}`;
  const when = (r: number, c: number, text: string): string =>
    seen === undefined ? text : `if (seen${r}_${c}) {${text}\n    }`;
  const add = (r: number, c: number): string => `
      ${overParts(plan, (d) =>
        sums.map(({ weight, of }, n) => `sum${n}_${r}[${d}] += ${weight} * ${vector(of, c, d)};`).join(" "),
      )}`;
  const raise = (r: number): string => {
    const tops = Array.from({ length: chunk }, (_, c) =>
      seen === undefined ? `score${r}_${c}` : `select(m${r}, score${r}_${c}, seen${r}_${c})`,
    );
    return `
    let top${r} = ${tops.reduce((a, b) => `max(${a}, ${b})`)};
    if (top${r} > m${r}) {
      let shrink = exp(m${r} - top${r});
      l${r} *= shrink;
      ${overParts(plan, (d) => sums.map((_, n) => `sum${n}_${r}[${d}] *= shrink;`).join(" "))}
      m${r} = top${r};
    }`;
  };
  const weights = (r: number, c: number): string => {
    if (softmax === "online") {
      return `
      let weight = exp(score${r}_${c} - m${r});
      l${r} += weight;`;
    }
    const stats = own === "query" ? `stats${r}` : `statsOf${c}`;
    return `
      let weight = exp(score${r}_${c} - ${stats}.x);
      let ds = params.scale * weight * (gradient${r}_${c} - ${stats}.y);`;
  };
  return `${places}
    ${lines(chunk, statsOf)}
    ${seen === undefined ? "" : every((r, c) => `let seen${r}_${c} = ${seen(r, c)};`)}${products}
    ${lines(
      rows,
      (r) =>
        `${softmax === "online" ? raise(r) : ""}
    ${lines(chunk, (c) => when(r, c, `${weights(r, c)}${add(r, c)}`), "\n    ")}`,
    )}`;
}

/** WGSL for whether owner `r` and other `c` of a turn see each other. */
const seesText = (own: "query" | "key", r: number, c: number): string =>
  own === "query" ? `sees(batch, query${r}, key${c})` : `sees(batch, query${c}, key${r})`;

/** The results of owner `r`, from registers. */
function store(plan: Plan, r: number): string {
  return `
    ${overParts(plan, (d) =>
      plan.sums
        .map(({ output }, n) => `${output}[at${r} + ${partAt(plan, d)}] = ${result(plan, r, `sum${n}_${r}[${d}]`)};`)
        .join(" "),
    )}`;
}

const result = ({ softmax }: Plan, r: number, sum: string): string =>
  softmax === "online" ? `${sum} / divisor${r}` : sum;

/** An owner that sees nothing has l = 0: zeros, and −1e30. */
const divisor = ({ softmax }: Plan, r: number): string =>
  softmax === "online" ? `\n  let divisor${r} = select(l${r}, 1.0, l${r} == 0.0);` : "";
const storeLse = ({ softmax }: Plan, r: number): string =>
  softmax === "online" ? `lse[rowOf${r}] = select(m${r} + log(max_f32(l${r}, 1.0)), -1e30, l${r} == 0.0);` : "";

/** A thread per owner. Neighbouring threads have neighbouring owners: they read the same other at the same time. */
function threadMain(plan: Plan): string {
  const { own, threads } = plan;
  const { other, owners, ownHeads, others } = sides[own];
  return `${linearMain(threads, "params.count")}
  let ${own}0 = i % params.${owners};
  let ownHead = i / params.${owners} % params.${ownHeads};
  let batch = i / params.${owners} / params.${ownHeads};${openOwners(plan)}
  let last = ${others}End(batch, ${own}0);${overHeads(
    plan,
    `
  for (var ${other}0 = ${others}Begin(batch, ${own}0); ${other}0 < last; ${other}0++) {
    if (!${seesText(own, 0, 0)}) { continue; }
    ${turn(plan)}
  }`,
  )}${divisor(plan, 0)}${store(plan, 0)}
  ${storeLse(plan, 0)}`;
}

/**
 * A workgroup of neighbouring owners of one head. Thread (slot·splits + split)·lanes + part has owners slot, slot +
 * slots …; every bound of a loop with a barrier in it is the workgroup's.
 */
function groupMain(plan: Plan): string {
  const { own, ownParts, softmax, threads, splits, lanes, rows, tile } = plan;
  const { owners, ownHeads, others } = sides[own];
  const slots = threads / splits / lanes;
  const withStats = softmax === "recomputed" && own === "key";
  // Causal: late queries see the most keys, early keys are seen by the most queries.
  const block = own === "query" ? "params.blocks - 1u - group1 / heads" : "group1 / heads";
  return `// A part more than a thread's, so that neighbours differ in their banks. The last index is a constant in
// unrolled loops, so that a driver checks the others once.
alias Row = array<array<V, ${ownParts + 1}>, ${lanes}>;
var<workgroup> tile0: array<Row, ${tile}>;
var<workgroup> tile1: array<Row, ${tile}>;
${withStats ? `var<workgroup> tileStats: array<vec2f, ${tile}>;\n` : ""}${splits > 1 ? exchangeMemory(plan) : ""}${
    lanes > 1
      ? `fn together(mine: f32) -> f32 {
  let two = mine + quadSwapX(mine);
  return two + quadSwapY(two);
}
`
      : ""
  }@compute @workgroup_size(${threads})
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) lane: u32) {
  let group1 = ${LINEAR_GROUP};
  if (group1 >= params.count) { return; }
  let heads = params.count / params.blocks;
  let block = ${block};
  let batch = group1 % heads / params.${ownHeads};
  let ownHead = group1 % params.${ownHeads};
  ${lanes > 1 ? `let part = lane % ${lanes}u;` : ""}
  ${splits > 1 ? `let split = lane / ${lanes}u % ${splits}u;` : ""}
  let firstOwner = block * ${slots * rows}u;
  let lastOwner = min(firstOwner + ${slots * rows}u, params.${owners}) - 1u;
  ${lines(
    rows,
    (r) => `let place${r} = firstOwner + ${r * slots}u + lane / ${splits * lanes}u;
  let ${own}${r} = min(place${r}, lastOwner);`,
    "\n  ",
  )}${openOwners(plan)}
  let begin = ${others}Begin(batch, firstOwner);
  let end = ${others}End(batch, lastOwner);${overHeads(plan, tileLoop(plan))}${
    splits > 1 ? finishShared(plan) : finishAlone(plan)
  }`;
}

/** Reads tile after tile into workgroup memory, and walks each. */
function tileLoop(plan: Plan): string {
  const { own, others, softmax, threads, splits, lanes, rows, chunk, tile } = plan;
  const { other, others: count, otherHeads } = sides[own];
  const rowOf = (place: string): string =>
    `(batch * params.${count} + tile + ${place}) * params.${otherHeads} + otherHead`;
  const withStats = softmax === "recomputed" && own === "key";
  const laneAndPart = lanes > 1 ? `d % ${lanes}u][d / ${lanes}u` : "0u][d";
  // With several lanes all threads make the same turns, since they meet in each.
  const walk =
    lanes === 1 && rows === 1
      ? shareLoop(plan)
      : `
    for (var turn = tile; turn < tileEnd; turn += ${splits * chunk}u) {
    let ${other}0 = turn${splits > 1 ? " + split" : ""};
    ${turn(plan, (r, c) => `place${r} <= lastOwner && ${other}${c} < tileEnd && ${seesText(own, r, c)}`)}
    }`;
  return `
  for (var tile = begin; tile < end; tile += ${tile}u) {
    let tileEnd = min(tile + ${tile}u, end);
    workgroupBarrier();
    for (var x = lane; x < (tileEnd - tile) * PARTS; x += ${threads}u) {
      let d = x % PARTS;
      let source = (${rowOf("x / PARTS")}) * PARTS + d;
      tile0[x / PARTS][${laneAndPart}] = ${others[0]}[source];
      tile1[x / PARTS][${laneAndPart}] = ${others[1]}[source];
    }
    ${
      withStats
        ? `for (var x = lane; x < tileEnd - tile; x += ${threads}u) { tileStats[x] = stats[${rowOf("x")}]; }`
        : ""
    }
    workgroupBarrier();${walk}
  }`;
}

/** The thread's share of the tile, within the bounds of its own owner. */
function shareLoop(plan: Plan): string {
  const { own, splits, chunk } = plan;
  const { other, others } = sides[own];
  const first = `max(tile, ${others}Begin(batch, ${own}0))${splits > 1 ? " + split" : ""}`;
  const body =
    chunk === 1
      ? `if (!${seesText(own, 0, 0)}) { continue; }
    ${turn(plan)}`
      : turn(plan, (r, c) => `${other}${c} < last && ${seesText(own, r, c)}`);
  return `
    let last = select(min(tileEnd, ${others}End(batch, ${own}0)), 0u, place0 > lastOwner);
    for (var ${other}0 = ${first}; ${other}0 < last; ${other}0 += ${splits * chunk}u) {
    ${body}
    }`;
}

function finishAlone(plan: Plan): string {
  const { lanes, rows } = plan;
  return lines(
    rows,
    (r) => `${divisor(plan, r)}
  if (place${r} <= lastOwner) {${store(plan, r)}
    ${lanes > 1 ? `if (part == 0u) { ${storeLse(plan, r)} }` : storeLse(plan, r)}
  }`,
    "",
  );
}

function exchangeMemory({ softmax, threads, rows, exchanged }: Plan): string {
  const maxima = `var<workgroup> tops: array<f32, ${rows * threads}>;
var<workgroup> totals: array<f32, ${rows * threads}>;
`;
  return `${softmax === "online" ? maxima : ""}var<workgroup> exchange: array<V, ${exchanged * threads}>;
`;
}

/**
 * Adds the sums of an owner's splits, in their order. Online, all splits first come to the common maximum and total. A
 * few parts at a time lie in workgroup memory.
 */
function finishShared(plan: Plan): string {
  const { sums, softmax, threads, splits, lanes, rows, ownParts, unrolled, exchanged } = plan;
  const mates = (text: string): string =>
    `for (var s = mate; s < mate + ${splits * lanes}u; s += ${lanes}u) { ${text} }`;
  const common = `${lines(
    rows,
    (r) => `
  tops[${r * threads}u + lane] = m${r};
  totals[${r * threads}u + lane] = l${r};`,
    "",
  )}
  workgroupBarrier();${lines(
    rows,
    (r) => `
  let m${r}Before = m${r};
  ${mates(`m${r} = max(m${r}, tops[${r * threads}u + s]);`)}
  l${r} = 0.0;
  ${mates(`l${r} += totals[${r * threads}u + s] * exp(tops[${r * threads}u + s] - m${r});`)}
  let shrink${r} = exp(m${r}Before - m${r});
  ${overParts(plan, (d) => `sum0_${r}[${d}] *= shrink${r};`)}${divisor(plan, r)}
  if (split == 0u && ${lanes > 1 ? "part == 0u && " : ""}place${r} <= lastOwner) { ${storeLse(plan, r)} }`,
    "",
  )}`;
  const exchange = (r: number, n: number, first: string, put: string): string => `
  workgroupBarrier();
  ${put}
  workgroupBarrier();
  for (var x = split; x < min(${exchanged}u, params.parts - ${first}); x += ${splits}u) {
    var y = V(0.0);
    ${mates(`y += exchange[x * ${threads}u + s];`)}
    if (place${r} <= lastOwner) {
      ${sums[n]!.output}[at${r} + ${partAt(plan, `(${first} + x)`)}] = ${result(plan, r, "y")};
    }
  }`;
  const put = (r: number, n: number, first: number, x: number): string =>
    `exchange[${x * threads}u + lane] = sum${n}_${r}[${first + x}u];`;
  const all = (r: number, n: number): string =>
    unrolled
      ? lines(
          Math.ceil(ownParts / exchanged),
          (i) => {
            const first = i * exchanged;
            return exchange(
              r,
              n,
              `${first}u`,
              lines(Math.min(exchanged, ownParts - first), (x) => put(r, n, first, x), "\n  "),
            );
          },
          "",
        )
      : `
  for (var first = 0u; first < params.parts; first += ${exchanged}u) {${exchange(
    r,
    n,
    "first",
    `for (var x = 0u; x < min(${exchanged}u, params.parts - first); x++) {
    exchange[x * ${threads}u + lane] = sum${n}_${r}[first + x];
  }`,
  )}
  }`;
  return `
  let mate = lane - split * ${lanes}u;${softmax === "online" ? common : ""}${lines(
    rows,
    (r) => sums.map((_, n) => all(r, n)).join(""),
    "",
  )}`;
}
