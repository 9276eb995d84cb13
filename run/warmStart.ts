/**
 * The end of a warm start, from which several agents begin with the same weights, bit for bit; and the form in which
 * one is kept in files: beside the live page (site/warmStart.ts) and beside this source (node/shippedWarmStart.ts).
 */
import type { Preset } from "./preset.ts";
import type { MetricsRecord, PackedTranscript, Transcript } from "./records.ts";
import type { RunStore } from "./runStore.ts";

export interface WarmStart {
  /** The step of its checkpoint. */
  readonly step: number;
  /** The files of its checkpoint. */
  readonly files: Readonly<Record<string, Uint8Array>>;
  readonly metrics: readonly MetricsRecord[];
  readonly transcripts: readonly Transcript[];
}

/** The contents of `warm.json`, which lies in a folder with the files of the checkpoint. */
export interface WarmStartList {
  /** The settings that it was made with. */
  readonly preset: Preset;
  readonly step: number;
  /** The names of the checkpoint's files. */
  readonly files: readonly string[];
  /** Lines of the logs, as in the folder of a run. */
  readonly metrics: readonly string[];
  readonly transcripts: readonly PackedTranscript[];
}

/** Whether two runs have the same weights after their warm start: RL, evaluations and checkpoints may differ. */
export function haveSameWarmStart(a: Preset, b: Preset): boolean {
  const of = ({
    rl: _rl,
    data: _data,
    trainTasks: _train,
    evaluation: _score,
    checkpointEvery: _every,
    ...rest
  }: Preset) => JSON.stringify(rest);
  return of(a) === of(b);
}

/** Puts it into a run that has nothing yet. */
export function putWarmStart(store: RunStore, { step, files, metrics, transcripts }: WarmStart): void {
  for (const record of metrics) store.appendMetrics(record);
  for (const transcript of transcripts) store.appendTranscript(transcript);
  store.saveCheckpoint(step, files);
}
