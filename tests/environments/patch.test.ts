/**
 * `patch`: repositories, edits and diffs, what is said, and what submitted files are told of. The rest:
 * patch.long.test.ts.
 */
import { describe, expect, it } from "vitest";
import { Rng } from "../../engine/random.ts";
import type { Environment, StepResult } from "../../rl/environment.ts";
import { patch, type PatchOptions } from "../../environments/patch/index.ts";
import { readEdit } from "../../environments/patch/edits.ts";
import { applyEdit, build, unifiedDiff } from "../../environments/patch/repository.ts";
import { play, start } from "./suite.ts";

const begin = (family: string, seed = 0, more: PatchOptions = {}): Promise<{ env: Environment; task: string }> =>
  start(patch, seed, { families: [family], ...more });

/** "Mend f: g, plus 48; g: under 6, first one", with f: x.g+48 and g: x.below(4).head. */
async function after(...actions: readonly string[]): Promise<StepResult> {
  const { env } = await begin("callee");
  let last: StepResult | undefined;
  for (const action of actions) last = await env.step(action);
  return last!;
}

describe("repositories", () => {
  it("compile all files, or say which does not", () => {
    const files = { f: "x.g+1", g: "x*2" };
    expect(build(files)).toMatchObject({ programs: { f: {}, g: {} } });
    expect(build({ ...files, g: "x*" })).toEqual({ error: { file: "g", at: 3, message: "unexpected end" } });
    expect(build({ f: "x.g" })).toEqual({ error: { file: "f", at: 3, message: "unknown g" } });
  });

  it.each([
    ["f 1->2", { file: "f", search: "1", replace: "2" }],
    ["f a b -> c", { file: "f", search: "a b", replace: "c" }],
    ["f", undefined],
    ["f 1", undefined],
    ["f 1->", undefined],
    ["f ->1", undefined],
    ["f 1->2->3", undefined],
    ["1->2", undefined],
    ["", undefined],
  ])("%j is an edit: %j", (text, edit) => expect(readEdit(text)).toEqual(edit));

  it.each([
    [
      { file: "f", search: "2", replace: "3" },
      { files: { f: "s=x.g\ns*3+1", g: "x" }, line: "s*3+1" },
    ],
    [
      { file: "f", search: "x.g", replace: "x" },
      { files: { f: "s=x\ns*2+1", g: "x" }, line: "s=x" },
    ],
    [{ file: "h", search: "2", replace: "3" }, { error: "no such file" }],
    [{ file: "constructor", search: "2", replace: "3" }, { error: "no such file" }],
    [{ file: "f", search: "9", replace: "3" }, { error: "not found" }],
    [{ file: "f", search: "s", replace: "t" }, { error: "found 2 times" }],
    [{ file: "f", search: "2", replace: "2" }, { error: "that changes nothing" }],
    [{ file: "f", search: "2", replace: "\ud800" }, { error: "only plain characters" }],
    [{ file: "f", search: "2", replace: "2".repeat(80) }, { error: "too long" }],
  ])("%j gives %j", (edit, expected) => {
    expect(applyEdit({ f: "s=x.g\ns*2+1", g: "x" }, edit)).toEqual(expected);
  });

  it("differ by unified diffs with three lines of context", () => {
    const diff = (a: string, b: string): string => unifiedDiff({ f: a }, { f: b });
    expect(diff("a", "a")).toBe("");
    expect(diff("a\nb\nc", "a\nx\nc")).toBe("--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n a\n-b\n+x\n c");
    expect(diff("a", "b")).toBe("--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b");
    expect(diff("a\nb", "a\nb\nc")).toBe("--- a/f\n+++ b/f\n@@ -1,2 +1,3 @@\n a\n b\n+c");
    expect(diff("a\nb\nc", "b\nc")).toBe("--- a/f\n+++ b/f\n@@ -1,3 +1,2 @@\n-a\n b\n c");
    const many = Array.from({ length: 20 }, (_, i) => String(i));
    const far = diff(many.join("\n"), many.with(1, "x").with(18, "y").join("\n"));
    // As `diff -u` prints them.
    expect(far.split("\n").slice(2).join("|")).toBe(
      "@@ -1,5 +1,5 @@| 0|-1|+x| 2| 3| 4|@@ -16,5 +16,5 @@| 15| 16| 17|-18|+y| 19",
    );
    const two = unifiedDiff({ f: "a", g: "b", h: "c" }, { f: "x", g: "b", h: "y" });
    expect(two).toBe("--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+x\n--- a/h\n+++ b/h\n@@ -1 +1 @@\n-c\n+y");
  });
});

describe("what is said", () => {
  it.each([
    [["ls"], "f g", 0],
    [["read f"], "x.g+48", 0],
    [["read g"], "x.below(4).head", 0],
    [["read h"], "no such file", 1],
    [["read __proto__"], "no such file", 1],
    [["edit g 4->6"], "x.below(6).head", 0],
    [["edit g 4->6", "read g"], "x.below(6).head", 0],
    [["edit g 4 -> 5", "undo g", "read g"], "x.below(4).head", 0],
    [["undo h"], "no such file", 1],
    [["edit g 7->6"], "not found", 1],
    [["edit g"], "use edit FILE OLD->NEW", 1],
    [["edit g 4->6", "test"], "pass", 0],
    [["edit g head->heat", "test"], "error in g at 12: unknown heat", 0],
    [["edit f x.g->x.f", "test"], expect.stringMatching(/^f\(\[. . .\]\): error: too many calls$/) as string, 0],
    [["edit f 48->49", "edit g 4->6", "test"], expect.stringMatching(/^f\(\[. . .\]\)=\d+, not \d+$/) as string, 0],
    [["test now"], "use ls, read, edit, undo, test or submit", 1],
    [[""], "use ls, read, edit, undo, test or submit", 1],
  ])("%j: %s", async (actions, observation, toolErrors) => {
    expect(await after(...actions)).toMatchObject({ observation, reward: 0, done: false, info: { toolErrors } });
  });
});

describe("submitted files", () => {
  const head = "--- a/g\n+++ b/g\n@@ -1 +1 @@\n-x.below(4).head\n";
  const solution = `${head}+x.below(6).head`;
  // g has the subtrees x, 6, below and head; f has x, g, 48 and the sum.
  it.each([
    [["edit g 4->6"], 1, { outcome: "passed", passed: 1, syntaxMatch: 1, dataFlowMatch: 1, patch: solution }],
    [[], 0, { syntaxMatch: (1 + 1 / 4) / 2, dataFlowMatch: 1, patch: "" }],
    [["edit g 4->5"], 0, { syntaxMatch: (1 + 1 / 4) / 2, patch: `${head}+x.below(5).head` }],
    [["edit g 4->("], 0, { outcome: "compile error", passed: 0, syntaxMatch: 0, dataFlowMatch: 0 }],
    [["edit g head->sum.sum"], 0, { outcome: "runtime error", passed: 0 }],
    // Another way to do it: 6 is not below 6, and no test has a number between 5 and 6.
    [["edit g below(4)->below(3*2)"], 1, { outcome: "passed", syntaxMatch: (1 + 1 / 4) / 2 }],
  ])("after %j", async (actions, reward, info) => {
    const last = await after(...actions, "submit");
    expect(last).toMatchObject({ observation: "", reward, done: true, info: { ...info, solution, ending: "submit" } });
  });

  it("are judged by as many hidden tests as are asked for", async () => {
    for (const hidden of [0, 16]) {
      const { env } = await begin("number", 0, { hidden });
      const { info } = await play(env, () => patch.expert!(env)).then(({ last }) => last!);
      expect(info).toMatchObject({ success: true, passed: 1 });
    }
    expect(() => patch.make({ hidden: -1 })).toThrow("patch: hidden must be an integer in [0, 16], got -1");
  });
});

it("the expert takes back what somebody else has spoilt", async () => {
  for (const { name } of patch.families)
    for (let seed = 0; seed < 10; seed++) {
      const { env } = await begin(name, seed);
      for (const mistake of ["edit f x->x+x", "edit f .->..", "read f", "edit f s->q"]) await env.step(mistake);
      const { last } = await play(env, () => patch.expert!(env));
      expect(last).toMatchObject({ reward: 1, done: true });
    }
});

it("a novice edits what it has read, a third of it rightly, and goes on after some tests that fail", async () => {
  let [solved, episodes, tested, wentOn] = [0, 0, 0, 0];
  for (const { name, level } of patch.families)
    for (let seed = 0; seed < 40; seed++) {
      const { env } = await begin(name, seed);
      const rng = new Rng(seed);
      const guesses: string[] = [];
      const { last, lines, total } = await play(env, () => {
        const { action, isGuess } = patch.novice!(env, rng, 0, "");
        if (isGuess) guesses.push(action);
        return action;
      });
      expect(last, lines.join("\n")).toMatchObject({ done: true, info: { ending: "submit" } });
      for (const guess of guesses) expect(lines).toContain(`$ read ${guess.split(" ")[1]!}`);
      expect(guesses.length).toBeGreaterThanOrEqual(level === 4 ? 2 : 1);
      tested += Number(lines.includes("$ test"));
      wentOn += Number(guesses.length > (level === 4 ? 2 : 1));
      if (level === 4) continue;
      episodes++;
      solved += total;
    }
  expect(solved / episodes).toBeGreaterThan(0.25);
  expect(solved / episodes).toBeLessThan(0.6);
  expect(tested).toBeGreaterThan(60);
  expect(tested).toBeLessThan(140);
  expect(wentOn).toBeGreaterThan(10);
  expect(wentOn).toBeLessThan(60);
});
