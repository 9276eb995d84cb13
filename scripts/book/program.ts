/**
 * Runs a chapter as a program of its own and says what it printed. The chapter may differ from the one on the disk
 * (that is how "Break it" is run). It is bundled first, because a process that compiles for itself starts slowly.
 */
import { spawnSync } from "node:child_process";
import { dirname, resolve } from "node:path";
import process from "node:process";
import { build } from "esbuild";

export interface Printed {
  /** What the program printed; if it ended in an error, the error is the last line, `Name: message`. */
  readonly text: string;
  readonly failed: boolean;
}

/** An error that nobody catches becomes the last line of the output, without the stack and its paths of the machine. */
const ERRORS = `process.on("uncaughtException", (e) => {
  console.log(e instanceof Error ? e.name + ": " + e.message : String(e));
  process.exitCode = 1;
});`;

/**
 * @param path of the chapter from the root, such as `learn/01-tape.ts`
 * @throws if the program does not compile, is stopped, or writes to stderr
 */
export async function run(source: string, path: string, seconds = 300): Promise<Printed> {
  const { outputFiles } = await build({
    stdin: { contents: source, resolveDir: dirname(resolve(path)), sourcefile: path, loader: "ts" },
    bundle: true,
    write: false,
    packages: "external",
    platform: "node",
    format: "esm",
    target: "node20",
    keepNames: true, // printed names of classes and functions stay what they are in the source
    logLevel: "silent", // the error that is thrown says everything
    banner: { js: ERRORS },
  });
  // One thread: the numbers are the same bits for any number of them, and a page may have one only.
  const { stdout, stderr, status, signal } = spawnSync(process.execPath, ["--input-type=module", "-"], {
    input: outputFiles[0]!.text,
    encoding: "utf8",
    timeout: seconds * 1000,
    env: { ...process.env, WORLDGRAD_THREADS: "1", NO_COLOR: "1" },
  });
  if (signal !== null) throw new Error(`${path}: stopped by ${signal}, after ${seconds} s at most`);
  if (stderr !== "") throw new Error(`${path}: wrote to stderr: ${stderr}`);
  if (status !== 0 && status !== 1) throw new Error(`${path}: ended with status ${status}`);
  return { text: stdout, failed: status !== 0 };
}

/** What of an output is compared: lines that depend on the clock up to the word "measured". */
export function comparable(output: string): string {
  return output
    .split("\n")
    .map((line) => line.replace(/\bmeasured\b.*$/, "measured"))
    .join("\n");
}
