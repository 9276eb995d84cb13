/** Element type conversions, one thread per element. */
import { single, u32 } from "../kernel.ts";
import type { CastSpec } from "../specs.ts";
import { mathFunctions } from "./math.ts";
import { gridFor, linearMain, shader, type Generator } from "./shader.ts";

const GROUP = 64;

/** See `CastSpec`. WGSL's `i32(f32)` truncates and saturates; NaN, which it leaves open, gives 0. */
export const cast: Generator<CastSpec> = ({ count, from, to }) => {
  const kernel = shader({
    key: `cast ${from} to ${to}`,
    bindings: { x: `read ${from}`, y: `write ${to}` },
    params: { count: u32(count) },
    workgroups: gridFor(count, GROUP),
    body: () => `${mathFunctions(["is_nan"])}${linearMain(GROUP, "params.count")}
  y[i] = ${from === "f32" && to === "i32" ? "select(i32(x[i]), 0, is_nan(x[i]))" : `${to}(x[i])`};
}`,
  });
  return single(kernel, 2);
};
