/** Pages of the reference: an index of all names with a search, and a page for each entry point. */
import { check } from "../../../engine/errors.ts";
import { highlight, linkNames } from "../highlight.ts";
import { codeBox, escape, htmlPage, slug } from "../html.ts";
import { type Links, markdown } from "../markdown.ts";
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
    const about = firstSentence(text.replace(/^`[^`]*`: /, ""));
    return `<tr><th scope="row"><a href="${page}.html"><code>${specifier}</code></a></th>
<td>${escape(about)}</td><td class="right">${names.length}</td></tr>`;
  });
  return `<div id="begin"><h2 id="start">Start here</h2>
<ul>${rows.join("\n")}</ul>
<h2 id="parts">The parts</h2>
<div class="scroll" tabindex="0"><table><thead><tr><th>Import</th><th>For</th><th class="right">Names</th></tr></thead>
<tbody>${parts.join("\n")}</tbody></table></div></div>`;
}

export function referenceIndex(entries: readonly EntryPoint[], links: Links): string {
  const sections = entries.map(({ specifier, page, names, text }) => {
    const items = names.toSorted((a, b) => (a.name.toLowerCase() < b.name.toLowerCase() ? -1 : 1));
    return `<section data-group aria-labelledby="${page}">
<h3 id="${page}"><a href="${page}.html">${specifier}</a></h3>
${markdown(firstParagraph(text), links)}
<ul class="names">${items.map((name) => nameItem(name, page)).join("")}</ul>
</section>`;
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
  return htmlPage({
    title: "API reference · worldgrad",
    description: "Every name that worldgrad exports.",
    up: "../",
    part: "api",
    styles: STYLES,
    modules: ["../book/search.js"],
    main,
    kind: "api",
  });
}

function nameItem({ name, doc }: Name, page: string): string {
  const about = firstSentence(doc.text);
  return `<li data-name="${name}"><a href="${page}.html#${name}"><code>${name}</code></a>
<span class="about">${escape(about)}</span></li>`;
}

export function referencePage({ specifier, page, file, text, names }: EntryPoint, links: Links): string {
  const groups = [...new Set(names.map(({ group }) => group))];
  const inGroup = (group: string): Name[] => names.filter((name) => name.group === group);
  const contents = groups.map((group) => {
    const items = inGroup(group).map(({ name }) => `<a href="#${name}"><code>${name}</code></a>`);
    return `<li>${group === "" ? "" : `<a href="#${slug(group)}">${escape(group)}</a>: `}${items.join(", ")}</li>`;
  });
  const sections = groups.map((group) => {
    const heading = group === "" ? "Names" : group;
    const entries = inGroup(group).map((name) => entry(name, links));
    return `<section aria-labelledby="${slug(heading)}"><h2 id="${slug(heading)}">${escape(heading)}</h2>
${entries.join("\n")}</section>`;
  });
  const main = `<div class="head">
<h1><code>${specifier}</code></h1>
${markdown(text, links)}
<p><a href="index.html">All names</a> · <a href="${links.ofFile(file)}"><code>${file}</code></a></p>
<details class="contents"><summary>${names.length} names</summary><ul>${contents.join("")}</ul></details>
</div>
${sections.join("\n")}`;
  return htmlPage({
    title: `${specifier} · API reference`,
    description: firstSentence(text),
    up: "../",
    part: "api",
    styles: STYLES,
    main,
    kind: `api ${page}`,
  });
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
<h3 id="${name}"><a href="#${name}">${name}</a> <small>${kind}</small></h3>
${codeBox(code, "code")}
<div class="prose">${markdown(doc.text, links, { top: 4 })}</div>
${list === "" ? "" : `<dl>${list}</dl>`}
${examples.join("\n")}
<p class="muted"><a href="${links.ofFile(file)}#L${line}">${file}, ${lines}</a></p>
</article>`;
}

const term = (name: string, text: string): string => `<dt>${name}</dt><dd>${text}</dd>`;
const unfenced = (text: string): string => text.replace(/^```\w*\n([\s\S]*?)\n?```$/, "$1");
const firstParagraph = (text: string): string => text.split(/\n\s*\n/)[0] ?? "";

/** First sentence of a text, for lists: up to a full stop before a capital. */
function firstSentence(text: string): string {
  const sentences = firstParagraph(text).replaceAll("`", "").replaceAll(/\s+/g, " ");
  return /^.*?[.;:](?= [A-Z]|$)/.exec(sentences)?.[0] ?? sentences;
}
