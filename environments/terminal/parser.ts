/**
 * From a command line to pipelines of commands: the part of POSIX shell grammar (IEEE 1003.1, "Shell Command Language")
 * that one-line agents use: words with '..', ".." and \ quoting, `|`, `&&`, `||`, `;`, `<`, `>`, `>>`, `2>`, `2>>`,
 * `2>&1`, `#`.
 *
 * Not here: variables, command substitution, background jobs, control structures. A `$` is an ordinary character;
 * parentheses, backquotes and a single `&` are syntax errors. Error texts are those of bash without the `bash: line 1:
 * ` in front.
 */

/** A word after quote removal, and the same word as a pattern in which quoted `*`, `?` and `\` are escaped by `\`. */
export interface Word {
  readonly text: string;
  readonly pattern: string;
  /** Has an unquoted `*` or `?`: to be expanded. */
  readonly isGlob: boolean;
}

export interface Redirection {
  readonly kind: "<" | ">" | ">>" | "2>" | "2>>" | "2>&1";
  /** Empty for `2>&1`. */
  readonly target: Word;
}

export interface Command {
  readonly words: readonly Word[];
  readonly redirections: readonly Redirection[];
}

/** Commands joined by `|`, and when to run them: always, or if what ran before succeeded or failed. */
export interface Pipeline {
  readonly when: ";" | "&&" | "||";
  readonly commands: readonly Command[];
}

/** A line that is not shell; the message is what the shell prints. */
export class ShellSyntaxError extends Error {}

type Token = { readonly word: Word } | { readonly operator: string };

const OPERATORS = /^(?:2>&1|2>>|2>|&&|;;|\|\||>>|[|;<>&()`\n])/;
/**
 * The characters that end a word unless it is quoted. Other white space (\r, \v, a no-break space) is an ordinary
 * character, as in bash.
 */
const WORD_END = /[ \t\n|;<>&()`]/;

/**
 * Splits a line into words and operators.
 * @param home what an unquoted `~` at the start of a word stands for
 * @throws ShellSyntaxError for a quote that is not closed
 */
export function tokenize(line: string, home: string): Token[] {
  const tokens: Token[] = [];
  let at = 0;
  while (at < line.length) {
    const character = line[at]!;
    if (character === " " || character === "\t") at++;
    else if (character === "#") while (at < line.length && line[at] !== "\n") at++;
    else {
      const operator = OPERATORS.exec(line.slice(at, at + 4))?.[0];
      if (operator !== undefined) {
        tokens.push({ operator });
        at += operator.length;
      } else {
        const [word, end] = readWord(line, at, home);
        tokens.push({ word });
        at = end;
      }
    }
  }
  return tokens;
}

/** Reads the word that starts at `at`; returns it and the place after it. */
function readWord(line: string, at: number, home: string): [Word, number] {
  let text = "";
  let pattern = "";
  let isGlob = false;
  const addLiteral = (literal: string): void => {
    text += literal;
    pattern += literal.replace(/[*?\\]/g, "\\$&");
  };
  if (line[at] === "~" && /^~(?:[ \t\n/|;<>&()`]|$)/.test(line.slice(at, at + 2))) {
    addLiteral(home);
    at++;
  }
  while (at < line.length && !WORD_END.test(line[at]!)) {
    const character = line[at++]!;
    if (character === "\\") {
      if (line[at] !== "\n") addLiteral(at < line.length ? line[at]! : "\\");
      at++;
    } else if (character === "'" || character === '"') {
      const [quoted, end] = readQuoted(line, at, character);
      addLiteral(quoted);
      at = end;
    } else if (character === "*" || character === "?") {
      text += character;
      pattern += character;
      isGlob = true;
    } else addLiteral(character);
  }
  return [{ text, pattern, isGlob }, at];
}

/** Reads up to the closing quote; in double quotes, `\` protects `"`, `\`, `$` and the backquote. */
function readQuoted(line: string, at: number, quote: string): [string, number] {
  let text = "";
  for (; at < line.length; at++) {
    if (line[at] === quote) return [text, at + 1];
    if (quote === '"' && line[at] === "\\" && at + 1 < line.length && '"\\$`\n'.includes(line[at + 1]!)) {
      at++;
      if (line[at] === "\n") continue;
    }
    text += line[at];
  }
  throw new ShellSyntaxError(`unexpected EOF while looking for matching \`${quote}'`);
}

/**
 * Parses a line. An empty line is an empty list.
 * @throws ShellSyntaxError with bash's message
 */
export function parse(line: string, home: string): Pipeline[] {
  const tokens = tokenize(line, home);
  const pipelines: Pipeline[] = [];
  let when: Pipeline["when"] = ";";
  let commands: Command[] = [];
  let words: Word[] = [];
  let redirections: Redirection[] = [];
  let needsCommand = false; // after `|`, `&&` and `||` a command must follow
  const isEmpty = (): boolean => words.length === 0 && redirections.length === 0;
  const endCommand = (): void => {
    commands.push({ words, redirections });
    [words, redirections] = [[], []];
  };

  for (let i = 0; i < tokens.length; i++) {
    const token = tokens[i]!;
    if ("word" in token) {
      words.push(token.word);
      continue;
    }
    const operator = token.operator;
    switch (operator) {
      case "2>&1":
        redirections.push({ kind: operator, target: { text: "", pattern: "", isGlob: false } });
        break;
      case "<":
      case ">":
      case ">>":
      case "2>":
      case "2>>": {
        const target = tokens[++i];
        if (target === undefined) throw unexpected("newline");
        if ("operator" in target) throw unexpected(target.operator);
        redirections.push({ kind: operator, target: target.word });
        break;
      }
      case "|":
        if (isEmpty()) throw unexpected(operator);
        endCommand();
        needsCommand = true;
        continue;
      case "\n": // a line break ends a command, and is nothing where there is none
        if (isEmpty()) continue;
        endCommand();
        pipelines.push({ when, commands });
        [commands, when] = [[], ";"];
        break;
      case "&&":
      case "||":
      case ";":
        if (isEmpty()) throw unexpected(operator);
        endCommand();
        pipelines.push({ when, commands });
        [commands, when] = [[], operator];
        needsCommand = operator !== ";";
        continue;
      default:
        throw unexpected(operator);
    }
    needsCommand = false;
  }
  if (!isEmpty()) {
    endCommand();
    pipelines.push({ when, commands });
  } else if (needsCommand) throw new ShellSyntaxError("syntax error: unexpected end of file");
  return pipelines;
}

function unexpected(token: string): ShellSyntaxError {
  return new ShellSyntaxError(`syntax error near unexpected token \`${token === "\n" ? "newline" : token}'`);
}
