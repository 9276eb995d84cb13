/**
 * The tasks of `terminal`: solvable, not guessable, verified, seeded, and with a held-out split that shares no name.
 */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Rng } from "../../engine/random.ts";
import type { Environment, StepResult } from "../../rl/environment.ts";
import { terminal, type TerminalOptions } from "../../environments/terminal/index.ts";
import { render } from "../../environments/terminal/rules.ts";
import { runLine } from "../../environments/terminal/shell.ts";
import { FAMILIES } from "../../environments/terminal/families.ts";
import { normalizeAnswer } from "../../environments/terminal/tasks.ts";
import { isHeldOut } from "../../environments/words.ts";
import { makeTask, type Task } from "./opened.ts";
import { tries } from "../support/tries.ts";

const SPLITS = ["train", "heldout"] as const;
const NAMES = terminal.families.map((family) => family.name);

async function start(seed: number, options: TerminalOptions): Promise<{ env: Environment; task: string }> {
  const env = terminal.make(options);
  return { env, task: await env.reset(seed) };
}

/** Plays until the end; returns `$ action` and observation lines, and the last step. */
async function play(
  env: Environment,
  policy: () => string,
  maxTurns = 8,
): Promise<{ lines: string[]; last: StepResult | undefined }> {
  const lines: string[] = [];
  let last: StepResult | undefined;
  for (let turn = 0; turn < maxTurns && !last?.done; turn++) {
    const action = policy();
    last = await env.step(action);
    lines.push(`$ ${action}`, ...(last.observation === "" ? [] : last.observation.split("\n")));
  }
  return { lines, last };
}

/** A task as the environment makes it, with its hidden state in the open. */
function taskOf(seed: number, options: TerminalOptions): Task {
  return makeTask(new Rng(seed).split(`terminal/${options.split ?? "train"}`), options);
}

describe.each(NAMES)("family %s", (family) => {
  it.each(SPLITS)("is solved by the expert: 200 %s seeds", async (split) => {
    for (let seed = 0; seed < 200; seed++) {
      const { env, task } = await start(seed, { families: [family], split });
      const { last } = await play(env, () => terminal.expert!(env));
      expect(last, `seed ${seed}: ${task}`).toMatchObject({
        reward: 1,
        done: true,
        info: { family, success: true, toolErrors: 0 },
      });
      expect(task.length).toBeLessThanOrEqual(60);
    }
  });

  it("is solved by the expert in larger worlds", async () => {
    for (const split of SPLITS)
      for (const size of [2, 3, 4])
        for (let seed = 0; seed < 40; seed++) {
          const { env } = await start(seed, { families: [family], split, size });
          expect(
            (await play(env, () => terminal.expert!(env))).last?.reward,
            `size ${size}, ${split}, seed ${seed}`,
          ).toBe(1);
        }
  });

  it("is hardly ever solved by chance", async () => {
    const episodes = tries(500);
    let solved = 0;
    for (let seed = 0; seed < episodes; seed++) {
      const rng = new Rng(seed).split("baseline");
      const { env } = await start(seed, { families: [family] });
      solved += (await play(env, () => terminal.random(rng))).last?.reward ?? 0;
    }
    console.log(`${family}: the random baseline solves ${((100 * solved) / episodes).toFixed(1)} % of ${episodes}`);
    expect(solved / episodes).toBeLessThan(0.05);
  });

  it("does not tell its answer, and takes no other, no early end and no other kind of end", () => {
    for (const split of SPLITS)
      for (let seed = 0; seed < 50; seed++) {
        const options = { families: [family], split };
        const task = taskOf(seed, options);
        const ending = task.plan.at(-1)!;
        if (ending === "done") {
          expect(task.verify({ kind: "done", text: "" }), `nothing done: ${task.text}`).toBe(false);
          for (const line of task.plan.slice(0, -1)) runLine(line, task.fs);
          expect(task.verify({ kind: "answer", text: "done" })).toBe(false);
          expect(task.verify({ kind: "done", text: "" })).toBe(true);
        } else {
          const answer = ending.replace("answer ", "");
          expect(task.text.split(/[\s?:;]+/)).not.toContain(answer);
          expect(task.verify({ kind: "answer", text: ` ${answer}  ` })).toBe(true);
          for (const wrong of [`${answer}x`, answer.slice(1), task.text, "done", "0"])
            expect(task.verify({ kind: "answer", text: wrong }), `${task.text} — ${wrong}`).toBe(false);
          expect(task.verify({ kind: "done", text: "" })).toBe(false);
        }
      }
  });

  it("is the same episode for the same seed, and another for another", async () => {
    const transcript = async (seed: number): Promise<string> => {
      const { env, task } = await start(seed, { families: [family] });
      const look = await env.step("find .; cat * */*");
      return [task, look.observation, ...(await play(env, () => terminal.expert!(env))).lines].join("\n");
    };
    for (let seed = 0; seed < 10; seed++) expect(await transcript(seed)).toBe(await transcript(seed));
    const all = await Promise.all(Array.from({ length: 20 }, (_, seed) => transcript(seed)));
    expect(new Set(all).size).toBe(20);
  });
});

describe("verifiers of changes", () => {
  const changing = FAMILIES.filter((family) => taskOf(0, { families: [family.name] }).plan.at(-1) === "done");

  it.each(changing)(
    "$name: the change made and something else destroyed, added or altered is a failure",
    ({ name }) => {
      for (let seed = 0; seed < 20; seed++)
        for (const harm of ["remove", "add", "alter"]) {
          const task = taskOf(seed, { families: [name] });
          for (const line of task.plan.slice(0, -1)) runLine(line, task.fs);
          const bystander = [...task.fs.snapshot()].find(([, text]) => text !== null)![0];
          runLine(
            { remove: `rm ${bystander}`, add: "touch extra", alter: `echo more >> ${bystander}` }[harm]!,
            task.fs,
          );
          expect(task.verify({ kind: "done", text: "" }), `${harm} ${bystander}: ${task.text}`).toBe(false);
        }
    },
  );

  it("half of it is a failure", () => {
    const moved = taskOf(1, { families: ["move"] });
    runLine(moved.plan[0]!.replace("mv", "cp"), moved.fs);
    expect(moved.verify({ kind: "done", text: "" })).toBe(false);
    const cleaned = taskOf(1, { families: ["clean"] });
    const first = [...cleaned.fs.snapshot().keys()].find(
      (path) => path.startsWith(cleaned.plan[0]!.slice(3, -5)) && path.endsWith(".tmp"),
    )!;
    runLine(`rm ${first}`, cleaned.fs);
    expect(cleaned.verify({ kind: "done", text: "" })).toBe(false);
    runLine("rm */*.tmp", cleaned.fs);
    expect(cleaned.verify({ kind: "done", text: "" }), "also in a directory that was not meant").toBe(false);
  });

  it("other ways to the same end count", () => {
    const task = taskOf(3, { families: ["move"] });
    const [, from, to] = task.plan[0]!.split(" ");
    runLine(`cd ${to}; cat ~/${from} > ${from!.split("/").at(-1)} && rm ~/${from}; cp ~/${to}/* /tmp`, task.fs);
    expect(task.verify({ kind: "done", text: "" })).toBe(true);
  });

  it("a path may be answered in any of its spellings", () => {
    for (const spelling of ["a/b", "./a/b", "a/b/", "~/a/b", "/home/user/a/b", " ./a/b "])
      expect(normalizeAnswer(spelling)).toBe("a/b");
  });
});

describe("splits", () => {
  /** All words of a task: its text, its plan, its tree. */
  const vocabulary = (split: "train" | "heldout"): Set<string> => {
    const words = new Set<string>();
    for (let seed = 0; seed < 600; seed++) {
      const task = taskOf(seed, { split });
      const tree = [...task.fs.snapshot()].flat().join(" ");
      for (const word of `${task.text} ${task.plan.join(" ")} ${tree}`.match(/[A-Za-z]+/g)!) words.add(word);
    }
    return words;
  };

  it("share no name and no word of content", () => {
    for (const split of ["train", "heldout"] as const) {
      const splits = [...vocabulary(split)].map(isHeldOut).filter((heldOut) => heldOut !== undefined);
      expect(splits.length).toBeGreaterThan(2_000);
      expect(splits.every((heldOut) => heldOut === (split === "heldout"))).toBe(true);
    }
  });

  it("no held-out task occurs in training, however many are made", () => {
    const texts = new Set(Array.from({ length: 3_000 }, (_, seed) => taskOf(seed, {}).text));
    for (let seed = 0; seed < 500; seed++) expect(texts).not.toContain(taskOf(seed, { split: "heldout" }).text);
  });

  it("each pair of syllables of a held-out word occurs in training words", () => {
    const pairs = (word: string): string[] => [word.slice(0, 4), word.slice(2)];
    const ours = (split: "train" | "heldout"): string[] =>
      [...vocabulary(split)].filter((word) => isHeldOut(word) !== undefined);
    const seen = new Set(ours("train").flatMap(pairs));
    const unseen = ours("heldout")
      .flatMap(pairs)
      .filter((pair) => !seen.has(pair));
    expect(unseen.length / ours("heldout").length).toBeLessThan(0.15); // of 600 training tasks; all pairs occur in more
  });
});

describe("the episode", () => {
  it("shows errors as observations and counts them", async () => {
    const { env } = await start(0, {});
    const wrong = await env.step("frobnicate");
    expect(wrong.observation).toBe("frobnicate: command not found\n[exit 127]");
    expect(wrong.info).toMatchObject({ exitCode: 127, toolErrors: 1, turns: 1, ending: "none", success: false });
    expect((await env.step("false")).observation).toBe("[exit 1]");
    expect((await env.step("answer no")).info).toMatchObject({
      toolErrors: 2,
      turns: 3,
      ending: "answer",
      success: false,
    });
    await expect(env.step("ls")).rejects.toThrow("terminal.step: called after the episode ended");
  });

  it("clones: what happens in one does not touch the other", async () => {
    for (let seed = 0; seed < 60; seed++) {
      const { env } = await start(seed, {});
      await env.step("mkdir inBoth; cd inBoth; cd ..; rmdir inBoth");
      const copy = env.clone!();
      for (const action of ["rm -r *", "echo changed > new.txt", "cd /tmp"]) await copy.step(action);
      expect((await env.step("ls /tmp; cat new.txt; cd -; cd ..; cd user")).observation).toMatch(
        /^cat: new.txt: No such/,
      );
      const twin = env.clone!();
      for (const each of [twin, env]) expect((await play(each, () => terminal.expert!(each))).last?.reward).toBe(1);
      expect((await copy.step("answer x")).info).toMatchObject({ turns: 5, success: false });
      await expect(env.clone!().step("ls")).rejects.toThrow("called after the episode ended");
    }
  });

  it("leads the expert back after a detour", async () => {
    for (let seed = 0; seed < 60; seed++) {
      const { env } = await start(seed, {});
      await env.step("cd */ 2>/dev/null || cd /tmp; ls");
      expect((await play(env, () => terminal.expert!(env))).last?.reward).toBe(1);
    }
  });

  it("pays for clean commands only if asked, and less than for success", async () => {
    const { env } = await start(0, { formatWeight: 0.2 });
    await env.step("nope");
    expect((await env.step("answer wrong")).reward).toBeCloseTo(0.1, 12);
    const good = await start(0, { formatWeight: 0.2 });
    expect((await play(good.env, () => terminal.expert!(good.env))).last?.reward).toBeCloseTo(1.2, 12);
  });

  it("draws only the families and levels that are asked for", async () => {
    const drawn = new Set<string>();
    for (let seed = 0; seed < 50; seed++) {
      const { env } = await start(seed, { families: ["read", "find", "move"], levels: [1, 2] });
      const { family, level } = (await env.step("answer x")).info;
      drawn.add(`${String(family)} ${String(level)}`);
    }
    expect([...drawn].sort()).toEqual(["find 2", "read 1"]);
    expect(() => terminal.make({ families: ["reed"] })).toThrow(
      "terminal: unknown family 'reed'; did you mean 'read'?",
    );
    expect(() => terminal.make({ families: ["read"], levels: [2, 9] })).toThrow(
      "no family of read has a level in 2 to 9",
    );
    expect(() => terminal.make({ size: 5 })).toThrow("size must be an integer in [1, 4], got 5");
    expect(() => terminal.make({ maxOutput: 3 })).toThrow("maxOutput must be an integer ≥ 40, got 3");
    expect(() => terminal.make({ formatWeight: 1 })).toThrow("formatWeight must be in [0, 1)");
  });

  it("the expert refuses an environment that is not its own, and one without a task", () => {
    const other: Environment = {
      name: "chess",
      reset: () => Promise.reject(new Error()),
      step: () => Promise.reject(new Error()),
    };
    expect(() => terminal.expert!(other)).toThrow('expected a terminal episode, got "chess"');
    expect(() => terminal.expert!(terminal.make())).toThrow("call reset first");
  });

  it("cuts the middle out of a long output, never a character, and keeps the exit code", async () => {
    expect(render("a".repeat(50) + "b".repeat(50) + "\n", 0, 50)).toBe(
      `${"a".repeat(9)}\n[... 82 characters ...]\n${"b".repeat(9)}`,
    );
    fc.assert(
      fc.property(fc.string({ unit: "grapheme", maxLength: 200 }), fc.integer({ min: 40, max: 120 }), (text, limit) => {
        const shown = render(text, 0, limit);
        expect(shown.length).toBeLessThanOrEqual(Math.max(limit, 40));
        expect(Buffer.from(shown, "utf8").toString("utf8")).toBe(shown);
      }),
    );
    const { env } = await start(0, { maxOutput: 100 });
    const { observation } = await env.step(`echo ${"word ".repeat(80)}; false`);
    expect(observation).toMatch(/^word .*\n\[\.\.\. \d+ characters \.\.\.\]\n.*word\n\[exit 1\]$/s);
  });
});
