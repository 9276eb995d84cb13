/** `npm run mutate` as a program: what it says to its flags. */
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import process from "node:process";
import { describe, expect, it } from "vitest";
import { packageFolder } from "../../scripts/packageFolder.ts";

describe("npm run mutate", () => {
  const run = (...args: string[]): { status: number | null; stdout: string; stderr: string } =>
    spawnSync(process.execPath, ["--import", "tsx", join(packageFolder, "scripts/mutate.ts"), ...args], {
      encoding: "utf8",
      cwd: packageFolder,
    });

  it.each([["--jobs", "0"], ["--jobs", "x"], ["--unknown"], ["--only", "("], ["--only", "no such edit"]])(
    "%s %s: one line, exit code 2",
    (...args) => {
      const { status, stdout, stderr } = run(...args);
      expect([status, stdout]).toEqual([2, ""]);
      expect(stderr).toMatch(/^mutate: .+\n$/);
    },
  );

  it("--list says what would be tried", () => {
    const { status, stdout } = run("--list", "--only", "objective/value");
    expect(status).toBe(0);
    expect(stdout).toMatch(/^rl\/objective\/value\.ts:\d+ {2}mask {2}where\(mask, value, 0\) → value$/m);
  });
});
