/**
 * Reductions over the middle axis of [outer, length, inner] after a pointwise prologue.
 *
 * There are two kernels. *Columns*: one thread per output walks its column. *Groups* (`gpu` schedule): a workgroup
 * takes up to 16 neighbouring columns, each with as many threads as are left; these stride along their column, then
 * reduce in a tree in workgroup memory. Where there are too few outputs to keep the device busy, columns are cut into
 * blocks of fixed length, and the partial results are reduced again. For a plain sum (the gradients of biases) a thread
 * takes four neighbouring columns at once if `inner` is a multiple of 4.
 *
 * Shapes and the schedule decide which kernel runs, and so the order of summation. Sums of long columns are sums of
 * sums of 64, which keeps the rounding error of 10⁶ terms near that of 10³.
 *
 * NaN: sums, max and min give NaN; argmax and argmin ignore it, where the adapter has NaN at all.
 */
import { type Expr, input } from "../expr.ts";
import { f32, type Step, u32, type Uniform, type WgslKernel } from "../kernel.ts";
import type { ReduceSpec } from "../specs.ts";
import { emitExpression } from "./expression.ts";
import { mathFunctions } from "./math.ts";
import { powerOfTwo } from "./rows.ts";
import { type BindingType, each, gridFor, groupMain, indent, linearMain, shader, type Generator } from "./shader.ts";

const GROUP = 64;
/** `software`: the length of a block, and the number of outputs from which on columns are not cut. */
const BLOCK = 256;
const BUSY = 4096;
/**
 * `gpu`: the number of neighbouring columns of a workgroup, of elements that a thread takes of a block, and of elements
 * up to which columns are not cut, as a second kernel costs more. H200, 2026-11-27: [4096 × 768] with a thread per 256
 * elements took 102 µs, and [256 × 128] with a thread per column 55 µs.
 */
const ACROSS = 16;
const OF_BLOCK = 16;
const UNCUT = 64;
/** `gpu`: the number of workgroups that keep a large device busy, and of columns from which on a thread takes each. */
const BUSY_GROUPS = 1024;
const BUSY_COLUMNS = 65536;

type Kind = ReduceSpec["kind"];
const isArg = (kind: Kind): boolean => kind === "argmax" || kind === "argmin";

/** The functions that `take` and `start` call. */
const functionsOf = (kind: Kind): string =>
  kind === "sum" ? "" : mathFunctions(isArg(kind) ? ["is_nan", "from_bits"] : [`${kind}_f32`]);

/** WGSL that opens the accumulator with an element; for a position, NaN counts as worse than anything. */
function start(kind: Kind, element: string): string {
  if (!isArg(kind)) return `var best = ${element};`;
  return `var best = ${element};
  if (is_nan(best)) { best = ${kind === "argmax" ? "-infinity()" : "infinity()"}; }`;
}

/** WGSL that takes `value`, the element number `index`, into the accumulators `best`, or `best` and `bestIndex`. */
function take(kind: Kind, value: string, index: string): string {
  if (kind === "sum") return `best += ${value};`;
  if (!isArg(kind)) return `best = ${kind}_f32(best, ${value});`;
  return `if (${value} ${kind === "argmax" ? ">" : "<"} best) { best = ${value}; bestIndex = ${index}; }`;
}

/** The input of one pass: the elements of a column. */
interface Source {
  readonly key: string;
  readonly bindings: Readonly<Record<string, BindingType>>;
  /** Module-scope definition of `fn element(at: u32)`, which returns f32, or vec4f where the bindings are vec4f. */
  readonly code: () => string;
  /** The index that argmax reports for the element at flat position `at`, number `j` of its column. */
  readonly indexOf: (at: string, j: string) => string;
}

function prologueSource(prologue: Expr, inputs: number): Source {
  const names = Array.from({ length: inputs }, (_, k) => `x${k}`);
  return {
    key: `${inputs}#${prologue.id}`,
    bindings: Object.fromEntries(names.map((name) => [name, "read f32"])),
    code: () => {
      const { functions, statements, results } = emitExpression(
        [prologue],
        names.map((name) => `${name}[at]`),
      );
      return `${functions}
fn element(at: u32) -> f32 {
  ${indent(`${statements}${statements === "" ? "" : "\n"}return ${results[0]!};`, 2)}
}
`;
    },
    indexOf: (_, j) => `i32(${j})`,
  };
}

/** The elements of the input, in four columns at a time. */
const quadSource: Source = {
  key: "four columns",
  bindings: { x0: "read vec4f" },
  code: () => "fn element(at: u32) -> vec4f { return x0[at]; }\n",
  indexOf: () => "",
};

/** Partial results; for argmax and argmin with the indices that they belong to. */
function partialSource(kind: Kind): Source {
  const plain = prologueSource(input(0), 1);
  if (!isArg(kind)) return plain;
  return {
    ...plain,
    key: "partials with indices",
    bindings: { ...plain.bindings, indices: "read i32" },
    indexOf: (at) => `indices[${at}]`,
  };
}

const outputs = (kind: Kind, partial: boolean, element: "f32" | "vec4f" = "f32"): Record<string, BindingType> => {
  if (!isArg(kind)) return { y: `write ${element}` };
  return partial ? { y: "write f32", yIndices: "write i32" } : { y: "write i32" };
};

/** Statements that store the accumulators. Only the last pass divides a mean. */
function store(kind: Kind, partial: boolean, at: string): string {
  if (isArg(kind)) return partial ? `y[${at}] = best;\n  yIndices[${at}] = bestIndex;` : `y[${at}] = bestIndex;`;
  return kind === "sum" && !partial ? `y[${at}] = best * params.scale;` : `y[${at}] = best;`;
}

/** The columns of one pass, in units of the source's elements, and how they are cut. */
interface Pass extends ReduceSpec {
  /** The number of blocks of a column, of `block` elements each; the last may be shorter. */
  readonly blocks: number;
  readonly block: number;
}

const elementOf = (source: Source): "f32" | "vec4f" => (source === quadSource ? "vec4f" : "f32");

/**
 * Statements that take the elements from `first` to `end`, `step` apart, into new accumulators. A thread without any
 * starts from the element `start`, or from 0 for a sum.
 */
function walk(kind: Kind, source: Source, step: number): string {
  const next = step === 1 ? "j++" : `j += ${step}u`;
  if (kind === "sum") {
    const element = elementOf(source);
    return `var best = ${element}(0.0f);
  for (var j = first; j < end; ) {
    var part = ${element}(0.0f);
    for (let stop = min(j + ${64 * step}u, end); j < stop; ${next}) { part += element(column + j * params.inner); }
    best += part;
  }`;
  }
  const opening = step === 1 ? "first" : "opening";
  const index = source.indexOf(`column + ${opening} * params.inner`, opening);
  const opened = step === 1 ? "" : "let opening = select(start, first, first < end);\n  ";
  return `${opened}${start(kind, `element(column + ${opening} * params.inner)`)}
${isArg(kind) ? `  var bestIndex = ${index};\n` : ""}  for (var j = first + ${step}u; j < end; ${next}) {
    let at = column + j * params.inner;
    let value = element(at);
    ${take(kind, "value", source.indexOf("at", "j"))}
  }`;
}

/** One thread per output column, or per block of one. */
function columnsKernel(pass: Pass, source: Source): WgslKernel {
  const { kind, outer, length, inner, blocks, block, scale } = pass;
  const partial = blocks > 1;
  const threads = outer * blocks * inner;
  const params: Record<string, Uniform> = {
    threads: u32(threads),
    length: u32(length),
    inner: u32(inner),
    blocks: u32(blocks),
    block: u32(block),
    scale: f32(scale),
  };
  return shader({
    key: `reduce columns ${kind} ${source.key}${partial ? " partial" : ""}`,
    bindings: { ...source.bindings, ...outputs(kind, partial, elementOf(source)) },
    params,
    workgroups: gridFor(threads, GROUP),
    body: () => `${functionsOf(kind)}${source.code()}
${linearMain(GROUP, "params.threads")}
  let block = (i / params.inner) % params.blocks;
  let column = (i / (params.inner * params.blocks)) * params.length * params.inner + i % params.inner;
  let first = block * params.block;
  let end = min(first + params.block, params.length);
  ${walk(kind, source, 1)}
  ${store(kind, partial, "i")}
}`,
  });
}

/** One workgroup per `across` neighbouring columns, or per block of these; `down` threads for each. */
function groupsKernel(pass: Pass, source: Source, across: number, down: number): WgslKernel {
  const { kind, outer, length, inner, blocks, block, scale } = pass;
  const partial = blocks > 1;
  const arg = isArg(kind);
  const element = elementOf(source);
  const threads = across * down;
  const perBlock = Math.ceil(inner / across);
  const groups = outer * blocks * perBlock;
  // On a tie the lower index wins, whichever thread has it.
  const comparison = kind === "argmax" ? ">" : "<";
  const better = `value ${comparison} values[lane] || (value == values[lane] && index < positions[lane])`;
  const combine = arg
    ? `let value = values[lane + STRIDE];
    let index = positions[lane + STRIDE];
    if (${better}) { values[lane] = value; positions[lane] = index; }`
    : kind === "sum"
      ? `values[lane] += values[lane + STRIDE];`
      : `values[lane] = ${kind}_f32(values[lane], values[lane + STRIDE]);`;
  const stored = store(kind, partial, "blockNumber * params.inner + inBlock");
  return shader({
    key: `reduce groups ${kind} ${source.key} ${across}x${down}${partial ? " partial" : ""}`,
    bindings: { ...source.bindings, ...outputs(kind, partial, element) },
    params: {
      groups: u32(groups),
      perBlock: u32(perBlock),
      length: u32(length),
      inner: u32(inner),
      blocks: u32(blocks),
      block: u32(block),
      scale: f32(scale),
    },
    workgroups: gridFor(groups, 1),
    // Behind the last column, threads repeat it, as all must come to the barriers.
    body: () => `${functionsOf(kind)}${source.code()}
var<workgroup> values: array<${element}, ${threads}>;
${arg ? `var<workgroup> positions: array<i32, ${threads}>;\n` : ""}
${groupMain(threads, "params.groups")}
  let blockNumber = row / params.perBlock;
  let inBlock = row % params.perBlock * ${across}u + lane % ${across}u;
  let column = blockNumber / params.blocks * params.length * params.inner + min(inBlock, params.inner - 1u);
  let start = blockNumber % params.blocks * params.block;
  let first = start + lane / ${across}u;
  let end = min(start + params.block, params.length);
  ${walk(kind, source, down)}
  values[lane] = best;
${arg ? "  positions[lane] = bestIndex;\n" : ""}${each(Math.log2(down), (k) => {
      const stride = `${threads >> (k + 1)}u`;
      return `  workgroupBarrier();
  if (lane < ${stride}) {
    ${combine.replaceAll("STRIDE", stride)}
  }`;
    })}
  if (lane < ${across}u && inBlock < params.inner) {
    best = values[lane];
${arg ? "    bestIndex = positions[lane];\n" : ""}    ${indent(stored, 2)}
  }
}`,
  });
}

/** The kernel of a pass over the columns of `spec` on a GPU, and the number of partial results of each. */
function gpuPass(spec: ReduceSpec, source: Source): { kernel: WgslKernel; blocks: number } {
  const { outer, length, inner } = spec;
  if (length < 2 * OF_BLOCK || (inner >= ACROSS && outer * inner >= BUSY_COLUMNS)) {
    return { kernel: columnsKernel({ ...spec, blocks: 1, block: length }, source), blocks: 1 };
  }
  const across = Math.min(ACROSS, powerOfTwo(inner));
  const down = (across * length < 4 * 256 ? GROUP : 256) / across;
  const cut = length > UNCUT * down && outer * Math.ceil(inner / across) < BUSY_GROUPS;
  const block = cut ? OF_BLOCK * down : length;
  const blocks = Math.ceil(length / block);
  return { kernel: groupsKernel({ ...spec, blocks, block }, source, across, down), blocks };
}

/** The same for a software adapter. */
function softwarePass(spec: ReduceSpec, source: Source, busy: boolean): { kernel: WgslKernel; blocks: number } {
  const { length } = spec;
  const block = busy || length <= 2 * BLOCK ? length : BLOCK;
  const blocks = Math.ceil(length / block);
  return { kernel: columnsKernel({ ...spec, blocks, block }, source), blocks };
}

/** See `ReduceSpec`. */
export const reduce: Generator<ReduceSpec> = (spec, profile) => {
  const steps: Step<WgslKernel>[] = [];
  const temps: number[] = [];
  const result = spec.inputs;
  let from = Array.from({ length: spec.inputs }, (_, k) => k);
  const byFour = spec.kind === "sum" && spec.prologue.op === "input" && spec.inputs === 1 && spec.inner % 4 === 0;
  let source = byFour ? quadSource : prologueSource(spec.prologue, spec.inputs);
  const inner = byFour ? spec.inner / 4 : spec.inner;
  const busy = spec.outer * spec.inner >= BUSY;
  let length = spec.length;
  for (;;) {
    const current = { ...spec, inner, length };
    const { kernel, blocks } =
      profile.schedule === "gpu" ? gpuPass(current, source) : softwarePass(current, source, busy);
    if (blocks === 1) {
      steps.push({ kernel, buffers: [...from, result] });
      return { temps, steps };
    }
    const partials = (isArg(spec.kind) ? [0, 1] : [0]).map((k) => result + 1 + temps.length + k);
    for (const _ of partials) temps.push(4 * spec.outer * blocks * spec.inner);
    steps.push({ kernel, buffers: [...from, ...partials] });
    from = partials;
    if (!byFour) source = partialSource(spec.kind);
    length = blocks;
  }
};
