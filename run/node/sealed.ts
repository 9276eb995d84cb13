/** JSON files whose last entry is a hash of the rest, so that changes are noticed. */
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { isRecord } from "../records.ts";

const SEAL = "sha256";

/** SHA-256, in hexadecimal digits. */
export function sha256(bytes: Uint8Array | string): string {
  return createHash("sha256").update(bytes).digest("hex");
}

/** The object as JSON, with a hash of all the rest as its last entry. */
export function sealed(value: object): string {
  return `${JSON.stringify({ ...value, [SEAL]: sha256(JSON.stringify(value)) }, null, 2)}\n`;
}

/**
 * The object in a file that `sealed` made, without its hash.
 * @param refuse throws an error with the problem of the file: it is no JSON, no object, or was changed
 */
export function unsealed(path: string, refuse: (problem: string) => never): Record<string, unknown> {
  let value: unknown;
  try {
    value = JSON.parse(readFileSync(path, "utf8"));
  } catch (error) {
    // V8 quotes what it read, line ends included.
    refuse(`not valid JSON: ${(error instanceof Error ? error.message : String(error)).replaceAll(/\s+/g, " ")}`);
  }
  if (!isRecord(value)) refuse(`expected a JSON object, got ${JSON.stringify(value)}`);
  const { [SEAL]: seal, ...rest } = value;
  if (seal === undefined) refuse(`no run wrote it, or it was changed since: it has no "${SEAL}"`);
  if (seal !== sha256(JSON.stringify(rest)))
    refuse(`changed since it was written: its "${SEAL}" is of another content`);
  return rest;
}
