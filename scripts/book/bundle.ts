/** Scripts and styles of the pages of the book, and the library as modules that cells import, bundled by esbuild. */
import { join, posix } from "node:path";
import { build, type Plugin } from "esbuild";
import { namesOf } from "../../site/book/program.ts";
import { FOR_BROWSERS } from "../forBrowsers.ts";
import { packageFolder } from "../packageFolder.ts";
import type { Name } from "./api/reference.ts";

/**
 * Writes page scripts and styles into a folder.
 * @returns the files that the page of a chapter loads before a cell runs
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

/** Imports of the programs of a page from the library. */
export interface Needs {
  /** Name of the page, such as `05-grpo`. */
  readonly page: string;
  /** Names from index.ts; none if a program imports all of it, or nothing. */
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
  if (names.has("*")) names.clear(); // the page imports the whole library
  return { page, names: [...names].toSorted(), files: [...files].toSorted() };
}

/**
 * Writes the library into `target`: for each page a module of the names that it imports, the whole library, and the
 * files that programs import directly. They share chunks, so that each class and each default device exists once.
 */
export async function bundleLibrary(
  target: string,
  needs: readonly Needs[],
  declarations: ReadonlyMap<string, Name>,
): Promise<void> {
  // Exports come from the declaring files: through index.ts, each page would share one chunk with the whole library.
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
  const files = [...new Set(needs.flatMap((page) => page.files))];
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
    define: { "process.argv": "[]" }, // for learn/00-micro.ts, which tests whether it runs as a program
    plugins: [parts],
  });
}
