/**
 * Run of a chapter in its own process, and its output. The source may differ from the file, as after "Break it". It is
 * bundled first, because a process that compiles starts slowly.
 */
import { spawnSync } from "node:child_process";
import { dirname, resolve } from "node:path";
import process from "node:process";
import { build } from "esbuild";

export interface Printed {
  /** Output of the program. After an uncaught error the last line is `Name: message`. */
  readonly text: string;
  readonly failed: boolean;
}

/** Handler that prints an uncaught error as the last line, without its stack, which has paths of the machine. */
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
    keepNames: true, // a program may print names of classes and functions
    logLevel: "silent", // the thrown error has all messages
    banner: { js: ERRORS },
  });
  // One thread, because a page may have only one; the numbers are bitwise equal for any number.
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

/** Compared part of an output: of lines that depend on the clock, what precedes the word "measured". */
export function comparable(output: string): string {
  return output
    .split("\n")
    .map((line) => line.replace(/\bmeasured\b.*$/, "measured"))
    .join("\n");
}
