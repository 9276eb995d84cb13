/** A run kept in memory, as a page has no folder. It can go back to any kept checkpoint. */
import type { MetricsRecord, Transcript } from "./records.ts";
import type { Checkpoint, RunConfig, RunStore } from "./runStore.ts";

/** A checkpoint. Lengths of logs are counted in records here, as the logs are not stored as bytes. */
interface Kept {
  readonly step: number;
  readonly files: Readonly<Record<string, Uint8Array>>;
  readonly metrics: number;
  readonly transcripts: number;
}

export class MemoryStore implements RunStore {
  readonly path: string;
  readonly config: RunConfig;
  readonly #isKept: (step: number) => boolean;
  readonly #metrics: MetricsRecord[] = [];
  readonly #transcripts: Transcript[] = [];
  /** In the order of their steps. */
  #checkpoints: Kept[] = [];

  /**
   * @param path its name in error messages
   * @param isKept whether the checkpoint of a step stays when old ones are removed
   */
  constructor(path: string, config: RunConfig, isKept: (step: number) => boolean = () => false) {
    this.path = path;
    this.#isKept = isKept;
    this.config = config;
  }

  get metrics(): readonly MetricsRecord[] {
    return this.#metrics;
  }

  get transcripts(): readonly Transcript[] {
    return this.#transcripts;
  }

  readMetrics(): readonly MetricsRecord[] {
    return this.#metrics;
  }

  appendMetrics(record: MetricsRecord): void {
    this.#metrics.push(record);
  }

  appendTranscript(transcript: Transcript): void {
    this.#transcripts.push(transcript);
  }

  saveCheckpoint(step: number, files: Readonly<Record<string, Uint8Array | string>>): void {
    const bytes = Object.entries(files).map(([name, data]) => [
      name,
      typeof data === "string" ? new TextEncoder().encode(data) : data,
    ]);
    const kept: Kept = {
      step,
      files: Object.fromEntries(bytes) as Kept["files"],
      metrics: this.#metrics.length,
      transcripts: this.#transcripts.length,
    };
    this.#checkpoints = [...this.#checkpoints.filter((other) => other.step < step), kept];
  }

  /** The steps that have a checkpoint, in ascending order. */
  listCheckpoints(): number[] {
    return this.#checkpoints.map(({ step }) => step);
  }

  loadLatestCheckpoint(): Checkpoint | null {
    return this.checkpointAt(Infinity);
  }

  /** The newest checkpoint of the step `latest` or before; null if there is none. */
  checkpointAt(latest: number): Checkpoint | null {
    const found = this.#checkpoints.findLast(({ step }) => step <= latest);
    if (found === undefined) return null;
    const { step, files, metrics, transcripts } = found;
    return { step, path: `${this.path} at step ${step}`, files, metricsEnd: metrics, transcriptsEnd: transcripts };
  }

  /** The lengths in a checkpoint of this store are numbers of records. */
  rewindTo(checkpoint: Checkpoint | null): void {
    this.#metrics.length = checkpoint?.metricsEnd ?? 0;
    this.#transcripts.length = checkpoint?.transcriptsEnd ?? 0;
    this.#checkpoints = this.#checkpoints.filter(({ step }) => step <= (checkpoint?.step ?? -1));
  }

  pruneCheckpoints(keep: number, best?: number): void {
    const newest = this.#checkpoints.length - keep;
    this.#checkpoints = this.#checkpoints.filter(({ step }, i) => i >= newest || step === best || this.#isKept(step));
  }
}
