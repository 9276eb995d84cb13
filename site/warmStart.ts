/**
 * The warm start that lies beside the page: a run folder that stops where RL begins, made by scripts/siteWarmStart.ts.
 * It belongs to one experiment; for any other an agent makes its own, which takes a minute.
 */
import type { Preset } from "../run/preset.ts";
import { decodeMetrics, type PackedTranscript, unpackTranscript } from "../run/records.ts";
import type { WarmStart } from "./session.ts";

/** The contents of `warm/warm.json`. */
export interface WarmStartList {
  /** The settings that it was made with. */
  readonly preset: Preset;
  readonly step: number;
  /** The names of the checkpoint's files, which lie in `warm/`. */
  readonly files: readonly string[];
  /** Lines of the logs, as in the folder of a run. */
  readonly metrics: readonly string[];
  readonly transcripts: readonly PackedTranscript[];
}

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

/** Whether two runs have the same warm start: only settings of RL and of checkpoints may differ. */
function isSameWarmStart(a: Preset, b: Preset): boolean {
  const of = ({ rl: _rl, data: _data, trainTasks: _train, checkpointEvery: _every, ...rest }: Preset): string =>
    JSON.stringify(rest);
  return of(a) === of(b);
}
