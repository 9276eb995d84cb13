/**
 * The environment `shell`: its tasks in a real bash, what solves them and what does not, and how an episode ends. Needs
 * bubblewrap; tests/connect/sandbox.long.test.ts has the sandbox itself.
 */
import { chmodSync, existsSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { Rng } from "../../engine/random.ts";
import type { Session } from "../../connect/sandbox/session.ts";
import { shell, type ShellOptions } from "../../connect/shell/index.ts";
import type { ShellTask } from "../../connect/shell/tasks.ts";
import { terminal } from "../../environments/terminal/index.ts";
import type { Environment, EnvironmentOptions, StepResult } from "../../rl/environment.ts";

const FAMILIES = shell.families.map(({ name }) => name);

/** Plays lines, of which a function is one that reads the task, and closes the environment. */
async function play(
  options: EnvironmentOptions,
  seed: number,
  lines: readonly (string | ((task: string) => string))[],
): Promise<{ task: string; steps: StepResult[] }> {
  const env = shell.make(options);
  try {
    const task = await env.reset(seed);
    const steps: StepResult[] = [];
    for (const line of lines) steps.push(await env.step(typeof line === "string" ? line : line(task)));
    return { task, steps };
  } finally {
    env.close!();
  }
}

/** Plays the expert's lines, each of which `change` may replace; returns the last step. */
async function expert(
  family: string,
  seed: number,
  change: (line: string) => string | readonly string[] = (line) => line,
  options: ShellOptions = {},
): Promise<StepResult & { shown: string }> {
  const env = shell.make({ families: [family], ...options });
  try {
    const shown = [await env.reset(seed)];
    const { plan } = (env as unknown as { episode: { task: ShellTask } }).episode.task;
    expect(shell.expert!(env)).toBe(plan[0]);
    let last: StepResult | undefined;
    for (const line of plan.flatMap((planned) => change(planned))) {
      last = await env.step(line);
      shown.push(`$ ${line}`, last.observation);
    }
    return { ...last!, shown: shown.join("\n") };
  } finally {
    env.close!();
  }
}

const sessionOf = (env: Environment): Session | undefined => {
  try {
    return (env as unknown as { episode: { state: { session: Session } } }).episode.state.session;
  } catch {
    return undefined; // it has not begun
  }
};

/** The number of process 1 of the episode's sandbox, as the host counts. */
const pidOf = async (env: Environment): Promise<number> => (await sessionOf(env)!.pid)!;

/** Waits until a process is gone, and fails if it stays. */
async function gone(pid: number): Promise<void> {
  for (let i = 0; i < 100 && existsSync(`/proc/${pid}`); i++) await wait(50);
  expect(existsSync(`/proc/${pid}`)).toBe(false);
}

describe("the tasks", () => {
  it.each(FAMILIES)(
    "%s: the expert solves it, in training and held out; saying that it is done does not",
    async (family) => {
      const seeds = [0, 1, 2, 3, 4, 5];
      const all = await Promise.all(
        seeds.flatMap((seed) =>
          (["train", "heldout"] as const).map((split) =>
            expert(family, seed, undefined, { split, everyday: seed % 2 === 1 }),
          ),
        ),
      );
      for (const { reward, info, shown } of all) {
        // The script of `repair` fails before it is repaired.
        expect({ reward, info }, shown).toMatchObject({
          reward: 1,
          info: { family, success: true, score: 1, toolErrors: family === "repair" ? 1 : 0 },
        });
      }
      const idle = await Promise.all(
        seeds.flatMap((seed) =>
          ["done", "answer 7000", "answer nothing"].map((line) => play({ families: [family] }, seed, [line])),
        ),
      );
      for (const { task, steps } of idle)
        expect(steps[0], task).toMatchObject({ done: true, reward: 0, info: { success: false } });
    },
  );

  it.each(["move", "write", "rename", "edit", "permit", "archive", "repair"])(
    "%s: one file too many, and it is not solved",
    async (family) => {
      const { reward, shown } = await expert(family, 1, (line) => (line === "done" ? ["touch other", "done"] : line));
      expect(reward, shown).toBe(0);
    },
  );

  it("are those of the simulated terminal, word for word, in the families that both have", async () => {
    for (const { name } of terminal.families) {
      const [one, other] = [shell.make({ families: [name] }), terminal.make({ families: [name] })];
      const task = await one.reset(3);
      one.close!();
      // The seeds of the two are streams of their own, so that the form is compared and the names are not.
      const form = (text: string): string => text.replaceAll(/[a-z]{6}(?=[./ ?]|$)/g, "x").replaceAll(/\.\w+/g, "");
      expect(task.split(" ").length, `${form(task)} ${form(await other.reset(3))}`).toBeLessThan(14);
    }
  });

  it("permit asks for one file, archive for a whole directory, repair for what makes the script work", async () => {
    const all = await expert("permit", 2, (line) => line.replace(/^chmod \+x .*/, "chmod +x $(find . -type f)"));
    expect(all.reward, all.shown).toBe(0);
    const one = await expert("archive", 2, (line) =>
      line.replace(/(tar cf \S+ )(\S+)/, "$1 $(ls -d $2/* | head -n 1)"),
    );
    expect(one.reward, one.shown).toBe(0);
    const compressed = await expert("archive", 2, (line) => line.replace("tar cf", "tar czf"));
    expect(compressed.reward, compressed.shown).toBe(0);
    const dotted = await expert("archive", 2, (line) => line.replace(/(tar cf \S+ )(\S+)/, "$1./$2"));
    expect(dotted.reward, dotted.shown).toBe(1);
    const file = await expert("repair", 2, (line) => line.replace("mkdir", "touch"));
    expect(file.reward, file.shown).toBe(1);
    const script = await expert("repair", 2, (line) => (line.startsWith("mkdir") ? "echo true > $(ls *.sh)" : line));
    expect(script.reward, script.shown).toBe(0);
  });

  it("are judged by the files alone: links, lost line ends, quotes", async () => {
    const link = await expert("copy", 1, (line) => line.replace(/^cp (\S+)/, "ln -s $PWD/$1"));
    expect(link.reward, link.shown).toBe(0);
    const noEnd = await expert("write", 1, (line) => line.replace(/^echo/, "printf"));
    expect(noEnd.reward, noEnd.shown).toBe(1);
    for (const quote of ["'", '"']) {
      const quoted = await expert("read", 1, (line) => line.replace(/^answer (.*)/, `answer ${quote}$1${quote}`));
      expect(quoted.reward, quoted.shown).toBe(1);
    }
    const empty = await play({}, 1, ["answer", "answer ", "echo 'answer 5'"]);
    expect(empty.steps.map(({ observation, done }) => [observation, done])).toEqual([
      ["usage: answer TEXT\n[exit 2]", false],
      ["usage: answer TEXT\n[exit 2]", false],
      ["answer 5", false],
    ]);
  });
});

describe("an episode", () => {
  it("is the same for the same seed and actions, and another for another seed", async () => {
    const lines = [
      "ls -R",
      "cat *",
      "ls -l | cut -d' ' -f1",
      "wc -l */*",
      "cat nothing",
      "find . | sort",
      "pwd",
      "done",
    ];
    const run = async (seed: number): Promise<string> => JSON.stringify(await play({ size: 2 } as object, seed, lines));
    const [once, again, other] = await Promise.all([run(5), run(5), run(6)]);
    expect(again).toBe(once);
    expect(other).not.toBe(once);
  });

  it("takes any text as an action", async () => {
    const lines = [
      "",
      " ",
      "\n",
      "\0",
      "a\0b",
      "((",
      "'",
      "\ud800",
      "x".repeat(10_000),
      "é",
      "exit",
      "logout",
      "kill -9 $$",
      "# note",
    ];
    const { steps } = await play({}, 0, lines);
    for (const { observation, reward, done, info } of steps) {
      expect(observation.length).toBeLessThanOrEqual(1100);
      expect({ reward, done, ending: info["ending"] }).toEqual({ reward: 0, done: false, ending: "none" });
    }
  });

  it("shows what a command takes too much of, and goes on", async () => {
    const { steps } = await play({ seconds: 1, maxOutput: 60 } as object, 0, ["sleep 5", "yes", "seq 1000", "echo on"]);
    expect(steps.map(({ observation }) => observation)).toEqual([
      "[timeout]",
      expect.stringMatching(/^y\n[^]*\n\[too much output\]$/) as string,
      expect.stringMatching(/^1\n2\n[^]*\n\[\.\.\. \d+ characters \.\.\.\]\n[^]*1000$/) as string,
      "on",
    ]);
    expect(steps.map(({ info }) => info["toolErrors"])).toEqual([1, 2, 2, 2]);
  });

  it("ends without a reward, and is not masked, if its shell is gone", async () => {
    const env = shell.make();
    await env.reset(0);
    process.kill(await pidOf(env), "SIGKILL");
    expect(await env.step("ls")).toMatchObject({
      observation: "[the shell is gone]",
      reward: 0,
      done: true,
      info: { ending: "broken", success: false },
    });
    env.close!();
  });

  it("gives its sandbox back: at its end, when it is closed, and when it is closed before it has begun", async () => {
    const ended = shell.make();
    await ended.reset(0);
    const first = await pidOf(ended);
    expect(existsSync(`/proc/${first}`)).toBe(true);
    await ended.step("done");
    await gone(first);
    const early = shell.make();
    const beginning = early.reset(0);
    early.close!();
    await beginning;
    await gone(await pidOf(early));
    const aborted = shell.make();
    const controller = new AbortController();
    const reset = aborted.reset(0, { signal: controller.signal });
    await wait(1);
    controller.abort(new Error("stop"));
    await expect(reset).rejects.toThrow("stop");
    aborted.close!();
    for (let i = 0; i < 100 && sessionOf(aborted) === undefined; i++) await wait(50);
    await gone(await pidOf(aborted));
  });

  it("has no clone, a limit of its own for each call, and as many at a time as are asked for", async () => {
    expect(shell.make().clone).toBeUndefined();
    expect(shell.limits!({ seconds: 7 })).toEqual({ reset: 30_000, step: 37_000 });
    expect(shell.atOnce!({ sessions: 3 })).toBe(3);
    expect(() => shell.make({ processes: 2 })).toThrow("shell: processes must be an integer ≥ 8, got 2");
    await expect(shell.check!({})).resolves.toBeUndefined();
  });

  it("says in one line what is missing where there is no sandbox", async () => {
    const path = process.env["PATH"];
    const folder = mkdtempSync(join(tmpdir(), "worldgrad-shell-"));
    chmodSync(folder, 0o755);
    try {
      process.env["PATH"] = "/nowhere";
      await expect(shell.check!({})).rejects.toThrow(/^shell: .*ENOENT.*; it needs bubblewrap from 0.8 on/);
      for (const name of ["setpriv", "bash", "cat", "prlimit"]) symlinkSync(`/usr/bin/${name}`, join(folder, name));
      process.env["PATH"] = folder;
      await expect(shell.check!({})).rejects.toThrow(/^shell: the sandbox could not be started: .*bwrap: No such file/);
      writeFileSync(join(folder, "bwrap"), "#!/bin/sh\necho bwrap: Permission denied >&2\nexit 1\n", { mode: 0o755 });
      await expect(shell.check!({})).rejects.toThrow("could not be started: bwrap: Permission denied; it needs");
    } finally {
      process.env["PATH"] = path;
      rmSync(folder, { recursive: true });
    }
  });

  it("has a random player, whose lines end the episode now and then", async () => {
    const rng = new Rng(0);
    const lines = Array.from({ length: 200 }, () => shell.random(rng, "Read kofilu.txt", {}));
    expect(lines.some((line) => line.includes("kofilu"))).toBe(true);
    expect(lines.filter((line) => /^(answer |done)/.test(line)).length).toBeGreaterThan(20);
  });
});

describe("the answers of another machine", () => {
  it.each([false, true])("are shown, and what is judged is the own one; everyday words: %s", async (everyday) => {
    const options = { families: ["write"], everyday };
    const own = await play(options, 0, ["find . | sort"]);
    const env = shell.make({ ...options, answers: "other" });
    expect(await env.reset(0)).toBe(own.task);
    const listing = (await env.step("find . | sort")).observation;
    expect(listing).toMatch(/^\.\n\.\//);
    expect(listing).not.toBe(own.steps[0]!.observation);
    // Where the other machine lacks the directory, its error is shown, and the own one has the file all the same.
    expect((await env.step(shell.expert!(env))).observation).toMatch(/^$|No such file or directory\n\[exit 1\]$/);
    expect(await env.step("done")).toMatchObject({ reward: 1, info: { success: true } });
    env.close!();
  });

  it("end the episode without a reward, and leave no machine, if one of the two is gone", async () => {
    for (const lost of ["session", "other"] as const) {
      const env = shell.make({ families: ["write"], answers: "other" });
      await env.reset(0);
      const { state } = (env as unknown as { episode: { state: { session: Session; other: Session } } }).episode;
      const [own, other] = [(await state.session.pid)!, (await state.other.pid)!];
      await env.step(shell.expert!(env));
      process.kill((await state[lost].pid)!, "SIGKILL");
      expect(await env.step("ls")).toMatchObject({
        observation: "[the shell is gone]",
        reward: 0,
        done: true,
        info: { ending: "broken", success: false },
      });
      await gone(own);
      await gone(other);
      env.close!();
    }
  });

  it("are not asked for when the episode is judged: the own machine's files count", async () => {
    const env = shell.make({ families: ["write"], answers: "other" });
    await env.reset(0);
    await env.step(shell.expert!(env));
    const { state } = (env as unknown as { episode: { state: { other: Session } } }).episode;
    const other = (await state.other.pid)!;
    process.kill(other, "SIGKILL");
    expect(await env.step("done")).toMatchObject({ reward: 1, info: { success: true } });
    await gone(other);
    env.close!();
  });

  it("follow from the seed", async () => {
    const options = { families: ["find"], answers: "other" } as EnvironmentOptions;
    const [a, b] = await Promise.all([play(options, 3, ["find ."]), play(options, 3, ["find ."])]);
    expect(a).toEqual(b);
    expect(() => shell.make({ answers: "none" } as EnvironmentOptions)).toThrow(
      'answers must be "own" or "other", got "none"',
    );
  });
});
