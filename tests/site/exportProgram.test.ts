/** The exported program: run in Node on the package's sources, it prints the metrics that a session of the page has. */
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { afterAll, expect, test } from "vitest";
import { device as makeDevice } from "../../engine/index.ts";
import { encodeMetrics, type MetricsRecord } from "../../run/records.ts";
import { experimentOf } from "../../site/experiment.ts";
import { programOf } from "../../site/exportProgram.ts";
import { Session, warmUp } from "../../site/session.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "worldgrad-export-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const quiet = { phase() {}, update() {}, evaluation() {}, transcript() {}, note() {} };
const timeless = ({ step_time: _time, tokens_per_second: _rate, ...line }: MetricsRecord): string =>
  encodeMetrics(line);

test("prints the metrics of both agents, bit for bit", { timeout: 300_000 }, async () => {
  const experiment = experimentOf(new URLSearchParams("quick=true&seed=3&steps=2&set=rl.groups=2"));
  const path = join(folder, "experiment.ts");
  const text = programOf(experiment);
  writeFileSync(path, text);
  expect(text).toContain("both: quick,seed=3,steps=2,rl.groups=2.");
  const program = join(folder, "experiment.mjs");
  const alias = { worldgrad: join(ROOT, "index.ts"), "worldgrad/run": join(ROOT, "run/index.ts") };
  // The device of one entry point is the default of the other: both are one bundle, as they share files in the package.
  await build({ entryPoints: [path], outfile: program, bundle: true, format: "esm", platform: "node", alias });
  const { status, stdout, stderr } = spawnSync(process.execPath, [program], { encoding: "utf8", cwd: folder });
  expect([status, stderr]).toEqual([0, ""]);
  const printed = stdout.trim().split("\n");

  const on = await makeDevice("wasm", { threads: 1 });
  const warm = (await warmUp(experiment.warm, on, quiet, new AbortController().signal))!;
  for (const { arm, preset } of experiment.agents) {
    const session = new Session(preset, warm, on, quiet);
    await session.playTo();
    const name = `${JSON.stringify(arm.label)} `;
    const own = printed.filter((line) => line.startsWith(name)).map((line) => line.slice(name.length));
    const lines = own.map((line) => timeless(JSON.parse(line) as MetricsRecord));
    expect(lines).toEqual(session.metrics.map(timeless));
  }
  on.dispose();
});
