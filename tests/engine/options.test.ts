/** Option checking: unknown keys are refused with the nearest known one. */
import fc from "fast-check";
import { describe, expect, expectTypeOf, test } from "vitest";
import { checkKeys, editDistance, nearest, showValue } from "../../engine/options.ts";

describe("checkKeys", () => {
  interface Options {
    readonly lambda?: number;
    readonly alpha?: number | undefined;
    readonly normalise?: boolean;
  }
  /** Options as they come from JSON or JavaScript. */
  const echo = (options: object) => (): void => checkKeys("echo", options as Options, ["lambda", "alpha", "normalise"]);

  test("accepts any subset of the known keys", () => {
    expect(echo({})).not.toThrow();
    expect(echo({ alpha: 1, lambda: undefined })).not.toThrow();
  });

  test("suggests the nearest key, or lists all", () => {
    expect(echo({ lamda: 1 })).toThrow("echo: unknown option 'lamda'; did you mean 'lambda'?");
    expect(echo({ Lambda: 1 })).toThrow("did you mean 'lambda'?");
    expect(echo({ xyz: 1 })).toThrow("echo: unknown option 'xyz'; known options: lambda, alpha, normalise");
    const given: object = { x: 1 };
    expect(() => checkKeys("f", given, [])).toThrow("known options: none");
    // A key of Object.prototype is as unknown as any other.
    expect(echo({ constructor: 1 })).toThrow("unknown option 'constructor'");
  });

  test("the compiler takes a list of all keys of the type, and says which are missing from another", () => {
    type List<K extends readonly (keyof Options)[]> = Parameters<typeof checkKeys<Options, K>>[2];
    type All = readonly ["lambda", "normalise", "alpha"];
    type Short = readonly ["lambda", "alpha"];
    expectTypeOf<All>().toExtend<List<All>>();
    expectTypeOf<Short>().not.toExtend<List<Short>>();
    expectTypeOf<List<Short>["missing"]>().toEqualTypeOf<"normalise">();
    expectTypeOf<readonly [...All, "beta"]>().not.toExtend<readonly (keyof Options)[]>();
  });
});

describe("editDistance", () => {
  test("known distances", () => {
    expect(editDistance("kitten", "sitting")).toBe(3);
    expect(editDistance("", "abc")).toBe(3);
    expect(editDistance("alhpa", "alpha")).toBe(1); // a swap is one edit
    expect(editDistance("ca", "abc")).toBe(3); // optimal string alignment: no substring is edited twice
  });

  test("zero exactly for equal words, symmetric, at most the longer length, at least the difference of lengths", () => {
    const word = fc.string({ maxLength: 8, unit: fc.constantFrom("a", "b", "c") });
    fc.assert(
      fc.property(word, word, (a, b) => {
        const distance = editDistance(a, b);
        expect(distance === 0).toBe(a === b);
        expect(editDistance(b, a)).toBe(distance);
        expect(distance).toBeLessThanOrEqual(Math.max(a.length, b.length));
        expect(distance).toBeGreaterThanOrEqual(Math.abs(a.length - b.length));
      }),
    );
  });

  test("nearest: nothing near, or the first of several as near", () => {
    expect(nearest("steps", ["seed", "step"])).toBe("step");
    expect(nearest("zzzz", ["seed", "step"])).toBeUndefined();
    expect(nearest("cat", ["bat", "hat"])).toBe("bat");
  });
});

test("showValue: short, never throws", () => {
  const cyclic: Record<string, unknown> = {};
  cyclic["self"] = cyclic;
  const deep = JSON.parse("[".repeat(100_000) + "]".repeat(100_000)) as unknown;
  const values = [undefined, null, NaN, 3n, "x", { a: [1] }, () => 1, cyclic, deep];
  expect(
    [
      new Promise(() => {}),
      new ArrayBuffer(8),
      new Map(),
      {},
      Object.create(null),
      Object.create(Object.create(null) as object),
    ].map(showValue),
  ).toEqual(["a promise; await it", "ArrayBuffer {}", "Map {}", "{}", "{}", "object {}"]);
  const shown = values.map(showValue);
  // JSON.stringify of Node 26 goes as deep as it has to; the one before throws.
  let canWrite = true;
  try {
    JSON.stringify(deep, (_, value: unknown) => value);
  } catch {
    canWrite = false;
  }
  expect(shown.pop()).toBe(canWrite ? `${"[".repeat(57)}...` : "[object Array]");
  expect(shown).toEqual(["missing", "null", "NaN", "3", '"x"', '{"a":[1]}', "function", "[object Object]"]);
  expect([[1, NaN, -Infinity], { a: Infinity }, ["NaN"]].map(showValue)).toEqual([
    "[1,NaN,-Infinity]",
    '{"a":Infinity}',
    '["NaN"]',
  ]);
  expect(showValue("y".repeat(100))).toHaveLength(60);
});
