/** Runs programs in a worker, one at a time. A program that never ends is stopped by ending its worker. */
import type { Order, Report } from "./messages.ts";
import { lineOfSecondDeclaration, type Modules, type Place, type Program, resolveImports } from "./program.ts";

/** An error of a program, with its place in a cell if it has one. */
export interface Failure {
  readonly name: string;
  readonly message: string;
  readonly place: Place | undefined;
}

export interface Listener {
  readonly onCell: (cell: number) => void;
  readonly onPrinted: (text: string) => void;
  /** Called once: without a failure, with one, or with "stopped". */
  readonly onEnd: (result: Failure | "stopped" | undefined) => void;
}

/** Milliseconds that a worker outlives its program, for work that the program did not wait for. */
const AFTERWARDS_MS = 2000;

let stopCurrent: () => void = () => {};

/** Ends the program that runs, if one does. */
export function stop(): void {
  stopCurrent();
}

/** @param folder of the program from the root, for its relative imports */
export async function start(program: Program, folder: string, modules: Modules, listener: Listener): Promise<void> {
  stopCurrent();
  const run: { worker?: Worker; isOver: boolean } = { isOver: false };
  const end = (result: Failure | "stopped" | undefined): void => {
    if (run.isOver) return;
    run.isOver = true;
    if (result !== undefined) run.worker?.terminate();
    else setTimeout(() => run.worker?.terminate(), AFTERWARDS_MS);
    listener.onEnd(result);
  };
  stopCurrent = () => {
    end("stopped");
    run.worker?.terminate();
  };
  let module: string;
  try {
    const { compile } = await import("./compile.ts");
    module = resolveImports(compile(program.text), folder, modules, new URL("./", import.meta.url).href);
  } catch (error) {
    return end(failureOf(error, program));
  }
  if (run.isOver) return;
  const worker = new Worker(new URL("worker.js", import.meta.url), { type: "module" });
  run.worker = worker;
  worker.addEventListener("message", ({ data }: MessageEvent<Report>) => {
    if (data.kind === "cell") listener.onCell(data.cell);
    else if (data.kind === "ended") end(undefined);
    else if (data.kind === "failed") {
      const line = data.line ?? lineOfSecondDeclaration(program.text, data.message);
      const place = line === undefined ? undefined : program.placeOf(line);
      end({ name: data.name, message: data.message, place });
    } else listener.onPrinted(data.text);
  });
  worker.addEventListener("error", (event) => {
    end({ name: "Error", message: event.message || "the worker could not be started", place: undefined });
  });
  const order: Order = { module };
  worker.postMessage(order);
}

/** An error before the program began: it does not parse, or imports what is not here. */
function failureOf(error: unknown, program: Program): Failure {
  const { name, message, loc } = error as Error & { readonly loc?: { readonly line: number } };
  const place = loc === undefined ? undefined : program.placeOf(loc.line);
  return { name, message: message.replace(/^Error transforming [^:]*: /, "").replace(/ \(\d+:\d+\)$/, ""), place };
}
