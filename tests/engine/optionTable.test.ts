/**
 * Options declared as data: what `read` accepts and refuses, the sentences that it refuses with, and the types that
 * follow.
 */
import fc from "fast-check";
import { describe, expect, expectTypeOf, test } from "vitest";
import { WorldgradError } from "../../engine/errors.ts";
import {
  bounds,
  flag,
  inCode,
  noOptions,
  number,
  oneOf,
  options,
  type OptionsOf,
  REQUIRED,
  schedule,
  text,
} from "../../engine/optionTable.ts";

const TABLE = options("part", {
  rate: number(0.5, "a rate", { above: 0, max: 1 }),
  count: number(REQUIRED, "how many", { integer: true, min: 1, infinite: true }),
  cap: number(undefined, "a cap"),
  isOn: flag(true, "a switch"),
  mode: oneOf(["fast", "slow", "none"], "slow", "a word"),
  name: text(undefined, "a name"),
  lambda: schedule(0.1, "a weight", { min: 0 }),
  clamp: bounds([0, 1], "two bounds"),
  score: inCode<(x: number) => number>("a function", "a function of x", (value) => typeof value === "function"),
});

test("fills in defaults; what has none and is not given stays undefined", () => {
  expect(TABLE.read({ count: 2 })).toEqual({
    rate: 0.5,
    count: 2,
    cap: undefined,
    isOn: true,
    mode: "slow",
    name: undefined,
    lambda: 0.1,
    clamp: [0, 1],
    score: undefined,
  });
  // An option that is given as undefined is not given.
  expect(TABLE.read({ count: Infinity, rate: undefined, clamp: null })).toMatchObject({ rate: 0.5, clamp: null });
});

describe("refuses with one line that says what was expected and what came", () => {
  const cases: readonly (readonly [object | string, string])[] = [
    [{}, "part: count must be an integer ≥ 1 or Infinity, got missing"],
    [{ count: 1.5 }, "part: count must be an integer ≥ 1 or Infinity, got 1.5"],
    [{ count: -Infinity }, "part: count must be an integer ≥ 1 or Infinity, got -Infinity"],
    [{ count: 1, rate: 0 }, "part: rate must be in (0, 1], got 0"],
    [{ count: 1, rate: NaN }, "part: rate must be in (0, 1], got NaN"],
    [{ count: 1, rate: "0.5" }, 'part: rate must be in (0, 1], got "0.5"'],
    [{ count: 1, cap: Infinity }, "part: cap must be a finite number, got Infinity"],
    [{ count: 1, isOn: 1 }, "part: isOn must be true or false, got 1"],
    [{ count: 1, mode: "fat" }, 'part: mode must be "fast", "slow" or "none", got "fat"'],
    [{ count: 1, name: 3 }, "part: name must be text, got 3"],
    [{ count: 1, lambda: -1 }, "part: lambda must be ≥ 0, or a function of the step, got -1"],
    [{ count: 1, clamp: [1, 0] }, "part: clamp must be [low, high] with low ≤ high, or null, got [1,0]"],
    [{ count: 1, score: 1 }, "part: score must be a function of x, got 1"],
    [{ count: 1, rat: 0.5 }, "part: unknown option 'rat'; did you mean 'rate'?"],
    ["rate", 'part: expected options { rate, count, cap, isOn, mode, name, lambda, clamp, score }, got "rate"'],
  ];
  test.each(cases)("%j", (given, message) => {
    const read = (): unknown => TABLE.read(given as { count: number });
    expect(read).toThrow(WorldgradError);
    expect(read).toThrow(new WorldgradError(message));
  });

  test("a part without options refuses every name", () => {
    expect(noOptions("plain").read({})).toEqual({});
    expect(() => noOptions("plain").read({ x: 1 })).toThrow("plain: unknown option 'x'; known options: none");
  });
});

test("a range accepts exactly the numbers between its bounds", () => {
  const bound = fc.option(fc.integer({ min: -3, max: 3 }), { nil: undefined });
  const value = fc.constantFrom(-4, -3, -2.5, -1, 0, 0.5, 1, 2, 3, 4, NaN, Infinity, -Infinity);
  fc.assert(
    fc.property(
      bound,
      bound,
      bound,
      bound,
      fc.boolean(),
      fc.boolean(),
      value,
      (min, max, above, below, integer, orZero, x) => {
        const { accepts } = number(undefined, "", { min, max, above, below, integer, orZero });
        const isAllowed =
          (orZero && x === 0) ||
          (Number.isFinite(x) &&
            x >= (min ?? -Infinity) &&
            x <= (max ?? Infinity) &&
            x > (above ?? -Infinity) &&
            x < (below ?? Infinity) &&
            (!integer || Number.isInteger(x)));
        expect(accepts(x)).toBe(isAllowed);
      },
    ),
  );
});

test("types follow from the table", () => {
  type Given = OptionsOf<typeof TABLE>;
  expectTypeOf<Given["count"]>().toEqualTypeOf<number>();
  expectTypeOf<Given["mode"]>().toEqualTypeOf<"fast" | "slow" | "none" | undefined>();
  expectTypeOf<Given["clamp"]>().toEqualTypeOf<readonly [low: number, high: number] | null | undefined>();
  const settled = TABLE.read({ count: 1 });
  expectTypeOf(settled.rate).toEqualTypeOf<number>();
  expectTypeOf(settled.cap).toEqualTypeOf<number | undefined>();
  expectTypeOf(settled.score).toEqualTypeOf<((x: number) => number) | undefined>();
  // An option that has to be given is no option of the type that may be left out.
  expectTypeOf<{ rate: number }>().not.toExtend<Given>();
  expectTypeOf<{ count: number }>().toExtend<Given>();
});
