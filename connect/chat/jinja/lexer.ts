/**
 * A Jinja template as tokens, cut as Jinja 3.1 cuts it with `trim_blocks` and `lstrip_blocks`: lines end in `\n`; the
 * template's last line end is dropped, and so are a newline behind a block and white space between the start of a line
 * and a block. A `-` removes all white space on its side, a `+` keeps it.
 */
import { fail } from "../../../engine/errors.ts";
import { trimEnd } from "./text.ts";

/** A token, with the line that it begins in. */
export interface Token {
  readonly kind: "data" | "begin" | "end" | "output" | "endOutput" | "name" | "text" | "integer" | "float" | "sign";
  readonly value: string;
  readonly line: number;
}

const SPACE = String.raw`\t\n\v\f\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000`;
const BLANK = new RegExp(`^[${SPACE}]*$`, "u");
const SPACES = new RegExp(`[${SPACE}]*`, "uy");
const TAG = /\{[{%#]/g;
const RAW = new RegExp(String.raw`\{%[-+]?[${SPACE}]*raw[${SPACE}]*(-?)%\}`, "uy");
const END_RAW = new RegExp(String.raw`\{%([-+]?)[${SPACE}]*endraw[${SPACE}]*([-+]?)%\}`, "ug");
const FLOAT = /(?:\d+_)*\d+(?:(?:\.(?:\d+_)*\d+)?e[+-]?(?:\d+_)*\d+|\.(?:\d+_)*\d+)/iy;
const INTEGER = /0b(?:_?[01])+|0o(?:_?[0-7])+|0x(?:_?[\da-f])+|[1-9](?:_?\d)*|0(?:_?0)*/iy;
const NAME = /[\p{L}\p{N}\p{M}_]+/uy;
const STRING = /'(?:[^'\\]|\\[^])*'|"(?:[^"\\]|\\[^])*"/y;
const SIGN = /\*\*|\/\/|[=!<>]=|[-+*/%~[\](){}<>=.:|,;]/y;
const CLOSING: Readonly<Record<string, string>> = { "(": ")", "[": "]", "{": "}" };

/** The tokens of a template. @throws WorldgradError that names the line */
export function tokensOf(template: string): Token[] {
  const source = template.replace(/\r\n?/g, "\n").replace(/\n$/, "");
  const tokens: Token[] = [];
  let at = 0;
  let line = 1;
  let isLineStart = true;

  while (at < source.length) {
    TAG.lastIndex = at;
    const found = TAG.exec(source);
    const begin = found?.index ?? source.length;
    const mark = source[begin + 1];
    const sign = source[begin + 2];
    const hasSign = sign === "-" || sign === "+";
    data(source.slice(at, begin), (text) => (found ? stripped(text, hasSign ? sign : "", mark !== "{") : text));
    if (!found) break;
    at = begin;
    const raw = mark === "%" ? match(RAW) : undefined;
    if (raw !== undefined) rawText(raw);
    else if (mark === "#") comment(hasSign ? 3 : 2);
    else tag(mark === "%" ? "begin" : "output", hasSign ? 3 : 2);
    isLineStart = source[at - 1] === "\n";
  }
  return tokens;

  /** A text between two tags. */
  function data(whole: string, strip: (text: string) => string): void {
    const value = strip(whole);
    if (value !== "") tokens.push({ kind: "data", value, line });
    count(whole);
  }

  function stripped(text: string, sign: string, isBlock: boolean): string {
    if (sign === "-") return trimEnd(text);
    if (sign === "+" || !isBlock) return text;
    const start = text.lastIndexOf("\n") + 1;
    return (start > 0 || isLineStart) && BLANK.test(text.slice(start)) ? text.slice(0, start) : text;
  }

  function rawText(head: RegExpExecArray): void {
    count(head[0]);
    at += head[0].length;
    if (head[1] === "-") skipSpaces();
    isLineStart = source[at - 1] === "\n";
    END_RAW.lastIndex = at;
    const end = END_RAW.exec(source) ?? wrong("raw has no endraw");
    data(source.slice(at, end.index), (text) => stripped(text, end[1]!, true));
    count(end[0]);
    at = end.index + end[0].length;
    afterBlock(end[2]!);
  }

  function comment(head: number): void {
    const end = source.indexOf("#}", at + head);
    if (end < 0) wrong("a comment has no end");
    const text = source.slice(at + head, end);
    count(text);
    at = end + 2;
    afterBlock(/[-+]$/.test(text) ? text.at(-1)! : "");
  }

  /** Skips what a block's end removes: with `-` all white space, without a sign the newline. */
  function afterBlock(sign: string): void {
    if (sign === "-") skipSpaces();
    else if (sign === "" && source[at] === "\n") {
      at++;
      line++;
    }
  }

  function tag(kind: "begin" | "output", length: number): void {
    tokens.push({ kind, value: "", line });
    at += length;
    const close = kind === "begin" ? "%}" : "}}";
    const open: string[] = [];
    for (;;) {
      skipSpaces();
      if (at >= source.length) wrong(`a tag has no ${close}`);
      const sign = source.startsWith(close, at + 1) && /[-+]/.test(source[at]!) ? source[at]! : "";
      const isEnd = sign === "" ? source.startsWith(close, at) : sign === "-" || kind === "begin";
      if (open.length === 0 && isEnd) {
        tokens.push({ kind: kind === "begin" ? "end" : "endOutput", value: "", line });
        at += sign.length + 2;
        if (kind === "begin") afterBlock(sign);
        else if (sign === "-") skipSpaces();
        return;
      }
      const token = word();
      const { value } = token;
      if (token.kind === "sign" && CLOSING[value] !== undefined) open.push(CLOSING[value]);
      if (token.kind === "sign" && /^[)\]}]$/.test(value) && open.pop() !== value) wrong(`unexpected '${value}'`);
      tokens.push(token);
    }
  }

  function word(): Token {
    const kinds: [Token["kind"], RegExp][] = [
      ["float", FLOAT],
      ["integer", INTEGER],
      ["name", NAME],
      ["text", STRING],
      ["sign", SIGN],
    ];
    for (const [kind, pattern] of kinds) {
      if (kind === "float" && source[at - 1] === ".") continue;
      const found = match(pattern);
      if (found === undefined) continue;
      const token = { kind, value: kind === "text" ? unescaped(found[0].slice(1, -1)) : found[0], line };
      count(found[0]);
      at += found[0].length;
      return token;
    }
    return wrong(`unexpected character ${JSON.stringify(source[at])}`);
  }

  function skipSpaces(): void {
    const spaces = match(SPACES)![0];
    count(spaces);
    at += spaces.length;
  }

  function match(pattern: RegExp): RegExpExecArray | undefined {
    pattern.lastIndex = at;
    return pattern.exec(source) ?? undefined;
  }

  function count(text: string): void {
    for (let i = text.indexOf("\n"); i >= 0; i = text.indexOf("\n", i + 1)) line++;
  }

  function wrong(what: string): never {
    return fail(`line ${line}: ${what}`);
  }
}

const ESCAPES: Readonly<Record<string, string>> = {
  "\n": "",
  "\\": "\\",
  "'": "'",
  '"': '"',
  a: "\x07",
  b: "\b",
  f: "\f",
  n: "\n",
  r: "\r",
  t: "\t",
  v: "\v",
};

/** The characters of a string literal, with Python's escapes; an unknown one stays as it is. */
function unescaped(text: string): string {
  return text.replace(
    /\\(?:x([\da-f]{2})|u([\da-f]{4})|U([\da-f]{8})|([0-7]{1,3})|([^]))/gi,
    (whole, x?: string, u?: string, long?: string, octal?: string, one?: string) => {
      const hex = x ?? (whole[1] === "u" ? u : long);
      if (octal !== undefined) return String.fromCharCode(parseInt(octal, 8));
      if (hex !== undefined) {
        const code = parseInt(hex, 16);
        const isCharacter = code <= 0x10ffff && (code < 0xd800 || code > 0xdfff);
        return isCharacter ? String.fromCodePoint(code) : fail(`${whole} is no character`);
      }
      if (one === undefined || /[xuUN]/.test(one)) return fail(`malformed escape ${whole} in a text`);
      return ESCAPES[one] ?? whole;
    },
  );
}
