/** The library's environments that need Node. Their heads are small: what plays them is loaded with an episode. */
import { harbor } from "../../connect/harbor/index.ts";
import { host } from "../../connect/host/index.ts";
import { shell } from "../../connect/shell/index.ts";
import { ENVIRONMENTS } from "../../environments/index.ts";
import { addEnvironment } from "../worlds.ts";

let areKnown = false;

/** Makes them known by their names, as `openRun` and programs that take `--env` do. */
export function addOwnWorlds(): void {
  if (areKnown) return;
  areKnown = true;
  for (const spec of [shell, host, harbor]) addEnvironment(spec, "worldgrad");
}

/** The names of the library's environments that a program can play by itself: without a server, and without a file. */
export const OWN_WORLDS: readonly string[] = [...Object.keys(ENVIRONMENTS), shell.name, host.name];
