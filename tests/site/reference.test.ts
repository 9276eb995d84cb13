/** The pages of the reference, without a browser: each name has one entry, links lead to entries, pages are short. */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, posix } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { linksFrom, makeReference } from "../../scripts/book/api/api.ts";
import { partsOf } from "../../scripts/book/api/parts.ts";
import { type Name, readReference } from "../../scripts/book/api/reference.ts";
import { makeDocs } from "../../scripts/book/docs.ts";

const folder = mkdtempSync(join(tmpdir(), "worldgrad-reference-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const entries = readReference();
const links = linksFrom(entries, "../api/");
makeReference(join(folder, "api"), entries);
makeDocs(join(folder, "docs"), links);

const read = (path: string): string => readFileSync(join(folder, path), "utf8");
const pagesIn = (name: string): string[] =>
  readdirSync(join(folder, name)).flatMap((file) => (file.endsWith(".html") ? [`${name}/${file}`] : []));
const matches = (text: string, pattern: RegExp): string[] => [...text.matchAll(pattern)].map(([, found]) => found!);
const idsOf = (path: string): string[] => matches(read(path), /\bid="([^"]*)"/g);
const ARTICLE = /<article class="entry" aria-labelledby="([^"]*)">/g;

const pages = pagesIn("api");
const inOrder = (a: string, b: string): number => (a < b ? -1 : Number(a > b));

describe("the reference", () => {
  it("has one entry for each name, on the page of its part, to which links lead", () => {
    const made = pages.flatMap((page) => matches(read(page), ARTICLE).map((name) => `../${page}#${name}`));
    const wanted = entries.flatMap(({ names }) => names.map(({ name }) => links.ofName(name)!));
    expect(wanted.length).toBeGreaterThan(800);
    expect(made.toSorted(inOrder)).toEqual(wanted.toSorted(inOrder));
  });

  it("lists each name once in the index and on the page of its entry point", () => {
    const all = entries.flatMap(({ names }) => names.map(({ name }) => name)).toSorted();
    expect(matches(read("api/index.html"), /<li data-name="([^"]*)">/g).toSorted()).toEqual(all);
    for (const { page, names } of entries) {
      const ids = idsOf(`api/${page}.html`);
      expect(names.filter(({ name }) => !ids.includes(name))).toEqual([]);
    }
  });

  it("has no two anchors of one name on a page", () => {
    const twice = pages.map((page) => [page, idsOf(page).filter((id, i, ids) => ids.indexOf(id) !== i)] as const);
    expect(twice.filter(([, ids]) => ids.length > 0)).toEqual([]);
  });

  it("has links that lead somewhere, and so have the documents to it", () => {
    const anchors = new Map<string, ReadonlySet<string>>();
    const broken = [...pages, ...pagesIn("docs")].flatMap((page) =>
      matches(read(page), /<a [^>]*href="([^"]*)"/g).filter((link) => {
        const [path, anchor] = link.split("#") as [string, string?];
        const target = path === "" ? page : posix.join(posix.dirname(page), path);
        if (/^[a-z]+:/.test(link) || !target.startsWith("api/")) return false;
        const known = anchors.get(target) ?? new Set(idsOf(target)); // throws if the page is missing
        anchors.set(target, known);
        return anchor !== undefined && !known.has(anchor);
      }),
    );
    expect(anchors.size).toBeGreaterThan(pages.length);
    expect(broken).toEqual([]);
  });

  it("has short pages; the index alone holds every name with its text, for its search", () => {
    const sizes = pages.map((page) => [page, read(page).length] as const);
    const long = sizes.filter(([page, size]) => size > 60_000 && page !== "api/index.html");
    expect(long, "divide them by a heading more in the file of the entry point").toEqual([]);
  });

  it("has a summary in whole sentences for each entry point", () => {
    const abouts = matches(read("api/index.html"), /<td>([^<]*)<\/td>/g);
    expect(abouts).toHaveLength(entries.length);
    expect(abouts.filter((text) => !text.endsWith("."))).toEqual([]);
  });
});

describe("the parts of an entry point", () => {
  const name = (own: string, file: string, group: string): Name => ({
    name: own,
    kind: "function",
    declaredAs: own,
    file,
    line: 1,
    lastLine: 1,
    about: "",
    group,
    declaration: "",
    doc: { text: "", params: [], returns: "", throws: [], examples: [] },
  });
  const parts = (...names: readonly Name[]): unknown =>
    partsOf({ specifier: "worldgrad/x", page: "x", file: "x/index.ts", text: "", names }).map((part) => [
      part.page,
      part.names.map((one) => one.name).join(" "),
    ]);

  it("are its headings, each with the names of one file together", () => {
    const names = [name("a", "1.ts", "A: first"), name("b", "2.ts", "B"), name("c", "3.ts", "A: first")];
    expect(parts(...names, name("d", "1.ts", "A: first"))).toEqual([
      ["x-a-first", "a d c"],
      ["x-b", "b"],
    ]);
  });

  it("are one without headings, and no name may stand above the first", () => {
    expect(parts(name("a", "1.ts", ""), name("b", "2.ts", ""))).toEqual([["x", "a b"]]);
    expect(() => parts(name("a", "1.ts", ""), name("b", "2.ts", "B"))).toThrow("above its first heading");
  });
});
