/**
 * `npm run attacks`: runs the tests that the tables "Attacks" and "Faults that were found" of docs/testing.md name, and
 * writes the result into their column "Ran": how many tests have these names, how many of them passed, and counts of
 * what they tried (`tests/support/tried.ts`). With `--minutes N` it also fuzzes for N minutes and writes that table.
 * The exit code is 1 if a test failed or does not exist.
 */
import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { format, resolveConfig } from "prettier";
import { packageFolder } from "./packageFolder.ts";

const PAGE = "docs/testing.md";

/** A test that ran, from vitest's JSON report. */
export interface Ran {
  readonly file: string;
  /** Titles of its groups, and its own. */
  readonly name: string;
  readonly passed: boolean;
  /** Counts of what it tried. */
  readonly tried?: Readonly<Record<string, number>> | undefined;
}

/** Cells of a row of a table, trimmed. */
export const cellsOf = (line: string): string[] =>
  line
    .split(/(?<!\\)\|/)
    .slice(1, -1)
    .map((cell) => cell.trim());

/** Tests named in a cell, as `` `FILE`: “words of a title”, “of another”; `FILE`: … ``. */
export function testsNamed(cell: string): { readonly file: string; readonly titles: readonly string[] }[] {
  return Array.from(cell.matchAll(/`(tests\/[^`]+)`: (“.*?”)(?=;|$)/g), ([, file, titles]) => ({
    file: file!,
    titles: Array.from(titles!.matchAll(/“([^”]+)”/g), ([, title]) => title!.replaceAll("\\|", "|")),
  }));
}

/** Cell "Ran" of a row that names these tests. @throws Error if no test has a title that the row names */
export function ranCell(named: string, tests: readonly Ran[]): string {
  const matches = testsNamed(named).flatMap(({ file, titles }) =>
    titles.flatMap((title) => {
      // `%s` stands for any title of the file: the test is drawn for many inputs.
      const found = tests.filter((test) => test.file === file && (title === "%s" || test.name.includes(title)));
      if (found.length === 0) throw new Error(`attacks: ${file} has no test “${title}”`);
      return found;
    }),
  );
  const all = [...new Set(matches)];
  const passed = all.filter((test) => test.passed).length;
  const tried = new Map<string, number>();
  for (const test of all)
    for (const [what, n] of Object.entries(test.tried ?? {})) tried.set(what, (tried.get(what) ?? 0) + n);
  const counts = Array.from(tried, ([what, n]) => `${n.toLocaleString("en")} ${what}`);
  return [`${passed} of ${all.length}`, ...counts].join("; ");
}

/** The page with a new column "Ran" in both tables. */
export function withRan(page: string, tests: readonly Ran[]): string {
  let columns: readonly string[] = [];
  return page
    .split("\n")
    .map((line) => {
      if (!line.startsWith("|")) {
        columns = [];
        return line;
      }
      const cells = cellsOf(line);
      if (columns.length === 0) columns = cells;
      const [ran, test] = [columns.indexOf("Ran"), columns.indexOf("Test")];
      if (ran < 0 || test < 0 || cells === columns || /^-+$/.test(cells[0]!)) return line;
      cells[ran] = ranCell(cells[test]!, tests);
      return `| ${cells.join(" | ")} |`;
    })
    .join("\n");
}

/** The page with a new table in place of the one with the same first line. */
export function withTable(page: string, table: string): string {
  const [lines, head] = [page.split("\n"), table.split("\n")[0]!];
  const from = lines.findIndex((line) => line.startsWith("|") && cellsOf(line).join() === cellsOf(head).join());
  if (from < 0) throw new Error(`attacks: ${PAGE} has no table ${head}`);
  const length = lines.slice(from).findIndex((line) => !line.startsWith("|"));
  return [...lines.slice(0, from), ...table.trim().split("\n"), ...lines.slice(from + length)].join("\n");
}

/** Runs the files, of whichever project of vitest.config.ts. */
function run(files: readonly string[]): Ran[] {
  const folder = mkdtempSync(join(tmpdir(), "worldgrad-attacks-"));
  const path = join(folder, "report.json");
  try {
    spawnSync(
      process.execPath,
      ["node_modules/vitest/vitest.mjs", "run", "--reporter=default", "--reporter=json", `--outputFile.json=${path}`]
        .concat(["--project=unit", "--project=long"])
        .concat(files),
      { cwd: packageFolder, stdio: ["ignore", "inherit", "inherit"] },
    );
    const { testResults } = JSON.parse(readFileSync(path, "utf8")) as {
      testResults: {
        name: string;
        assertionResults: { fullName: string; status: string; meta: { tried?: Record<string, number> } }[];
      }[];
    };
    return testResults.flatMap(({ name: file, assertionResults }) =>
      assertionResults.map(({ fullName, status, meta }) => ({
        file: relative(packageFolder, file),
        name: fullName,
        passed: status === "passed",
        tried: meta.tried,
      })),
    );
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { values } = parseArgs({ options: { minutes: { type: "string" } } });
  const path = join(packageFolder, PAGE);
  const page = readFileSync(path, "utf8");
  const files = [
    ...new Set(
      page.split("\n").flatMap((line) =>
        cellsOf(line)
          .flatMap(testsNamed)
          .map(({ file }) => file),
      ),
    ),
  ];
  const tests = run(files);
  let text = withRan(page, tests);
  if (values.minutes !== undefined) {
    const args = ["run", "--silent", "fuzz", "--", "--minutes", values.minutes];
    text = withTable(text, execFileSync("npm", args, { cwd: packageFolder, encoding: "utf8" }));
  }
  writeFileSync(path, await format(text, { ...(await resolveConfig(path)), filepath: path }));
  const failed = tests.filter((test) => !test.passed);
  for (const { file, name } of failed) console.error(`failed: ${file}: ${name}`);
  console.log(
    `${tests.length} tests in ${files.length} files, ${failed.length} failed; ${PAGE} says what each was for`,
  );
  process.exitCode = failed.length === 0 ? 0 : 1;
}
