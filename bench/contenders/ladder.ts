/** Rungs of the ladder of WGSL matrix products: every function `matmul…` of `kernels/wgsl/matmul.ts`. */
import * as module from "../../kernels/wgsl/matmul.ts";

type MatmulKernel = typeof module.matmul;

export const ladder: Readonly<Record<string, MatmulKernel>> = Object.fromEntries(
  Object.entries(module).filter(
    (entry): entry is [string, MatmulKernel] => entry[0].startsWith("matmul") && typeof entry[1] === "function",
  ),
);

export const ladderNames = (): string[] => Object.keys(ladder);
