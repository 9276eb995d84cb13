/**
 * `npm run harbor -- check DIR` finds out which tasks of a folder in the Harbor format can be learnt from: each is
 * built, its own solution is tried, and an agent that does nothing (connect/harbor/checkTasks.ts). `npm run harbor --
 * export DIR` writes tasks of `shell` in that format, for other trainers (connect/shell/folder.ts).
 */
import { existsSync, mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { dirname, join } from "node:path";
import process from "node:process";
import { type CheckedTask, checkTasks, NO_SOLUTION } from "../../connect/harbor/index.ts";
import { shell, taskFolder } from "../../connect/shell/index.ts";
import { parse, report } from "../node/flags.ts";
import { outliveOutput, outputTaken } from "../node/output.ts";
import { numberFrom, oneOf, UsageError, usage, wholeNumber } from "../usage.ts";
import { visible } from "../visible.ts";

const HELP = `worldgrad: tasks in the Harbor format

  npm run harbor -- check DIR [flags]

  Builds every task of DIR, runs its own solution, and an agent that does nothing. A task is ok if the first is worth 1
  and the second less. The exit code is 1 if any task is not.

  --engine NAME        sandbox | docker | podman             (default sandbox)
  --only FILE          the names of the tasks to check, one a line
  --out FILE           writes the names of the tasks that are ok, for --set env.only=FILE
  --jobs N             tasks at a time                        (default: one per processor)
  --timeout-scale X    factor on the tasks' time limits       (default 1)
  --stand-ins          apt-get, pip, uv and curl of the tests take what is on this machine
  --usr-local          gives tasks an empty /usr/local, which builds and agents can write
  --network            tasks whose network is public have one (docker and podman)
  --host-env NAMES     variables of this machine that tasks may have, with + between them
  --memory N           MiB of memory at most                  (default 4096)
  --disk N             MiB that a task may write in the sandbox
                                                              (default 512)
  --without-solution   a task that has no solution is ok if the empty agent is worth less than 1
  --notes              also says what differs from Harbor

  npm run harbor -- export DIR [flags]

  Writes generated tasks of --env shell into DIR, which must be empty or new: a folder for each.

  --tasks N            tasks of each kind                     (default 10)
  --families NAMES     kinds of tasks, with + between them    (default all)
  --split NAME         train | heldout: whose words they have (default train)
  --size N             1 to 4: how much there is in a home    (default 1)

  --help               this text
`;

const TEXT = { type: "string" } as const;
const YES = { type: "boolean" } as const;
const CHECK = {
  engine: TEXT,
  only: TEXT,
  out: TEXT,
  jobs: TEXT,
  "timeout-scale": TEXT,
  "stand-ins": YES,
  "usr-local": YES,
  network: YES,
  "host-env": TEXT,
  memory: TEXT,
  disk: TEXT,
  "without-solution": YES,
  notes: YES,
  help: YES,
} as const;

const reward = (value: number | undefined): string =>
  value === undefined ? "-" : String(Math.round(1000 * value) / 1000);

const EXPORT = { tasks: TEXT, families: TEXT, split: TEXT, size: TEXT, help: YES } as const;
type Values = Readonly<Record<string, string | boolean | undefined>>;

async function main(): Promise<number> {
  outliveOutput();
  const words = process.argv.slice(2);
  const free = words.findIndex((word) => word.startsWith("-"));
  const [verb, path, ...more] = free < 0 ? words : words.slice(0, free);
  const values = parse(free < 0 ? [] : words.slice(free), verb === "export" ? EXPORT : CHECK) as Values;
  if (values["help"]) {
    process.stdout.write(HELP);
    return 0;
  }
  if ((verb !== "check" && verb !== "export") || path === undefined || more.length > 0)
    throw new UsageError(
      "expected check or export, and a folder, as in npm run harbor -- check tasks (--help lists all)",
    );
  return verb === "check" ? check(path, values) : exportTo(path, values);
}

/** Writes tasks of `shell`. */
function exportTo(path: string, values: Values): number {
  const text = (flag: string): string | undefined => values[flag] as string | undefined;
  const tasks = wholeNumber("tasks", text("tasks") ?? "10", 1);
  const known = shell.families.map(({ name }) => name);
  const families = text("families")?.split("+") ?? known;
  for (const name of families) oneOf("families", name, known);
  const split = oneOf("split", text("split") ?? "train", ["train", "heldout"] as const);
  const size = wholeNumber("size", text("size") ?? "1", 1);
  usage(() => shell.make({ size }).close?.());
  if (existsSync(path) && readdirSync(path).length > 0) throw new UsageError(`${path} is not empty`);
  for (const family of families)
    for (let seed = 0; seed < tasks; seed++)
      for (const [file, content] of taskFolder(seed, family, { split, size })) {
        const target = join(path, `${family}-${seed}`, file);
        mkdirSync(dirname(target), { recursive: true });
        writeFileSync(target, content);
      }
  console.log(`${families.length * tasks} tasks: ${path}`);
  return 0;
}

async function check(path: string, values: Values): Promise<number> {
  const text = (flag: string): string | undefined => values[flag] as string | undefined;
  const [only, hostEnv] = [text("only"), text("host-env")];
  const options = {
    path,
    engine: oneOf("engine", text("engine") ?? "sandbox", ["sandbox", "docker", "podman"] as const),
    timeoutScale: numberFrom("timeout-scale", text("timeout-scale") ?? "1"),
    standIns: values["stand-ins"] === true,
    usrLocal: values["usr-local"] === true ? ("write" as const) : ("read" as const),
    network: values["network"] === true,
    memoryMb: wholeNumber("memory", text("memory") ?? "4096", 64),
    diskMb: wholeNumber("disk", text("disk") ?? "512", 1),
    ...(only === undefined ? {} : { only }),
    ...(hostEnv === undefined ? {} : { hostEnv: hostEnv.split("+") }),
  };
  const jobs = wholeNumber("jobs", text("jobs") ?? String(availableParallelism()), 1);
  const line = (cells: readonly string[]): void => {
    const [name, solution, empty, seconds, verdict] = cells as [string, string, string, string, string];
    console.log(
      visible(`${name.padEnd(36)} ${solution.padStart(8)} ${empty.padStart(6)} ${seconds.padStart(7)}  ${verdict}`),
    );
  };
  let hasHead = false;
  const tell = ({ name, solution, empty, seconds, verdict, notes }: CheckedTask): void => {
    if (!hasHead) line(["NAME", "SOLUTION", "EMPTY", "SECONDS", "VERDICT"]);
    hasHead = true;
    line([name, reward(solution), reward(empty), seconds.toFixed(1), verdict]);
    if (values["notes"]) for (const note of notes) console.log(visible(`    ${note}`));
  };
  // A folder or an engine that is not there is an error of the flags.
  const all = await checkTasks(options, jobs, tell).catch((error: unknown) =>
    usage((): never => {
      throw error;
    }),
  );
  const good = values["without-solution"] ? ["ok", NO_SOLUTION] : ["ok"];
  const ok = all.filter(({ verdict }) => good.includes(verdict));
  const out = text("out");
  if (out !== undefined) writeFileSync(out, ok.map(({ name }) => `${name}\n`).join(""));
  console.log(`${ok.length} of ${all.length} tasks are ok`);
  return ok.length === all.length ? 0 : 1;
}

process.exitCode = await main().catch(report);
await outputTaken();
