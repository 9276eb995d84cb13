/**
 * Reductions over the middle axis of [outer, length, inner] after a pointwise prologue.
 *
 * There are three kernels. *Columns*: one thread per output walks its column. *Rows* (inner = 1, `gpu` schedule): one
 * workgroup per output; its threads stride along the row, then reduce in a tree in workgroup memory. *Blocks*: where
 * there are too few outputs to keep the device busy, columns are cut into blocks of fixed length, one thread each, and
 * the partial results are reduced again. A thread takes four neighbouring columns of a plain sum at once (the gradients
 * of biases) if `inner` is a multiple of 4.
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
import { type BindingType, each, gridFor, groupMain, indent, linearMain, shader, type Generator } from "./shader.ts";

const GROUP = 64;
/** The number of elements that one thread of the *blocks* kernel reduces. */
const BLOCK = 256;
/** The number of outputs from which on there is a thread for every execution unit of a large GPU. */
const BUSY = 4096;

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

/** One thread per output column, or per block of `params.block` elements of one; the last block may be shorter. */
function columnsKernel(spec: ReduceSpec, source: Source, blocks: number): WgslKernel {
  const { kind, outer, length } = spec;
  const partial = blocks > 1;
  const element = source === quadSource ? "vec4f" : "f32";
  const inner = element === "vec4f" ? spec.inner / 4 : spec.inner;
  const threads = outer * blocks * inner;
  const params: Record<string, Uniform> = {
    threads: u32(threads),
    length: u32(length),
    inner: u32(inner),
    blocks: u32(blocks),
    block: u32(partial ? BLOCK : length),
    scale: f32(spec.scale),
  };
  const firstIndex = source.indexOf("column + start * params.inner", "start");
  const loop =
    kind === "sum"
      ? `var best = ${element}(0.0f);
  for (var j = start; j < end; ) {
    var part = ${element}(0.0f);
    for (let stop = min(j + 64u, end); j < stop; j++) { part += element(column + j * params.inner); }
    best += part;
  }`
      : `${start(kind, "element(column + start * params.inner)")}
${isArg(kind) ? `  var bestIndex = ${firstIndex};\n` : ""}  for (var j = start + 1u; j < end; j++) {
    let at = column + j * params.inner;
    let value = element(at);
    ${take(kind, "value", source.indexOf("at", "j"))}
  }`;
  return shader({
    key: `reduce columns ${kind} ${source.key}${partial ? " partial" : ""}`,
    bindings: { ...source.bindings, ...outputs(kind, partial, element) },
    params,
    workgroups: gridFor(threads, GROUP),
    body: () => `${functionsOf(kind)}${source.code()}
${linearMain(GROUP, "params.threads")}
  let block = (i / params.inner) % params.blocks;
  let column = (i / (params.inner * params.blocks)) * params.length * params.inner + i % params.inner;
  let start = block * params.block;
  let end = min(start + params.block, params.length);
  ${loop}
  ${store(kind, partial, "i")}
}`,
  });
}

/** One workgroup per row. A thread without an element starts from the row's first one, or from 0 for a sum. */
function rowsKernel(spec: ReduceSpec, source: Source): WgslKernel {
  const { kind, outer, length } = spec;
  const arg = isArg(kind);
  // On a tie the lower index wins, whichever thread has it.
  const comparison = kind === "argmax" ? ">" : "<";
  const better = `value ${comparison} values[lane] || (value == values[lane] && index < indices[lane])`;
  const bestIndex = arg ? "  var bestIndex = i32(select(0u, lane, lane < params.length));\n" : "";
  const firstStep = kind === "sum" ? "lane" : `lane + ${GROUP}u`;
  const combine = arg
    ? `let value = values[lane + STRIDE];
    let index = indices[lane + STRIDE];
    if (${better}) { values[lane] = value; indices[lane] = index; }`
    : kind === "sum"
      ? `values[lane] += values[lane + STRIDE];`
      : `values[lane] = ${kind}_f32(values[lane], values[lane + STRIDE]);`;
  return shader({
    key: `reduce rows ${kind} ${source.key}`,
    bindings: { ...source.bindings, ...outputs(kind, false) },
    params: { rows: u32(outer), length: u32(length), scale: f32(spec.scale) },
    workgroups: gridFor(outer, 1),
    body: () => `${functionsOf(kind)}${source.code()}
var<workgroup> values: array<f32, ${GROUP}>;
${arg ? `var<workgroup> indices: array<i32, ${GROUP}>;\n` : ""}
${groupMain(GROUP, "params.rows")}
  let start = row * params.length;
  ${kind === "sum" ? "var best = 0.0f;" : start(kind, "element(start + select(0u, lane, lane < params.length))")}
${bestIndex}  for (var j = ${firstStep}; j < params.length; j += ${GROUP}u) {
    let value = element(start + j);
    ${take(kind, "value", "i32(j)")}
  }
  values[lane] = best;
${arg ? "  indices[lane] = bestIndex;\n" : ""}${each(6, (k) => {
      const stride = `${32 >> k}u`;
      return `  workgroupBarrier();
  if (lane < ${stride}) {
    ${combine.replaceAll("STRIDE", stride)}
  }`;
    })}
  if (lane == 0u) { y[row] = ${arg ? "indices[0]" : kind === "sum" ? "values[0] * params.scale" : "values[0]"}; }
}`,
  });
}

/** See `ReduceSpec`. */
export const reduce: Generator<ReduceSpec> = (spec, profile) => {
  const steps: Step<WgslKernel>[] = [];
  const temps: number[] = [];
  const result = spec.inputs;
  let from = Array.from({ length: spec.inputs }, (_, k) => k);
  const byFour = spec.kind === "sum" && spec.prologue.op === "input" && spec.inputs === 1 && spec.inner % 4 === 0;
  let source = byFour ? quadSource : prologueSource(spec.prologue, spec.inputs);
  let length = spec.length;
  for (let pass = 0; ; pass++) {
    const current = { ...spec, length };
    const busy = spec.outer * spec.inner >= BUSY;
    if (
      pass === 0 &&
      profile.schedule === "gpu" &&
      spec.inner === 1 &&
      length >= GROUP &&
      (busy || length <= 16 * BLOCK)
    ) {
      steps.push({ kernel: rowsKernel(current, source), buffers: [...from, result] });
      return { temps, steps };
    }
    const blocks = busy || length <= 2 * BLOCK ? 1 : Math.ceil(length / BLOCK);
    const kernel = columnsKernel(current, source, blocks);
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
