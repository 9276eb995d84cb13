/**
 * Metrics as comma-separated values (RFC 4180, with the line ends of Unix). An absent metric is an empty cell; NaN and
 * infinities are written as pandas reads them.
 */
import type { MetricsRecord } from "../records.ts";

const cell = (text: string): string => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
const row = (cells: readonly string[]): string => `${cells.map(cell).join(",")}\n`;

export const csvHead = row;

export const csvRow = (line: MetricsRecord, columns: readonly string[]): string =>
  row(columns.map((name) => (Object.hasOwn(line, name) ? String(line[name] ?? "") : "")));
