/**
 * Trees: tensors in nested arrays and plain objects. Parameters, gradients and optimiser moments are trees of one
 * structure, so a model needs no Module class. Order is the order of the keys; paths are written
 * `layers.0.attention.wq`.
 */
import { Tensor } from "./tensor.ts";
import { fail } from "./errors.ts";

/**
 * An object that holds tensors and can be made again around others, so that it may stand in a tree, like a pytree node
 * in JAX. A matrix in parts (`MatrixForm`) is one.
 */
export interface TreeNode {
  /** Its tensors; not another `TreeNode` itself, but it may contain some. */
  readonly tensors: Readonly<Record<string, Tree | undefined>>;
  /** A copy of the object around other tensors. @param tensors of the structure of `tensors` */
  withTensors(tensors: Readonly<Record<string, Tree | undefined>>): TreeNode;
}

/** A key whose value is undefined counts as absent. */
export type Tree = Tensor | TreeNode | readonly Tree[] | { readonly [key: string]: Tree | undefined };

const isTreeNode = (tree: object): tree is TreeNode => "withTensors" in tree;

/** `path` of the root is "". */
export type Visit<T> = (leaf: Tensor, path: string) => T;

const join = (path: string, key: string): string => (path === "" ? key : `${path}.${key}`);

/** A copy of the tree in which `visit` has replaced every tensor. */
export function mapTree<T extends Tree>(tree: T, visit: Visit<Tensor>, path = ""): T {
  if (tree instanceof Tensor) return visit(tree, path) as T & Tensor;
  if (Array.isArray(tree))
    return tree.map((child: Tree, i) => mapTree(child, visit, join(path, String(i)))) as Tree as T;
  if (typeof tree !== "object" || tree === null)
    fail(`tree: expected tensors, arrays and objects, got ${String(tree)} at ${path}`);
  if (isTreeNode(tree)) return tree.withTensors(mapTree(tree.tensors, visit, path)) as Tree as T;
  const defined = Object.entries(tree).filter((entry): entry is [string, Tree] => entry[1] !== undefined);
  return Object.fromEntries(defined.map(([key, child]) => [key, mapTree(child, visit, join(path, key))])) as Tree as T;
}

/** All tensors of a tree in order, with their paths. */
export function treeEntries(tree: Tree): [path: string, leaf: Tensor][] {
  const entries: [string, Tensor][] = [];
  mapTree(tree, (leaf, path) => {
    entries.push([path, leaf]);
    return leaf;
  });
  return entries;
}

/** All tensors of a tree in order. It runs several times in every training step, so it makes no paths and no copies. */
export function treeLeaves(tree: Tree): Tensor[] {
  const leaves: Tensor[] = [];
  addLeaves(leaves, tree);
  return leaves;
}

function addLeaves(leaves: Tensor[], node: Tree | undefined): void {
  if (node instanceof Tensor) leaves.push(node);
  else if (Array.isArray(node)) for (const child of node as readonly Tree[]) addLeaves(leaves, child);
  else if (typeof node === "object" && node !== null && isTreeNode(node)) addLeaves(leaves, node.tensors);
  else if (typeof node === "object" && node !== null) for (const child of Object.values(node)) addLeaves(leaves, child);
  else if (node !== undefined) fail(`tree: expected tensors, arrays and objects, got ${String(node)}`);
}

/**
 * The leaves of `tree` in the order of `like`, paired by path: `{ b, a }` beside `{ a, b }` gives `[a, b]`. It runs
 * several times in every training step, so it makes paths for errors only.
 * @param where the beginning of an error's message
 * @throws if the paths differ: names the leaves that are missing and those that `like` has not
 */
export function treeLeavesLike(tree: Tree, like: Tree, where: string): Tensor[] {
  const leaves: Tensor[] = [];
  if (!addLeavesLike(leaves, tree, like)) failApart(tree, like, where);
  return leaves;
}

/** A node's children by key; undefined for a leaf and for a value that is no tree. */
function childrenOf(node: Tree | undefined): Readonly<Record<string, Tree | undefined>> | undefined {
  if (node instanceof Tensor || typeof node !== "object" || node === null) return undefined;
  return isTreeNode(node) ? childrenOf(node.tensors) : (node as Readonly<Record<string, Tree | undefined>>);
}

const keysOf = (children: Readonly<Record<string, Tree | undefined>>): string[] =>
  Object.keys(children).filter((key) => children[key] !== undefined);

/** @returns whether the two have the same paths so far */
function addLeavesLike(leaves: Tensor[], node: Tree | undefined, like: Tree | undefined): boolean {
  if (like instanceof Tensor) return node instanceof Tensor && leaves.push(node) > 0;
  const [children, others] = [childrenOf(node), childrenOf(like)];
  if (children === undefined || others === undefined) return false;
  const keys = keysOf(others);
  const isLike = (key: string): boolean =>
    Object.hasOwn(children, key) && addLeavesLike(leaves, children[key], others[key]);
  return keysOf(children).length === keys.length && keys.every(isLike);
}

function failApart(tree: Tree, like: Tree, where: string): never {
  const [found, others] = [tree, like].map((x) => treeEntries(x).map(([path]) => path)) as [string[], string[]];
  const names = (paths: readonly string[]): string => paths.map((path) => `"${path}"`).join(", ");
  const [missing, unknown] = [others.filter((path) => !found.includes(path)), found.filter((p) => !others.includes(p))];
  const parts = [
    ...(missing.length > 0 ? [`missing ${names(missing)}`] : []),
    ...(unknown.length > 0 ? [`unknown ${names(unknown)}`] : []),
  ];
  fail(`${where}: ${parts.join(", ") || "the two are nested differently"}`);
}

/** The structure of `tree` with its leaves replaced by `leaves` in order. */
export function treeFromLeaves<T extends Tree>(tree: T, leaves: readonly Tensor[]): T {
  let next = 0;
  return mapTree(tree, () => leaves[next++] ?? fail(`tree: ${leaves.length} leaves are too few for this structure`));
}
