/**
 * `npx tsx scripts/apiReport.ts`: writes docs/api.txt, all that the package exports, as types: a change of the API is
 * seen there in review. A name that several entry points export is written once, under the first.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { readReference } from "./book/api/reference.ts";
import { packageFolder } from "./packageFolder.ts";

/** The file of the report. */
export const REPORT = join(packageFolder, "docs/api.txt");

type Exports = Readonly<Record<string, string | { readonly default: string }>>;

/** The report as it has to be now. */
export function apiReport(): string {
  const { name, exports } = JSON.parse(readFileSync(join(packageFolder, "package.json"), "utf8")) as {
    readonly name: string;
    readonly exports: Exports;
  };
  const files = Object.entries(exports).flatMap(([path, target]) =>
    typeof target === "string"
      ? []
      : [[path.replace(/^\./, name), path, target.default.replace(/^\.\/dist\//, "").replace(/js$/, "ts")] as const],
  );
  // The entry point of everything exports what others do.
  const parts = readReference([...files.slice(1), files[0]!]);
  const written = new Map<string, string>();
  const sections = parts.map(({ specifier, names }) => {
    const lines = names
      .toSorted((a, b) => (a.name < b.name ? -1 : 1))
      .map(({ name: own, file, line, declaration }) => {
        const place = `${file}:${line}`;
        const first = written.get(place);
        written.set(place, first ?? specifier);
        return first === undefined ? withoutComments(declaration) : `${own}: see ${first}`;
      });
    return [`# ${specifier}`, ...lines].join("\n");
  });
  return `${sections.join("\n\n")}\n`;
}

/** A declaration without its comments and empty lines. */
const withoutComments = (text: string): string =>
  text
    .replaceAll(/\/\*\*.*?\*\//gs, "")
    .replaceAll(/^\s*\/\/.*$/gm, "")
    .split("\n")
    .filter((line) => line.trim() !== "")
    .join("\n");

if (process.argv[1] === fileURLToPath(import.meta.url)) writeFileSync(REPORT, apiReport());
