/**
 * A program of the book on its way to a worker: cells become one module, its types are taken away, its imports become
 * addresses of the library's prebuilt modules, and a line of the module is a line of a cell again.
 */
import { ENTER } from "./messages.ts";

/** The library's modules on a page. Keys are paths from the root of the repository. */
export interface Modules {
  /** Addresses, relative to `base`. */
  readonly files: Readonly<Record<string, string>>;
  /** Exports of the module at `files["index.ts"]`; programs that import other names get `whole`. */
  readonly names: readonly string[];
  readonly whole: string;
}

/** A line of a cell: cells count from 0, lines from 1. */
export interface Place {
  readonly cell: number;
  readonly line: number;
}

export interface Program {
  readonly text: string;
  /** Undefined for a line that belongs to no cell. */
  readonly placeOf: (line: number) => Place | undefined;
}

/** Cells as one module. A call before each cell tells that its output begins. */
export function assemble(cells: readonly string[]): Program {
  const starts: number[] = [];
  const lines: string[] = [];
  cells.forEach((code, cell) => {
    lines.push(`${ENTER}(${cell});`);
    starts.push(lines.length + 1);
    lines.push(...code.split("\n"));
  });
  const placeOf = (line: number): Place | undefined => {
    const cell = starts.findLastIndex((start) => start <= line);
    return cell < 0 || line > lines.length ? undefined : { cell, line: line - starts[cell]! + 1 };
  };
  return { text: lines.join("\n"), placeOf };
}

/** An answer to an exercise in its file, followed by the call of the check. The answer is cell 0. */
export function assembleCheck(before: string, answer: string, after: string, number: number): Program {
  const first = before.split("\n").length;
  const count = answer.split("\n").length;
  const text = `${before}${answer}${after}\nawait check${number}(exercise${number});\n`;
  const placeOf = (line: number): Place | undefined =>
    line >= first && line < first + count ? { cell: 0, line: line - first + 1 } : undefined;
  return { text, placeOf };
}

/** `import … from "x"`, `import "x"` and `export … from "x"` at the start of a line; `import("x")` anywhere. */
const STATEMENT = /^(\s*(?:import|export)\b(?:([^"'`;=()]*?)\bfrom\b)?\s*)(["'])([^"'\n]+)\3/gm;
const CALL = /(\bimport\(\s*)(["'])([^"'\n]+)\2/g;

/**
 * @param folder of the program from the root, such as `learn`
 * @param base the address that those of `modules` are relative to
 * @throws Error if a module is not here
 */
export function resolveImports(js: string, folder: string, modules: Modules, base: string): string {
  const addressOf = (specifier: string, names: readonly string[]): string => {
    const path = resolvePath(folder, specifier);
    const file = modules.files[path];
    if (file === undefined) {
      const here = Object.keys(modules.files).map((own) => `"${own}"`);
      throw new Error(`cannot import "${specifier}" here: this page has ${here.join(", ") || "no modules"}`);
    }
    const isCovered = path !== "index.ts" || names.every((name) => modules.names.includes(name));
    return new URL(isCovered ? file : modules.whole, base).href;
  };
  return js
    .replaceAll(STATEMENT, (_, head: string, clause: string | undefined, _quote, specifier: string) => {
      return `${head}"${addressOf(specifier, namesOf(clause ?? ""))}"`;
    })
    .replaceAll(CALL, (_, head: string, _quote, specifier: string) =>
      /^[a-z]+:/.test(specifier) ? `${head}"${specifier}"` : `${head}"${addressOf(specifier, ["*"])}"`,
    );
}

/** The names that an import clause takes from a module; `*` if it takes all. */
export function namesOf(clause: string): string[] {
  if (clause.includes("*")) return ["*"];
  const list = /\{([^}]*)\}/.exec(clause)?.[1] ?? "";
  return list
    .split(",")
    .map((entry) => entry.trim())
    .filter((entry) => entry !== "" && !entry.startsWith("type "))
    .map((entry) => entry.split(/\s+as\s+/)[0]!);
}

/** `../index.ts` in `learn` is `index.ts`. */
function resolvePath(folder: string, specifier: string): string {
  const parts = folder.split("/");
  for (const part of specifier.split("/")) {
    if (part === "..") parts.pop();
    else if (part !== ".") parts.push(part);
  }
  return parts.join("/");
}

/** A change of "Break it": lines that must stand together in one cell, once, and what takes their place. */
export interface Change {
  readonly before: readonly string[];
  readonly after: readonly string[];
}

/** The cells after the changes. @throws Error if a change does not fit, as it will not after an edit of its lines */
export function applyChanges(cells: readonly string[], changes: readonly Change[]): string[] {
  return changes.reduce<string[]>(
    (all, { before, after }) => {
      const parts = all.map((code) => `\n${code}\n`.split(`\n${before.join("\n")}\n`));
      const found = parts.reduce((sum, own) => sum + own.length - 1, 0);
      if (found !== 1) throw new Error(`expected one place that reads "${before.join("\n")}", found ${found}`);
      return parts.map((own) => own.join(`\n${after.join("\n")}\n`).slice(1, -1));
    },
    [...cells],
  );
}

/**
 * The line of a name that is declared twice: a syntax error that only the engine finds, and without telling its place.
 */
export function lineOfSecondDeclaration(text: string, message: string): number | undefined {
  const name = /Identifier '([\w$]+)' has already been declared/.exec(message)?.[1];
  if (name === undefined) return undefined;
  const escaped = name.replaceAll("$", "\\$");
  const declares = new RegExp(`\\b(?:const|let|var|class|function\\*?|import)\\b[^=(]*(?<![\\w$])${escaped}(?![\\w$])`);
  const lines = text.split("\n").flatMap((line, i) => (declares.test(line) ? [i + 1] : []));
  return lines.length > 1 ? lines.at(-1) : undefined;
}
