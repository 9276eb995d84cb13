/** Prose of chapters, tasks and docstrings: Markdown to HTML by `marked`, with colours and with links to sources. */
import { Marked, type RendererObject } from "marked";
import { check } from "../../engine/errors.ts";
import { BROKEN, linkTo, WORKING } from "../../site/presets.ts";
import { highlight } from "./highlight.ts";
import { codeBox, escape } from "./html.ts";

/** Where a page links to. */
export interface Links {
  /** The address of the page that shows a file of the repository; undefined if there is none. */
  readonly ofFile: (path: string) => string | undefined;
  /** The address of an exported name in the reference; undefined if there is none. */
  readonly ofName: (name: string) => string | undefined;
}

/** `[Entropy collapse](preset:)` is a link to the live page with the experiment of this title. */
const PRESET = "preset:";

/** The address from a page one folder below the live one, as all that have prose are. @throws if there is none */
function presetAddress(title: string): string {
  const preset = [...WORKING, ...BROKEN].find((own) => own.title === title);
  check(preset !== undefined, () => `[${title}](${PRESET}): the live page has no experiment of this title`);
  return `../index.html${linkTo(preset).replace("./", "")}`;
}

/** @param top the level of `#`: 3 makes it <h3>, so that headings of a text do not skip a level of its page */
export function markdown(text: string, links: Links, top = 3): string {
  const renderer: RendererObject = {
    // Prose speaks of types such as List<number>: what looks like a tag is text.
    html: ({ text }) => escape(text),
    heading({ depth, tokens }) {
      const level = Math.min(6, top + depth - 1);
      return `<h${level}>${this.parser.parseInline(tokens)}</h${level}>\n`;
    },
    code: ({ text, lang }) => `${codeBox(highlight(text, (lang ?? "").split(" ")[0]!), "block")}\n`,
    codespan({ text }) {
      const address = addressOf(text, links);
      const code = `<code>${escape(text)}</code>`;
      return address === undefined ? code : `<a href="${address}">${code}</a>`;
    },
    link({ href, tokens, text }) {
      if (href === PRESET) return `<a href="${escape(presetAddress(text))}">${this.parser.parseInline(tokens)}</a>`;
      const path = href.replace(/^(\.\.?\/)+/, "").replace(/#.*/, "");
      const address = /^[a-z]+:/.test(href) ? href : links.ofFile(path);
      const inner = this.parser.parseInline(tokens);
      return address === undefined ? inner : `<a href="${escape(address)}">${inner}</a>`;
    },
    table({ header, rows }) {
      const cells = (row: typeof header, tag: string): string =>
        `<tr>${row.map(({ tokens }) => `<${tag}>${this.parser.parseInline(tokens)}</${tag}>`).join("")}</tr>`;
      const body = rows.map((row) => cells(row, "td")).join("");
      const table = `<table><thead>${cells(header, "th")}</thead><tbody>${body}</tbody></table>`;
      return `<div class="scroll" tabindex="0">${table}</div>\n`;
    },
  };
  const marked = new Marked({ async: false, gfm: true, renderer });
  return marked.parse(text) as string;
}

/** `rl/train/step.ts` is a file; `trainStep`, `trainStep(…)` and `rl.trainStep` are not, a name alone is one. */
function addressOf(code: string, links: Links): string | undefined {
  if (/^[\w.-]+(\/[\w.-]+)*\.\w+$/.test(code)) return links.ofFile(code.replace(/^(\.\.?\/)+/, ""));
  if (/^(\.\.?\/)+[\w./-]+$/.test(code)) return links.ofFile(code.replace(/^(\.\.?\/)+/, ""));
  return /^\w+$/.test(code) ? links.ofName(code) : undefined;
}
