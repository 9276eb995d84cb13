/** The lock that keeps two processes from training into one folder, with real processes. */
import { type ChildProcess, spawn } from "node:child_process";
import {
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  utimesSync,
  writeFileSync,
  mkdirSync,
} from "node:fs";
import { hostname, tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { afterAll, expect, test } from "vitest";
import { lockFolder } from "../../../run/node/lock.ts";

const base = mkdtempSync(join(tmpdir(), "worldgrad-lock-"));
afterAll(() => rmSync(base, { recursive: true, force: true }));

const LOCK = pathToFileURL(resolve("run/node/lock.ts")).href;

/** Processes that run a program with `lockFolder`, `path` and the number of the process. */
function processes(
  count: number,
  path: string,
  program: string,
): { children: ChildProcess[]; said: Promise<string[]> } {
  const text = `import { lockFolder } from ${JSON.stringify(LOCK)}; const path = ${JSON.stringify(path)}; ${program}`;
  const children = Array.from({ length: count }, () =>
    spawn(process.execPath, ["--import", "tsx", "--input-type=module", "-e", text], {
      stdio: ["pipe", "pipe", "inherit"],
    }),
  );
  const said = children.map(
    (child) =>
      new Promise<string>((end) => {
        let heard = "";
        child.stdout.on("data", (chunk: Buffer) => (heard += chunk.toString()));
        child.on("close", () => end(heard));
      }),
  );
  return { children, said: Promise.all(said) };
}

test("one process at a time has a folder, also when all find a stale lock", { timeout: 60_000 }, async () => {
  const path = join(base, "several");
  // Of a process that is gone: no process has this number.
  writeFileSync(`${path}.pid`, JSON.stringify({ pid: 2 ** 22 + 1, began: "1", host: hostname() }));
  const { said } = processes(
    4,
    path,
    `import { appendFileSync } from "node:fs";
     for (let i = 0; i < 5; i++) {
       const release = await lockFolder(path, { patienceMs: 30_000 });
       appendFileSync(path + ".log", "in ");
       await new Promise((next) => setTimeout(next, 5));
       appendFileSync(path + ".log", "out ");
       release();
     }
     console.log("ended");`,
  );
  expect(await said).toEqual(["ended\n", "ended\n", "ended\n", "ended\n"]);
  expect(readFileSync(`${path}.log`, "utf8")).toBe("in out ".repeat(20));
  expect(readdirSync(base).filter((name) => name.startsWith("several"))).toEqual(["several.log"]);
});

test("who has it is named; its death, by SIGKILL too, gives it back", { timeout: 60_000 }, async () => {
  const path = join(base, "killed");
  const { children, said } = processes(
    1,
    path,
    "await lockFolder(path); console.log('taken'); setInterval(() => {}, 1e6);",
  );
  while (!existsSync(`${path}.pid`)) await new Promise((next) => setTimeout(next, 10));
  await expect(lockFolder(path)).rejects.toThrow(
    `${path} is being trained by process ${children[0]!.pid}; wait for it, or remove ${path}.pid if there is none`,
  );
  children[0]!.kill("SIGKILL");
  await said;
  expect(existsSync(`${path}.pid`)).toBe(true);
  (await lockFolder(path))();
  expect(existsSync(`${path}.pid`)).toBe(false);
});

test("a lock is stale if its number has gone to another process, or its content is none", async () => {
  const path = join(base, "stale");
  const file = `${path}.pid`;
  const { pid } = process;
  for (const content of [JSON.stringify({ pid, began: "1", host: hostname() }), "", "nonsense", "[1]"]) {
    writeFileSync(file, content);
    (await lockFolder(path))();
    expect(existsSync(file)).toBe(false);
  }
  // Whether a process of another machine lives cannot be seen.
  writeFileSync(file, JSON.stringify({ pid, began: "1", host: "elsewhere" }));
  await expect(lockFolder(path)).rejects.toThrow(`process ${pid} on elsewhere`);
  // Somebody died while removing a stale lock.
  writeFileSync(file, "");
  mkdirSync(`${file}.stale`);
  utimesSync(`${file}.stale`, 1, 1);
  (await lockFolder(path))();
  expect(readdirSync(base).filter((name) => name.startsWith("stale"))).toEqual([]);
});

test("an owner that has ended and that nobody waits for is dead", async () => {
  if (process.platform !== "linux") return; // elsewhere there is no /proc to ask
  // The shell becomes a program that does not ask for the end of the shell's child, as the first of a container may.
  const parent = spawn("sh", ["-c", "sleep 0 & echo $!; exec sleep 20"], { stdio: ["ignore", "pipe", "inherit"] });
  const pid = Number(
    await new Promise<string>((said) => parent.stdout.once("data", (x: Buffer) => said(x.toString()))),
  );
  const stat = (): string[] => readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]!.split(" ");
  while (stat()[0] !== "Z") await new Promise((next) => setTimeout(next, 10));
  const path = join(base, "zombie");
  writeFileSync(`${path}.pid`, JSON.stringify({ pid, began: stat()[19], host: hostname() }));
  const giveBack = await lockFolder(path);
  expect(JSON.parse(readFileSync(`${path}.pid`, "utf8"))).toMatchObject({ pid: process.pid });
  giveBack();
  parent.kill();
});
