/** What an ablation came to, as tables: the same ones in the terminal and on the page. */
import type { Table, TableCell } from "../display/table.ts";
import { formatCount, formatNumber, formatPercent, formatSigned } from "../report/format.ts";
import type { Interval } from "../report/statistics.ts";
import type { EnvironmentResult, Results } from "./results.ts";
import type { Difference, TimeTo } from "./statistics.ts";

/** With fewer, an interval leaves 0 out too easily: with two seeds in one case of two, whatever the methods are. */
const SEEDS_TO_COLOUR = 5;

/** All tables, in the order in which they are read. */
export function tablesOf(results: Results): Table[] {
  const { environments, overall } = results;
  const all = environments.flatMap((of) => [
    successTable(of, results),
    effortTable(of, results),
    worldTable(of, results),
  ]);
  return overall.length > 0 ? [...all, overallTable(results)] : all;
}

function successTable({ env, warm, methods }: EnvironmentResult, { baseline, steps, heldOutEpisodes }: Results): Table {
  return {
    title: `${env}: success on held-out tasks after ${steps} RL steps`,
    head: ["", "mean over seeds", "IQM", `against ${baseline}`, "seeds higher", "seeds"],
    rows: [
      ["warm start", rate(warm.success), "", "", "", ""],
      ...methods.map((of) => [
        of.method,
        rate(of.success),
        percent(of.iqm.value),
        change(of.difference),
        wins(of.difference),
        String(of.seeds.length),
      ]),
    ],
    note: `In percent, with a 95 % bootstrap interval over seeds (each ${heldOutEpisodes} episodes); differences in points, seed by seed, coloured when there are ${SEEDS_TO_COLOUR} seeds or more and the interval leaves 0 out.`,
  };
}

function effortTable({ env, budget, methods }: EnvironmentResult, { baseline, threshold, steps }: Results): Table {
  return {
    title: `${env}: environment steps, and RL steps to ${formatPercent(threshold)}`,
    head: [
      "",
      "env. steps",
      `success at ${formatCount(budget)}`,
      `against ${baseline}`,
      "reached",
      "median",
      `mean ≤ ${steps}`,
    ],
    rows: methods.map(({ method, envSteps, atBudget, budgetDifference, threshold: time }) => [
      method,
      formatCount(Math.round(envSteps.value)),
      rate(atBudget),
      change(budgetDifference),
      `${time.reached} of ${time.seeds}`,
      medianText(time, steps),
      spread(time.restricted, (x) => x.toFixed(0)),
    ]),
    note: `Every method plays equally many episodes; how many commands (environment steps) those have is up to the policy. At ${formatCount(budget)} commands all methods are compared after equally many. A seed that never reached ${formatPercent(threshold)} counts in the median as later than all others, and in the mean as ${steps}, which is too little.`,
  };
}

function worldTable({ env, warm, methods }: EnvironmentResult, { baseline }: Results): Table {
  const loss = (of: Interval): string => spread(of, (x) => x.toFixed(3));
  return {
    title: `${env}: world-model loss on held-out observations`,
    head: ["", "nats per token", `against ${baseline}`, "seeds lower", "seeds"],
    rows: [
      ["warm start", loss(warm.worldLoss), "", "", ""],
      ...methods.map(({ method, worldLoss, worldDifference: d, seeds }) => [
        method,
        loss(worldLoss),
        lossChange(d),
        d === null || Number.isNaN(d.value) ? "" : `${d.seeds - d.higher - d.equal} of ${d.seeds}`,
        String(seeds.length),
      ]),
    ],
    note: "Mean −log p of what the environment answers, in the same episodes for all: half the expert's, half of random play. Lower is better.",
  };
}

function overallTable({ baseline, overall, environments }: Results): Table {
  return {
    title: `All ${environments.length} environments together`,
    head: ["", "IQM of success", `against ${baseline}`],
    rows: overall.map(({ method, iqm, difference }) => [method, rate(iqm), change(difference)]),
    note: "Interquartile mean over environments and seeds with a stratified bootstrap (arXiv 2108.13264); differences: the interquartile mean of those seed by seed.",
  };
}

/** What stands where a seed's model is broken: a loss that is no number has no mean over seeds. */
const NO_NUMBER = "no number";

const percent = (x: number): string => (Number.isNaN(x) ? NO_NUMBER : formatPercent(x));

/** "62.5 [52.4, 71.6]", in percent. */
const rate = (of: Interval): string => spread(of, (x) => (100 * x).toFixed(1));

function spread({ value, low, high }: Interval, format: (x: number) => string): string {
  if (Number.isNaN(value)) return NO_NUMBER;
  const [v, l, h] = [value, low, high].map((x) => format(x).replace("-", "−"));
  return Number.isNaN(low) ? `${v} [one seed]` : `${v} [${l}, ${h}]`;
}

function change(of: Difference | null): TableCell {
  return of === null ? { text: "" } : toned(of, (x) => signed(100 * x, 1), 1);
}

function lossChange(of: Difference | null): TableCell {
  return of === null ? { text: "" } : toned(of, (x) => signed(x, 3), -1);
}

/** @param better the sign of what is good */
function toned(of: Difference, format: (x: number) => string, better: 1 | -1): TableCell {
  const { value, low, high, seeds } = of;
  if (Number.isNaN(value)) return { text: NO_NUMBER };
  if (seeds < 2) return { text: `${format(value)} [one seed]` };
  const text = `${format(value)} [${format(low)}, ${format(high)}]`;
  const side = low > 0 ? 1 : high < 0 ? -1 : 0;
  if (side === 0 || seeds < SEEDS_TO_COLOUR) return { text };
  return { text, tone: side === better ? "good" : "bad" };
}

const signed = (x: number, digits: number): string =>
  formatSigned(Number(x.toFixed(digits)), (v) => v.toFixed(digits).replace("-", "−"));

function wins(d: Difference | null): string {
  if (d === null || Number.isNaN(d.value)) return "";
  return `${d.higher} of ${d.seeds}${d.equal > 0 ? `, ${d.equal} equal` : ""}`;
}

const medianText = ({ median }: TimeTo, horizon: number): string =>
  median === null ? `> ${horizon}` : formatNumber(median);
