/** Where package.json is, for scripts that are started from anywhere. */
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

export const packageFolder: string = join(dirname(fileURLToPath(import.meta.url)), "..");
