/** Files that can be read at one sitting, and folders that do not grow unnoticed. */
import { describe, expect, it } from "vitest";
import { isTypeScript, projectFiles, readSource } from "./sources.ts";

const MAX_LINES = 400;

/**
 * Lines of code (neither empty nor comment) that each folder may have. Whoever needs more raises the number in the
 * commit that needs it and says there what the lines are for; what has become much less is lowered, too.
 */
const BUDGETS: Readonly<Record<string, number>> = {
  kernels: 7250, // unrolled.ts, fetch.ts
  engine: 7530, // heap.ts; capture.ts
  nn: 6030, // what loading and drawing take; what a letter may become; beamSearch.ts; merges.ts; plans, captures
  environments: 8800, // web, screen, tools
  "rl/episode": 430, // turnEnds
  "rl/methods": 3125, // a KL that decays; webrl; what a method means apart from the table of all parts
  "rl/rewards": 685, // toolCalls.ts, chanceReward; process.ts
  "rl/play": 850, // inverse.ts; the end of a call; generalTexts.ts; answers.ts; completions.ts
  "rl/tasks": 1270, // hindsight.ts; bounds on what is replayed, variants; imitateExpert.ts
  "rl/train": 1825, // reader.ts, outcomeCritic.ts; what hindsight, imitation and bounded replay ask
  "rl/async": 955, // frozen.ts: packed weights; room for workers
  "rl/selfplay": 430,
  "rl/learners": 235,
  "rl/preferences": 1280,
  "rl/interop": 370,
  "rl/worker": 440,
  job: 4730, // inverse.ts, names.ts; models that judge, of steps too; what a failing environment leaves; stopping
  mcp: 710, // messages over HTTP have a limit
  nats: 2960,
  chat: 390,
  node: 1850, // folders that last; what an export leaves
  remote: 460,
  serve: 2350, // the HTTP interface of OpenEnv's production mode
  cli: 660, // the line on memory, the output of workers; beams
  tools: 6370, // finished arms are checked
  site: 5575, // the formula of webrl; settings made with the page
};
/** A budget that is further than this above its folder is lowered. */
const SLACK = 1.05;

/** Lines that are neither empty nor comment. A comment opens at the start of a line, where prettier puts it. */
export function codeLines(text: string): number {
  let inComment = false;
  return text.split("\n").filter((line) => {
    const own = line.trim();
    if (!inComment && own.startsWith("/*")) inComment = true;
    const isCode = own !== "" && !inComment && !own.startsWith("//");
    if (own.endsWith("*/")) inComment = false;
    return isCode;
  }).length;
}

it(`no source file is over ${MAX_LINES} lines`, () => {
  const sources = projectFiles().filter(isTypeScript);
  expect(sources.length).toBeGreaterThan(100);
  const long = sources.map((path) => [path, readSource(path).split("\n").length - 1] as const);
  expect(long.filter(([, lines]) => lines > MAX_LINES)).toEqual([]);
});

describe("lines of code per folder", () => {
  it("are counted without comments", () => {
    expect(codeLines("/** One. */\nconst x = 1; // why\n\n/*\n * Two.\n */\n  // Three\nconst y = /* 2 */ 3;\n")).toBe(
      2,
    );
  });
  it("stay in their budgets", () => {
    const sources = projectFiles().filter(isTypeScript);
    const counted = Object.entries(BUDGETS).map(([folder, budget]) => {
      const own = sources.filter((path) => path.startsWith(`${folder}/`));
      return { folder, budget, lines: own.reduce((sum, path) => sum + codeLines(readSource(path)), 0) };
    });
    console.info(counted.map(({ folder, lines, budget }) => `${folder}: ${lines} of ${budget}`).join("\n"));
    const wrong = counted.filter(({ lines, budget }) => lines > budget || budget > SLACK * lines + 20);
    expect(wrong).toEqual([]);
  });
  it("every folder of the library has one", () => {
    const folders = new Set(
      projectFiles()
        .filter(
          (path) =>
            isTypeScript(path) && /^(kernels|engine|nn|environments|rl|mcp|node|remote|serve|cli|tools)\//.test(path),
        )
        .map((path) => (path.startsWith("rl/") ? path.split("/").slice(0, 2).join("/") : path.split("/")[0]!))
        .filter((folder) => !folder.endsWith(".ts")),
    );
    expect([...folders].filter((folder) => BUDGETS[folder] === undefined)).toEqual([]);
  });
});
