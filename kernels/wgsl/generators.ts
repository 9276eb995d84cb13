/** The WGSL generators of one adapter. */
import type { AdapterProfile, Program, WgslKernel } from "../kernel.ts";
import type { Generators } from "../program.ts";
import type { Families } from "../specs.ts";
import * as families from "./index.ts";

type ForAnyAdapter = {
  readonly [F in keyof Families]: (spec: Families[F], profile: AdapterProfile) => Program<WgslKernel>;
};

/** All families for this adapter. */
export function generatorsFor(profile: AdapterProfile): Generators<WgslKernel> {
  const all: ForAnyAdapter = families;
  const bound = Object.entries(all).map(([family, generate]) => [
    family,
    (spec: never): Program<WgslKernel> => generate(spec, profile),
  ]);
  return Object.fromEntries(bound) as Generators<WgslKernel>;
}
