/**
 * Packs many buffers into one: up to seven per dispatch (the eighth is the target), one thread per word, or per four
 * words if all sizes allow. Software adapters take one buffer per dispatch: they execute every branch, taken or not,
 * and a dispatch costs them little.
 */
import { type Step, u32, type Uniform, type WgslKernel } from "../kernel.ts";
import type { PackTensorsSpec } from "../specs.ts";
import { type BindingType, each, gridFor, linearMain, MAX_BUFFERS, shader, type Generator } from "./shader.ts";

const GROUP = 64;

/** See `PackTensorsSpec`. */
export const packTensors: Generator<PackTensorsSpec> = ({ sizes, offsets, total }, { schedule }) => {
  const perDispatch = schedule === "gpu" ? MAX_BUFFERS - 1 : 1;
  const target = sizes.length;
  const steps: Step<WgslKernel>[] = [];
  for (let first = 0; first < sizes.length; first += perDispatch) {
    const count = Math.min(perDispatch, sizes.length - first);
    const members = Array.from({ length: count }, (_, k) => first + k);
    // Each source also writes the zeros behind it, and the first one those before it.
    const begin = first === 0 ? 0 : offsets[first]!;
    const end = offsets[first + count] ?? total;
    const width = [begin, end, ...members.flatMap((i) => [sizes[i]!, offsets[i]!])].every((x) => x % 4 === 0) ? 4 : 1;
    const params: Record<string, Uniform> = {
      count: u32((end - begin) / width),
      begin: u32(begin / width),
    };
    members.forEach((i, k) => {
      params[`offset${k}`] = u32(offsets[i]! / width);
      params[`size${k}`] = u32(sizes[i]! / width);
    });
    const element = width === 4 ? "vec4u" : "u32";
    const bindings: Record<string, BindingType> = {};
    for (let k = 0; k < count; k++) bindings[`x${k}`] = `read ${element}`;
    bindings["y"] = `write ${element}`;
    const takeFrom = (k: number): string => {
      const place = `at - params.offset${k}`;
      return `  if (${place} < params.size${k}) { value = x${k}[${place}]; } // wraps below the offset`;
    };
    const kernel = shader({
      key: `packTensors ${count} ${element}`,
      bindings,
      params,
      workgroups: gridFor((end - begin) / width, GROUP),
      body: () => `${linearMain(GROUP, "params.count")}
  let at = params.begin + i;
  var value = ${element}();
${each(count, takeFrom)}
  y[at] = value;
}`,
    });
    steps.push({ kernel, buffers: [...members, target] });
  }
  return { temps: [], steps };
};
