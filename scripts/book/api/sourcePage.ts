/** Page of a source file, so that the book and the reference link to its lines without a network. */
import { highlight, splitLines } from "../highlight.ts";
import { codeBox, escape, htmlPage } from "../html.ts";

/** @param path from the root; the page has this path in `source/` under the folder of the reference */
export function sourcePage(path: string, text: string): string {
  const up = "../".repeat(path.split("/").length + 1);
  const lines = splitLines(highlight(text.trimEnd(), path.endsWith(".ts") ? "ts" : "text"));
  const rows = lines.map((line, i) => `<span class="line" id="L${i + 1}">${line === "" ? " " : line}</span>`);
  const main = `<h1><code>${escape(path)}</code></h1>
${codeBox(rows.join(""), "code", `Source of ${path}`)}`;
  return htmlPage({
    title: `${path} · worldgrad`,
    description: `The source of ${path}.`,
    up,
    part: "api",
    styles: [`${up}book/book.css`],
    main,
    kind: "source",
  });
}
