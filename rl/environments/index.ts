/** The built-in environments by name. */
import type { EnvironmentSpec } from "./environment.ts";
import { terminal } from "./terminal/index.ts";

export const ENVIRONMENTS: Readonly<Record<string, EnvironmentSpec>> = { terminal };
