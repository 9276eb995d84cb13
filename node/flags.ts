/**
 * The flags of all programs: parseArgs of `node:util`, with errors of one line that say what was expected and what
 * came.
 */
import { parseArgs } from "node:util";
import { WorldgradError } from "../engine/index.ts";
import { nearest } from "../engine/options.ts";
import { openRun, type RunFolder } from "./runFolder.ts";

/** A mistake in the command line. It is printed as one line, with exit code 2. */
export class UsageError extends Error {}

/** parseArgs with clearer errors, which suggest the nearest known flag for an unknown one. */
export function parse(
  args: readonly string[],
  flags: Record<string, { readonly type: "string" | "boolean"; readonly multiple?: boolean }>,
): Record<string, string | boolean | readonly (string | boolean)[] | undefined> {
  const joined = joinNegativeNumbers(args, flags);
  const seen = new Set<string>();
  for (const arg of joined) {
    if (!arg.startsWith("-")) continue;
    const name = arg.replace(/^--?/, "").split("=")[0]!;
    if (arg.startsWith("--") && Object.hasOwn(flags, name)) {
      if (seen.has(name) && !flags[name]!.multiple) throw new UsageError(`--${name} is there twice`);
      seen.add(name);
      continue;
    }
    const known = nearest(name, Object.keys(flags));
    throw new UsageError(
      `unknown flag ${arg.split("=")[0]}${known ? `; did you mean --${known}?` : ""} (--help lists all)`,
    );
  }
  try {
    return parseArgs({ args: joined, options: flags, strict: true, allowPositionals: false }).values;
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new UsageError(reason.split("\n")[0]!.replace(/ To specify an option argument.*$/, ""));
  }
}

/** Turns `--lambda -1` into `--lambda=-1`, because parseArgs takes everything that starts with "-" for a flag. */
function joinNegativeNumbers(
  args: readonly string[],
  flags: Record<string, { readonly type: "string" | "boolean" }>,
): string[] {
  const joined: string[] = [];
  for (const arg of args) {
    const last = joined.at(-1) ?? "";
    const isNegativeNumber = /^-[\d.]/.test(arg);
    const awaitsValue =
      last.startsWith("--") && Object.hasOwn(flags, last.slice(2)) && flags[last.slice(2)]!.type === "string";
    if (isNegativeNumber && awaitsValue) joined[joined.length - 1] = `${last}=${arg}`;
    else joined.push(arg);
  }
  return joined;
}

/** The value of a flag that allows some words. */
export function oneOf<T extends string>(flag: string, value: string, allowed: readonly T[]): T {
  const found = allowed.find((name) => name === value);
  if (found === undefined) throw new UsageError(`--${flag}: expected ${allowed.join(", ")}, got "${value}"`);
  return found;
}

/** The value of a flag that is an integer of at least `least`. */
export function wholeNumber(flag: string, value: string, least: number): number {
  const n = Number(value);
  if (value.trim() === "" || !Number.isSafeInteger(n) || n < least) {
    throw new UsageError(`--${flag}: expected an integer ≥ ${least}, got "${value}"`);
  }
  return n;
}

/** The value of a flag that is a number ≥ 0. */
export function numberFrom(flag: string, value: string): number {
  const n = Number(value);
  if (value.trim() === "" || !Number.isFinite(n) || n < 0) {
    throw new UsageError(`--${flag}: expected a number ≥ 0, got "${value}"`);
  }
  return n;
}

/** The value of `--name`, which becomes the name of a folder. */
export function folderName(value: string): string {
  if (!/^[A-Za-z0-9][A-Za-z0-9._-]*$/.test(value)) {
    throw new UsageError(`--name: expected letters, digits, ".", "_" and "-", got "${value}"`);
  }
  return value;
}

/** Opens the run folder that a flag names. */
export function openGiven(flag: string, path: string): RunFolder {
  try {
    return openRun(path);
  } catch (error) {
    throw new UsageError(`--${flag}: ${error instanceof Error ? error.message : String(error)}`);
  }
}

/** Prints an error and returns the exit code: 2 for a mistake of the user, 1 for everything else. */
export function report(error: unknown): number {
  if (error instanceof UsageError) {
    console.error(`worldgrad: ${error.message}`);
    return 2;
  }
  // The message of a system error (no permission, no space) names the file.
  const isSystemError = error instanceof Error && "syscall" in error;
  if (error instanceof WorldgradError || isSystemError) console.error(`worldgrad: ${error.message}`);
  else console.error(error);
  return 1;
}
