/** The options of `harbor`. */
import { flag, number, oneOf, options, REQUIRED, text } from "../../engine/optionTable.ts";
import { COMMON_OPTIONS, option, type OptionsWith, type SettledOptions } from "../../environments/index.ts";

const COUNT = { integer: true, min: 1 };
/** Seconds that a timer of Node's can wait. */
const LONGEST = 2_000_000;

export const HARBOR = {
  path: text(REQUIRED, "folder of the tasks: each a folder with a task.toml"),
  engine: oneOf(
    ["sandbox", "docker", "podman"],
    "sandbox",
    "what runs a task: bubblewrap, or a container of its image",
  ),
  only: text(undefined, "file with the names of the tasks that are used, one a line, as `npm run harbor` writes it"),
  heldOut: number(0.25, "share of the tasks that are held out; 0: both splits have all", { min: 0, below: 1 }),
  seconds: number(60, "seconds that a command may take", { above: 0, max: 3600 }),
  maxOutput: number(10_000, "bytes of a command's output that are shown; the middle of more is left out", COUNT),
  timeoutScale: number(1, "factor on the time limits of the tasks: build, agent, verifier", { above: 0, max: 1000 }),
  background: oneOf(
    ["keep", "kill"],
    "keep",
    "what becomes of the agent's processes when the verifier starts; Harbor keeps them",
  ),
  standIns: flag(false, "whether the verifier's apt-get, pip, uv and `curl | sh` take what is there; sandbox alone"),
  usrLocal: oneOf(
    ["read", "write"],
    "read",
    "/usr/local in the sandbox: this machine's, to read, or an empty one that builds and agents can write",
  ),
  network: flag(false, "whether tasks whose network is public have one; docker and podman alone"),
  hostEnv: option.inCode<readonly string[]>(
    "variables of this machine that task.toml may name as ${NAME}",
    "names with + between them",
    (value) => Array.isArray(value) && value.every((name) => typeof name === "string" && /^\w+$/.test(name)),
  ),
  sessions: number(4, "tasks that are open at a time", COUNT),
  processes: number(128, "processes that a task may have at a time", { integer: true, min: 8 }),
  memoryMb: number(4096, "MiB: of address space of a process in the sandbox, of memory of a container at most", {
    integer: true,
    min: 64,
  }),
  diskMb: number(512, "MiB that a task may write in the sandbox, which keeps files in memory", COUNT),
};
/** Options of `harbor`, beside `EnvironmentOptions`; `HARBOR` says what each does, and its default. */
export type HarborOptions = OptionsWith<typeof HARBOR>;
export type HarborSettings = SettledOptions<typeof HARBOR>;

/** All options of `harbor`, with those of all environments. */
export const TABLE = options("harbor", { ...COMMON_OPTIONS, ...HARBOR });

/** Seconds of a task's time limit. */
export const scaled = (seconds: number, { timeoutScale }: Pick<HarborSettings, "timeoutScale">): number =>
  Math.min(seconds * timeoutScale, LONGEST);
