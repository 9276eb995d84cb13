/**
 * The engine `sandbox`: a task in bubblewrap, without an image. The tools of this machine are there to read, everything
 * else can be written and is kept in memory. A task is built once; its tree is kept as an archive, which each episode
 * unpacks.
 */
import { join } from "node:path";
import { fail } from "../../engine/errors.ts";
import type { SandboxLimits } from "../sandbox/bubblewrap.ts";
import { failToStart, quoted } from "../sandbox/files.ts";
import { ROOT_VARIABLES, type SandboxKind, usrParts, wholeRoot } from "../sandbox/kinds.ts";
import { type CommandResult, Session } from "../sandbox/session.ts";
import { archiveOf, contextPaths } from "./context.ts";
import type { BuildStep } from "./dockerfile.ts";
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
import { STAND_INS, standIns } from "./standIns.ts";
import type { HarborTask, Variables } from "./task.ts";

/** Seconds for what the host does inside beside scripts of tasks, and for packing and unpacking trees. */
const [SECONDS, LONG] = [20, 120];
/** Bytes of a host command's output. */
const FEW = 4000;
/** Where the files of a build's context are while it is built, and what the step at hand says. */
const [CONTEXT, LOG] = ["/.context", "/dev/shm/.build.log"];
/** What an archive of a tree does not have, since each sandbox has its own. */
const OF_THE_SANDBOX =
  "bin sbin lib lib64 proc dev .bash .supervisor .stand-ins .context tmp/.state.0 tmp/.state.1 " +
  "etc/alternatives etc/ld.so.cache etc/ssl/openssl.cnf etc/mime.types etc/perl";

const limitsOf = (task: HarborTask, settings: HarborSettings): SandboxLimits => ({
  processes: settings.processes,
  // Address space is no memory: programs reserve far more than a task's `memory_mb`.
  memoryMb: settings.memoryMb,
  diskMb: Math.min(settings.diskMb, task.storageMb ?? Infinity),
  openFiles: 1024,
  cpuSeconds: Math.ceil(
    scaled(task.buildSeconds, settings) + scaled((task.agentSeconds ?? 3600) + task.verifierSeconds, settings),
  ),
});

const kindOf = ({ usrLocal }: HarborSettings): SandboxKind => wholeRoot(usrLocal === "write");

/** A command that reads an archive of so many bytes from descriptor 10, and unpacks it. */
const unpack = (bytes: number, to: string): string =>
  `/usr/bin/head -c ${bytes} <&10 | ` +
  `{ /usr/bin/tar x -p --no-same-owner -C ${quoted(to)}; code=$?; /usr/bin/cat > /dev/null; exit $code; }`;

/** A program with these variables and no others. */
const withVariables = (env: Variables, words: readonly string[]): string =>
  ["/usr/bin/env", "-i", ...Object.entries(env).map(([name, value]) => `${name}=${value}`), ...words]
    .map(quoted)
    .join(" ");

const ahead = ({ PATH, ...env }: Variables): Variables => ({ ...env, PATH: `${STAND_INS}:${PATH}` });

/** Names of files that Python and pytest load without being asked. */
const LOADED =
  "conftest.py pytest.py pytest.ini .pytest.ini tox.ini setup.cfg pyproject.toml " +
  "*.pth sitecustomize.py usercustomize.py";
/** The number of suspects that are named. */
const MOST_SUSPECTS = 5;

class SandboxMachine implements Machine {
  readonly #session: Session;
  readonly #workdir: string;
  readonly #env: Variables;
  /** Seconds since 1970. */
  readonly #since = Date.now() / 1000;

  constructor(session: Session, workdir: string, env: Variables) {
    this.#session = session;
    this.#workdir = workdir;
    this.#env = env;
  }

  run(command: string, limits: { readonly seconds: number; readonly outputBytes: number }): Promise<CommandResult> {
    return this.#session.run(command, limits);
  }

  async put(archive: Buffer, to: string): Promise<boolean> {
    const path = quoted(to);
    const command = `/usr/bin/rm -rf -- ${path} && /usr/bin/mkdir -p -- ${path} && ${unpack(archive.length, to)}`;
    return (await this.#session.runBeside(command, { seconds: SECONDS, outputBytes: FEW }, archive)).code === 0;
  }

  async script({ file, env, seconds, log, standIns: hasStandIns = false }: HostScript): Promise<ScriptEnd> {
    if (hasStandIns && !(await putStandIns(this.#session))) return { code: undefined, isLate: false };
    const all = { ...this.#env, ...env };
    const words = withVariables(hasStandIns ? ahead(all) : all, ["/bin/bash", file]);
    const logs = LOGS.map(
      (path) => `[ -d ${path} ] && [ ! -L ${path} ] || { /usr/bin/rm -rf ${path}; /usr/bin/mkdir -p ${path}; }`,
    );
    const command = [
      "exec 10<&-",
      ...logs,
      `/usr/bin/rm -rf -- ${quoted(log)}`,
      `cd -- ${quoted(this.#workdir)} || cd /`,
      `exec ${words} > ${quoted(log)} 2>&1`,
    ].join("\n");
    const { code, problem } = await this.#session.runBeside(command, { seconds, outputBytes: FEW });
    return { code, isLate: problem === "timeout" };
  }

  async suspects(): Promise<readonly string[]> {
    const names = LOADED.split(" ")
      .map((name) => `-name ${quoted(name)}`)
      .join(" -o ");
    // The time of a file's change cannot be set, other than that of its content.
    const command = `/usr/bin/find / -xdev -newerct @${this.#since} \\( ${names} \\) -type f -print0 2>&-`;
    const { output } = await this.#session.runBeside(
      `${command} | /usr/bin/head -z -n ${MOST_SUSPECTS} | /usr/bin/tr '\\0\\n' '\\n?'`,
      { seconds: SECONDS, outputBytes: FEW },
    );
    return output.split("\n").filter((path) => path !== "");
  }

  async remove(paths: readonly string[]): Promise<void> {
    await this.#session.runBeside(`/usr/bin/rm -rf -- ${paths.map(quoted).join(" ")}`, {
      seconds: SECONDS,
      outputBytes: FEW,
    });
  }

  async stop(): Promise<boolean> {
    return (await this.#session.runForHost(":", { seconds: SECONDS, outputBytes: FEW })) !== undefined;
  }

  async read(path: string, most: number): Promise<FoundFile> {
    const [name, directory] = [quoted(path), quoted(path.replace(/\/[^/]*$/, "") || "/")];
    const stat = await this.#session.runForHost(
      `[ "$(/usr/bin/realpath -m -- ${directory})" = ${directory} ] || { echo link; exit; }\n` +
        `[ -e ${name} ] || [ -L ${name} ] || { echo none; exit; }\n` +
        `/usr/bin/stat -c '%f %s' -- ${name}`,
      { seconds: SECONDS, outputBytes: FEW },
    );
    if (stat === undefined) return { problem: "cannot be read" };
    const said = stat.toString().trim();
    if (said === "none") return undefined;
    if (said === "link") return { problem: "is in a directory that is a link" };
    const [mode, size] = said.split(" ");
    if ((parseInt(mode!, 16) & 0o170000) !== 0o100000) return { problem: "is no regular file" };
    if (Number(size) > most) return { problem: `has ${size} bytes, at most ${most} are read` };
    const bytes = await this.#session.runForHost(`/usr/bin/cat -- ${name}`, {
      seconds: SECONDS,
      outputBytes: most + 1,
    });
    return bytes === undefined ? { problem: "cannot be read" } : { bytes };
  }

  close(): void {
    this.#session.close();
  }
}

/** Writes the stand-ins. @returns whether they are there */
async function putStandIns(session: Session): Promise<boolean> {
  const lines = [`/usr/bin/rm -rf ${STAND_INS}`, `/usr/bin/mkdir -m 755 ${STAND_INS} || exit`];
  let data = "";
  for (const [name, text] of await standIns()) {
    lines.push(`/usr/bin/head -c ${Buffer.byteLength(text)} <&10 > ${STAND_INS}/${name} || exit`);
    data += text;
  }
  lines.push(`/usr/bin/chmod 755 ${STAND_INS}/*`);
  const end = await session.runBeside(lines.join("\n"), { seconds: SECONDS, outputBytes: FEW }, Buffer.from(data));
  return end.code === 0;
}

/** A build's step as a command of the shell. */
function commandOf(step: BuildStep): string {
  if (step.kind === "run") {
    const env = ahead({ ...ROOT_VARIABLES, ...step.env });
    return `cd -- ${quoted(step.workdir)} && ${withVariables(env, [...step.shell, step.command])}`;
  }
  const to = quoted(step.to);
  const isDirectory = step.to.endsWith("/");
  /** The mode of a file that lies at `target`, or of all that a directory gave. */
  const change = (target: string): string =>
    step.mode === undefined ? ":" : `/usr/bin/chmod ${quoted(step.mode)} -- ${target}`;
  if (step.kind === "write") {
    const inside = quoted(`${step.to.replace(/\/+$/, "")}/${step.name}`);
    return [
      `target=${to}`,
      `{ ${isDirectory} || [ -d ${to} ]; } && target=${inside}`,
      `/usr/bin/mkdir -p -- "$(/usr/bin/dirname -- "$target")" && printf %s ${quoted(step.text)} > "$target" || exit`,
      change('"$target"'),
    ].join("\n");
  }
  const sources = step.sources.map((source) => join("/", source).slice(1));
  // As Docker does it: of a directory the content is copied, a file goes under its name if the target is a directory,
  // and a link that is named is followed.
  const one = (source: string): string => {
    const pattern = source.replace(/[^\w./*?[\]-]/gu, "\\$&");
    // Root has no rights here beyond those of an owner, so its directories stay open to it.
    const [entries, inside] = [`cd -- "$each" && /usr/bin/find . -mindepth 1`, `cd -- ${to} && /usr/bin/xargs -0 -r`];
    const ofAll =
      step.mode === undefined
        ? ":"
        : `(${entries} -depth ! -type l -print0) | (${inside} ${change("")}) && ` +
          `(${entries} -type d -print0) | (${inside} /usr/bin/chmod u+rwx --)`;
    return [
      `found=`,
      `for each in ${CONTEXT}/${pattern}; do`,
      `  [ -e "$each" ] || [ -L "$each" ] || continue`,
      `  found=1`,
      `  if [ -d "$each" ]; then`,
      `    /usr/bin/mkdir -p -- ${to} && /usr/bin/cp -a -- "$each/." ${to} && ${ofAll} || exit`,
      `  elif [ -d ${to} ] || ${isDirectory || /[*?[]/.test(source)}; then`,
      `    target=${to}/"\${each##*/}"`,
      `    /usr/bin/mkdir -p -- ${to} && /usr/bin/cp -a -H -- "$each" ${to}/ && ${change('"$target"')} || exit`,
      `  else`,
      `    /usr/bin/mkdir -p -- "$(/usr/bin/dirname -- ${to})" || exit`,
      `    /usr/bin/cp -a -H -- "$each" ${to} && ${change(to)} || exit`,
      `  fi`,
      `done`,
      `[ -n "$found" ] || { echo ${quoted(`${source} is not in the context`)}; exit 1; }`,
    ].join("\n");
  };
  // With Docker a `*` stands for names that begin with a dot, too.
  return ["shopt -s dotglob", ...sources.map(one)].join("\n");
}

/** Builds a task in a sandbox of its own. @returns its tree, as an archive */
async function buildTree(task: HarborTask, settings: HarborSettings): Promise<Buffer> {
  const { steps, workdir } = task.plan!;
  const session = new Session(limitsOf(task, settings), kindOf(settings));
  const broken = (what: string): never => {
    throw new BuildError(`cannot be built here: ${what}`);
  };
  try {
    const limits = { seconds: LONG, outputBytes: FEW };
    const start = performance.now();
    // Images of Python, and builds that make the link, have both names.
    const python =
      settings.usrLocal === "write"
        ? "[ -e /usr/bin/python ] || /usr/bin/ln -s /usr/bin/python3 /usr/local/bin/python"
        : ":";
    const begun = await session.runBeside(
      `/usr/bin/mkdir -p -- ${CONTEXT} ${quoted(workdir)} && { ${python}; }`,
      limits,
    );
    if (begun.code !== 0) await failToStart(session);
    if (!(await putStandIns(session))) broken("no room for stand-ins");
    if (steps.some(({ kind }) => kind === "copy")) {
      const folder = join(task.folder, "environment");
      const archive = await archiveOf(folder, contextPaths(folder));
      const { code } = await session.runBeside(unpack(archive.length, CONTEXT), limits, archive);
      if (code !== 0) broken("environment/ does not fit (env.diskMb)");
    }
    for (const step of steps) {
      const left = scaled(task.buildSeconds, settings) - (performance.now() - start) / 1000;
      if (left <= 0) broken("[environment] build_timeout_sec is over");
      const what =
        step.kind === "run" ? `RUN ${step.command.trim().split("\n")[0]!.slice(0, 60)}` : step.kind.toUpperCase();
      const command = [
        "exec 10<&-",
        `/usr/bin/mkdir -p -- ${quoted(step.workdir)}`,
        `{\n${commandOf(step)}\n} > ${LOG} 2>&1`,
      ].join("\n");
      const { code, problem } = await session.runBeside(command, { seconds: left, outputBytes: FEW });
      if (code === 0) continue;
      if (problem === "timeout")
        broken(`line ${step.line}: ${what}: [environment] build_timeout_sec, ${task.buildSeconds} s, is over`);
      const log = await session.runBeside(`/usr/bin/tail -c 2000 ${LOG}`, limits);
      const last = log.output.trimEnd().split("\n").at(-1)!.trim();
      broken(`line ${step.line}: ${what}: ${problem ?? (last || `exit code ${code}`)}`);
    }
    const usr = settings.usrLocal === "write" ? [...usrParts().keys()].map((path) => path.slice(1)) : ["usr"];
    const excluded = [...OF_THE_SANDBOX.split(" "), ...usr].map((path) => `--exclude=./${path}`);
    const tree = await session.runForHost(
      `/usr/bin/tar c --anchored --one-file-system --format=gnu --blocking-factor=20 ${excluded.join(" ")} -C / .`,
      { seconds: LONG, outputBytes: 2 * limitsOf(task, settings).diskMb * 2 ** 20 },
    );
    return tree ?? broken("its tree cannot be packed (env.diskMb)");
  } finally {
    session.close();
  }
}

/** Trees of built tasks, by folder and limits; the oldest goes first. */
const trees = new Map<string, { readonly tree: Promise<Buffer>; bytes: number }>();
/** Bytes of trees that are kept. */
const MOST_KEPT = 2 ** 30;

/** Counts a tree that was built, and forgets the oldest ones if all are too much. */
function keep(key: string, bytes: number): void {
  trees.get(key)!.bytes = bytes;
  let sum = [...trees.values()].reduce((total, tree) => total + tree.bytes, 0);
  for (const [old, tree] of trees) {
    if (sum <= MOST_KEPT) return;
    if (old === key || tree.bytes === 0) continue;
    trees.delete(old);
    sum -= tree.bytes;
  }
}

/** The engine `sandbox`. */
export function sandboxEngine(settings: HarborSettings): Engine {
  const treeOf = (task: HarborTask): Promise<Buffer> => {
    const key = JSON.stringify([task.folder, settings.usrLocal, limitsOf(task, settings)]);
    const found = trees.get(key);
    if (found !== undefined) return found.tree;
    const tree = buildTree(task, settings);
    trees.set(key, { tree, bytes: 0 });
    tree.then(
      ({ length }) => keep(key, length),
      () => trees.delete(key),
    );
    return tree;
  };
  return {
    async check() {
      const session = new Session({ processes: 16, memoryMb: 256, diskMb: 1 }, kindOf(settings));
      try {
        const { code } = await session.runBeside(":", { seconds: SECONDS, outputBytes: FEW });
        if (code !== 0) await failToStart(session);
      } finally {
        session.close();
      }
    },
    async build(task) {
      await treeOf(task);
    },
    async start(task) {
      const tree = await treeOf(task);
      const session = new Session(limitsOf(task, settings), kindOf(settings));
      const workdir = task.workdir ?? task.plan!.workdir;
      const env = { ...ROOT_VARIABLES, ...task.plan!.env, ...task.env };
      try {
        const directories = [...LOGS, workdir].map(quoted).join(" ");
        const command = `${unpack(tree.length, "/")} && /usr/bin/mkdir -p -- ${directories}`;
        const limits = { seconds: LONG, outputBytes: FEW };
        const { code } = await session.runBeside(command, limits, tree);
        if (code === undefined) await failToStart(session);
        if (code !== 0) fail(`the tree of ${task.name} cannot be unpacked`);
        const exports = Object.entries(env).map(([name, value]) => `export ${name}=${quoted(value)}`);
        await session.run([...exports, `cd -- ${quoted(workdir)}`].join("\n"), limits);
      } catch (error) {
        session.close();
        throw error;
      }
      return new SandboxMachine(session, workdir, env);
    },
  };
}
