/**
 * The path of docs/pretrained.md as processes, from a folder of weights to a trained adapter with an environment of
 * one's own: two TypeScript files somewhere on the disk, where no package.json says what they are.
 */
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Job, metricsOf, startAsNpmIn, until } from "../../support/mainJob.ts";

const STORIES = fileURLToPath(new URL("../../fixtures/pretrained/stories260K", import.meta.url));
const MINUTES = 900_000;

const folder = mkdtempSync(join(tmpdir(), "worldgrad-path-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const BESIDE = "./words.ts";
const WORLD = `
import { defineGame, isHeldOut, drawUntil } from "worldgrad/environments";
import { said } from "${BESIDE}";

export default defineGame({
  name: "parrot",
  description: "repeat a word",
  families: [{ name: "words", level: 1, description: "one of six" }],
  options: {},
  makeTask: (rng, _family, { split }) =>
    drawUntil("parrot", () => {
      const word: string = rng.choice(["the", "was", "day", "she", "dog", "cat"]);
      return isHeldOut(word) === (split === "heldout") ? { text: \`Say \${word}\`, word } : undefined;
    }),
  start: () => 0,
  play: ({ task, turns }, action) => {
    const right = said(action) === task.word;
    const ending = right || turns > 0 ? { kind: "said", score: Number(right) } : undefined;
    return { observation: right ? "yes" : "no", ending };
  },
  expert: ({ task }) => task.word,
  random: (rng) => rng.choice(["the", "was", "day"]),
});
`;
const WORDS = "export function said(action: string): string {\n  return action.trim().toLowerCase();\n}\n";

const world = join(folder, "worlds", "parrot.ts");
const run = (program: string, ...args: readonly string[]): Job => startAsNpmIn(folder, program, args);
/** What a program printed that is to end with this code. */
async function said(code: number, program: string, ...args: readonly string[]): Promise<string> {
  const job = run(program, ...args);
  expect(await job.done, job.seen()).toBe(code);
  return job.seen();
}
const SETTINGS =
  "rl.groups=2 rl.groupSize=2 rl.checkpointEvery=1 rollout.maxActionTokens=6 rollout.maxTurns=2 " +
  "evaluation.episodes=2 evaluation.finalEpisodes=2 lora.r=4";
const start = (name: string, steps: number, ...more: readonly string[]): readonly string[] => [
  ..."--model-path model --env worlds/parrot.ts --device wasm".split(" "),
  ...SETTINGS.split(" ").flatMap((setting) => ["--set", setting]),
  ...`--name ${name} --steps ${steps}`.split(" "),
  ...more,
];
const logOf = (name: string): string => readFileSync(join(folder, "runs", name, "metrics.jsonl"), "utf8");

beforeAll(() => {
  mkdirSync(join(folder, "worlds"));
  writeFileSync(world, WORLD);
  writeFileSync(join(folder, "worlds", "words.ts"), WORDS);
  cpSync(STORIES, join(folder, "model"), { recursive: true });
});

test("from the folder to the adapter, with an environment in a file", { timeout: MINUTES }, async () => {
  const trained = await said(0, "run/cli/main.ts", ...start("mine", 2));
  expect(trained).toContain("adapter, as PEFT loads it: runs/mine/adapter");
  const exported = join(folder, "runs/mine/adapter");
  expect(readdirSync(exported)).toEqual(["README.md", "adapter_config.json", "adapter_model.safetensors"]);
  const card = readFileSync(join(exported, "README.md"), "utf8");
  expect(card).toMatch(/^---\nlibrary_name: peft\n/);
  for (const part of ["# mine", "a LoRA adapter of ", "environment: `parrot`", "PeftModel.from_pretrained(model"])
    expect(card).toContain(part);
  const { preset } = JSON.parse(readFileSync(join(folder, "runs/mine/config.json"), "utf8")) as {
    preset: Record<string, unknown>;
  };
  expect(preset).toMatchObject({ env: "parrot", environmentFile: { path: world } });

  // In threads the same run: they load the file, too.
  await said(0, "run/cli/main.ts", ...start("threads", 2, "--workers", "1"));
  const rewards = (name: string): unknown[] => metricsOf(join(folder, "runs", name)).map((line) => line["reward"]);
  expect(rewards("threads")).toEqual(rewards("mine"));

  const evaluated = await said(0, "run/cli/evaluate.ts", "--run", "runs/mine", "--episodes", "3", "--device", "wasm");
  expect(evaluated).toContain("3 held-out tasks of parrot");
  const more = "--from runs/mine --steps 1 --device wasm --name further --set evaluation.finalEpisodes=2".split(" ");
  await said(0, "run/cli/main.ts", ...more, "--set", "rl.groups=2", "--set", "rl.groupSize=2");
  expect(metricsOf(join(folder, "runs/further")).filter(({ phase }) => phase === "rl")).toHaveLength(1);

  expect(await said(0, "run/cli/generate.ts", "--run", "runs/mine")).toMatch(/task.* Say \w+[^]*(reward|did not end)/);
});

// Its episodes are long; the model has 512 positions.
test("the library's terminal, within the model's positions", { timeout: MINUTES }, async () => {
  const limits =
    "rollout.maxTurns=3 rollout.maxActionTokens=24 rollout.maxObservationTokens=48 env.levels=1-1 " +
    "rl.groups=2 rl.groupSize=2 evaluation.episodes=2 evaluation.finalEpisodes=2 lora.r=4";
  const flags = limits.split(" ").flatMap((setting) => ["--set", setting]);
  const how = "--model-path model --env terminal --storage bf16 --device wasm --name shell --steps 2".split(" ");
  const trained = await said(0, "run/cli/main.ts", ...how, ...flags);
  expect(trained).toContain("adapter, as PEFT loads it: runs/shell/adapter");
  const lines = metricsOf(join(folder, "runs/shell"));
  // It says something, and the world model learns from what the shell answers.
  expect(lines.filter((line) => line["phase"] === "rl" && typeof line["reward"] === "number").length).toBe(2);
  expect(lines.some((line) => Number(line["world_loss"]) > 0)).toBe(true);

  const all = [...how, "--set", "rollout.maxTokens=600"].map((word) => (word === "shell" ? "long" : word));
  expect(await said(2, "run/cli/main.ts", ...all)).toMatch("the model has 512 positions, got 600");
});

test("a run is resumed with the same file alone, and before anything is touched", { timeout: MINUTES }, async () => {
  const job = run("run/cli/main.ts", ...start("stopped", 500));
  await until(job, "grad norm");
  process.kill(-job.child.pid!, "SIGINT");
  expect(await job.done, job.seen()).toBe(130);
  expect(job.seen()).toContain("stopped; continue with: npm start -- --resume runs/stopped");
  const log = logOf("stopped");

  writeFileSync(world, `${WORLD}// changed\n`);
  for (const [program, flag] of [
    ["run/cli/main.ts", "--resume"],
    ["run/cli/generate.ts", "--run"],
  ] as const) {
    expect(await said(2, program, flag, "runs/stopped")).toMatch(
      /^worldgrad: the run's environment: worlds\/parrot\.ts is not what the run began with: its SHA-256 is /m,
    );
  }
  rmSync(world);
  expect(await said(2, "run/cli/main.ts", "--resume", "runs/stopped")).toMatch(
    "worldgrad: the run's environment: worlds/parrot.ts does not exist",
  );
  // What does not play needs no environment.
  await said(0, "run/cli/export.ts", "--run", "runs/stopped", "--to", "unplayed");
  expect(logOf("stopped")).toBe(log);

  writeFileSync(world, WORLD);
  const again = run("run/cli/main.ts", "--resume", "runs/stopped", "--device", "wasm");
  await until(again, "continuing after RL step");
  await until(again, "grad norm");
  process.kill(-again.child.pid!, "SIGINT");
  expect(await again.done, again.seen()).toBe(130);
  expect(logOf("stopped").startsWith(log)).toBe(true);
});

test("Ctrl-C in the first evaluation leaves a run that begins when it is resumed", { timeout: MINUTES }, async () => {
  const long = start("early", 2).map((word) => (word === "evaluation.finalEpisodes=2" ? `${word}000` : word));
  const interrupted = async (job: Job): Promise<string> => {
    await until(job, "evaluating the model as it came");
    const began = performance.now();
    process.kill(-job.child.pid!, "SIGINT");
    expect(await job.done, job.seen()).toBe(130);
    // All of it takes more than a minute.
    expect(performance.now() - began).toBeLessThan(20_000);
    return job.seen();
  };
  const path = join(folder, "runs/early");
  for (const args of [long, ["--resume", "runs/early", "--device", "wasm"]]) {
    expect(await interrupted(run("run/cli/main.ts", ...args))).toContain(
      "stopped; continue with: npm start -- --resume runs/early",
    );
    expect(readdirSync(path).sort()).toEqual([
      "checkpoints",
      "config.json",
      "flags.json",
      "metrics.jsonl",
      "report.html",
      "transcripts.jsonl",
    ]);
    expect(readdirSync(join(path, "checkpoints"))).toEqual([]);
    expect(logOf("early")).toBe("");
  }
  expect(await said(2, "run/cli/export.ts", "--run", "runs/early", "--to", "nothing")).toMatch("has no checkpoint yet");
  expect(await said(2, "run/cli/generate.ts", "--run", "runs/early")).toMatch("has no checkpoint yet");
});

test("what a run exports is a model that the other programs open", { timeout: MINUTES }, async () => {
  await said(0, "run/cli/export.ts", "--run", "runs/mine", "--to", "merged", "--dtype", "bfloat16");
  const files = ["README.md", "config.json", "model.safetensors", "tokenizer.json"];
  expect(readdirSync(join(folder, "merged")).sort()).toEqual(files);
  // The model has no chat template.
  for (const page of ["merged/README.md", "runs/mine/adapter/README.md"])
    expect(readFileSync(join(folder, page), "utf8")).toContain('ids = tokenizer("Task:\\na task\\nAction:\\n"');
  expect(await said(1, "run/cli/export.ts", "--run", "runs/mine", "--to", "merged")).toMatch("merged exists");
  await said(0, "run/cli/export.ts", "--run", "runs/mine", "--to", "shards", "--max-shard-size", "500KB");
  expect(readdirSync(join(folder, "shards"))).toContain("model-00001-of-00003.safetensors");
  expect(await said(2, "run/cli/export.ts", "--run", "runs/mine", "--to", "x", "--max-shard-size", "5 GB")).toMatch(
    'worldgrad: --max-shard-size: expected bytes, or a size as in 500MB or 2GB, got "5 GB"',
  );
  expect(await said(0, "run/fit/main.ts", "--model", "merged")).toMatch(/on disk: 260,032 numbers, .* MiB BF16/);
  const text = ["--prompt", "Once upon a time", "--raw", "--temperature", "0", "--max-tokens", "8"];
  expect(await said(0, "run/cli/generate.ts", "--model-path", "merged", ...text)).toMatch(/\w{3}/);

  const server = run("connect/serve/main.ts", "--model-path", "model", "--adapter", "runs/mine/adapter", "--port", "0");
  await until(server, "/v1");
  const [, url] = /at (http:\S+)/.exec(server.seen())!;
  const asked = await fetch(`${url}/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ prompt: "Once upon a time", max_tokens: 8, temperature: 0 }),
  });
  const answer = (await asked.json()) as { model: string; choices: { text: string }[]; usage: object };
  expect(answer).toMatchObject({ model: "model", usage: { completion_tokens: 8 } });
  expect(answer.choices[0]!.text.length).toBeGreaterThan(8);
  process.kill(-server.child.pid!, "SIGINT");
  expect(await server.done, server.seen()).toBe(0);

  expect(await said(2, "connect/serve/main.ts", "--model-path", "nowhere")).toMatch(
    "worldgrad: --model-path: there is no folder nowhere",
  );
});
