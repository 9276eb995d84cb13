/**
 * The store of a run: its settings, its two logs and its checkpoints. In Node it is a folder (run/node/runFolder.ts),
 * in a page memory (memoryStore.ts). A checkpoint records the lengths of the logs when it was taken. So a run that
 * continues from it has the same lines in the end as one that never stopped. For that, the lines of a step are appended
 * before its checkpoint is saved.
 */
import type { MetricsRecord, Transcript } from "./records.ts";

/** The settings of a run as plain data: the content of `config.json`. */
export type RunConfig = Readonly<Record<string, unknown>>;

/** A checkpoint that was read. */
export interface Checkpoint {
  /** The number of optimiser steps when it was taken. */
  readonly step: number;
  /** Its name in error messages. */
  readonly path: string;
  readonly files: Readonly<Record<string, Uint8Array>>;
  /** The ends of the logs when it was taken, as their store counts; `rewindTo` cuts the logs back to these. */
  readonly metricsEnd: number;
  readonly transcriptsEnd: number;
}

/** The interface of the place where a run is kept. */
export interface RunStore {
  /** Its name in error messages. */
  readonly path: string;
  readonly config: RunConfig;
  appendMetrics(record: MetricsRecord): void;
  appendTranscript(transcript: Transcript): void;
  /** All metric lines, in order. */
  readMetrics(): readonly MetricsRecord[];
  /** @param files plain names, no folders; a text is saved as UTF-8 */
  saveCheckpoint(step: number, files: Readonly<Record<string, Uint8Array | string>>): void;
  /** The steps that have a checkpoint, in ascending order. */
  listCheckpoints(): number[];
  /** The newest checkpoint; null if there is none. @throws if it is damaged */
  loadLatestCheckpoint(): Checkpoint | null;
  /** Cuts the logs back to this checkpoint (null: to the start) and removes newer ones. */
  rewindTo(checkpoint: Checkpoint | null): void;
  /** Removes all checkpoints but the newest `keep`, that of the step `best`, and those that the store has to keep. */
  pruneCheckpoints(keep: number, best?: number): void;
}
