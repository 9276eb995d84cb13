/** Folder of package.json, for scripts that are started from any folder. */
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

export const packageFolder: string = join(dirname(fileURLToPath(import.meta.url)), "..");
