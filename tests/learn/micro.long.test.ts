/** learn/00-micro.ts as a program: it prints what its head, the book and docs/reading.md say. */
import { spawnSync } from "node:child_process";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { readSource } from "../project/sources.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));

it("prints what the book keeps of it", { timeout: 600_000 }, () => {
  const args = ["--import", "tsx", "learn/00-micro.ts"];
  const { stdout, stderr } = spawnSync(process.execPath, args, { cwd: ROOT, encoding: "utf8" });
  expect(stderr).toBe("");
  expect(stdout).toBe(readSource("learn/output/00-micro.txt"));
  // What the head says of this seed among others: prediction helps, and lies help neither who predicts nor who reads.
  const last = stdout
    .trim()
    .split("\n")
    .map((line) => Number(/(\d+) %/.exec(line)![1]));
  expect(last[1]! - last[0]!).toBeGreaterThan(20);
  expect(last[0]! - last[2]!).toBeGreaterThan(20);
  expect(last[2]! - last[3]!).toBeGreaterThan(10);
});
