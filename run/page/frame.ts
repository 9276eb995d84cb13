/**
 * The common frame of all pages: one HTML file that opens from the disk, without network or other files, with tables
 * and short texts as HTML. A model may have written any text on a page, so there are three safeguards: all HTML is
 * escaped, the embedded JSON contains no `<`, and the page's content policy allows only this script and this style, by
 * their hashes, and no request.
 */
import type { Table } from "../display/table.ts";
import { KNOWS } from "../knownFacts.ts";
import type { PageAssets } from "./assets.ts";
import type { Lesson } from "./lessons.ts";

export interface PageParts {
  /** The title of the page. */
  readonly name: string;
  /** The kind of page, in small letters above the title. */
  readonly brand: string;
  readonly facts: readonly (readonly [name: string, value: string | number])[];
  readonly config: unknown;
  /** HTML. */
  readonly main: string;
  /** JSON without `<` (embedJson), which the page's script reads. */
  readonly data: string;
}

/** The frame of every page: head, content policy, style, script. */
export function pageHtml({ name, brand, facts: entries, config, main, data }: PageParts, assets: PageAssets): string {
  const settings = escapeHtml(JSON.stringify(config, null, 2));
  const policy = [
    "default-src 'none'",
    `script-src ${assets.scriptHash}`,
    `style-src ${assets.styleHash}`,
    "base-uri 'none'",
    "form-action 'none'",
  ].join("; ");
  const factList = entries.map(
    ([key, value]) => `<div><dt>${escapeHtml(key)}</dt><dd>${escapeHtml(String(value))}</dd></div>`,
  );
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${escapeHtml(name)} · worldgrad</title>
<style>${assets.style}</style>
</head>
<body>
<header>
<p class="brand">${escapeHtml(brand)}</p>
<h1>${escapeHtml(name)}</h1>
<dl class="facts">${factList.join("")}</dl>
<details><summary>Configuration</summary><pre class="config" tabindex="0">${settings}</pre></details>
</header>
<main>
${main}
</main>
<script type="application/json" id="data">${data}</script>
<script type="module">${assets.script}</script>
</body>
</html>
`;
}

/** A part of a page under a heading, which `id` names. Both texts are HTML. */
export const sectionHtml = (id: string, heading: string, html: string): string =>
  `<section aria-labelledby="${id}">\n<h2 id="${id}">${heading}</h2>\n${html}\n</section>`;

/** The place of the curves of a page whose folder has the same numbers as a file. */
export const CURVES = `<div id="charts"></div>
<noscript><p>Curves need JavaScript; the numbers are in results.json.</p></noscript>`;

/** A list of lessons for the reader, which a click opens. */
export function lessonsHtml(title: string, lessons: readonly Lesson[]): string {
  const items = lessons.map(
    (lesson) => `<li><strong>${escapeHtml(lesson.title)}.</strong> ${escapeHtml(lesson.text)}</li>`,
  );
  return `<details class="lessons"><summary>${escapeHtml(title)}</summary>
<ol>${items.join("\n")}</ol>
</details>`;
}

/** Text as HTML content or as a quoted attribute. */
export function escapeHtml(text: string): string {
  const entities: Readonly<Record<string, string>> = {
    "&": "&amp;",
    "<": "&lt;",
    ">": "&gt;",
    '"': "&quot;",
    "'": "&#39;",
  };
  return text.replace(/[&<>"']/g, (char) => entities[char] ?? "");
}

export function tableHtml({ title, head, rows, note }: Table): string {
  const headCells = head.map((text, c) =>
    c === 0 && text === "" ? "<td></td>" : `<th scope="col">${escapeHtml(text)}</th>`,
  );
  const body = rows.map(([first, ...rest]) => {
    const name = typeof first === "string" ? first : (first?.text ?? "");
    const cells = rest.map((cell) => {
      const { text, tone, href } = typeof cell === "string" ? { text: cell } : cell;
      const shown = href === undefined ? escapeHtml(text) : `<a href="${escapeHtml(href)}">${escapeHtml(text)}</a>`;
      return `<td${tone ? ` class="${tone}"` : ""}>${shown}</td>`;
    });
    return `<tr><th scope="row">${escapeHtml(name)}</th>${cells.join("")}</tr>`;
  });
  return `<div class="scroll" tabindex="0" role="region" aria-label="${escapeHtml(title)}"><table>
<caption>${escapeHtml(title)}</caption>
<thead><tr>${headCells.join("")}</tr></thead>
<tbody>${body.join("\n")}</tbody>
</table></div>${note ? `<p class="muted">${escapeHtml(note)}</p>` : ""}`;
}

/** What stands above the map of facts (factMap.ts), and its place. */
export const FACT_MAP = `<p class="muted">A square is a fact of this world that no task states. A stripe is an agent,
in the order of the list; the stronger its colour, the more probable the agent finds the right name where a command
needs it. Each fact is asked in a way in which training never asks it. Facts stand under the name that is right for
them; a round mark is a fact about the name beside it. ${KNOWS}</p>
<div id="facts"></div>`;
