/** Page of a chapter: prose on one side, on the other figures and its code as a live cell. */
import { check } from "../../engine/errors.ts";
import { type Change, changesOf, COLOUR } from "../../site/book/changes.ts";
import { DATA_ID, type PageData } from "../../site/book/pageData.ts";
import { FIGURES } from "../../site/book/figures/all.ts";
import { svgText } from "../../site/book/svg.ts";
import { type Chapter, labelOf, readingMinutes, type Section } from "./chapter.ts";
import type { Exercise } from "./exercises.ts";
import { highlight } from "./highlight.ts";
import { codeBox, escape, htmlPage, slug } from "./html.ts";
import { chapterText, type Links } from "./markdown.ts";

/** Link to another page of the book. */
export interface Neighbour {
  readonly title: string;
  readonly address: string;
}

export interface ChapterParts {
  readonly chapter: Chapter;
  readonly exercises: readonly Exercise[];
  /** Names that the chapter and its exercises import from index.ts. */
  readonly imported: Record<"chapter" | "exercises", readonly string[]>;
  readonly data: PageData;
  readonly links: Links;
  readonly previous: Neighbour | undefined;
  readonly next: Neighbour | undefined;
}

/** How hard an exercise is, by its `@difficulty`. */
const DIFFICULTIES = ["A few minutes", "A quarter of an hour, with paper", "Half an hour or more"];

export function chapterPage({ chapter, exercises, imported, data, links, previous, next }: ChapterParts): string {
  const { number, title, promise, path } = chapter;
  let cell = 0;
  // Only imported names are links: a chapter may declare names that the library has, too.
  const linksOf = (names: readonly string[]): Links => ({
    ...links,
    ofName: (name) => (names.includes(name) ? links.ofName(name) : undefined),
  });
  const chapterLinks = linksOf(imported.chapter);
  const sections = chapter.sections.map((section, i) => {
    const figures = section.code === "" ? "" : figuresOf(chapter, section, data.outputs.slice(0, cell + 1));
    const work =
      section.code !== ""
        ? liveCell(section, data.outputs[cell]!, cell++)
        : section.heading === "Break it"
          ? breaker(section, data)
          : "";
    const prose = proseOf(section, i === 0 && number !== 0);
    return sectionRow(
      i === 0 ? "" : section.heading,
      chapterText(prose, section.heading === "In the library" ? links : chapterLinks),
      figures + work,
    );
  });
  const tasks = exercises.map((exercise) => exerciseRow(exercise, imported.exercises, linksOf(imported.exercises)));
  const contents = chapter.sections.slice(1).map(({ heading }) => heading);
  const main = `<div class="head">
<h1>${labelOf(chapter)} · ${escape(title)}</h1>
<p class="promise"><strong>What you will understand:</strong> ${inline(promise, chapterLinks)}</p>
<details class="contents"><summary>Sections</summary>
<ol>${contents.map((heading) => `<li><a href="#${slug(heading)}">${escape(heading)}</a></li>`).join("")}</ol></details>
<p class="muted">About ${readingMinutes(chapter)} minutes to read, without the exercises. ${sourceLink(path, links)} is
this page as a program; each cell runs with those above it, here in your browser, and can be
edited.<noscript> That needs JavaScript; everything else does not.</noscript></p>
</div>
${sections.join("\n")}
${tasks.join("\n")}
${solutionsOf(exercises)}
<nav class="turn" aria-label="Chapters">
${previous ? `<a rel="prev" href="${previous.address}">← ${escape(previous.title)}</a>` : "<span></span>"}
<a href="index.html">All chapters</a>
${next ? `<a rel="next" href="${next.address}">${escape(next.title)} →</a>` : "<span></span>"}
</nav>
<script type="application/json" id="${DATA_ID}">${JSON.stringify(data).replaceAll("<", "\\u003c")}</script>`;
  return htmlPage({
    title: `${title} · worldgrad`,
    description: promise,
    up: "../",
    part: "book",
    styles: ["book.css"],
    modules: ["page.js"],
    main,
    kind: "chapter",
  });
}

/** The figures that a section's cell draws. @param outputs of the cells up to its own */
function figuresOf({ path }: Chapter, { heading }: Section, outputs: readonly string[]): string {
  const name = /([^/]+)\.ts$/.exec(path)![1]!;
  const all = FIGURES[name] ?? [];
  const html = all.flatMap(({ section, about, draw }, k) => {
    if (section !== heading) return [];
    const drawn = draw(outputs.at(-1)!, outputs.join(""));
    check(drawn !== undefined, () => `${path}: what “${heading}” prints has nothing to draw`);
    return [
      `<figure class="figure" data-figure="${k}"><div class="drawing" tabindex="0">${svgText(drawn)}</div>` +
        `<figcaption>${escape(about)}</figcaption></figure>`,
    ];
  });
  return html.join("");
}

/** Prose without the promise, which the head of the page has, and without the diff, which stands beside the text. */
function proseOf({ heading, prose }: Section, isFirst: boolean): string {
  if (isFirst)
    return prose
      .split(/\n\s*\n/)
      .slice(1)
      .join("\n\n");
  return heading === "Break it" ? prose.replace(/^```diff\n.*?^```$/ms, "") : prose;
}

function sectionRow(heading: string, prose: string, work: string): string {
  const title = heading === "" ? "" : `<h2 id="${slug(heading)}">${escape(heading)}</h2>\n`;
  const label = heading === "" ? "" : ` aria-labelledby="${slug(heading)}"`;
  if (title + prose + work === "") return "";
  return `<section class="row${work === "" ? " alone" : ""}"${label}>
<div class="prose">${title}${prose}</div>
<div class="work">${work}</div>
</section>`;
}

function liveCell({ heading, code }: Section, printed: string, index: number): string {
  return `<div class="cell" data-cell="${index}">
${editor(code, `Code of “${heading}”`)}
<div class="bar"></div>
${output("Prints", printed)}
</div>`;
}

/** The diff of the program and of its output: outputs are long, and few of their lines change. */
function breaker({ prose }: Section, { outputs, broken }: PageData): string {
  const diff = /^```diff\n(.*?)^```$/ms.exec(prose)?.[1] ?? "";
  return `<div class="breaker">
<div class="editor">${codeBox(highlight(diff.trimEnd(), "diff"), "code", "What to change")}</div>
<div class="bar"></div>
${outputBox("Output after the change (+) and before (−)", diffLines(outputs.join(""), broken))}
</div>`;
}

function diffLines(before: string, after: string): string {
  const line = ({ sign, text }: Change): string =>
    `<span class="${COLOUR[sign]}">${escape(`${sign} ${text}`)}\n</span>`;
  return changesOf(before, after).map(line).join("");
}

function exerciseRow(
  { number, title, task, difficulty, hints, given, start, solution }: Exercise,
  imported: readonly string[],
  links: Links,
): string {
  const types = given === "" ? "" : codeBox(highlight(given, "ts"), "block", `Types of exercise ${number}`);
  const work = `<div class="exercise">
${types}
${editor(start, `Exercise ${number}`)}
<div class="bar"></div>
${output("", "")}
<p class="solution"><a href="#solution-${number}">A solution</a> stands at the end of the page.</p>
</div>`;
  const heading = `Exercise ${number}: ${title}`;
  const names = imported.map((name) => `\`${name}\``).join(", ");
  const needsThem = imported.some((name) => new RegExp(`\\b${name}\\b`).test(solution));
  const scope = needsThem ? `\n\nThe file imports these names of the library, so you can use them: ${names}.` : "";
  const hard = `<p class="muted">${DIFFICULTIES[difficulty - 1]}</p>`;
  const asked = hints.map((hint, k) => {
    const name = hints.length > 1 ? `Hint ${k + 1}` : "A hint";
    return `<details class="hint"><summary>${name}</summary>${chapterText(hint, links)}</details>`;
  });
  return `<section class="row" aria-labelledby="exercise-${number}">
<div class="prose"><h3 id="exercise-${number}">${inline(heading, links)}</h3>${hard}
${chapterText(task + scope, links)}${asked.join("\n")}</div>
<div class="work">${work}</div>
</section>`;
}

/** The solutions, closed, where nobody sees them by chance. */
function solutionsOf(exercises: readonly Exercise[]): string {
  const all = exercises.map(
    ({ number, title, solution }) => `<details id="solution-${number}">
<summary>A solution of exercise ${number}, ${escape(title)}</summary>
${codeBox(highlight(solution, "ts"), "code")}</details>`,
  );
  return `<section class="row alone" aria-labelledby="solutions"><div class="prose"><h2 id="solutions">Solutions</h2>
${all.join("\n")}</div></section>`;
}

function editor(code: string, label: string): string {
  return `<div class="editor">${codeBox(highlight(code, "ts"), "code", label)}</div>`;
}

function output(label: string, printed: string): string {
  return outputBox(label, escape(printed));
}

function outputBox(label: string, content: string): string {
  const hidden = content === "" ? " hidden" : "";
  // HTML drops the first line end in <pre>, and an output may begin with an empty line.
  return `<div class="output"${hidden}><p class="label">${label}</p><pre tabindex="0">\n${content}</pre></div>`;
}

/** HTML of one paragraph without its tags. */
function inline(text: string, links: Links): string {
  return chapterText(text, links)
    .trim()
    .replace(/^<p>|<\/p>$/g, "");
}

function sourceLink(path: string, links: Links): string {
  const address = links.ofFile(path);
  return address === undefined ? `<code>${path}</code>` : `<a href="${address}"><code>${path}</code></a>`;
}
