/** Syntax tree of a TypeScript module as mutants.ts reads it, from vitest's parser. */
import { parseAst } from "vitest/node";

type Child = "left" | "right" | "argument" | "callee" | "object" | "property" | "expression" | "test" | "consequent";

/** A node of the ESTree with the fields of all kinds in use. Places are offsets into the text. */
export interface Node extends Readonly<Partial<Record<Child | "id" | "key", Node>>> {
  readonly type: string;
  readonly start: number;
  readonly end: number;
  readonly operator?: string;
  readonly arguments?: readonly Node[];
  readonly computed?: boolean;
  readonly shorthand?: boolean;
  readonly alternate?: Node | null;
  readonly body?: Node | readonly Node[];
  readonly name?: string;
  readonly value?: unknown;
  readonly declaration?: Node | null;
  readonly declarations?: readonly Node[];
  readonly init?: Node | null;
}

export const parse = (text: string): Node => parseAst(text, { lang: "ts" }) as unknown as Node;

/** Child nodes in the order of the text, without types and names of properties, which are no expressions. */
export function childrenOf(node: Node): Node[] {
  const isNode = (x: unknown): x is Node => typeof x === "object" && x !== null && "type" in x && "start" in x;
  return Object.entries(node)
    .filter(([field]) => field !== "key" || node.computed === true)
    .flatMap(([, value]: [string, unknown]) => (Array.isArray(value) ? (value as unknown[]) : [value]))
    .filter(isNode)
    .filter(({ type }) => !type.startsWith("TS") || WRAPPERS.has(type));
}

/** Nodes around an expression that matter to the compiler only. */
const WRAPPERS: ReadonlySet<string> = new Set(["TSNonNullExpression", "TSAsExpression", "TSSatisfiesExpression"]);

/** The expression inside `!`, `as`, `satisfies` and `?.`. */
export function bare(node: Node): Node {
  return WRAPPERS.has(node.type) || node.type === "ChainExpression" ? bare(node.expression!) : node;
}
