/** Tables of GPU results: for the end of `npm run gpu`, and for docs/performance.md. */
import type { ResultLine } from "../results.ts";
import { markdownTable, showMs, showRate } from "../table.ts";

const family = ({ case: name }: ResultLine): string => name.split("/")[0]!;

const FAMILIES: readonly (readonly [title: string, families: readonly string[]])[] = [
  ["Training steps: loss, gradient, AdamW", ["step", "gpt2"]],
  ["Matrix products", ["matmul"]],
  ["Softmax, norm, attention, log-probabilities", ["softmax", "norm", "attention", "logProbs"]],
  ["A linear layer with frozen weights in f32, 16 or 8 bits", ["packed"]],
  ["Sampling with a cache", ["decode"]],
  ["A step of GRPO: playing, gradient, update", ["grpo"]],
];

/** Tables of lines that a GPU computed. The newest line of a case and contender counts. */
export function gpuTables(lines: readonly ResultLine[]): string {
  const newest = [...new Map(lines.map((line) => [`${line.case} ${line.result.contender}`, line])).values()];
  const parts = FAMILIES.flatMap(([title, families]) => {
    const found = newest.filter((line) => families.includes(family(line)));
    return found.length === 0 ? [] : [`### ${title}`, besideEachOther(found)];
  });
  const ladders = ["ladder", "ladderAttention"].flatMap((name) => {
    const found = newest.filter((line) => family(line) === name);
    return found.length === 0 ? [] : [ladderTable(name, found)];
  });
  return [...parts, ...(ladders.length === 0 ? [] : ["### Schedules of our kernels", ...ladders])].join("\n\n");
}

/** Table with a row for each case and a column for each contender: milliseconds and rate. */
function besideEachOther(lines: readonly ResultLine[]): string {
  const contenders = [...new Set(lines.map(({ result }) => result.contender))];
  const cases = [...new Set(lines.map((line) => line.case))];
  return markdownTable(
    ["milliseconds, median", ...contenders],
    cases.map((name) => [
      `\`${name}\``,
      ...contenders.map((contender) => {
        const line = lines.find((l) => l.case === name && l.result.contender === contender);
        if (line === undefined) return "";
        const { ms, reason } = line.result;
        return ms === undefined ? (reason ?? "–") : `${showMs(ms.median)} (${showRate(line, ms.median)})`;
      }),
    ]),
  );
}

/** Table with a row for each schedule and a column for each shape. */
function ladderTable(name: string, lines: readonly ResultLine[]): string {
  const parts = lines.map((line) => {
    const [, schedule, ...shape] = line.case.split("/");
    return { schedule: schedule!, shape: shape.join("/"), line };
  });
  const shapes = [...new Set(parts.map(({ shape }) => shape))];
  const schedules = [...new Set(parts.map(({ schedule }) => schedule))];
  return markdownTable(
    [name === "ladder" ? "products, GFLOP/s" : "attention, GFLOP/s", ...shapes],
    schedules.map((schedule) => [
      `\`${schedule}\``,
      ...shapes.map((shape) => {
        const found = parts.find((part) => part.schedule === schedule && part.shape === shape);
        const { ms, reason } = found?.line.result ?? {};
        return ms === undefined ? (reason ?? "") : (found!.line.flops / ms.median / 1e6).toFixed(0);
      }),
    ]),
  );
}

/**
 * Summary of the output of vitest's verbose reporter so far: how many tests passed, and the failed ones with the first
 * line of their error. A run that was stopped has no other report.
 */
export function testSummary(output: string): string {
  const lines = output.split("\n");
  const passed = lines.filter((line) => line.trimStart().startsWith("✓"));
  const failed = lines.flatMap((line, i) =>
    line.trimStart().startsWith("×") ? [`- ${line.trim()} ${lines[i + 1]?.trim() ?? ""}`] : [],
  );
  const errors = lines.filter((line) => /^(Error|Unhandled)/.test(line)).map((line) => `- ${line}`);
  return [`Tests of WGSL: ${passed.length} passed, ${failed.length} failed.`, "", ...failed, ...errors].join("\n");
}
