/** Process of a contender (`child.ts`, compiled, or a program in Python), which gets one request after another. */
import { type ChildProcess, spawn } from "node:child_process";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import type { Answer, Request } from "./protocol.ts";
import type { Contender } from "./contenders/index.ts";

const here = (file: string): string => fileURLToPath(new URL(file, import.meta.url));
/** Python interpreter that has torch. */
export const PYTHON: string = process.env["WORLDGRAD_PYTHON"] ?? "python3";

/**
 * `child.ts` compiled to JavaScript, as users of the package run it. tsx would give each function its name whenever it
 * is made, which costs small steps 15 % of their time (docs/log.md). The output lies beside `peers/`, where contenders
 * look for it.
 */
let compiled: Promise<string> | undefined;
async function compileChild(): Promise<string> {
  const outdir = here("dist");
  const made = { bundle: true, splitting: true, format: "esm", platform: "node", packages: "external" } as const;
  await build({ entryPoints: [here("child.ts")], outdir, ...made, target: "node20", logLevel: "error" });
  return `${outdir}/child.js`;
}

/** Whether a contender is a program in Python, `peers/ENGINE_bench.py`. */
export const isPython = (engine: Contender["engine"] | undefined): boolean => engine === "torch" || engine === "trl";

/** Limits the thread pools of libraries under PyTorch, which `set_num_threads` does not always reach. */
function threadLimits({ engine }: Partial<Contender>, threads: number): Record<string, string> {
  const names = isPython(engine) ? ["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"] : [];
  return Object.fromEntries(names.map((name) => [name, String(threads)]));
}

export class ContenderProcess {
  readonly #child: ChildProcess;
  readonly #answers: AsyncIterator<string>;
  /** Seconds that an answer may take. */
  readonly #patience: number;
  #complaints = "";
  description = "";

  private constructor(child: ChildProcess, patience: number) {
    this.#child = child;
    this.#patience = patience;
    this.#answers = createInterface({ input: child.stdio[3] as Readable })[Symbol.asyncIterator]();
    child.stderr!.on("data", (text: Buffer) => (this.#complaints = (this.#complaints + text.toString()).slice(-4000)));
    child.stdin!.on("error", () => undefined); // the missing answer will show that the process has died
  }

  /** @throws with the contender's reason if it cannot run here */
  static async start(
    who: Pick<Contender, "name"> & Partial<Contender>,
    { threads, env, patience }: { readonly threads: number; readonly env: object; readonly patience: number },
  ): Promise<ContenderProcess> {
    const [program, args] = isPython(who.engine)
      ? [PYTHON, [here(`peers/${who.engine}_bench.py`), who.variant!, String(threads)]]
      : [process.execPath, [await (compiled ??= compileChild()), who.name, String(threads)]];
    const options = {
      stdio: ["pipe", "ignore", "pipe", "pipe"] as ("pipe" | "ignore")[],
      env: { ...process.env, ...threadLimits(who, threads), ...env },
    };
    const started = new ContenderProcess(spawn(program, args, options), patience);
    started.description = (await started.#answer()).description ?? who.name;
    return started;
  }

  /** @throws with the contender's reason */
  async ask(request: Request): Promise<Answer> {
    this.#child.stdin!.write(`${JSON.stringify(request)}\n`);
    return this.#answer();
  }

  async #answer(): Promise<Answer> {
    let isLate = false;
    const timer = setTimeout(() => {
      isLate = true;
      this.#child.kill("SIGKILL");
    }, 1000 * this.#patience);
    try {
      const line = (await this.#answers.next()) as IteratorResult<string, undefined>;
      if (line.done) throw new Error(isLate ? `no answer within ${this.#patience} s` : this.#lastWords());
      const answer = JSON.parse(line.value) as Answer;
      if (answer.error !== undefined) throw new Error(answer.error.split("\n")[0]!.slice(0, 300));
      return answer;
    } finally {
      clearTimeout(timer);
    }
  }

  /** Error message of a process that ended, picked from all that it printed. */
  #lastWords(): string {
    const lines = this.#complaints.split("\n").filter((line) => line.trim() !== "");
    const line = lines.findLast((text) => /error/i.test(text)) ?? lines.at(-1) ?? "the process ended without a word";
    return line.trim().slice(0, 300);
  }

  async stop(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const ended = new Promise((resolve) => this.#child.once("exit", resolve));
    this.#child.stdin!.end();
    const timer = setTimeout(() => this.#child.kill("SIGKILL"), 2000);
    await ended;
    clearTimeout(timer);
  }
}
