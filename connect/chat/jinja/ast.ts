/** The parts of a parsed template. */

export type Expression =
  | { readonly is: "constant"; readonly value: string | number | boolean | null }
  | { readonly is: "float"; readonly value: number }
  | { readonly is: "name"; readonly name: string }
  | { readonly is: "list" | "tuple"; readonly items: readonly Expression[] }
  | { readonly is: "dict"; readonly items: readonly (readonly [key: Expression, value: Expression])[] }
  | { readonly is: "attribute"; readonly of: Expression; readonly name: string }
  | { readonly is: "item"; readonly of: Expression; readonly key: Expression }
  | { readonly is: "slice"; readonly of: Expression; readonly bounds: readonly (Expression | undefined)[] }
  | { readonly is: "call"; readonly of: Expression; readonly args: CallArguments }
  | { readonly is: "filter"; readonly of: Expression; readonly name: string; readonly args: CallArguments }
  | { readonly is: "test"; readonly of: Expression; readonly name: string; readonly args: CallArguments }
  | { readonly is: "not" | "minus" | "plus"; readonly of: Expression }
  | { readonly is: "and" | "or"; readonly left: Expression; readonly right: Expression }
  | { readonly is: "arithmetic"; readonly sign: string; readonly left: Expression; readonly right: Expression }
  | { readonly is: "join"; readonly items: readonly Expression[] }
  | { readonly is: "compare"; readonly left: Expression; readonly others: readonly Comparison[] }
  | {
      readonly is: "choice";
      readonly test: Expression;
      readonly chosen: Expression;
      readonly otherwise: Expression | undefined;
    }
  /** The text that a filter block or `{% set x | trim %}` hands to its first filter. */
  | { readonly is: "body" };

export type Comparison = readonly [sign: string, right: Expression];

/** The arguments of a call. A spread is `*list` or `**dict`. */
export interface CallArguments {
  readonly positional: readonly Expression[];
  readonly named: readonly (readonly [name: string, value: Expression])[];
  readonly spread: Expression | undefined;
  readonly spreadNamed: Expression | undefined;
}

/** The target of an assignment: a name, an attribute of a namespace, or several names. */
export type Target =
  | { readonly is: "name"; readonly name: string }
  | { readonly is: "attribute"; readonly of: string; readonly name: string }
  | { readonly is: "tuple"; readonly items: readonly Target[] };

/** A parameter of a macro, with its default. */
export type Parameter = readonly [name: string, otherwise: Expression | undefined];

export type Statement =
  | { readonly is: "data"; readonly text: string }
  | { readonly is: "output"; readonly value: Expression }
  | { readonly is: "if"; readonly test: Expression; readonly chosen: Block; readonly otherwise: Block }
  | {
      readonly is: "for";
      readonly target: Target;
      readonly over: Expression;
      readonly test: Expression | undefined;
      readonly body: Block;
      readonly otherwise: Block;
      readonly isRecursive: boolean;
    }
  | { readonly is: "set"; readonly target: Target; readonly value: Expression }
  | { readonly is: "setBlock"; readonly target: Target; readonly filter: Expression; readonly body: Block }
  | { readonly is: "macro"; readonly name: string; readonly parameters: readonly Parameter[]; readonly body: Block }
  | {
      readonly is: "callBlock";
      readonly call: Expression;
      readonly parameters: readonly Parameter[];
      readonly body: Block;
    }
  | { readonly is: "filterBlock"; readonly filter: Expression; readonly body: Block }
  | { readonly is: "with"; readonly values: readonly (readonly [Target, Expression])[]; readonly body: Block }
  | { readonly is: "generation"; readonly body: Block }
  | { readonly is: "break" | "continue" };

export type Block = readonly Statement[];
