/**
 * What README, llms.txt and docs/ say is true: the paths that they name exist, line counts are about right, programs do
 * what the text under them shows, and the diffs still fit the files that they change. The fixtures' page names each.
 */
import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, normalize } from "node:path";
import process from "node:process";
import { fileURLToPath, pathToFileURL } from "node:url";
import { afterAll, describe, expect, it } from "vitest";
import { HELP } from "../../run/node/commandLine.ts";
import { cellsOf, testsNamed } from "../../scripts/attacks.ts";
import { applied, blocksOf, hunksOf } from "./diffs.ts";
import { isTypeScript, projectFiles, readSource } from "./sources.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const IS_PAGE = /^((README|CONTRIBUTING|SECURITY|CHANGELOG|docs\/[\w-]+)\.md|llms\.txt)$/;
const PAGES = projectFiles().filter((path) => IS_PAGE.test(path));
/** Made by commands that the pages tell of; not in the repository. */
const MADE = /^(runs|dist|site\/dist|\.cache|node_modules)(\/|$)/;

const linesOf = (path: string): number => readSource(path).split("\n").length - 1;
const withoutFences = (text: string): string => text.replace(/^```.*?^```$/gms, "");

const blocks = (page: string): ReturnType<typeof blocksOf> => blocksOf(readSource(page));

/** Paths in links, and in `code` if they look like one: a folder of the repository, a slash, a name. */
function pathsIn(page: string): string[] {
  const text = withoutFences(readSource(page));
  const links = [...text.matchAll(/\]\(([^)#\s]+)/g)].map((m) => m[1]!).filter((url) => !/^[a-z]+:/.test(url));
  const folders = new Set(projectFiles().map((path) => path.split("/")[0]!));
  const code = [...text.matchAll(/`([\w.-]+(?:\/[\w.-]+)*\/?)`/g)].map((m) => m[1]!);
  return [
    ...links.map((path) => normalize(join(dirname(page), path))),
    ...code.filter((path) => path.includes("/") && folders.has(path.split("/")[0]!)),
  ];
}

describe.each(PAGES)("%s", (page) => {
  it("names only paths that exist", () => {
    expect(pathsIn(page).filter((path) => !MADE.test(path) && !existsSync(join(ROOT, path)))).toEqual([]);
  });

  it("counts lines of files right, to within a tenth", () => {
    const rows = [...readSource(page).matchAll(/^\|\s*(\d+) \| `([^`]+)`/gm)];
    const wrong = rows
      .map(([, stated, path]) => ({ path, stated: Number(stated), is: linesOf(path!) }))
      .filter(({ stated, is }) => Math.abs(stated - is) > Math.max(5, 0.1 * is));
    expect(wrong).toEqual([]);
  });
});

it("there are pages, and they name files", () => {
  expect(PAGES).toContain("README.md");
  expect(PAGES.length).toBeGreaterThan(6);
  expect(pathsIn("README.md").length).toBeGreaterThan(25);
});

describe("README.md", () => {
  it("states the size of the library to within a tenth", () => {
    const stated = Number(/about ([\d,]+) lines/.exec(readSource("README.md"))![1]!.replace(",", ""));
    const sources = projectFiles().filter((path) => isTypeScript(path) && /^(kernels|engine|nn|rl)\//.test(path));
    const is = sources.reduce((total, path) => total + linesOf(path), 0);
    expect(Math.abs(stated - is)).toBeLessThan(0.1 * is);
  });

  it("is read in one sitting", () => expect(linesOf("README.md")).toBeLessThanOrEqual(120));

  it("has the figures of docs/evidence.md", () => {
    const evidence = readSource("docs/evidence.md");
    const figures = [...readSource("README.md").matchAll(/^\|[^|]*\| +(\d[^|]*\]) +\|/gm)].map((row) => row[1]!);
    expect(figures.length).toBe(6);
    expect(
      figures.filter((figure) => !evidence.includes(`| ${figure} |`) && !evidence.includes(` ${figure} |`)),
    ).toEqual([]);
  });
});

it("docs/command-line.md shows the flags of npm start as --help prints them", () => {
  expect(blocks("docs/command-line.md").map(({ text }) => text)).toContain(HELP);
});

it("tests/fixtures/README.md says of every fixture how it was made", () => {
  const fixtures = join(ROOT, "tests/fixtures");
  const within = (folder: string): string[] => readdirSync(join(fixtures, folder)).map((name) => `${folder}/${name}`);
  const all = readdirSync(fixtures, { withFileTypes: true })
    .filter(({ name }) => name !== "README.md")
    .flatMap((entry) => (entry.isDirectory() ? within(entry.name) : [entry.name]));
  const page = readFileSync(join(fixtures, "README.md"), "utf8");
  expect(all).toContain("models/llama_tiny");
  expect(all.filter((path) => !page.includes(`| \`${path}\``))).toEqual([]);
  const named = [...page.matchAll(/^\| `([^`]+)`/gm)].map((row) => row[1]!);
  expect(named.filter((path) => ![fixtures, ROOT].some((folder) => existsSync(join(folder, path))))).toEqual([]);
});

describe("docs/testing.md", () => {
  /** The cells of the rows of the table that begins with these columns. */
  function rowsOf(...columns: string[]): string[][] {
    const lines = readSource("docs/testing.md").split("\n");
    const head = lines.findIndex((line) => line.startsWith("|") && cellsOf(line).join() === columns.join());
    expect(head, columns.join()).toBeGreaterThanOrEqual(0);
    const rest = lines.slice(head + 2);
    return rest
      .slice(
        0,
        rest.findIndex((line) => !line.startsWith("|")),
      )
      .map(cellsOf);
  }
  const testFiles = projectFiles().filter((path) => path.startsWith("tests/") && path.endsWith(".test.ts"));

  /** Holds cells to their form: files of tests with words of titles that stand there, and that all of them passed. */
  function expectTests(ran: string, held: string, where: string): void {
    const tests = testsNamed(held);
    expect(
      tests.map(({ file, titles }) => `\`${file}\`: ${titles.map((title) => `“${title}”`).join(", ")}`).join("; "),
      where,
    ).toBe(held.replaceAll("\\|", "|"));
    expect(tests.length, where).toBeGreaterThan(0);
    for (const { file, titles } of tests) {
      expect(testFiles, where).toContain(file);
      for (const title of titles) expect(readSource(file), `${where}: ${file}`).toContain(title);
    }
    const [, passed, all] = /^(\d+) of (\d+)(; |$)/.exec(ran) ?? [];
    expect([Number(all) > 0, passed], `${where}: ${ran} (npm run attacks)`).toEqual([true, all]);
  }

  it("names a test for every fault that was found: its file, and words of its title that stand there", () => {
    const rows = rowsOf("Fault", "Before", "Now", "Ran", "Test");
    expect(rows.length).toBeGreaterThanOrEqual(42);
    for (const [fault, before, now, ran, held] of rows) {
      expect([before, now], fault).not.toContain("");
      expectTests(ran!, held!, fault!);
    }
  });

  it("names a test for every attack", () => {
    const rows = rowsOf("Attack", "Tried", "Survived", "Ran", "Test");
    expect(rows.length).toBeGreaterThanOrEqual(23);
    for (const [attack, tried, survived, ran, held] of rows) {
      expect([tried, survived], attack).not.toContain("");
      expectTests(ran!, held!, attack!);
    }
  });

  it("has for every kind of test a command that is there and runs something", () => {
    const rows = rowsOf("Kind", "Finds", "Command", "Takes");
    const { scripts } = JSON.parse(readSource("package.json")) as { scripts: Record<string, string> };
    expect(rows.length).toBeGreaterThan(12);
    for (const [kind, , commands] of rows) {
      for (const [, command] of commands!.matchAll(/`([^`]+)`/g)) {
        const [, script] = /^npm (?:run )?([\w:]+)/.exec(command!) ?? [];
        if (script !== undefined) expect(Object.keys(scripts), kind).toContain(script);
        const [, project, filters] = /npx vitest run --project (\w+) (.+)$/.exec(command!) ?? [];
        if (script === undefined) expect(["unit", "long"], `${kind}: ${command}`).toContain(project);
        for (const filter of filters?.split(" ") ?? [])
          expect(
            testFiles.some((path) => path.includes(filter) && path.includes(".long.") === (project === "long")),
            filter,
          ).toBe(true);
      }
    }
  });
});

describe("programs in the pages", () => {
  /** The package's entry points that programs may import, and their sources. */
  const ENTRIES: Readonly<Record<string, string>> = {
    worldgrad: "index.ts",
    "worldgrad/engine": "engine/index.ts",
    "worldgrad/nn": "nn/index.ts",
    "worldgrad/environments": "environments/index.ts",
    "worldgrad/rl": "rl/index.ts",
    "worldgrad/worker": "distribute/worker/index.ts",
    "worldgrad/run": "run/index.ts",
    "worldgrad/math": "math/index.ts",
    "worldgrad/compiled": "compiled/index.ts",
    "worldgrad/tune": "tune/index.ts",
    "worldgrad/fast-check": "fastCheck.ts",
    "worldgrad/tensor-methods": "tensorMethods.ts",
  };
  const folder = mkdtempSync(join(tmpdir(), "worldgrad-docs-"));
  symlinkSync(join(ROOT, "node_modules"), join(folder, "node_modules"), "junction"); // for fast-check
  afterAll(() => rmSync(folder, { recursive: true }));

  /** Each with the text that follows it, which is what it prints. cookbook.long.test.ts runs those of the cookbook. */
  const programs = PAGES.filter((page) => page !== "docs/cookbook.md").flatMap((page) => {
    const all = blocks(page);
    return all.flatMap(({ language, text }, i) =>
      language === "ts"
        ? [{ name: `${page}, block ${i + 1}`, text, output: all[i + 1]?.language === "text" ? all[i + 1]!.text : "" }]
        : [],
    );
  });

  it("exist", () => expect(programs.length).toBeGreaterThanOrEqual(2));

  it("type-check", () => {
    const files = programs.map(({ text }, i) => {
      writeFileSync(join(folder, `${i}.mts`), text);
      return `${i}.mts`;
    });
    const paths = Object.fromEntries(Object.entries(ENTRIES).map(([name, file]) => [name, [join(ROOT, file)]]));
    const types = { typeRoots: [join(ROOT, "node_modules/@types")], types: ["node"] };
    const compilerOptions = { paths, ...types, noEmit: true };
    writeFileSync(
      join(folder, "tsconfig.json"),
      JSON.stringify({ extends: join(ROOT, "tsconfig.json"), compilerOptions, include: [], files }),
    );
    const { status, stdout } = spawnSync(join(ROOT, "node_modules/.bin/tsc"), ["-p", folder], { encoding: "utf8" });
    expect(stdout).toBe("");
    expect(status).toBe(0);
  }, 60_000);

  it.each(programs)(
    "$name prints what is shown",
    ({ text, output }) => {
      const program = text.replace(/ from "(worldgrad[\w/-]*)"/g, (_, name: string) => {
        return ` from ${JSON.stringify(pathToFileURL(join(ROOT, ENTRIES[name]!)).href)}`;
      });
      const path = join(folder, "program.mts");
      writeFileSync(path, program);
      const env = { ...process.env, NO_COLOR: "1" };
      const run = spawnSync(process.execPath, ["--import", "tsx", path], { cwd: ROOT, encoding: "utf8", env });
      expect(run.stderr).toBe("");
      expect(run.stdout.trimEnd()).toBe(output.trimEnd());
    },
    60_000,
  );
});

describe("diffs in the pages", () => {
  const diffs = PAGES.flatMap((page) =>
    blocks(page).flatMap(({ language, text }, i) =>
      language === "diff" ? [{ name: `${page}, block ${i + 1}`, hunks: hunksOf(text) }] : [],
    ),
  );

  it("exist: an op, two methods, an environment and its name", () => expect(diffs.length).toBeGreaterThanOrEqual(5));

  it.each(diffs)("$name touches one file, and applies to it", ({ hunks }) => {
    expect(new Set(hunks.map(({ path }) => path)).size).toBe(1);
    const { path } = hunks[0]!;
    const text = existsSync(join(ROOT, path)) ? readSource(path) : undefined;
    expect(applied(text, hunks)).not.toBe(text);
  });
});
