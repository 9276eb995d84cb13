/**
 * Formulas of the chapters as MathML. In a chapter's comment a formula is an indented block in the signs of a book:
 * `Σ_x P(x)`, `e^(q·k)`, `∂L/∂x_i`, so that it is read where the program is read, too. Below each other, lines are
 * aligned at the column in which several begin, and two blanks or more keep a remark apart.
 */
import { fail } from "../../engine/errors.ts";
import { escape } from "./html.ts";

const LETTER = /\p{L}/u;
/** Words that are functions, beside what follows them. */
const FUNCTIONS = new Set(["clip", "log", "max", "mean", "min", "std", "vjp"]);
const SPACE = "&nbsp;";
/** A remark beside a formula, which is no formula. */
const REMARK = /^[A-Za-z]{3,}[ ,]/;

/** A part of a formula, in MathML; `inner` is what stands in its parentheses, if it has such. */
interface Part {
  readonly html: string;
  readonly inner?: string;
  readonly kind: "item" | "operator" | "words" | "tight";
}

const row = (parts: readonly Part[]): string =>
  parts.length === 1 ? parts[0]!.html : `<mrow>${parts.map(({ html }) => html).join("")}</mrow>`;
const item = (html: string, inner?: string): Part => ({ html, kind: "item", ...(inner !== undefined && { inner }) });
const operator = (sign: string, isPrefix = false): Part => ({
  html: `<mo${isPrefix ? ' form="prefix"' : ""}>${escape(sign)}</mo>`,
  kind: "operator",
});

class Reader {
  private at = 0;
  private readonly text: string;

  constructor(text: string) {
    this.text = text;
  }

  /** Reads to the end, or to this closing sign. */
  sequence(close = ""): Part[] {
    const parts: Part[] = [];
    for (;;) {
      const before = this.at;
      while (this.text[this.at] === " ") this.at++;
      const sign = this.text[this.at];
      if (sign === undefined) {
        if (close !== "") fail(`a formula lacks "${close}": ${this.text}`);
        return parts;
      }
      if (sign === close) {
        this.at++;
        return parts;
      }
      if (sign === "/") {
        this.at++;
        this.divide(parts);
      } else if (sign === "·" && before === this.at && this.text[this.at + 1] !== " ") {
        this.at++;
        parts.push({ html: "<mo>·</mo>", kind: "tight" });
      } else if (sign === "−" && (parts.at(-1)?.kind ?? "operator") === "operator") {
        this.at++;
        parts.push(operator(sign, true));
      } else parts.push(this.part());
    }
  }

  /** A fraction of the product before the stroke and the item behind it. */
  private divide(parts: Part[]): void {
    const above: Part[] = [];
    do above.unshift(...parts.splice(-1));
    while (parts.at(-1)?.kind === "tight" && above.unshift(...parts.splice(-1)));
    // ∂ belongs to what follows it.
    if (parts.at(-1)?.html === "<mo>∂</mo>") above.unshift(...parts.splice(-1));
    while (this.text[this.at] === " ") this.at++;
    const below = [this.part()];
    while (below.at(-1)!.html === "<mo>∂</mo>" || below.at(-1)!.html.startsWith("<munder>")) {
      while (this.text[this.at] === " ") this.at++;
      below.push(this.part());
    }
    const inside = (some: readonly Part[]): string => (some.length === 1 ? (some[0]!.inner ?? row(some)) : row(some));
    parts.push(item(`<mfrac>${inside(above)}${inside(below)}</mfrac>`));
  }

  private part(): Part {
    const sign = this.text[this.at]!;
    if (sign === "√") {
      this.at++;
      const of = this.part();
      return item(`<msqrt>${of.inner ?? of.html}</msqrt>`);
    }
    if ("([".includes(sign) || /^\|[^ |]+\|/.test(this.rest)) return this.scripted(this.group(sign));
    const number = /^\d+(\.\d+)?(e-?\d+)?/.exec(this.rest)?.[0];
    if (number !== undefined) {
      this.at += number.length;
      const shown = item(`<mn>${number}</mn>`);
      return LETTER.test(this.text[this.at] ?? " ") ? item(row([shown, this.part()])) : this.scripted(shown);
    }
    if (!LETTER.test(sign) && sign !== "Σ") {
      this.at++;
      return operator(sign === "-" ? "−" : sign);
    }
    return this.name();
  }

  private group(open: string): Part {
    this.at++;
    const close = { "(": ")", "[": "]", "|": "|" }[open]!;
    const inner = row(this.sequence(close));
    const fence = (own: string): string => `<mo stretchy="false">${own}</mo>`;
    // The parentheses of a fraction are not shown, other signs are.
    return item(`<mrow>${fence(open)}${inner}${fence(close)}</mrow>`, open === "(" ? inner : undefined);
  }

  private name(): Part {
    const word = /^[\p{L}’']+/u.exec(this.rest)![0];
    const next = this.rest.slice(word.length);
    const isName = FUNCTIONS.has(word) ? !/^ (of|over)\b/.test(next) : next.startsWith("_") || [...word].length === 1;
    if (!isName) return this.words();
    this.at += word.length;
    const mark = /^[′″‴²³⁴]?/.exec(this.rest)![0];
    this.at += mark.length;
    const isSum = word === "Σ";
    const base = this.scripted(item(isSum ? "<mo>∑</mo>" : `<mi>${word}${mark}</mi>`), isSum);
    const own = this.scripted(this.applied(base));
    const isApart = FUNCTIONS.has(word) && this.text[this.at] === " " && !/^ *[−,)]/.test(this.rest);
    return isApart ? item(`<mrow>${own.html}<mspace width="0.2em"></mspace></mrow>`) : own;
  }

  /** With the parentheses that follow without a blank: f(x). */
  private applied(own: Part): Part {
    if (this.text[this.at] !== "(") return own;
    const argument = this.group("(");
    return item(`<mrow>${own.html}<mo>&#x2061;</mo>${argument.html}</mrow>`);
  }

  /** Words up to the next sign of a formula. */
  private words(): Part {
    const words = /^[\p{L}’' ]*?(?=$|[^\p{L}’' ]| (?:log|min|A|p|L)\b)/u.exec(this.rest)![0];
    const lead = this.text[this.at - 1] === " " ? SPACE : "";
    this.at += words.length;
    const trail = this.text[this.at] === " " ? SPACE : "";
    return { html: `<mtext>${lead}${escape(words.trim())}${trail}</mtext>`, kind: "words" };
  }

  /** With what stands below (`_`) and above (`^`). */
  private scripted(own: Part, isSum = false): Part {
    let { html } = own;
    const isScripted = "_^".includes(this.text[this.at] ?? " ");
    for (let sign = this.text[this.at]; sign === "_" || sign === "^"; sign = this.text[this.at]) {
      this.at++;
      const script = sign === "_" ? this.below() : this.above();
      const tag = isSum ? "munder" : sign === "_" ? "msub" : "msup";
      html = `<${tag}>${html}${script}</${tag}>`;
    }
    return isScripted ? item(html) : own;
  }

  private below(): string {
    if (this.text[this.at] === "(") return this.group("(").inner!;
    const text = /^<?[\p{L}\p{N}]+/u.exec(this.rest)?.[0] ?? fail(`a formula lacks what stands below: ${this.text}`);
    this.at += text.length;
    if (text.length > 3) return `<mtext>${text}</mtext>`;
    return row(
      [...text].map((sign) =>
        sign === "<" ? operator(sign) : item(/\d/.test(sign) ? `<mn>${sign}</mn>` : `<mi>${sign}</mi>`),
      ),
    );
  }

  private above(): string {
    const own = this.part();
    return own.inner ?? own.html;
  }

  private get rest(): string {
    return this.text.slice(this.at);
  }
}

/** The lines of an indented block. */
export function formulaBlock(text: string): string {
  const lines = text.split("\n").map((line) => line.trimEnd());
  const equals = lines.map((line) => /^(.*?) *= /.exec(line)?.[1]);
  // Lines that go on begin with blanks; the first column is what stands before the sign.
  const isAligned = lines.length > 1 && lines.slice(1).some((line) => /^ {2,}/.test(line));
  const rows = lines.map((line, i) => {
    const left = isAligned ? (equals[i] ?? (/^ {2,}/.test(line) ? "" : undefined)) : undefined;
    const right = left === undefined ? line : line.slice(/^ {2,}/.test(line) ? 0 : left.length);
    const cells = [...(left === undefined ? [] : [left.trim()]), ...right.trim().split(/ {2,}/)];
    const made = cells.map((cell, k) =>
      k > 0 && REMARK.test(cell)
        ? `<mtext>${escape(cell)}</mtext>`
        : cell === ""
          ? ""
          : row(new Reader(cell).sequence()),
    );
    return `<mtr>${made.map((cell) => `<mtd>${cell}</mtd>`).join("")}</mtr>`;
  });
  return `<div class="formula" tabindex="0"><math display="block"><mtable>${rows.join("")}</mtable></math></div>\n`;
}
