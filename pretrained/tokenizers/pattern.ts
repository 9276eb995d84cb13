/**
 * The patterns of `tokenizer.json` as regular expressions of JavaScript. Hugging Face's `tokenizers` runs them in
 * Oniguruma with Ruby's syntax, where the same letters sometimes mean other characters: `\s` is Unicode's White_Space,
 * `\d` and `\w` are Unicode's, `.`, `^` and `$` know one line end, `(?i:` is a group of its own flags (which browsers
 * have only since 2024). Parts that mean something else are translated, and parts without a counterpart are refused.
 *
 * An unbounded repetition may not hold a choice or another repetition, as in `(a+)+` or `(a|aa)*`: with those a
 * regular expression of JavaScript can take time exponential in the text. No tokenizer of a published model needs one.
 * Two repetitions in sequence, as in `\s*[\r\n]+`, are allowed: the time is a polynomial in the longest run of such
 * characters, one degree higher for each repetition. A bounded repetition counts as what it repeats, as often as it
 * may: `(a+a*){1,3}` would be six.
 */
import { fail } from "../../engine/errors.ts";

const SPACE = String.raw`\t-\r\u0085\p{Z}`;
const WORD = String.raw`\p{L}\p{M}\p{Nd}\p{Pc}`;
const HEX = "0-9A-Fa-f";
const CLASSES: Readonly<Record<string, string>> = { s: SPACE, d: String.raw`\p{Nd}`, w: WORD, h: HEX };
const CONTROLS: Readonly<Record<string, string>> = { a: String.raw`\x07`, e: String.raw`\x1b` };
/** Letters that are the same as an ASCII letter when case is ignored, beside its two cases: ſ and the Kelvin sign. */
const FOLDED: Readonly<Record<string, string>> = { s: "ſ", k: "\u212a" };
const SYNTAX = /[\^$\\.*+?()[\]{}|/]/;

/** The number of ways in which a part of a pattern can match at one place. */
interface Ways {
  /** The number of unbounded repetitions; each multiplies the time by the length of the text. */
  readonly endless: number;
  /** The number of other choices: alternatives, and how often something repeats. */
  readonly choices: number;
}
const ONE: Ways = { endless: 0, choices: 1 };
/** The largest number of choices with no, one and two unbounded repetitions. Published patterns have at most 16. */
const MOST_CHOICES = [1000, 1000, 32] as const;

/** The ways of two parts in sequence. */
const both = (a: Ways, b: Ways): Ways => ({ endless: a.endless + b.endless, choices: a.choices * b.choices });
/** The ways of an alternative of two parts. */
const either = (a: Ways, b: Ways): Ways => ({
  endless: Math.max(a.endless, b.endless),
  choices: a.choices + b.choices,
});

/**
 * The ways of a part that repeats `least` to `most` times; `most` may be Infinity if the part matches in one way only.
 */
function repeated({ endless, choices }: Ways, least: number, most: number): Ways {
  if (most === Infinity) return { endless: 1, choices: 1 };
  const often = most - least + 1;
  // choices^least + … + choices^most
  const all = choices === 1 ? often : (choices ** least * (choices ** often - 1)) / (choices - 1);
  return { endless: endless * most, choices: Number.isNaN(all) ? Infinity : all };
}

/** The state of a group whose end has not been read. */
interface Group {
  /** The ways of the alternatives so far; undefined before the first `|`. */
  closed: Ways | undefined;
  /** The ways of the parts of the current alternative, without its last part. */
  before: Ways;
  /** The last part, which a quantifier may follow. */
  last: Ways;
  readonly ignoreCase: boolean;
}
const groupOf = (ignoreCase: boolean): Group => ({ closed: undefined, before: ONE, last: ONE, ignoreCase });

/** The largest number of unbounded repetitions in sequence in a tokenizer's pattern, which reads long texts. */
const MOST_ENDLESS = 2;

/**
 * Compiles a pattern of `tokenizer.json`, flags g and u.
 * @param who whose pattern it is, for the error
 * @param mostEndless repetitions after each other; more are for short texts only
 * @throws WorldgradError with the part that cannot be used
 */
export function compilePattern(pattern: string, who = "tokenizer", mostEndless: number = MOST_ENDLESS): RegExp {
  const unusable = (why: string): never =>
    fail(`${who}: the pattern cannot be used: ${why}, in ${JSON.stringify(pattern)}`);
  const source = translate(pattern, unusable, mostEndless);
  try {
    return new RegExp(source, "gu");
  } catch (error) {
    return unusable(error instanceof Error ? error.message : String(error));
  }
}

function translate(pattern: string, no: (why: string) => never, mostEndless: number): string {
  const groups: Group[] = [groupOf(false)];
  let result = "";
  let at = 0;
  /** The ways of the open alternative, which ends here. */
  const together = ({ before, last }: Group): Ways => {
    const ways = both(before, last);
    if (ways.endless > mostEndless)
      no(`before ${at} there are more than ${mostEndless} repetitions without an end after each other`);
    if (ways.choices > MOST_CHOICES[Math.min(ways.endless, 2)]!)
      no(`before ${at} there are too many ways to match the same text`);
    return ways;
  };
  const alternatives = (group: Group): Ways => {
    const open = together(group);
    return group.closed ? either(group.closed, open) : open;
  };
  const read = (expression: RegExp): RegExpExecArray | null => {
    expression.lastIndex = at;
    const found = expression.exec(pattern);
    if (found) at += found[0].length;
    return found;
  };
  const literal = (char: string): string => {
    const plain = SYNTAX.test(char) ? `\\${char}` : char;
    const other = groups.at(-1)!.ignoreCase ? casesOf(char) : "";
    return other === "" ? plain : `[${char}${other}]`;
  };

  while (at < pattern.length) {
    const group = groups.at(-1)!;
    const quantifier = read(/(?:[*+?]|\{(?:\d+(?:,\d*)?|,\d+)\})[+?]?/uy);
    if (quantifier) {
      const [text] = quantifier;
      const isEndless = /^(?:[*+]|\{\d+,\})/.test(text);
      const { endless, choices } = group.last;
      if (isEndless && (endless > 0 || choices > 1))
        no(`the repetition at ${quantifier.index} holds a choice or a repetition`);
      if (text.length > 1 && text.endsWith("+")) no(`the possessive repetition at ${quantifier.index}`);
      result += text.replace("{,", "{0,");
      const [, least = text.startsWith("+") ? 1 : 0, exactly, most] = /^\{(\d*)(?:(\})|,(\d*))/.exec(text) ?? [];
      const upTo = text.startsWith("?") ? 1 : isEndless ? Infinity : Number(exactly ? least : most);
      group.last = repeated(group.last, Number(least), upTo);
      continue;
    }
    group.before = together(group);
    group.last = ONE;
    const opening = read(/\((?:\?(?:(i:)|[:=!]|<[=!]))?/uy);
    if (opening) {
      if (pattern[at] === "?" && opening[0] === "(") no(`'${pattern.slice(at - 1, at + 3)}' at ${at - 1}`);
      result += opening[1] || opening[0] === "(" ? "(?:" : opening[0];
      groups.push(groupOf(group.ignoreCase || opening[1] !== undefined));
      continue;
    }
    const char = String.fromCodePoint(pattern.codePointAt(at)!);
    const start = at;
    at += char.length;
    if (char === ")") {
      const closed = groups.pop()!;
      if (groups.length === 0) no(`a ')' without '(' at ${start}`);
      groups.at(-1)!.last = alternatives(closed);
      result += char;
    } else if (char === "|") {
      group.closed = alternatives(group);
      group.before = ONE;
      result += char;
    } else if (char === "[") {
      result += characterClass();
    } else if (char === "\\") {
      const escaped = escape(false);
      result += /^(\\|\[|\(\?)/.test(escaped) ? escaped : literal(escaped);
    } else if (char === ".") result += String.raw`[^\n]`;
    else if (char === "^") result += String.raw`(?<![^\n])`;
    else if (char === "$") result += String.raw`(?![^\n])`;
    else result += literal(char);
  }
  if (groups.length > 1) no("a '(' is not closed");
  together(groups[0]!);
  return result;

  /** Reads an escape after its backslash: a class or code in JavaScript's syntax, or the plain character. */
  function escape(inClass: boolean): string {
    const property = read(/([pP])\{(\^?)([^}]*)\}/uy);
    if (property) {
      const [, letter, caret, name] = property;
      const isNegative = (letter === "P") !== (caret === "^");
      return `\\${isNegative ? "P" : "p"}{${isScript(name!) ? `sc=${name}` : name}}`;
    }
    const code = read(/x\{([0-9a-fA-F]+)\}|x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})/uy);
    if (code) return `\\u{${code[1] ?? code[2] ?? code[3]}}`;
    const start = at;
    const char = String.fromCodePoint(pattern.codePointAt(at) ?? no("it ends in a backslash"));
    at += char.length;
    const lower = char.toLowerCase();
    const members = CLASSES[lower];
    if (members !== undefined) {
      if (char === lower) return inClass ? members : `[${members}]`;
      if (inClass) {
        // A class cannot hold a negated class, but for these two a negated property says the same.
        if (lower === "d") return String.raw`\P{Nd}`;
        if (lower === "s") return String.raw`\P{White_Space}`;
        return no(`'\\${char}' within a class at ${start}`);
      }
      return `[^${members}]`;
    }
    if (CONTROLS[char] !== undefined) return CONTROLS[char];
    if (lower === "b" && !inClass) {
      // JavaScript's own \b and \B know ASCII words only.
      const [inWord, atStart] = char === "b" ? ["!", "="] : ["=", "!"];
      return `(?:(?<=[${WORD}])(?${inWord}[${WORD}])|(?<![${WORD}])(?${atStart}[${WORD}]))`;
    }
    if (char === "b") return String.raw`\x08`;
    if (/[nrtfv]/.test(char)) return `\\${char}`;
    if (/[a-zA-Z0-9]/.test(char)) no(`'\\${char}' at ${start - 1}`);
    return char;
  }

  function characterClass(): string {
    const ignoreCase = groups.at(-1)!.ignoreCase;
    const start = at - 1;
    let members = "";
    if (pattern[at] === "^") {
      members = "^";
      at++;
    }
    for (let isFirst = true; ; isFirst = false) {
      if (at >= pattern.length) no(`the '[' at ${start} is not closed`);
      const char = String.fromCodePoint(pattern.codePointAt(at)!);
      if (char === "]" && !isFirst) break;
      if (char === "[" || pattern.startsWith("&&", at)) no(`a class within a class at ${at}`);
      at += char.length;
      if (char !== "\\") {
        members += /[\^\]]/.test(char) ? `\\${char}` : char;
        if (ignoreCase) members += casesOf(char);
        continue;
      }
      const escaped = escape(true);
      const isPlain =
        escaped.length === 1 || (escaped.length === 2 && escaped[0] !== "\\" && !/^\p{ASCII}/u.test(escaped));
      members += isPlain && /[\^$\\.*+?()[\]{}|/-]/.test(escaped) ? `\\${escaped}` : escaped;
    }
    at++;
    if (ignoreCase && /-/.test(members)) no(`a range within '(?i:' at ${start}`);
    return `[${members}]`;
  }
}

/** The other characters that a character stands for when case is ignored. */
function casesOf(char: string): string {
  const [lower, upper] = [char.toLowerCase(), char.toUpperCase()];
  const other = char === lower ? upper : lower;
  return (other !== char && [...other].length === 1 ? other : "") + (FOLDED[lower] ?? "");
}

/** Whether a property is the name of a script: Oniguruma takes it bare, JavaScript needs `sc=` before it. */
function isScript(name: string): boolean {
  if (name.includes("=")) return false;
  for (const [source, result] of [
    [`\\p{${name}}`, false],
    [`\\p{sc=${name}}`, true],
  ] as const) {
    try {
      return new RegExp(source, "u").unicode && result;
    } catch {
      // The next one is tried; if neither is a property, compiling the pattern says so.
    }
  }
  return false;
}
