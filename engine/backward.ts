/**
 * The backward sweep: the chain rule in one place.
 *
 * The graph that the tape noted is walked once in reverse topological order; each op's `vjp` turns the gradient of its outputs
 * into gradients of its inputs; here they are un-broadcast and summed. A vjp is written in public ops, so a sweep inside another
 * recording is itself recorded: any order works. The form follows micrograd's topological sweep and autograd's vjps in wrapped
 * ops; it is iterative, so a chain of 10,000 ops does not overflow the stack.
 */
import { check } from "./errors.ts";
import { add } from "./ops/pointwise.ts";
import { zerosLike } from "./ops/create.ts";
import { sumTo } from "./ops/reduce.ts";
import { adopt, scope } from "./scope.ts";
import { isRecording, noGrad, recordingOutside, recordNode, whileRecording } from "./tape.ts";
import { type GraphNode, Tensor } from "./tensor.ts";
import { sameShape, showShape, showType } from "./types.ts";

/** Another handle on the same memory, without history. */
export function handle(x: Tensor): Tensor {
  const alias = new Tensor(x.storage, x.shape, x.dtype);
  alias.hostInts = x.hostInts;
  return alias;
}

/**
 * The same values as a variable to differentiate by. Inside an outer recording `x`, if it has a history, is its history; otherwise
 * nobody will walk further back than here.
 */
export function leaf(x: Tensor, path = ""): Tensor {
  const alias = handle(x);
  const inputs = x.node !== undefined && recordingOutside() ? [x] : [];
  recordNode("leaf", path === "" ? {} : { path }, inputs, [alias], (g) => inputs.map(() => g[0]!));
  return alias;
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

type Cotangents = Map<GraphNode, (Tensor | null)[]>;

/**
 * Gradients of Σ_k ⟨gs_k, outputs_k⟩ with respect to `leaves` (zeros where there is no dependence).
 * @param keep null: the graph stays, for the next order. Otherwise this is the last sweep over it: gradients are freed once used,
 *   and so are the activations, except those in `keep`.
 */
export function backward(
  outputs: readonly Tensor[],
  gs: readonly (Tensor | null)[],
  leaves: readonly Tensor[],
  keep: ReadonlySet<Tensor> | null,
): Tensor[] {
  const leafNodes = new Set(leaves.map((x) => x.node!));
  const order = topologicalOrder(outputs.flatMap((y) => y.node ?? []));
  const needed = new Set<GraphNode>();
  for (const node of order) {
    if (leafNodes.has(node) || node.inputs.some((x) => x.node !== undefined && needed.has(x.node))) needed.add(node);
  }
  const cotangents: Cotangents = new Map();
  outputs.forEach((y, k) => {
    const g = gs[k];
    if (g && y.node !== undefined && needed.has(y.node)) {
      // The last sweep frees what it has used: a handle of its own, so that the caller's tensor stays.
      accumulate(cotangents, y, keep === null ? g : handle(g), keep !== null);
    }
  });
  for (let i = order.length - 1; i >= 0; i--) {
    const node = order[i]!;
    const g = cotangents.get(node);
    if (g === undefined || leafNodes.has(node)) continue;
    node.inputs.forEach((x, k) => checkUnchanged(node, x, node.versions[k]!));
    const needs = node.inputs.map((x) => x.node !== undefined && needed.has(x.node));
    const contributions = inOwnScope(keep !== null, () =>
      node.vjp(g, needs).map((d, k) => (d === null || !needs[k] ? null : unbroadcast(node, d, node.inputs[k]!))),
    );
    contributions.forEach((d, k) => {
      if (d !== null) accumulate(cotangents, node.inputs[k]!, d, keep !== null);
    });
    if (keep !== null) {
      cotangents.delete(node);
      for (const x of g) x?.dispose();
      // Whatever uses these activations comes later in the order and is done.
      for (const y of node.outputs) if (!keep.has(y)) y.dispose();
    }
  }
  return leaves.map((x) => cotangents.get(x.node!)?.[0] ?? zerosLike(x));
}

function checkUnchanged(node: GraphNode, x: Tensor, version: number): void {
  check(
    !x.disposed,
    () =>
      `grad: ${showType(x)}, an input of ${node.name}, was freed before the backward pass (by a scope inside the function?)`,
  );
  check(
    x.storage.version === version,
    () => `grad: ${showType(x)}, an input of ${node.name}, was overwritten between the forward and the backward pass`,
  );
}

/** Runs a vjp. On the last sweep: in a scope, and each result is a handle of its own even where the vjp hands on `g` itself. */
function inOwnScope(last: boolean, body: () => (Tensor | null)[]): (Tensor | null)[] {
  if (!last) return body();
  return scope(() => withoutGraph(body), "vjp");
}

function withoutGraph(body: () => (Tensor | null)[]): (Tensor | null)[] {
  const { result, made } = adopt(body);
  const taken = new Set<Tensor>();
  return result.map((d) => {
    if (d === null) return null;
    const own = made.has(d) && !taken.has(d) ? d : handle(d);
    taken.add(own);
    own.node = undefined;
    return own;
  });
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

function accumulate(cotangents: Cotangents, x: Tensor, d: Tensor, free: boolean): void {
  const node = x.node!;
  let slots = cotangents.get(node);
  if (slots === undefined) cotangents.set(node, (slots = node.outputs.map(() => null)));
  const slot = node.outputs.indexOf(x);
  const before = slots[slot]!;
  if (before === null) {
    slots[slot] = d;
    return;
  }
  slots[slot] = add(before, d);
  if (free) {
    before.dispose();
    d.dispose();
  }
}

/**
 * Vector-Jacobian product of any function of tensors, by running it again: the gradients of Σ_k ⟨gs_k, f(xs)_k⟩ with respect to
 * the `xs` that are needed. For fused ops whose derivative's derivative is simplest as that of the unfused formula, and for
 * `checkpoint`.
 */
export function vjpOf(
  f: (xs: readonly Tensor[]) => readonly Tensor[],
  xs: readonly Tensor[],
  gs: readonly (Tensor | null)[],
  needs: readonly boolean[],
): (Tensor | null)[] {
  const outer = recordingOutside();
  const run = (): (Tensor | null)[] => {
    const inputs = xs.map((x, k) => (needs[k] ? leaf(x) : x));
    const outputs = whileRecording(() => f(inputs));
    const keep = outer ? null : new Set(xs);
    const gradients = backward(
      outputs,
      gs,
      inputs.filter((_, k) => needs[k]),
      keep,
    );
    let next = 0;
    return needs.map((needed) => (needed ? gradients[next++]! : null));
  };
  return outer ? run() : scope(run, "vjp");
}

/**
 * Trades time for memory: runs `f` without keeping its activations and runs it again in the backward pass (Chen et al. 2016,
 * arXiv 1604.06174). `f` must be a pure function of its tensors; it may return several.
 */
export function checkpoint(f: (xs: readonly Tensor[]) => readonly Tensor[], xs: readonly Tensor[]): readonly Tensor[] {
  if (!isRecording(xs)) return scope(() => f(xs), "checkpoint");
  const outputs = scope(() => noGrad(() => f(xs)), "checkpoint");
  recordNode("checkpoint", {}, xs, outputs, (g, needs) => vjpOf(f, xs, g, needs));
  return outputs;
}
