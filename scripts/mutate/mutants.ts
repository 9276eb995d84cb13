/**
 * Makes every small edit that should make a test fail: from the syntax tree of a module to its mutants. The kinds of
 * edits are chosen for numerical code: signs, masks, indices, denominators, bounds, comparisons, functions, gradients,
 * constants, and the same for the methods of tensors and expressions (`a.sub(b)`, `where(mask, x, 0)`,
 * `x.clamp(low, high)`).
 *
 * Checks of arguments and the text of messages are not edited, as they compute nothing.
 */
import { bare, childrenOf, type Node, parse } from "./syntax.ts";

export const KINDS = {
  sign: "+ becomes −, a negation is dropped",
  mask: "a mask, a filter, a guard or one side of a choice is dropped",
  shift: "an index or a whole number is one more",
  denominator: "a division or a factor is dropped, or a division multiplies",
  bound: "min becomes max, a clamp is dropped",
  comparison: "turned round, or its boundary belongs to the other side",
  function: "exp, log, abs, square, … is dropped",
  gradient: "a stopGradient is dropped",
  constant: "a fraction is twice as large",
} as const;
export type Kind = keyof typeof KINDS;

export interface Mutant {
  readonly file: string;
  readonly line: number;
  readonly kind: Kind;
  /** The place of the expression that is replaced. */
  readonly start: number;
  readonly end: number;
  readonly replacement: string;
  /** The text before and after, each on one line. */
  readonly from: string;
  readonly to: string;
  /** The line in which the expression begins, with « before the expression, and the next line. */
  readonly context: string;
}

/** All mutants of a module, in the order of its text. */
export function mutantsOf(file: string, text: string): Mutant[] {
  const found: Mutant[] = [];
  const add = (kind: Kind, node: Node, replacement: string): void => {
    const { start, end } = node;
    const line = text.slice(0, start).split("\n").length;
    const begin = text.lastIndexOf("\n", start) + 1;
    const [first = "", second = ""] = text.slice(start).split("\n", 2);
    const context = oneLine(`${text.slice(begin, start)}«${first} ${second}`);
    found.push({
      file,
      line,
      kind,
      start,
      end,
      replacement,
      from: oneLine(text.slice(start, end)),
      to: oneLine(replacement),
      context,
    });
  };
  const visit = (node: Node, inIndex: boolean): void => {
    if (isValidation(node)) return;
    for (const { kind, at = node, replacement } of editsOf(node, text, inIndex)) add(kind, at, replacement);
    const isWrapper = node !== bare(node);
    for (const child of childrenOf(node)) visit(child, isWrapper ? inIndex : isIndexed(node) && child === node.object);
  };
  visit(parse(text), false);
  return found.toSorted((a, b) => a.start - b.start || b.end - a.end);
}

export const oneLine = (text: string): string => text.replace(/\s+/g, " ").trim();

interface Edit {
  readonly kind: Kind;
  /** The node that is replaced; default: the node itself. */
  readonly at?: Node;
  readonly replacement: string;
}

/** A larger number stands for "no bound". */
const MAX_LITERAL = 1e9;

const isIndexed = ({ type, computed }: Node): boolean => type === "MemberExpression" && computed === true;

/** Whether it is a check of arguments, a look-up of a name, an error, or a text: no number depends on these. */
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

const TURNED: Readonly<Record<string, string>> = {
  "<": ">=",
  ">": "<=",
  "<=": ">",
  ">=": "<",
  "===": "!==",
  "!==": "===",
};
const BOUNDARY: Readonly<Record<string, string>> = { "<": "<=", "<=": "<", ">": ">=", ">=": ">" };
const TURNED_METHOD: Readonly<Record<string, string>> = { lt: "ge", ge: "lt", gt: "le", le: "gt" };
const OPPOSITE: Readonly<Record<string, string>> = {
  min: "max",
  max: "min",
  minimum: "maximum",
  maximum: "minimum",
  floor: "ceil",
  ceil: "floor",
  some: "every",
  every: "some",
};
const FUNCTIONS: ReadonlySet<string> = new Set([
  "exp",
  "expm1",
  "log",
  "log1p",
  "abs",
  "square",
  "sqrt",
  "sign",
  "sigmoid",
  "cos",
]);

/**
 * The edits that begin at this node. @param inIndex it is the `x[i]` of `x[i][j]`, where a wrong i throws a TypeError
 */
function editsOf(node: Node, text: string, inIndex: boolean): Edit[] {
  const source = (x: Node): string => text.slice(x.start, x.end);
  /** The node with its operator (or a name in it) replaced. */
  const swap = (after: Node, before: Node, from: string, to: string): string =>
    text.slice(node.start, after.end) +
    text.slice(after.end, before.start).replace(from, to) +
    text.slice(before.start, node.end);
  switch (node.type) {
    case "BinaryExpression":
    case "LogicalExpression":
    case "AssignmentExpression":
      return operatorEdits(node.operator!, source(node.left!), source(node.right!), (to) =>
        swap(node.left!, node.right!, node.operator!, to),
      );
    case "UnaryExpression":
      if (node.operator === "-") return [{ kind: "sign", replacement: source(node.argument!) }];
      return node.operator === "!" ? [{ kind: "mask", replacement: source(node.argument!) }] : [];
    case "ConditionalExpression":
      return [node.consequent!, node.alternate!].map((side) => ({ kind: "mask", replacement: source(side) }));
    case "IfStatement":
      return (node.alternate ? ["true", "false"] : ["false"]).map((replacement) => ({
        kind: "mask",
        at: node.test!,
        replacement,
      }));
    case "Literal":
      if (typeof node.value !== "number" || node.value > MAX_LITERAL) return [];
      if (Number.isInteger(node.value)) return [{ kind: "shift", replacement: String(node.value + 1) }];
      return [{ kind: "constant", replacement: String(2 * node.value) }];
    case "MemberExpression":
      if (
        inIndex ||
        !isIndexed(node) ||
        !isPosition(bare(node.property!)) ||
        /^[A-Z_]{3,}$/.test(node.object!.name ?? "")
      )
        return [];
      return [{ kind: "shift", at: node.property!, replacement: `${source(node.property!)} + 1` }];
    case "CallExpression":
      return callEdits(node, text, source);
    default:
      return [];
  }
}

/** The name of a number, or a sum of such names, but not the name of a property. */
const isPosition = ({ type, name = "" }: Node): boolean =>
  type === "BinaryExpression" || (type === "Identifier" && /^(\w|row|turn|segment|side|index|end|start)$/.test(name));

function operatorEdits(operator: string, left: string, right: string, swap: (to: string) => string): Edit[] {
  const isText = /^["'`]/.test(left) || /^["'`]/.test(right);
  switch (operator) {
    case "+":
      return isText ? [] : [{ kind: "sign", replacement: swap("-") }];
    case "-":
      return [{ kind: "sign", replacement: swap("+") }];
    case "+=":
      return [{ kind: "sign", replacement: swap("-=") }];
    case "-=":
      return [{ kind: "sign", replacement: swap("+=") }];
    case "*":
      return [left, right].map((replacement) => ({ kind: "denominator", replacement }));
    case "/":
      return [left, swap("*")].map((replacement) => ({ kind: "denominator", replacement }));
    case "*=":
      return [{ kind: "denominator", replacement: swap("=") }];
    case "/=":
      return [{ kind: "denominator", replacement: swap("*=") }];
    case "**":
      return [{ kind: "function", replacement: left }];
    case "&&":
    case "||":
      return [left, right].map((replacement) => ({ kind: "mask", replacement }));
    case "??":
      return [{ kind: "mask", replacement: right }];
    default: {
      const [turned, boundary] = [TURNED[operator], BOUNDARY[operator]];
      return [turned, boundary].flatMap((to) =>
        to === undefined ? [] : [{ kind: "comparison", replacement: swap(to) }],
      );
    }
  }
}

/**
 * The names of functions and methods to edit: of `Math`, arrays, tensors (engine/ops) and formulas (kernels/expr.ts).
 */
function callEdits(node: Node, text: string, source: (x: Node) => string): Edit[] {
  const callee = bare(node.callee!);
  const args = node.arguments!;
  const isMethod = callee.type === "MemberExpression" && callee.computed !== true;
  const isMath = isMethod && callee.object!.name === "Math";
  const nameNode = isMethod ? callee.property! : callee;
  const name = nameNode.name ?? "";
  /** What remains without the call: the value that it was applied to. */
  const inner = isMethod && !isMath ? callee.object! : args[0]!;
  const renamed = (to: string): string =>
    text.slice(node.start, nameNode.start) + to + text.slice(nameNode.end, node.end);
  const isUnary = isMethod && !isMath ? args.length === 0 : args.length === 1;
  if (OPPOSITE[name] !== undefined && args.length > 0) return [{ kind: "bound", replacement: renamed(OPPOSITE[name]) }];
  if (FUNCTIONS.has(name) && isUnary) return [{ kind: "function", replacement: source(inner) }];
  const isFormula = isMethod ? text.includes("kernels/expr.ts") : args.length === 2;
  switch (name) {
    case "neg":
      return isUnary ? [{ kind: "sign", replacement: source(inner) }] : [];
    case "stopGradient":
      return isUnary ? [{ kind: "gradient", replacement: source(inner) }] : [];
    case "where":
      return [{ kind: "mask", replacement: source(args[1]!) }];
    case "filter":
    case "slice":
    case "toSorted":
    case "shuffle":
      return isMethod ? [{ kind: "mask", replacement: source(name === "shuffle" ? args[0]! : inner) }] : [];
    case "clamp":
      return [{ kind: "bound", replacement: source(inner) }];
    case "segmentSum":
      return [{ kind: "denominator", replacement: source(inner) }];
    case "segmentMean":
      return [{ kind: "denominator", replacement: `segmentSum(${source(args[0]!)}, ${source(args[2]!)})` }];
    case "add":
      return isFormula ? [{ kind: "sign", replacement: renamed("sub") }] : [];
    case "sub":
      return isFormula ? [{ kind: "sign", replacement: renamed("add") }] : [];
    case "mul":
    case "div":
      return isFormula ? [{ kind: "denominator", replacement: source(inner) }] : [];
    case "lt":
    case "le":
    case "gt":
    case "ge":
      // The boundary is not edited: what a formula compares is continuous, and equal with probability 0.
      return [{ kind: "comparison", replacement: renamed(TURNED_METHOD[name]!) }];
    default:
      return [];
  }
}

/** As the list prints it: `before → after`. */
export const editOf = ({ from, to }: Pick<Mutant, "from" | "to">): string => `${from} → ${to}`;
