/**
 * `npx tsx scripts/shipWarmStart.ts`: trains the warm start that lies in run/warm/ (run/node/shippedWarmStart.ts), in a
 * minute. A test says when it has to be made anew: the settings of `home` have changed.
 */
import { rmSync } from "node:fs";
import process from "node:process";
import { device } from "../engine/index.ts";
import { SHIPPED } from "../run/node/shippedWarmStart.ts";
import { presetFor } from "../run/presets.ts";
import type { State } from "../run/records.ts";
import { startOptions } from "../run/startOptions.ts";
import { warmUp } from "../site/session.ts";
import { QUIET, writeWarmStart } from "./siteWarmStart.ts";

const preset = presetFor({ ...startOptions({ env: "home" }), method: "grpo_token" });
const { step, files, metrics } = (await warmUp(preset, await device("wasm"), QUIET, new AbortController().signal))!;
const state = JSON.parse(new TextDecoder().decode(files["state.json"])) as State;
// Before its evaluation, as runs choose their own held-out tasks, and with an optimiser that has done nothing.
const before: State = { ...state, phase: "sft", done: preset.sft.steps, optimizerStep: 0, before: null };
rmSync(SHIPPED, { recursive: true, force: true });
writeWarmStart(SHIPPED, preset, {
  step,
  files: { ...files, "state.json": new TextEncoder().encode(JSON.stringify(before)) },
  metrics: metrics.filter(({ phase }) => phase === "sft"),
  transcripts: [],
});
process.exit();
