/**
 * Running sums. One thread walks one column of the middle axis: exact order, no barrier, and enough threads for the shapes that
 * occur (returns and advantages over [batch, time]). A single very long column is serial; that is the price.
 */
import { single, u32 } from "../kernel.ts";
import type { CumsumSpec } from "../specs.ts";
import { gridFor, linearMain, shader, type Generator } from "./shader.ts";

const GROUP = 64;

/** See `CumsumSpec`. */
export const cumsum: Generator<CumsumSpec> = ({ outer, length, inner, reverse }) => {
  const columns = outer * inner;
  const kernel = shader({
    key: `cumsum${reverse ? " reverse" : ""}`,
    bindings: { x: "read f32", y: "write f32" },
    params: { columns: u32(columns), length: u32(length), inner: u32(inner) },
    workgroups: gridFor(columns, GROUP),
    body: () => `${linearMain(GROUP, "params.columns")}
  let start = (i / params.inner) * params.length * params.inner + i % params.inner;
  var sum = 0.0f;
  for (var step = 0u; step < params.length; step++) {
    let at = start + ${reverse ? "(params.length - 1u - step)" : "step"} * params.inner;
    sum += x[at];
    y[at] = sum;
  }
}`,
  });
  return single(kernel, 2);
};
