/**
 * Runs a parsed template, as Jinja's `ImmutableSandboxedEnvironment` does in transformers: undefined names are written
 * as nothing, a template cannot change what it is given, and attributes are looked up before keys.
 */
import { fail } from "../../../engine/errors.ts";
import type { Block, CallArguments, Expression, Parameter, Statement, Target } from "./ast.ts";
import { Budget } from "./budget.ts";
import { filterNamed, type Runtime, testNamed } from "./filters.ts";
import { Loop } from "./loop.ts";
import { attributeOf, byName } from "./methods.ts";
import { dictOf, holds, nth, operate, rangeOf, slice } from "./operators.ts";
import { parse } from "./parser.ts";
import {
  type Arguments,
  Attributes,
  Callable,
  described,
  Float,
  hasLength,
  integer,
  isTrue,
  itemsOf,
  keyOf,
  Missing,
  numberOf,
  plainOf,
  sizeOf,
  textOf,
  Tuple,
  typeOf,
  type Value,
  valueFrom,
  View,
  Written,
} from "./values.ts";

/** A template that was read, and can be rendered. */
export interface Program {
  /**
   * The text that it writes.
   * @param variables JSON values, and functions of texts
   * @param size letters of the conversation, which the budget grows with
   * @param marks what is written before and after the text of a `{% generation %}` block
   */
  render(variables: Readonly<Record<string, unknown>>, size: number, marks: readonly [string, string]): string;
}

/** The largest number of letters of a template; those of published models have some ten thousand at most. */
const LONGEST = 1_000_000;
/** The largest depth of macro calls. */
const DEEPEST = 100;

/** Reads a template. @throws WorldgradError that names the line */
export function compile(template: string): Program {
  if (template.length > LONGEST) fail(`it has ${template.length} letters, at most ${LONGEST} are read`);
  const block = ofStack(() => parse(template));
  return {
    render: (variables, size, marks) => ofStack(() => new Run(new Budget(size), marks).whole(block, variables)),
  };
}

/**
 * Runs code that recurses, and reports a stack overflow as an error. Templates and macros have limits; values have
 * none.
 */
function ofStack<T>(run: () => T): T {
  try {
    return run();
  } catch (error) {
    if (error instanceof RangeError) fail("it, or what it is given, nests too deep");
    throw error;
  }
}

/** The names of a block, which sees those of the blocks around it and does not change them. */
class Scope {
  readonly #names = new Map<string, Value>();
  readonly #outer: Scope | undefined;

  constructor(outer?: Scope) {
    this.#outer = outer;
  }

  get(name: string): Value | undefined {
    return this.#names.get(name) ?? (this.#names.has(name) ? null : this.#outer?.get(name));
  }

  set(name: string, value: Value): void {
    this.#names.set(name, value);
  }
}

/** The statement that left a block; undefined if the block ran to its end. */
type End = "break" | "continue" | undefined;
type Out = string[];

/** One rendering. */
class Run implements Runtime {
  readonly budget: Budget;
  readonly #marks: readonly [string, string];
  /** The text that filters of a block are applied to. */
  #body = "";
  #depth = 0;
  readonly #used = new Map<Block, readonly [boolean, boolean]>();

  constructor(budget: Budget, marks: readonly [string, string]) {
    this.budget = budget;
    this.#marks = marks;
  }

  whole(block: Block, variables: Readonly<Record<string, unknown>>): string {
    const globals = new Scope();
    for (const one of this.#globals()) globals.set(one.name, one);
    const scope = new Scope(globals);
    for (const [name, value] of Object.entries(variables)) {
      if (value !== undefined)
        scope.set(name, typeof value === "function" ? this.#given(name, value) : valueFrom(value));
    }
    return this.#capture(block, scope);
  }

  /** A function of the caller's, which takes texts and returns JSON. */
  #given(name: string, given: object): Callable {
    return new Callable(name, (args) =>
      valueFrom((given as (...texts: string[]) => unknown)(...args.map((one) => textOf(one, this.budget)))),
    );
  }

  #globals(): Callable[] {
    const unknown = (name: string): Callable =>
      new Callable(name, () => fail(`the function ${name} is not known here`));
    return [
      new Callable("range", (args) => rangeOf(args)),
      new Callable("dict", (args, named) => dictOf(args, named, this.budget)),
      new Callable("namespace", (args, named) => {
        const values = dictOf(args, named, this.budget);
        const set = (name: string, value: Value): void => void values.set(name, value);
        return new Attributes("namespace", (name) => values.get(name), set);
      }),
      new Callable("joiner", (args, named) => {
        const [separator = ", "] = byName(["sep"], [args, named]);
        let isUsed = false;
        return new Callable("joiner", () => (isUsed ? separator : ((isUsed = true), "")));
      }),
      new Callable("raise_exception", ([message = ""]) => fail(textOf(message, this.budget))),
      unknown("cycler"),
      unknown("lipsum"),
      unknown("self"),
    ];
  }

  #capture(block: Block, scope: Scope): string {
    const out: Out = [];
    this.#run(block, scope, out);
    return out.join("");
  }

  #write(text: string, out: Out): void {
    this.budget.letters(text.length);
    out.push(text);
  }

  #run(block: Block, scope: Scope, out: Out): End {
    for (const statement of block) {
      this.budget.step();
      const end = this.#statement(statement, scope, out);
      if (end !== undefined) return end;
    }
    return undefined;
  }

  #statement(statement: Statement, scope: Scope, out: Out): End {
    switch (statement.is) {
      case "data":
        this.#write(statement.text, out);
        return undefined;
      case "output":
        this.#write(textOf(this.value(statement.value, scope), this.budget), out);
        return undefined;
      case "if":
        return this.#run(
          isTrue(this.value(statement.test, scope)) ? statement.chosen : statement.otherwise,
          scope,
          out,
        );
      case "for":
        this.#for(statement, scope, out, this.value(statement.over, scope), 0);
        return undefined;
      case "set":
        this.#assign(statement.target, this.value(statement.value, scope), scope);
        return undefined;
      case "setBlock":
        this.#assign(statement.target, this.#filtered(statement, scope), scope);
        return undefined;
      case "filterBlock":
        this.#write(textOf(this.#filtered(statement, scope), this.budget), out);
        return undefined;
      case "macro":
        scope.set(statement.name, this.#macro(statement.name, statement.parameters, statement.body, scope));
        return undefined;
      case "callBlock": {
        const { call, parameters, body } = statement;
        if (call.is !== "call") return fail("a call block without a call");
        const [args, named] = this.#arguments(call.args, scope);
        const caller = this.#macro("caller", parameters, body, scope);
        const result = this.#call(this.value(call.of, scope), [args, new Map([...named, ["caller", caller]])]);
        this.#write(textOf(result, this.budget), out);
        return undefined;
      }
      case "with": {
        const inner = new Scope(scope);
        const values = statement.values.map(([target, value]) => [target, this.value(value, scope)] as const);
        for (const [target, value] of values) this.#assign(target, value, inner);
        return this.#run(statement.body, inner, out);
      }
      case "generation": {
        const text = this.#capture(statement.body, new Scope(scope));
        this.#write(this.#marks[0] + text + this.#marks[1], out);
        return undefined;
      }
      default:
        return statement.is;
    }
  }

  #filtered({ filter, body }: { filter: Expression; body: Block }, scope: Scope): Value {
    const before = this.#body;
    this.#body = this.#capture(body, new Scope(scope));
    const value = this.value(filter, scope);
    this.#body = before;
    return value;
  }

  #assign(target: Target, value: Value, scope: Scope): void {
    if (target.is === "name") scope.set(target.name, value);
    else if (target.is === "attribute") {
      const object = scope.get(target.of);
      if (!(object instanceof Attributes) || object.set === undefined) {
        return fail(`${target.of}.${target.name} is set, and ${target.of} is no namespace`);
      }
      object.set(target.name, value);
    } else {
      const items = [...itemsOf(value)];
      if (items.length !== target.items.length) fail(`${items.length} values for ${target.items.length} names`);
      target.items.forEach((one, i) => this.#assign(one, items[i]!, scope));
    }
  }

  #for(statement: Statement & { is: "for" }, scope: Scope, out: Out, over: Value, depth: number): void {
    const { target, body, otherwise } = statement;
    const loop = new Loop(this.#kept(itemsOf(over), statement, scope));
    const again = (value: Value): string => {
      const inner: Out = [];
      this.#deeper(() => this.#for(statement, scope, inner, value, depth + 1));
      return inner.join("");
    };
    const attributes = new Attributes(
      "loop",
      (name) => loop.attribute(name, depth, this.budget),
      undefined,
      statement.isRecursive ? ([value = null]) => again(value) : undefined,
    );
    let isEmpty = true;
    for (let item = loop.next(); item !== undefined; item = loop.next()) {
      this.budget.step();
      isEmpty = false;
      const inner = new Scope(scope);
      inner.set("loop", attributes);
      this.#assign(target, item, inner);
      if (this.#run(body, inner, out) === "break") break;
    }
    if (isEmpty) this.#run(otherwise, new Scope(scope), out);
  }

  /** The items of a loop for which its test holds. */
  *#kept(
    items: Iterable<Value>,
    { target, test }: Statement & { is: "for" },
    scope: Scope,
  ): Generator<Value, undefined> {
    for (const item of items) {
      this.budget.step();
      if (test !== undefined) {
        const inner = new Scope(scope);
        this.#assign(target, item, inner);
        if (!isTrue(this.value(test, inner))) continue;
      }
      yield item;
    }
    return undefined;
  }

  #macro(name: string, parameters: readonly Parameter[], body: Block, scope: Scope): Callable {
    return new Callable(name, (args, named) => {
      const inner = new Scope(scope);
      const rest = new Map(named);
      inner.set("caller", rest.get("caller") ?? new Missing("'caller'"));
      if (!parameters.some(([own]) => own === "caller")) rest.delete("caller");
      parameters.forEach(([own, otherwise], i) => {
        const isGiven = i < args.length;
        if (isGiven && rest.has(own)) fail(`macro ${name}: two values for ${own}`);
        const given = isGiven ? args[i]! : rest.get(own);
        rest.delete(own);
        inner.set(
          own,
          given ?? (given === null ? null : otherwise ? this.value(otherwise, inner) : new Missing(`'${own}'`)),
        );
      });
      const extra = args.slice(parameters.length);
      const [hasMore, hasMoreNames] = this.#uses(body);
      if (hasMore) inner.set("varargs", new Tuple(extra));
      else if (extra.length > 0) fail(`macro ${name}: ${args.length} values for ${parameters.length} parameters`);
      if (hasMoreNames) inner.set("kwargs", new Map(rest));
      else if (rest.size > 0) fail(`macro ${name}: it has no parameter ${[...rest.keys()].join(", ")}`);
      return this.#deeper(() => this.#capture(body, inner));
    });
  }

  /** Whether the body of a macro reads `varargs` and `kwargs`. */
  #uses(body: Block): readonly [boolean, boolean] {
    const known = this.#used.get(body) ?? ([mentions(body, "varargs"), mentions(body, "kwargs")] as const);
    this.#used.set(body, known);
    return known;
  }

  #deeper<T>(run: () => T): T {
    if (++this.#depth > DEEPEST) fail(`more than ${DEEPEST} calls within each other`);
    const result = run();
    this.#depth--;
    return result;
  }

  #arguments({ positional, named, spread, spreadNamed }: CallArguments, scope: Scope): Arguments {
    const args = positional.map((one) => this.value(one, scope));
    if (spread !== undefined) {
      for (const one of itemsOf(this.value(spread, scope))) {
        this.budget.step();
        args.push(one);
      }
    }
    const names = new Map(named.map(([name, one]) => [name, this.value(one, scope)]));
    if (spreadNamed !== undefined) {
      const more = this.value(spreadNamed, scope);
      if (!(more instanceof Map)) return fail(`** of ${described(more)}`);
      for (const [name, value] of more) names.set(String(name), value);
    }
    return [args, names];
  }

  #call(of: Value, args: Arguments): Value {
    const call = of instanceof Callable || of instanceof Attributes ? of.call : undefined;
    if (call === undefined)
      return fail(`${described(of)}, which is called${of instanceof Missing ? "" : " as a function"}`);
    return call(...args);
  }

  /** The value of an expression. */
  value(expression: Expression, scope: Scope): Value {
    this.budget.step();
    switch (expression.is) {
      case "constant":
        return expression.value;
      case "float":
        return new Float(expression.value);
      case "name":
        return (
          scope.get(expression.name) ??
          (scope.get(expression.name) === null ? null : new Missing(`'${expression.name}'`))
        );
      case "body":
        return this.#body;
      case "list":
        return expression.items.map((item) => this.value(item, scope));
      case "tuple":
        return new Tuple(expression.items.map((item) => this.value(item, scope)));
      case "dict":
        return new Map(
          expression.items.map(([key, item]) => [keyOf(this.value(key, scope)), this.value(item, scope)] as const),
        );
      case "attribute":
        return this.#attribute(this.value(expression.of, scope), expression.name);
      case "item":
        return this.item(this.value(expression.of, scope), this.value(expression.key, scope));
      case "slice": {
        const bounds = expression.bounds.map((bound) => (bound === undefined ? null : this.value(bound, scope)));
        return slice(this.value(expression.of, scope), bounds, this.budget);
      }
      case "call":
        return this.#call(this.value(expression.of, scope), this.#arguments(expression.args, scope));
      case "filter": {
        const of = this.value(expression.of, scope);
        const filter = filterNamed(expression.name);
        if (typeof of === "string") this.budget.reading(of);
        const result = filter(of, this.#arguments(expression.args, scope), this);
        if (typeof result === "string") this.budget.letters(result.length);
        return result;
      }
      case "test": {
        const of = this.value(expression.of, scope);
        const [args] = this.#arguments(expression.args, scope);
        if (typeof of === "string") this.budget.reading(of);
        return testNamed(expression.name)(of, args, this.budget);
      }
      case "not":
        return !isTrue(this.value(expression.of, scope));
      case "minus":
      case "plus": {
        const of = this.value(expression.of, scope);
        const number = numberOf(of) ?? fail(`${described(of)} with a sign`);
        const signed = expression.is === "minus" ? -number : number;
        return of instanceof Float ? new Float(signed) : integer(signed);
      }
      case "and":
      case "or": {
        const left = this.value(expression.left, scope);
        return isTrue(left) === (expression.is === "and") ? this.value(expression.right, scope) : left;
      }
      case "arithmetic": {
        const left = this.value(expression.left, scope);
        return operate(expression.sign, left, this.value(expression.right, scope), this.budget);
      }
      case "join": {
        const items = expression.items.map((item) => this.value(item, scope));
        const texts = items.map((item) => textOf(item, this.budget));
        return this.budget.made(texts.join(""));
      }
      case "compare":
        return this.#compare(this.value(expression.left, scope), expression.others, scope);
      case "choice":
        if (isTrue(this.value(expression.test, scope))) return this.value(expression.chosen, scope);
        return expression.otherwise === undefined
          ? new Missing("an expression whose condition is false and that has no else")
          : this.value(expression.otherwise, scope);
    }
  }

  #compare(first: Value, others: readonly (readonly [string, Expression])[], scope: Scope): boolean {
    let left = first;
    for (const [sign, expression] of others) {
      const right = this.value(expression, scope);
      if (!holds(sign, left, right, this.budget)) return false;
      left = right;
    }
    return true;
  }

  #attribute(value: Value, name: string): Value {
    if (value instanceof Missing) return fail(`${value.what} is undefined, its .${name} is asked for`);
    const found = attributeOf(value, name, this.budget);
    if (found !== undefined) return found;
    const entry = this.#inDict(value, name);
    return entry === undefined ? new Missing(`'${name}' of a ${typeOf(value)}`) : entry;
  }

  #inDict(value: Value, key: Value): Value | undefined {
    if (!(value instanceof Map) || (typeof key === "object" && key !== null)) return undefined;
    return value.get(keyOf(key)) ?? (value.has(keyOf(key)) ? null : undefined);
  }

  item(value: Value, given: Value): Value {
    const key = plainOf(given);
    if (value instanceof Missing) return fail(`${value.what} is undefined, an item of it is asked for`);
    const found = this.#inDict(value, key);
    if (found !== undefined) return found;
    const index = typeof key === "boolean" ? Number(key) : key;
    if (value instanceof Written && typeof index === "number") {
      const one = this.item(value.text, index);
      return typeof one === "string" ? new Written(one) : one;
    }
    if (typeof index === "number" && hasLength(value) && !(value instanceof Map) && !(value instanceof View)) {
      if (typeof value === "string") this.budget.reading(value);
      const at = index < 0 ? index + sizeOf(value) : index;
      const one = at < 0 ? undefined : nth(value, at);
      if (one !== undefined) return one;
    }
    const attribute = typeof key === "string" ? attributeOf(value, key, this.budget) : undefined;
    return (
      attribute ??
      new Missing(`item ${typeof key === "string" ? `'${key}'` : textOf(key, this.budget)} of a ${typeOf(value)}`)
    );
  }
}

/** Whether a part of a template reads a name. */
function mentions(part: unknown, name: string): boolean {
  if (typeof part !== "object" || part === null) return false;
  if ("is" in part && part.is === "name" && "name" in part && part.name === name) return true;
  return Object.values(part).some((inner) => mentions(inner, name));
}
