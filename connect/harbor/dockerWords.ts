/** Words and variables of a Dockerfile, with the quotes and escapes that Docker knows. */
import { fail } from "../../engine/errors.ts";

export type Env = Readonly<Record<string, string>>;

/** `${…}` in each other. */
const DEEPEST = 20;
const NAME = /[A-Za-z_]\w*/y;

/** Where the brace at `open` closes, those in between left out; -1: nowhere. */
function closing(text: string, open: number): number {
  for (let [i, depth] = [open, 0]; i < text.length; i++) {
    if (text[i] === "\\") i++;
    else if (text[i] === "{") depth++;
    else if (text[i] === "}" && --depth === 0) return i;
  }
  return -1;
}

/** The value of what is between braces: `NAME`, or `NAME` with one of `:-`, `-`, `:+`, `+`, `:?`, `?` and a word. */
function valueOf(inner: string, env: Env, depth: number): string {
  const [, name, colon, sign, word = ""] = /^([A-Za-z_]\w*)(?:(:?)([-+?])([^]*))?$/.exec(inner) ?? [];
  if (name === undefined) return fail(`\${${inner}} is not supported, only :- - :+ + :? ?`);
  const value = Object.hasOwn(env, name) ? env[name]! : undefined;
  const isThere = colon === ":" ? (value ?? "") !== "" : value !== undefined;
  if (sign === "-") return isThere ? value! : process(word, env, "word", depth + 1);
  if (sign === "+") return isThere ? process(word, env, "word", depth + 1) : "";
  if (sign === "?" && !isThere) return fail(`\${${inner}}: ${name} has no value`);
  return value ?? "";
}

/** @param kind whether quotes are taken away (a word), or stay as they are (a text of several lines) */
function process(text: string, env: Env, kind: "word" | "text", depth: number): string {
  if (depth > DEEPEST) fail(`more than ${DEEPEST} \${…} in each other`);
  let [result, isQuoted] = ["", false];
  for (let i = 0; i < text.length; i++) {
    const letter = text[i]!;
    if (letter === "\\" && i + 1 < text.length) {
      const next = text[++i]!;
      const isEscape = kind === "text" ? "\\$".includes(next) : !isQuoted || '\\$"'.includes(next);
      result += isEscape ? next : `\\${next}`;
    } else if (letter === '"' && kind === "word") isQuoted = !isQuoted;
    else if (letter === "'" && kind === "word" && !isQuoted) {
      const end = text.indexOf("'", i + 1);
      if (end < 0) fail("a ' without its end");
      result += text.slice(i + 1, end);
      i = end;
    } else if (letter === "$" && text[i + 1] === "{") {
      const end = closing(text, i + 1);
      if (end < 0) fail("a ${ without its end");
      result += valueOf(text.slice(i + 2, end), env, depth);
      i = end;
    } else if (letter === "$") {
      NAME.lastIndex = i + 1;
      const name = NAME.exec(text)?.[0];
      result += name === undefined ? "$" : Object.hasOwn(env, name) ? env[name]! : "";
      i += name?.length ?? 0;
    } else result += letter;
  }
  if (isQuoted) fail('a " without its end');
  return result;
}

/**
 * A word with its variables put in and its quotes taken away. A value is never split.
 * @throws WorldgradError in one line
 */
export const expand = (text: string, env: Env): string => process(text, env, "word", 0);

/** A text of several lines with its variables put in. @throws WorldgradError in one line */
export const expandText = (text: string, env: Env): string => process(text, env, "text", 0);

/** The words of a line as they are written, quotes and all. A quote without its end is left out. */
export const rawWords = (text: string): string[] =>
  [...text.matchAll(/(?:"(?:\\[^]|[^"\\])*"|'[^']*'|\\[^]|[^\s"'\\])+/g)].map(([word]) => word);

/** The words of a line. @throws WorldgradError in one line */
export const wordsOf = (text: string, env: Env = {}): string[] => rawWords(text).map((word) => expand(word, env));
