/** The scripts and styles of the book's pages, and the library as modules that cells import, bundled by esbuild. */
import { join, posix } from "node:path";
import { build, type Plugin } from "esbuild";
import { namesOf } from "../../site/book/program.ts";
import { FOR_BROWSERS } from "../forBrowsers.ts";
import { packageFolder } from "../packageFolder.ts";
import type { Name } from "./api/reference.ts";

/**
 * Writes page scripts and styles into a folder.
 * @returns the files that a chapter's page loads before a cell runs
 */
export async function bundlePages(target: string): Promise<string[]> {
  const { metafile } = await build({
    ...FOR_BROWSERS,
    absWorkingDir: target,
    entryPoints: ["page.ts", "worker.ts", "search.ts", "book.css"].map((name) =>
      join(packageFolder, "site/book", name),
    ),
    outdir: target,
    splitting: true,
    write: true,
    metafile: true,
    legalComments: "linked",
  });
  const loaded = new Set(["page.js", "book.css"]);
  for (const path of loaded) {
    for (const { path: next, kind } of metafile.outputs[path]!.imports)
      if (kind === "import-statement") loaded.add(next);
  }
  return [...loaded];
}

/** What the programs of a page import from the library. */
export interface Needs {
  /** The page's name, such as `05-grpo`. */
  readonly page: string;
  /** Names from index.ts; none if a program imports it as a whole, or not at all. */
  readonly names: readonly string[];
  /** Paths of other files from the root. */
  readonly files: readonly string[];
}

/** `import … from "x"` at the start of a line, where prettier puts it. */
const IMPORT = /^import (?:([^"]*?) from )?"(\.[^"]+)"/gm;

/** @param programs paths from the root, and texts */
export function needsOf(page: string, programs: readonly (readonly [path: string, text: string])[]): Needs {
  const names = new Set<string>();
  const files = new Set<string>();
  for (const [path, text] of programs) {
    for (const [, clause = "", specifier] of text.matchAll(IMPORT)) {
      const file = posix.join(posix.dirname(path), specifier!);
      if (file === "index.ts") for (const name of namesOf(clause)) names.add(name);
      else if (!clause.startsWith("type ")) files.add(file);
    }
  }
  if (names.has("*")) names.clear(); // such a page imports the whole
  return { page, names: [...names].toSorted(), files: [...files].toSorted() };
}

/**
 * Writes the library into `target`: for each page a module of the names that it imports, the whole, and the files that
 * programs import by themselves. What several of them need is in chunks that they share, so that there is one of each
 * class and of each default device.
 */
export async function bundleLibrary(
  target: string,
  needs: readonly Needs[],
  declarations: ReadonlyMap<string, Name>,
): Promise<void> {
  // From the files that declare them: with index.ts between, each page would share one chunk with the whole.
  const exportOf = (name: string): string => {
    const found = declarations.get(name);
    if (found === undefined) throw new Error(`a chapter imports ${name} from index.ts, which does not export it`);
    return `export { ${found.declaredAs} as ${name} } from "./${found.file}";`;
  };
  const parts: Plugin = {
    name: "parts",
    setup(bundler) {
      bundler.onResolve({ filter: /^part:/ }, ({ path }) => ({ path: path.slice(5), namespace: "part" }));
      bundler.onLoad({ filter: /./, namespace: "part" }, ({ path }) => {
        const { names } = needs.find(({ page }) => page === path)!;
        return { contents: names.map(exportOf).join("\n"), resolveDir: packageFolder, loader: "ts" };
      });
    },
  };
  const files = [...new Set(needs.flatMap((own) => own.files))];
  await build({
    ...FOR_BROWSERS,
    absWorkingDir: packageFolder,
    entryPoints: [
      { in: "./index.ts", out: "index" },
      ...needs.filter(({ names }) => names.length > 0).map(({ page }) => ({ in: `part:${page}`, out: page })),
      ...files.map((path) => ({ in: `./${path}`, out: path.replace(/\.ts$/, "") })),
    ],
    outdir: target,
    splitting: true,
    write: true,
    keepNames: true, // programs print names of classes
    define: { "process.argv": "[]" }, // learn/00-micro.ts asks whether it is the program; a module of a page is not
    plugins: [parts],
  });
}
