/**
 * The warm start that lies beside the page: a run folder that stops where RL begins, made by scripts/siteWarmStart.ts.
 * It belongs to one experiment; for any other an agent makes its own, which takes a minute.
 */
import type { Preset } from "../run/preset.ts";
import { decodeMetrics, unpackTranscript } from "../run/records.ts";
import { haveSameWarmStart, type WarmStart, type WarmStartList } from "../run/warmStart.ts";

/** @returns undefined if there is none for these settings */
export async function loadWarmStart(preset: Preset): Promise<WarmStart | undefined> {
  const at = (name: string): URL => new URL(`warm/${name}`, import.meta.url);
  const answer = await fetch(at("warm.json")).catch(() => undefined);
  if (answer?.ok !== true) return undefined;
  const list = (await answer.json()) as WarmStartList;
  if (!isSameWarmStart(list.preset, preset)) return undefined;
  const files = await Promise.all(
    list.files.map(async (name) => [name, new Uint8Array(await (await fetch(at(name))).arrayBuffer())] as const),
  );
  return {
    step: list.step,
    files: Object.fromEntries(files),
    metrics: list.metrics.map(decodeMetrics),
    transcripts: list.transcripts.map(unpackTranscript),
  };
}

/** It has been evaluated, so the evaluations have to be the same, too. */
const isSameWarmStart = (a: Preset, b: Preset): boolean =>
  haveSameWarmStart(a, b) && JSON.stringify(a.evaluation) === JSON.stringify(b.evaluation);
