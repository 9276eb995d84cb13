/**
 * Metrics for other programs: the event file, read back here by a reader of its own, and metrics.csv. What TensorBoard
 * itself read is in docs/log.md.
 */
import { appendFileSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, utimesSync } from "node:fs";
import { hostname, tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { maskedCrc32c } from "../../../run/node/eventFile.ts";
import { createRun, openRun, type RunFolder } from "../../../run/node/runFolder.ts";
import type { MetricsRecord } from "../../../run/records.ts";

let base = "";
beforeEach(() => {
  base = mkdtempSync(join(tmpdir(), "worldgrad-reporters-"));
});
afterEach(() => rmSync(base, { recursive: true, force: true }));

interface Field {
  readonly number: number;
  readonly value: number | Buffer;
}

/** The fields of a message of Protocol Buffers; numbers of 4 and 8 bytes are floats. */
function fieldsOf(message: Buffer): Field[] {
  const fields: Field[] = [];
  let at = 0;
  const varint = (): number => {
    let value = 0;
    for (let factor = 1; ; factor *= 128) {
      const byte = message[at++]!;
      value += (byte & 127) * factor;
      if (byte < 128) return value;
    }
  };
  const take = (length: number): Buffer => message.subarray(at, (at += length));
  while (at < message.length) {
    const key = varint();
    const read: Readonly<Record<number, () => number | Buffer>> = {
      0: varint,
      1: () => take(8).readDoubleLE(),
      2: () => take(varint()),
      5: () => take(4).readFloatLE(),
    };
    fields.push({ number: key >> 3, value: read[key & 7]!() });
  }
  return fields;
}

interface Event {
  readonly seconds: number;
  readonly step: number;
  readonly version?: string;
  readonly starts?: boolean;
  readonly values?: Readonly<Record<string, number>>;
}

function eventOf(message: Buffer): Event {
  const [{ value: seconds }, { value: step }, what] = fieldsOf(message) as [Field, Field, Field];
  const data = what.value as Buffer;
  const head = { seconds: seconds as number, step: step as number };
  if (what.number === 3) return { ...head, version: data.toString() };
  if (what.number === 7) return { ...head, starts: data.equals(Buffer.from([8, 1])) };
  const values = fieldsOf(data).map(({ value }) => {
    const [tag, number] = fieldsOf(value as Buffer);
    expect([tag!.number, number!.number]).toEqual([1, 2]);
    return [String(tag!.value), number!.value as number] as const;
  });
  return { ...head, values: Object.fromEntries(values) };
}

const eventFiles = (path: string): string[] => readdirSync(path).filter((name) => name.includes("tfevents"));

/** The events of a file, whose checksums are right; a record that is cut off ends it. */
function eventsIn(path: string): Event[] {
  const bytes = readFileSync(path);
  const events: Event[] = [];
  for (let at = 0; at + 12 <= bytes.length;) {
    const length = Number(bytes.readBigUInt64LE(at));
    expect(bytes.readUInt32LE(at + 8)).toBe(maskedCrc32c(bytes.subarray(at, at + 8)));
    const [from, to] = [at + 12, at + 12 + length];
    if (to + 4 > bytes.length) break;
    expect(bytes.readUInt32LE(to)).toBe(maskedCrc32c(bytes.subarray(from, to)));
    events.push(eventOf(bytes.subarray(from, to)));
    at = to + 4;
  }
  return events;
}

/** The events of a run's newest file. */
const eventsOf = (run: RunFolder): Event[] => eventsIn(join(run.path, eventFiles(run.path).toSorted().at(-1)!));
const csvOf = (run: RunFolder): string => readFileSync(join(run.path, "metrics.csv"), "utf8");
const line = (step: number): MetricsRecord => ({ step, phase: "rl", reward: step / 8, step_time: 2 });

test("the checksum is CRC-32C with TensorFlow's mask", () => {
  const masked = (crc: number): number => (((crc >>> 15) | (crc << 17)) + 0xa282ead8) >>> 0;
  // The first is everybody's check value; the others are of RFC 3720, B.4.
  expect(maskedCrc32c(Buffer.from("123456789"))).toBe(masked(0xe3069283));
  expect(maskedCrc32c(new Uint8Array(32))).toBe(masked(0x8a9136aa));
  expect(maskedCrc32c(new Uint8Array(32).fill(255))).toBe(masked(0x62a8ab43));
  expect(maskedCrc32c(Uint8Array.from({ length: 32 }, (_, i) => i))).toBe(masked(0x46dd794e));
});

describe("the event file", () => {
  test("has TensorFlow's name, and a run's values under its three groups, step 0 and odd names included", () => {
    const run = createRun(join(base, "run"), {});
    utimesSync(join(run.path, "config.json"), 1000, 1000);
    run.reportTo(["tensorboard"]);
    const odd = 'a "name",\nwith ä😀@2';
    run.appendMetrics({ step: 0, phase: "sft", loss: 1.5, step_time: 2 });
    run.appendMetrics({ step: 1, phase: "rl", loss: NaN, zero: 0, [odd]: -Infinity, text: "none", none: null });
    run.appendMetrics({ step: 5_000_000_000, phase: "eval", "pass@2": Infinity, step_time: 3 });
    expect(eventFiles(run.path)).toEqual([expect.stringMatching(/^events\.out\.tfevents\.\d{10}\./)]);
    expect(eventFiles(run.path)[0]!.endsWith(`.${hostname()}`)).toBe(true);
    expect(eventsOf(run)).toEqual([
      { seconds: 1000, step: 0, version: "brain.Event:2" },
      { seconds: 1000, step: 0, starts: true },
      { seconds: 1002, step: 0, values: { "warm_start/loss": 1.5, "warm_start/step_time": 2 } },
      { seconds: 1002, step: 1, values: { "train/loss": NaN, "train/zero": 0, [`train/${odd}`]: -Infinity } },
      { seconds: 1005, step: 5_000_000_000, values: { "eval/pass@2": Infinity, "eval/step_time": 3 } },
    ]);
  });

  test("of a run that was killed in a record and resumed has every step once", () => {
    const run = createRun(join(base, "run"), {});
    run.reportTo(["tensorboard", "csv"]);
    for (let step = 0; step < 6; step++) {
      run.appendMetrics(line(step));
      if (step === 2) run.saveCheckpoint(3, { "state.json": "" });
    }
    const [killed] = eventFiles(run.path);
    appendFileSync(join(run.path, killed!), eventsBytes(run).subarray(0, 20));
    appendFileSync(join(run.path, "metrics.csv"), "6,rl,0.");
    const again = openRun(run.path);
    again.rewindTo(again.loadLatestCheckpoint());
    for (let step = 3; step < 8; step++) again.appendMetrics(line(step));
    const steps = [0, 1, 2, 3, 4, 5, 6, 7];
    expect(eventsOf(again).flatMap(({ step, values }) => (values ? [step] : []))).toEqual(steps);
    expect(csvOf(again)).toBe(`step,phase,reward,step_time\n${steps.map((n) => `${n},rl,${n / 8},2\n`).join("")}`);
    // An open TensorBoard goes on from a file that is there and has nothing more, to a name that comes later.
    expect(statSync(join(run.path, killed!)).size).toBe(0);
    expect(eventFiles(run.path).toSorted()[0]).toBe(killed);
    // The next time the empty one goes.
    openRun(run.path).rewindTo(null);
    expect(eventFiles(run.path)).not.toContain(killed);
    expect(eventFiles(run.path)).toHaveLength(2);
    expect(eventsOf(again)).toHaveLength(2);
  });

  test("is the same while a run is trained, after a resumption, and made from a finished run", () => {
    const [live, resumed, made] = ["live", "resumed", "made"].map((name) => createRun(join(base, name), {})) as [
      RunFolder,
      RunFolder,
      RunFolder,
    ];
    for (const { path } of [live, resumed, made]) utimesSync(join(path, "config.json"), 1000, 1000);
    for (const run of [live, resumed]) run.reportTo(["tensorboard"]);
    for (let step = 0; step < 4; step++) {
      for (const run of [live, resumed, made]) run.appendMetrics(line(step));
      if (step === 1) for (const run of [live, resumed, made]) run.saveCheckpoint(2, { "state.json": "" });
    }
    resumed.rewindTo(resumed.loadLatestCheckpoint());
    for (const step of [2, 3]) resumed.appendMetrics(line(step));
    expect(eventFiles(made.path)).toEqual([]);
    made.reportTo(["tensorboard"]);
    const written = eventFiles(made.path);
    openRun(made.path).reportTo(["tensorboard"]);
    expect(eventFiles(made.path)).toEqual(written);
    for (const run of [resumed, made]) expect(eventsBytes(run)).toEqual(eventsBytes(live));
  });

  test("refuses a step that is no whole number", () => {
    const run = createRun(join(base, "run"), {});
    run.reportTo(["tensorboard"]);
    expect(() => run.appendMetrics({ step: 0.5, phase: "rl" })).toThrow("expected an integer step ≥ 0, got 0.5");
  });
});

const eventsBytes = (run: RunFolder): Buffer => readFileSync(join(run.path, eventFiles(run.path).toSorted().at(-1)!));

describe("metrics.csv", () => {
  test("gets a column for a metric that comes later, and quotes names", () => {
    const run = createRun(join(base, "run"), {});
    run.reportTo(["csv"]);
    expect(csvOf(run)).toBe("step,phase\n");
    run.appendMetrics({ step: 0, phase: "sft", loss: 0.5 });
    run.appendMetrics({ step: 1, phase: "rl", 'a "b",c': NaN, loss: -Infinity });
    run.appendMetrics({ step: 2, phase: "eval", loss: null, text: "x,y" });
    expect(csvOf(run)).toBe('step,phase,loss,"a ""b"",c",text\n0,sft,0.5,,\n1,rl,-Infinity,NaN,\n2,eval,,,"x,y"\n');
  });

  test("goes on in a run that is opened again, also without a name", () => {
    const run = createRun(join(base, "run"), {});
    run.appendMetrics(line(0));
    expect(readdirSync(run.path)).not.toContain("metrics.csv");
    run.reportTo(["csv"]);
    openRun(run.path).appendMetrics(line(1));
    openRun(run.path).reportTo(["tensorboard"]);
    openRun(run.path).appendMetrics(line(2));
    expect(csvOf(run)).toBe("step,phase,reward,step_time\n0,rl,0,2\n1,rl,0.125,2\n2,rl,0.25,2\n");
    expect(eventsOf(run).flatMap(({ step, values }) => (values ? [step] : []))).toEqual([0, 1, 2]);
  });
});
