/**
 * A fault at every call of the file system, as SQLite is tested (https://sqlite.org/testing.html): the smallest run
 * of the main job is made again and again, and each time another of its calls dies before or after it was done, is torn
 * in the middle, or fails, or the power goes (tests/support/powerLoss.ts). Then it is resumed, and has to end as the
 * run that nothing happened to: the same metrics (times apart), transcripts, weights and file names. A call that fails
 * has to end the program with one line that names a file. Then the same for the run that was killed and is resumed,
 * which is the fault that comes twice, for an arm of a comparison, and for what a run on a pretrained model exports.
 */
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import process from "node:process";
import { afterAll, beforeAll, expect, test, type TestContext, vi } from "vitest";
import { type Device, device as makeDevice } from "../../../engine/device.ts";
import { WorldgradError } from "../../../engine/errors.ts";
import { presetFor, presetOf } from "../../../run/presets.ts";
import { Run } from "../../../run/run.ts";
import { makeFolder } from "../../../run/node/disk.ts";
import { exportRun } from "../../../run/node/exportRun.ts";
import { startOptions } from "../../../run/startOptions.ts";
import { lockFolder } from "../../../run/node/lock.ts";
import { createRun, isFree, openRun, type RunFolder } from "../../../run/node/runFolder.ts";
import { type Job, SUMMARY } from "../../../run/arms/jobs.ts";
import { trainJob } from "../../../run/arms/train.ts";
import { writeReport } from "../../../run/report/report.ts";
import {
  afterDeath,
  type Call,
  canBefall,
  Death,
  type Fault,
  FaultyDisk,
  INTERCEPTED,
  INTERCEPTED_AWAITED,
} from "../../support/faultyDisk.ts";
import { lastCheckpoint, metricsOf } from "../../support/mainJob.ts";
import { POWER } from "../../support/powerLoss.ts";
import { QUIET, tinyPreset } from "../../support/tinyRun.ts";
import { tried } from "../../support/tried.ts";

// The page's script is always the same; bundling it takes longer than the run.
vi.mock("../../../run/page/assets.ts", () => ({
  bundlePage: () => Promise.resolve({ script: "", style: "", scriptHash: "", styleHash: "" }),
}));

const base = mkdtempSync(join(existsSync("/dev/shm") ? "/dev/shm" : tmpdir(), "worldgrad-faults-"));
/** Where the program is started: it makes the folder of all runs, too. */
const here = join(base, "here");
const root = join(here, "runs");
const path = join(root, "run");
const preset = tinyPreset("--steps", "2");
const signal = new AbortController().signal;
let device: Device;
let disk: FaultyDisk;
beforeAll(async () => {
  device = await makeDevice("wasm");
  disk = new FaultyDisk(here);
});
afterAll(() => {
  disk.dispose();
  device.dispose();
  rmSync(base, { recursive: true, force: true });
});

/** What a user starts, and starts again. */
type Program = () => Promise<void>;

/** `npm start`, as run/cli/main.ts does it: a new run where none is, else the one that is there. */
const start: Program = async () => {
  makeFolder(root);
  const release = await lockFolder(path);
  try {
    const isNew = isFree(path);
    const folder = isNew ? createRun(path, { preset }) : openRun(path);
    const run = new Run(folder, presetOf(folder), device, QUIET, signal);
    try {
      const summary = await run.run(!isNew);
      await writeReport(folder, summary!);
    } finally {
      run.dispose();
    }
  } finally {
    release();
  }
};

/** The process of a second arm, as run/arms/cell.ts does it, unless it is finished. */
const WARM = join(base, "warm");
const arm: Job = { path, preset, from: WARM, device: "wasm" };
const startArm: Program = async () => {
  if (existsSync(join(path, SUMMARY))) return;
  makeFolder(root);
  const release = await lockFolder(path);
  try {
    expect(await trainJob(arm, device, QUIET, signal)).toBe(true);
  } finally {
    release();
  }
};

/** All that a run has made, without times. */
function outcome(): Record<string, unknown> {
  // A stale lock may stay where nobody needs the folder any more: an arm that is finished is not started again.
  const files = readdirSync(root, { recursive: true })
    .map(String)
    .filter((name) => name !== "run.pid")
    .toSorted();
  const { "state.json": state, "checkpoint.json": _, ...kept } = lastCheckpoint(path);
  const { seconds: _seconds, ...rest } = JSON.parse(String(state)) as Record<string, unknown>;
  return {
    files,
    metrics: metricsOf(path),
    transcripts: readFileSync(join(path, "transcripts.jsonl"), "utf8"),
    state: rest,
    weights: Object.fromEntries(Object.entries(kept).map(([name, bytes]) => [name, bytes.toString("base64")])),
    report: readFileSync(join(path, "report.html"), "utf8").trimEnd().endsWith("</html>"),
  };
}

/** Runs the program with a fault at one of its calls. @returns its calls, and how it ended */
async function attempt(program: Program, at: number, fault: Fault): Promise<{ calls: Call[]; ended: unknown }> {
  disk.plan(at, fault);
  const listeners = process.listeners("exit");
  const ended: unknown = await program().then(
    () => undefined,
    (error: unknown) => error ?? "nothing",
  );
  const [calls, { isDead }] = [disk.calls, disk];
  disk.plan();
  for (const added of process.listeners("exit")) if (!listeners.includes(added)) process.off("exit", added);
  if (ended !== undefined) afterDeath(here);
  if (isDead) expect(ended).toBeInstanceOf(Death);
  else if (ended !== undefined) {
    // As `report` of run/node/flags.ts prints it: one line, which names what could not be used.
    expect(ended instanceof WorldgradError || (ended instanceof Error && "syscall" in ended)).toBe(true);
    expect((ended as Error).message).not.toContain("\n");
    expect((ended as Error).message).toContain(here);
  }
  return { calls, ended };
}

/** Nothing is there but what the program makes. */
function clear(): void {
  rmSync(here, { recursive: true, force: true });
  mkdirSync(here);
}

/** The undisturbed run. @param prepare what is there before */
async function undisturbed(program: Program, prepare: () => void): Promise<{ calls: Call[]; whole: unknown }> {
  clear();
  prepare();
  const { calls, ended } = await attempt(program, -1, "EIO");
  expect(ended).toBe(undefined);
  return { calls, whole: outcome() };
}

/** Of the losses of power "all names" lies between two others, and is left to powerLoss.long.test.ts. */
const POWER_HERE = POWER.filter((how) => how !== "power, all names");
const FAULTS: readonly Fault[] = ["dead before", "torn", "EIO", "ENOSPC", "dead after", ...POWER_HERE];

/** Whether a fault can befall call `k`, and leaves another disk than one at the call before. */
function leavesMore(fault: Fault, calls: readonly Call[], k: number): boolean {
  // Dead before a call is the same disk as dead after the one before it, if anything has changed in between.
  if (fault === "dead after" && k < calls.length - 1) return false;
  if (fault === "dead before" && k > 0 && !calls[k - 1]!.changes) return false;
  return canBefall(fault, calls[k]!);
}

/** Each fault at each call that it can befall. */
async function everyFault(context: TestContext, what: string, program: Program, prepare: () => void): Promise<void> {
  const { calls, whole } = await undisturbed(program, prepare);
  const failed: string[] = [];
  let runs = 0;
  for (const fault of FAULTS) {
    for (const [k, call] of calls.entries()) {
      if (!leavesMore(fault, calls, k)) continue;
      const where = `${what}: ${fault} at call ${k}, ${call.name} ${relative(base, call.path)}`;
      clear();
      prepare();
      try {
        const first = await attempt(program, k, fault);
        expect(first.calls.length).toBeGreaterThan(k);
        const last = await attempt(program, -1, fault);
        expect(last.ended).toBe(undefined);
        expect(outcome()).toEqual(whole);
      } catch (error) {
        failed.push(`${where}: ${error instanceof Error ? error.message.slice(0, 1000) : String(error)}`);
      }
      runs++;
    }
  }
  tried(context, { calls: calls.length, "runs with a fault": runs });
  expect(failed).toEqual([]);
}

const nothing = (): void => undefined;
/**
 * Seconds of the processor that all faults may take together, so that they stay a part of every CI run: 95 alone on one
 * machine, up to 130 there beside other work, as two threads of one core count in full; 199 to 211 alone on another.
 */
const BUDGET = 300;
const began = process.cpuUsage();
/** The budget is what counts; the time that passes is that of a machine on which others compute, too. */
const LIMIT = { timeout: 1_800_000 };

test("npm start, a fault at every call", LIMIT, async (context) => {
  await everyFault(context, "npm start", start, nothing);
});

test("a resumed run, a fault at every call", LIMIT, async (context) => {
  const { calls } = await undisturbed(start, nothing);
  clear();
  // Killed between the log lines of a step and its checkpoint.
  const renamed = calls.flatMap(({ name, path: to }, k) => (name === "renameSync" && to.includes(".step") ? [k] : []));
  await attempt(start, renamed.at(-2)!, "dead before");
  const killed = join(base, "killed");
  cpSync(root, killed, { recursive: true });
  await everyFault(context, "npm start -- --resume", start, () => cpSync(killed, root, { recursive: true }));
});

test("an arm of a comparison, a fault at every call", LIMIT, async (context) => {
  const release = await lockFolder(WARM);
  await trainJob({ path: WARM, preset, device: "wasm" }, device, QUIET, signal);
  release();
  await everyFault(context, "an arm", startArm, nothing);
});

/** What a run on a pretrained model writes for other programs at its end, from the checkpoint alone. */
test("an export in the place of an older one, a fault at every call", LIMIT, async () => {
  const texts = join(base, "texts");
  mkdirSync(texts);
  writeFileSync(join(texts, "tokenizer_config.json"), "{}");
  const step = (run: RunFolder, n: number): void => {
    const names = ["config.json", "tokenizer.json", "model.safetensors", "adapter_model.safetensors"];
    const files = Object.fromEntries(names.map((name) => [name, `${name} of ${n}`]));
    run.saveCheckpoint(n, { ...files, "adapter_config.json": "{}" });
  };
  const preset = presetFor(startOptions({ env: "gridworld" }));
  const exportNewest: Program = async () => {
    const run = openRun(path);
    run.rewindTo(run.loadLatestCheckpoint());
    await exportRun(run, { ...preset, pretrained: { path: texts } } as Parameters<typeof exportRun>[1]);
  };
  const before = join(base, "exported");
  clear();
  step(createRun(path, {}), 1);
  await exportNewest();
  step(openRun(path), 2);
  cpSync(root, before, { recursive: true });
  const prepare = (): void => cpSync(before, root, { recursive: true });
  const parts = ["model", "adapter"];
  const textsIn = (folder: string): Record<string, string> =>
    Object.fromEntries(
      (readdirSync(folder, { recursive: true }) as string[])
        .filter((name) => statSync(join(folder, name)).isFile())
        .map((name) => [name, readFileSync(join(folder, name), "utf8")]),
    );
  const partsIn = (at: string): (object | undefined)[] =>
    parts.map((part) => (existsSync(join(at, part)) ? textsIn(join(at, part)) : undefined));
  const older = partsIn(join(before, "run"));
  clear();
  prepare();
  const { calls } = await attempt(exportNewest, -1, "EIO");
  const [newer, whole] = [partsIn(path), textsIn(root)];
  expect(newer).not.toEqual(older);
  expect(calls.map(({ name }) => name)).toEqual(expect.arrayContaining(["copyFileSync", "renameSync", "mkdirSync"]));
  for (const fault of FAULTS.filter((one) => !POWER_HERE.includes(one as never))) {
    for (const [k, call] of calls.entries()) {
      if (!leavesMore(fault, calls, k)) continue;
      const where = `${fault} at call ${k}, ${call.name} ${relative(base, call.path)}`;
      clear();
      prepare();
      await attempt(exportNewest, k, fault);
      // A folder is the older one or the newer one; between two renames it has another name.
      partsIn(path).forEach((part, i) => expect([older[i], newer[i], undefined], where).toContainEqual(part));
      expect((await attempt(exportNewest, -1, fault)).ended, where).toBe(undefined);
      expect(textsIn(root), where).toEqual(whole);
    }
  }
});

test(`all faults together take less than ${BUDGET} s of the processor`, () => {
  const { user, system } = process.cpuUsage(began);
  expect((user + system) / 1e6).toBeLessThan(BUDGET);
});

test("every call that these files make is one that can fail here", () => {
  const folders = ["run/node", "run", "run/arms", "run/compare"];
  const files = [
    "run/cli/main.ts",
    ...folders.flatMap((folder) => readdirSync(folder).map((name) => `${folder}/${name}`)),
  ];
  const missing = files
    .filter((file) => file.endsWith(".ts"))
    .flatMap((file) => {
      const imports = readFileSync(file, "utf8").matchAll(/import \{([^}]*)\} from "node:fs(\/promises)?"/g);
      return Array.from(imports).flatMap(([, names, awaited]) =>
        names!
          .split(",")
          .map((name) => name.trim())
          .filter((name) => name !== "" && !name.startsWith("type "))
          .filter((name) => !(awaited ? INTERCEPTED_AWAITED : INTERCEPTED).includes(name))
          .map((name) => `${file}: ${name}`),
      );
    });
  // Of models, which these two only read.
  expect(missing).toEqual(["run/node/modelFolder.ts: createReadStream", "run/node/pretrained.ts: open"]);
});
