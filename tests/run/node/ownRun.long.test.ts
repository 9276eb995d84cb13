/**
 * The loop of docs/agents.md (examples/run-folder.ts): a program of one's own whose run is resumed to the same bits,
 * and read by the doctor, which makes its report.
 */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { openRun } from "../../../run/node/runFolder.ts";
import { startFromSourceIn } from "../../support/mainJob.ts";

const work = mkdtempSync(join(tmpdir(), "worldgrad-own-run-"));
afterAll(() => rmSync(work, { recursive: true }));

/** Runs a program of the project to its end; what it printed, and its exit code. */
async function run(program: string, ...args: string[]): Promise<{ text: string; code: number | null }> {
  const job = startFromSourceIn(work, program, args);
  const code = await job.done;
  return { text: job.seen(), code };
}

it("goes on where it was stopped, with the same bits, and doctor and report read it", async () => {
  for (const steps of ["3", "6"])
    expect(await run("examples/run-folder.ts", "runs/parts", steps)).toMatchObject({ code: 0 });
  expect((await run("examples/run-folder.ts", "runs/whole", "6")).text).toContain("runs/whole: 6 steps");
  const [parts, whole] = ["parts", "whole"].map((name) => openRun(join(work, "runs", name)));
  const weights = (of: typeof parts): Uint8Array => of!.loadLatestCheckpoint()!.files["model.safetensors"]!;
  expect(weights(parts)).toEqual(weights(whole));
  const losses = (of: typeof parts): unknown[] =>
    of!.readMetrics().map(({ step, reward, loss }) => [step, reward, loss]);
  expect(losses(parts)).toEqual(losses(whole));
  expect(parts!.readTranscripts().length).toBeGreaterThan(0);

  const seen = await run("studies/doctor/main.ts", "runs/parts", "--report");
  expect(seen.code).toBe(1); // a random model earns nothing, and that is found
  expect(seen.text).toContain("6 RL steps");
  expect(readFileSync(join(work, "runs/parts/report.html"), "utf8")).toContain("Trajectories");
});
