/**
 * The display of a run. There are two implementations of one interface: on a terminal a few lines are redrawn in place
 * (live.ts); in a file or a pipe plain lines are appended (plain.ts). The trainer never asks which one it has.
 *
 * A display decides nothing: it reads the clock only to draw, and a run without a display gives the same results.
 */
import type { Display, DisplayOptions } from "./contract.ts";
import { createLive } from "./live.ts";
import { createPlain } from "./plain.ts";
import { createStyle, wantsColour } from "./style.ts";

export type { Display, OutputStream } from "./contract.ts";

/**
 * @example
 * const display = createDisplay({ stream: process.stdout, isTTY: process.stdout.isTTY, env: process.env });
 * display.phase("warm start", 100);
 * display.update(1, { loss: 4.2, tokens_per_second: 5100 });
 * display.close();
 */
export function createDisplay(options: DisplayOptions): Display {
  const { stream, isTTY, env = {}, now = () => performance.now(), show = [], redrawMs = 100, lineMs = 2000 } = options;
  // FORCE_COLOR adds colours but does not make a terminal out of a file: plain lines contain no escape codes.
  const live = isTTY && env["TERM"] !== "dumb";
  const resolved = { stream, now, show, redrawMs, lineMs, style: createStyle(live && wantsColour(isTTY, env)) };
  return live ? createLive(resolved) : createPlain(resolved);
}
