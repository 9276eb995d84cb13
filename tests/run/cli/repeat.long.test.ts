/**
 * A run that is repeated from its own flags.json, killed and resumed, as real processes: it has the lines of the first,
 * and so have its files for other programs.
 */
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { metricsOf, ONE_AGENT, startIn } from "../../support/mainJob.ts";

const folder = mkdtempSync(join(tmpdir(), "worldgrad-repeat-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const pathOf = (...names: string[]): string => join(folder, "runs", ...names);
/** The steps and phases in a run's metrics.csv. */
const rowsOf = (name: string): string[] =>
  readFileSync(pathOf(name, "metrics.csv"), "utf8")
    .trim()
    .split("\n")
    .slice(1)
    .map((row) => row.split(",").slice(0, 2).join());

test("from its flags.json, killed and resumed", async () => {
  const flags = [...ONE_AGENT, "--device", "wasm", "--report-to", "tensorboard,csv"];
  const first = startIn(folder, "run/cli/main.ts", [...flags, "--name", "first"]);
  expect(await first.done, first.seen()).toBe(0);

  const again = ["--config", "runs/first/flags.json", "--name", "again"];
  const killed = startIn(folder, "run/cli/main.ts", again);
  const hasBegun = (): boolean => existsSync(pathOf("again", "metrics.csv")) && rowsOf("again").length > 14;
  while (!hasBegun()) {
    expect(killed.child.exitCode, killed.seen()).toBe(null);
    await new Promise((next) => setTimeout(next, 5));
  }
  process.kill(-killed.child.pid!, "SIGKILL");
  await killed.done;
  const resumed = startIn(folder, "run/cli/main.ts", ["--resume", "runs/again", "--device", "wasm"]);
  expect(await resumed.done, resumed.seen()).toBe(0);

  expect(metricsOf(pathOf("again"))).toEqual(metricsOf(pathOf("first")));
  expect(rowsOf("again")).toEqual(rowsOf("first"));
  expect(rowsOf("again")).toEqual(metricsOf(pathOf("again")).map(({ step, phase }) => [step, phase].join()));
  expect(readFileSync(pathOf("again", "flags.json"), "utf8")).toBe(readFileSync(pathOf("first", "flags.json"), "utf8"));
});
