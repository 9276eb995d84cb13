/** The recorded graph as text: one line per op, inputs before users. It shows the real computation of a loss. */
import { leaf } from "./leaf.ts";
import { topologicalOrder } from "./backward.ts";
import { checkTensor } from "./operands.ts";
import { scope } from "./scope.ts";
import { whileRecording } from "./tape.ts";
import type { GraphNode, Tensor } from "./tensor.ts";
import { mapTree, type Tree } from "./tree.ts";
import { showType } from "./types.ts";

/**
 * The graph that a gradient of `f` at `tree` would walk.
 *
 * @example
 * printGraph((w: Tensor) => sum(mul(w, exp(w))), tensor([1, 2]));
 * // %0 = leaf() : f32[2]
 * // %1 = exp(%0) : f32[2]
 * // %2 = mul(%0, %1) : f32[2]
 * // %3 = sum(%2) {start: 0, end: 1, scale: 1} : f32[]
 */
export function printGraph<T extends Tree>(f: (tree: T) => Tensor, tree: T): string {
  return scope(() => graphToString(whileRecording(() => f(mapTree(tree, leaf)))), "printGraph");
}

/** The history of a tensor, called inside the function that is differentiated. Constants are shown by their type. */
export function graphToString(root: Tensor): string {
  checkTensor("graphToString", root);
  if (root.node === undefined) return `constant ${showType(root)}`;
  const names = new Map<Tensor, string>();
  const nameOf = (x: Tensor): string => names.get(x) ?? `constant ${showType(x)}`;
  const lines: string[] = [];
  for (const node of topologicalOrder([root.node])) {
    const results = node.outputs.map((y) => {
      names.set(y, `%${names.size}`);
      return names.get(y)!;
    });
    const inputs = node.inputs.map(nameOf).join(", ");
    const types = node.outputs.map(showType).join(", ");
    lines.push(`${results.join(", ")} = ${node.name}(${inputs})${showParams(node)} : ${types}`);
  }
  return lines.join("\n");
}

function showParams({ params }: GraphNode): string {
  const entries = Object.entries(params as object).filter(([, value]) => value !== undefined);
  // A pointwise op's arguments: only numbers, as tensors are listed as inputs.
  const shown = entries.filter(([name, value]) => !(name === "args" && (value as unknown[]).every((v) => v === null)));
  return shown.length === 0 ? "" : ` {${shown.map(([name, value]) => `${name}: ${JSON.stringify(value)}`).join(", ")}}`;
}
