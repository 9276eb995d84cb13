/** Warm start beside the live page, so that its agents need not make one. site/warmStart.ts loads it. */
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { device } from "../engine/index.ts";
import { MOMENTS } from "../run/modelFiles.ts";
import type { Observer } from "../run/observer.ts";
import type { Preset } from "../run/preset.ts";
import { encodeMetrics, packTranscript } from "../run/records.ts";
import { experimentOf } from "../site/experiment.ts";
import { shippedWarmStart } from "../run/node/shippedWarmStart.ts";
import type { WarmStart, WarmStartList } from "../run/warmStart.ts";
import { warmUp } from "../site/session.ts";
import { packageFolder } from "./packageFolder.ts";

/** Makes the warm start of the experiment of the page, once for each state of its settings. @returns its folder */
export async function warmStartFolder(): Promise<string> {
  const { warm: preset } = experimentOf(new URLSearchParams());
  const hash = createHash("sha256").update(JSON.stringify(preset)).digest("hex").slice(0, 12);
  const folder = join(packageFolder, ".cache", `site-warm-start-${hash}`);
  if (existsSync(folder)) return folder;
  const draft = `${folder}.tmp`;
  rmSync(draft, { recursive: true, force: true });
  await makeWarmStart(preset, draft);
  renameSync(draft, folder);
  return folder;
}

/** An observer that hears nothing. */
export const QUIET: Observer = { phase() {}, update() {}, evaluation() {}, transcript() {}, note() {} };

/** Makes the warm start of these settings and writes it into a new folder; the page's own only has to be evaluated. */
export async function makeWarmStart(preset: Preset, folder: string): Promise<void> {
  const on = await device("wasm");
  const warm = (await warmUp(preset, on, QUIET, new AbortController().signal, shippedWarmStart(preset)))!;
  on.dispose();
  writeWarmStart(folder, preset, warm);
}

/** Writes a warm start into a new folder, without moments: RL begins with a new optimiser, whose moments are 0. */
export function writeWarmStart(folder: string, preset: Preset, warm: WarmStart): void {
  mkdirSync(folder, { recursive: true });
  const files = Object.entries(warm.files).filter(([name]) => name !== MOMENTS);
  for (const [name, bytes] of files) writeFileSync(join(folder, name), bytes);
  const list: WarmStartList = {
    preset,
    step: warm.step,
    files: files.map(([name]) => name),
    metrics: warm.metrics.map(encodeMetrics),
    transcripts: warm.transcripts.map(packTranscript),
  };
  writeFileSync(join(folder, "warm.json"), JSON.stringify(list));
}
