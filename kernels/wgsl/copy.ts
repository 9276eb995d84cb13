/** Strided copies and fills of 32-bit words of any type: one thread per word, or per four words that are contiguous. */
import { single, u32, type Uniform, type WgslKernel } from "../kernel.ts";
import { collapse } from "../pointwise.ts";
import type { CopySpec, FillSpec } from "../specs.ts";
import { gridFor, indent, linearMain, shader, type Generator } from "./shader.ts";

const GROUP = 64;

/** See `CopySpec`. Axes that both sides walk alike are merged first. */
export const copy: Generator<CopySpec> = (spec) => {
  const { dims, strides } = collapse(spec.dims, [spec.inStrides, spec.outStrides]);
  let [inStrides, outStrides] = strides as [number[], number[]];
  let [inOffset, outOffset] = [spec.inOffset, spec.outOffset];
  // By fours, where the last axis has stride 1 on both sides (or 0 on the side that is read) and all else is a multiple
  // of 4.
  const last = dims.length - 1;
  const isSplat = inStrides[last] === 0;
  const walks = outStrides[last] === 1 && (inStrides[last] === 1 || isSplat);
  const inside = isSplat ? [] : [inOffset, ...inStrides.slice(0, last)];
  const vector = walks && [dims[last]!, outOffset, ...outStrides.slice(0, last), ...inside].every((x) => x % 4 === 0);
  if (vector) {
    const quarter = (x: readonly number[]): number[] => x.map((v, d) => (d === last ? v : v / 4));
    dims[last]! /= 4;
    outStrides = quarter(outStrides);
    outOffset /= 4;
    if (!isSplat) [inStrides, inOffset] = [quarter(inStrides), inOffset / 4];
  }
  const count = dims.reduce((a, b) => a * b, 1);
  const params: Record<string, Uniform> = { count: u32(count), inOffset: u32(inOffset), outOffset: u32(outOffset) };
  dims.forEach((dim, d) => {
    params[`dim${d}`] = u32(dim);
    params[`in${d}`] = u32(inStrides[d]!);
    params[`out${d}`] = u32(outStrides[d]!);
  });
  const kernel = shader({
    key: `copy rank ${dims.length}${vector ? (isSplat ? " splat" : " by 4") : ""}`,
    bindings: { x: vector && !isSplat ? "read vec4u" : "read u32", y: vector ? "write vec4u" : "write u32" },
    params,
    workgroups: gridFor(count, GROUP),
    body: () => {
      const lines = ["var rest = i;", "var readAt = params.inOffset;", "var writeAt = params.outOffset;"];
      for (let d = dims.length - 1; d >= 0; d--) {
        const last = d === 0;
        lines.push(
          last ? `let c${d} = rest;` : `let c${d} = rest % params.dim${d};`,
          `readAt += c${d} * params.in${d};`,
          `writeAt += c${d} * params.out${d};`,
        );
        if (!last) lines.push(`rest /= params.dim${d};`);
      }
      return `${linearMain(GROUP, "params.count")}
  ${indent(lines.join("\n"), 2)}
  y[writeAt] = ${vector && isSplat ? "vec4u(x[readAt])" : "x[readAt]"};
}`;
    },
  });
  return single(kernel, 2);
};

/** See `FillSpec`. */
export const fill: Generator<FillSpec> = ({ count, bits }) => {
  return single(fillKernel(count, bits), 1);
};

/** The kernel alone, as a step of larger programs. */
export function fillKernel(count: number, bits: number): WgslKernel {
  const width = count % 4 === 0 ? 4 : 1;
  return shader({
    key: `fill by ${width}`,
    bindings: { y: width === 4 ? "write vec4u" : "write u32" },
    params: { count: u32(count / width), bits: u32(bits >>> 0) },
    workgroups: gridFor(count / width, GROUP),
    body: () => `${linearMain(GROUP, "params.count")}
  y[i] = ${width === 4 ? "vec4u(params.bits)" : "params.bits"};
}`,
  });
}
