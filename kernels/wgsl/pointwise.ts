/**
 * Pointwise kernels: a scalar expression over a broadcast index space. One thread computes one element, or four
 * neighbours if the array is large (one 16-byte load and store per buffer, which is 2–4 times as fast, also in
 * software).
 */
import { f32, single, u32, type Uniform } from "../kernel.ts";
import type { PointwiseSpec } from "../specs.ts";
import { emitExpression } from "./expression.ts";
import { type BindingType, each, type Generator, gridFor, indent, linearMain, shader } from "./shader.ts";

const GROUP = 64;
/** The number of elements below which four at a time gain nothing and cost a second compilation of the formula. */
const LARGE = 16384;

/** Whether the last axis can be walked by fours: each input has stride 1 there, aligned with others, or stride 0. */
function walksByFours({ inputs, dims }: PointwiseSpec): boolean {
  const last = dims.length - 1;
  if (dims[last]! % 4 !== 0 || dims.reduce((a, b) => a * b, 1) < LARGE) return false;
  return inputs.every(
    (input) =>
      input.kind === "scalar" ||
      input.strides[last] === 0 ||
      (input.strides[last] === 1 && input.strides.every((stride, d) => d === last || stride % 4 === 0)),
  );
}

/** See `PointwiseSpec`. Computes coordinates only for axes along which some input is not contiguous with the output. */
export const pointwise: Generator<PointwiseSpec> = (spec) => {
  const { name, outputs, inputs, inPlace } = spec;
  const width = walksByFours(spec) ? 4 : 1;
  const last = spec.dims.length - 1;
  const dims = spec.dims.map((dim, d) => (d === last ? dim / width : dim)); // in units of what a thread computes
  const count = dims.reduce((a, b) => a * b, 1);
  const contiguous = dims.map((_, d) => dims.slice(d + 1).reduce((a, b) => a * b, 1));

  const bindings: Record<string, BindingType> = {};
  const params: Record<string, Uniform> = { count: u32(count) };
  const loads: string[] = [];
  /** Whether each input is one number for all elements of a thread. */
  const isSingle: boolean[] = [];
  /** Axes whose coordinate is needed. */
  const used = new Set<number>();
  let walks = "";
  inputs.forEach((input, k) => {
    if (input.kind === "scalar") {
      params[`s${k}`] = f32(input.value);
      loads.push(`let x${k} = params.s${k};`);
      walks += "s";
      isSingle.push(true);
      return;
    }
    const vector = width === 4 && input.strides[last] === 1;
    const strides = input.strides.map((stride, d) => (vector && d !== last ? stride / 4 : stride));
    const access = inPlace.includes(Object.keys(bindings).length) ? "readwrite" : "read";
    bindings[`in${k}`] = `${access} ${vector ? "vec4f" : "f32"}`;
    isSingle.push(!vector);
    if (strides.every((stride, d) => stride === contiguous[d] || dims[d] === 1)) {
      loads.push(`let x${k} = in${k}[i];`);
      walks += vector ? "v" : "i";
      return;
    }
    const terms: string[] = [];
    strides.forEach((stride, d) => {
      if (stride === 0) return;
      params[`stride${k}_${d}`] = u32(stride);
      used.add(d);
      terms.push(`c${d} * params.stride${k}_${d}`);
    });
    loads.push(`let x${k} = in${k}[${terms.join(" + ") || "0"}];`);
    walks += `${vector ? "v" : ""}[${strides.map((stride) => (stride === 0 ? 0 : 1)).join("")}]`;
  });

  const decode: string[] = [];
  let rest = "i";
  for (let d = last; d >= 0 && used.size > 0; d--) {
    const wanted = used.delete(d);
    if (d > 0) params[`dim${d}`] = u32(dims[d]!);
    if (wanted) decode.push(`let c${d} = ${d === 0 ? rest : `${rest} % params.dim${d}`};`);
    if (used.size > 0) decode.push(`let r${d} = ${rest} / params.dim${d};`);
    rest = `r${d}`;
  }

  const tensors = Object.keys(bindings);
  const targets = outputs.map((_, k) => {
    if (inPlace[k]! >= 0) return `${tensors[inPlace[k]!]!}[i]`;
    bindings[`out${k}`] = width === 4 ? "write vec4f" : "write f32";
    return `out${k}[i]`;
  });

  const ids = outputs.map(({ id }) => id).join();
  const kernel = shader({
    key: `pointwise ${name}#${ids} ${walks} rank ${dims.length} in place ${inPlace.join()} by ${width}`,
    bindings,
    params,
    workgroups: gridFor(count, GROUP),
    body: () => {
      const { result, code } = formula(spec);
      const components = width === 4 ? [".x", ".y", ".z", ".w"] : [""];
      const calls = components.map((component, c) => {
        const values = inputs.map((_, k) => (isSingle[k]! ? `x${k}` : `x${k}${component}`));
        return `let y${c} = formula(${values.join(", ")});`;
      });
      const stores = targets.map((target, k) => {
        const values = components.map((_, c) => `y${c}${result(k)}`);
        return `${target} = ${width === 4 ? `vec4f(${values.join(", ")})` : values[0]!};`;
      });
      return `${code}
${linearMain(GROUP, "params.count")}
  ${indent([...decode, ...loads, ...calls, ...stores].join("\n"), 2)}
}`;
    },
  });
  return single(kernel, Object.keys(bindings).length);
};

/** The expression as a WGSL function `formula`; `result(k)` selects output k from its result. */
function formula({ outputs, inputs }: PointwiseSpec): { code: string; result: (k: number) => string } {
  const names = inputs.map((_, k) => `x${k}`);
  const { functions, statements, results } = emitExpression(outputs, names);
  const several = outputs.length > 1;
  const type = several ? "Outputs" : "f32";
  const struct = several ? `struct Outputs { ${each(outputs.length, (k) => `y${k}: f32`, ", ")} }\n` : "";
  const value = several ? `Outputs(${results.join(", ")})` : results[0]!;
  const lines = statements === "" ? `return ${value};` : `${statements}\nreturn ${value};`;
  const code = `${functions}${struct}
fn formula(${names.map((x) => `${x}: f32`).join(", ")}) -> ${type} {
  ${indent(lines, 2)}
}
`;
  return { code, result: (k) => (several ? `.y${k}` : "") };
}
