/** `host` in a real bash: what solves its tasks, what a wrong line is answered, whose answers are shown. */
import { describe, expect, it } from "vitest";
import { Rng } from "../../engine/random.ts";
import { pathOf } from "../../connect/host/facts.ts";
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
  it.each(["mend", "print"])(
    "%s: the expert's line solves it, in both splits and on a host of one episode",
    async (family) => {
      for (const split of ["train", "heldout"] as const)
        for (const world of [0, -1]) {
          const { task, steps } = await play({ families: [family], split, host: world }, 1, ({ plan }) => plan);
          expect(steps.map(({ observation, reward, done }) => [observation, reward, done])).toEqual([
            [family === "mend" ? "" : task.word, 0, false],
            ["", 1, true],
          ]);
        }
    },
  );

  it("answers a wrong line with the error of the real program, which says what the script looked for", async () => {
    for (let seed = 0; seed < 6; seed++) {
      const { task, steps } = await play({}, seed, ({ script }) => [`touch nothing; sh ${script}`, "done"]);
      expect(steps[0]!.observation).toBe(
        `cat: ${pathOf(task.facts, task.script)}: No such file or directory\n[exit 1]`,
      );
      expect(steps[1]).toMatchObject({ reward: 0, done: true, info: { success: false } });
    }
  });

  it("pays no file in every directory, and no script that was changed", async () => {
    const everywhere = await play({ families: ["mend"] }, 0, ({ facts }) => [
      `touch ${facts.names.directories.flatMap((d) => facts.names.files.map((f) => `${d}/${f}`)).join(" ")}`,
      "done",
    ]);
    expect(everywhere.steps[1]!.reward).toBe(0);
    const changed = await play({ families: ["mend"] }, 0, ({ script }) => [
      `echo true > ${script}; sh ${script}`,
      "done",
    ]);
    expect(changed.steps.map(({ observation, reward }) => [observation, reward])).toEqual([
      ["", 0],
      ["", 0],
    ]);
  });

  it("as another host answers: the error names a file of another host, and the own files are judged", async () => {
    const options: HostOptions = { families: ["mend"], answers: "other", size: 3 };
    const named = new Set<string>();
    for (let seed = 0; seed < 4; seed++) {
      const { task, steps } = await play(options, seed, ({ plan }) => plan);
      const [, path] = /^cat: (\S+): No such file/.exec(steps[0]!.observation)!;
      expect(path).not.toBe(pathOf(task.facts, task.script));
      named.add(`${task.script} ${path}`);
      expect(steps[1]).toMatchObject({ reward: 1, info: { success: true } });
    }
    expect(named.size).toBe(4);
  });

  it("has a novice who guesses and gives up, and a baseline that does either", async () => {
    const env = host.make({});
    const task = await env.reset(0);
    const rng = new Rng(0);
    const first = host.novice!(env, rng, 0, task);
    expect(first).toMatchObject({ isGuess: true, action: expect.stringMatching(/; sh [a-z]{6}\.sh$/) as string });
    await env.step(first.action);
    expect(host.novice!(env, rng, 1, task)).toEqual({ isGuess: false, action: "done" });
    const baseline = new Set(Array.from({ length: 40 }, () => host.random(rng, "Make sh bikofi.sh work")));
    expect(baseline).toContain("done");
    expect(baseline.size).toBeGreaterThan(20);
    env.close!();
  });
});
