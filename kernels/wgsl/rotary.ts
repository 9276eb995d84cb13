/**
 * Rotary position embedding (Su et al. 2021) in the halves convention of Llama: the pair (x_j, x_{j+D/2}) is rotated by
 * the angle whose cosine and sine are in tables. The host makes the tables, because WGSL promises sin and cos to 2⁻¹¹
 * only.
 */
import { type AdapterProfile, type Program, type WgslKernel, single, u32 } from "../kernel.ts";
import type { RotarySpec } from "../specs.ts";
import { independentThreads } from "./rows.ts";
import { gridFor, linearMain, shader } from "./shader.ts";

/**
 * x [tokens, heads, D], positions i32 [tokens], cos, sin [tableRows, D/2] → y [tokens, heads, D]. One thread per pair.
 */
export function rotary(spec: RotarySpec, profile: AdapterProfile): Program<WgslKernel> {
  const { tokens, heads, headDim, tableRows, inverse } = spec;
  const threads = independentThreads(profile);
  const count = (tokens * heads * headDim) / 2;
  const kernel = shader({
    key: `rotary/${inverse ? "inverse" : "forward"}/${threads}`,
    bindings: { x: "read f32", positions: "read i32", cosines: "read f32", sines: "read f32", y: "write f32" },
    params: { count: u32(count), heads: u32(heads), half: u32(headDim / 2), tableRows: u32(tableRows) },
    workgroups: gridFor(count, threads),
    body: () => `${linearMain(threads, "params.count")}
  let j = i % params.half;
  let head = i / params.half; // of all tokens
  let position = u32(clamp(positions[head / params.heads], 0, i32(params.tableRows) - 1));
  let c = cosines[position * params.half + j];
  let s = ${inverse ? "-" : ""}sines[position * params.half + j];
  let at = head * 2u * params.half + j;
  let low = x[at];
  let high = x[at + params.half];
  y[at] = low * c - high * s;
  y[at + params.half] = high * c + low * s;
}`,
  });
  return single(kernel, 5);
}
