/**
 * A run that begins with somebody else's model: from the folder to an adapter and to trained weights; stopped and
 * resumed to the same bits; what it keeps and what it does not; and every wrong folder in one line.
 */
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { device as makeDevice, type Device } from "../../../engine/device.ts";
import { treeLeaves } from "../../../engine/tree.ts";
import type { Observer } from "../../../run/observer.ts";
import type { Preset } from "../../../run/preset.ts";
import { presetFor, presetOf } from "../../../run/presets.ts";
import { templateFor } from "../../../run/template.ts";
import { Run } from "../../../run/run.ts";
import { UsageError } from "../../../run/usage.ts";
import { forward } from "../../../nn/transformer.ts";
import { tensor } from "../../../engine/ops/create.ts";
import { parseStart } from "../../../run/node/commandLine.ts";
import { exportMerged, exportRun } from "../../../run/node/exportRun.ts";
import { openModelFolder, withAdapter } from "../../../run/node/modelFolder.ts";
import { createRun, openRun, type RunFolder } from "../../../run/node/runFolder.ts";
import { checkRoom, sourceLoader, sourceOf } from "../../../run/node/runSource.ts";
import { emptyStream } from "../../../rl/episode/stream.ts";
import type { StartOptions } from "../../../run/startOptions.ts";

const fixtures = fileURLToPath(new URL("../../fixtures/", import.meta.url));
const stories = join(fixtures, "pretrained/stories260K");

let device: Device;
let work: string;
beforeAll(async () => {
  device = await makeDevice("wasm");
  work = mkdtempSync(join(tmpdir(), "worldgrad-source-"));
});
afterAll(() => {
  device.dispose();
  rmSync(work, { recursive: true });
});

const SMALL = ["rl.groups=2", "rl.groupSize=2", "evaluation.episodes=2", "evaluation.finalEpisodes=2"];
const SHORT = ["rollout.maxActionTokens=6", "rollout.maxTurns=2", "evaluation.every=5", "rl.checkpointEvery=1"];
const flags = (...more: readonly string[]): string[] => [
  "--model-path",
  stories,
  "--env",
  "calculator",
  "--method",
  "grpo+echo",
  "--steps",
  "2",
  ...[...SMALL, ...SHORT].flatMap((text) => ["--set", text]),
  ...more,
];
/** The settings, or what is wrong with them. */
async function settings(...more: readonly string[]): Promise<Preset> {
  const options = parseStart(more) as StartOptions;
  return presetFor(options, await sourceOf(options));
}
const refusal = (...more: readonly string[]): Promise<string> =>
  settings(...more).then(
    () => "no error",
    (error: unknown) => {
      expect(error).toBeInstanceOf(UsageError);
      expect((error as Error).message).not.toContain("\n");
      return (error as Error).message;
    },
  );

/** @param steps of RL after which it is stopped */
async function train(folder: RunFolder, preset: Preset, steps = Infinity): Promise<void> {
  const stop = new AbortController();
  let isLearning = false;
  const observer: Observer = {
    note: () => undefined,
    phase: (name) => void (isLearning = name.startsWith("reinforcement learning")),
    update: (step) => (isLearning && step >= steps ? stop.abort() : undefined),
    evaluation: () => undefined,
    transcript: () => undefined,
  };
  const source = sourceLoader(preset);
  const run = new Run(folder, preset, device, observer, stop.signal, { source });
  await run.run(folder.listCheckpoints().length > 0);
  run.dispose();
}
const newest = (folder: RunFolder): Readonly<Record<string, Uint8Array>> => folder.loadLatestCheckpoint()!.files;

describe("an adapter", () => {
  it("on packed weights: the run keeps it alone, goes on to the same bits, and writes it for PEFT", async () => {
    const preset = await settings(...flags("--storage", "bf16", "--set", "lora.r=4", "--set", "rl.lr=0.01"));
    expect(preset.pretrained).toMatchObject({
      path: stories,
      storage: "bf16",
      sha256: expect.stringMatching(/^\w{64}$/),
    });
    const whole = createRun(join(work, "whole"), { preset });
    await train(whole, preset);
    const stopped = createRun(join(work, "stopped"), { preset });
    await train(stopped, preset, 1);
    expect(stopped.listCheckpoints().at(-1)).toBe(1);
    await train(openRun(stopped.path), presetOf(stopped));
    const [files, again] = [newest(whole), newest(stopped)];
    expect(Object.keys(files).sort()).toEqual([
      "adapter_config.json",
      "adapter_model.safetensors",
      "optimizer.safetensors",
      "state.json",
    ]);
    expect(again["adapter_model.safetensors"]).toEqual(files["adapter_model.safetensors"]);
    expect(again["optimizer.safetensors"]).toEqual(files["optimizer.safetensors"]);

    const [written] = await exportRun(whole, { ...preset, pretrained: preset.pretrained! });
    const { path } = written!;
    const config = JSON.parse(readFileSync(join(path, "adapter_config.json"), "utf8")) as object;
    expect(config).toMatchObject({ peft_type: "LORA", r: 4, base_model_name_or_path: stories });
    expect(new Uint8Array(readFileSync(join(path, "adapter_model.safetensors")))).toEqual(
      files["adapter_model.safetensors"],
    );
    // Merged, it says what the adapter on the model says.
    const merged = await exportMerged(whole, `${join(work, "merged")}/`, device);
    const base = await (await openModelFolder(stories)).load(device, "bf16");
    const adapted = await withAdapter(base, path);
    const one = await (await openModelFolder(merged.path)).load(device);
    const ids = tensor(Int32Array.of(1, 400, 350, 300), { device, shape: [1, 4] });
    const [a, b] = await Promise.all([adapted, one].map((model) => forward(model.params, model.config, ids).read()));
    a!.forEach((value, i) => expect(b![i]).toBeCloseTo(value, 4));
    await expect(exportMerged(whole, merged.path, device)).rejects.toThrow("merged/ exists");
    expect(readdirSync(work).filter((name) => name.includes(".tmp") || name.includes(".old"))).toEqual([]);
    for (const x of [...treeLeaves(adapted.params), ...treeLeaves(one.params)]) x.dispose();
  }, 60_000);

  it("after a warm start of all weights belongs to the model that it left, which is written, too", async () => {
    const preset = await settings(
      ...flags("--set", "lora.r=2", "--set", "sft.steps=2", "--set", "sft.demonstrations=8"),
    );
    const run = createRun(join(work, "warmed"), { preset });
    expect(await exportRun(run, { ...preset, pretrained: preset.pretrained! })).toEqual([]); // nothing has been trained
    await train(run, preset);
    const written = await exportRun(run, { ...preset, pretrained: preset.pretrained! });
    expect(written.map(({ path }) => path)).toEqual([join(run.path, "model"), join(run.path, "adapter")]);
    const config = readFileSync(join(run.path, "adapter", "adapter_config.json"), "utf8");
    expect(JSON.parse(config)).toMatchObject({ base_model_name_or_path: join(run.path, "model") });
  }, 60_000);

  it("a run goes on only with the files that it began with", async () => {
    const own = join(work, "own");
    cpSync(stories, own, { recursive: true });
    const preset = await settings(...flags("--set", "lora.r=2").map((text) => (text === stories ? own : text)));
    const weights = readFileSync(join(own, "stories260K.bin"));
    weights[5000]! ^= 1;
    writeFileSync(join(own, "stories260K.bin"), weights);
    await expect(sourceLoader(preset)!(device)).rejects.toThrow(
      /the files in .* are not those that the run began with/,
    );
    rmSync(own, { recursive: true });
    await expect(sourceLoader(preset)!(device)).rejects.toThrow(/the run's model: there is no folder/);
  });
});

describe("all weights", () => {
  it("are trained without one, saved with the run, and handed over as transformers loads them", async () => {
    const preset = await settings(...flags("--set", "rl.lr=0.001"));
    const run = createRun(join(work, "full"), { preset });
    await train(run, preset, 1);
    await train(openRun(run.path), presetOf(run));
    expect(Object.keys(newest(run))).toContain("model.safetensors");
    const [written] = await exportRun(run, { ...preset, pretrained: preset.pretrained! });
    const { path } = written!;
    expect(readdirSync(path).sort()).toEqual(["README.md", "config.json", "model.safetensors", "tokenizer.json"]);
    const { tokenizer } = await openModelFolder(path);
    expect(tokenizer.encode("once upon")).toEqual((await openModelFolder(stories)).tokenizer.encode("once upon"));
  }, 60_000);
});

describe("the text of an episode", () => {
  it("is plain lines where the model has no template; the end of a line ends an action", async () => {
    const preset = await settings(...flags("--system", "Calculate."));
    const { tokenizer } = await openModelFolder(stories);
    const template = templateFor(preset, tokenizer);
    const stream = emptyStream();
    template.appendTask(stream, "1 + 1");
    template.appendAction(stream, 0, "2");
    template.appendObservation(stream, 0, template.encodeObservation("right", 20), "", true);
    const text = stream.ids.map((id) => new TextDecoder().decode(tokenizer.decodeBytes([id]))).join("");
    expect(text).toBe("<s> Calculate.\nTask:\n1 + 1\n Action:\n 2\n Answer:\nright\n");
    expect(stream.ids[stream.roles.lastIndexOf("action")]).toBe(tokenizer.tokenToId!("<0x0A>"));
  });

  it("is the model's own template where it has one; ids that only fill its table have names", async () => {
    const folder = chatModel("qwen");
    const preset = await settings("--model-path", folder, "--env", "calculator", "--system", "Be brief.");
    expect(preset.pretrained!.format).toMatchObject({
      task: ["<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n", "<|im_end|>\n"],
      action: "<|im_start|>assistant\n",
      end: "<|im_end|>",
    });
    const { tokenizer, config } = await openModelFolder(folder);
    expect(tokenizer.vocabSize).toBe(config.vocabSize);
    expect(tokenizer.decode([config.vocabSize - 1])).toBe(`<|unused ${config.vocabSize - 1}|>`);
  });
});

it("all ends of a generation_config.json end an action, the template's first (TRL#7039)", async () => {
  const folder = chatModel("qwen");
  const { special } = (await openModelFolder(folder)).tokenizer;
  const [turn, text] = [special["<|im_end|>"]!, special["<|endoftext|>"]!];
  writeFileSync(join(folder, "generation_config.json"), JSON.stringify({ eos_token_id: [text, turn] }));
  const preset = await settings("--model-path", folder, "--env", "calculator");
  expect(preset.pretrained!.ends).toEqual(["<|endoftext|>", "<|im_end|>"]);
  const template = templateFor(preset, (await openModelFolder(folder)).tokenizer);
  expect(template.endIds).toEqual([turn, text]);
  expect(template.encodeAction("")).toEqual([turn]);
  const { ends: _, ...older } = preset.pretrained!; // the settings of a run that was made before
  expect(templateFor({ ...preset, pretrained: older }, template.tokenizer).endIds).toEqual([turn]);
});

describe("a model that thinks before it acts", () => {
  const withTemplate = (template: string): string => {
    const folder = chatModel("qwen");
    writeFileSync(join(folder, "chat_template.jinja"), template);
    return folder;
  };
  const ofModel = (folder: string, ...more: string[]): Promise<Preset> =>
    settings("--model-path", folder, "--env", "calculator", ...more);

  it("is asked to by --thinking; its thoughts are told from its actions by the tags of its template", async () => {
    const folder = withTemplate(readFileSync(join(fixtures, "chat/public/qwen3.jinja"), "utf8"));
    const [plain, thinking] = [await ofModel(folder), await ofModel(folder, "--thinking")];
    expect([plain.pretrained!.thought, thinking.pretrained!.thought]).toEqual([undefined, ["<think>", "</think>"]]);
    expect(plain.pretrained!.format.action).toBe("<|im_start|>assistant\n<think>\n\n</think>\n\n");
    expect(thinking.pretrained!.format.action).toBe("<|im_start|>assistant\n");
    const { tokenizer } = await openModelFolder(folder);
    // With thoughts in its demonstrations, and in a run that begins with this one, the tags are the same.
    const template = templateFor({ ...thinking, sft: { ...thinking.sft, thoughts: true } }, tokenizer);
    expect(template.options).toEqual(templateFor(thinking, tokenizer).options);
    const from = { ...thinking.pretrained!, step: 0 };
    expect(templateFor({ sft: thinking.sft, from }, tokenizer).options).toEqual(template.options);
    const ids = [...tokenizer.encode("<think>\nI add.\n</think>\n\nanswer 5"), template.endId];
    expect([template.actionText(ids), templateFor(plain, tokenizer).actionText(ids)]).toEqual([
      "answer 5",
      "<think>\nI add.\n</think>\n\nanswer 5",
    ]);
  });

  it("has tags without the flag if its template begins a thought whatever it is asked", async () => {
    // As DeepSeek-R1's does.
    const begun =
      "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}" +
      "{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n{% endif %}";
    const { pretrained } = await ofModel(withTemplate(begun));
    expect([pretrained!.thought, pretrained!.format.action]).toEqual([
      ["<think>", "</think>"],
      "<|im_start|>assistant\n<think>\n",
    ]);
  });

  it("needs a template with thoughts", async () => {
    const model = (folder: string): Promise<string> =>
      refusal("--model-path", folder, "--env", "calculator", "--thinking");
    const none = /^--model-path: .* thinking needs a chat template with thoughts between <think> and <\/think>/;
    expect(await model(chatModel("chatml"))).toMatch(none);
    expect(await model(stories)).toMatch(none);
    expect(await refusal("--thinking")).toMatch(/^--thinking is about the model of --model-path, and there is none/);
  });
});

/** A folder as transformers has it: the weights of a fixture, the tokenizer and template of another. */
function chatModel(kind: string, change: (config: Record<string, unknown>) => void = () => undefined): string {
  const read = (path: string): unknown => JSON.parse(readFileSync(join(fixtures, path), "utf8"));
  const { sets } = read("tokenizers/families.json") as { sets: { name: string; tokenizer: object }[] };
  const { kinds } = read("chat/templates.json") as {
    kinds: { name: string; tokenizer: string; template: string; parts: object }[];
  };
  const { template, parts, tokenizer } = kinds.find(({ name }) => name === kind)!;
  const folder = mkdtempSync(join(work, "model-"));
  cpSync(join(fixtures, "models/families/llama"), folder, { recursive: true });
  const config = read("models/families/llama/config.json") as Record<string, unknown>;
  // Only what is opened is looked at: the table of the weights stays as it is.
  config["vocab_size"] = 330;
  change(config);
  const write = (name: string, json: unknown): void => writeFileSync(join(folder, name), JSON.stringify(json));
  write("config.json", config);
  write("tokenizer.json", sets.find(({ name }) => name === tokenizer)!.tokenizer);
  write("tokenizer_config.json", parts);
  writeFileSync(join(folder, "chat_template.jinja"), template);
  return folder;
}

describe("the token before a text", () => {
  // As transformers: `add_bos_token` of tokenizer_config.json decides, else the post-processor of tokenizer.json.
  it.each([
    ["mistral", {}, true, "<s>"],
    ["mistral", { add_bos_token: false }, true, undefined],
    ["mistral", {}, false, undefined],
    ["mistral", { add_bos_token: true }, false, "<s>"],
    ["mistral", { bos_token: null, add_bos_token: true }, true, undefined],
  ])("%s with %j, a post-processor: %j: %j", async (kind, texts, hasPostProcessor, bos) => {
    const folder = chatModel(kind, (config) => (config["vocab_size"] = 412));
    const at = (name: string): string => join(folder, name);
    const parts = { bos_token: "<s>", ...texts };
    writeFileSync(at("tokenizer_config.json"), JSON.stringify(parts));
    const json = JSON.parse(readFileSync(at("tokenizer.json"), "utf8")) as Record<string, unknown>;
    expect(json["post_processor"]).not.toBeNull();
    if (!hasPostProcessor) writeFileSync(at("tokenizer.json"), JSON.stringify({ ...json, post_processor: null }));
    expect((await openModelFolder(folder)).bos).toBe(bos);
  });
});

describe("what cannot be is said in one line", () => {
  const model = (folder: string, ...more: string[]): Promise<string> =>
    refusal("--model-path", folder, "--env", "calculator", ...more);
  it("about the folder", async () => {
    expect(await model(join(work, "nowhere"))).toBe(`--model-path: there is no folder ${join(work, "nowhere")}`);
    expect(await model(join(fixtures, "chat"))).toMatch(/^--model-path: .* has no config\.json, and not one \*\.bin/);
    expect(await model(chatModel("qwen", (config) => (config["model_type"] = "mamba")))).toMatch(
      /^--model-path: config\.json: 'model_type' is "mamba", supported: llama, mistral/,
    );
    expect(await model(chatModel("qwen", (config) => (config["vocab_size"] = 300)))).toBe(
      "--model-path: tokenizer.json has 317 tokens, config.json's vocab_size is 300",
    );
    const bare = chatModel("qwen");
    rmSync(join(bare, "tokenizer.json"));
    expect(await model(bare)).toMatch(/^--model-path: .* has no tokenizer\.json$/);
    const empty = chatModel("qwen");
    rmSync(join(empty, "model.safetensors"));
    expect(await model(empty)).toMatch(/has no model\.safetensors and no model\.safetensors\.index\.json$/);
    const endless = chatModel("qwen");
    writeFileSync(join(endless, "chat_template.jinja"), "{% for m in messages %}{{ m.content }}{% endfor %}");
    expect(await model(endless)).toMatch(/^--model-path: .*no special token ends what the assistant says$/);
  });

  it("about other flags", async () => {
    expect(await refusal(...flags("--storage", "bf16"))).toBe(
      "--storage bf16: weights in this form cannot be trained; add an adapter, as with --set lora.r=16",
    );
    expect(await refusal(...flags("--set", "lora.r=2", "--storage", "q8", "--set", "sft.steps=60"))).toMatch(
      /^--storage q8: .*leave --set sft/,
    );
    const threads = await settings(...flags("--set", "lora.r=2", "--storage", "bf16", "--workers", "2"));
    expect([threads.pretrained!.storage, threads.async!.workers]).toEqual(["bf16", 2]);
    expect(await refusal(...flags("--storage", "int4"))).toBe('--storage: expected f32, bf16, f16, q8, got "int4"');
    expect(await refusal("--storage", "bf16")).toMatch(/^--storage is about the model of --model-path/);
    expect(await refusal(...flags("--model", "tiny"))).toMatch(/^--model is the size of a model that is made/);
    expect(await refusal(...flags("--set", "rollout.maxTokens=600"))).toBe(
      "--set rollout.maxTokens: the model has 512 positions, got 600",
    );
  });

  it("about a context that is too small for the environment", async () => {
    const preset = await settings(...flags("--set", "rollout.maxTokens=40"));
    const { tokenizer } = await openModelFolder(stories);
    await expect(checkRoom(preset, tokenizer)).rejects.toThrow(
      /^--env calculator: the expert's episodes take up to \d+ tokens in this model's text, .* has room for 40;/,
    );
    await checkRoom(await settings(...flags()), tokenizer);
  });
});
