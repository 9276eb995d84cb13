/**
 * A task in the Harbor format: task.toml (schema 1.0 to 1.4), instruction.md, environment/, tests/, solution/. Fields
 * that nobody knows are ignored, as Harbor does. A field that cannot be honoured makes the task unusable, and is named.
 */
import { existsSync, readFileSync, realpathSync, statSync } from "node:fs";
import { basename, join, sep } from "node:path";
import { WorldgradError } from "../../engine/errors.ts";
import { type DockerPlan, planOf } from "./dockerfile.ts";
import type { HarborSettings } from "./options.ts";
import { type Fields, parseToml } from "./toml.ts";

/** Variables, by name. */
export type Variables = Readonly<Record<string, string>>;

export interface HarborTask {
  /** The name of its folder; where two have one name, its path in the folder of tasks. */
  readonly name: string;
  readonly folder: string;
  readonly instruction: string;
  /** 1, 2 or 3: `metadata.difficulty` easy, medium, hard; 2 if it says nothing that is known. */
  readonly level: number;
  /** Seconds of `[agent] timeout_sec`; undefined: as long as it takes. */
  readonly agentSeconds: number | undefined;
  readonly verifierSeconds: number;
  readonly buildSeconds: number;
  /** Variables of the environment, the verifier and the solution, those of the host filled in. */
  readonly env: Variables;
  readonly verifierEnv: Variables;
  readonly solutionEnv: Variables;
  /** `[environment] workdir`; undefined: the image's. */
  readonly workdir: string | undefined;
  readonly cpus: number | undefined;
  readonly memoryMb: number | undefined;
  readonly storageMb: number | undefined;
  readonly image: string | undefined;
  /** Whether its network is public, which is the format's default. */
  readonly isPublic: boolean;
  readonly hasSolution: boolean;
  /** What the Dockerfile asks for; undefined if it cannot be read. */
  readonly plan: DockerPlan | undefined;
  /** Why it cannot be played; empty: it can. */
  readonly reasons: readonly string[];
  /** What differs from Harbor. */
  readonly notes: readonly string[];
}

type Settings = Pick<HarborSettings, "engine" | "hostEnv" | "network">;

const LEVELS: Readonly<Record<string, number>> = { easy: 1, medium: 2, hard: 3 };
/** Bytes of a text that is read. */
const MOST_BYTES = 2 ** 20;

/** Reads a task. It never throws: what is wrong is a reason. */
export function readTask(folder: string, settings: Settings): HarborTask {
  const reasons: string[] = [];
  const notes: string[] = [];
  const read = (path: string): string => {
    const file = join(folder, path);
    if (!existsSync(file) || !statSync(file).isFile()) reasons.push(`${path} is missing`);
    else if (statSync(file).size > MOST_BYTES) reasons.push(`${path} has more than ${MOST_BYTES} bytes`);
    else return textOf(readFileSync(file)) ?? (reasons.push(`${path} is no text in UTF-8`), "");
    return "";
  };
  let fields: ReturnType<typeof fieldsOf> = NOTHING;
  try {
    fields = fieldsOf(parseToml(read("task.toml"), "task.toml"), settings, reasons, notes);
    if (!fields.hasSteps) reasons.push(...problemOf(folder, "tests", "test.sh"));
  } catch (error) {
    if (!(error instanceof WorldgradError) || error.message.startsWith("harbor:")) throw error;
    reasons.push(error.message);
  }
  const { image, hasSteps, ...rest } = fields;
  const instruction = hasSteps ? "" : read("instruction.md").trim();
  if (instruction === "" && reasons.length === 0) reasons.push("instruction.md is empty");
  const context = join(folder, "environment");
  const isContainer = settings.engine !== "sandbox";
  if (["docker-compose.yaml", "docker-compose.yml"].some((name) => existsSync(join(context, name))))
    reasons.push("environment/docker-compose.yaml: compose is not supported");
  let plan: DockerPlan | undefined;
  if (image !== undefined && !isContainer)
    reasons.push(`[environment] docker_image: ${image} needs env.engine=docker or podman`);
  else if (image === undefined) {
    plan = planOf(read("environment/Dockerfile"));
    if (!isContainer) {
      reasons.push(...plan.reasons.map((reason) => `environment/Dockerfile: ${reason}`));
      notes.push(...plan.notes);
    }
  }
  const hasSolution = existsSync(join(folder, "solution/solve.sh"));
  if (hasSolution) notes.push(...problemOf(folder, "solution", "solve.sh"));
  return { name: basename(folder), folder, instruction, ...rest, image, plan, hasSolution, reasons, notes };
}

/** The text of bytes, without a byte order mark; undefined if they are no UTF-8. */
function textOf(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    return undefined;
  }
}

/** Why bash inside will not run a script; empty: it will. */
export function problemOf(task: string, folder: string, name: string): string[] {
  const [path, file] = [`${folder}/${name}`, join(task, folder, name)];
  if (!existsSync(file) || !statSync(file).isFile()) return [`${path} is missing`];
  // The folder is taken as it is: what its links point to is not.
  if (!realpathSync(file).startsWith(realpathSync(join(task, folder)) + sep))
    return [`${path} is a link out of ${folder}/, where nothing is when it runs`];
  const [first] = /^[^\n]*\n?/.exec(readFileSync(file, "latin1"))!;
  if (first.endsWith("\r\n"))
    return [`${path} has the line ends of Windows, which bash takes for a part of its commands`];
  const program = first.trim();
  if (program.startsWith("#!") && !/sh\b/.test(program)) return [`${path} begins with ${program}, but bash runs it`];
  return [];
}

const NOTHING = {
  level: 2,
  agentSeconds: undefined as number | undefined,
  verifierSeconds: 600,
  buildSeconds: 600,
  env: {} as Variables,
  verifierEnv: {} as Variables,
  solutionEnv: {} as Variables,
  workdir: undefined as string | undefined,
  cpus: undefined as number | undefined,
  memoryMb: undefined as number | undefined,
  storageMb: undefined as number | undefined,
  image: undefined as string | undefined,
  isPublic: true,
  hasSteps: false,
};

function fieldsOf(root: Fields, settings: Settings, reasons: string[], notes: string[]): typeof NOTHING {
  const [agent, verifier, environment, solution] = ["agent", "verifier", "environment", "solution"].map((name) =>
    root.table(name),
  ) as [Fields, Fields, Fields, Fields];
  const refuse = (isRefused: boolean, field: string, why = "is not supported"): void => {
    if (isRefused) reasons.push(`${field} ${why}`);
  };
  const version = root.text("schema_version") ?? root.text("version") ?? "1.4";
  refuse(!/^1(\.|$)/.test(version), "schema_version", `${version} is not known`);
  const hasSteps = root.list("steps").length > 0;
  refuse(hasSteps, "steps");
  for (const table of [agent, verifier]) {
    const user = table.word("user") ?? "root";
    refuse(user !== "root" && user !== "0", table.name("user"), `${user} is not supported, only root`);
  }
  const mode = verifier.text("environment_mode");
  refuse(
    mode !== undefined && mode !== "shared",
    "[verifier] environment_mode",
    `${mode} is not supported, only shared`,
  );
  refuse(verifier.has("environment"), "[verifier.environment]", "means a separate verifier, which is not supported");
  refuse(verifier.list("collect").length > 0, "[[verifier.collect]]");
  const os = environment.text("os") ?? "linux";
  refuse(os !== "linux", "[environment] os", `${os} is not supported`);
  refuse((environment.number("gpus", 0) ?? 0) > 0, "[environment] gpus");
  refuse(environment.has("tpu"), "[environment] tpu");
  refuse(environment.list("mcp_servers").length > 0, "[environment] mcp_servers");
  refuse(environment.has("healthcheck"), "[environment.healthcheck]");
  if (environment.has("skills_dir")) notes.push("[environment] skills_dir: the agent is not told of skills");
  if (root.list("artifacts").length > 0) notes.push("artifacts are not collected");
  const modes = [environment, agent, verifier].map((table) => table.text("network_mode"));
  refuse(modes.includes("allowlist"), "network_mode", "allowlist is not supported");
  const isPublic = modes.every((each) => each !== "no-network") && environment.flag("allow_internet") !== false;
  if (isPublic && (settings.engine === "sandbox" || !settings.network)) notes.push("there is no network");
  const allowed = settings.hostEnv ?? [];
  const filled = (table: Fields): Variables =>
    Object.fromEntries(
      Object.entries(table.texts("env")).flatMap(([name, value]) => {
        const [, host, , fallback] = /^\$\{([^}:]+)(:-([^}]*))?\}$/.exec(value) ?? [];
        if (host === undefined) {
          // So Harbor has it, too.
          if (value.includes("${")) notes.push(`${table.name("env")}.${name}: \${…} in a longer text stays as it is`);
          return [[name, value]];
        }
        const found = (allowed.includes(host) ? process.env[host] : undefined) ?? fallback;
        if (found !== undefined) return [[name, found]];
        const hint = allowed.includes(host) ? "is not set" : `needs env.hostEnv=${host}`;
        reasons.push(`${table.name("env")}.${name}: \${${host}} ${hint}`);
        return [];
      }),
    );
  const workdir = environment.text("workdir");
  refuse(workdir !== undefined && !workdir.startsWith("/"), "[environment] workdir", "is no absolute path");
  const difficulty = root.table("metadata").any("difficulty");
  return {
    // Of metadata the format says nothing.
    level: (typeof difficulty === "string" ? LEVELS[difficulty.toLowerCase()] : undefined) ?? NOTHING.level,
    agentSeconds: agent.seconds("timeout_sec"),
    verifierSeconds: verifier.seconds("timeout_sec") ?? NOTHING.verifierSeconds,
    buildSeconds: environment.seconds("build_timeout_sec") ?? NOTHING.buildSeconds,
    env: filled(environment),
    verifierEnv: filled(verifier),
    solutionEnv: filled(solution),
    workdir,
    cpus: environment.number("cpus", 0),
    memoryMb: environment.number("memory_mb", 1) ?? environment.mebibytes("memory"),
    storageMb: environment.number("storage_mb", 1) ?? environment.mebibytes("storage"),
    image: environment.text("docker_image"),
    isPublic,
    hasSteps,
  };
}
