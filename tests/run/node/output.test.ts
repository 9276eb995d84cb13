/** A reader of standard output that is slow, reads late, or reads nothing: what the program does, and how long. */
import { spawn } from "node:child_process";
import process from "node:process";
import { expect, test } from "vitest";

/** Runs a program over run/node/output.ts. @param read is given its standard output, which nobody reads before */
async function run(
  program: string,
  read: (output: NodeJS.ReadableStream) => void,
): Promise<{ code: number | null; errors: string }> {
  const text = `import { displayOutput, outliveOutput, outputTaken } from "./run/node/output.ts";
    outliveOutput();
    ${program}`;
  const args = ["--import", "tsx", "--input-type=module", "--eval", text];
  const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "pipe"] });
  let errors = "";
  child.stderr.on("data", (chunk: Buffer) => (errors += String(chunk)));
  read(child.stdout);
  const code = await new Promise<number | null>((end) => child.on("exit", end));
  child.stdout.destroy();
  return { code, errors };
}

const LINE = "x".repeat(99);
/** Ten megabytes, as a display writes them: line by line, while other things go on. */
const DISPLAY = `
  for (let i = 0; i < 100_000; i++) {
    displayOutput.write("${LINE}\\n");
    if (i % 1_000 === 0) await new Promise((next) => setImmediate(next));
  }
  const waiting = process.stdout.writableLength;
  await outputTaken(500);
  console.error(JSON.stringify({ waiting }));
  process.exit(0);`;

test(
  "a reader that reads nothing: lines are left out, and the end is waited for a while",
  { timeout: 60_000 },
  async () => {
    const { code, errors } = await run(DISPLAY, () => undefined);
    expect(code, errors).toBe(0);
    const { waiting } = JSON.parse(errors) as { readonly waiting: number };
    expect(waiting).toBeGreaterThan(2 ** 20);
    expect(waiting).toBeLessThan(2 ** 20 + 200);
  },
);

test("a reader that begins late misses nothing of what fits", { timeout: 60_000 }, async () => {
  let bytes = 0;
  const program = `
    for (let i = 0; i < 5_000; i++) displayOutput.write("${LINE}\\n");
    await outputTaken();
    process.exit(3);`;
  const { code, errors } = await run(program, (output) => {
    setTimeout(() => output.on("data", (chunk: Buffer) => (bytes += chunk.length)), 3_000);
  });
  expect(code, errors).toBe(3);
  expect(bytes).toBeGreaterThan(4e5);
  expect(errors).toBe("");
});

test("a reader that goes: one line on standard error, and the program goes on", { timeout: 60_000 }, async () => {
  const { code, errors } = await run(DISPLAY, (output) => {
    output.once("data", () => (output as unknown as { destroy(): void }).destroy());
  });
  expect(code, errors).toBe(0);
  expect(errors).toMatch(/^worldgrad: standard output is gone .*; it goes on without it\n\{"waiting":\d+\}\n$/);
});
