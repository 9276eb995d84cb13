/** The documents of `docs/` as pages of the site. README.md is the first. */
import { cpSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { packageFolder } from "../packageFolder.ts";
import { escape, htmlPage } from "./html.ts";
import { type Links, markdown } from "./markdown.ts";

const README = "README.md";
const read = (path: string): string => readFileSync(join(packageFolder, path), "utf8");

/** Documents from the root, such as `docs/evidence.md`. */
export const documents = (): string[] => [
  README,
  ...readdirSync(join(packageFolder, "docs"))
    .filter((name) => name.endsWith(".md"))
    .toSorted()
    .map((name) => `docs/${name}`),
];

const pageOf = (path: string): string =>
  path === README ? "index.html" : path.replace(/^docs\//, "").replace(/\.md$/, ".html");

/**
 * Writes the pages.
 * @param target a folder beside that of the book, which has the style sheet
 * @param links of pages in such a folder
 */
export function makeDocs(target: string, links: Links): void {
  mkdirSync(target, { recursive: true });
  cpSync(join(packageFolder, "docs/plots"), join(target, "plots"), { recursive: true });
  const all = documents();
  const titles = new Map(all.map((path) => [path, /^# (.+)$/m.exec(read(path))![1]!.replaceAll("`", "")]));
  // A link of a document is relative to it, and links of README.md to the root.
  const ofFile = (path: string): string | undefined => {
    const found = [path, `docs/${path}`].find((own) => titles.has(own));
    return found === undefined ? links.ofFile(path) : pageOf(found);
  };
  for (const path of all) {
    const text = read(path).replaceAll("](docs/plots/", "](plots/");
    const others = all.map((other) => {
      const current = other === path ? ' aria-current="page"' : "";
      return `<li><a href="${pageOf(other)}"${current}>${escape(titles.get(other)!)}</a></li>`;
    });
    const main = `<div class="document">
<nav aria-label="Documents"><details><summary>All documents</summary><ul>${others.join("\n")}</ul></details></nav>
<article class="prose">${markdown(text, { ...links, ofFile }, { top: 1, hasAnchors: true })}</article>
</div>`;
    const page = htmlPage({
      title: `${titles.get(path)!} · worldgrad`,
      description: titles.get(path)!,
      up: "../",
      part: "docs",
      styles: ["../book/book.css"],
      main,
      kind: "docs",
    });
    writeFileSync(join(target, pageOf(path)), page);
  }
}
