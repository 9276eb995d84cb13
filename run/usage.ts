/** Mistakes in the settings of a run, and the readers of values that several settings share. */
import { WorldgradError } from "../engine/index.ts";

/** A mistake of the user: one line, which a program prints with exit code 2 and a page shows. */
export class UsageError extends Error {}

/** The value of a flag that allows some words. */
export function oneOf<T extends string>(flag: string, value: string, allowed: readonly T[]): T {
  const found = allowed.find((name) => name === value);
  if (found === undefined) throw new UsageError(`--${flag}: expected ${allowed.join(", ")}, got "${value}"`);
  return found;
}

/** The value of a flag that is an integer of at least `least`. */
export function wholeNumber(flag: string, value: string, least: number, most = Infinity): number {
  const n = Number(value);
  if (value.trim() === "" || !Number.isSafeInteger(n) || n < least || n > most) {
    const range = most === Infinity ? `≥ ${least}` : `from ${least} to ${most}`;
    throw new UsageError(`--${flag}: expected an integer ${range}, got "${value}"`);
  }
  return n;
}

/** The value of a flag that is a number ≥ 0. */
export function numberFrom(flag: string, value: string): number {
  const n = Number(value);
  if (value.trim() === "" || !Number.isFinite(n) || n < 0) {
    throw new UsageError(`--${flag}: expected a number ≥ 0, got "${value}"`);
  }
  return n;
}

/** The value of `--name`, which becomes the name of a folder. */
export function folderName(value: string): string {
  if (!/^[A-Za-z0-9][A-Za-z0-9._-]*$/.test(value)) {
    throw new UsageError(`--name: expected letters, digits, ".", "_" and "-", got "${value}"`);
  }
  return value;
}

/** The flag of a setting: `import-correction` for `importCorrection`. */
export const dashed = (name: string): string => name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);

/** Runs `make` and turns errors of the library into errors about the flags. */
export function usage<T>(make: () => T): T {
  try {
    return make();
  } catch (error) {
    if (!(error instanceof WorldgradError)) throw error;
    const message = error.message.replace(/^policy loss:/, "loss:").replace(/^GRPOConfig:/, "grpo-config:");
    throw new UsageError(
      message
        .replace(/^history\./, "--set history.")
        .replace(
          /^(method|advantage|loss|aggregation|importanceCorrection|grpo-config|selfPlay):/,
          (_, name: string) => `--${dashed(name)}:`,
        ),
    );
  }
}
