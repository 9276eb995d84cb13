/**
 * The engines `docker` and `podman`: a task in a container of its own image. The program is called by its name, and
 * finds its server as it always does. Containers have the label `worldgrad`, so that what a killed trainer leaves
 * behind can be found: `docker ps --filter label=worldgrad`.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import type { Readable, Writable } from "node:stream";
import { join } from "node:path";
import { fail } from "../../engine/errors.ts";
import { quoted } from "../sandbox/files.ts";
import { type CommandResult, Session } from "../sandbox/session.ts";
import type { Started } from "../sandbox/bubblewrap.ts";
import { ROOT_VARIABLES, wholeRoot } from "../sandbox/kinds.ts";
import { supervisor } from "../sandbox/supervisor.ts";
import { hashOf } from "./context.ts";
import {
  BuildError,
  type Engine,
  type FoundFile,
  type HostScript,
  LOGS,
  type Machine,
  type ScriptEnd,
} from "./machine.ts";
import { type HarborSettings, scaled } from "./options.ts";
import type { HarborTask, Variables } from "./task.ts";

/** Seconds for calls that start nothing of a task. */
const SECONDS = 60;
const LABEL = "worldgrad";

/** What a call of the program came to. */
interface Said {
  readonly code: number | null;
  readonly isLate: boolean;
  readonly out: Buffer;
  /** The last line of its errors. */
  readonly error: string;
}

/** Bytes of an answer that are kept. */
const MOST_BYTES = 2 ** 22;

/** Calls the program. @throws WorldgradError if there is none */
async function call(program: string, words: readonly string[], seconds: number, input?: Buffer): Promise<Said> {
  const child = spawn(program, words, { stdio: ["pipe", "pipe", "pipe"] });
  const pieces: Buffer[] = [];
  let [size, said, isLate] = [0, "", false];
  child.stdout.on("data", (piece: Buffer) => {
    size += piece.length;
    if (size <= MOST_BYTES) pieces.push(piece);
  });
  child.stderr.on("data", (piece: Buffer) => (said = (said + piece.toString()).slice(-2000)));
  child.stdin.on("error", () => undefined).end(input);
  const timer = setTimeout(() => {
    isLate = true;
    child.kill("SIGKILL");
  }, 1000 * seconds);
  const code = await new Promise<number | null>((resolve, reject) => {
    child.on("error", (error) => reject(new Error(`${program}: ${error.message}`)));
    child.on("close", resolve);
  }).finally(() => clearTimeout(timer));
  return { code, isLate, out: Buffer.concat(pieces), error: said.trimEnd().split("\n").at(-1)!.trim() };
}

const variables = (env: Variables): string[] =>
  Object.entries(env).flatMap(([name, value]) => ["--env", `${name}=${value}`]);

/** Starts the supervisor of a session in a container. It is no process 1 there, and says its number first. */
function startInside(program: string, container: string, workdir: readonly string[], processes: number): Started {
  const script = `printf 'pid %s\\n' $$ >&2\n${supervisor(processes, Object.keys(ROOT_VARIABLES))}`;
  const child: ChildProcess = spawn(program, ["exec", "-i", ...workdir, container, "bash", "-c", script], {
    stdio: ["pipe", "pipe", "pipe"],
    detached: true,
  });
  const status = child.stderr as Readable;
  const pid = new Promise<number | undefined>((resolve) => {
    let told = "";
    status.on("data", (chunk: Buffer) => {
      told = (told + chunk.toString("latin1")).slice(0, 1000);
      const found = /pid (\d+)\n/.exec(told)?.[1];
      if (found !== undefined) resolve(Number(found));
    });
    status.on("close", () => resolve(undefined));
    child.on("error", () => resolve(undefined));
  });
  const signal = (inside: number, name: NodeJS.Signals): void => {
    const words = ["exec", container, "kill", `-${name.replace("SIG", "")}`, String(inside)];
    spawn(program, words, { stdio: "ignore" }).on("error", () => undefined);
  };
  // Files come by `cp`.
  return {
    child,
    stdin: child.stdin as Writable,
    stdout: child.stdout as Readable,
    status,
    data: undefined,
    pid,
    signal,
  };
}

class Container implements Machine {
  readonly #program: string;
  readonly #name: string;
  readonly #workdir: readonly string[];
  readonly #session: Session;
  #isClosed = false;

  constructor(program: string, name: string, workdir: string | undefined, processes: number) {
    this.#program = program;
    this.#name = name;
    this.#workdir = workdir === undefined ? [] : ["--workdir", workdir];
    const limits = { processes, memoryMb: 0, diskMb: 0 };
    this.#session = new Session(limits, wholeRoot(false), () => startInside(program, name, this.#workdir, processes));
  }

  #call(words: readonly string[], seconds = SECONDS, input?: Buffer): Promise<Said> {
    return call(this.#program, words, seconds, input);
  }

  /** A command of the host's, by a call of its own: it does not go through the agent's shell. */
  #inside(command: string): Promise<Said> {
    return this.#call(["exec", "--user", "0", this.#name, "/bin/sh", "-c", command]);
  }

  run(command: string, limits: { readonly seconds: number; readonly outputBytes: number }): Promise<CommandResult> {
    return this.#session.run(command, limits);
  }

  async put(archive: Buffer, to: string): Promise<boolean> {
    if ((await this.#inside(`rm -rf '${to}' && mkdir -p '${to}'`)).code !== 0) return false;
    return (await this.#call(["cp", "-", `${this.#name}:${to}`], SECONDS, archive)).code === 0;
  }

  async script({ file, env, seconds, log }: HostScript): Promise<ScriptEnd> {
    await this.#inside(`mkdir -p ${LOGS.join(" ")}; rm -rf '${log}'`);
    const command = `exec /bin/bash '${file}' > '${log}' 2>&1`;
    const words = ["exec", "--user", "0", ...this.#workdir, ...variables(env), this.#name, "/bin/bash", "-c", command];
    const { code, isLate } = await this.#call(words, seconds);
    return { code: code ?? undefined, isLate };
  }

  async remove(paths: readonly string[]): Promise<void> {
    await this.#inside(`rm -rf ${paths.map((path) => `'${path}'`).join(" ")}`);
  }

  /** The tools of an image are not known. */
  suspects(): Promise<undefined> {
    return Promise.resolve(undefined);
  }

  /** Process 1, which only sleeps, stays. */
  async stop(): Promise<boolean> {
    await this.#inside("kill -KILL -1");
    return (await this.#inside(":")).code === 0;
  }

  async read(path: string, most: number): Promise<FoundFile> {
    // Podman's `cp` would follow a link.
    const kind = [`p='${path}'`, '[ ! -L "$p" ] || { echo link; exit; }', '[ ! -f "$p" ] || { echo file; exit; }'];
    const { out: said } = await this.#inside([...kind, '[ ! -e "$p" ] || echo odd'].join("\n"));
    const found = said.toString().trim();
    if (found === "") return undefined;
    if (found !== "file") return { problem: "is no regular file" };
    const { code, out } = await this.#call(["cp", `${this.#name}:${path}`, "-"]);
    return code === 0 ? firstFile(out, most) : { problem: "cannot be read" };
  }

  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#session.close();
    // What has ended is removed (`--rm`).
    spawn(this.#program, ["kill", this.#name], { stdio: "ignore", detached: true })
      .on("error", () => undefined)
      .unref();
  }
}

const BLOCK = 512;

/** The file that is the first entry of an archive, as `docker cp` writes it. */
export function firstFile(archive: Buffer, most: number): FoundFile {
  for (let at = 0; at + BLOCK <= archive.length;) {
    const kind = String.fromCharCode(archive[at + 156]!);
    const size = parseInt(archive.toString("latin1", at + 124, at + 136).replace(/[^0-7]/g, ""), 8);
    if (Number.isNaN(size)) break;
    const from = at + BLOCK;
    // Records about the entry that comes next: times, long names.
    if ("xgLK".includes(kind)) {
      at = from + BLOCK * Math.ceil(size / BLOCK);
      continue;
    }
    if (kind !== "0" && kind !== "\0") return { problem: "is no regular file" };
    if (size > most) return { problem: `has ${size} bytes, at most ${most} are read` };
    return from + size <= archive.length ? { bytes: archive.subarray(from, from + size) } : { problem: "is cut off" };
  }
  return { problem: "cannot be read" };
}

let count = 0;

/** The engines `docker` and `podman`. */
export function dockerEngine(settings: HarborSettings): Engine {
  const program = settings.engine;
  const imageOf = async (task: HarborTask): Promise<string> => {
    if (task.image !== undefined) return task.image;
    const context = join(task.folder, "environment");
    const tag = `worldgrad-harbor:${createHash("sha256").update(hashOf(context)).digest("hex").slice(0, 24)}`;
    if ((await call(program, ["image", "inspect", tag], SECONDS)).code === 0) return tag;
    const words = ["build", "--quiet", "--label", LABEL, "--tag", tag, context];
    const { code, isLate, error } = await call(program, words, scaled(task.buildSeconds, settings));
    if (isLate) throw new BuildError("cannot be built here: [environment] build_timeout_sec is over");
    if (code !== 0) throw new BuildError(`cannot be built here: ${error}`);
    return tag;
  };
  return {
    async check() {
      const { code, error } = await call(program, ["version"], SECONDS).catch((reason: unknown) =>
        fail(`harbor: no ${program}: ${(reason as Error).message}`),
      );
      if (code !== 0) fail(`harbor: ${program} does not work here: ${error}`);
    },
    async build(task) {
      await imageOf(task);
    },
    async start(task) {
      const image = await imageOf(task);
      const name = `worldgrad-${process.pid}-${Date.now().toString(36)}-${++count}`;
      const hasNetwork = settings.network && task.isPublic;
      const memory = Math.min(settings.memoryMb, task.memoryMb ?? Infinity);
      const words = [
        ["run", "--detach", "--rm", "--name", name, "--label", LABEL],
        hasNetwork ? [] : ["--network", "none"],
        ["--memory", `${memory}m`, "--pids-limit", String(settings.processes)],
        ["--security-opt", "no-new-privileges"],
        task.cpus === undefined ? [] : ["--cpus", String(task.cpus)],
        variables(task.env),
        // Process 1 has nothing to do but to wait for processes whose parents have ended.
        ["--entrypoint", "/bin/sh", image, "-c", "while :; do sleep 600 & wait $!; done"],
      ].flat();
      const { code, error } = await call(program, words, scaled(task.buildSeconds, settings));
      if (code !== 0) fail(`harbor: no container of ${image}: ${error}`);
      const directories = [...LOGS, ...(task.workdir === undefined ? [] : [task.workdir])];
      // The image's own user may be another one.
      const made = `mkdir -p ${directories.map(quoted).join(" ")} && chmod 777 ${LOGS.join(" ")}`;
      await call(program, ["exec", "--user", "0", name, "/bin/sh", "-c", made], SECONDS);
      return new Container(program, name, task.workdir, settings.processes);
    },
  };
}
