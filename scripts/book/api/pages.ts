/**
 * Pages of the reference: an index of all names with a search; for each entry point a list of its names, and their
 * entries on a page for each heading of its file, so that no page is long (parts.ts).
 */
import { check } from "../../../engine/errors.ts";
import { highlight, linkNames } from "../highlight.ts";
import { codeBox, escape, htmlPage } from "../html.ts";
import { type Links, markdown } from "../markdown.ts";
import { byFile, type Part, partsOf } from "./parts.ts";
import type { EntryPoint, Name } from "./reference.ts";

const STYLES = ["../book/book.css"];

/** Names to begin with, in the order in which a program meets them. */
const START: readonly { readonly about: string; readonly names: readonly string[] }[] = [
  { about: "Compute and derive", names: ["device", "tensor", "grad", "valueAndGrad", "scope", "fuse", "AdamW"] },
  { about: "A transformer", names: ["modelConfig", "initParams", "forward", "generate", "trainSft"] },
  { about: "A world", names: ["defineGame", "ENVIRONMENTS", "Environment"] },
  { about: "An agent that learns in it", names: ["Template", "rollout", "grpo", "echo", "trainRl", "evaluate"] },
];

/** A few names for who is new, and what each part is for. */
function startHere(entries: readonly EntryPoint[], links: Links): string {
  const rows = START.map(({ about, names }) => {
    const all = names.map((name) => {
      const address = links.ofName(name);
      check(address !== undefined, () => `the reference begins with ${name}, which nothing exports`);
      return `<a href="${address}"><code>${name}</code></a>`;
    });
    return `<li>${about}: ${all.join(" ")}</li>`;
  });
  const parts = entries.map(({ specifier, page, names, text }) => {
    return `<tr><th scope="row"><a href="${page}.html"><code>${specifier}</code></a></th>
<td>${escape(aboutOf(text))}</td><td class="right">${names.length}</td></tr>`;
  });
  return `<div id="begin"><h2 id="start">Start here</h2>
<ul>${rows.join("\n")}</ul>
<h2 id="parts">The parts</h2>
<div class="scroll" tabindex="0"><table><thead><tr><th>Import</th><th>For</th><th class="right">Names</th></tr></thead>
<tbody>${parts.join("\n")}</tbody></table></div></div>`;
}

export function referenceIndex(entries: readonly EntryPoint[], links: Links): string {
  const sections = entries.map((entry) => {
    const items = partsOf(entry).flatMap(({ page, names }) => names.map((name) => ({ name, page })));
    const sorted = items.toSorted((a, b) => (a.name.name.toLowerCase() < b.name.name.toLowerCase() ? -1 : 1));
    // Closed, because who looks around begins with the tables; the search opens what holds a match.
    return `<details data-group>
<summary><code>${entry.specifier}</code>, ${items.length} names</summary>
<ul class="names">${sorted.map(({ name, page }) => nameItem(name, page)).join("")}</ul>
</details>`;
  });
  const main = `<div class="head">
<h1>API reference</h1>
<p>Made from the sources and their docstrings. <code>worldgrad</code> exports all of <code>worldgrad/engine</code>,
<code>/nn</code>, <code>/environments</code> and <code>/rl</code>, and runs in browsers and in Node.</p>
<div class="search"><label for="search">Search names and texts</label>
<input id="search" type="search" autocomplete="off" spellcheck="false">
<span id="found" class="muted" role="status"></span></div>
${startHere(entries, links)}
</div>
<h2 id="names">All names</h2>
${sections.join("\n")}`;
  const description = "Every name that worldgrad exports.";
  return apiPage("API reference · worldgrad", description, main, ["../book/search.js"]);
}

function nameItem({ name, doc }: Name, page: string): string {
  const about = firstSentence(doc.text);
  return `<li data-name="${name}"><a href="${page}.html#${name}"><code>${name}</code></a>
<span class="about">${escape(about)}</span></li>`;
}

/** The pages of an entry point, each with its name: all names on one, or a list of them and a page for each part. */
export function referencePages(entry: EntryPoint, links: Links): readonly (readonly [page: string, html: string])[] {
  const parts = partsOf(entry);
  if (parts.length === 1) return [[entry.page, wholePage(entry, parts[0]!, links)]];
  return [
    [entry.page, listPage(entry, parts, links)],
    ...parts.map((part, i) => [part.page, partPage(entry, part, [parts[i - 1], parts[i + 1]], links)] as const),
  ];
}

function wholePage({ specifier, file, text }: EntryPoint, { names }: Part, links: Links): string {
  const main = `<div class="head">
${wayBack("")}
<h1><code>${specifier}</code></h1>
${markdown(text, links)}
<p><a href="${links.ofFile(file)}"><code>${file}</code></a></p>
${contents(names)}
</div>
${names.map((name) => entry(name, links)).join("\n")}`;
  return apiPage(`${specifier} · API reference`, aboutOf(text), main);
}

/** All names of an entry point in a line each. They have their names as anchors too: links once led to entries here. */
function listPage({ specifier, file, text, names }: EntryPoint, parts: readonly Part[], links: Links): string {
  const sections = parts.map(({ title, page, names }) => {
    const items = names.map(
      ({ name, doc }) => `<li id="${name}"><a href="${page}.html#${name}"><code>${name}</code></a>
<span>${escape(firstSentence(doc.text))}</span></li>`,
    );
    return `<section aria-labelledby="part-${page}">
<h2 id="part-${page}"><a href="${page}.html">${escape(title)}</a></h2>
<ul class="summaries">${items.join("\n")}</ul></section>`;
  });
  const list = parts.map(({ title, page }) => `<a href="${page}.html">${escape(title)}</a>`);
  const main = `<div class="head">
${wayBack("")}
<h1><code>${specifier}</code></h1>
${markdown(text, links)}
<p>${names.length} names from <a href="${links.ofFile(file)}"><code>${file}</code></a>, on ${parts.length} pages:</p>
<ol>${list.map((one) => `<li>${one}</li>`).join("")}</ol>
</div>
${sections.join("\n")}`;
  return apiPage(`${specifier} · API reference`, aboutOf(text), main);
}

function partPage(
  { specifier, page }: EntryPoint,
  { title, names }: Part,
  [previous, next]: readonly [Part | undefined, Part | undefined],
  links: Links,
): string {
  const main = `<div class="head">
${wayBack(` › <a href="${page}.html"><code>${specifier}</code></a>`)}
<h1>${escape(title)}</h1>
${contents(names)}
</div>
${names.map((name) => entry(name, links)).join("\n")}
<nav class="turn" aria-label="Parts of ${specifier}">
${previous ? `<a rel="prev" href="${previous.page}.html">← ${escape(previous.title)}</a>` : "<span></span>"}
<a href="${page}.html"><code>${specifier}</code></a>
${next ? `<a rel="next" href="${next.page}.html">${escape(next.title)} →</a>` : "<span></span>"}
</nav>`;
  const description = `${title}: names that ${specifier} exports.`;
  return apiPage(`${title} · ${specifier} · API reference`, description, main);
}

const wayBack = (further: string): string =>
  `<nav class="crumbs muted" aria-label="Breadcrumb"><a href="index.html">API reference</a>${further}</nav>`;

/**
 * The names of a page, file by file, with what the head of the file says of them. A file of one name says no more than
 * the entry does, so these are joined.
 */
function contents(names: readonly Name[]): string {
  const rows: { about: string; names: readonly Name[] }[] = [];
  for (const { about, names: own } of byFile(names)) {
    const last = rows.at(-1);
    if (own.length > 1) rows.push({ about: firstSentence(about), names: own });
    else if (last?.about === "") last.names = [...last.names, ...own];
    else rows.push({ about: "", names: own });
  }
  const items = rows.map(({ about, names }) => {
    const all = names.map(({ name }) => `<a href="#${name}"><code>${name}</code></a>`);
    return `<li>${about === "" ? "" : `${escape(about)}<br>`}${all.join(", ")}</li>`;
  });
  return `<ul>${items.join("\n")}</ul>`;
}

function apiPage(title: string, description: string, main: string, modules: readonly string[] = []): string {
  return htmlPage({ title, description, up: "../", part: "api", styles: STYLES, modules, main, kind: "api" });
}

function entry({ name, kind, file, line, lastLine, declaration, doc }: Name, links: Links): string {
  const code = linkNames(highlight(declaration, "ts"), (word) => (word === name ? undefined : links.ofName(word)));
  const params = doc.params.map(({ name, text }) => term(`<code>${escape(name)}</code>`, markdown(text, links)));
  const returns = doc.returns === "" ? [] : [term("returns", markdown(doc.returns, links))];
  const throws = doc.throws.map((text) => term("throws", markdown(text, links)));
  const list = [...params, ...returns, ...throws].join("");
  const examples = doc.examples.map((text) => codeBox(highlight(unfenced(text), "ts"), "block"));
  const lines = line === lastLine ? `line ${line}` : `lines ${line} to ${lastLine}`;
  return `<article class="entry" aria-labelledby="${name}">
<h2 id="${name}"><a href="#${name}">${name}</a> <small>${kind}</small></h2>
${codeBox(code, "code")}
<div class="prose">${markdown(doc.text, links)}</div>
${list === "" ? "" : `<dl>${list}</dl>`}
${examples.join("\n")}
<p class="muted"><a href="${links.ofFile(file)}#L${line}">${file}, ${lines}</a></p>
</article>`;
}

const term = (name: string, text: string): string => `<dt>${name}</dt><dd>${text}</dd>`;
const unfenced = (text: string): string => text.replace(/^```\w*\n([\s\S]*?)\n?```$/, "$1");
const firstParagraph = (text: string): string => text.split(/\n\s*\n/)[0] ?? "";

/** What an entry point is for: the first sentence of its text, which begins with its name. */
const aboutOf = (text: string): string => firstSentence(text.replace(/^`[^`]*`: /, ""));

/** First sentence of a text, for lists: up to a full stop, but not that of an initial (by H. Imabayashi). */
function firstSentence(text: string): string {
  const sentences = firstParagraph(text).replaceAll(/\s+/g, " ");
  // The next sentence begins with a capital, with code or in brackets.
  const first = /^.*?(?<!(?:by |\()[A-Z])\.(?= [A-Z`[(]|$)/.exec(sentences)?.[0] ?? sentences;
  return first.replaceAll("`", "").replace(/[:;]$/, "."); // what followed was a list or a formula
}
