/** The worker in which a program of the book runs: a module of its own, whose console is the page's output. */
import { inspect } from "./inspect.ts";
import { ENTER, type Order, type Report } from "./messages.ts";

/** The part of a worker's global object that is used, typed here because the page's library has the window's. */
interface Scope {
  postMessage(report: Report): void;
  addEventListener(type: "message", listener: (event: { readonly data: Order }) => void): void;
  addEventListener(type: "unhandledrejection", listener: (event: { readonly reason: unknown }) => void): void;
  addEventListener(type: "error", listener: (event: { readonly error: unknown }) => void): void;
  [ENTER]: (cell: number) => void;
}
const scope = globalThis as unknown as Scope;
const report = (own: Report): void => scope.postMessage(own);

/** A loop that prints without end would fill the page: it is ended here, where it prints. */
const MAX_LINES = 10_000;
let lines = 0;
const print = (...values: readonly unknown[]): void => {
  if (++lines > MAX_LINES) throw new Error(`the program was ended after ${MAX_LINES} lines of output`);
  const text = values.map((value) => (typeof value === "string" ? value : inspect(value))).join(" ");
  report({ kind: "printed", text });
};
Object.assign(console, { log: print, info: print, warn: print, error: print, debug: print });
scope[ENTER] = (cell) => report({ kind: "cell", cell });

let address = "";
const failed = (error: unknown): void => report({ kind: "failed", ...describe(error, address) });
scope.addEventListener("unhandledrejection", ({ reason }) => failed(reason));
scope.addEventListener("error", ({ error }) => failed(error));
scope.addEventListener("message", ({ data: { module } }) => {
  address = URL.createObjectURL(new Blob([module], { type: "text/javascript" }));
  import(address).then(() => report({ kind: "ended" }), failed);
});

/** Name, message and line of a thrown value. The line is that of the first frame of the stack in the program. */
function describe(error: unknown, program: string): { name: string; message: string; line?: number } {
  if (!(error instanceof Error)) return { name: "thrown", message: inspect(error) };
  const place = (error.stack ?? "").split(program)[1];
  const line = /^:(\d+)/.exec(place ?? "")?.[1];
  return { name: error.name, message: error.message, ...(line === undefined ? {} : { line: Number(line) }) };
}
