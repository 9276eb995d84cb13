/** Programs of tests as processes that are killed: compiled, because a process then starts in a tenth of the time. */
import { type ChildProcess, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { join, resolve } from "node:path";
import process from "node:process";
import { build } from "esbuild";

/** The programs that are killed, compiled: a process starts in a tenth of the time. */
export class Processes {
  readonly #folder: string;
  readonly #children = new Set<ChildProcess>();

  private constructor(folder: string) {
    this.#folder = folder;
  }

  static async compile(): Promise<Processes> {
    const cache = resolve("node_modules/.cache/worldgrad");
    mkdirSync(cache, { recursive: true });
    const folder = mkdtempSync(join(cache, "nats-"));
    await build({
      entryPoints: ["tests/support/natsWorker.ts", "tests/support/natsLearner.ts"],
      outExtension: { ".js": ".mjs" },
      outdir: folder,
      bundle: true,
      packages: "external",
      platform: "node",
      format: "esm",
      target: "node20",
      logLevel: "warning",
    });
    return new Processes(folder);
  }

  get folder(): string {
    return this.#folder;
  }

  start(program: "natsWorker" | "natsLearner", args: readonly string[]): ChildProcess {
    const child = spawn(process.execPath, [join(this.#folder, `${program}.mjs`), ...args], {
      stdio: ["ignore", "pipe", "pipe"],
    });
    this.#children.add(child);
    child.once("exit", () => this.#children.delete(child));
    return child;
  }

  close(): void {
    for (const child of this.#children) child.kill("SIGKILL");
    rmSync(this.#folder, { recursive: true, force: true });
  }
}
