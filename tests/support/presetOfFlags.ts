/** What the main job makes of its flags, without starting it. */
import { parseStart } from "../../run/node/commandLine.ts";
import type { StartOptions } from "../../run/startOptions.ts";
import type { Preset } from "../../run/preset.ts";
import { presetFor } from "../../run/presets.ts";
import { definedOf } from "./mainJob.ts";

/** In the terminal, where nothing else is said: the tests are about its numbers. */
export const presetOfFlags = (...args: readonly string[]): Preset =>
  presetFor({ env: "terminal", ...definedOf(parseStart(args) as StartOptions) });

/** `--set` before each of the settings. */
export const set = (...settings: readonly string[]): string[] => settings.flatMap((text) => ["--set", text]);

/** The same for a run that learns from a teacher. */
export const presetOfStudent = (...args: readonly string[]): Preset => {
  const options = definedOf(parseStart(args) as StartOptions);
  return presetFor({ env: "terminal", ...options }, undefined, undefined, { path: "teacher", sha256: "0" });
};
