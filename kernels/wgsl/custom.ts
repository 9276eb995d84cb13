/** A kernel that an op from outside brings along. */
import type { AdapterProfile, Program, WgslKernel } from "../kernel.ts";
import type { CustomSpec } from "../specs.ts";

export const custom = ({ wgsl }: CustomSpec, profile: AdapterProfile): Program<WgslKernel> => wgsl(profile);
