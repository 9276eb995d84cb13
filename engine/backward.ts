/**
 * The backward sweep: the chain rule in one place.
 *
 * The graph that the tape noted is walked once in reverse topological order. Each op's `vjp` turns the gradients of its
 * outputs into gradients of its inputs; here they are summed down where an input had been broadcast, and added up where
 * a tensor was used twice. A vjp is written in public ops, so a sweep inside another recording is itself recorded: any
 * order works. The form follows micrograd's topological sweep and autograd's vjps in wrapped ops; it is iterative, so a
 * chain of 10,000 ops does not overflow the stack. sweepMemory.ts decides which tensors are freed on the way.
 */
import { check } from "./errors.ts";
import { zerosLike } from "./ops/create.ts";
import { sumTo } from "./ops/reduce.ts";
import type { SweepMemory } from "./sweepMemory.ts";
import type { GraphNode, Tensor } from "./tensor.ts";
import { sameShape, showShape, showType } from "./types.ts";

/**
 * Gradients of Σ_k ⟨gs_k, outputs_k⟩ with respect to `leaves`; zeros where there is no dependence.
 * @param gs one for each output, of its shape; null counts as zeros
 */
export function backward(
  outputs: readonly Tensor[],
  gs: readonly (Tensor | null)[],
  leaves: readonly Tensor[],
  memory: SweepMemory,
): Tensor[] {
  const leafNodes = new Set(leaves.map((x) => x.node!));
  const order = topologicalOrder(outputs.flatMap((y) => y.node ?? []));
  const isNeeded = dependents(order, leafNodes);
  /** The gradients of each node's outputs, as far as they are known. */
  const gradients = new Map<GraphNode, (Tensor | null)[]>();
  const accumulate = (y: Tensor, g: Tensor): void => {
    const node = y.node!;
    if (!gradients.has(node))
      gradients.set(
        node,
        node.outputs.map(() => null),
      );
    const slots = gradients.get(node)!;
    const slot = node.outputs.indexOf(y);
    const before = slots[slot]!;
    slots[slot] = before === null ? g : memory.sum(before, g);
  };

  outputs.forEach((y, k) => {
    if (gs[k] && isNeeded(y)) accumulate(y, memory.start(gs[k]));
  });
  for (const node of order.toReversed()) {
    const g = gradients.get(node);
    if (g === undefined || leafNodes.has(node)) continue;
    gradients.delete(node);
    node.inputs.forEach((x, k) => checkUnchanged(node, x, node.versions[k]!));
    const needs = node.inputs.map(isNeeded);
    const parts = memory.run(() =>
      node.vjp(g, needs).map((d, k) => (d === null || !needs[k] ? null : unbroadcast(node, d, node.inputs[k]!))),
    );
    parts.forEach((d, k) => {
      if (d !== null) accumulate(node.inputs[k]!, d);
    });
    memory.done(node, g);
  }
  return leaves.map((x) => gradients.get(x.node!)?.[0] ?? zerosLike(x));
}

/** Nodes that `roots` depend on, inputs before users. */
export function topologicalOrder(roots: readonly GraphNode[]): GraphNode[] {
  const order: GraphNode[] = [];
  const next = new Map<GraphNode, number>();
  for (const root of roots) {
    if (next.has(root)) continue;
    next.set(root, 0);
    const stack = [root];
    while (stack.length > 0) {
      const node = stack[stack.length - 1]!;
      const i = next.get(node)!;
      if (i < node.inputs.length) {
        next.set(node, i + 1);
        const child = node.inputs[i]!.node;
        if (child !== undefined && !next.has(child)) {
          next.set(child, 0);
          stack.push(child);
        }
      } else {
        order.push(node);
        stack.pop();
      }
    }
  }
  return order;
}

/** Whether a tensor depends on one of the leaves. @param order inputs before users */
function dependents(order: readonly GraphNode[], leafNodes: ReadonlySet<GraphNode>): (x: Tensor) => boolean {
  const found = new Set<GraphNode>();
  const isFound = (x: Tensor): boolean => x.node !== undefined && found.has(x.node);
  for (const node of order) if (leafNodes.has(node) || node.inputs.some(isFound)) found.add(node);
  return isFound;
}

function checkUnchanged(node: GraphNode, x: Tensor, version: number): void {
  check(
    !x.disposed,
    () =>
      `grad: ${showType(x)}, an input of ${node.name}, was freed before the backward pass ` +
      "(by a scope inside the function?)",
  );
  check(
    x.storage.version === version,
    () => `grad: ${showType(x)}, an input of ${node.name}, was overwritten between the forward and the backward pass`,
  );
}

/** The adjoint of broadcasting, for every op at once. */
function unbroadcast(node: GraphNode, d: Tensor, x: Tensor): Tensor {
  check(d.dtype === x.dtype, () => `${node.name}: its vjp returned ${showType(d)} for an input ${showType(x)}`);
  if (sameShape(d.shape, x.shape)) return d;
  check(
    d.rank >= x.rank,
    () => `${node.name}: its vjp returned shape ${showShape(d.shape)} for an input of shape ${showShape(x.shape)}`,
  );
  return sumTo(d, x.shape);
}
