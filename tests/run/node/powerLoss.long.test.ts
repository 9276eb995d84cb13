/**
 * What is on the disk when a call has returned stays there when the power goes: a run that was made, a checkpoint or a
 * file of the run, with all lines before it. The power goes after every call of a small run's, in the four ways of
 * tests/support/powerLoss.ts, and what is found then is asked for what had been promised. everyFault.long.test.ts does
 * the same to whole runs, and resumes them.
 */
import { existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { MetricsRecord } from "../../../run/records.ts";
import { makeFolder } from "../../../run/node/disk.ts";
import { createRun, openRun } from "../../../run/node/runFolder.ts";
import { canBefall, Death, FaultyDisk } from "../../support/faultyDisk.ts";
import { POWER } from "../../support/powerLoss.ts";

const base = mkdtempSync(join(existsSync("/dev/shm") ? "/dev/shm" : tmpdir(), "worldgrad-power-"));
const root = join(base, "root");
const path = join(root, "runs", "run");
let disk: FaultyDisk;
beforeAll(() => {
  disk = new FaultyDisk(root);
});
afterAll(() => {
  disk.dispose();
  rmSync(base, { recursive: true, force: true });
});

const line = (step: number): MetricsRecord => ({ step, phase: "rl", loss: 1 / step });

/** What the calls that have returned had promised. */
interface Promised {
  isMade: boolean;
  step: number;
  report: string;
}

/** A run with a checkpoint at every second step, of which two are kept; in the middle another process resumes it. */
function program(promised: Promised): void {
  makeFolder(dirname(path)); // as npm start does, for the lock
  let run = createRun(path, { preset: { seed: 3 } });
  promised.isMade = true;
  for (let step = 1; step <= 6; step++) {
    run.appendMetrics(line(step));
    if (step % 2 === 0) {
      run.saveCheckpoint(step, { weights: `weights of ${step}` });
      promised.step = step;
      run.pruneCheckpoints(2);
    }
    if (step === 3) {
      run = openRun(path);
      run.rewindTo(run.loadLatestCheckpoint());
      run.appendMetrics(line(3));
    }
  }
  promised.step = 4; // a step that is saved again is away for a moment
  run.saveCheckpoint(6, { weights: "weights of 6" });
  promised.step = 6;
  run.appendMetrics(line(7));
  run.writeFile("report.html", "<html></html>");
  promised.report = "<html></html>";
  run.appendMetrics(line(8));
  run.saveCheckpoint(8, { weights: "weights of 8" });
  promised.step = 8;
}

/** Runs the program until the power goes. @returns what was promised until then */
function attempt(at: number, how: (typeof POWER)[number]): Promised {
  const promised: Promised = { isMade: false, step: 0, report: "" };
  disk.plan();
  rmSync(root, { recursive: true, force: true });
  mkdirSync(root);
  disk.plan(at, how);
  try {
    program(promised);
  } catch (error) {
    if (!disk.isDead) throw error; // else it is what the library makes of a Death
  }
  return promised;
}

test.each(POWER)("%s", (how) => {
  attempt(-1, how);
  const { calls } = disk;
  disk.plan();
  let tried = 0;
  for (const [k, call] of calls.entries()) {
    if (!canBefall(how, call)) continue;
    const promised = attempt(k, how);
    expect(disk.isDead).toBe(true);
    disk.plan();
    const where = `${how} after call ${k}, ${call.name} ${call.path.slice(root.length)}`;
    tried++;
    if (!existsSync(join(path, "config.json"))) {
      expect(promised.isMade, where).toBe(false);
      expect(() => createRun(path, {}), where).not.toThrow();
      continue;
    }
    const run = openRun(path);
    expect(run.config, where).toEqual({ preset: { seed: 3 } });
    const found = run.loadLatestCheckpoint(); // throws if a checkpoint or a log is not what it was
    expect(found?.step ?? 0, where).toBeGreaterThanOrEqual(promised.step);
    if (found) expect(new TextDecoder().decode(found.files["weights"]), where).toBe(`weights of ${found.step}`);
    if (promised.report !== "") {
      expect(readFileSync(join(path, "report.html"), "utf8"), where).toBe(promised.report);
      expect(run.readMetrics()[6], where).toEqual(line(7));
    }
    run.rewindTo(found);
    expect(run.readMetrics(), where).toEqual(Array.from({ length: found?.step ?? 0 }, (_, i) => line(i + 1)));
    run.appendMetrics(line(9));
    expect(run.readMetrics().at(-1), where).toEqual(line(9));
  }
  expect(tried).toBeGreaterThan(4);
});

test("the power is seen to go: what was not flushed is gone, cut or zeros", () => {
  const [file, other, moved] = ["file", "other", "moved"].map((name) => join(root, name)) as [string, string, string];
  const left = POWER.map((how) => {
    disk.plan();
    rmSync(root, { recursive: true, force: true });
    mkdirSync(root);
    disk.plan(3, how);
    expect(() => {
      writeFileSync(file, "aaaa");
      writeFileSync(other, "bbbb");
      renameSync(file, moved);
      rmSync(join(root, "nothing"), { force: true });
    }).toThrow(Death);
    disk.plan();
    return [file, other, moved].map((at) => (existsSync(at) ? readFileSync(at, "latin1") : undefined));
  });
  expect(left).toEqual([
    [undefined, undefined, undefined],
    [undefined, undefined, undefined],
    [undefined, "", ""],
    [undefined, "bb\0\0", "aa\0\0"],
  ]);
});
