/**
 * A world of the user's own that answers what it must not, before anything is trained and while one looks at it: each
 * program ends with a sentence, and no control character reaches the terminal.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { type Job, metricsOf, startIn } from "../../support/mainJob.ts";

const folder = mkdtempSync(join(tmpdir(), "worldgrad-theirs-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Its file stays the same, as a run expects; what it answers stands in another. */
const WORLD = `
import { existsSync, readFileSync } from "node:fs";
const how = () => (existsSync("how.json") ? JSON.parse(readFileSync("how.json", "utf8")) : {});
const right = (action) => ({ observation: "no", reward: action === "yes" ? 1 : 0, done: true, info: {} });
export default {
  name: "theirs",
  description: "say yes",
  families: [],
  make: () => ({
    name: "theirs",
    reset: async () => how().task ?? "yes or no?",
    step: async (action) => {
      const { answer, parts, without } = how();
      if (answer !== undefined) return answer === "none" ? undefined : answer;
      const { [without]: _, ...given } = { ...right(action), ...parts };
      return given;
    },
  }),
  expert: () => "yes",
  random: (rng) => rng.choice(["yes", "no"]),
};
`;
writeFileSync(join(folder, "world.mjs"), WORLD);
const answering = (how: object): void => writeFileSync(join(folder, "how.json"), JSON.stringify(how));
const train = (name: string): Job =>
  startIn(folder, "run/cli/main.ts", [
    ..."--quick --env ./world.mjs --method grpo --steps 1 --device wasm --name".split(" "),
    name,
  ]);
const FAULTS: readonly (readonly [how: object, says: string])[] = [
  [{ answer: "none" }, "theirs.step: expected the answer to be { observation, reward, done, info }, got missing"],
  [{ answer: {} }, "theirs.step: expected observation to be a string, got missing"],
  [{ parts: { reward: "1" } }, 'theirs.step: expected reward to be a number that is not infinite, got "1"'],
  [{ without: "info" }, "theirs.step: expected info to be an object, got missing"],
  [{ task: 7 }, "theirs.reset: expected the task as a string, got 7"],
];

test.each(FAULTS)("before reinforcement learning begins: %j", async (how, says) => {
  answering(how);
  const job = train("wrong");
  expect(await job.done, job.seen()).toBe(1);
  expect(job.seen()).toContain(`worldgrad: ${says}`);
  expect(job.seen()).not.toMatch(/TypeError|^ +at /m);
  rmSync(join(folder, "runs"), { recursive: true, force: true });
});

test("a comparison leaves a reward to the agents that learn by it, and says why it fails", async () => {
  answering({});
  writeFileSync(join(folder, "broken.mjs"), "export default function judge({ turns }) { return turns[99].action; }");
  const flags =
    "--quick --env ./world.mjs --reward ./broken.mjs --steps 2 --device wasm --name both --arms grpo,rloo,sft";
  const job = startIn(folder, "run/cli/main.ts", flags.split(" "));
  expect(await job.done, job.seen()).toBe(0);
  const said = job
    .seen()
    .split("\n")
    .filter((line) => line.includes("the reward of an episode of theirs in step 0"));
  expect(said).toHaveLength(1); // of two agents with the same fault
  expect(said[0]).toMatch(/^(grpo|rloo): trainRl: .* failed: .*'action'.*\(at judge \(.*broken\.mjs:1:/);
  const failed = (agent: string): unknown[] =>
    metricsOf(join(folder, "runs", "both", agent)).flatMap((line) => line["rewards/failed"] ?? []);
  expect(failed("grpo")).toEqual([expect.any(Number), expect.any(Number)]);
  expect(failed("sft")).toEqual([]);
});

test("a world and a reward of the user's own, played by threads, repeated from the run's flags", async () => {
  answering({});
  const reward = "export default ({ turns, reward }) => (reward === 1 ? 2 : 0) - 0.5 * turns.length;";
  writeFileSync(join(folder, "polite.mjs"), reward);
  const run = async (name: string, ...flags: readonly string[]): Promise<Record<string, unknown>[]> => {
    const job = startIn(folder, "run/cli/main.ts", [...flags, "--name", name]);
    expect(await job.done, job.seen()).toBe(0);
    return metricsOf(join(folder, "runs", name)).filter(({ phase }) => phase === "rl");
  };
  const flags = "--quick --env ./world.mjs --reward ./polite.mjs --method grpo --steps 2 --device wasm";
  const once = await run("alone", ...flags.split(" "));
  expect(once.map((line) => line["rewards/polite/mean"])).toEqual(once.map((line) => line["reward"]));
  expect(once.every((line) => line["rewards/failed"] === 0)).toBe(true);
  expect(once.some((line) => (line["reward"] as number) < 0)).toBe(true); // the world's own is never below 0
  expect(await run("again", "--config", "runs/alone/flags.json")).toEqual(once);
  // Threads do not score: the learner does, and the file need not be known to them.
  const threaded = await run("threads", ...flags.split(" "), "--workers", "2");
  expect(threaded.map((line) => line["rewards/polite/mean"])).toEqual(once.map((line) => line["reward"]));
  writeFileSync(join(folder, "polite.mjs"), `${reward} // changed`);
  const resumed = startIn(folder, "run/cli/main.ts", ["--resume", "runs/alone"]);
  expect(await resumed.done).toBe(2);
  expect(resumed.seen()).toContain("the run's reward: polite.mjs is not what the run began with");
});

test("generate: wrong answers are a sentence, and texts of the world are shown, not obeyed", async () => {
  answering({});
  const job = train("whole");
  expect(await job.done, job.seen()).toBe(0);
  const generate = async (code: number, ...more: readonly string[]): Promise<string> => {
    const shown = startIn(folder, "run/cli/generate.ts", ["--run", "runs/whole", ...more]);
    expect(await shown.done, shown.seen()).toBe(code);
    return shown.seen();
  };
  for (const [how, says] of FAULTS) {
    answering(how);
    expect(await generate(1)).toContain(`worldgrad: ${says}`);
  }
  // A title, the clipboard, a cursor that goes up, C1 controls, marks of direction, half a character.
  const hostile = "\u001b]0;owned\u0007\u001b]52;c;eA==\u001b[2A\u009b31m\u202e\ud83d é😀";
  answering({ task: hostile, parts: { observation: hostile, reward: 0.5 } });
  const control = /(?!\n)[\p{Cc}\p{Bidi_Control}]/u;
  for (const more of [[], ["--task", hostile.replace("\ud83d", "")], ["--seed", "3", "--temperature", "1"]]) {
    const text = await generate(0, ...more);
    expect(text).toContain("␛]0;owned");
    expect(text).toContain("é😀");
    expect(control.exec(text), text).toBeNull();
  }
});
