/** Riddles about programs: what counts as a proposal, what is an answer, and that no held-out program is in one. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Rng } from "../../engine/random.ts";
import { FAMILIES } from "../../environments/riddle/riddle.ts";
import { readProposal, riddleOf } from "../../environments/riddle/proposal.ts";
import { isHeldOut } from "../../environments/selection.ts";
import {
  drawRiddle,
  proposingTask,
  type Riddle,
  riddles,
  solvingTask,
  taskWorld,
} from "../../environments/riddle/selfPlay.ts";
import { compile, run } from "../../environments/program/machine.ts";
import { parseProgram } from "../../environments/program/syntax.ts";
import type { StepResult } from "../../rl/environment.ts";
import { tries } from "../support/tries.ts";

const TAKE: Riddle = { kind: "deduction", program: "x.take(2).sum", inputs: [[5, 2, 1]], outputs: [7] };
const LINE: Riddle = { kind: "induction", program: "x*3+1", inputs: [1, 2, 5, 9], outputs: [4, 7, 16, 28] };

async function after(task: Parameters<typeof taskWorld>[0], ...actions: readonly string[]): Promise<StepResult> {
  const env = taskWorld(task).make();
  expect(await env.reset(0)).toBe(task.text);
  let last: StepResult | undefined;
  for (const action of actions) last = await env.step(action);
  return last!;
}

describe("what is asked, and what is an answer", () => {
  it.each([
    ["say 7", 1, "answer"],
    ["say 8", 0, "answer"],
    ["say [7]", 0, "answer"],
    ["say", 0, "malformed"],
    ["7", 0, "malformed"],
    ["propose x for 1", 0, "malformed"],
  ])("deduction: %s", async (action, reward, form) => {
    const task = solvingTask(TAKE);
    expect(task.text).toBe("Say p([5 2 1]): p(x)=x.take(2).sum");
    expect(await after(task, action)).toMatchObject({ reward, done: true, info: { form, family: "deduction" } });
  });

  it.each([
    ["say [5 2 1]", 1],
    ["say [3 4]", 1], // any input with this output
    ["say [3 5]", 0],
    ["say 7", 0], // the program fails on it
  ])("abduction: %s", async (action, reward) => {
    const task = solvingTask({ ...TAKE, kind: "abduction" });
    expect(task.text).toBe("Say x: p(x)=7 p(x)=x.take(2).sum");
    expect(await after(task, action)).toMatchObject({ reward, done: true, info: { form: "answer" } });
  });

  it.each([
    [["run x*3+1", "submit"], 1, "answer"],
    [["submit x+x+x+1"], 1, "answer"], // any program that does the same
    [["submit x*x+3"], 0, "answer"], // passes what is shown, p(1)=4 p(2)=7, and not the rest
    [["submit x*"], 0, "malformed"],
  ])("induction: %j", async (actions, reward, form) => {
    const task = solvingTask(LINE);
    expect(task.text).toBe("Write p(x): p(1)=4 p(2)=7");
    expect(await after(task, ...actions)).toMatchObject({ reward, done: true, info: { form, family: "induction" } });
  });
});

describe("what is a proposal", () => {
  it.each([
    ["deduction", "x.take(2).sum for [5 2 1]", "valid"],
    ["deduction", " x . take ( 2 ) for 4", "void"], // a number has no first two
    ["deduction", "x/0 for 4", "void"],
    ["deduction", "x*999999 for 99999", "void"],
    ["abduction", "x+ for 4", "malformed"],
    ["abduction", "x+3", "malformed"],
    ["abduction", "x+3 for 4 5", "malformed"],
    ["abduction", "x+3 for y", "malformed"],
    ["abduction", "x+1+1+1+1+1+1+1+1+1+1 for 1", "malformed"], // longer than an action has room for
    ["deduction", "x for [1 2 3 4 5 6 7 8 9 1 2]", "malformed"],
    ["induction", "1 2 5 9", "valid"],
    ["induction", "1 2 5", "malformed"],
    ["induction", "1 2 5 5", "void"],
    ["induction", "1 2 5 [1 2", "malformed"],
  ] as const)("%s: %s is %s", (kind, text, form) => {
    expect(readProposal(kind, text, kind === "induction" ? "x*3+1" : undefined).form).toBe(form);
  });

  it("an induction needs outputs that differ: else a constant would pass", () => {
    expect(readProposal("induction", "1 2 5 9", "x-x")).toMatchObject({ form: "void", why: "all outputs are equal" });
  });

  it.each([
    ["deduction", "x for 4", undefined],
    ["deduction", " for 4", "expected PROGRAM for INPUT"],
    ["deduction", "x for ", "expected PROGRAM for INPUT"],
    ["deduction", "x\n+3 for 4", "expected PROGRAM for INPUT"], // no line
    ["deduction", "x for 4 for ", "expected one input"], // behind the last `for` stands nothing
    ["deduction", "x+1+1+1+1+1+1+1+1+11 for 1", undefined], // 20 characters
    ["deduction", "x+1+1+1+1+1+1+1+11+11 for 1", "the program is too long"],
    ["deduction", "x for [1 2 3 4 5 6 7 8 99]", undefined], // 20 characters
    ["deduction", "x for [1 2 3 4 5 6 7 8 999]", "an input is a number or a short list"],
    ["induction", "1 2 5", "expected 4 inputs"],
    ["induction", "1 2 5 [1 2 3 4 5 6 7 8 999]", "an input is a number or a short list"],
  ] as const)("%s: %s: %s", (kind, text, why) => {
    const said = readProposal(kind, text, kind === "induction" ? "x*3+1" : undefined);
    // A program may be held out, which is no mistake of its form.
    expect(said.form === "valid" || said.form === "held out" ? undefined : said.why).toBe(why);
  });

  it("has outputs of 20 characters at most, and a task of 100", () => {
    const long = [1, 2, 3, 4, 5, 6, 7, 8, 99];
    const why = (...riddle: Parameters<typeof riddleOf>): string | undefined => {
      const said = riddleOf(...riddle);
      return said.form === "valid" ? undefined : said.why;
    };
    expect(why("deduction", "x", [long])).toBeUndefined();
    expect(why("deduction", "x", [[...long, 9]])).toBe("an output is too long");
    expect(why("induction", "x", [1, [...long, 9], 2, 3])).toBe("an output is too long");
    expect(why("induction", "x", [1])).toBe("all outputs are equal");
    expect(why("deduction", "x+", [1])).toBe("unexpected end");
    const task = (program: string): string =>
      solvingTask({ kind: "deduction", program, inputs: [1], outputs: [1] }).text;
    const program = `x${"+1".repeat(42)}`;
    expect(task(program)).toHaveLength(100);
    expect(why("deduction", program, [1])).toBeUndefined();
    expect(why("deduction", `${program}1`, [1])).toBe("the task is too long");
  });

  it("says the outputs, which are the machine's, and prints the program as everywhere", () => {
    const { riddle } = readProposal("deduction", "x . take ( 2 ) . sum for [5 2 1]") as { riddle: Riddle };
    expect(riddle).toEqual(TAKE);
  });

  it("no program that is kept for held-out tasks", () => {
    const program = Array.from({ length: 50 }, (_, i) => `x+${i}`).find(isHeldOut)!;
    expect(readProposal("deduction", `${program} for 3`).form).toBe("held out");
  });

  it("whatever is said: nothing throws, and a valid one is what the machine says", async () => {
    const words = fc.constantFrom(
      "x",
      "for",
      "[1 2]",
      "7",
      "+",
      ".",
      "sum",
      "take(2)",
      "(",
      ")",
      "-",
      ";",
      "s=",
      "%",
      " ",
    );
    const text = fc.oneof(
      fc.array(words, { maxLength: 12 }).map((all) => all.join("")),
      fc.string(),
    );
    await fc.assert(
      fc.asyncProperty(text, fc.constantFrom("deduction", "abduction", "induction"), async (said, kind) => {
        const task = proposingTask(kind, [TAKE, TAKE]);
        const { info, done } = await after(task, `propose ${said}`);
        expect(done).toBe(true);
        if (info["form"] !== "valid") return;
        const { program, inputs, outputs } = JSON.parse(String(info["riddle"])) as Riddle;
        const reading = parseProgram(program) as { program: Parameters<typeof compile>[0] };
        inputs.forEach((input, i) => expect(run(compile(reading.program), input)).toEqual({ value: outputs[i]! }));
      }),
      { numRuns: tries(100) },
    );
  });
});

describe("the generator", () => {
  it.each(FAMILIES.map(({ name }) => name))(
    "%s: the expert is right, and the same seed is the same task",
    async (name) => {
      for (let seed = 0; seed < 10; seed++) {
        const env = riddles.make({ families: [name] });
        const task = await env.reset(seed);
        expect(await riddles.make({ families: [name] }).reset(seed)).toBe(task);
        let last = await env.step(riddles.expert!(env));
        while (!last.done) last = await env.step(riddles.expert!(env));
        expect(last).toMatchObject({ reward: 1, info: { success: true, family: name } });
      }
    },
  );

  it("draws no held-out program in training, and only those when held out", () => {
    const rng = new Rng(3);
    for (const kind of ["deduction", "abduction", "induction"] as const) {
      for (let i = 0; i < 20; i++) {
        expect(isHeldOut(drawRiddle(rng.split(kind).split(i), kind).program)).toBe(false);
        expect(isHeldOut(drawRiddle(rng.split(kind).split(i), kind, "heldout").program)).toBe(true);
      }
    }
  });

  it("random play hardly solves any", async () => {
    const rng = new Rng(5);
    let solved = 0;
    for (let seed = 0; seed < 60; seed++) {
      const env = riddles.make({ families: ["deduction", "abduction", "induction"] });
      const task = await env.reset(seed);
      solved += (await env.step(riddles.random(rng, task))).reward;
    }
    expect(solved).toBeLessThan(10);
  });
});
