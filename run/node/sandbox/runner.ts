/**
 * The runner of JavaScript programs for the code reward. Each program has a process without permissions
 * (run/node/sandbox/process.ts), which makes the calls one after the other. This side measures the time of each call
 * and kills the process with SIGKILL when it is over; it also limits and checks what the process writes.
 *
 * If a call hangs or crashes the process, only its own result is lost: a new process continues with the next call, up
 * to MAX_DEATHS times.
 */
import { randomUUID } from "node:crypto";
import { availableParallelism } from "node:os";
import { WorldgradError } from "../../../engine/index.ts";
import { check } from "../../../engine/errors.ts";
import { showValue } from "../../../engine/options.ts";
import { number, oneOf, options, type OptionsOf } from "../../../engine/optionTable.ts";
import type { CodeFailure, CodeOutcome, CodeRunner, CodeValue } from "../../../papers/rewards/code.ts";
import { HARNESS } from "./harness.ts";
import { canLimit, limitProcess, startSandbox } from "./process.ts";

/**
 * The number of processes that a program may end, so that one that always hangs costs three time-outs and not one per
 * test.
 */
const MAX_DEATHS = 3;
/** The largest start time of Node on a busy machine, in milliseconds. */
const START_MS = 20_000;

/** Timers and limits of the kernel take 31 bits. */
const MOST = 2 ** 31 - 1;

export const SANDBOX = options("javascriptRunner", {
  timeout: number(2000, "wall-clock time for each call in milliseconds", { integer: true, min: 10, max: MOST }),
  memoryMb: number(128, "memory for the program in MiB", { integer: true, min: 16, max: MOST }),
  outputLimit: number(100_000, "largest number of characters in one result", { integer: true, min: 100, max: MOST }),
  concurrency: number(undefined, "processes at a time; by default the number of cores", {
    integer: true,
    min: 1,
    max: MOST,
  }),
  limits: oneOf(
    ["auto", "required"],
    "auto",
    "if the kernel's limits cannot be set (run/node/sandbox/process.ts): do without them, or throw",
  ),
});
export type SandboxOptions = OptionsOf<typeof SANDBOX>;

interface Job {
  readonly program: string;
  readonly entry: string;
  readonly calls: readonly string[];
}

interface Budget {
  readonly timeout: number;
  readonly memoryMb: number;
  readonly outputLimit: number;
  readonly signal: AbortSignal | undefined;
}

/**
 * A runner of JavaScript programs. A program is a script without `import`, `export` and `eval`, and has nothing of
 * Node: no timers, no I/O.
 *
 * The runner throws if Node does not start or the limits cannot be set. No program can make it throw.
 * @throws on options out of range, and with `limits: "required"` if limits cannot be set here
 *
 * @example
 * const run = javascriptRunner({ timeout: 500 });
 * await run("const solve = (n) => n * 2;", "solve", [[21]]); // [{ kind: "value", value: 42 }]
 */
export function javascriptRunner(given?: SandboxOptions): CodeRunner {
  const { timeout, memoryMb, outputLimit, limits, concurrency = availableParallelism() } = SANDBOX.read(given);
  check(
    limits === "auto" || canLimit(),
    () => "javascriptRunner: limits are required, but there is no prlimit here (Linux, package util-linux)",
  );
  const inTurn = limiter(concurrency);
  return async (program, entry, calls, signal) =>
    inTurn(async () => {
      const budget = { timeout, memoryMb, outputLimit, signal };
      const encoded = calls.map((args) => JSON.stringify(encodeValue(args)));
      const outcomes: CodeOutcome[] = [];
      for (let deaths = 0; outcomes.length < calls.length; deaths++) {
        if (deaths === MAX_DEATHS) {
          const skipped = failure("skipped", `the program ended ${MAX_DEATHS} processes before`);
          return [...outcomes, ...calls.slice(outcomes.length).map(() => skipped)];
        }
        outcomes.push(...(await runProcess({ program, entry, calls: encoded.slice(outcomes.length) }, budget)));
      }
      return outcomes;
    });
}

/** The outcomes of the calls, up to and including the one that ended the process. */
function runProcess(job: Job, { timeout, memoryMb, outputLimit, signal }: Budget): Promise<CodeOutcome[]> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason as Error);
    const nonce = randomUUID();
    const outcomes: CodeOutcome[] = [];
    const child = startSandbox(HARNESS, memoryMb);
    let ready = false;
    let ended = false;
    let text = "";
    let timer = setTimeout(() => end(() => failed("Node did not start in time")), START_MS);

    /** Ends the process and settles the promise; only the first call counts. */
    const end = (answer: () => void): void => {
      if (ended) return;
      ended = true;
      clearTimeout(timer);
      signal?.removeEventListener("abort", abort);
      child.kill("SIGKILL");
      answer();
    };
    const failed = (why: string): void => reject(new WorldgradError(`javascriptRunner: ${why}`));
    const stop = (kind: CodeFailure, message: string): void =>
      end(() => resolve([...outcomes, failure(kind, message)]));
    const abort = (): void => end(() => reject(signal!.reason as Error));

    const watch = (): void => {
      clearTimeout(timer);
      if (ended) return;
      timer = setTimeout(() => stop("timeout", `no result within ${timeout} ms`), timeout);
    };
    const begin = async (): Promise<void> => {
      const cpuSeconds = 10 + Math.ceil((timeout * job.calls.length) / 1000);
      // The limit is doubled, because V8's heap may use `memoryMb`, and so may memory outside of it.
      if (canLimit() && child.pid !== undefined) await limitProcess(child.pid, 2 * memoryMb, cpuSeconds);
      watch();
      child.stdin?.end(JSON.stringify({ ...job, nonce, limit: outputLimit }));
    };
    const take = (line: string): void => {
      if (!ready) {
        if (line !== "ready") return end(() => failed(`expected "ready" from the process, got ${showValue(line)}`));
        ready = true;
        begin().catch((error: Error) => end(() => failed(`setting limits: ${error.message}`)));
        return;
      }
      const outcome = line.startsWith(`${nonce} `)
        ? readLine(line.slice(nonce.length + 1), outcomes.length)
        : undefined;
      if (!outcome) return stop("crashed", "the process wrote what the harness does not write");
      outcomes.push(outcome);
      if (outcomes.length === job.calls.length) end(() => resolve(outcomes));
      else watch();
    };

    signal?.addEventListener("abort", abort);
    child.on("error", (error) => end(() => failed(`Node does not start: ${error.message}`)));
    child.stdin?.on("error", () => undefined); // the process ended while we wrote; "close" follows
    child.stdout?.setEncoding("utf8").on("data", (piece: string) => {
      if (ended) return;
      text += piece;
      // A result is escaped twice, and each time one character becomes at most six.
      if (text.length > 36 * outputLimit) return stop("output", `more than ${outputLimit} characters`);
      const lines = text.split("\n");
      text = lines.pop()!;
      for (const line of lines) if (!ended) take(line);
    });
    child.on("close", (code, killedBy) => {
      if (!ready) end(() => failed(`Node ended with ${killedBy ?? code} before it was ready`));
      else stop("crashed", `the process ended (${killedBy ?? code}); most often it had too little memory`);
    });
  });
}

const failure = (kind: CodeFailure, message: string): CodeOutcome => ({ kind, message });

const STATES: Readonly<Record<string, readonly [kind: CodeFailure, message: string]>> = {
  s: ["syntax", ""],
  t: ["threw", ""],
  m: ["missing", "the program defines no function of that name"],
  u: ["unsupported", "returned "],
  o: ["output", "the result is too large"],
  p: ["pending", "the promise never settles"],
};

/** The outcome in a line of the harness, without its nonce; undefined if the line has another format. */
function readLine(line: string, index: number): CodeOutcome | undefined {
  try {
    const [at, state] = JSON.parse(line) as [number, string];
    if (at !== index) return undefined;
    if (state[0] === "v") return { kind: "value", value: decodeValue(JSON.parse(state.slice(1))) };
    const [kind, message] = STATES[state[0]!]!;
    return failure(kind, message + state.slice(1));
  } catch {
    return undefined;
  }
}

/** A value in the encoding of run/node/sandbox/harness.ts. */
function encodeValue(value: CodeValue): unknown {
  if (value === undefined) return ["U"];
  if (typeof value === "bigint") return ["I", String(value)];
  if (typeof value === "number")
    return Number.isFinite(value) && !Object.is(value, -0) ? value : ["N", Object.is(value, -0) ? "-0" : String(value)];
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return ["A", ...(value as readonly CodeValue[]).map(encodeValue)];
  return ["O", ...Object.entries(value).flatMap(([key, item]) => [key, encodeValue(item)])];
}

function decodeValue(value: unknown): CodeValue {
  if (!Array.isArray(value)) return value as CodeValue;
  const [tag, ...items] = value as [string, ...unknown[]];
  if (tag === "U") return undefined;
  if (tag === "I") return BigInt(items[0] as string);
  if (tag === "N") return Number(items[0]);
  if (tag === "A") return items.map(decodeValue);
  check(tag === "O" && items.length % 2 === 0, () => `javascriptRunner: unknown tag ${showValue(tag)}`);
  const keys = items.filter((_, i) => i % 2 === 0) as string[];
  return Object.fromEntries(keys.map((key, i) => [key, decodeValue(items[2 * i + 1])]));
}

/** Lets at most `most` tasks run at a time; the others wait in order. */
function limiter(most: number): <T>(task: () => Promise<T>) => Promise<T> {
  const waiting: (() => void)[] = [];
  let running = 0;
  return async (task) => {
    if (running < most) running++;
    else await new Promise<void>((resolve) => waiting.push(resolve));
    try {
      return await task();
    } finally {
      const next = waiting.shift();
      if (next) next();
      else running--;
    }
  };
}
