/** Ctrl-C, `kill` and the end of a terminal: a program hears of each, once, and may save before it ends. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import process from "node:process";
import { expect, test } from "vitest";
import { STOP_SIGNALS } from "../../../run/node/interrupt.ts";

const url = new URL("../../../run/node/interrupt.ts", import.meta.url).href;
const SCRIPT = `
  import { stopOnInterrupt } from "${url}";
  let notes = 0;
  const signal = stopOnInterrupt(() => notes++);
  const alive = setInterval(() => undefined, 1000);
  signal.addEventListener("abort", () => {
    clearInterval(alive);
    setTimeout(() => console.log("saved", notes, signal.reason.message), 100);
  });
  console.log("ready");`;

test.each([...STOP_SIGNALS])("%s", async (signal) => {
  const child = spawn(process.execPath, ["--import", "tsx", "--input-type=module", "-e", SCRIPT]);
  let seen = "";
  child.stdout.on("data", (data: Buffer) => {
    const wasReady = seen.includes("ready");
    seen += data.toString();
    if (wasReady || !seen.includes("ready")) return;
    child.kill(signal);
    child.kill(signal); // as a terminal's group and npm both pass it on
  });
  const [code, by] = (await once(child, "close")) as [number | null, string | null];
  expect({ seen, code, by }).toEqual({ seen: "ready\nsaved 1 interrupted\n", code: 0, by: null });
});
