/**
 * * A file system with a fault at one call, for code that runs in this process. Every call of `node:fs` and
 * `node:fs/promises` that is named here, on a path under one folder, is counted; at a chosen one the process "dies"
 * (nothing that it does later reaches the disk), or the call fails. Calls on other paths, and those that Node makes
 * inside of one, pass. A call that is awaited is made at once, and is one call: what it would interleave with is not
 * tried.
 */
import fs from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import process from "node:process";
import { Platter, POWER, type PowerLoss } from "./powerLoss.ts";

/** With a loss of power the process dies after the call. */
export type Fault = "dead before" | "dead after" | "torn" | "EIO" | "ENOSPC" | PowerLoss;

const isPower = (fault: Fault): fault is PowerLoss => POWER.includes(fault as PowerLoss);

/** The end of the process: what a program does after it changes nothing. */
export class Death extends Error {}

const NAMES = [
  "appendFileSync",
  "closeSync",
  "copyFileSync",
  "existsSync",
  "fsyncSync",
  "linkSync",
  "mkdirSync",
  "openSync",
  "readFileSync",
  "readdirSync",
  "renameSync",
  "rmSync",
  "statSync",
  "truncateSync",
  "writeFileSync",
] as const;
export type CallName = (typeof NAMES)[number];
export const INTERCEPTED: readonly string[] = NAMES;
/** Of `node:fs/promises`; each is faulty as its synchronous namesake. */
const AWAITED = ["copyFile", "mkdir", "readFile", "rename", "rm", "writeFile"] as const;
export const INTERCEPTED_AWAITED: readonly string[] = AWAITED;

/** A call that was made. */
export interface Call {
  readonly name: CallName;
  readonly path: string;
  /** Whether it may have changed what is on the disk. */
  readonly changes: boolean;
}

const CHANGES: readonly CallName[] = [
  ...([
    "appendFileSync",
    "copyFileSync",
    "linkSync",
    "mkdirSync",
    "renameSync",
    "rmSync",
    "truncateSync",
    "writeFileSync",
  ] as const),
];
/** Those that can be cut in the middle, and those that need room on the disk. */
const TORN: readonly CallName[] = ["appendFileSync", "rmSync", "writeFileSync"];
const NEED_ROOM: readonly CallName[] = [
  ...(["appendFileSync", "copyFileSync", "linkSync", "mkdirSync", "renameSync", "writeFileSync"] as const),
];
/** Node names the file in the errors of these only, not in those of a descriptor. */
const OF_DESCRIPTORS: readonly CallName[] = ["closeSync", "fsyncSync"];

/** Whether a fault can befall a call, and leaves something else than one at the call before. */
export function canBefall(fault: Fault, { name, changes }: Call): boolean {
  if (fault === "torn") return TORN.includes(name);
  if (fault === "ENOSPC") return NEED_ROOM.includes(name) || (name === "openSync" && changes);
  if (fault === "power, flushed only") return name === "fsyncSync";
  if (fault === "power, half of the removals") return name === "rmSync";
  return !isPower(fault) || changes;
}

type Function = (...args: readonly unknown[]) => unknown;

export class FaultyDisk {
  /** Since the last `plan`. */
  calls: Call[] = [];
  #at = -1;
  #fault: Fault = "EIO";
  #isDead = false;
  #isInside = false;
  readonly #folder: string;
  readonly #real = { ...fs } as unknown as Readonly<Record<string, Function>>;
  readonly #realAwaited = { ...fs.promises } as unknown as Readonly<Record<string, Function>>;
  readonly #files = new Map<unknown, string>();
  #platter: Platter | undefined;

  /** From now on, until `dispose`, calls on paths in `folder` are counted. */
  constructor(folder: string) {
    this.#folder = folder;
    for (const name of NAMES) {
      Object.assign(fs, { [name]: (...args: readonly unknown[]) => this.#call(name, args) });
    }
    for (const name of AWAITED) {
      const call = async (...args: readonly unknown[]): Promise<unknown> =>
        this.#isOurs(this.#pathOf(`${name}Sync`, args))
          ? this.#call(`${name}Sync`, args)
          : await this.#realAwaited[name]!(...args);
      Object.assign(fs.promises, { [name]: call });
    }
    syncBuiltinESMExports();
  }

  dispose(): void {
    Object.assign(fs, Object.fromEntries(NAMES.map((name) => [name, this.#real[name]])));
    Object.assign(fs.promises, Object.fromEntries(AWAITED.map((name) => [name, this.#realAwaited[name]])));
    syncBuiltinESMExports();
  }

  /** A new process begins, whose call number `at` (from 0) meets the fault; −1: none does. */
  plan(at = -1, fault: Fault = "EIO"): void {
    this.calls = [];
    [this.#at, this.#fault, this.#isDead] = [at, fault, false];
    this.#platter = at >= 0 && isPower(fault) ? this.#inside(() => new Platter(this.#folder, this.#real)) : undefined;
  }

  get isDead(): boolean {
    return this.#isDead;
  }

  /** What a call is about: a copy is about what it makes. */
  #pathOf(name: CallName, args: readonly unknown[]): string | undefined {
    const at = args[name === "copyFileSync" ? 1 : 0];
    return typeof at === "string" ? at : this.#files.get(at);
  }

  #isOurs(path: string | undefined): path is string {
    return !this.#isInside && path !== undefined && path.startsWith(this.#folder);
  }

  #call(name: CallName, args: readonly unknown[]): unknown {
    const path = this.#pathOf(name, args);
    if (!this.#isOurs(path)) return this.#real[name]!(...args);
    if (this.#isDead) throw new Death(`dead: ${name} ${path}`);
    const changes = CHANGES.includes(name) || (name === "openSync" && args[1] !== "r");
    const isIt = this.calls.push({ name, path, changes }) - 1 === this.#at;
    if (!isIt) return this.#perform(name, args);
    switch (this.#fault) {
      case "dead before":
        return this.#die(name, path);
      case "dead after":
        this.#perform(name, args);
        return this.#die(name, path);
      case "power, flushed only":
      case "power, half of the removals":
      case "power, all names":
      case "power, half of the bytes":
        this.#perform(name, args);
        this.#inside(() => this.#platter!.lose(this.#fault as PowerLoss));
        return this.#die(name, path);
      case "torn":
        this.#tear(name, args);
        return this.#die(name, path);
      case "EIO":
        if (name === "closeSync") this.#perform(name, args); // the descriptor is gone even so
        if (name === "existsSync") return false; // which is how it fails
        break;
      case "ENOSPC":
        if (TORN.includes(name)) this.#tear(name, args);
    }
    const isNamed = typeof args[0] === "string" && !OF_DESCRIPTORS.includes(name);
    const [syscall, code] = [name.replace(/(File)?Sync$/, ""), this.#fault];
    // The message of Node's: an appended or written file is one descriptor, whose errors do not name it.
    const place = isNamed && !["appendFileSync", "writeFileSync"].includes(name) ? ` '${path}'` : "";
    throw Object.assign(new Error(`${code}: planted, ${syscall}${place}`), { code, syscall, errno: -5 });
  }

  #die(name: CallName, path: string): never {
    this.#isDead = true;
    throw new Death(`dead at ${name} ${path}`);
  }

  #perform(name: CallName, args: readonly unknown[]): unknown {
    const path = this.#pathOf(name, args)!;
    return this.#inside(() => {
      // The machine does not go down here: a flush is noted only.
      const result = name === "fsyncSync" ? undefined : this.#real[name]!(...args);
      this.#platter?.note(name, args, path);
      if (name === "openSync") this.#files.set(result, String(args[0]));
      if (name === "closeSync") this.#files.delete(args[0]);
      return result;
    });
  }

  /** Calls that Node or the tests make meanwhile are not the program's. */
  #inside<T>(act: () => T): T {
    this.#isInside = true;
    try {
      return act();
    } finally {
      this.#isInside = false;
    }
  }

  /** Half of the call: half of the bytes, half of the entries of a folder. */
  #tear(name: CallName, args: readonly unknown[]): void {
    const [target, data, ...rest] = args;
    if (name === "rmSync") {
      const path = String(target);
      if (fs.statSync(path, { throwIfNoEntry: false })?.isDirectory() !== true) return;
      const entries = fs.readdirSync(path).toSorted();
      for (const entry of entries.slice(0, Math.ceil(entries.length / 2)))
        this.#perform("rmSync", [`${path}/${entry}`, { recursive: true }]);
      return;
    }
    const bytes = typeof data === "string" ? new TextEncoder().encode(data) : (data as Uint8Array);
    this.#perform(name, [target, bytes.subarray(0, bytes.length >> 1), ...rest]);
  }
}

/**
 * * What another process finds after one has died: locks whose owner is gone, temporary files and folders with the
 * number of a process that is not its own.
 */
export function afterDeath(folder: string): void {
  for (const name of fs.readdirSync(folder, { recursive: true }) as string[]) {
    const path = `${folder}/${name}`;
    if (!fs.existsSync(path)) continue;
    if (/\.pid(\.\d+\.tmp)?$/.test(name))
      fs.writeFileSync(path, fs.readFileSync(path, "utf8").replace(/"began":"/, '"began":"0'));
    if (new RegExp(`\\.${process.pid}\\.(tmp|old)$`).test(name))
      fs.renameSync(path, path.replace(/\d+(?=\.\w+$)/, "4194305"));
  }
}
