/** `calculator`: the contract, exact arithmetic against arithmetic written otherwise, and what counts as an answer. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Rng } from "../../engine/random.ts";
import { calculator, type CalculatorOptions } from "../../environments/calculator/index.ts";
import { FAMILIES } from "../../environments/calculator/episode.ts";
import { readAnswer } from "../../environments/calculator/rules.ts";
import { calculate } from "../../environments/calculator/expression.ts";
import { DRAFTS, drawProblem, isHeldOutQuantity, type Problem } from "../../environments/calculator/problems.ts";
import { isEqual, rational, toText } from "../../environments/calculator/rational.ts";
import { testContract } from "./contract.ts";
import { CalculatorEnvironment } from "./opened.ts";
import { play, SPLITS } from "./suite.ts";
import { tries } from "../support/tries.ts";

async function begin(
  seed: number,
  options: CalculatorOptions = {},
): Promise<{ env: CalculatorEnvironment; task: string }> {
  const env = new CalculatorEnvironment(options);
  return { env, task: await env.reset(seed) };
}

/** What the calculator says. */
function say(text: string): string {
  const result = calculate(text);
  return "error" in result ? `error: ${result.error}` : toText(result.value);
}

describe("calculator", () => {
  testContract(calculator, {
    expected: {
      gain: { expert: 1, luck: 0.005, tokens: 120 },
      loss: { expert: 1, luck: 0.005, tokens: 120 },
      boxes: { expert: 1, luck: 0.005, tokens: 120 },
      packs: { expert: 1, luck: 0.005, tokens: 120 },
      rest: { expert: 1, luck: 0.005, tokens: 120 },
      percent: { expert: 1, luck: 0.005, tokens: 150 },
      share: { expert: 1, luck: 0.005, tokens: 150 },
      bill: { expert: 1, luck: 0.005, tokens: 160 },
      gap: { expert: 1, luck: 0.005, tokens: 180 },
      change: { expert: 1, luck: 0.005, tokens: 205 },
    },
    identity: (task) => task.match(/\d{3,}/g)!,
    nearly: ["calc ", "answer ", "calc", "12", "0", "/", "//", "%", "*", "^", "**", "(", ")", "-", "+", ".", ",", " "],
  });
});

it("a novice calculates and answers with numbers of the task, and is never right", async () => {
  for (let seed = 0; seed < 200; seed++) {
    const rng = new Rng(seed).split("novice");
    const { env, task } = await begin(seed);
    const numbers = new Set(task.match(/\d+/g));
    const { lines, total } = await play(env, () => {
      const action = calculator.random(rng, task);
      for (const number of action.match(/\d+/g)!) expect(numbers, action).toContain(number);
      return action;
    });
    expect(total, [task, ...lines].join("\n")).toBe(0);
  }
});

describe("expressions", () => {
  const values: [string, string][] = [
    ["1+2*3", "7"],
    ["(1+2)*3", "9"],
    [" 10 - 2 - 3 ", "5"],
    ["100/10/5", "2"],
    ["1/10+2/10", "3/10"],
    ["0.1+0.2", "3/10"],
    ["2.50*4", "10"],
    ["7/3", "7/3"],
    ["-7/3", "-7/3"],
    ["6/-4", "-3/2"],
    ["7//3", "2"],
    ["-7//3", "-3"],
    ["7//-3", "-3"],
    ["7%3", "1"],
    ["-7%3", "2"],
    ["7%-3", "-2"],
    ["6%-3", "0"],
    ["7.5%2", "3/2"],
    ["-2^2", "-4"],
    ["(-2)^2", "4"],
    ["2^3^2", "512"],
    ["2**10", "1024"],
    ["2^-2", "1/4"],
    ["(-1/2)^-3", "-8"],
    ["0^0", "1"],
    ["--3", "3"],
    ["+-+3", "-3"],
    ["2*-3", "-6"],
    ["99999999999999999999*3", "299999999999999999997"],
    ["007", "7"],
    ["((((((1))))))", "1"],
  ];
  it.each(values)("%s is %s", (expression, value) => expect(say(expression)).toBe(value));

  const errors: [string, string][] = [
    ["1/0", "division by 0"],
    ["1//(2-2)", "division by 0"],
    ["5%0", "division by 0"],
    ["0^-1", "division by 0"],
    ["", "nothing to calculate"],
    ["  ", "nothing to calculate"],
    ["1+", "unexpected end"],
    ["(1+2", "missing )"],
    ["1+2)", "unexpected )"],
    ["()", "unexpected )"],
    ["2 3", "unexpected 3"],
    ["2(3)", "unexpected ("],
    ["1,000+1", "unexpected ,"],
    ["1.2.3", "unexpected ."],
    ["*3", "unexpected *"],
    ["x+1", "unexpected x"],
    ["1+process", "unexpected p"],
    ["1×2", "unexpected text"],
    ["1 \ud800", "unexpected text"],
    ["2^0.5", "fractional exponent"],
    ["9^9^9", "too large"],
    ["9^42", "too large"],
    [`1${"0".repeat(40)}`, "too large"],
    [`${"9".repeat(40)}+1`, "too large"],
    ["1/3".repeat(80), "too long"],
    ["(".repeat(200), "unexpected end"],
  ];
  it.each(errors)("%s is refused: %s", (expression, error) => expect(say(expression)).toBe(`error: ${error}`));

  /** A text and its value as a fraction that is never reduced; null where something is divided by 0. */
  type Term = { text: string; value: [bigint, bigint] | null };
  const { sum } = fc.letrec<{ atom: Term; product: Term; sum: Term }>((tie) => {
    const both = (
      a: Term,
      b: Term,
      text: string,
      value: (a: [bigint, bigint], b: [bigint, bigint]) => Term["value"],
    ): Term => ({ text, value: a.value && b.value && value(a.value, b.value) });
    const number = fc.nat(999).map((n): Term => ({ text: String(n), value: [BigInt(n), 1n] }));
    const inner = tie("sum").map(({ text, value }): Term => ({ text: `(${text})`, value }));
    return {
      atom: fc.oneof({ maxDepth: 4, withCrossShrink: true }, number, inner),
      product: fc.oneof(
        { maxDepth: 4 },
        tie("atom"),
        fc
          .tuple(tie("atom"), tie("atom"))
          .map(([a, b]) => both(a, b, `${a.text}*${b.text}`, (x, y) => [x[0] * y[0], x[1] * y[1]])),
        fc
          .tuple(tie("atom"), tie("atom"))
          .map(([a, b]) =>
            both(a, b, `${a.text} / ${b.text}`, (x, y) => (y[0] === 0n ? null : [x[0] * y[1], x[1] * y[0]])),
          ),
      ),
      sum: fc.oneof(
        { maxDepth: 4 },
        tie("product"),
        fc
          .tuple(tie("product"), tie("product"))
          .map(([a, b]) => both(a, b, `${a.text} + ${b.text}`, (x, y) => [x[0] * y[1] + y[0] * x[1], x[1] * y[1]])),
        fc
          .tuple(tie("product"), tie("product"))
          .map(([a, b]) => both(a, b, `${a.text}-${b.text}`, (x, y) => [x[0] * y[1] - y[0] * x[1], x[1] * y[1]])),
      ),
    };
  });

  it("have the value of their tree, exactly", () => {
    let values = 0;
    fc.assert(
      fc.property(sum, ({ text, value }) => {
        const result = calculate(text);
        if ("error" in result) {
          if (result.error === "too large" || result.error === "too long") return;
          expect(result.error).toBe("division by 0");
          expect(value).toBeNull();
        } else {
          values++;
          // p/q = r/s if p·s = r·q
          expect(result.value.numerator * value![1]).toBe(value![0] * result.value.denominator);
        }
      }),
      { numRuns: tries(500) },
    );
    expect(values).toBeGreaterThan(tries(200));
  });

  it("split a number into quotient and remainder, also with signs and fractions", () => {
    const part = fc.tuple(fc.integer({ min: -999, max: 999 }), fc.integer({ min: 1, max: 9 }));
    fc.assert(
      fc.property(part, part, ([a, b], [c, d]) => {
        fc.pre(c !== 0);
        const [x, y] = [`(${a}/${b})`, `(${c}/${d})`];
        expect(say(`${x}//${y}*${y}+${x}%${y}`)).toBe(say(x));
        const [rest, quotient] = [say(`${x}%${y}`), say(`${x}//${y}`)];
        expect(quotient).toBe(String(Math.floor((a * d) / (b * c))));
        expect(rest === "0" || rest.startsWith("-") === c < 0).toBe(true);
      }),
    );
  });

  it("never throw, whatever the text", () => {
    const parts = fc.constantFrom("1", "23", ".", "+", "-", "*", "/", "//", "%", "^", "**", "(", ")", " ", "x", "\n");
    const near = fc.array(parts, { maxLength: 40 }).map((all) => all.join(""));
    fc.assert(
      fc.property(fc.oneof(near, fc.string({ unit: "binary" })), (text) => {
        expect(say(text).length).toBeLessThanOrEqual(83); // 40 digits, a slash, 40 digits, a sign
      }),
      { numRuns: tries(1_000) },
    );
  });
});

describe("answers", () => {
  it.each([
    ["42", "42"],
    ["-7", "-7"],
    ["+7", "7"],
    ["2.50", "5/2"],
    ["-0.5", "-1/2"],
    ["10,368", "10368"],
    ["1,234,567.5", "2469135/2"],
    ["5/3", "5/3"],
    ["-5/3", "-5/3"],
    ["007", "7"],
  ])("%s is the number %s", (text, value) => expect(toText(readAnswer(text)!)).toBe(value));

  it.each([
    "",
    "x",
    "forty",
    "1+1",
    "2*3",
    "10/4",
    "10/2",
    "5/1",
    "5/0",
    "0/0",
    "5/-3",
    "1,00",
    "1,2345",
    "1.",
    ".5",
    "1 2",
    "42 coins",
    "42\n43",
    "--1",
    "1e3",
    "0x10",
    "5 / 3",
    "Infinity",
    "NaN",
    "9".repeat(61),
  ])("%j is none", (text) => expect(readAnswer(text)).toBeUndefined());
});

describe("problems", () => {
  it("have an answer that no number of the text, and no fraction of two, gives away; no other is right", async () => {
    for (const { name } of FAMILIES)
      for (const split of SPLITS)
        for (let seed = 0; seed < 60; seed++) {
          const { env, task } = await begin(seed, { families: [name], split });
          const answer = (await play(env, () => env.expertAction())).lines.at(-1)!.replace("$ answer ", "");
          const numbers = task.match(/\d+/g)!;
          const near = [`${answer}0`, `-${answer}`, `1${answer}`, answer.replace(/^\d/, (d) => String((+d + 1) % 10))];
          for (const guess of [...numbers, ...numbers.flatMap((a) => numbers.map((b) => `${a}/${b}`)), ...near]) {
            const { env: other } = await begin(seed, { families: [name], split });
            const { reward, info } = await other.step(`answer ${guess}`);
            expect([reward, info["success"]], `${task} — ${guess}`).toEqual([0, false]);
          }
        }
  });

  it("are drawn again if they give their answer away", () => {
    // In this order: a number of the text, a fraction of two of them, something to calculate.
    const answers = [rational(20n), rational(20n, 31n), rational(50n)];
    let draws = 0;
    const draft = (): Problem => ({ texts: ["20 and 31?"], plan: [], answer: answers[draws++]! });

    expect(toText(drawProblem(new Rng(0), draft, "train").answer)).toBe("50");
    expect(draws).toBe(3);
  });

  it("agree with their own plan, worked out by the calculator, and `gap` goes both ways round", () => {
    const orders = new Set<boolean>();
    for (const family of FAMILIES)
      for (let seed = 0; seed < 100; seed++) {
        const { plan, answer } = drawProblem(new Rng(seed), DRAFTS[family.name], "train");
        const last = calculate(plan.at(-1)!);
        expect("value" in last && isEqual(last.value, answer)).toBe(true);
        expect(answer.numerator > 0n || family.name === "rest" || family.name === "packs").toBe(true);
        if (family.name === "gap") orders.add(plan[2]!.startsWith(`${say(plan[0]!)}-`));
        // Each value is used by a later calculation.
        plan.slice(0, -1).forEach((step, i) => expect(plan.slice(i + 1).join(" ")).toContain(say(step)));
      }
    expect(orders).toEqual(new Set([true, false]));
  });

  it("share no quantity between the splits, and each pair of digits of a held-out one is known from training", () => {
    const quantities = (split: (typeof SPLITS)[number]): Set<string> => {
      const found = new Set<string>();
      for (const family of FAMILIES)
        for (let seed = 0; seed < 200; seed++)
          for (const text of drawProblem(new Rng(seed), DRAFTS[family.name], split).texts)
            for (const quantity of text.match(/\d{3,}/g)!) found.add(quantity);
      return found;
    };
    const [train, heldOut] = [quantities("train"), quantities("heldout")];
    expect([...train].some((quantity) => isHeldOutQuantity(Number(quantity)))).toBe(false);
    expect([...heldOut].every((quantity) => isHeldOutQuantity(Number(quantity)))).toBe(true);
    const pairs = (all: Set<string>): string[] =>
      [...all].flatMap((text) => [...text].slice(1).map((digit, i) => text[i]! + digit));
    const known = new Set(pairs(train));
    expect(pairs(heldOut).filter((pair) => !known.has(pair))).toEqual([]);
  });
});

describe("the episode", () => {
  it("answers calculations, tells errors, and goes on", async () => {
    const { env } = await begin(0);
    const observations: string[] = [];
    const actions = [
      "calc 2+2",
      "CALC 1/4",
      "calc 1/0",
      "calc",
      "answer",
      "answer 4/2",
      "add 2 2",
      "",
      "2+2",
      "calc 1\nanswer 2",
    ];
    for (const action of actions) {
      const { observation, reward, done } = await env.step(action);
      observations.push(observation);
      expect([reward, done]).toEqual([0, false]);
    }
    const unknown = "unknown action; use calc EXPR or answer N";
    const noNumber = "error: answer a number like 42, -7, 2.5 or 5/3";
    expect(observations).toEqual([
      "4",
      "1/4",
      "error: division by 0",
      "error: nothing to calculate",
      noNumber,
      noNumber,
      unknown,
      unknown,
      unknown,
      "error: unexpected a",
    ]);
    const last = await env.step("answer 3.25");
    expect(last).toMatchObject({ observation: "", reward: 0, done: true });
    expect(last.info).toMatchObject({ turns: 11, toolErrors: 8, success: false, ending: "answer" });
    for (const late of ["answer 3", env.expertAction()])
      await expect(env.step(late)).rejects.toThrow("calculator.step: called after the episode ended");
  });

  it("takes other ways to the same number, and other spellings of it", async () => {
    const { env } = await begin(0, { families: ["boxes"] }); // 2402 boxes of 295
    await env.step("calc 2402*300-2402*5");
    expect((await env.clone().step("answer 708,590")).reward).toBe(1);
    expect((await env.clone().step("Answer  708590.0 ")).reward).toBe(1);
    expect((await env.clone().step("answer 708590 tiles")).done).toBe(false);
    expect((await env.step("answer 708591")).reward).toBe(0);
  });

  it("the expert goes on where it was, whatever happened in between", async () => {
    for (let seed = 0; seed < 60; seed++) {
      const { env } = await begin(seed, { levels: [3, 4] });
      const first = env.expertAction();
      await env.step("calc 1+1");
      expect(env.expertAction()).toBe(first);
      await env.step(first);
      await env.step("what?");
      expect(env.expertAction()).not.toBe(first);
      expect((await play(env, () => env.expertAction())).total).toBe(1);
    }
  });
});

describe("fractions", () => {
  it("are in lowest terms with a positive denominator", () => {
    fc.assert(
      fc.property(fc.bigInt(-(10n ** 30n), 10n ** 30n), fc.bigInt(-(10n ** 30n), 10n ** 30n), (a, b) => {
        fc.pre(b !== 0n);
        const { numerator, denominator } = rational(a, b);
        expect(denominator > 0n).toBe(true);
        expect(numerator * b).toBe(a * denominator);
        for (const prime of [2n, 3n, 5n, 7n, 11n])
          expect(numerator % prime === 0n && denominator % prime === 0n && denominator > 1n).toBe(false);
      }),
    );
  });
});
