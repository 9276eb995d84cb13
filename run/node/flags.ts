/**
 * The flags of all programs: parseArgs of `node:util`, with errors of one line that name what was expected and what
 * came.
 */
import { join } from "node:path";
import { inspect, parseArgs } from "node:util";
import { WorldgradError } from "../../engine/index.ts";
import { nearest } from "../../engine/options.ts";
import { UsageError } from "../usage.ts";
import { visible } from "../visible.ts";
import { agentFolder } from "./comparison.ts";
import { openRun, type RunFolder } from "./runFolder.ts";

/** parseArgs with clearer errors, which suggest the nearest known flag for an unknown one. */
export function parse(
  args: readonly string[],
  flags: Record<string, { readonly type: "string" | "boolean"; readonly multiple?: boolean }>,
  meant: (name: string) => string | undefined = () => undefined,
): Record<string, string | boolean | readonly (string | boolean)[] | undefined> {
  const joined = joinNegativeNumbers(args, flags).map((arg) => (arg === "-h" && flags["help"] ? "--help" : arg));
  const seen = new Set<string>();
  for (const arg of joined) {
    if (!arg.startsWith("-")) continue;
    const name = arg.replace(/^--?/, "").split("=")[0]!;
    if (arg.startsWith("--") && Object.hasOwn(flags, name)) {
      if (seen.has(name) && !flags[name]!.multiple) throw new UsageError(`--${name} is there twice`);
      seen.add(name);
      continue;
    }
    const known = meant(name) ?? nearest(name, Object.keys(flags));
    throw new UsageError(
      `unknown flag ${arg.split("=")[0]}${known ? `; did you mean --${known}?` : ""} (--help lists all)`,
    );
  }
  try {
    return parseArgs({ args: joined, options: flags, strict: true, allowPositionals: false }).values;
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    const alone = /^Unexpected argument '(.*?)'\. /s.exec(reason)?.[1];
    const hint = flags["run"] ? `did you mean --run ${alone}?` : "a value stands behind its flag";
    if (alone !== undefined) throw new UsageError(`unexpected argument "${alone}"; ${hint} (--help lists all)`);
    const bare = /^Option '(?:-\w, )?--(\S+?)(?: <value>)?' argument/.exec(reason)?.[1];
    if (bare !== undefined) throw new UsageError(`--${bare} expects a value (--help lists all)`);
    throw new UsageError(reason.split("\n")[0]);
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

/**
 * Opens the run folder that a flag names; for a comparison that of an agent, which a line names.
 * @param shown the name of its source in messages
 */
export function openGiven(flag: string, path: string, shown = `--${flag}`): RunFolder {
  try {
    return openRun(agentFolder(flag, path, (line) => console.error(visible(line))));
  } catch (error) {
    if (error instanceof UsageError) throw error;
    throw new UsageError(`${shown}: ${error instanceof Error ? error.message : String(error)}`);
  }
}

/** The path that `--run` gives. @throws UsageError if it gives none */
export function runPath({ run }: Readonly<Record<string, unknown>>): string {
  if (typeof run === "string") return run;
  throw new UsageError("--run: expected the path of a run folder, as in --run runs/NAME");
}

/** The folder of a new run: `name` is used or refused, and without it the other one, with a number if it is taken. */
export function freeFolder(name: string | undefined, otherwise: string, isFree: (path: string) => boolean): string {
  const path = join("runs", name ?? otherwise);
  if (name !== undefined && !isFree(path))
    throw new UsageError(`--name: ${path} exists; continue it with --resume ${path}, or choose another name`);
  let free = path;
  for (let n = 2; !isFree(free); n++) free = `${path}-${n}`;
  return free;
}

/**
 * Prints an error, whose text may be foreign, and returns the exit code: 2 for a mistake of the user, 1 for everything
 * else.
 */
export function report(error: unknown): number {
  if (error instanceof UsageError) {
    console.error(visible(`worldgrad: ${error.message}`));
    return 2;
  }
  // The message of a system error (no permission, no space) names the file, and that of a time-out the environment.
  const isKnown = error instanceof Error && ("syscall" in error || error.name === "TimeoutError");
  if (error instanceof WorldgradError || isKnown) console.error(visible(`worldgrad: ${error.message}`));
  else console.error(visible(inspect(error)));
  return 1;
}
