/**
 * A small language for programs that agents write: numbers and lists of numbers, names, and operations in a row.
 *
 *     program  = { name "=" sum ";" } sum            the last sum is the result; a line break counts as ";"
 *     sum      = product { ("+" | "-") product }
 *     product  = sign { ("*" | "/" | "%") sign }
 *     sign     = "-" sign | row
 *     row      = atom { "." name [ "(" sum ")" ] }   x.sort.take(3).sum
 *     atom     = digits | name | "(" sum ")"
 *
 * The input is `x`. `parseProgram` checks all that can be known before a run: names are given a value before they are
 * used, and operations are known and get what they take. machine.ts runs programs, likeness.ts compares them.
 */

/** Longest program, in characters; it also bounds how deep parentheses nest. */
const MOST_CHARACTERS = 200;
/** Most digits of a number. */
const MOST_DIGITS = 9;
/** The name of the input. */
export const INPUT = "x";

export type Operator = "+" | "-" | "*" | "/" | "%";

export type Expression =
  | { readonly kind: "number"; readonly value: number }
  | { readonly kind: "name"; readonly name: string }
  | { readonly kind: "operation"; readonly operator: Operator; readonly left: Expression; readonly right: Expression }
  | { readonly kind: "call"; readonly name: string; readonly of: Expression; readonly argument?: Expression };

export interface Statement {
  readonly name: string;
  readonly value: Expression;
}

export interface Program {
  readonly statements: readonly Statement[];
  readonly result: Expression;
}

/** A program, or the place of its error (counted from 1) and the reason in a few words. */
export type Reading =
  { readonly program: Program } | { readonly error: { readonly at: number; readonly message: string } };

/** The operations of lists, and whether each takes a number, as `x.take(3)` does. */
export const OPERATIONS: Readonly<Record<string, boolean>> = {
  sum: false,
  max: false,
  min: false,
  len: false,
  head: false,
  last: false,
  sort: false,
  rev: false,
  tail: false,
  even: false,
  odd: false,
  take: true,
  drop: true,
  above: true,
  below: true,
};

/** The error for a wrong program; it does not leave this file. */
class Complaint extends Error {
  readonly at: number;
  constructor(at: number, message: string) {
    super(message);
    this.at = at;
  }
}

/**
 * Reads a program. Never throws.
 * @param functions names of programs that this one may call like operations: `x.f`
 */
export function parseProgram(text: string, functions: readonly string[] = []): Reading {
  try {
    if (text.length > MOST_CHARACTERS) throw new Complaint(MOST_CHARACTERS + 1, "too long");
    return { program: new Parser(tokens(text), functions).all() };
  } catch (error) {
    if (error instanceof Complaint) return { error: { at: error.at, message: error.message } };
    throw error;
  }
}

interface Token {
  readonly text: string;
  readonly at: number;
}

function tokens(text: string): Token[] {
  const pattern = /(?:[^\S\n])*(\d+|[a-z]+|\n|\S)/gy;
  const found = [...text.trimEnd().matchAll(pattern)].map((match) => {
    const token = match[1]!;
    return { text: token === "\n" ? ";" : token, at: match.index + match[0].length - token.length + 1 };
  });
  return [...found, { text: "", at: text.trimEnd().length + 1 }];
}

class Parser {
  readonly #tokens: readonly Token[];
  readonly #functions: readonly string[];
  readonly #names = new Set<string>([INPUT]);
  #next = 0;

  constructor(found: readonly Token[], functions: readonly string[]) {
    this.#tokens = found;
    this.#functions = functions;
  }

  all(): Program {
    const statements: Statement[] = [];
    for (;;) {
      const { text: name } = this.#token;
      if (isName(name) && this.#tokens[this.#next + 1]!.text === "=") {
        this.#next += 2;
        const value = this.#sum();
        this.#names.add(name);
        statements.push({ name, value });
        if (!this.#take(";")) throw this.#unexpected(this.#token.text === "" ? "no result" : undefined);
        continue;
      }
      const result = this.#sum();
      if (this.#token.text !== "") throw this.#unexpected();
      return { statements, result };
    }
  }

  get #token(): Token {
    return this.#tokens[this.#next]!;
  }

  #sum(): Expression {
    let left = this.#product();
    for (let operator = this.#take("+", "-"); operator; operator = this.#take("+", "-"))
      left = { kind: "operation", operator, left, right: this.#product() };
    return left;
  }

  #product(): Expression {
    let left = this.#sign();
    for (let operator = this.#take("*", "/", "%"); operator; operator = this.#take("*", "/", "%"))
      left = { kind: "operation", operator, left, right: this.#sign() };
    return left;
  }

  #sign(): Expression {
    if (!this.#take("-")) return this.#row();
    return { kind: "operation", operator: "-", left: { kind: "number", value: 0 }, right: this.#sign() };
  }

  #row(): Expression {
    let of = this.#atom();
    while (this.#take(".")) {
      const { text: name, at } = this.#token;
      const isFunction = this.#functions.includes(name);
      if (!isFunction && !Object.hasOwn(OPERATIONS, name)) throw this.#unexpected(isName(name) ? "unknown" : undefined);
      this.#next++;
      const takesNumber = !isFunction && OPERATIONS[name]!;
      if (takesNumber !== (this.#token.text === "("))
        throw new Complaint(at, `${name} takes ${takesNumber ? "a" : "no"} number`);
      of = takesNumber ? { kind: "call", name, of, argument: this.#inParentheses() } : { kind: "call", name, of };
    }
    return of;
  }

  #atom(): Expression {
    const { text, at } = this.#token;
    if (/^\d/.test(text)) {
      if (text.length > MOST_DIGITS) throw new Complaint(at, "too large");
      this.#next++;
      return { kind: "number", value: Number(text) };
    }
    if (isName(text)) {
      if (!this.#names.has(text)) throw this.#unexpected("unknown");
      this.#next++;
      return { kind: "name", name: text };
    }
    if (text !== "(") throw this.#unexpected();
    return this.#inParentheses();
  }

  #inParentheses(): Expression {
    this.#take("(");
    const inside = this.#sum();
    if (!this.#take(")")) throw this.#unexpected(this.#token.text === "" ? "missing )" : undefined);
    return inside;
  }

  /** Reads the next token if it is one of these. */
  #take<T extends string>(...wanted: readonly T[]): T | undefined {
    const found = wanted.find((text) => text === this.#token.text);
    if (found !== undefined) this.#next++;
    return found;
  }

  /** @param what in place of "unexpected": what is said of the token, or all that there is to say */
  #unexpected(what?: string): Complaint {
    const { text, at } = this.#token;
    if (text === "") return new Complaint(at, what ?? "unexpected end");
    // Long names and characters outside of ASCII (which may be half of a surrogate pair) are not repeated.
    return new Complaint(at, `${what ?? "unexpected"} ${/^[!-~]{1,12}$/.test(text) ? text : "text"}`);
  }
}

const isName = (text: string): boolean => /^[a-z]/.test(text);

const BINDING: Readonly<Record<Operator, number>> = { "+": 1, "-": 1, "*": 2, "/": 2, "%": 2 };

/** The program as text, without blanks and needless parentheses. `parseProgram` reads it back to the same program. */
export function printProgram({ statements, result }: Program): string {
  return [...statements.map(({ name, value }) => `${name}=${text(value, 1)}`), text(result, 1)].join(";");
}

/** @param least how strongly the outermost operator has to bind: 1 if any will do, 3 before an operation */
function text(expression: Expression, least: number): string {
  switch (expression.kind) {
    case "number":
      return String(expression.value);
    case "name":
      return expression.name;
    case "call": {
      const { of, name, argument } = expression;
      return `${text(of, 3)}.${name}${argument ? `(${text(argument, 1)})` : ""}`;
    }
    case "operation": {
      const { operator, left, right } = expression;
      const own = BINDING[operator];
      const inside = `${text(left, own)}${operator}${text(right, own + 1)}`;
      return own < least ? `(${inside})` : inside;
    }
  }
}
