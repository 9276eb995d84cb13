/**
 * What `npm run mutate` tries: the edits that are found in a text, and the program that holds them all.
 */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { instrument } from "../../scripts/mutate/instrument.ts";
import { editOf, KINDS, type Mutant, mutantsOf } from "../../scripts/mutate/mutants.ts";
import { Mutation } from "../../scripts/mutate/switch.ts";
import { parse } from "../../scripts/mutate/syntax.ts";
import { allMutants, readTarget, targetFiles, testFiles } from "../../scripts/mutate/targets.ts";
import { packageFolder } from "../../scripts/packageFolder.ts";

/** Of code in a function: what runs while a module is loaded is not edited. */
const edits = (text: string, head = ""): string[] => mutantsOf("x.ts", `${head} () => { ${text} };`).map(editOf);
/** The text with one mutant carried out, by plain replacement. */
const applied = (text: string, { start, end, replacement }: Mutant): string =>
  `${text.slice(0, start)}(${replacement})${text.slice(end)}`;

describe("what is edited", () => {
  it.each<[text: string, expected: readonly string[]]>([
    ["a + b;", ["a + b → a - b"]],
    ["(a - b) / c;", ["(a - b) / c → a - b", "(a - b) / c → (a - b) * c", "a - b → a + b"]],
    ["w * x;", ["w * x → w", "w * x → x"]],
    ["f(-x);", ["-x → x"]],
    ["mask ? x : 0;", ["mask ? x : 0 → x", "mask ? x : 0 → 0", "0 → 1"]],
    ["a && b;", ["a && b → a", "a && b → b"]],
    ["if (done) stop();", ["done → false"]],
    ["x[row]![t - 1]!;", ["t - 1 → t - 1 + 1", "t - 1 → t + 1", "1 → 2"]],
    ["t < n;", ["t < n → t >= n", "t < n → t <= n"]],
    ["Math.min(a, b);", ["Math.min(a, b) → Math.max(a, b)"]],
    ["Math.exp(x);", ["Math.exp(x) → x"]],
    ["x.filter(f).map(g);", ["x.filter(f) → x"]],
    ["total += x;", ["total += x → total -= x"]],
    ["const { beta = 0.1 } = options;", ["0.1 → 0.2"]],
  ])("%s", (text, expected) => expect(edits(text)).toEqual(expected));

  it("formulas and tensors: where, sub, neg, clamp, stopGradient", () => {
    const text = "where(mask, lp.sub(old).neg().stopGradient().clamp(low, high), x);";
    const head = 'import { where } from "../../kernels/expr.ts";';
    expect(edits(text, head).map((edit) => edit.replace(/^.* → /, ""))).toEqual([
      "lp.sub(old).neg().stopGradient().clamp(low, high)",
      "lp.sub(old).neg().stopGradient()",
      "lp.sub(old).neg()",
      "lp.sub(old)",
      "lp.add(old)",
    ]);
  });

  it.each([
    "check(x > 0, () => `x must be > 0, got ${x - 1}`);",
    'if (x < 0) fail("negative");',
    "type T = -1 | 2; interface I { readonly 3: 4 }",
    '"a" + b;',
    "table[name];",
    'function lossByName(name: string) { return name === "a" ? 1 : 2; }',
  ])("not: %s", (text) => expect(edits(text)).toEqual([]));

  it("not what a module computes while it is loaded, but for a formula given to fuse", () => {
    const text =
      "const MOST = 20; const TABLE = { rate: 0.5, sum: (a, b) => a + b }; const f = fuse((x) => x.mul(-1));";
    expect(mutantsOf("x.ts", text).map(editOf)).toEqual(["a + b → a - b", "-1 → 1", "1 → 2"]);
  });
});

describe("the program with all edits", () => {
  /** What a program gives, as it is and with each of its mutants on. */
  async function outcomes(text: string): Promise<{ plain: unknown; mutated: unknown[]; byHand: unknown[] }> {
    const mutants = mutantsOf("x.ts", text);
    const mutation = new Mutation();
    Object.assign(globalThis, { mutation });
    const load = async (program: string): Promise<() => unknown> =>
      ((await import(`data:text/javascript,${encodeURIComponent(program)}`)) as { run: () => unknown }).run;
    const run = await load(
      instrument(
        text,
        mutants.map((mutant, id) => [id, mutant]),
      ),
    );
    const at = (id?: number): unknown => {
      mutation.on(id);
      return run();
    };
    const plain = at();
    const mutated = mutants.map((_, id) => at(id));
    return { plain, mutated, byHand: await Promise.all(mutants.map(async (m) => (await load(applied(text, m)))())) };
  }

  it.each([
    "export const run = () => 7 - (2 + 1) * 2;",
    "export const run = () => { let total = 0; for (const x of [1, -2, 4]) if (x > 0) total += x / 2; return total; };",
    "export const run = () => [3, 1, 2].toSorted((a, b) => a - b).map((x, i, all) => all[i] * Math.max(x, 2));",
    "export const run = () => { const { n = 2 } = {}; const x = [1, 2, 3]; x[n - 1] = -x[0]; " +
      "return x.filter((y) => y > 0 && y < 3); };",
  ])("is each of them in turn, and itself while none is on: %s", async (text) => {
    const { plain, mutated, byHand } = await outcomes(text);
    expect(mutated).toEqual(byHand);
    expect(mutated.length).toBeGreaterThan(4);
    mutated.forEach((value) => expect(value).not.toEqual(undefined));
    expect(mutated.filter((value) => JSON.stringify(value) === JSON.stringify(plain)).length).toBeLessThan(
      mutated.length / 3,
    );
  });

  it("traces a fused formula anew for an edit inside it, and says that it was come by", () => {
    const mutation = new Mutation();
    let traced = 0;
    const fused = mutation.fused(() => {
      traced++;
      const sign = mutation.is(5) ? -1 : 1;
      return Object.assign((x: number) => sign * x, { op: "of the formula" });
    });
    const called = (id?: number): number => {
      mutation.on(id);
      return fused(2);
    };
    expect([called(), called(5), called(6), called(5), called()]).toEqual([2, -2, 2, -2, 2]);
    expect(traced).toBe(2);
    expect([...mutation.asked]).toEqual([5]);
    expect((fused as unknown as { op: string }).op).toBe("of the formula");
  });

  it("ends a loop that an edit has made endless, and lets every other loop run", () => {
    const mutation = new Mutation();
    const count = (n: number): void => {
      for (let i = 0; i < n; i++) mutation.tick();
    };
    mutation.on();
    count(4_000_000);
    mutation.on(0);
    expect(() => count(4_000_000)).toThrow("an endless loop");
  });
});

describe("the losses and estimators", () => {
  const mutants = allMutants();

  it("have edits of every kind, thousands in all, in every file", () => {
    expect(mutants.length).toBeGreaterThan(1500);
    expect(new Set(mutants.map(({ kind }) => kind))).toEqual(new Set(KINDS));
    const withEdits = new Set(mutants.map(({ file }) => file));
    expect(targetFiles().filter((file) => !withEdits.has(file))).toEqual([]);
    expect(testFiles().length).toBeGreaterThan(30);
    expect(testFiles().filter((path) => !existsSync(join(packageFolder, path)))).toEqual([]);
  });

  it("still parse with all edits in them, and each edit replaces what it says", () => {
    for (const file of targetFiles()) {
      const text = readTarget(file);
      const own = mutants.filter((m) => m.file === file);
      expect(
        () =>
          parse(
            instrument(
              text,
              own.map((m, id) => [id, m]),
            ),
          ),
        file,
      ).not.toThrow();
      for (const m of own) expect(text.slice(m.start, m.end).replace(/\s+/g, " ").trim()).toBe(m.from);
    }
  });
});
