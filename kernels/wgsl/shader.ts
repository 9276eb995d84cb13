/**
 * The common text of all WGSL kernels: declarations printed from data, grids, literals. There is no intermediate
 * language: a kernel is a template literal, laid out as WGSL, and this file prints the lines that every kernel has.
 *
 * A generator reads like this:
 *
 *     return shader({
 *       key: "double",
 *       bindings: { x: "read f32", y: "write f32" },          // the step's buffers, in order
 *       params: { count: u32(count) },                        // `params.count` in the text
 *       workgroups: gridFor(count, 64),
 *       body: () => `${linearMain(64, "params.count")}
 *       y[i] = 2.0 * x[i];
 *     }`,
 *     });
 */
import type { Access, AdapterProfile, Program, Uniform, WgslKernel } from "../kernel.ts";

/** WebGPU's default limits: workgroups along one axis of a grid, and storage buffers of one kernel. */
export const MAX_GROUPS = 65535;
export const MAX_BUFFERS = 8;

export type ElementType = "f32" | "i32" | "u32" | "vec2f" | "vec4f" | "vec4i" | "vec4u";
/** `"read vec4f"`: a storage array of that element. `write` and `readwrite` are both `read_write` in WGSL. */
export type BindingType = `${Access} ${ElementType}`;

export interface ShaderOptions {
  /** The identity of the code. Everything that changes the text must be in it: names, flags, tile sizes. */
  readonly key: string;
  /** WGSL extensions that the text needs: "f16", "subgroups". The adapter must have the feature. */
  readonly enable?: readonly string[];
  readonly bindings: Readonly<Record<string, BindingType>>;
  /** The values that may change from run to run; read in the text as `params.name`. */
  readonly params?: Readonly<Record<string, Uniform>>;
  readonly workgroups: readonly [number, number, number];
  /** The text after the declarations: helper functions and `main`. Made only when the key is not compiled yet. */
  readonly body: () => string;
}

/** The type of the generator of a family, which `wgsl/index.ts` exports. Most generators do not use the profile. */
export type Generator<Spec> = (spec: Spec, profile: AdapterProfile) => Program<WgslKernel>;

/** A kernel from its parts. Throws when it has more buffers than WebGPU guarantees. */
export function shader({ key, enable = [], bindings, params = {}, workgroups, body }: ShaderOptions): WgslKernel {
  const access = Object.values(bindings).map((type) => type.split(" ")[0] as Access);
  if (access.length > MAX_BUFFERS)
    throw new Error(`${key}: ${access.length} storage buffers, WebGPU guarantees ${MAX_BUFFERS}`);
  return {
    key,
    code: () => `${enable.map((name) => `enable ${name};\n`).join("")}${declare(bindings, params)}\n${body().trim()}\n`,
    bindings: access,
    uniforms: Object.values(params),
    workgroups,
  };
}

/** The `@group(0)` declarations: one line per buffer, then the `Params` struct and `params` when there are any. */
export function declare(
  bindings: Readonly<Record<string, BindingType>>,
  params: Readonly<Record<string, Uniform>> = {},
): string {
  const lines = Object.entries(bindings).map(([name, type], i) => {
    const [access, element] = type.split(" ") as [Access, ElementType];
    const mode = access === "read" ? "read" : "read_write";
    return `@group(0) @binding(${i}) var<storage, ${mode}> ${name}: array<${element}>;`;
  });
  const fields = Object.entries(params);
  if (fields.length > 0) {
    lines.push(`struct Params { ${fields.map(([name, { type }]) => `${name}: ${type}`).join(", ")} }`);
    lines.push(`@group(0) @binding(${lines.length - 1}) var<uniform> params: Params;`);
  }
  return lines.join("\n") + "\n";
}

/**
 * A grid of workgroups for `threads` threads in groups of `size`, in two axes if one is too short (see `linearMain`).
 */
export function gridFor(threads: number, size: number): [number, number, number] {
  const groups = Math.max(1, Math.ceil(threads / size));
  const y = Math.ceil(groups / MAX_GROUPS);
  if (y > MAX_GROUPS) throw new Error(`gridFor: ${threads} threads in groups of ${size} exceed a ${MAX_GROUPS}² grid`);
  return [y === 1 ? groups : MAX_GROUPS, y, 1];
}

/** The number of the workgroup in a grid made by `gridFor`, as WGSL: `y` is 0 unless `x` was full. */
export const LINEAR_GROUP: string = `(group.y * ${MAX_GROUPS}u + group.x)`;

/** Opens `main` with one thread per unit: `i` is the thread's number. Threads from `count` on have returned. */
export function linearMain(size: number, count: string): string {
  return `@compute @workgroup_size(${size})
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) lane: u32) {
  let i = ${LINEAR_GROUP} * ${size}u + lane;
  if (i >= ${count}) { return; }`;
}

/** Opens `main` with one workgroup per unit: `row` is the group's number, `lane` the thread in it. */
export function groupMain(size: number, count: string): string {
  return `@compute @workgroup_size(${size})
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) lane: u32) {
  let row = ${LINEAR_GROUP};
  if (row >= ${count}) { return; }`;
}

/** The f32 literal of the nearest f32. Throws for NaN and for infinities, for which WGSL has none (`from_bits`). */
export function f32Literal(value: number): string {
  const rounded = Math.fround(value);
  if (!Number.isFinite(rounded)) throw new Error(`f32Literal: ${value} has no WGSL literal`);
  if (Object.is(rounded, -0)) return "-0.0f";
  const text = String(rounded);
  return /[.e]/.test(text) ? `${text}f` : `${text}.0f`;
}

/** The texts `line(0)` … `line(n − 1)`, one per line: for unrolled register tiles. */
export function each(n: number, line: (i: number) => string, separator = "\n"): string {
  return Array.from({ length: n }, (_, i) => line(i)).join(separator);
}

/** Indents every line but the first, so that an insert of several lines keeps the layout of the template around it. */
export function indent(text: string, spaces: number): string {
  return text.replaceAll("\n", `\n${" ".repeat(spaces)}`);
}
