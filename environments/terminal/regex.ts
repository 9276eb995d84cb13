/**
 * Regular expressions for grep: POSIX basic and extended syntax, matched by simulating all states at once (Thompson,
 * "Regular expression search algorithm", CACM 1968; the program form is Pike's, after Cox, "Regular Expression
 * Matching: the Virtual Machine Approach", 2009). Time is pattern × text for every pattern; JavaScript's own RegExp
 * backtracks and can hang on a hostile one.
 *
 * Supported: . * ^ $ [..] [^..] [:class:] \( \) \| \+ \? (basic) and ( ) | + ? (extended). Not here: back-references,
 * {m,n}.
 */

/** A pattern that cannot be read; the message is grep's. */
export class PatternError extends Error {}

type Instruction =
  | { readonly op: "test"; readonly accepts: (character: string) => boolean }
  | { readonly op: "start" | "end" | "match" }
  | { readonly op: "split"; targets: readonly number[] };

type Tree =
  | { readonly kind: "test"; readonly accepts: (character: string) => boolean }
  | { readonly kind: "start" | "end" }
  | { readonly kind: "repeat"; readonly of: Tree; readonly least: 0 | 1; readonly many: boolean }
  | { readonly kind: "sequence" | "choice"; readonly of: readonly Tree[] };

export interface Regex {
  /** Whether there is a match anywhere in the line. */
  test(line: string): boolean;
  /** Instructions: a test costs at most this times the length of the line. */
  readonly size: number;
}

export interface RegexOptions {
  readonly extended?: boolean;
  /** Every character is plain (grep -F). */
  readonly fixed?: boolean;
  readonly ignoreCase?: boolean;
}

/** Compiles a pattern. @throws PatternError */
export function compileRegex(pattern: string, options: RegexOptions = {}): Regex {
  const fold = (text: string): string => (options.ignoreCase ? text.toLowerCase() : text);
  const tree: Tree = options.fixed
    ? { kind: "sequence", of: [...fold(pattern)].map(literal) }
    : new Parser(fold(pattern), options.extended ?? false).parse();
  const program: Instruction[] = [];
  emit(tree, program);
  program.push({ op: "match" });
  return { test: (line) => run(program, fold(line)), size: program.length };
}

function literal(expected: string): Tree {
  return { kind: "test", accepts: (character) => character === expected };
}

const CLASSES: Readonly<Record<string, RegExp>> = {
  alpha: /[A-Za-z]/,
  digit: /[0-9]/,
  alnum: /[A-Za-z0-9]/,
  lower: /[a-z]/,
  upper: /[A-Z]/,
  space: /\s/,
  punct: /[!-/:-@[-`{-~]/,
};

/** Recursive descent: choice := sequence ('|' sequence)*; sequence := (atom repeat*)*. */
class Parser {
  readonly #characters: readonly string[];
  readonly #extended: boolean;
  #at = 0;
  #depth = 0; // open parentheses; without one, `)` is plain in extended syntax and an error in basic

  constructor(pattern: string, extended: boolean) {
    this.#characters = [...pattern];
    this.#extended = extended;
  }

  parse(): Tree {
    const tree = this.#choice();
    if (this.#at < this.#characters.length) throw new PatternError("Unmatched ) or \\)");
    return tree;
  }

  /** Whether the special character `character` is next: after a backslash in basic syntax, as it is in extended. */
  #isSpecial(character: string, at: number = this.#at): boolean {
    if (this.#extended) return this.#characters[at] === character;
    return this.#characters[at] === "\\" && this.#characters[at + 1] === character;
  }

  #take(character: string): boolean {
    if (!this.#isSpecial(character)) return false;
    this.#at += this.#extended ? 1 : 2;
    return true;
  }

  #choice(): Tree {
    const branches = [this.#sequence()];
    while (this.#take("|")) branches.push(this.#sequence());
    return branches.length === 1 ? branches[0]! : { kind: "choice", of: branches };
  }

  #sequence(): Tree {
    const parts: Tree[] = [];
    const isOver = (): boolean =>
      this.#at >= this.#characters.length ||
      this.#isSpecial("|") ||
      (!this.#extended && this.#isSpecial(")")) ||
      (this.#depth > 0 && this.#isSpecial(")"));
    while (!isOver()) {
      let part = this.#atom(parts.length === 0);
      for (;;) {
        if (this.#characters[this.#at] === "*") this.#at++;
        else if (this.#take("+")) {
          part = { kind: "repeat", of: part, least: 1, many: true };
          continue;
        } else if (this.#take("?")) {
          part = { kind: "repeat", of: part, least: 0, many: false };
          continue;
        } else break;
        part = { kind: "repeat", of: part, least: 0, many: true };
      }
      parts.push(part);
    }
    return { kind: "sequence", of: parts };
  }

  #atom(isFirst: boolean): Tree {
    if (this.#take("(")) {
      this.#depth++;
      const inner = this.#choice();
      this.#depth--;
      if (!this.#take(")")) throw new PatternError("Unmatched ( or \\(");
      return inner;
    }
    const character = this.#characters[this.#at++]!;
    if (character === ".") return { kind: "test", accepts: () => true };
    if (character === "[") return this.#bracket();
    if (character === "^" && (this.#extended || isFirst)) return { kind: "start" };
    if (character === "$" && (this.#extended || this.#endsHere())) return { kind: "end" };
    if (character === "\\") {
      if (this.#at >= this.#characters.length) throw new PatternError("Trailing backslash");
      const next = this.#characters[this.#at++]!;
      const word = /\w/;
      if (next === "w") return { kind: "test", accepts: (c) => word.test(c) };
      if (next === "W") return { kind: "test", accepts: (c) => !word.test(c) };
      if (next === "s") return { kind: "test", accepts: (c) => /\s/.test(c) };
      return literal(next);
    }
    return literal(character);
  }

  /** In basic syntax `$` is special only at the end of a branch. */
  #endsHere(): boolean {
    return this.#at >= this.#characters.length || this.#isSpecial("|") || this.#isSpecial(")");
  }

  #bracket(): Tree {
    const negated = this.#characters[this.#at] === "^";
    if (negated) this.#at++;
    const singles = new Set<string>();
    const ranges: [string, string][] = [];
    const classes: RegExp[] = [];
    for (let first = true; ; first = false) {
      const character = this.#characters[this.#at++];
      if (character === undefined) throw new PatternError("Unmatched [, [^, [:, [., or [=");
      if (character === "]" && !first) break;
      if (character === "[" && this.#characters[this.#at] === ":") {
        const end = this.#characters.indexOf(":", this.#at + 1);
        const name = this.#characters.slice(this.#at + 1, Math.max(end, 0)).join("");
        const matcher = Object.hasOwn(CLASSES, name) ? CLASSES[name] : undefined;
        if (end < 0 || this.#characters[end + 1] !== "]" || !matcher)
          throw new PatternError("Invalid character class name");
        classes.push(matcher);
        this.#at = end + 2;
        continue;
      }
      const last = this.#characters[this.#at + 1];
      if (this.#characters[this.#at] === "-" && last !== undefined && last !== "]") {
        if (last < character) throw new PatternError("Invalid range end");
        ranges.push([character, last]);
        this.#at += 2;
      } else singles.add(character);
    }
    const merged = mergedRanges(ranges);
    const matchers = [...new Set(classes)];
    const accepts = (c: string): boolean =>
      singles.has(c) || isIn(merged, c) || matchers.some((matcher) => matcher.test(c));
    return { kind: "test", accepts: negated ? (c) => !accepts(c) : accepts };
  }
}

type Range = readonly [low: string, high: string];

/** The characters in ranges that do not overlap, in order. */
function mergedRanges(ranges: readonly Range[]): Range[] {
  const merged: Range[] = [];
  for (const [low, high] of ranges.toSorted(([a], [b]) => (a < b ? -1 : 1))) {
    const last = merged.at(-1);
    if (last === undefined || low > last[1]) merged.push([low, high]);
    else if (high > last[1]) merged[merged.length - 1] = [last[0], high];
  }
  return merged;
}

/** Whether a range has the character, by binary search: a bracket counts as one instruction. */
function isIn(ranges: readonly Range[], character: string): boolean {
  let [from, to] = [0, ranges.length];
  while (from < to) {
    const middle = (from + to) >> 1;
    if (ranges[middle]![1] < character) from = middle + 1;
    else to = middle;
  }
  return from < ranges.length && ranges[from]![0] <= character;
}

/** Appends the program of a tree. A split continues at all of its targets. */
function emit(tree: Tree, program: Instruction[]): void {
  switch (tree.kind) {
    case "test":
      program.push({ op: "test", accepts: tree.accepts });
      break;
    case "start":
    case "end":
      program.push({ op: tree.kind });
      break;
    case "sequence":
      for (const part of tree.of) emit(part, program);
      break;
    case "choice": {
      const fork: Instruction = { op: "split", targets: [] };
      program.push(fork);
      const starts: number[] = [];
      const exits: { op: "split"; targets: readonly number[] }[] = [];
      for (const branch of tree.of) {
        starts.push(program.length);
        emit(branch, program);
        const exit = { op: "split" as const, targets: [] as readonly number[] };
        exits.push(exit);
        program.push(exit);
      }
      fork.targets = starts;
      for (const exit of exits) exit.targets = [program.length];
      break;
    }
    case "repeat": {
      const enter: Instruction = { op: "split", targets: [] };
      program.push(enter);
      const body = program.length;
      emit(tree.of, program);
      if (tree.many) program.push({ op: "split", targets: [body, program.length + 1] });
      enter.targets = tree.least === 0 ? [body, program.length] : [body];
      break;
    }
  }
}

/** Runs all states side by side; a new attempt starts at every place of the line. */
function run(program: readonly Instruction[], line: string): boolean {
  const characters = [...line];
  let states: number[] = [];
  for (let at = 0; at <= characters.length; at++) {
    const seen = new Uint8Array(program.length);
    const waiting: number[] = []; // states that want a character
    const pending = [0, ...states];
    while (pending.length > 0) {
      const index = pending.pop()!;
      if (seen[index]) continue;
      seen[index] = 1;
      const instruction = program[index]!;
      if (instruction.op === "match") return true;
      if (instruction.op === "test") waiting.push(index);
      else if (instruction.op === "split") pending.push(...instruction.targets);
      else if (instruction.op === "start" ? at === 0 : at === characters.length) pending.push(index + 1);
    }
    states = [];
    for (const index of waiting) {
      const instruction = program[index]!;
      if (instruction.op === "test" && at < characters.length && instruction.accepts(characters[at]!))
        states.push(index + 1);
    }
  }
  return false;
}
