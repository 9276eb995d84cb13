/**
 * A run on disk, which can be watched, killed, resumed and read later:
 *
 *     runs/<name>/config.json               what was run
 *                 metrics.jsonl             one object a line: { step, phase, …metrics under TRL's names }
 *                 transcripts.jsonl         one trajectory a line (job/records.ts)
 *                 checkpoints/step-000123/  the caller's files and checkpoint.json, which lists them
 *                 report.html               at the end
 *
 * Two rules make a kill at any moment harmless. Files and checkpoints are written under a temporary name, flushed to
 * the disk and renamed, so that everything under a final name is complete. And a checkpoint records the lengths of the
 * two logs. Resuming cuts the logs back to these lengths, so that a killed and resumed run ends with the lines of an
 * uninterrupted one. The trainer has to follow one rule: it writes the lines of a step before the checkpoint of that
 * step.
 *
 * There are no locks: nothing stops two processes from training into one folder at once. Readers may read at any time.
 */
import { createHash } from "node:crypto";
import {
  appendFileSync,
  closeSync,
  existsSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readFileSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { basename, dirname, join } from "node:path";
import { check, fail } from "../engine/errors.ts";
import type { Checkpoint, RunConfig, RunStore } from "../job/runStore.ts";
import {
  decodeMetrics,
  encodeMetrics,
  isRecord,
  packTranscript,
  unpackTranscript,
  type MetricsRecord,
  type PackedTranscript,
  type Transcript,
} from "../job/records.ts";

const MANIFEST = "checkpoint.json";
const CHECKPOINT_NAME = /^step-(\d{6,})$/;
/** Checkpoints that are being written or removed. The dot hides them, so no reader takes them for complete ones. */
const UNFINISHED = /^\.step-\d+\.(tmp|old)$/;

interface Manifest {
  readonly step: number;
  readonly metricsBytes: number;
  readonly transcriptsBytes: number;
  readonly files: Readonly<Record<string, { readonly bytes: number; readonly sha256: string }>>;
}

/**
 * Starts a run in `path`, which must be empty or not exist; parent folders are made. Throws otherwise, before anything
 * is written.
 */
export function createRun(path: string, config: RunConfig): RunFolder {
  if (existsSync(path)) {
    check(statSync(path).isDirectory(), () => `createRun: expected a folder, but ${path} is a file`);
    check(
      readdirSync(path).length === 0,
      () => `createRun: ${path} exists and is not empty: resume it, or choose another name`,
    );
  }
  mkdirSync(join(path, "checkpoints"), { recursive: true });
  writeFileSync(join(path, "metrics.jsonl"), "");
  writeFileSync(join(path, "transcripts.jsonl"), "");
  // This file comes last, because its presence makes the folder a run.
  writeAtomically(join(path, "config.json"), `${JSON.stringify(config, null, 2)}\n`);
  return new RunFolder(path, config);
}

/**
 * Opens a run that `createRun` made, without changing anything. Throws if there is none or if its config.json cannot be
 * read.
 */
export function openRun(path: string): RunFolder {
  check(existsSync(path) && statSync(path).isDirectory(), () => `openRun: no folder ${path}`);
  const configPath = join(path, "config.json");
  check(existsSync(configPath), () => `openRun: ${path} is not a run folder: it has no config.json`);
  let config: unknown;
  try {
    config = JSON.parse(readFileSync(configPath, "utf8"));
  } catch (error) {
    fail(`openRun: ${configPath} is not valid JSON: ${error instanceof Error ? error.message : String(error)}`);
  }
  check(isRecord(config), () => `openRun: ${configPath}: expected a JSON object, got ${JSON.stringify(config)}`);
  return new RunFolder(path, config);
}

/** The folder of a run. */
export class RunFolder implements RunStore {
  readonly path: string;
  readonly name: string;
  readonly config: RunConfig;
  private readonly metricsPath: string;
  private readonly transcriptsPath: string;
  private readonly checkpointsPath: string;
  /** Logs whose last line is known to be complete. */
  private readonly wholeLogs = new Set<string>();

  /** Use `createRun` or `openRun`. */
  constructor(path: string, config: RunConfig) {
    this.path = path;
    this.name = basename(path);
    this.config = config;
    this.metricsPath = join(path, "metrics.jsonl");
    this.transcriptsPath = join(path, "transcripts.jsonl");
    this.checkpointsPath = join(path, "checkpoints");
  }

  /** Appends one line. NaN and infinities are written as the strings "NaN", "Infinity", "-Infinity". */
  appendMetrics(record: MetricsRecord): void {
    this.append(this.metricsPath, encodeMetrics(record));
  }

  /** Appends one trajectory as one line; numbers of tokens are rounded to 6 significant digits. */
  appendTranscript(transcript: Transcript): void {
    this.append(this.transcriptsPath, JSON.stringify(packTranscript(transcript)));
  }

  /**
   * All metric lines in order. An incomplete last line (the process died while writing) is dropped; other damage
   * throws.
   */
  readMetrics(): MetricsRecord[] {
    return readLines(this.metricsPath, decodeMetrics);
  }

  /** All transcripts in order; an incomplete last line is dropped. */
  readTranscripts(): Transcript[] {
    // A damaged line throws in unpackTranscript.
    return readLines(this.transcriptsPath, (line) => unpackTranscript(JSON.parse(line) as PackedTranscript));
  }

  /** Writes a file of this run, such as report.html. Readers see the old file or the new one, never a part. */
  writeFile(name: string, data: Uint8Array | string): void {
    writeAtomically(join(this.path, name), data);
  }

  /**
   * Writes `checkpoints/step-<step>/` with these files (plain names, no folders). When it returns, the checkpoint and
   * all lines that were appended before are on the disk.
   */
  saveCheckpoint(step: number, files: Readonly<Record<string, Uint8Array | string>>): void {
    check(Number.isSafeInteger(step) && step >= 0, () => `saveCheckpoint: expected a step ≥ 0, got ${step}`);
    for (const name of Object.keys(files)) {
      check(
        /^[\w][\w.-]*$/.test(name) && name !== MANIFEST,
        () => `saveCheckpoint: "${name}" cannot be the name of a file in a checkpoint`,
      );
    }
    const name = `step-${String(step).padStart(6, "0")}`;
    const path = join(this.checkpointsPath, name);
    const temporary = join(this.checkpointsPath, `.${name}.tmp`);
    const metricsBytes = flushedSize(this.metricsPath);
    const transcriptsBytes = flushedSize(this.transcriptsPath);
    rmSync(temporary, { recursive: true, force: true });
    mkdirSync(temporary, { recursive: true });
    const listed: Record<string, { bytes: number; sha256: string }> = {};
    for (const [file, data] of Object.entries(files)) {
      const bytes = typeof data === "string" ? new TextEncoder().encode(data) : data;
      writeFlushed(join(temporary, file), bytes);
      listed[file] = { bytes: bytes.byteLength, sha256: sha256(bytes) };
    }
    const manifest: Manifest = { step, metricsBytes, transcriptsBytes, files: listed };
    writeFlushed(join(temporary, MANIFEST), `${JSON.stringify(manifest, null, 2)}\n`);
    flushFolder(temporary);
    this.discard(name);
    renameSync(temporary, path);
    flushFolder(this.checkpointsPath);
  }

  /** The steps that have a complete checkpoint, in ascending order. */
  listCheckpoints(): number[] {
    if (!existsSync(this.checkpointsPath)) return [];
    return readdirSync(this.checkpointsPath)
      .filter((name) => existsSync(join(this.checkpointsPath, name, MANIFEST)))
      .flatMap((name) => CHECKPOINT_NAME.exec(name)?.[1] ?? [])
      .map(Number)
      .toSorted((a, b) => a - b);
  }

  /**
   * The newest complete checkpoint, or null if there is none; incomplete ones are skipped. It changes nothing, so it
   * can be called while the run is being trained. It throws, naming the file, if a complete checkpoint has been
   * damaged.
   */
  loadLatestCheckpoint(): Checkpoint | null {
    const step = this.listCheckpoints().at(-1);
    if (step === undefined) return null;
    const path = join(this.checkpointsPath, `step-${String(step).padStart(6, "0")}`);
    const manifest = readManifest(join(path, MANIFEST));
    check(manifest.step === step, () => `checkpoint ${path}: its ${MANIFEST} is of step ${manifest.step}`);
    const files: Record<string, Uint8Array> = {};
    for (const [name, { bytes, sha256: expected }] of Object.entries(manifest.files)) {
      const file = join(path, name);
      check(existsSync(file), () => `checkpoint ${path}: ${name} is missing (remove the folder to use an older one)`);
      const data = new Uint8Array(readFileSync(file));
      check(
        data.byteLength === bytes,
        () =>
          `checkpoint ${file}: expected ${bytes} bytes, found ${data.byteLength} (remove ${path} to use an older one)`,
      );
      check(
        sha256(data) === expected,
        () => `checkpoint ${file}: damaged, its SHA-256 differs (remove ${path} to use an older one)`,
      );
      files[name] = data;
    }
    return { step, path, files, metricsEnd: manifest.metricsBytes, transcriptsEnd: manifest.transcriptsBytes };
  }

  /**
   * Restores the state of the folder when `checkpoint` was taken (null: at the start): it cuts both logs back and
   * removes newer and incomplete checkpoints. Call it once when a run is resumed, before the first new line.
   */
  rewindTo(checkpoint: Checkpoint | null): void {
    cutBack(this.metricsPath, checkpoint?.metricsEnd ?? 0);
    cutBack(this.transcriptsPath, checkpoint?.transcriptsEnd ?? 0);
    mkdirSync(this.checkpointsPath, { recursive: true });
    for (const name of readdirSync(this.checkpointsPath)) {
      const step = CHECKPOINT_NAME.exec(name)?.[1];
      const unfinished = UNFINISHED.test(name) || (step && !existsSync(join(this.checkpointsPath, name, MANIFEST)));
      if (unfinished || (step && Number(step) > (checkpoint?.step ?? -1))) {
        rmSync(join(this.checkpointsPath, name), { recursive: true, force: true });
      }
    }
  }

  /** Removes all but the newest `keep` (≥ 1) checkpoints. */
  pruneCheckpoints(keep: number): void {
    check(Number.isInteger(keep) && keep >= 1, () => `pruneCheckpoints: expected to keep at least 1, got ${keep}`);
    for (const step of this.listCheckpoints().slice(0, -keep)) this.discard(`step-${String(step).padStart(6, "0")}`);
  }

  /** Renames a checkpoint before removing it, because one that is partly removed must not look complete. */
  private discard(name: string): void {
    const path = join(this.checkpointsPath, name);
    if (!existsSync(path)) return;
    const doomed = join(this.checkpointsPath, `.${name}.old`);
    rmSync(doomed, { recursive: true, force: true });
    renameSync(path, doomed);
    rmSync(doomed, { recursive: true, force: true });
  }

  private append(path: string, line: string): void {
    if (!this.wholeLogs.has(path)) {
      // The new line must not be appended to an incomplete one.
      if (existsSync(path)) cutBack(path, readFileSync(path).lastIndexOf(0x0a) + 1);
      this.wholeLogs.add(path);
    }
    appendFileSync(path, `${line}\n`);
  }
}

function readLines<T>(path: string, parse: (line: string) => T): T[] {
  if (!existsSync(path)) return [];
  const lines = readFileSync(path, "utf8").split("\n");
  lines.pop(); // "" after a line end, or an incomplete line without one
  return lines.map((line, i) => {
    try {
      return parse(line);
    } catch (error) {
      return fail(`${path}:${i + 1}: ${error instanceof Error ? error.message : String(error)}`);
    }
  });
}

function cutBack(path: string, bytes: number): void {
  const size = existsSync(path) ? statSync(path).size : 0;
  check(size >= bytes, () => `${path}: the checkpoint was taken when it had ${bytes} bytes, now it has ${size}`);
  if (size > bytes) truncateSync(path, bytes);
}

function readManifest(path: string): Manifest {
  let value: unknown;
  try {
    value = JSON.parse(readFileSync(path, "utf8"));
  } catch {
    fail(`checkpoint ${path}: not valid JSON (remove its folder to use an older one)`);
  }
  const manifest = value as Partial<Manifest>;
  const isWhole =
    isRecord(value) &&
    isRecord(manifest.files) &&
    [manifest.step, manifest.metricsBytes, manifest.transcriptsBytes].every((n) => Number.isSafeInteger(n)) &&
    Object.values(manifest.files).every((file) => isRecord(file) && typeof file.sha256 === "string");
  check(isWhole, () => `checkpoint ${path}: expected step, metricsBytes, transcriptsBytes and files`);
  return manifest as Manifest;
}

function sha256(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}

function writeFlushed(path: string, data: Uint8Array | string): void {
  const file = openSync(path, "w");
  try {
    writeFileSync(file, data);
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
}

function writeAtomically(path: string, data: Uint8Array | string): void {
  const temporary = `${path}.${process.pid}.tmp`;
  writeFlushed(temporary, data);
  renameSync(temporary, path);
  flushFolder(dirname(path));
}

/** Makes a rename in the folder durable. Windows cannot open folders and does not need this. */
function flushFolder(path: string): void {
  if (process.platform === "win32") return;
  const folder = openSync(path, "r");
  try {
    fsyncSync(folder);
  } finally {
    closeSync(folder);
  }
}

/** Flushes a log to the disk and returns its size in bytes. */
function flushedSize(path: string): number {
  const file = openSync(path, "a");
  try {
    fsyncSync(file);
    return statSync(path).size;
  } finally {
    closeSync(file);
  }
}
