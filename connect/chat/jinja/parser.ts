/**
 * The grammar of Jinja 3.1, as far as chat templates use it. Templates are read by recursive descent, one method for
 * each rule of expressions, from `a if b else c` down to literals.
 */
import { fail } from "../../../engine/errors.ts";
import type { Block, CallArguments, Comparison, Expression, Parameter, Statement, Target } from "./ast.ts";
import { type Token, tokensOf } from "./lexer.ts";

const CONSTANTS = new Map<string, boolean | null>([
  ["true", true],
  ["True", true],
  ["false", false],
  ["False", false],
  ["none", null],
  ["None", null],
]);
const BODY: Expression = { is: "body" };
const NO_ARGUMENTS: CallArguments = { positional: [], named: [], spread: undefined, spreadNamed: undefined };
/** The largest depth of a template. Python's compiler takes about 100 levels. */
const DEPTH = 200;

/** Reads a template. @throws WorldgradError that names the line */
export function parse(template: string): Block {
  return new Parser(tokensOf(template)).template();
}

class Parser {
  readonly #tokens: readonly Token[];
  #at = 0;
  #depth = 0;

  constructor(tokens: readonly Token[]) {
    this.#tokens = tokens;
  }

  template(): Block {
    const body = this.#block([]);
    return this.#token === undefined ? body : this.#wrong("unexpected end of a block");
  }

  get #token(): Token | undefined {
    return this.#tokens[this.#at];
  }

  #wrong(what: string): never {
    const token = this.#token ?? this.#tokens.at(-1);
    const found = this.#token === undefined ? "the end" : `'${token?.value || token?.kind}'`;
    return fail(`line ${token?.line ?? 1}: ${what}, found ${found}`);
  }

  #is(kind: Token["kind"], ...values: readonly string[]): boolean {
    const token = this.#token;
    return token?.kind === kind && (values.length === 0 || values.includes(token.value));
  }

  #skip(kind: Token["kind"], ...values: readonly string[]): string | undefined {
    if (!this.#is(kind, ...values)) return undefined;
    return this.#tokens[this.#at++]!.value;
  }

  #expect(kind: Token["kind"], ...values: readonly string[]): string {
    return (
      this.#skip(kind, ...values) ??
      this.#wrong(`expected ${values.length === 0 ? `a ${kind}` : `'${values.join("' or '")}'`}`)
    );
  }

  #nested<T>(read: () => T): T {
    if (++this.#depth > DEPTH) this.#wrong(`more than ${DEPTH} levels within each other`);
    const result = read();
    this.#depth--;
    return result;
  }

  /** Statements up to one of the tags. The tag's name is read, the rest of the tag is not. */
  #block(ends: readonly string[]): Block {
    return this.#nested(() => {
      const block: Statement[] = [];
      for (let token = this.#token; token !== undefined; token = this.#token) {
        if (token.kind === "data") {
          this.#at++;
          block.push({ is: "data", text: token.value });
        } else if (token.kind === "output") {
          this.#at++;
          const value = this.#tuple();
          this.#expect("endOutput");
          block.push({ is: "output", value });
        } else {
          const next = this.#tokens[this.#at + 1];
          this.#expect("begin");
          if (next?.kind === "name" && ends.includes(next.value)) return block;
          block.push(this.#statement());
        }
      }
      return ends.length === 0 ? block : this.#wrong(`expected {% ${ends.join(" %} or {% ")} %}`);
    });
  }

  /** The body of a statement and its end: `%} … {% endX %}`. */
  #body(end: string): Block {
    this.#expect("end");
    const body = this.#block([end]);
    this.#expect("name", end);
    this.#expect("end");
    return body;
  }

  #statement(): Statement {
    const name = this.#expect("name");
    switch (name) {
      case "if":
        return this.#if();
      case "for":
        return this.#for();
      case "set":
        return this.#set();
      case "macro": {
        const own = this.#expect("name");
        return { is: "macro", name: own, parameters: this.#parameters(), body: this.#body("endmacro") };
      }
      case "call": {
        const parameters = this.#is("sign", "(") ? this.#parameters() : [];
        const call = this.expression();
        if (call.is !== "call") this.#wrong("expected a call");
        return { is: "callBlock", call, parameters, body: this.#body("endcall") };
      }
      case "filter":
        return { is: "filterBlock", filter: this.#filters(BODY, true), body: this.#body("endfilter") };
      case "with":
        return this.#with();
      case "generation":
        return { is: "generation", body: this.#body("endgeneration") };
      case "break":
      case "continue":
        this.#expect("end");
        return { is: name };
      default:
        this.#at--;
        return this.#wrong("expected a statement that chat templates have");
    }
  }

  #if(): Statement {
    const test = this.#tuple(false);
    this.#expect("end");
    const chosen = this.#block(["elif", "else", "endif"]);
    const next = this.#expect("name");
    if (next === "elif") return { is: "if", test, chosen, otherwise: [this.#nested(() => this.#if())] };
    let otherwise: Block = [];
    if (next === "else") {
      otherwise = this.#body("endif");
    } else this.#expect("end");
    return { is: "if", test, chosen, otherwise };
  }

  #for(): Statement {
    const target = this.#target(["in"]);
    this.#expect("name", "in");
    const over = this.#tuple(false, ["recursive"]);
    const test = this.#skip("name", "if") === undefined ? undefined : this.expression();
    const isRecursive = this.#skip("name", "recursive") !== undefined;
    this.#expect("end");
    const body = this.#block(["endfor", "else"]);
    let otherwise: Block = [];
    if (this.#expect("name") === "else") otherwise = this.#body("endfor");
    else this.#expect("end");
    return { is: "for", target, over, test, body, otherwise, isRecursive };
  }

  #set(): Statement {
    const target = this.#target([]);
    if (this.#skip("sign", "=") === undefined) {
      return { is: "setBlock", target, filter: this.#filters(BODY), body: this.#body("endset") };
    }
    const value = this.#tuple();
    this.#expect("end");
    return { is: "set", target, value };
  }

  #with(): Statement {
    const values: [Target, Expression][] = [];
    while (!this.#is("end")) {
      if (values.length > 0) this.#expect("sign", ",");
      const target = this.#oneTarget();
      this.#expect("sign", "=");
      values.push([target, this.expression()]);
    }
    return { is: "with", values, body: this.#body("endwith") };
  }

  #target(ends: readonly string[]): Target {
    const items = [this.#oneTarget()];
    let isTuple = false;
    while (this.#skip("sign", ",") !== undefined) {
      isTuple = true;
      if (this.#is("sign", "=") || this.#is("name", ...ends, "\0")) break;
      items.push(this.#oneTarget());
    }
    return isTuple ? { is: "tuple", items } : items[0]!;
  }

  #oneTarget(): Target {
    if (this.#skip("sign", "(") !== undefined) {
      const target = this.#target([]);
      this.#expect("sign", ")");
      return target;
    }
    const name = this.#expect("name");
    if (CONSTANTS.has(name)) this.#wrong(`${name} is assigned to`);
    return this.#skip("sign", ".") === undefined
      ? { is: "name", name }
      : { is: "attribute", of: name, name: this.#expect("name") };
  }

  #parameters(): Parameter[] {
    const parameters: Parameter[] = [];
    this.#expect("sign", "(");
    while (this.#skip("sign", ")") === undefined) {
      if (parameters.length > 0) this.#expect("sign", ",");
      if (this.#skip("sign", ")") !== undefined) break;
      const name = this.#expect("name");
      const otherwise = this.#skip("sign", "=") === undefined ? undefined : this.expression();
      if (otherwise === undefined && parameters.at(-1)?.[1] !== undefined) this.#wrong("a parameter has no default");
      parameters.push([name, otherwise]);
    }
    return parameters;
  }

  /** An expression; several with commas between them are a tuple. */
  #tuple(hasChoice = true, ends: readonly string[] = [], isInParentheses = false): Expression {
    const items: Expression[] = [];
    let isTuple = false;
    for (;;) {
      if (items.length > 0) {
        if (this.#skip("sign", ",") === undefined) break;
        isTuple = true;
      }
      const isEnd =
        this.#is("end") || this.#is("endOutput") || this.#is("sign", ")") || this.#is("name", ...ends, "\0");
      if (isEnd) break;
      items.push(hasChoice ? this.expression() : this.#nested(() => this.#or()));
    }
    if (!isTuple && items.length === 1) return items[0]!;
    if (items.length === 0 && !isInParentheses) this.#wrong("expected an expression");
    return { is: "tuple", items };
  }

  expression(): Expression {
    return this.#nested(() => {
      let chosen = this.#or();
      while (this.#skip("name", "if") !== undefined) {
        const test = this.#or();
        const otherwise = this.#skip("name", "else") === undefined ? undefined : this.expression();
        chosen = { is: "choice", test, chosen, otherwise };
      }
      return chosen;
    });
  }

  #or(): Expression {
    let left = this.#and();
    while (this.#skip("name", "or") !== undefined) left = { is: "or", left, right: this.#and() };
    return left;
  }

  #and(): Expression {
    let left = this.#not();
    while (this.#skip("name", "and") !== undefined) left = { is: "and", left, right: this.#not() };
    return left;
  }

  #not(): Expression {
    if (this.#is("name", "not")) {
      this.#at++;
      return { is: "not", of: this.#nested(() => this.#not()) };
    }
    return this.#compare();
  }

  #compare(): Expression {
    const left = this.#sum();
    const others: Comparison[] = [];
    for (;;) {
      const sign = this.#skip("sign", "==", "!=", "<", "<=", ">", ">=") ?? this.#skip("name", "in");
      const next = this.#tokens[this.#at + 1];
      if (sign !== undefined) others.push([sign, this.#sum()]);
      else if (this.#is("name", "not") && next?.kind === "name" && next.value === "in") {
        this.#at += 2;
        others.push(["not in", this.#sum()]);
      } else break;
    }
    return others.length === 0 ? left : { is: "compare", left, others };
  }

  #sum(): Expression {
    return this.#chain(["+", "-"], () => this.#join());
  }

  #join(): Expression {
    const items = [this.#product()];
    while (this.#skip("sign", "~") !== undefined) items.push(this.#product());
    return items.length === 1 ? items[0]! : { is: "join", items };
  }

  #product(): Expression {
    return this.#chain(["*", "/", "//", "%"], () => this.#chain(["**"], () => this.#unary(true)));
  }

  #chain(signs: readonly string[], next: () => Expression): Expression {
    let left = next();
    for (let sign = this.#skip("sign", ...signs); sign !== undefined; sign = this.#skip("sign", ...signs)) {
      left = { is: "arithmetic", sign, left, right: next() };
    }
    return left;
  }

  #unary(hasFilters: boolean): Expression {
    const sign = this.#skip("sign", "-", "+");
    const own: Expression =
      sign === undefined
        ? this.#postfix(this.#primary())
        : { is: sign === "-" ? "minus" : "plus", of: this.#nested(() => this.#unary(false)) };
    return hasFilters ? this.#filtersAndTests(sign === undefined ? own : this.#postfix(own)) : own;
  }

  #primary(): Expression {
    const token = this.#token;
    if (token?.kind === "name") {
      this.#at++;
      const constant = CONSTANTS.get(token.value);
      return constant === undefined ? { is: "name", name: token.value } : { is: "constant", value: constant };
    }
    if (token?.kind === "text") {
      let value = "";
      for (let next = this.#skip("text"); next !== undefined; next = this.#skip("text")) value += next;
      return { is: "constant", value };
    }
    if (token?.kind === "integer" || token?.kind === "float") {
      this.#at++;
      const value = Number(token.value.replaceAll("_", ""));
      if (token.kind === "float") return { is: "float", value };
      return Number.isSafeInteger(value) ? { is: "constant", value } : this.#wrong("an integer is too large");
    }
    const sign = this.#skip("sign", "(", "[", "{");
    if (sign === "(") {
      const inner = this.#tuple(true, [], true);
      this.#expect("sign", ")");
      return inner;
    }
    if (sign === "[") return { is: "list", items: this.#items("]", () => this.expression()) };
    if (sign === "{") {
      const pair = (): [Expression, Expression] => {
        const key = this.expression();
        this.#expect("sign", ":");
        return [key, this.expression()];
      };
      return { is: "dict", items: this.#items("}", pair) };
    }
    return this.#wrong("expected an expression");
  }

  /** Things between commas up to a sign, which is read. */
  #items<T>(end: string, read: () => T): T[] {
    const items: T[] = [];
    while (this.#skip("sign", end) === undefined) {
      if (items.length > 0) this.#expect("sign", ",");
      if (this.#skip("sign", end) !== undefined) break;
      items.push(read());
    }
    return items;
  }

  #postfix(of: Expression): Expression {
    for (;;) {
      if (this.#is("sign", "(")) of = { is: "call", of, args: this.#arguments() };
      else if (this.#skip("sign", ".") !== undefined) {
        const index = this.#skip("integer");
        of =
          index === undefined
            ? { is: "attribute", of, name: this.#expect("name") }
            : { is: "item", of, key: { is: "constant", value: Number(index) } };
      } else if (this.#skip("sign", "[") !== undefined) of = this.#subscript(of);
      else return of;
    }
  }

  #subscript(of: Expression): Expression {
    const bounds: (Expression | undefined)[] = [undefined];
    while (!this.#is("sign", "]")) {
      if (this.#skip("sign", ":") !== undefined) bounds.push(undefined);
      else if (bounds.at(-1) === undefined) bounds[bounds.length - 1] = this.expression();
      else this.#wrong("expected ']'");
    }
    this.#expect("sign", "]");
    if (bounds.length > 3 || bounds.length + (bounds[0] ? 1 : 0) === 1) this.#wrong("expected an index");
    return bounds.length === 1 ? { is: "item", of, key: bounds[0]! } : { is: "slice", of, bounds };
  }

  #filtersAndTests(of: Expression): Expression {
    for (;;) {
      if (this.#is("sign", "|")) of = this.#filters(of);
      else if (this.#skip("name", "is") !== undefined) of = this.#test(of);
      else if (this.#is("sign", "(")) of = { is: "call", of, args: this.#arguments() };
      else return of;
    }
  }

  /** @param isFirst whether the first filter has no `|` before it, as in `{% filter upper %}` */
  #filters(of: Expression, isFirst = false): Expression {
    while (isFirst || this.#skip("sign", "|") !== undefined) {
      isFirst = false;
      const name = this.#dotted();
      of = { is: "filter", of, name, args: this.#is("sign", "(") ? this.#arguments() : NO_ARGUMENTS };
    }
    return of;
  }

  #dotted(): string {
    let name = this.#expect("name");
    while (this.#skip("sign", ".") !== undefined) name += `.${this.#expect("name")}`;
    return name;
  }

  #test(of: Expression): Expression {
    const isNot = this.#skip("name", "not") !== undefined;
    const name = this.#dotted();
    let args = NO_ARGUMENTS;
    if (this.#is("sign", "(")) args = this.#arguments();
    else if (
      ["name", "text", "integer", "float"].some((kind) => this.#is(kind as Token["kind"])) ||
      this.#is("sign", "[", "{")
    ) {
      if (this.#is("name", "is")) this.#wrong("tests cannot be chained");
      if (!this.#is("name", "else", "or", "and")) {
        args = { ...NO_ARGUMENTS, positional: [this.#postfix(this.#primary())] };
      }
    }
    const test: Expression = { is: "test", of, name, args };
    return isNot ? { is: "not", of: test } : test;
  }

  #arguments(): CallArguments {
    const positional: Expression[] = [];
    const named: [string, Expression][] = [];
    let spread: Expression | undefined;
    let spreadNamed: Expression | undefined;
    this.#expect("sign", "(");
    this.#items(")", () => {
      const next = this.#tokens[this.#at + 1];
      const stars = this.#skip("sign", "*", "**");
      if (stars === "*" && spread === undefined && spreadNamed === undefined) spread = this.expression();
      else if (stars === "**" && spreadNamed === undefined) spreadNamed = this.expression();
      else if (stars !== undefined) this.#wrong("expected another argument");
      else if (this.#is("name") && next?.kind === "sign" && next.value === "=") {
        const name = this.#expect("name");
        this.#at++;
        named.push([name, this.expression()]);
      } else {
        if (named.length > 0 || spread !== undefined || spreadNamed !== undefined)
          this.#wrong("expected a named argument");
        positional.push(this.expression());
      }
    });
    return { positional, named, spread, spreadNamed };
  }
}
