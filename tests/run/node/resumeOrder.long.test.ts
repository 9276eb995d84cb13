/**
 * A run that cannot go on keeps what it has: whatever is wrong with the newest checkpoint or with the folder that the
 * run began with, a failed resume leaves each byte of the logs and each checkpoint as it was.
 */
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, it } from "vitest";
import { device as makeDevice, type Device } from "../../../engine/device.ts";
import type { Observer } from "../../../run/observer.ts";
import { presetFor, presetOf } from "../../../run/presets.ts";
import { Run } from "../../../run/run.ts";
import type { StartOptions } from "../../../run/startOptions.ts";
import { parseStart } from "../../../run/node/commandLine.ts";
import { createRun, openRun, type RunFolder } from "../../../run/node/runFolder.ts";
import { checkSource, sourceLoader, sourceOf } from "../../../run/node/runSource.ts";

const STORIES = fileURLToPath(new URL("../../fixtures/pretrained/stories260K", import.meta.url));
const SETTINGS =
  "rl.groups=1 rl.groupSize=2 evaluation.episodes=1 evaluation.finalEpisodes=1 rollout.maxActionTokens=3 " +
  "rollout.maxTurns=1 rl.checkpointEvery=1 lora.r=2";
const SILENT: Observer = {
  phase: () => undefined,
  update: () => undefined,
  evaluation: () => undefined,
  transcript: () => undefined,
  note: () => undefined,
};

let device: Device;
let run: RunFolder;
const work = mkdtempSync(join(tmpdir(), "worldgrad-order-"));
const model = join(work, "model");
beforeAll(async () => {
  device = await makeDevice("wasm", { threads: 1 });
  cpSync(STORIES, model, { recursive: true });
  const flags = ["--model-path", model, "--env", "calculator", "--kl", "0.1", "--kl-target", "0.01", "--steps", "1"];
  const sets = SETTINGS.split(" ").flatMap((setting) => ["--set", setting]);
  const options = parseStart([...flags, ...sets]) as StartOptions;
  const source = await sourceOf(options);
  const preset = presetFor(options, source);
  run = createRun(join(work, "run"), { preset });
  await train(run);
  run.appendMetrics({ step: 1, phase: "rl" }); // what a killed run wrote after its last checkpoint
});
afterAll(() => {
  device.dispose();
  rmSync(work, { recursive: true });
});

async function train(folder: RunFolder): Promise<void> {
  const preset = presetOf(folder);
  const parts = { source: sourceLoader(preset) };
  const job = new Run(folder, preset, device, SILENT, new AbortController().signal, parts);
  try {
    await job.run(true);
  } finally {
    job.dispose();
  }
}

/** Each file below a folder, and its bytes. */
function contentOf(folder: string): Record<string, string> {
  const names = (readdirSync(folder, { recursive: true }) as string[]).sort();
  const files = names.filter((name) => statSync(join(folder, name)).isFile());
  return Object.fromEntries(files.map((name) => [name, readFileSync(join(folder, name), "latin1")]));
}

let count = 0;
/** A copy of the run whose newest checkpoint, complete by its manifest, has other files. */
function changed(change: (files: Record<string, Uint8Array>) => void): RunFolder {
  const path = join(work, `copy-${count++}`);
  cpSync(run.path, path, { recursive: true });
  const copy = openRun(path);
  const { files, step } = copy.loadLatestCheckpoint()!;
  const others = { ...files };
  change(others);
  copy.saveCheckpoint(step + 1, others);
  copy.appendMetrics({ step: 2, phase: "rl" });
  return copy;
}

const text = (words: string): Uint8Array => new TextEncoder().encode(words);

it.each<[what: string, error: RegExp, change: (files: Record<string, Uint8Array>) => void]>([
  ["no state", /state\.json is missing/, (files) => delete files["state.json"]],
  ["a state that is no JSON", /JSON/, (files) => (files["state.json"] = text("{"))],
  ["no moments", /optimizer\.safetensors is missing/, (files) => delete files["optimizer.safetensors"]],
  [
    "moments cut off",
    /safetensors/,
    (files) => (files["optimizer.safetensors"] = files["optimizer.safetensors"]!.slice(0, -4)),
  ],
  [
    "no weights of the adapter",
    /safetensors: the file has 1 bytes/,
    (files) => (files["adapter_model.safetensors"] = text("x")),
  ],
  ["an adapter of no kind", /adapter_config|peft_type/, (files) => (files["adapter_config.json"] = text("{}"))],
  ["no KL coefficient", /kl\.json is missing/, (files) => delete files["kl.json"]],
])("%s", async (_, error, change) => {
  const folder = changed(change);
  const before = contentOf(folder.path);
  await expect(train(openRun(folder.path))).rejects.toThrow(error);
  expect(contentOf(folder.path)).toEqual(before);
});

it("a file whose bytes have changed, and a source that has", async () => {
  const folder = changed(() => undefined);
  const moments = join(folder.path, "checkpoints/step-000002/optimizer.safetensors");
  const bytes = readFileSync(moments);
  bytes[bytes.length - 1]! ^= 1;
  writeFileSync(moments, bytes);
  const before = contentOf(folder.path);
  await expect(train(openRun(folder.path))).rejects.toThrow(/damaged, its SHA-256 differs/);
  expect(contentOf(folder.path)).toEqual(before);

  const good = changed(() => undefined);
  const whole = contentOf(good.path);
  const weights = join(model, "stories260K.bin");
  const own = readFileSync(weights);
  const other = Buffer.from(own);
  other[5000]! ^= 1;
  writeFileSync(weights, other);
  for (const attempt of [() => train(openRun(good.path)), () => checkSource(presetOf(good))])
    await expect(attempt()).rejects.toThrow(/^the run's model: the files in .* are not those that the run began with/);
  rmSync(weights);
  await expect(checkSource(presetOf(good))).rejects.toThrow(/^the run's model: /);
  expect(contentOf(good.path)).toEqual(whole);
  writeFileSync(weights, own);
  await train(openRun(good.path)); // and with its own files it goes on
  expect(contentOf(good.path)).not.toEqual(whole);
});
