/** Markdown of chapters, tasks and docstrings to HTML by `marked`, with colours and links to sources. */
import { Marked, type RendererObject } from "marked";
import { check } from "../../engine/errors.ts";
import { BROKEN, linkTo, WORKING } from "../../site/presets.ts";
import { formulaBlock } from "./formula.ts";
import { highlight } from "./highlight.ts";
import { codeBox, escape } from "./html.ts";

/** Targets of the links of a page. */
export interface Links {
  /** Address of the page that shows a file of the repository; undefined if there is none. */
  readonly ofFile: (path: string) => string | undefined;
  /** Address of an exported name in the reference; undefined if there is none. */
  readonly ofName: (name: string) => string | undefined;
}

/** Link to another page of the site: `[the exact gradient](page:exact.html)`. */
const PAGE = "page:";
/** Link to the live page with the experiment of this title: `[Entropy collapse](preset:)`. */
const PRESET = "preset:";

/**
 * Address of an experiment from a page one folder below the live page, as all pages with prose are. @throws if there is
 * none
 */
function presetAddress(title: string): string {
  const preset = [...WORKING, ...BROKEN].find((one) => one.title === title);
  check(preset !== undefined, () => `[${title}](${PRESET}): the live page has no experiment of this title`);
  return `../index.html${linkTo(preset).replace("./", "")}`;
}

/** A letter with what stands below it in a text: x_t, p_θ, x_<t, V_(t+1). */
const SUBSCRIPT = /(?<![\p{L}\p{N}_])((?:∂)?\p{L})_(\([^()]{1,6}\)|(?:&lt;)?[\p{L}\p{N}]{1,5}(?![\p{L}\p{N}_]))/gu;
/** A number or letter with a short exponent: e^1000, e^x. */
const SUPERSCRIPT = /(?<![\p{L}\p{N}])(\p{L}|10)\^(\([^()]{1,12}\)|−?\p{N}+|\p{L}+)/gu;

const bare = (text: string): string => text.replace(/^\(|\)$/g, "");

/** The text of a chapter: Markdown in which an indented block is a formula. */
export const chapterText = (text: string, links: Links): string => markdown(text, links, { hasFormulas: true });

/** The name of a heading in a document, as GitHub makes it. */
export const headingAnchor = (text: string): string =>
  text
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N} _-]/gu, "")
    .replaceAll(" ", "-");

export interface MarkdownOptions {
  /** The level of `#`: 3, the default, makes it <h3>, so that the headings of a text skip no level of its page. */
  readonly top?: number;
  /** Whether indented blocks are formulas, and letters may have signs below and above. */
  readonly hasFormulas?: boolean;
  /** Whether headings have names, to which links lead. */
  readonly hasAnchors?: boolean;
}

export function markdown(text: string, links: Links, options: MarkdownOptions = {}): string {
  const { top = 3, hasFormulas = false, hasAnchors = false } = options;
  const renderer: RendererObject = {
    // Prose names types such as List<number>, so a tag is text.
    html: ({ text }) => (/^<!--.*-->\s*$/s.test(text) ? "" : escape(text)),
    heading({ depth, tokens, text }) {
      const level = Math.min(6, top + depth - 1);
      const id = hasAnchors ? ` id="${escape(headingAnchor(text.replaceAll("`", "")))}"` : "";
      return `<h${level}${id}>${this.parser.parseInline(tokens)}</h${level}>\n`;
    },
    code: ({ text, lang, codeBlockStyle }) =>
      hasFormulas && codeBlockStyle === "indented"
        ? formulaBlock(text)
        : `${codeBox(highlight(text, (lang ?? "").split(" ")[0]!), "block")}\n`,
    text(token) {
      if ("tokens" in token && token.tokens) return this.parser.parseInline(token.tokens);
      const own = "escaped" in token && token.escaped ? token.text : escape(token.text);
      if (!hasFormulas) return own;
      return own
        .replace(SUBSCRIPT, (_, base: string, below: string) => `${base}<sub>${bare(below)}</sub>`)
        .replace(SUPERSCRIPT, (_, base: string, power: string) => `${base}<sup>${bare(power)}</sup>`);
    },
    codespan({ text }) {
      const address = addressOf(text, links);
      const code = `<code>${escape(text)}</code>`;
      return address === undefined ? code : `<a href="${address}">${code}</a>`;
    },
    link({ href, tokens, text }) {
      if (href === PRESET) return `<a href="${escape(presetAddress(text))}">${this.parser.parseInline(tokens)}</a>`;
      if (href.startsWith(PAGE))
        return `<a href="../${escape(href.slice(PAGE.length))}">${this.parser.parseInline(tokens)}</a>`;
      const [path, anchor] = href.replace(/^(\.\.?\/)+/, "").split("#") as [string, string?];
      const file = path === "" ? "" : links.ofFile(path);
      const within = file === undefined || anchor === undefined ? file : `${file}#${anchor}`;
      const address = /^[a-z]+:/.test(href) ? href : within;
      const inner = this.parser.parseInline(tokens);
      return address === undefined ? inner : `<a href="${escape(address)}">${inner}</a>`;
    },
    table({ header, rows }) {
      const cells = (row: typeof header, tag: string): string =>
        `<tr>${row
          .map(({ tokens, align }) => {
            const right = align === "right" ? ' class="right"' : "";
            // A header without words is none.
            const own = tokens.length === 0 ? "td" : tag;
            return `<${own}${right}>${this.parser.parseInline(tokens)}</${own}>`;
          })
          .join("")}</tr>`;
      const body = rows.map((row) => cells(row, "td")).join("");
      const table = `<table><thead>${cells(header, "th")}</thead><tbody>${body}</tbody></table>`;
      return `<div class="scroll" tabindex="0">${table}</div>\n`;
    },
  };
  const marked = new Marked({ async: false, gfm: true, renderer });
  return marked.parse(text) as string;
}

/**
 * Address of code in prose: `rl/train/step.ts` is a file, `trainStep` a name; `trainStep(…)` and `rl.trainStep` are
 * neither.
 */
function addressOf(code: string, links: Links): string | undefined {
  if (/^[\w.-]+(\/[\w.-]+)*\.\w+$/.test(code)) return links.ofFile(code.replace(/^(\.\.?\/)+/, ""));
  if (/^(\.\.?\/)+[\w./-]+$/.test(code)) return links.ofFile(code.replace(/^(\.\.?\/)+/, ""));
  return /^\w+$/.test(code) ? links.ofName(code) : undefined;
}
