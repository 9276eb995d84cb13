/** A kernel that an op from outside brings along. */
import type { Program, WasmKernel } from "../kernel.ts";
import type { CustomSpec } from "../specs.ts";

export const custom = ({ wasm }: CustomSpec): Program<WasmKernel> => wasm();
