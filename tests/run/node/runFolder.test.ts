/** The run folder: what is on the disk after every kind of interruption. */
import { createHash } from "node:crypto";
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import {
  decodeMetrics,
  encodeMetrics,
  packTranscript,
  ROLES,
  unpackTranscript,
  type MetricsRecord,
  type PackedTranscript,
  type Transcript,
} from "../../../run/records.ts";
import { createRun, isFree, openRun, type RunFolder } from "../../../run/node/runFolder.ts";

const LONG = { timeout: 60_000 };
let base = "";
beforeEach(() => {
  base = mkdtempSync(join(tmpdir(), "worldgrad-run-"));
});
afterEach(() => rmSync(base, { recursive: true, force: true }));

const line = (step: number): MetricsRecord => ({ step, phase: "rl", reward: step / 8 });
const transcript = (step: number): Transcript => ({
  step,
  phase: "rl",
  env: "terminal",
  family: "find",
  task: "find it",
  group: 0,
  reward: 1,
  success: true,
  stopReason: "completed",
  turns: 1,
  tokens: [
    { id: 3, text: "$ ", role: "scaffold", turn: 1 },
    { id: 7, text: "ls\n", role: "action", turn: 1, logProb: -0.5, oldLogProb: -0.5, advantage: 0.25, wPolicy: 0.01 },
    { id: 9, text: "a\n", role: "observation", turn: 1, wWorld: 0.05, wClipped: 0.5, surprise: 2 },
  ],
});

/** A toy trainer: lines of a step, then (every second step) its checkpoint. */
function train(run: RunFolder, from: number, to: number): void {
  for (let step = from; step <= to; step++) {
    run.appendMetrics(line(step));
    if (step % 3 === 0) run.appendTranscript(transcript(step));
    if (step % 2 === 0)
      run.saveCheckpoint(step, { "model.safetensors": new Uint8Array([step, 1, 2]), "state.json": `${step}` });
  }
}

const log = (run: RunFolder, name: string): string => readFileSync(join(run.path, name), "utf8");

describe("a run folder", () => {
  test("is made, filled and read back", () => {
    const run = createRun(join(base, "runs", "one"), { seed: 3 });
    train(run, 1, 4);
    const again = openRun(run.path);
    expect(again.config).toEqual({ seed: 3 });
    expect(again.name).toBe("one");
    expect(again.readMetrics()).toEqual([1, 2, 3, 4].map(line));
    expect(again.readTranscripts()).toEqual([transcript(3)]);
    expect(again.loadLatestCheckpoint()).toMatchObject({
      step: 4,
      files: { "model.safetensors": new Uint8Array([4, 1, 2]) },
    });
  });

  test("is not made over other files, nor opened where there is none", () => {
    const path = join(base, "taken");
    mkdirSync(path);
    writeFileSync(join(path, "thesis.txt"), "x");
    expect(() => createRun(path, {})).toThrow(/taken exists and is not empty/);
    expect(readdirSync(path)).toEqual(["thesis.txt"]);
    expect(() => createRun(join(path, "thesis.txt"), {})).toThrow(/is a file/);
    expect(() => openRun(path)).toThrow(/not a run folder: it has no config\.json/);
    expect(() => openRun(join(base, "nowhere"))).toThrow(/no folder/);
    writeFileSync(join(path, "config.json"), '{"seed": ');
    expect(() => openRun(path)).toThrow(/config\.json: not valid JSON/);
    writeFileSync(join(path, "config.json"), "[1]");
    expect(() => openRun(path)).toThrow(/expected a JSON object/);
  });

  test("a run killed at any step and resumed has the very bytes of one that was not", () => {
    const whole = createRun(join(base, "whole"), {});
    train(whole, 1, 9);
    for (let killedAt = 0; killedAt <= 9; killedAt++) {
      const run = createRun(join(base, `killed-${killedAt}`), {});
      train(run, 1, killedAt);
      appendFileSync(join(run.path, "metrics.jsonl"), '{"step": 99, "pha');
      const resumed = openRun(run.path);
      const checkpoint = resumed.loadLatestCheckpoint();
      resumed.rewindTo(checkpoint);
      train(resumed, (checkpoint?.step ?? 0) + 1, 9);
      expect(log(resumed, "metrics.jsonl")).toBe(log(whole, "metrics.jsonl"));
      expect(log(resumed, "transcripts.jsonl")).toBe(log(whole, "transcripts.jsonl"));
      expect(resumed.listCheckpoints()).toEqual([2, 4, 6, 8]);
    }
  });

  test("a torn last line is dropped by readers, and cut off before the next line; damage elsewhere is named", () => {
    const run = createRun(join(base, "torn"), {});
    run.appendMetrics(line(1));
    appendFileSync(join(run.path, "metrics.jsonl"), '{"step":2,"phase":"r');
    expect(run.readMetrics()).toEqual([line(1)]);
    const again = openRun(run.path);
    again.appendMetrics(line(2));
    expect(again.readMetrics()).toEqual([line(1), line(2)]);
    writeFileSync(join(run.path, "metrics.jsonl"), '{"step":1,"phase":"rl"}\nnonsense\n{"step":3,"phase":"rl"}\n');
    expect(() => again.readMetrics()).toThrow(/metrics\.jsonl:2: /);
    expect(() => decodeMetrics('{"step":1,"phase":"dream"}')).toThrow(/unknown phase dream/);
  });

  test("half-written checkpoints are passed over, and removed on resuming", () => {
    const run = createRun(join(base, "half"), {});
    train(run, 1, 2);
    const checkpoints = join(run.path, "checkpoints");
    mkdirSync(join(checkpoints, ".step-000004.tmp"));
    mkdirSync(join(checkpoints, "step-000006"));
    writeFileSync(join(checkpoints, "step-000006", "model.safetensors"), "half");
    const latest = run.loadLatestCheckpoint();
    expect(latest?.step).toBe(2);
    run.rewindTo(latest);
    expect(readdirSync(checkpoints)).toEqual(["step-000002"]);
  });

  test("a damaged checkpoint is an error that names the file", () => {
    const run = createRun(join(base, "damaged"), {});
    train(run, 1, 2);
    const file = join(run.path, "checkpoints", "step-000002", "model.safetensors");
    writeFileSync(file, new Uint8Array([2, 1]));
    expect(() => run.loadLatestCheckpoint()).toThrow(/model\.safetensors: expected 3 bytes, found 2/);
    writeFileSync(file, new Uint8Array([2, 1, 3]));
    expect(() => run.loadLatestCheckpoint()).toThrow(/model\.safetensors: damaged/);
    rmSync(file);
    expect(() => run.loadLatestCheckpoint()).toThrow(/model\.safetensors is missing/);
    writeFileSync(join(run.path, "checkpoints", "step-000002", "checkpoint.json"), '{"step":2}');
    expect(() => run.loadLatestCheckpoint()).toThrow(/checkpoint\.json: no run wrote it, or it was changed since/);
    expect(() => run.saveCheckpoint(1, { "../x": "" })).toThrow(/"\.\.\/x" cannot be the name/);
    // `{ ...modelToFiles(model) }`, a promise that was not awaited, has no entries.
    expect(() => run.saveCheckpoint(1, {})).toThrow("expected files, got none");
    expect(() => run.saveCheckpoint(1, { a: undefined } as never)).toThrow(
      "saveCheckpoint: expected a as a text or a Uint8Array, got missing",
    );
    expect(existsSync(join(run.path, "checkpoints", "step-000001"))).toBe(false);
  });

  test("the folder of a model is no run, and the error says where it belongs", () => {
    const path = join(base, "model");
    mkdirSync(path);
    writeFileSync(join(path, "config.json"), '{"model_type":"llama"}');
    writeFileSync(join(path, "model.safetensors"), "");
    expect(() => openRun(path)).toThrow(
      `openRun: ${join(path, "config.json")}: no run wrote it, or it was changed since: it has no "sha256"; ` +
        "a folder with a model is for --model-path",
    );
  });

  // A second; many times that where other processes keep the disk busy.
  test("a flipped byte anywhere that a resumed run goes on from is refused, and nothing is changed", LONG, () => {
    const run = createRun(join(base, "flipped"), { preset: { seed: 3, rl: { lr: 1e-3 } } });
    train(run, 1, 4);
    const { metricsEnd, transcriptsEnd } = run.loadLatestCheckpoint()!;
    appendFileSync(join(run.path, "metrics.jsonl"), '{"step":5,"phase":"rl"}\n'); // is cut off anyway
    const checkpoint = join("checkpoints", "step-000004");
    const files: [file: string, until?: number][] = [
      ["config.json"],
      ["metrics.jsonl", metricsEnd],
      ["transcripts.jsonl", transcriptsEnd],
      ...readdirSync(join(run.path, checkpoint)).map((name): [string] => [join(checkpoint, name)]),
    ];
    const resume = (): unknown => openRun(run.path).loadLatestCheckpoint();
    let flipped = 0;
    for (const [name, until] of files) {
      const file = join(run.path, name);
      const whole = readFileSync(file);
      const white = (byte: number): boolean => byte === 0x20 || byte === 0x0a;
      for (let i = 0; i < (until ?? whole.length); i++) {
        const torn = Buffer.from(whole);
        torn[i]! ^= 1;
        // Between the parts of a JSON file one kind of space is as good as another; a log's bytes all count.
        if (until === undefined && white(whole[i]!) && white(torn[i]!)) continue;
        writeFileSync(file, torn);
        expect(resume, `${name}, byte ${i}`).toThrow(/damaged|changed|not valid JSON|expected/);
        flipped++;
      }
      writeFileSync(file, whole);
    }
    expect(flipped).toBeGreaterThan(800);
    expect(resume()).toMatchObject({ step: 4 });
  });

  test("a manifest that names files elsewhere, or lengths that cannot be, is refused", () => {
    const run = createRun(join(base, "manifest"), {});
    train(run, 1, 2);
    const file = join(run.path, "checkpoints", "step-000002", "checkpoint.json");
    const { sha256: _, ...manifest } = JSON.parse(readFileSync(file, "utf8")) as Record<string, unknown>;
    for (const change of [
      { metricsBytes: -1 },
      { files: { "../../config.json": { bytes: 1, sha256: "" } } },
      { files: null },
      { metricsSha256: 3 },
    ]) {
      const wrong = { ...manifest, ...change };
      const sha256 = createHash("sha256").update(JSON.stringify(wrong)).digest("hex");
      writeFileSync(file, JSON.stringify({ ...wrong, sha256 }));
      expect(() => run.loadLatestCheckpoint()).toThrow(/checkpoint\.json: expected step, files, and lengths/);
    }
  });

  test("what a death before config.json left is no run, and is made one; temporary files go", () => {
    const path = join(base, "unborn");
    mkdirSync(join(path, "checkpoints"), { recursive: true });
    writeFileSync(join(path, "metrics.jsonl"), "");
    writeFileSync(join(path, "config.json.4711.tmp"), "{");
    expect(() => openRun(path)).toThrow(/no config\.json/);
    expect(isFree(path)).toBe(true);
    const run = createRun(path, { seed: 1 });
    expect(readdirSync(path).toSorted()).toEqual(["checkpoints", "config.json", "metrics.jsonl", "transcripts.jsonl"]);
    expect(isFree(path)).toBe(false);
    train(run, 1, 2);
    writeFileSync(join(path, "report.html.4711.tmp"), "<");
    run.rewindTo(run.loadLatestCheckpoint());
    expect(existsSync(join(path, "report.html.4711.tmp"))).toBe(false);
    mkdirSync(join(base, "somebody's", "checkpoints"), { recursive: true });
    writeFileSync(join(base, "somebody's", "metrics.jsonl"), "a line");
    expect(isFree(join(base, "somebody's"))).toBe(false);
  });

  test("a log that lost lines since the checkpoint is an error", () => {
    const run = createRun(join(base, "lost"), {});
    train(run, 1, 2);
    writeFileSync(join(run.path, "metrics.jsonl"), "");
    expect(() => run.rewindTo(run.loadLatestCheckpoint())).toThrow(
      /metrics\.jsonl: the checkpoint was taken when it had \d+ bytes/,
    );
  });

  test("saving a step again replaces it; pruning keeps the newest", () => {
    const run = createRun(join(base, "prune"), {});
    for (const step of [1, 2, 10, 3]) run.saveCheckpoint(step, { f: String(step) });
    run.saveCheckpoint(10, { f: "again" });
    expect(new TextDecoder().decode(run.loadLatestCheckpoint()?.files["f"])).toBe("again");
    run.pruneCheckpoints(2);
    expect(run.listCheckpoints()).toEqual([3, 10]);
    expect(readdirSync(join(run.path, "checkpoints"))).toEqual(["step-000003", "step-000010"]);
    expect(() => run.pruneCheckpoints(0)).toThrow(/at least 1/);
  });
});

describe("lines", () => {
  test("numbers that JSON lacks survive", () => {
    const record: MetricsRecord = {
      step: 1,
      phase: "sft",
      loss: NaN,
      a: Infinity,
      b: -Infinity,
      c: -0.5,
      note: "text",
      none: null,
    };
    expect(encodeMetrics(record)).toContain('"loss":"NaN"');
    expect(decodeMetrics(encodeMetrics(record))).toEqual(record);
  });

  test("packing a transcript loses nothing but digits beyond the sixth", () => {
    const value = fc.option(
      fc.integer({ min: -99999, max: 99999 }).map((n) => n / 1000),
      { nil: undefined },
    );
    const token = fc
      .record({
        id: fc.nat(),
        text: fc.string({ unit: "binary" }),
        role: fc.constantFrom(...ROLES),
        turn: fc.nat(5),
        logProb: value,
        advantage: value,
        surprise: fc.constantFrom(undefined, NaN, Infinity, 1),
      })
      .map(({ logProb, advantage, surprise, ...rest }) => ({
        ...rest,
        ...(logProb === undefined ? {} : { logProb }),
        ...(advantage === undefined ? {} : { advantage }),
        ...(surprise === undefined ? {} : { surprise }),
      }));
    fc.assert(
      fc.property(fc.array(token), (tokens) => {
        const record = { ...transcript(1), tokens };
        const json = JSON.stringify(packTranscript(record));
        expect(unpackTranscript(JSON.parse(json) as PackedTranscript)).toEqual(record);
      }),
    );
    const digits = (reward: number): number => unpackTranscript(packTranscript({ ...transcript(1), reward })).reward;
    expect([1 / 3, -1234567.8, 2e-9 / 3].map(digits)).toEqual([0.333333, -1234570, 6.66667e-10]);
    const long = {
      ...transcript(1),
      tokens: Array.from({ length: 300 }, () => transcript(1).tokens[1]).filter((t) => t !== undefined),
    };
    // Columns with runs: a constant column costs the same for 3 tokens and for 300.
    const { ids: _, texts: _t, roles: _r, ...columns } = packTranscript(long).tokens;
    expect(columns).toEqual({
      turns: { runs: [1, 300] },
      logProb: { runs: [-0.5, 300] },
      oldLogProb: { runs: [-0.5, 300] },
      advantage: { runs: [0.25, 300] },
      wPolicy: { runs: [0.01, 300] },
    });
  });

  test("columns that do not agree are an error", () => {
    const packed = packTranscript(transcript(1));
    expect(() => unpackTranscript({ ...packed, tokens: { ...packed.tokens, roles: "pt" } })).toThrow(
      /3 ids but 2 roles/,
    );
    expect(() => unpackTranscript({ ...packed, tokens: { ...packed.tokens, roles: "pxt" } })).toThrow(
      /unknown role letter "x"/,
    );
    // Before a single cell is unpacked: these would take gigabytes.
    const withTurns =
      (...runs: number[]): (() => unknown) =>
      () =>
        unpackTranscript({ ...packed, tokens: { ...packed.tokens, turns: { runs } } });
    expect(withTurns(0, 1e8)).toThrow("3 ids but 100000000 turns");
    expect(withTurns(0, 1e300)).toThrow("1e+300 is no count of a run");
    expect(withTurns(0, 4, 0, -1)).toThrow("-1 is no count of a run");
    expect(withTurns(0, 1.5, 0, 1.5)).toThrow("1.5 is no count of a run");
  });
});
