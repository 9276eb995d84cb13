/** The machine of a measurement, its adapter, and the contenders that can run on it. Nothing here is timed. */
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { availableParallelism, cpus, loadavg, totalmem } from "node:os";
import { fileURLToPath } from "node:url";
import { provisionAdapter } from "../tests/support/adapter.ts";
import { adapterName, isSoftware, requestAdapter } from "../engine/backends/webgpu-api.ts";
import { type Contender, CONTENDERS } from "./contenders/index.ts";
import { isPython, PYTHON } from "./process.ts";

export interface Machine {
  readonly cpu: string;
  readonly cores: number;
  readonly memoryGiB: number;
  readonly node: string;
  readonly os: string;
}

export const machine = (): Machine => ({
  cpu: cpus()[0]?.model.trim() ?? "unknown",
  cores: availableParallelism(),
  memoryGiB: Math.round(totalmem() / 2 ** 30),
  node: process.version,
  os: `${process.platform} ${process.arch}`,
});

/** Load average of the last minute, per processor. Above about 0.5, other programs disturb a measurement. */
export const load = (): number => Math.round((100 * (loadavg()[0] ?? 0)) / availableParallelism()) / 100;

/**
 * The measured commit; `+` if kernels/, engine/, nn/ or rl/ differ from it. A folder of bench/gpu/pack.ts has it in a
 * file.
 */
export function commit(): string {
  if (existsSync(".commit")) return readFileSync(".commit", "utf8").trim();
  const git = (...args: string[]): string => spawnSync("git", args, { encoding: "utf8" }).stdout?.trim() ?? "";
  const changed = git("status", "--porcelain", "--untracked-files=no", "--", "kernels", "engine", "nn", "rl");
  return `${git("rev-parse", "--short", "HEAD") || "unknown"}${changed === "" ? "" : "+"}`;
}

export interface Adapter {
  /** Name of the adapter as in CONTRIBUTING.md, or "none". */
  readonly choice: string;
  readonly description: string;
  readonly software: boolean;
  readonly env: Readonly<Record<string, string>>;
}

/**
 * The adapter that the tests would take, or `wanted`. A new process opens it, because a process looks for libraries
 * when it starts.
 */
export function findAdapter(wanted?: string): Adapter {
  const before = process.env["WORLDGRAD_ADAPTER"];
  if (wanted !== undefined) process.env["WORLDGRAD_ADAPTER"] = wanted;
  try {
    const { name, env } = provisionAdapter();
    const child = spawnSync(process.execPath, ["--import", "tsx", fileURLToPath(import.meta.url)], {
      env: { ...process.env, ...env },
      encoding: "utf8",
    });
    const answer = child.stdout.trim().split("\n").at(-1) ?? "";
    if (!answer.startsWith("{")) return { choice: "none", description: "none", software: true, env: {} };
    return { choice: name, ...(JSON.parse(answer) as { description: string; software: boolean }), env };
  } catch {
    return { choice: "none", description: "none", software: true, env: {} };
  } finally {
    if (before === undefined) delete process.env["WORLDGRAD_ADAPTER"];
    else process.env["WORLDGRAD_ADAPTER"] = before;
  }
}

async function describeAdapter(): Promise<void> {
  const opengl = process.env["WORLDGRAD_ADAPTER"] === "opengl";
  const adapter = await requestAdapter(
    opengl ? { featureLevel: "compatibility" } : { powerPreference: "high-performance" },
    opengl ? ["backend=opengl"] : [],
  );
  console.log(JSON.stringify({ description: adapterName(adapter), software: isSoftware(adapter) }));
  process.exit(0); // Dawn keeps the process alive
}

/** The named contenders that can run here, and a line for each kind that cannot. */
export function available(
  wanted: readonly string[] | undefined,
  adapter: Adapter,
): { contenders: Contender[]; missing: string[] } {
  const chosen = CONTENDERS.filter(({ name }) => wanted === undefined || wanted.some((w) => name === w));
  const byPrefix = CONTENDERS.filter(({ name }) => wanted?.some((w) => !isName(w) && name.startsWith(w)) ?? false);
  const asked = CONTENDERS.filter((c) => chosen.includes(c) || byPrefix.includes(c));
  const missing: string[] = [];
  const without = (line: string, fits: (c: Contender) => boolean): ((c: Contender) => boolean) => {
    if (asked.some(fits)) missing.push(line);
    return (c) => !fits(c);
  };
  let contenders = asked;
  if (adapter.choice === "none")
    contenders = contenders.filter(
      without("no WebGPU adapter: executors on webgpu are left out", (c) => c.executor === "webgpu"),
    );
  if (!existsSync(fileURLToPath(new URL("peers/node_modules", import.meta.url)))) {
    contenders = contenders.filter(
      without(
        "the peers are not installed: jax-js and tfjs are left out; npm run bench:peers installs them",
        (c) => c.engine === "jax-js" || c.engine === "tfjs",
      ),
    );
  }
  if (asked.some((c) => isPython(c.engine))) {
    const { torch, trl } = pythonHas();
    if (torch !== "cuda") {
      const line =
        torch === "none"
          ? `${PYTHON} has no torch: PyTorch is left out`
          : "torch finds no CUDA: only its CPU takes part";
      contenders = contenders.filter(
        without(line, (c) => c.engine === "torch" && (torch === "none" || c.executor === "cuda")),
      );
    }
    if (!trl)
      contenders = contenders.filter(without(`${PYTHON} has no trl: it is left out`, (c) => c.engine === "trl"));
  }
  return { contenders, missing };
}

const isName = (word: string): boolean => CONTENDERS.some(({ name }) => name === word);

/** The libraries of the contenders in Python that are installed. */
function pythonHas(): { torch: "none" | "cpu" | "cuda"; trl: boolean } {
  const script =
    "import importlib.util, torch; " +
    "print('cuda' if torch.cuda.is_available() else 'cpu', importlib.util.find_spec('trl') is not None)";
  const { status, stdout } = spawnSync(PYTHON, ["-c", script], { encoding: "utf8", timeout: 60_000 });
  if (status !== 0) return { torch: "none", trl: false };
  const [torch, trl] = stdout.trim().split(" ");
  return { torch: torch as "cpu" | "cuda", trl: trl === "True" };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await describeAdapter();
