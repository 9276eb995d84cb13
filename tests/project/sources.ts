/** The project's source files and what they import: the material of the tests in this folder. */
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, posix, relative } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = join(dirname(fileURLToPath(import.meta.url)), "../..");
const SKIPPED = new Set(["node_modules", "dist", "runs", "coverage", "fixtures"]);

/** Paths from the root, with forward slashes, of all files that a person wrote. */
export function projectFiles(folder: string = ROOT): string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) {
      return SKIPPED.has(entry.name) || /^\.(?!ci$)/.test(entry.name) ? [] : projectFiles(path);
    }
    return entry.isFile() ? [relative(ROOT, path).replaceAll("\\", "/")] : [];
  });
}

export const isTypeScript = (path: string): boolean => path.endsWith(".ts");
export const readSource = (path: string): string => readFileSync(join(ROOT, path), "utf8");

/**
 * `import … from "x"`, `export … from "x"` and `import "x"` at the start of a line, where prettier puts every
 * statement.
 */
const STATEMENT = /^(?:import|export)\s(?:[^"'`;=()]*?\sfrom\s)?"([^"]+)"/gm;
/** `import("x")`, in types, too. */
const CALL = /\bimport\(\s*(?:\/\*.*?\*\/\s*)*"([^"]+)"/g;

/** What the module's text imports: relative specifiers resolved to paths from the root, the others as they stand. */
export function importsOf(path: string, text: string): string[] {
  const specifiers = [STATEMENT, CALL].flatMap((pattern) => [...text.matchAll(pattern)].map((match) => match[1]!));
  return specifiers.map((x) => (x.startsWith(".") ? posix.normalize(posix.join(posix.dirname(path), x)) : x));
}
