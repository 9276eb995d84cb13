/** First page of the book: what each chapter teaches, in the order of reading. */
import { type Chapter, labelOf, readingMinutes } from "./chapter.ts";
import { escape, htmlPage } from "./html.ts";
import { chapterText, type Links } from "./markdown.ts";

/** Two ways through the book, by the numbers of chapters; −1 is "Before 0". */
export const TRACKS: readonly { readonly name: string; readonly about: string; readonly numbers: readonly number[] }[] =
  [
    {
      name: "Agents",
      about: "how rewards and answers teach. Chapters 1 to 4 can wait: what they build is used, not explained anew.",
      numbers: [-1, 0, 5, 6, 8, 7],
    },
    {
      name: "The machine",
      about: "how derivatives, kernels and a transformer are made.",
      numbers: [-1, 1, 2, 3, 4],
    },
  ];

/** @param chapters in order, each with the address of its page */
export function indexPage(
  chapters: readonly { readonly chapter: Chapter; readonly address: string }[],
  links: Links,
): string {
  const entries = chapters.map(({ chapter, address }) => {
    const { number, title, promise } = chapter;
    const text = chapterText(promise.slice(0, 1).toUpperCase() + promise.slice(1), links).trim();
    const before = number < 0 ? ' class="before"' : "";
    return `<li value="${number}"${before}><h2><a href="${address}">${escape(title)}</a></h2>${text}
<p class="muted">About ${readingMinutes(chapter)} minutes.</p></li>`;
  });
  const tracks = TRACKS.map(({ name, about, numbers }) => {
    const steps = numbers.flatMap((number) => {
      const found = chapters.find(({ chapter }) => chapter.number === number);
      if (found === undefined) return []; // some tests make a few chapters only
      return [`<a href="${found.address}" title="${escape(found.chapter.title)}">${labelOf(found.chapter)}</a>`];
    });
    return `<li><strong>${name}</strong>: ${about}<br>${steps.join(" → ")}</li>`;
  });
  const main = `<div class="head">
<h1>Language agents, from the chain rule up</h1>
<p class="promise">A book whose chapters are programs. Each explains one step, runs in your browser, and can be edited,
broken and extended there. The output of its cells is checked with every change of the library. You need to know
programming and derivatives.</p>
<p>Each chapter builds on those before it. The first one shows the one rule that all learning here follows, and chapter
0 the whole. Whoever has not the time for all may go one of two ways:</p>
<ul class="tracks">
${tracks.join("\n")}
</ul>
</div>
<ol class="chapters" start="-1">
${entries.join("\n")}
</ol>`;
  return htmlPage({
    title: "The book · worldgrad",
    description: "A book about reinforcement learning for language agents whose chapters are programs.",
    up: "../",
    part: "book",
    styles: ["book.css"],
    main,
    kind: "index",
  });
}
