/** Measurements of a case as lines for a terminal, and tables of a document. */
import type { Case } from "./cases/case.ts";
import type { Contender } from "./contenders/index.ts";
import type { Measurement } from "./measure.ts";
import { leastMs, type Roofline } from "./roofline.ts";
import { ratio } from "./statistics.ts";

/** Rooflines of this machine, for one thread and for all. */
export interface Rooflines {
  readonly one: Roofline;
  readonly all: Roofline;
}

export const showMs = (ms: number): string => (ms >= 100 ? ms.toFixed(0) : ms >= 1 ? ms.toPrecision(3) : ms.toFixed(4));

const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

/** Rate as text: 12.3 GFLOP/s, or the work of the case per second. */
export function showRate(test: Pick<Case, "flops" | "work">, ms: number): string {
  if (test.work !== undefined) return `${whole.format((1000 * test.work.amount) / ms)} ${test.work.unit}`;
  return `${(test.flops / ms / 1e6).toPrecision(3)} GFLOP/s`;
}

/** Share of the roofline that was reached; undefined for executors that it does not describe. */
export function rooflineShare(test: Case, contender: Contender, ms: number, machine: Rooflines): number | undefined {
  if (contender.executor !== "wasm" || test.flops + test.bytes === 0) return undefined;
  return leastMs(test, contender.threads === "all" ? machine.all : machine.one) / ms;
}

/** Peak memory of the process and, if the engine counts them, of its tensors. */
export function showMemory({ peakRss, peak }: Measurement): string {
  const mib = (bytes: number): string => (bytes / 2 ** 20).toFixed(0);
  if (peakRss === undefined) return "";
  return `${mib(peakRss)} MiB${peak === undefined ? "" : ` (${mib(peak)})`}`;
}

export function showCase(
  test: Case,
  results: readonly Measurement[],
  contenders: readonly Contender[],
  machine: Rooflines,
): string {
  const base = results.find((r) => r.rounds !== undefined);
  const lines = results.map((result) => {
    const name = `  ${result.contender.padEnd(20)}`;
    const { ms, rounds, processorMs } = result;
    if (ms === undefined || rounds === undefined) return `${name} – ${result.reason}`;
    const share = rooflineShare(
      test,
      contenders.find((c) => c.name === result.contender)!,
      ms.median,
      machine,
    );
    const memory = test.alone ? showMemory(result) : "";
    return [
      name,
      showMs(ms.median).padStart(8),
      `${showMs(ms.min)}–${showMs(ms.max)}`.padStart(15),
      (processorMs === undefined ? "–" : showMs(processorMs)).padStart(10),
      showRate(test, ms.median).padStart(15),
      `${ratio(rounds, base!.rounds!).toFixed(2)}×`.padStart(8),
      (share === undefined ? "–" : `${(100 * share).toFixed(0)} %`).padStart(8),
      memory.padStart(14),
    ].join(" ");
  });
  const memoryHead = test.alone ? "RSS (tensors)" : "";
  const columns = [
    ["", 22],
    ["ms", 8],
    ["spread", 15],
    ["processor", 10],
    ["rate", 15],
    ["time", 8],
    ["roofline", 8],
    [memoryHead, 14],
  ] as const;
  const head = `${test.name.padEnd(30)}\n${columns.map(([text, width]) => text.padStart(width)).join(" ")}`;
  const figures = results.flatMap((r) =>
    Object.entries(r.figures ?? {}).map(([name, value]) => `    ${r.contender}: ${name} ${showMs(value)}`),
  );
  return [head, ...lines, ...figures].join("\n");
}

const row = (cells: readonly string[]): string => `| ${cells.join(" | ")} |`;
/** A table in Markdown. The first `words` columns hold words, the others numbers. */
export const markdownTable = (head: readonly string[], rows: readonly (readonly string[])[], words = 1): string =>
  [row(head), row(head.map((_, i) => (i < words ? "---" : "--:"))), ...rows.map(row)].join("\n");
