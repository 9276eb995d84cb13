/** `host` in a real bash: what solves its tasks, what a wrong line is answered, whose answers are shown. */
import { describe, expect, it } from "vitest";
import { Rng } from "../../engine/random.ts";
import { host, type HostOptions } from "../../connect/host/index.ts";
import type { HostTask } from "../../connect/host/tasks.ts";
import type { StepResult } from "../../rl/environment.ts";

/** Plays lines, which may read the task, and closes the environment. */
async function play(
  options: HostOptions,
  seed: number,
  lines: (task: HostTask, expert: () => string) => readonly string[],
): Promise<{ task: HostTask; steps: StepResult[] }> {
  const env = host.make(options);
  try {
    await env.reset(seed);
    const { task } = (env as unknown as { episode: { task: HostTask } }).episode;
    const steps: StepResult[] = [];
    for (const line of lines(task, () => host.expert!(env))) steps.push(await env.step(line));
    return { task, steps };
  } finally {
    env.close!();
  }
}

describe("host", () => {
  it.each(["keep", "clear", "mend", "print"])(
    "%s: the expert solves it, in both splits and everywhere",
    async (family) => {
      for (const split of ["train", "heldout"] as const)
        for (const world of [0, -1]) {
          const { task, steps } = await play({ families: [family], split, host: world }, 1, ({ plan }) => plan);
          expect(steps.map(({ observation, reward, done }) => [observation, reward, done])).toEqual([
            [family === "print" ? task.word : "", 0, false],
            ["", 1, true],
          ]);
        }
    },
  );

  it("answers a wrong line with the error of cat or of bash, which says what was needed", async () => {
    for (let seed = 0; seed < 8; seed++) {
      const { task, steps } = await play({}, seed, ({ subject, family }) => [
        family.kind === "script" ? `touch nothing; sh ${subject}` : `bash ${subject} nothing=5`,
        "done",
      ]);
      const error =
        task.family.kind === "script"
          ? `cat: ${task.needed}: No such file or directory`
          : `${task.subject}: line 2: ${task.needed}: parameter not set`;
      expect(steps[0]!.observation).toBe(`${error}\n[exit 1]`);
      expect(steps[1]).toMatchObject({ reward: 0, done: true, info: { success: false } });
    }
  });

  it.each<[string, string, (task: HostTask) => string]>([
    [
      "a file in every directory",
      "mend",
      ({ facts }) => {
        const [directories, files] = facts.names.parts.script;
        return `touch ${directories.flatMap((d) => files.map((f) => `${d}/${f}`)).join(" ")}`;
      },
    ],
    ["a script that was changed", "mend", ({ subject }) => `echo true > ${subject}; sh ${subject}`],
    [
      "a kept word without its variable",
      "keep",
      ({ subject, word }) => `echo ${word} > ${subject.replace("sh", "out")}`,
    ],
    ["a program that was changed", "clear", ({ subject }) => `echo true > ${subject}; bash ${subject}`],
  ])("pays nothing for %s", async (_, family, line) => {
    const { steps } = await play({ families: [family] }, 0, (task) => [line(task), "done"]);
    expect(steps.map(({ observation, reward }) => [observation, reward])).toEqual([
      ["", 0],
      ["", 0],
    ]);
  });

  it("as another host answers: the error names what is needed there, and the own files are judged", async () => {
    const options: HostOptions = { levels: [1, 1], answers: "other", size: 3 };
    const named = new Set<string>();
    for (let seed = 0; seed < 4; seed++) {
      const { task, steps } = await play(options, seed, ({ plan }) => plan);
      const [, variable] = /line 2: (\S+): parameter not set/.exec(steps[0]!.observation)!;
      expect(variable).not.toBe(task.needed);
      named.add(`${task.subject} ${variable}`);
      expect(steps[1]).toMatchObject({ reward: 1, info: { success: true } });
    }
    expect(named.size).toBe(4);
  });

  it("has a novice who guesses and gives up, and a baseline that does either", async () => {
    const env = host.make({});
    const task = await env.reset(0);
    const rng = new Rng(0);
    const first = host.novice!(env, rng, 0, task);
    expect(first).toMatchObject({ isGuess: true });
    await env.step(first.action);
    expect(host.novice!(env, rng, 1, task)).toEqual({ isGuess: false, action: "done" });
    const baseline = new Set(Array.from({ length: 40 }, () => host.random(rng, "Make sh bikofi.sh work")));
    expect(baseline).toContain("done");
    expect(baseline.size).toBeGreaterThan(20);
    env.close!();
  });
});
