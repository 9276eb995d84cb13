/**
 * What must not get into the repository: switched-off checks, unfinished work, traces of the machine that it was
 * written on.
 */
import { describe, expect, it } from "vitest";
import { THOROUGH } from "../support/tries.ts";
import { isTypeScript, projectFiles, readSource } from "./sources.ts";

/** Folders whose numbers follow from a seed. */
const WITHOUT_CHANCE = /^(kernels|engine|nn|rl|methods|data|papers|pretrained|distribute\/(async|worker))\//;

/** Spelt so that this file does not contain what it looks for. (/home/user is a home in the terminal environment.) */
const word = (...parts: string[]): string => parts.join("");

const RULES: readonly { readonly what: string; readonly where: RegExp; readonly pattern: RegExp }[] = [
  { what: "a test that is skipped", where: /^tests\/.*\.ts$/, pattern: /\.(skip|todo|fails|skipIf|runIf)\b\s*[.(`]/ },
  { what: "a test that runs alone", where: /^tests\/.*\.ts$/, pattern: /\b(it|test|describe)\.only\b/ },
  {
    what: "unfinished work",
    where: /\.(ts|md|html|sh)$/,
    pattern: new RegExp(`\\b(${word("TO", "DO")}|${word("FIX", "ME")}|${word("X", "XX")})\\b`),
  },
  {
    what: "a suppressed check",
    where: /\.ts$/,
    pattern: new RegExp(`@${word("ts-", "(ignore|nocheck|expect-error)")}|${word("(ox|es)", "lint-disable")}`),
  },
  {
    what: "code from text",
    where: /^(kernels|engine|nn|rl|methods|data|papers|pretrained|distribute|math|tune|connect|run|index).*\.ts$/,
    pattern: /\bnew Function\(|[^.\w]eval\(/,
  },
  {
    what: "chance without a seed",
    where: WITHOUT_CHANCE,
    pattern: /\bMath\.random\b|\bDate\.now\b|\bnew Date\b/,
  },
  {
    what: "a path of some machine",
    where: /./,
    pattern: new RegExp(`(^|[\\s"'\`(=])/(${word("wo", "rk")}|${word("ho", "me")}(?!/user\\b)|root|Users)/`),
  },
  {
    what: "a host of some registry",
    where: /^(\.ci|package|scripts)/,
    pattern: new RegExp(`registry\\.|"${word("reso", "lved")}"`),
  },
];

const TEXT = /(\.(ts|md|json|jsonc|jsonl|yaml|html|sh)|^LICENSE|^\.ci\/run)$/;

describe("the repository holds no", () => {
  const files = projectFiles().filter((path) => TEXT.test(path) && !path.includes("recorded"));
  for (const { what, where, pattern } of RULES) {
    it(what, () => {
      const seen = files.filter((path) => where.test(path));
      const found = seen.flatMap((path) => {
        const lines = readSource(path).split("\n");
        return lines.flatMap((line, i) => (pattern.test(line) ? [`${path}:${i + 1}: ${line.trim()}`] : []));
      });
      expect(seen.length).toBeGreaterThan(0);
      expect(found).toEqual([]);
    });
  }

  it("package or archive of others", () => {
    expect(projectFiles().filter((path) => /\.(whl|tgz|tar|gz|zip|xz|bz2|deb|so|exe)$/.test(path))).toEqual([]);
  });

  it("source file without a word about what it is", () => {
    const sources = files.filter((path) => isTypeScript(path));
    expect(sources.filter((path) => !/^(#!.*\n)?\/\*\*/.test(readSource(path)))).toEqual([]);
  });
});

it("tests with fewer tries in `npm test` have all of them in `npm run test:long`", () => {
  const fewer = projectFiles().filter(
    (path) => /^tests\/.*\.ts$/.test(path) && readSource(path).includes("support/tries.ts"),
  );
  const patterns = THOROUGH.map((glob) => new RegExp(`^${glob.replaceAll(".", "\\.").replaceAll("*", "[^/]*")}$`));
  // contract.ts, suite.ts and facts.ts hold tests for the environments' files beside them.
  const helpers = /^tests\/(environments\/(contract|suite|facts)|project\/hygiene\.test)\.ts$/;
  const missing = fewer.filter((path) => !helpers.test(path) && !patterns.some((pattern) => pattern.test(path)));
  expect(fewer.length).toBeGreaterThan(10);
  expect(missing).toEqual([]);
});
