/** First page of the book: what each chapter teaches, in the order of reading. */
import type { Chapter } from "./chapter.ts";
import { escape, htmlPage } from "./html.ts";
import { chapterText, type Links } from "./markdown.ts";

/** @param chapters in order, each with the address of its page */
export function indexPage(
  chapters: readonly { readonly chapter: Chapter; readonly address: string }[],
  links: Links,
): string {
  const entries = chapters.map(({ chapter: { number, title, promise }, address }) => {
    const text = chapterText(promise.slice(0, 1).toUpperCase() + promise.slice(1), links).trim();
    const before = number < 0 ? ' class="before"' : "";
    return `<li value="${number}"${before}><h2><a href="${address}">${escape(title)}</a></h2>${text}</li>`;
  });
  const main = `<div class="head">
<h1>Language agents, from the chain rule up</h1>
<p class="promise">A book whose chapters are programs. Each explains one step, runs in your browser, and can be edited,
broken and extended there. The output of its cells is checked with every change of the library. You need to know
programming and derivatives.</p>
<p>Read in this order: each chapter builds on those before it. The first one shows the one rule that all learning here
follows, and chapter 0 the whole.</p>
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
