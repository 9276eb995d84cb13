/**
 * A run on disk, which can be watched, killed, resumed and read later:
 *
 *     runs/<name>/config.json               the settings
 *                 flags.json                the flags that it was begun with (flagsFile.ts)
 *                 metrics.jsonl             one object a line: { step, phase, …metrics under TRL's names }
 *                 transcripts.jsonl         one trajectory a line (run/records.ts)
 *                 checkpoints/step-000123/  the caller's files and checkpoint.json, which lists them
 *                 report.html               at the end
 *                 metrics.csv, events.out.tfevents.…   the metrics for other programs, if they were asked for
 *
 * Two rules make a kill at any moment harmless. Files and checkpoints are written under a temporary name, flushed to
 * the disk and renamed, so that everything under a final name is complete. And a checkpoint records the lengths of the
 * two logs. Resuming cuts the logs back to these lengths, so that a killed and resumed run ends with the lines of an
 * uninterrupted one. The trainer has to follow one rule: it writes the lines of a step before the checkpoint of that
 * step.
 *
 * A loss of power is harmless, too. When `createRun`, `saveCheckpoint` and `writeFile` return, they have flushed what
 * they wrote, the folders that contain it, and all lines of the logs until then. Later lines may be lost or become
 * zeros: resuming cuts them off.
 *
 * Everything that a resumed run depends on has a SHA-256: config.json and checkpoint.json contain a hash of the rest of
 * the file, and a checkpoint contains those of its files and of the two logs up to it. A file that has changed is
 * refused before anything is trained.
 *
 * Readers may read at any time. Two processes must not train into one folder: lock.ts keeps them apart.
 */
import { createHash, type Hash } from "node:crypto";
import {
  appendFileSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
} from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { check, fail } from "../../engine/errors.ts";
import { showValue } from "../../engine/options.ts";
import type { Checkpoint, RunConfig, RunStore } from "../runStore.ts";
import { flushed, flushFolder, has, makeFolder, named, writeAtomically, writeFlushed } from "./disk.ts";
import { addOwnWorlds } from "./ownWorlds.ts";
import { type Reporter, REPORTER_FILES } from "./reporters.ts";
import { sealed, sha256, unsealed } from "./sealed.ts";
import {
  decodeMetrics,
  encodeMetrics,
  isRecord,
  packTranscript,
  REPORTERS,
  unpackTranscript,
  type MetricsRecord,
  type PackedTranscript,
  type ReporterName,
  type Transcript,
} from "../records.ts";

const MANIFEST = "checkpoint.json";

const CHECKPOINT_NAME = /^step-(\d{6,})$/;
/** Checkpoints that are being written or removed. The dot hides them, so no reader takes them for complete ones. */
const UNFINISHED = /^\.step-\d+\.(tmp|old)$/;

/** Files that `writeAtomically`, or `exportRun` in its folders, leaves if its process dies. */
const TEMPORARY = /\.\d+\.(tmp|old)$/;

interface Manifest {
  readonly step: number;
  /** The hash of the run's settings. */
  readonly configSha256: string;
  readonly metricsBytes: number;
  readonly metricsSha256: string;
  readonly transcriptsBytes: number;
  readonly transcriptsSha256: string;
  readonly files: Readonly<Record<string, { readonly bytes: number; readonly sha256: string }>>;
}

/** A plain name, without folders. */
const FILE_NAME = /^[\w][\w.-]*$/;

/**
 * Starts a run in `path`. The folder must be missing or empty, or hold only the rest of a `createRun` that died before
 * it wrote config.json; otherwise this throws before anything is written. Parent folders are made.
 */
export function createRun(path: string, config: RunConfig): RunFolder {
  check(!has(path) || statSync(path).isDirectory(), () => `createRun: expected a folder, but ${path} is a file`);
  check(isFree(path), () => `createRun: ${path} exists and is not empty: resume it, or choose another name`);
  removeTemporary(path);
  const parent = dirname(resolve(path));
  makeFolder(parent);
  mkdirSync(join(path, "checkpoints"), { recursive: true });
  for (const name of ["metrics.jsonl", "transcripts.jsonl"]) writeFlushed(join(path, name), "");
  // This file comes last, because its presence makes the folder a run.
  writeAtomically(join(path, "config.json"), sealed(config));
  // Without flushing its parent, a loss of power could remove the new folder.
  flushFolder(parent);
  return new RunFolder(path, config);
}

/** Whether `createRun` would make a run here. */
export function isFree(path: string): boolean {
  if (!has(path)) return true;
  if (!statSync(path).isDirectory()) return false;
  return readdirSync(path).every((name) => {
    const at = join(path, name);
    if (name === "checkpoints") return readdirSync(at).length === 0;
    return TEMPORARY.test(name) || (/^(metrics|transcripts)\.jsonl$/.test(name) && statSync(at).size === 0);
  });
}

/**
 * Opens a run that `createRun` made, without changing anything. Throws if there is none or if its config.json cannot be
 * read.
 */
export function openRun(path: string): RunFolder {
  addOwnWorlds();
  check(has(path) && statSync(path).isDirectory(), () => `openRun: no folder ${path}`);
  const configPath = join(path, "config.json");
  check(has(configPath), () => `openRun: ${path} is not a run folder: it has no config.json`);
  const hint = has(join(path, "model.safetensors")) ? "; a folder with a model is for --model-path" : "";
  const config = unsealed(configPath, (problem) => fail(`openRun: ${configPath}: ${problem}${hint}`));
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
  /** The hashes of the logs so far, for logs whose last line is known to be complete. */
  private readonly logHashes = new Map<string, Hash>();
  private reporters: readonly Reporter[] | undefined;

  /** Not for callers: see `createRun` and `openRun`. */
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
    for (const reporter of (this.reporters ??= this.reportersWith([])))
      reporter.append(record, () => this.readMetrics());
  }

  /**
   * Writes the metrics for other programs, too: so far, and from now on, also when the run is opened again. Files that
   * are there already stay up to date without being named.
   */
  reportTo(names: readonly ReporterName[]): void {
    this.reporters = this.reportersWith(names);
    const lines = this.readMetrics();
    for (const reporter of this.reporters) reporter.rewrite(lines);
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

  /**
   * Writes a file of this run, such as report.html. Readers see the old file or the new one, never a part. The logs are
   * flushed first, because the file is made from them and may say that the run has ended.
   */
  writeFile(name: string, data: Uint8Array | string): void {
    for (const log of [this.metricsPath, this.transcriptsPath]) flushedSize(log);
    writeAtomically(join(this.path, name), data);
  }

  /**
   * Writes `checkpoints/step-<step>/` with these files (plain names, no folders). When it returns, the checkpoint and
   * all lines that were appended before are on the disk.
   */
  saveCheckpoint(step: number, files: Readonly<Record<string, Uint8Array | string>>): void {
    check(Number.isSafeInteger(step) && step >= 0, () => `saveCheckpoint: expected a step ≥ 0, got ${step}`);
    const entries = Object.entries<unknown>(files);
    check(entries.length > 0, () => "saveCheckpoint: expected files, got none (modelToFiles gives a promise of them)");
    for (const [name, data] of entries) {
      check(
        FILE_NAME.test(name) && name !== MANIFEST,
        () => `saveCheckpoint: "${name}" cannot be the name of a file in a checkpoint`,
      );
      check(
        typeof data === "string" || data instanceof Uint8Array,
        () => `saveCheckpoint: expected ${name} as a text or a Uint8Array, got ${showValue(data)}`,
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
    const manifest: Manifest = {
      step,
      configSha256: sha256(JSON.stringify(this.config)),
      metricsBytes,
      metricsSha256: this.hashOf(this.metricsPath).copy().digest("hex"),
      transcriptsBytes,
      transcriptsSha256: this.hashOf(this.transcriptsPath).copy().digest("hex"),
      files: listed,
    };
    writeFlushed(join(temporary, MANIFEST), sealed({ ...manifest }));
    flushFolder(temporary);
    this.discard(name);
    renameSync(temporary, path);
    flushFolder(this.checkpointsPath);
  }

  /** The steps that have a complete checkpoint, in ascending order. */
  listCheckpoints(): number[] {
    if (!has(this.checkpointsPath)) return [];
    return readdirSync(this.checkpointsPath)
      .filter((name) => has(join(this.checkpointsPath, name, MANIFEST)))
      .flatMap((name) => CHECKPOINT_NAME.exec(name)?.[1] ?? [])
      .map(Number)
      .toSorted((a, b) => a - b);
  }

  /**
   * The newest complete checkpoint, or null if there is none; incomplete ones are skipped. It changes nothing, so it
   * can be called while the run is being trained. It throws, naming the file, if a complete checkpoint, or the part of
   * the logs up to it, has been damaged.
   */
  loadLatestCheckpoint(): Checkpoint | null {
    const step = this.listCheckpoints().at(-1);
    return step === undefined ? null : this.loadCheckpoint(step);
  }

  /** The checkpoint of a step (`listCheckpoints`). @throws if there is none, or as `loadLatestCheckpoint` does */
  loadCheckpoint(step: number): Checkpoint {
    const path = join(this.checkpointsPath, `step-${String(step).padStart(6, "0")}`);
    const manifest = readManifest(join(path, MANIFEST));
    check(manifest.step === step, () => `checkpoint ${path}: its ${MANIFEST} is of step ${manifest.step}`);
    check(
      manifest.configSha256 === sha256(JSON.stringify(this.config)),
      () => `${join(this.path, "config.json")}: these are not the settings that ${path} was taken with`,
    );
    checkLog(this.metricsPath, manifest.metricsBytes, manifest.metricsSha256);
    checkLog(this.transcriptsPath, manifest.transcriptsBytes, manifest.transcriptsSha256);
    const files: Record<string, Uint8Array> = {};
    for (const [name, { bytes, sha256: expected }] of Object.entries(manifest.files)) {
      const file = join(path, name);
      check(has(file), () => `checkpoint ${path}: ${name} is missing (remove the folder to use an older one)`);
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
    this.logHashes.clear();
    removeTemporary(this.path);
    this.reportTo([]);
    mkdirSync(this.checkpointsPath, { recursive: true });
    for (const name of readdirSync(this.checkpointsPath)) {
      const step = CHECKPOINT_NAME.exec(name)?.[1];
      const unfinished = UNFINISHED.test(name) || (step && !has(join(this.checkpointsPath, name, MANIFEST)));
      if (unfinished || (step && Number(step) > (checkpoint?.step ?? -1))) {
        rmSync(join(this.checkpointsPath, name), { recursive: true, force: true });
      }
    }
  }

  /** Removes all but the newest `keep` (≥ 1) checkpoints and that of the step `best`. */
  pruneCheckpoints(keep: number, best?: number): void {
    check(Number.isInteger(keep) && keep >= 1, () => `pruneCheckpoints: expected to keep at least 1, got ${keep}`);
    const doomed = this.listCheckpoints()
      .slice(0, -keep)
      .filter((step) => step !== best);
    for (const step of doomed) this.discard(`step-${String(step).padStart(6, "0")}`);
    if (doomed.length > 0) flushFolder(this.checkpointsPath);
  }

  /** Renames a checkpoint before removing it, because one that is partly removed must not look complete. */
  private discard(name: string): void {
    const path = join(this.checkpointsPath, name);
    if (!has(path)) return;
    const doomed = join(this.checkpointsPath, `.${name}.old`);
    rmSync(doomed, { recursive: true, force: true });
    renameSync(path, doomed);
    flushFolder(this.checkpointsPath); // else a loss of power could bring the old name back without all of its files
    rmSync(doomed, { recursive: true, force: true });
  }

  /** Those with these names, and those whose files are there. */
  private reportersWith(names: readonly ReporterName[]): readonly Reporter[] {
    return REPORTERS.flatMap((name) => {
      const reporter = REPORTER_FILES[name](this.path);
      return names.includes(name) || reporter.isThere() ? [reporter] : [];
    });
  }

  private append(path: string, line: string): void {
    const hash = this.hashOf(path);
    named(path, () => appendFileSync(path, `${line}\n`));
    hash.update(`${line}\n`);
  }

  /** The hash of a log, which goes on with each line. The first time it removes an incomplete last line. */
  private hashOf(path: string): Hash {
    let hash = this.logHashes.get(path);
    if (hash === undefined) {
      const log = has(path) ? readFileSync(path) : new Uint8Array();
      const whole = log.lastIndexOf(0x0a) + 1;
      cutBack(path, whole);
      hash = createHash("sha256").update(log.subarray(0, whole));
      this.logHashes.set(path, hash);
    }
    return hash;
  }
}

function readLines<T>(path: string, parse: (line: string) => T): T[] {
  if (!has(path)) return [];
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
  const size = has(path) ? statSync(path).size : 0;
  check(size >= bytes, () => `${path}: the checkpoint was taken when it had ${bytes} bytes, now it has ${size}`);
  if (size > bytes) truncateSync(path, bytes);
}

function checkLog(path: string, bytes: number, expected: string): void {
  const log = has(path) ? readFileSync(path) : new Uint8Array();
  check(
    log.length >= bytes,
    () => `${path}: the checkpoint was taken when it had ${bytes} bytes, now it has ${log.length}`,
  );
  check(
    sha256(log.subarray(0, bytes)) === expected,
    () => `${path}: damaged, its first ${bytes} bytes are not those that the checkpoint was taken with`,
  );
}

function readManifest(path: string): Manifest {
  const refuse = (problem: string): never =>
    fail(`checkpoint ${path}: ${problem} (remove its folder to use an older one)`);
  const manifest = unsealed(path, refuse) as Partial<Manifest>;
  const isCount = (n: unknown): boolean => Number.isSafeInteger(n) && (n as number) >= 0;
  const isText = (x: unknown): boolean => typeof x === "string";
  const isWhole =
    isRecord(manifest.files) &&
    [manifest.step, manifest.metricsBytes, manifest.transcriptsBytes].every(isCount) &&
    [manifest.metricsSha256, manifest.transcriptsSha256, manifest.configSha256].every(isText) &&
    Object.entries(manifest.files).every(
      ([name, file]) => FILE_NAME.test(name) && isRecord(file) && isCount(file.bytes) && isText(file.sha256),
    );
  return isWhole ? (manifest as Manifest) : refuse("expected step, files, and lengths and hashes of the logs");
}

/** Removes the files that dead processes left. */
function removeTemporary(path: string): void {
  if (!has(path)) return;
  for (const name of readdirSync(path))
    if (TEMPORARY.test(name)) rmSync(join(path, name), { recursive: true, force: true });
}

/** Flushes a log to the disk and returns its size in bytes. */
const flushedSize = (path: string): number => flushed(path, "a", () => statSync(path).size);
