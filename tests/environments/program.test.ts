/**
 * The language of small programs: text to program and back, the machine against an evaluation written otherwise, what
 * is said of what is wrong, bounds, and how much of a reference a program has.
 */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Rng } from "../../engine/random.ts";
import { drawList, drawNumber, testsOf } from "../../environments/program/cases.ts";
import { between, drawCalculation, drawSelection } from "../../environments/program/draw.ts";
import { judge, judgeText, report } from "../../environments/program/judge.ts";
import { dataFlowMatch, syntaxMatch } from "../../environments/program/likeness.ts";
import { type Code, compile, readValue, run, sameValue, show, type Value } from "../../environments/program/machine.ts";
import {
  type Expression,
  OPERATIONS,
  parseProgram,
  printProgram,
  type Program,
} from "../../environments/program/syntax.ts";

function programOf(text: string, functions?: readonly string[]): Program {
  const reading = parseProgram(text, functions);
  if ("error" in reading) throw new Error(`${text}: ${reading.error.at}: ${reading.error.message}`);
  return reading.program;
}
const resultOf = (text: string, input: Value): Value | string => {
  const outcome = run(compile(programOf(text)), input);
  return "error" in outcome ? outcome.error : outcome.value;
};

/** Expressions over these names. */
const expressions = (names: readonly string[]): fc.Arbitrary<Expression> =>
  fc.letrec<{ any: Expression }>((tie) => ({
    any: fc.oneof(
      { maxDepth: 4, depthIdentifier: "expression" },
      fc.constantFrom(...names).map((name): Expression => ({ kind: "name", name })),
      fc.nat(30).map((value): Expression => ({ kind: "number", value })),
      fc
        .tuple(fc.constantFrom("+", "-", "*", "/", "%"), tie("any"), tie("any"))
        .map(([operator, left, right]): Expression => ({ kind: "operation", operator, left, right })),
      fc
        .tuple(fc.constantFrom(...Object.keys(OPERATIONS)), tie("any"), tie("any"))
        .map(([name, of, argument]): Expression =>
          OPERATIONS[name] ? { kind: "call", name, of, argument } : { kind: "call", name, of },
        ),
    ),
  })).any;
const programs = fc
  .tuple(expressions(["x"]), expressions(["x", "a"]), expressions(["x", "a", "bc"]))
  .map(([a, bc, result]): Program => ({
    statements: [
      { name: "a", value: a },
      { name: "bc", value: bc },
    ],
    result,
  }))
  .filter((program) => printProgram(program).length <= 200);
const inputs = fc.oneof(
  fc.integer({ min: -20, max: 20 }),
  fc.array(fc.integer({ min: -20, max: 20 }), { maxLength: 6 }),
);

/** The value of an expression, by JavaScript over big integers and lists; undefined if it has none. */
function evaluate(expression: Expression, names: Readonly<Record<string, Value>>): Value | undefined {
  if (expression.kind === "number") return expression.value;
  if (expression.kind === "name") return names[expression.name];
  if (expression.kind === "operation") {
    const [a, b] = [evaluate(expression.left, names), evaluate(expression.right, names)];
    if (a === undefined || b === undefined) return undefined;
    const length = typeof a === "object" ? a.length : typeof b === "object" ? b.length : undefined;
    if (typeof a === "object" && typeof b === "object" && a.length !== b.length) return undefined;
    const at = (value: Value, i: number): bigint => BigInt(typeof value === "object" ? value[i]! : value);
    const each = Array.from({ length: length ?? 1 }, (_, i) => {
      const [p, q] = [at(a, i), at(b, i)];
      if (expression.operator === "+") return p + q;
      if (expression.operator === "-") return p - q;
      if (expression.operator === "*") return p * q;
      if (q === 0n) return undefined;
      const down = p / q - (p % q !== 0n && p < 0n !== q < 0n ? 1n : 0n);
      return expression.operator === "/" ? down : p - q * down;
    });
    if (each.some((n) => n === undefined || n > 1_000_000_000n || n < -1_000_000_000n)) return undefined;
    const values = each.map(Number);
    return length === undefined ? values[0] : values;
  }
  const list = evaluate(expression.of, names);
  const n = expression.argument ? evaluate(expression.argument, names) : 0;
  if (typeof list !== "object" || typeof n !== "number") return undefined;
  const sorted = Int32Array.from(list).toSorted();
  const isOdd = (item: number): boolean => Math.abs(item) % 2 === 1;
  const made: Record<string, () => Value | undefined> = {
    sum: () => (list.some((_, i) => Math.abs(total(list.slice(0, i + 1))) > 1e9) ? undefined : total(list)),
    max: () => sorted.at(-1),
    min: () => sorted[0],
    len: () => list.length,
    head: () => list[0],
    last: () => list[list.length - 1],
    sort: () => [...sorted],
    rev: () => list.map((_, i) => list[list.length - 1 - i]!),
    tail: () => list.filter((_, i) => i > 0),
    even: () => list.filter((item) => !isOdd(item)),
    odd: () => list.filter(isOdd),
    take: () => (n < 0 ? undefined : list.filter((_, i) => i < n)),
    drop: () => (n < 0 ? undefined : list.filter((_, i) => i >= n)),
    above: () => list.filter((item) => item > n),
    below: () => list.filter((item) => item < n),
  };
  return made[expression.name]!();
}
const total = (list: readonly number[]): number => list.reduce((a, b) => a + b, 0);

describe("programs", () => {
  it("printed and read again are the same program", () => {
    fc.assert(
      fc.property(programs, (program) => {
        expect(parseProgram(printProgram(program))).toEqual({ program });
      }),
      { numRuns: 100 },
    );
  });

  it("compute what an evaluation without the machine computes, and fail where it fails", () => {
    let values = 0;
    fc.assert(
      fc.property(programs, inputs, (program, x) => {
        const a = evaluate(program.statements[0]!.value, { x });
        const bc = a === undefined ? undefined : evaluate(program.statements[1]!.value, { x, a });
        const value = a === undefined || bc === undefined ? undefined : evaluate(program.result, { x, a, bc });
        const outcome = run(compile(program), x);
        values += value === undefined ? 0 : 1;
        if (value === undefined) expect(outcome).toHaveProperty("error");
        else expect(outcome).toEqual({ value });
      }),
      { numRuns: 400 },
    );
    expect(values).toBeGreaterThan(20);
  });

  it("any text is read without an exception, and told where it is wrong in a few plain words", () => {
    const near = fc.array(fc.constantFrom(..."x;=.()+-*/% \n12", "sum", "take", "s"), { maxLength: 30 });
    const any = fc.oneof(
      near.map((parts) => parts.join("")),
      fc.string({ unit: "binary", maxLength: 300 }),
    );
    fc.assert(
      fc.property(any, (text) => {
        const reading = parseProgram(text);
        if (!("error" in reading)) return;
        expect(reading.error.message).toMatch(/^[ -~]{1,40}$/);
        expect(reading.error.at).toBeGreaterThanOrEqual(1);
        expect(reading.error.at).toBeLessThanOrEqual(text.length + 1);
      }),
      { numRuns: 300 },
    );
  });

  it.each<[string, Value, Value | string]>([
    ["x+1", 2, 3],
    ["2*x-7/2", 5, 7],
    ["x%5-x/5", -7, 5],
    ["-x*-2", 3, 6],
    ["2-(3-x)", 1, 0],
    ["x.sort.take(2).sum", [3, 1, 2], 3],
    ["x.above(x.min).len", [3, 1, 2], 2],
    ["y=x.sum; y*y", [1, 2], 9],
    ["x=x.rev\nx.head", [1, 2], 2],
    ["x*x+1", [1, 2], [2, 5]],
    ["x-x.len", [5, 6], [3, 4]],
    ["x.drop(9)", [1], []],
    ["0*-x", 1, 0],
    ["x/0", 1, "division by 0"],
    ["x.max", [], "max of nothing"],
    ["x.sum", 1, "sum of a number"],
    ["x.take(x)", [1], "take takes a number"],
    ["x.max-x.min", [2, 5, 1], 4],
    ["x.above(1)", [3, 1, 2], [3, 2]],
    ["x.below(2)", [1, 2, 3], [1]],
    ["x+1", 999_999_999, 1e9],
    ["x+1", 1e9, "too large"],
    ["x.take(0-1)", [1], "take of fewer than 0"],
    ["x+x.tail", [1, 2], "lengths differ"],
    ["x*x*x*x", 999, "too large"],
  ])("%s of %j is %j", (text, input, expected) => {
    expect(resultOf(text, input)).toEqual(expected);
    expect(Object.is(resultOf(text, input), -0)).toBe(false);
  });

  it.each([
    ["", 1, "unexpected end"],
    ["x+", 3, "unexpected end"],
    ["x+y", 3, "unknown y"],
    ["x.sun", 3, "unknown sun"],
    ["x.2", 3, "unexpected 2"],
    ["x.take", 3, "take takes a number"],
    ["x.sum(2)", 3, "sum takes no number"],
    ["(x+1", 5, "missing )"],
    ["(x 1)", 4, "unexpected 1"],
    ["s=x.sum", 8, "no result"],
    ["s=x.sum s", 9, "unexpected s"],
    ["x 1", 3, "unexpected 1"],
    ["s=s;1", 3, "unknown s"],
    ["X", 1, "unexpected X"],
    ["é", 1, "unexpected text"],
    ["1234567890", 1, "too large"],
    [`${"x+".repeat(100)}x`, 201, "too long"],
    ["constructor", 1, "unknown constructor"],
    ["x.constructor", 3, "unknown constructor"],
  ])("%j is wrong at %i: %s", (text, at, message) => {
    expect(parseProgram(text)).toEqual({ error: { at, message } });
  });

  it("call each other by name, and come to an end", () => {
    const codes = (files: Readonly<Record<string, string>>): Map<string, Code> => {
      const names = Object.keys(files);
      return new Map(names.map((name) => [name, compile(programOf(files[name]!, names))]));
    };
    const files = codes({ f: "x.g+1", g: "x*2", loop: "x.loop", wide: "x.h.h.h.h.h.h.h.h", h: "x+x+x+x+x" });
    const call = (name: string, input: Value): unknown => run(files.get(name)!, input, files);
    expect(call("f", 5)).toEqual({ value: 11 });
    expect(call("f", [1, 2])).toEqual({ value: [3, 5] });
    expect(call("loop", 5)).toEqual({ error: "too many calls" });
    const numbers = Array.from({ length: 64 }, () => 1);
    expect(call("wide", numbers)).toEqual({ error: "too many steps" });
    expect(call("wide", 1)).toEqual({ value: 5 ** 8 });
    expect(parseProgram("x.g")).toEqual({ error: { at: 3, message: "unknown g" } });
    expect(parseProgram("x.g(1)", ["g"])).toEqual({ error: { at: 3, message: "g takes no number" } });
  });
});

describe("the bounds of a run and of a text", () => {
  const ones = (length: number): readonly number[] => Array.from({ length }, () => 1);

  it("2,000 steps: one for each instruction, and one for each item of what it leaves on top", () => {
    expect(resultOf("x", ones(1_999))).toEqual(ones(1_999));
    expect(resultOf("x", ones(2_000))).toBe("too many steps");
    expect(resultOf("1+x", ones(998))).toEqual(Array.from({ length: 998 }, () => 2)); // 1 + 999 + 999
    expect(resultOf("1+x", ones(999))).toBe("too many steps");
    expect(resultOf("x.take(2)", ones(1_995))).toEqual([1, 1]); // 1,996 + 1 + 3
  });

  it("16 programs, the first among them", () => {
    const functions = new Map([["f", compile(programOf("x+1"))]]);
    const called = (times: number): unknown => run(compile(programOf(`x${".f".repeat(times)}`, ["f"])), 0, functions);
    expect([called(15), called(16)]).toEqual([{ value: 15 }, { error: "too many calls" }]);
  });

  it("200 characters, and numbers of nine digits", () => {
    expect(parseProgram(`${"x+".repeat(98)}1234`)).toHaveProperty("program");
    expect(parseProgram(`${"x+".repeat(98)}12345`)).toEqual({ error: { at: 201, message: "too long" } });
    expect(parseProgram("123456789")).toHaveProperty("program");
  });

  it("no needless parentheses", () => {
    for (const text of ["1+2+3", "1-(2-3)", "(1+2)*3", "x.take(1+2)", "s=x+1;s", "(x+1).len"])
      expect(printProgram(programOf(text))).toBe(text);
  });
});

describe("values", () => {
  it("are read as they are shown", () => {
    fc.assert(
      fc.property(inputs, (value) => {
        expect(readValue(show(value))).toEqual(value);
      }),
    );
    expect([show(7), show([3, -9]), show([])]).toEqual(["7", "[3 -9]", "[]"]);
    for (const text of ["", "x", "1.5", "[1", "[1  2]", "[ 1]", "1000000001", "1 2", `[${"1 ".repeat(64)}1]`])
      expect(readValue(text), text).toBeUndefined();
    expect(Object.is(readValue("-0"), 0)).toBe(true);
    expect(Object.is((readValue("[-0]") as number[])[0], 0)).toBe(true);
    expect(readValue(show(Array.from({ length: 64 }, (_, i) => i)))).toHaveLength(64);
    expect(readValue(show(Array.from({ length: 65 }, (_, i) => i)))).toBeUndefined();
    expect([readValue("1000000000"), readValue("-1000000000"), readValue("-1000000001")]).toEqual([
      1e9,
      -1e9,
      undefined,
    ]);
  });
});

describe("how much of a reference a program has", () => {
  it.each([
    // Reference x.sort.take(3).sum: the subtrees are x, sort x, 3, take, sum.
    ["x.sort.take(3).sum", "x.sort.take(3).sum", 1, 1],
    ["x.sort.take(2).sum", "x.sort.take(3).sum", 2 / 5, 1],
    ["3", "x.sort.take(3).sum", 1 / 5, 0],
    // Reference s=x.sum;s*s+4: x, sum, the assignment; s, s, product, 4, sum of both.
    ["t=x.sum;t*t+4", "s=x.sum;s*s+4", 3 / 8, 1],
    ["x.sum*x.sum+4", "s=x.sum;s*s+4", 3 / 8, 0],
    ["s=x.sum;x+4", "s=x.sum;s*s+4", 4 / 8, 1 / 2],
    ["s=x.sum;s", "s=x.sum;s*s+4", 4 / 8, 1],
    // b from a, which is from x: two assignments; the result is from b alone.
    ["a=x+1;b=x*2;b", "a=x+1;b=a*2;b", 6 / 9, 2 / 3],
    ["x", "a=x;a=a+x;a-x", 1 / 9, 0],
    ["a=x+1;a", "a=x+1;x", 4 / 5, 1 / 2], // the input is no name that was assigned
    ["a=x.len;x.take(2)", "a=x.len;x.take(a)", 4 / 6, 1 / 2], // a flow goes through a number that is taken
    ["a=x+1;a*x", "a=x+1;x*a", 6 / 7, 1], // in which order they are named does not matter
  ])("%s has of %s: %f, %f", (text, reference, syntax, flow) => {
    const [program, wanted] = [programOf(text), programOf(reference)];
    expect([syntaxMatch(program, wanted), dataFlowMatch(program, wanted)]).toEqual([syntax, flow]);
  });

  it("is all of it for itself, and the data flow does not see other names", () => {
    const renamed = (program: Program): Program => programOf(printProgram(program).replace(/\ba\b/g, "q"));
    fc.assert(
      fc.property(programs, (program) => {
        expect([syntaxMatch(program, program), dataFlowMatch(program, program)]).toEqual([1, 1]);
        expect(dataFlowMatch(renamed(program), program)).toBe(1);
      }),
      { numRuns: 100 },
    );
  });
});

describe("the judge", () => {
  const reference = programOf("x.sum+1");
  const tests = [
    { input: [1, 2], output: 4 },
    { input: [5], output: 6 },
  ];
  it.each([
    ["x.sum+1", "passed", 1, 1, "4 6: pass"],
    ["x.sum+2", "failed test", 0, 2 / 4, "5 7: 0 of 2 pass"],
    ["4", "failed test", 1 / 2, 0, "4 4: 1 of 2 pass"],
    ["x.tail.head+3", "runtime error", 0, 1 / 4, "error: head of nothing"],
    ["x*0", "failed test", 0, 1 / 4, "[0 0] [0]: 0 of 2 pass"],
  ])("%s: %s", (text, outcome, passed, syntax, told) => {
    expect(judgeText(text, tests, reference)).toEqual({
      outcome,
      passed,
      syntaxMatch: syntax,
      dataFlowMatch: text === "4" ? 0 : 1,
    });
    expect(report(judge(compile(programOf(text)), tests))).toBe(told);
  });

  it("a text that does not compile has nothing; a long list is cut", () => {
    const nothing = { outcome: "compile error", passed: 0, syntaxMatch: 0, dataFlowMatch: 0 };
    expect(judgeText("x.", tests, reference)).toEqual(nothing);
    const long = Array.from({ length: 30 }, (_, i) => i);
    const code = compile(programOf("x"));
    expect(report(judge(code, [{ input: long, output: 1 }]))).toBe("[0 1 2 3 4 5 6 7 8 9 10 ..: 0 of 1 pass");
    const shown = (input: Value): string => report(judge(code, [{ input, output: input }]));
    expect(shown([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 1])).toBe("[1 2 3 4 5 6 7 8 9 10 1]: pass"); // 24 characters
    expect(shown([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11])).toBe("[1 2 3 4 5 6 7 8 9 10 11..: pass");
  });

  it("tests are made by the program; none of one that fails or is constant", () => {
    const rng = new Rng(1);
    const made = testsOf(compile(reference), 5, () => drawList(rng, 4))!;
    for (const { input, output } of made) {
      expect(new Set(input as number[]).size).toBe(4);
      expect(sameValue(output, (input as number[]).reduce((a, b) => a + b) + 1)).toBe(true);
    }
    expect(made).toHaveLength(5);
    expect(testsOf(compile(programOf("x")), 3, (i) => i)!.map(({ input }) => input)).toEqual([0, 1, 2]);
    expect(testsOf(compile(reference), 1, () => [1])).toBeUndefined(); // a constant would pass
    expect(testsOf(compile(programOf("x.len")), 5, () => drawList(rng, 4))).toBeUndefined();
    expect(testsOf(compile(programOf("x.tail.tail.head")), 5, (i) => drawList(rng, 1 + i))).toBeUndefined();
  });
});

it("what is selected of a list", () => {
  const numbers = [-3, -2, 2, 3, 4, 6, 9];
  expect(resultOf("x.tail", numbers)).toEqual([-2, 2, 3, 4, 6, 9]);
  expect([resultOf("x.head", numbers), resultOf("x.last", numbers)]).toEqual([-3, 9]);
  expect([resultOf("x.take(2)", numbers), resultOf("x.drop(5)", numbers)]).toEqual([
    [-3, -2],
    [6, 9],
  ]);
  expect([resultOf("x.rev", [2, 3]), resultOf("x.sort", [3, -2])]).toEqual([
    [3, 2],
    [-2, 3],
  ]);
  expect(resultOf("x.even", numbers)).toEqual([-2, 2, 4, 6]);
  expect(resultOf("x.odd", numbers)).toEqual([-3, 3, 9]);
});

it("what is drawn is within its bounds, and reaches them", () => {
  const rng = new Rng(2);
  const all = <T>(draw: () => T): Set<T> => new Set(Array.from({ length: 3000 }, draw));
  const from = (low: number, high: number): number[] => Array.from({ length: high + 1 - low }, (_, i) => low + i);
  expect(all(() => between(rng, 2, 5))).toEqual(new Set(from(2, 5)));
  expect(all(() => drawNumber(rng))).toEqual(new Set(from(2, 20)));
  expect(all(() => drawList(rng, 1)[0])).toEqual(new Set(from(1, 9)));
  expect(all(() => drawCalculation(rng, 4, ["+"]).code)).toEqual(new Set(["+2", "+3", "+4"]));
  const selections = [".sort", ".rev", ".even", ".odd"];
  const counts = from(1, 3).flatMap((n) => [`.take(${n})`, `.drop(${n})`]);
  const digits = from(2, 7).flatMap((n) => [`.above(${n})`, `.below(${n})`]);
  expect(all(() => drawSelection(rng).code)).toEqual(new Set([...selections, ...counts, ...digits]));
});
