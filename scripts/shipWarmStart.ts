/**
 * `npx tsx scripts/shipWarmStart.ts`: trains the warm start that lies in run/warm/ (run/node/shippedWarmStart.ts), in a
 * minute. A test says when it has to be made anew: the settings of `home` have changed.
 */
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { device } from "../engine/index.ts";
import { MOMENTS } from "../run/modelFiles.ts";
import { SHIPPED } from "../run/node/shippedWarmStart.ts";
import { presetFor } from "../run/presets.ts";
import { startOptions } from "../run/startOptions.ts";
import { encodeMetrics, type State } from "../run/records.ts";
import type { WarmStartList } from "../run/warmStart.ts";
import { warmUp } from "../site/session.ts";
import { QUIET } from "./siteWarmStart.ts";

const preset = presetFor({ ...startOptions({ env: "home" }), method: "grpo_token" });
const { step, files, metrics } = (await warmUp(preset, await device("wasm"), QUIET, new AbortController().signal))!;
const state = JSON.parse(new TextDecoder().decode(files["state.json"])) as State;
// Before its evaluation: runs choose their own held-out tasks. RL begins with a new optimiser, so no moments are kept.
const before: State = { ...state, phase: "sft", done: preset.sft.steps, optimizerStep: 0, before: null };
const kept = Object.entries(files).filter(([name]) => name !== MOMENTS && name !== "state.json");
rmSync(SHIPPED, { recursive: true, force: true });
mkdirSync(SHIPPED);
for (const [name, bytes] of kept) writeFileSync(join(SHIPPED, name), bytes);
writeFileSync(join(SHIPPED, "state.json"), JSON.stringify(before));
const list: WarmStartList = {
  preset,
  step,
  files: [...kept.map(([name]) => name), "state.json"],
  metrics: metrics.filter(({ phase }) => phase === "sft").map(encodeMetrics),
  transcripts: [],
};
writeFileSync(join(SHIPPED, "warm.json"), `${JSON.stringify(list)}\n`);
process.exit();
