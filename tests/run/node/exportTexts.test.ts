/**
 * An exported folder speaks the language that its model was trained in: `--model-path` reads the same format and plays
 * the same episodes, and the files are those that transformers reads. The ids of the conversation below are also what
 * `AutoTokenizer.from_pretrained(DIR).apply_chat_template` gives.
 */
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { device as makeDevice, type Device } from "../../../engine/device.ts";
import type { Preset } from "../../../run/preset.ts";
import { presetFor, presetOf } from "../../../run/presets.ts";
import { Run } from "../../../run/run.ts";
import type { StartOptions } from "../../../run/startOptions.ts";
import { parseStart } from "../../../run/node/commandLine.ts";
import { agentFolder } from "../../../run/node/comparison.ts";
import { exportMerged } from "../../../run/node/exportRun.ts";
import { cardOf, hasTemplate, jinjaOf } from "../../../run/node/exportTexts.ts";
import { episodeFormatFor, openModelFolder } from "../../../run/node/modelFolder.ts";
import { createRun, type RunFolder } from "../../../run/node/runFolder.ts";
import { sourceLoader, sourceOf } from "../../../run/node/runSource.ts";
import { sealed } from "../../../run/node/sealed.ts";
import { emptyStream } from "../../../rl/episode/stream.ts";
import { OWN_FORMAT, Template } from "../../../rl/episode/template.ts";
import { chatTemplate } from "../../../connect/chat/index.ts";
import { toyTokenizer } from "../../support/rlToy.ts";
import { QUIET, tinyPreset } from "../../support/tinyRun.ts";

const work = mkdtempSync(join(tmpdir(), "worldgrad-export-"));
const exported = join(work, "exported");
let device: Device;
let run: RunFolder;
beforeAll(async () => {
  device = await makeDevice("wasm", { threads: 1 });
  const preset = tinyPreset("--method", "grpo+echo", "--steps", "2");
  const longer = { ...preset, rollout: { ...preset.rollout, maxActionTokens: 8 } };
  run = createRun(join(work, "run"), {
    preset: { ...longer, evaluation: { every: 9, episodes: 3, finalEpisodes: 3 } },
  });
  await train(run);
  await exportMerged(run, exported, device);
});
afterAll(() => {
  device.dispose();
  rmSync(work, { recursive: true });
});

async function train(folder: RunFolder): Promise<void> {
  const preset = presetOf(folder);
  const job = new Run(folder, preset, device, QUIET, new AbortController().signal, { source: sourceLoader(preset) });
  try {
    await job.run(true);
  } finally {
    job.dispose();
  }
}

const json = (name: string): unknown => JSON.parse(readFileSync(join(exported, name), "utf8"));

it("a page names the world as --env takes it: one of the library's, or somebody's file", () => {
  const told = { name: "run", step: 0, metrics: [] };
  const [preset, environmentFile] = [tinyPreset(), { path: join(work, "guess.ts"), sha256: "" }];
  expect(cardOf({ ...told, preset }, "a model", true)).toContain(`--model-path DIR --env ${preset.env}\` trains`);
  const own = { ...preset, env: "guess", environmentFile };
  expect(cardOf({ ...told, preset: own }, "a model", true)).toContain("--model-path DIR --env ./guess.ts` trains");
});

it("a page names what the agent learnt by: a teacher, a reward in a file, an adapter; and no folder of a disk", () => {
  const preset = tinyPreset();
  const own = {
    ...preset,
    rl: { ...preset.rl, advantage: "none", reward: { name: "file" } } as typeof preset.rl,
    rewardFile: { path: "/some/where/mine.ts", sha256: "" },
    teacher: { path: "/some/where/runs/wise", step: 9, sha256: "" } as NonNullable<typeof preset.teacher>,
    lora: { r: 4 } as NonNullable<typeof preset.lora>,
    from: { path: "/some/where/runs/earlier", step: 7 } as NonNullable<typeof preset.from>,
  };
  const card = cardOf({ name: "run", step: 0, metrics: [], preset: own }, "a model", true);
  for (const fact of [
    "- began as earlier after step 7\n",
    "- advantages: none\n",
    "- reward: mine.ts\n",
    "- compared with the probabilities of a teacher, wise\n",
    "- trained by a LoRA adapter of rank 4\n",
  ])
    expect(card).toContain(fact);
  expect(card).not.toContain("/some/where");
  expect(cardOf({ name: "run", step: 0, metrics: [], preset }, "a model", true)).not.toMatch(/- (advantages|reward)/);
});

it("a page says how a task is written: by the chat template, or in lines where a folder has none", () => {
  const folder = mkdtempSync(join(work, "texts-"));
  expect(hasTemplate(folder)).toBe(false);
  writeFileSync(join(folder, "tokenizer_config.json"), "{}");
  expect(hasTemplate(folder)).toBe(false);
  writeFileSync(join(folder, "tokenizer_config.json"), '{"chat_template": ""}');
  expect(hasTemplate(folder)).toBe(false);
  writeFileSync(join(folder, "tokenizer_config.json"), '{"chat_template": "{{ messages }}"}');
  expect(hasTemplate(folder)).toBe(true);
  writeFileSync(join(folder, "tokenizer_config.json"), "{}");
  writeFileSync(join(folder, "chat_template.json"), "{}");
  expect(hasTemplate(folder)).toBe(false);
  writeFileSync(join(folder, "chat_template.jinja"), "{{ messages }}");
  expect(hasTemplate(folder)).toBe(true);
  const told = { name: "run", step: 0, metrics: [], preset: tinyPreset() };
  expect(cardOf(told, "a model", true)).toContain('ids = tokenizer.apply_chat_template([{"role": "user"');
  const plain = cardOf(told, "a model", false);
  expect(plain).toContain('ids = tokenizer("Task:\\na task\\nAction:\\n", return_tensors="pt")\n');
  expect(plain).not.toContain("apply_chat_template");
});

describe("an exported run", () => {
  it("has the files that transformers reads, with the tokens that end and fill", async () => {
    expect(readdirSync(exported).toSorted()).toEqual([
      "README.md",
      "config.json",
      "generation_config.json",
      "model.safetensors",
      "tokenizer.json",
      "tokenizer_config.json",
    ]);
    const { tokenizer } = await openModelFolder(exported);
    const [eos, pad] = [tokenizer.special["<|end|>"], tokenizer.special["<|pad|>"]];
    expect(json("config.json")).toMatchObject({ eos_token_id: eos, pad_token_id: pad });
    expect(json("generation_config.json")).toEqual({ eos_token_id: eos, pad_token_id: pad, max_new_tokens: 8 });
    expect(json("tokenizer_config.json")).toMatchObject({ eos_token: "<|end|>", pad_token: "<|pad|>" });
    const card = readFileSync(join(exported, "README.md"), "utf8");
    expect(card).toMatch(/environment: `gridworld`/);
    expect(card).toMatch(/held-out tasks: \d+\.\d % of 3 solved/);
    expect(card).toMatch(/after step 4 of all/);
  });

  it("is opened in the language of its training, without a system message", async () => {
    expect(await episodeFormatFor(await openModelFolder(exported), { system: "" })).toEqual(OWN_FORMAT);
    const source = (await sourceOf(parseStart(["--model-path", exported]) as StartOptions))!;
    expect(source.settings.format).toEqual(OWN_FORMAT);
    expect(source.warning).toBeUndefined();
    const given = sourceOf(parseStart(["--model-path", exported, "--system", "Play."]) as StartOptions);
    await expect(given).rejects.toThrow("the model was trained without a system message");
  });

  it("writes a conversation token for token as the run did", async () => {
    const folder = await openModelFolder(exported);
    const template = new Template(folder.tokenizer);
    const stream = emptyStream();
    template.appendTask(stream, 'say "a" <|end|>');
    template.appendAction(stream, 0, "up");
    template.appendObservation(stream, 0, template.encodeObservation(" no\n", 9));
    const said = [
      { role: "user", content: 'say "a" <|end|>' },
      { role: "assistant", content: "up" },
      { role: "user", content: " no\n" },
    ];
    expect((await folder.chat())!.render(said, { addGenerationPrompt: true })).toEqual(stream.ids);
  });

  it("plays the same held-out episodes with --model-path as at the end of its run", async () => {
    const flags = ["--model-path", exported, "--env", "gridworld", "--method", "grpo", "--steps", "0"];
    const options = parseStart(flags) as StartOptions;
    const own = presetFor(options, await sourceOf(options));
    const { rollout, evaluation, tasks } = presetOf(run);
    const preset: Preset = { ...own, rollout, evaluation, ...(tasks ? { tasks } : {}) };
    const again = createRun(join(work, "again"), { preset });
    await train(again);
    const episodes = (folder: RunFolder): unknown[] =>
      folder
        .readTranscripts()
        .flatMap(({ phase, tokens, reward, success }) =>
          phase === "eval" ? [{ ids: tokens.map(({ id }) => id), reward, success }] : [],
        );
    expect(episodes(again)).toEqual(episodes(run).slice(-3));
    const last = (folder: RunFolder): number =>
      Number(folder.readMetrics().findLast((l) => l.phase === "eval")!["world_loss"]);
    expect(last(again)).toBeCloseTo(last(run), 6);
  });
});

it("a chat template of any format gives the format back, whatever characters are in it", async () => {
  const special = { "<|im_end|>": 0 };
  const plain = { single_word: false, lstrip: false, rstrip: false, normalized: false };
  const addedTokens = [{ content: "<|im_end|>", id: 0, special: true, ...plain }];
  const tokenizer = { ...toyTokenizer, special, addedTokens };
  const format = {
    task: ['<s>{{ "a" }} {% if %}\n', " \\ '\t<|im_end|>\n"],
    observation: ["\nuser: ", "<|im_end|>\n"],
    action: "assistant: é\n",
    end: "<|im_end|>",
    pad: "<|im_end|>",
  } as const;
  const chat = await chatTemplate({ tokenizer, template: jinjaOf(format) });
  expect(chat.episodeFormat()).toEqual(format);
});

describe("the folder of a comparison stands for its second agent", () => {
  it("and a line says so; with none of it the agents are named", () => {
    const notes: string[] = [];
    const path = join(work, "several");
    const asked = (): string => agentFolder("run", path, (line) => notes.push(line));
    const settings = createRun(join(path, "warm"), {});
    expect(asked()).toBe(path); // no comparison: whoever opens it says that it is no run
    settings.writeFile("../comparison.json", sealed({ agents: ["grpo", "grpo-echo", "rft"] }));
    expect(asked).toThrow(`--run: ${path} is a comparison; none of its agents has begun`);
    createRun(join(path, "grpo"), {});
    expect(asked).toThrow(`name one of its agents: ${join(path, "grpo")}`);
    createRun(join(path, "grpo-echo"), {});
    expect(asked()).toBe(join(path, "grpo-echo"));
    expect(notes).toEqual([`${path} compares agents; this is ${path}/grpo-echo; the others: ${path}/grpo`]);
    expect(agentFolder("run", join(path, "grpo"), () => expect.unreachable())).toBe(join(path, "grpo"));
  });
});
