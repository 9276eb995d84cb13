/**
 * The ownership of the tensors of a backward sweep. If the sweep is itself being differentiated, all stay: the next
 * order needs them. If it is the last sweep over its graph, gradients are freed once they are used, and so are the
 * activations of the forward pass.
 */
import { handle } from "./leaf.ts";
import { add } from "./ops/pointwise.ts";
import { adopt, scope } from "./scope.ts";
import type { GraphNode, Tensor } from "./tensor.ts";

export interface SweepMemory {
  /** The gradient that the sweep starts from, as a tensor that belongs to the sweep. */
  start(g: Tensor): Tensor;
  /** Runs a vjp; its results belong to the sweep. */
  run(vjp: () => (Tensor | null)[]): (Tensor | null)[];
  /** The sum of two gradients, which replaces both. */
  sum(a: Tensor, b: Tensor): Tensor;
  /** Called when a node is done: the gradients of its outputs are not needed again. */
  done(node: GraphNode, gradients: readonly (Tensor | null)[]): void;
}

export const keepGraph: SweepMemory = {
  start: (g) => g,
  run: (vjp) => vjp(),
  sum: add,
  done: () => undefined,
};

/** @param keep the tensors of the forward pass that the caller still needs */
export function freeGraph(keep: ReadonlySet<Tensor>): SweepMemory {
  return {
    start: handle, // a handle of the sweep's own, so that freeing it leaves the caller's tensor
    run: (vjp) => scope(() => ownResults(vjp), "vjp"),
    sum(a, b) {
      const total = add(a, b);
      a.dispose();
      b.dispose();
      return total;
    },
    done(node, gradients) {
      for (const g of gradients) g?.dispose();
      // The users of these activations came earlier in the sweep, and are done.
      for (const y of node.outputs) if (!keep.has(y)) y.dispose();
    },
  };
}

/** The results of a vjp as distinct tensors, even if the vjp returns `g` itself or the same tensor twice. */
function ownResults(vjp: () => (Tensor | null)[]): (Tensor | null)[] {
  const { result, made } = adopt(vjp);
  const taken = new Set<Tensor>();
  return result.map((d) => {
    if (d === null) return null;
    const distinct = made.has(d) && !taken.has(d) ? d : handle(d);
    taken.add(distinct);
    distinct.node = undefined;
    return distinct;
  });
}
