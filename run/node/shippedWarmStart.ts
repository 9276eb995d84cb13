/**
 * The warm start of `home` that lies beside this source, in run/warm/: with it `npm start -- --quick` shows agents that
 * learn, and the live page is made without training. It ends before its evaluation. scripts/shipWarmStart.ts makes it.
 */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { Preset } from "../preset.ts";
import { decodeMetrics } from "../records.ts";
import { haveSameWarmStart, type WarmStart, type WarmStartList } from "../warmStart.ts";

/** Its folder. */
export const SHIPPED = fileURLToPath(new URL("../warm/", import.meta.url));

/** @returns undefined if these settings have another warm start */
export function shippedWarmStart(preset: Preset): WarmStart | undefined {
  const list = JSON.parse(readFileSync(`${SHIPPED}warm.json`, "utf8")) as WarmStartList;
  if (!haveSameWarmStart(list.preset, preset)) return undefined;
  const files = list.files.map((name) => [name, new Uint8Array(readFileSync(SHIPPED + name))] as const);
  return {
    step: list.step,
    files: Object.fromEntries(files),
    metrics: list.metrics.map(decodeMetrics),
    transcripts: [],
  };
}
