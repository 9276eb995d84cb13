/** Strided copies and fills: 32-bit words of any type, one thread per word. */
import { single, u32, type Uniform, type WgslKernel } from "../kernel.ts";
import { collapse } from "../pointwise.ts";
import type { CopySpec, FillSpec } from "../specs.ts";
import { gridFor, indent, linearMain, shader, type Generator } from "./shader.ts";

const GROUP = 64;

/** See `CopySpec`. Axes that both sides walk alike are merged first. */
export const copy: Generator<CopySpec> = (spec) => {
  const { dims, strides } = collapse(spec.dims, [spec.inStrides, spec.outStrides]);
  const [inStrides, outStrides] = strides as [number[], number[]];
  const count = dims.reduce((a, b) => a * b, 1);
  const params: Record<string, Uniform> = {
    count: u32(count),
    inOffset: u32(spec.inOffset),
    outOffset: u32(spec.outOffset),
  };
  dims.forEach((dim, d) => {
    params[`dim${d}`] = u32(dim);
    params[`in${d}`] = u32(inStrides[d]!);
    params[`out${d}`] = u32(outStrides[d]!);
  });
  const kernel = shader({
    key: `copy rank ${dims.length}`,
    bindings: { x: "read u32", y: "write u32" },
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
  y[writeAt] = x[readAt];
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
  return shader({
    key: "fill",
    bindings: { y: "write u32" },
    params: { count: u32(count), bits: u32(bits >>> 0) },
    workgroups: gridFor(count, GROUP),
    body: () => `${linearMain(GROUP, "params.count")}
  y[i] = params.bits;
}`,
  });
}
