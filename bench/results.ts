/** The file of results: one JSON object a line for each case and contender. Lines are only ever appended. */
import { appendFileSync, existsSync, readFileSync } from "node:fs";
import type { Case } from "./cases/case.ts";
import type { Machine } from "./machine.ts";
import type { Measurement } from "./measure.ts";

/** Place and conditions of a measurement. */
export interface RunInfo {
  readonly time: string;
  readonly commit: string;
  readonly machine: Machine;
  readonly adapter: string;
  readonly command: string;
  readonly threads: number;
  /** Load of the machine before the run (`load` in machine.ts). */
  readonly load?: number;
}

export interface ResultLine extends RunInfo {
  readonly case: string;
  readonly flops: number;
  readonly bytes: number;
  readonly work?: Case["work"];
  readonly result: Measurement;
  /** Share of the roofline, 0 to 1. */
  readonly roofline?: number;
}

export function appendResults(file: string, lines: readonly ResultLine[]): void {
  appendFileSync(file, lines.map((line) => `${JSON.stringify(line)}\n`).join(""));
}

export function readResults(file: string): ResultLine[] {
  if (!existsSync(file)) return [];
  return readFileSync(file, "utf8")
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line) as ResultLine);
}
