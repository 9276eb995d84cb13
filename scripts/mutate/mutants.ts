/**
 * Mutants of a module, from its syntax tree: every small edit that should make a test fail. The kinds of edits suit
 * numerical code: signs, masks, indices, denominators, bounds, comparisons, functions, gradients, constants, also of
 * the methods of tensors and expressions (`a.sub(b)`, `where(mask, x, 0)`, `x.clamp(low, high)`).
 *
 * Checks of arguments and texts of messages are not edited, because they compute nothing. What a module computes when
 * it is loaded (a constant, a table of options) is not edited either, because no mutant is active then. A formula given
 * to `fuse` is the exception: it is traced again (instrument.ts).
 */
import { bare, childrenOf, type Node, parse } from "./syntax.ts";

/** Kinds of edits. A shift adds one to an index or a whole number, a constant doubles a fraction. */
export const KINDS = [
  "sign",
  "mask",
  "shift",
  "denominator",
  "bound",
  "comparison",
  "function",
  "gradient",
  "constant",
] as const;
type Kind = (typeof KINDS)[number];

export interface Mutant {
  readonly file: string;
  readonly line: number;
  readonly kind: Kind;
  /** Range of the replaced expression. */
  readonly start: number;
  readonly end: number;
  readonly replacement: string;
  /** Text before and after, each on one line. */
  readonly from: string;
  readonly to: string;
}

/** Mutants of a module in the order of its text. */
export function mutantsOf(file: string, text: string): Mutant[] {
  const found: Mutant[] = [];
  const add = (kind: Kind, node: Node, replacement: string): void => {
    const { start, end } = node;
    const line = text.slice(0, start).split("\n").length;
    const [from, to] = [text.slice(start, end), replacement].map((x) => x.replace(/\s+/g, " ").trim()) as [
      string,
      string,
    ];
    found.push({ file, line, kind, start, end, replacement, from, to });
  };
  const visit = (node: Node, inIndex: boolean, isLater: boolean): void => {
    if (isValidation(node)) return;
    if (isLater)
      for (const { kind, at = node, replacement } of editsOf(node, text, inIndex)) add(kind, at, replacement);
    const isWrapper = node !== bare(node);
    const later = isLater || /Function|PropertyDefinition/.test(node.type) || node.callee?.name === "fuse";
    for (const child of childrenOf(node))
      visit(child, isWrapper ? inIndex : isIndexed(node) && child === node.object, later);
  };
  visit(parse(text), false, false);
  return found.toSorted((a, b) => a.start - b.start || b.end - a.end);
}

interface Edit {
  readonly kind: Kind;
  /** The replaced node; default the node itself. */
  readonly at?: Node;
  readonly replacement: string;
}

/** Literals above this mean "no bound". */
const MAX_LITERAL = 1e9;

const isIndexed = ({ type, computed }: Node): boolean => type === "MemberExpression" && computed === true;

/** Whether no number depends on the node: a check of arguments, a look-up by name, an error, or a text. */
function isValidation(node: Node): boolean {
  const isCheck = (call: Node): boolean =>
    call.type === "CallExpression" && /^(check|fail|oneOf)/.test(call.callee?.name ?? "");
  const of = (x: Node): boolean => {
    if (x.type === "ExpressionStatement") return isCheck(x.expression!);
    if (x.type === "BlockStatement") return (x.body as readonly Node[]).every(of);
    return x.type === "ThrowStatement";
  };
  if (node.type === "FunctionDeclaration") return node.id!.name!.endsWith("ByName");
  if (node.type === "IfStatement") return of(node.consequent!) && !node.alternate;
  if (node.type === "ForOfStatement") return of(node.body as Node);
  return (
    isCheck(node) ||
    node.type === "ThrowStatement" ||
    node.type === "TemplateLiteral" ||
    node.type === "ImportDeclaration"
  );
}

/** Edits of an operator: `left` and `right` are one side alone, anything else is another operator. */
const OPERATORS: Readonly<Record<string, readonly [kind: Kind, ...to: readonly string[]]>> = {
  "+": ["sign", "-"],
  "-": ["sign", "+"],
  "+=": ["sign", "-="],
  "-=": ["sign", "+="],
  "*": ["denominator", "left", "right"],
  "/": ["denominator", "left", "*"],
  "*=": ["denominator", "="],
  "/=": ["denominator", "*="],
  "**": ["function", "left"],
  "&&": ["mask", "left", "right"],
  "||": ["mask", "left", "right"],
  "??": ["mask", "right"],
  "<": ["comparison", ">=", "<="],
  ">": ["comparison", "<=", ">="],
  "<=": ["comparison", ">", "<"],
  ">=": ["comparison", "<", ">"],
  "===": ["comparison", "!=="],
  "!==": ["comparison", "==="],
};

/** Calls that an edit applies to: of one argument, of a method, with arguments, of a formula or tensor, or any. */
type Where = "unary" | "method" | "args" | "formula" | "call";
/** Edit of a call: its receiver ("inner"), one of its arguments, or a call of another name. */
type CallEdit = readonly [where: Where, kind: Kind, to: 0 | 1 | string];

const each = (names: string, edit: CallEdit): Record<string, CallEdit> =>
  Object.fromEntries(names.split(" ").map((name) => [name, edit]));
/** Edits that exchange two names. */
const pair = (where: Where, kind: Kind, a: string, b: string): Record<string, CallEdit> => ({
  [a]: [where, kind, b],
  [b]: [where, kind, a],
});
/** Functions and methods: of `Math`, arrays, tensors (engine/ops) and formulas (kernels/expr.ts). */
const CALLS: Readonly<Record<string, CallEdit>> = {
  ...each("exp expm1 log log1p abs square sqrt sign sigmoid cos", ["unary", "function", "inner"]),
  ...pair("args", "bound", "min", "max"),
  ...pair("args", "bound", "minimum", "maximum"),
  ...pair("args", "bound", "floor", "ceil"),
  ...pair("args", "bound", "some", "every"),
  ...pair("formula", "sign", "add", "sub"),
  ...each("mul div", ["formula", "denominator", "inner"]),
  ...each("filter slice toSorted", ["method", "mask", "inner"]),
  shuffle: ["method", "mask", 0],
  where: ["call", "mask", 1],
  neg: ["unary", "sign", "inner"],
  stopGradient: ["unary", "gradient", "inner"],
  clamp: ["call", "bound", "inner"],
  segmentSum: ["call", "denominator", "inner"],
  segmentMean: ["call", "denominator", "segmentSum"],
  // Boundaries are not edited: formulas compare continuous values, which are equal with probability 0.
  ...pair("call", "comparison", "lt", "ge"),
  ...pair("call", "comparison", "gt", "le"),
};

/** Edits at this node. @param inIndex whether it is the `x[i]` of `x[i][j]`, where a wrong i throws an error */
function editsOf(node: Node, text: string, inIndex: boolean): Edit[] {
  const source = (x: Node): string => text.slice(x.start, x.end);
  switch (node.type) {
    case "BinaryExpression":
    case "LogicalExpression":
    case "AssignmentExpression":
      return operatorEdits(node, text, source);
    case "UnaryExpression":
      if (node.operator === "-") return [{ kind: "sign", replacement: source(node.argument!) }];
      return node.operator === "!" ? [{ kind: "mask", replacement: source(node.argument!) }] : [];
    case "ConditionalExpression":
      return [node.consequent!, node.alternate!].map((side) => ({ kind: "mask", replacement: source(side) }));
    case "IfStatement": {
      const tests = node.alternate ? ["true", "false"] : ["false"];
      return tests.map((replacement) => ({ kind: "mask", at: node.test!, replacement }));
    }
    case "Literal":
      if (typeof node.value !== "number" || node.value > MAX_LITERAL) return [];
      if (Number.isInteger(node.value)) return [{ kind: "shift", replacement: String(node.value + 1) }];
      return [{ kind: "constant", replacement: String(2 * node.value) }];
    case "MemberExpression": {
      const isTable = /^[A-Z_]{3,}$/.test(node.object!.name ?? "");
      if (inIndex || isTable || !isIndexed(node) || !isPosition(bare(node.property!))) return [];
      return [{ kind: "shift", at: node.property!, replacement: `${source(node.property!)} + 1` }];
    }
    case "CallExpression":
      return callEdit(node, text, source);
    default:
      return [];
  }
}

/** Whether the node is an index variable, or a sum of such, and no name of a property. */
const isPosition = ({ type, name = "" }: Node): boolean =>
  type === "BinaryExpression" || (type === "Identifier" && /^(\w|row|turn|segment|side|index|end|start)$/.test(name));

function operatorEdits(node: Node, text: string, source: (x: Node) => string): Edit[] {
  const [operator, left, right] = [node.operator!, node.left!, node.right!];
  if (!Object.hasOwn(OPERATORS, operator)) return [];
  const sides: Readonly<Record<string, string>> = { left: source(left), right: source(right) };
  if (operator === "+" && Object.values(sides).some((side) => /^["'`]/.test(side))) return [];
  const between = text.slice(left.end, right.start); // parentheses included
  const swapped = (to: string): string =>
    text.slice(node.start, left.end) + between.replace(operator, to) + text.slice(right.start, node.end);
  const [kind, ...to] = OPERATORS[operator]!;
  return to.map((other) => ({ kind, replacement: sides[other] ?? swapped(other) }));
}

function callEdit(node: Node, text: string, source: (x: Node) => string): Edit[] {
  const callee = bare(node.callee!);
  const args = node.arguments!;
  const isMethod = callee.type === "MemberExpression" && callee.computed !== true;
  const isMath = isMethod && callee.object!.name === "Math";
  const nameNode = isMethod ? callee.property! : callee;
  const name = nameNode.name ?? "";
  if (!Object.hasOwn(CALLS, name)) return [];
  const [where, kind, to] = CALLS[name]!;
  const isThere: Readonly<Record<Where, boolean>> = {
    unary: args.length === (isMethod && !isMath ? 0 : 1),
    method: isMethod,
    args: args.length > 0,
    formula: isMethod ? text.includes("kernels/expr.ts") : args.length === 2,
    call: true,
  };
  if (!isThere[where]) return [];
  /** The receiver or argument that remains without the call. */
  const inner = isMethod && !isMath ? callee.object! : args[0]!;
  if (to === "inner") return [{ kind, replacement: source(inner) }];
  if (typeof to === "number") return [{ kind, replacement: source(args[to]!) }];
  if (name === "segmentMean") return [{ kind, replacement: `${to}(${source(args[0]!)}, ${source(args[2]!)})` }];
  return [{ kind, replacement: text.slice(node.start, nameNode.start) + to + text.slice(nameNode.end, node.end) }];
}

/** The edit in the list: `before → after`. */
export const editOf = ({ from, to }: Pick<Mutant, "from" | "to">): string => `${from} → ${to}`;
