/** The engines of `harbor` by their names. */
import { dockerEngine } from "./docker.ts";
import type { Engine } from "./machine.ts";
import type { HarborSettings } from "./options.ts";
import { sandboxEngine } from "./sandbox.ts";

/** The engine of these settings. Built tasks are shared by all engines of a thread. */
export const engineOf = (settings: HarborSettings): Engine =>
  settings.engine === "sandbox" ? sandboxEngine(settings) : dockerEngine(settings);
