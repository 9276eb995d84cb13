/** Programs with threads, as processes of their own. */
import { spawn } from "node:child_process";
import { resolve } from "node:path";
import process from "node:process";
import { describe, expect, it } from "vitest";
import { programAt } from "../support/programs.ts";

describe("a program with threads ends by itself", () => {
  const run = (how: string): Promise<{ code: number | null; text: string }> =>
    new Promise((done) => {
      // One of them from its sources. With a flag of the whole process, which threads may not be given.
      const program = "tests/support/asyncProgram.ts";
      const [command, file] =
        how === "end" ? [resolve("node_modules/.bin/tsx"), resolve(program)] : [process.execPath, programAt(program)];
      const child = spawn(command, ["--max-old-space-size=2000", file, how], { timeout: 290_000 });
      let text = "";
      child.stdout.on("data", (chunk: Buffer) => (text += chunk.toString()));
      child.stderr.on("data", (chunk: Buffer) => (text += chunk.toString()));
      child.on("close", (code) => done({ code, text }));
    });

  it.each([
    ["end", "step 0\nstep 1\nstep 2\nstep 3\n"],
    ["leave", "step 0\nstep 1\n"],
    ["unknown", 'unknown environment "unheard", expected toy, waiting\n'],
    ["nowhere", "every rollout worker has ended, after 1 restarts; the last one: Cannot find module"],
  ])("%s", async (how, said) => {
    const { code, text } = await run(how);
    expect(text).toContain(said);
    expect(code).toBe(0);
  });
});
