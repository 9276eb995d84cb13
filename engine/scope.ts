/**
 * Memory scopes: all tensors made inside `scope(() => …)` are freed when it ends, except those that it returns.
 * References are not counted. A training step is a scope, so is a decode step; parameters, moments and caches are made
 * outside.
 */
import { fail } from "./errors.ts";

/** A tensor, as its scope sees it. */
export interface Owned {
  readonly disposed: boolean;
  dispose(): void;
}
interface Scope {
  readonly label: string;
  readonly tensors: Set<Owned>;
}
const stack: Scope[] = [];

/** Adds a tensor to the current scope; called by the constructor of every tensor. */
export function register(tensor: Owned): void {
  stack[stack.length - 1]?.tensors.add(tensor);
}

/** The open scopes, outermost first, with the tensors of each so far: for the message of a failed allocation. */
export function openScopes(): readonly { readonly label: string; readonly tensors: ReadonlySet<Owned> }[] {
  return stack;
}

/**
 * Runs `body`; tensors made in it die with it, except those in its result (a tensor, or arrays and plain objects of
 * them), which belong to the enclosing scope. If `body` throws, all die.
 *
 * @throws if `body` returns a promise: while it waits, other code would make its tensors in this scope. Read results
 *   after the scope: `const loss = scope(() => …); await loss.item()`.
 *
 * @example
 * const loss = scope(() => mean(square(sub(x, y))));   // the difference and its square are freed here
 */
export function scope<R>(body: () => R, label = "scope"): R {
  const mine: Scope = { label, tensors: new Set() };
  stack.push(mine);
  let kept = new Set<object>();
  try {
    const result = body();
    if (result instanceof Promise) {
      // It may fail later, on tensors that are freed by then; the error below gives the reason.
      void result.catch(() => undefined);
      fail(`scope: the callback must be synchronous, it returned a promise (read tensors after the scope has ended)`);
    }
    kept = reachable(result);
    return result;
  } finally {
    stack.pop();
    const parent = stack[stack.length - 1];
    for (const tensor of mine.tensors) {
      if (kept.has(tensor)) parent?.tensors.add(tensor);
      else tensor.dispose();
    }
  }
}

/** A scope whose living tensors all go to the enclosing one, for the engine, if an outer gradient needs the graph. */
export function adopt<R>(body: () => R): { result: R; made: ReadonlySet<object> } {
  const mine: Scope = { label: "adopt", tensors: new Set() };
  stack.push(mine);
  try {
    return { result: body(), made: mine.tensors };
  } finally {
    stack.pop();
    for (const tensor of mine.tensors) if (!tensor.disposed) register(tensor);
  }
}

/** Runs `body` outside all scopes: its tensors live until they are disposed. For state and caches. */
export function outsideScopes<R>(body: () => R): R {
  const open = stack.splice(0);
  try {
    return body();
  } finally {
    stack.push(...open);
  }
}

/** All objects that can be reached through arrays, plain objects and nodes of trees. */
function reachable(root: unknown): Set<object> {
  const seen = new Set<object>();
  const stack: unknown[] = [root];
  while (stack.length > 0) {
    const value = stack.pop();
    if (typeof value !== "object" || value === null || seen.has(value)) continue;
    seen.add(value);
    const prototype: unknown = Object.getPrototypeOf(value);
    const children: Iterable<unknown> = Array.isArray(value)
      ? value
      : value instanceof Map
        ? value.values()
        : prototype === Object.prototype || prototype === null
          ? Object.values(value)
          : "withTensors" in value
            ? [(value as object as { readonly tensors: unknown }).tensors]
            : [];
    for (const child of children) stack.push(child);
  }
  return seen;
}
