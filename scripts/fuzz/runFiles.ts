/**
 * Targets of fuzzing: files of a run. A hash would find most changes, so each file has the right hash, like a file of
 * another version or written by hand.
 */
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { encodeMetrics, packTranscript, type MetricsRecord } from "../../run/records.ts";
import { presetOf } from "../../run/presets.ts";
import { createRun, openRun, type RunFolder } from "../../run/node/runFolder.ts";
import { sealed } from "../../run/node/sealed.ts";
import { tinyPreset } from "../../tests/support/tinyRun.ts";
import { diagnose } from "../../studies/doctor/diagnose.ts";
import { withHashes } from "../../run/page/assets.ts";
import { renderReport } from "../../run/report/render.ts";
import fc from "fast-check";
import type { Json, Target } from "./target.ts";

const metrics: MetricsRecord[] = [
  { step: 0, phase: "sft", loss: 2.5, grad_norm: 1, learning_rate: 1e-3, step_tokens: 90, step_time: 0.1 },
  { step: 2, phase: "eval", success: 0.5, episodes: 4, "num_turns/mean": 2, world_loss: 1.5 },
  ...Array.from({ length: 20 }, (_, i): MetricsRecord => {
    const part = { reward: i / 20, frac_reward_zero_std: 0.2, kl: 0.01, entropy: 1, "clip_ratio/high_mean": 0.1 };
    return { step: 2 + i, phase: "rl", loss: 0.1, grad_norm: 2, ...part, "completions/mean_length": 9 };
  }),
];
const token = { id: 1, text: "a", role: "action", turn: 0, logProb: -0.5, oldLogProb: -0.5, advantage: 1 } as const;
const transcript = packTranscript({
  step: 3,
  phase: "rl",
  env: "terminal",
  family: "find",
  task: "find it",
  group: 0,
  reward: 1,
  success: true,
  stopReason: "completed",
  turns: 1,
  tokens: [{ ...token, role: "prompt" }, token, { ...token, role: "observation", wWorld: 0.1, surprise: 2 }],
}) as unknown as Json;

/** A run folder, made once and removed with the process. */
let made: RunFolder | undefined;
function folder(): RunFolder {
  if (made !== undefined) return made;
  const path = mkdtempSync(join(tmpdir(), "worldgrad-fuzz-"));
  process.on("exit", () => rmSync(path, { recursive: true, force: true }));
  const run = createRun(join(path, "run"), { preset: tinyPreset() });
  for (const line of metrics) run.appendMetrics(line);
  run.saveCheckpoint(1, { "model.safetensors": new Uint8Array(16), "state.json": "{}" });
  return (made = openRun(run.path));
}
const checkpointOf = (run: RunFolder): string =>
  join(run.path, "checkpoints", readdirSync(join(run.path, "checkpoints"))[0]!, "checkpoint.json");

/** A manifest without its hash. */
function manifest(): Json {
  const { sha256: _, ...rest } = JSON.parse(readFileSync(checkpointOf(folder()), "utf8")) as Record<string, Json>;
  return rest;
}

const assets = withHashes({ script: "", style: "" });
/** Uses of a run's logs: the report and the diagnosis of the doctor. */
function useLogs(
  config: Readonly<Record<string, unknown>>,
  name: "metrics" | "transcripts",
  text: string | Uint8Array,
): void {
  const run = folder();
  const path = join(run.path, `${name}.jsonl`);
  const before = readFileSync(path);
  writeFileSync(path, text);
  try {
    const log = { config, metrics: run.readMetrics(), transcripts: run.readTranscripts() };
    renderReport({ name: "fuzz", ...log }, assets);
    diagnose(log);
  } finally {
    writeFileSync(path, before);
  }
}

const linesOf = (document: Json): string =>
  (Array.isArray(document) ? document : [document]).map((line) => `${JSON.stringify(line)}\n`).join("");

function loadManifest(text: string | Uint8Array): unknown {
  const path = checkpointOf(folder());
  const before = readFileSync(path);
  writeFileSync(path, text);
  try {
    return folder().loadLatestCheckpoint();
  } finally {
    writeFileSync(path, before);
  }
}

const FLAGS = [[], ["--method", "rae+paw", "--kl", "0.1"], ["--replay", "1", "--temperature", "1.2..0.8@6"]];

export const RUN_FILES: readonly Target[] = [
  {
    name: "config.json of runs",
    documents: fc.constantFrom<Json>(...FLAGS.map((flags) => tinyPreset(...flags) as unknown as Json)),
    read: (document) => presetOf({ path: "runs/fuzz", config: { preset: document } }),
  },
  {
    name: "metrics.jsonl, its report",
    few: 30,
    documents: fc.constant(metrics.map((line) => JSON.parse(encodeMetrics(line)) as Json)),
    read: (document) => useLogs({}, "metrics", linesOf(document)),
    bytesOf: (document) => new TextEncoder().encode(linesOf(document)),
    readBytes: (bytes) => useLogs({}, "metrics", bytes),
  },
  {
    name: "transcripts.jsonl, its report",
    few: 30,
    documents: fc.constant<Json>([transcript, transcript]),
    read: (document) => useLogs({}, "transcripts", linesOf(document)),
    bytesOf: (document) => new TextEncoder().encode(linesOf(document)),
    readBytes: (bytes) => useLogs({}, "transcripts", bytes),
  },
  {
    name: "checkpoint.json",
    few: 30,
    documents: fc.constant(null).map(manifest),
    read: (document) => loadManifest(sealed(document as object)),
    bytesOf: (document) => new TextEncoder().encode(sealed(document as object)),
    readBytes: (bytes) => loadManifest(bytes),
  },
];
