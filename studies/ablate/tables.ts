/** The results of an ablation as tables, the same in the terminal and on the page. */
import { type Column, type Table, type TableCell, tableOf } from "../../run/display/table.ts";
import { formatCount, formatDuration, formatNumber, formatPercent, formatSigned } from "../../run/figures/format.ts";
import { type Difference, type Interval, mean, type Ratio } from "../../run/figures/statistics.ts";
import { SMOOTHING } from "./points.ts";
import type { ArmResult, EnvironmentResult, Measures, Results } from "./results.ts";
import type { Tuning } from "./tune.ts";

/** With fewer seeds an interval excludes 0 too easily: with two, in half of the comparisons of equal arms. */
const SEEDS_TO_COLOUR = 5;

/**
 * Seconds of RL for each seed of an arm in an environment. They depend on the machine, so the results do not have them.
 */
export type Times = (env: string, arm: string) => readonly number[];

/** A row of a table: an arm or, with fewer numbers, the warm start. */
type Row = Measures & Partial<ArmResult> & Pick<ArmResult, "arm">;
const NAME: Column<{ readonly arm: string }> = ["", ({ arm }) => arm];
const withWarm = ({ warm, arms }: EnvironmentResult): readonly Row[] => [{ arm: "warm start", ...warm }, ...arms];

/** All tables, in reading order. */
export function tablesOf(results: Results, times: Times = () => []): Table[] {
  const { environments, overall, tuning } = results;
  const all = environments.flatMap((of) => [
    ...(of.arms.some(({ speed }) => speed !== null) ? [speedTable(of, results)] : []),
    successTable(of, results),
    effortTable(of, results, times),
    worldTable(of, results),
    ...(Object.keys(of.warm.passAt).length > 0 ? [passAtTable(of)] : []),
    ...(Object.keys(of.warm.families).length > 1 ? [familyTable(of, results)] : []),
  ]);
  return [...all, ...(overall.length > 0 ? [overallTable(results)] : []), ...tuning.map(tuningTable)];
}

/** The measure that was fixed beforehand: how soon an arm succeeds, and how well on the way. */
function speedTable({ env, budget, arms }: EnvironmentResult, { baseline }: Results): Table {
  return tableOf(
    `${env}: environment steps until ${baseline}'s own best success`,
    arms.flatMap(({ speed, ...rest }) => (speed === null ? [] : [{ ...rest, speed }])),
    [
      NAME,
      ["env. steps", ({ speed }) => atLeast(speed, spread(speed.mean, wholeCount))],
      [`as a part of ${baseline}'s`, ({ arm, speed }) => (arm === baseline ? "" : ratioCell(speed))],
      ["reached", ({ speed }) => `${speed.reached} of ${speed.seeds}`],
      [`mean success to ${formatCount(budget)}`, ({ area }) => rate(area)],
      [`against ${baseline}`, ({ areaDifference }) => change(areaDifference)],
    ],
    `For each seed: the commands in training until held-out success (a centred moving mean over ${SMOOTHING} ` +
      `evaluations, linear between them) is as high as the best of ${baseline} with that seed. Ratios are ` +
      "geometric means over seeds: 0.5 is twice as fast. “≥”: some seed never got there and counts with all its " +
      `steps, which is too little. Mean success is the area under the curve to ${formatCount(budget)} commands, ` +
      "over its width.",
  );
}

const higher = ({ higher: n, equal, seeds }: Difference): string =>
  `${n} of ${seeds}${equal > 0 ? `, ${equal} equal` : ""}`;
const lower = ({ higher: n, equal, seeds }: Difference): string => `${seeds - n - equal} of ${seeds}`;

function successTable(of: EnvironmentResult, { baseline, heldOutEpisodes }: Results): Table {
  return tableOf(
    `${of.env}: success on held-out tasks at the end`,
    withWarm(of),
    [
      NAME,
      ["mean over seeds", ({ success }) => rate(success)],
      [`against ${baseline}`, ({ difference }) => change(difference)],
      ["IQM", ({ iqm }) => rate(iqm)],
      [`IQM against ${baseline}`, ({ iqmDifference }) => change(iqmDifference)],
      ["seeds higher", ({ difference }) => count(difference, higher)],
      ["seeds", ({ seeds }) => (seeds === undefined ? "" : String(seeds.length))],
      ["RL steps", ({ steps }) => (steps === undefined ? "" : String(steps))],
    ],
    `In percent, with a 95 % bootstrap interval over seeds (each ${heldOutEpisodes} episodes); differences are ` +
      `in points, seed by seed, and coloured if there are ${SEEDS_TO_COLOUR} seeds or more and the interval ` +
      "excludes 0.",
  );
}

function effortTable({ env, budget, arms }: EnvironmentResult, { baseline, threshold }: Results, times: Times): Table {
  const seconds = (arm: string): string => {
    const all = times(env, arm);
    return all.length === 0 ? "" : formatDuration(mean(all));
  };
  return tableOf(
    `${env}: what it takes, and RL steps to ${formatPercent(threshold)}`,
    arms,
    [
      NAME,
      ["env. steps", ({ plays, envSteps }) => (plays ? wholeCount(envSteps.value) : "none")],
      ["FLOPs", ({ flops }) => (flops.value > 0 ? flops.value.toExponential(1).replace("e+", "e") : "none")],
      ["wall time", ({ arm }) => seconds(arm)],
      [`success at ${formatCount(budget)}`, ({ atBudget }) => rate(atBudget)],
      [`against ${baseline}`, ({ budgetDifference }) => change(budgetDifference)],
      ["reached", ({ threshold: time }) => `${time.reached} of ${time.seeds}`],
      ["median", ({ threshold: { median }, steps }) => (median === null ? `> ${steps}` : formatNumber(median))],
      ["mean", ({ threshold: time }) => spread(time.restricted, (x) => x.toFixed(0))],
    ],
    "Equal numbers of episodes are not equal numbers of commands (environment steps): the policy decides how " +
      `many an episode has. The column at ${formatCount(budget)} commands compares all arms that play after ` +
      "equally many. FLOPs: parameters × tokens of training episodes × (2 to play them, 6 to learn from them, 2 " +
      "for each pass that only scores them). Wall time is that of the RL steps and includes whatever else the " +
      `machine did. A seed that never reached ${formatPercent(threshold)} counts in the median as later than all ` +
      "others, and in the mean as all its steps, which is too little.",
  );
}

function worldTable(of: EnvironmentResult, { baseline }: Results): Table {
  const rows = withWarm(of);
  const loss = (value: Interval | null): string => spread(value, (x) => x.toFixed(3));
  const excess: Column<Row>[] = rows.some(({ worldLossExcess }) => worldLossExcess !== null)
    ? [["excess", ({ worldLossExcess }) => loss(worldLossExcess)]]
    : [];
  return tableOf(
    `${of.env}: world-model loss on held-out observations`,
    rows,
    [
      NAME,
      ["fixed episodes", ({ worldLoss }) => loss(worldLoss)],
      [`against ${baseline}`, ({ worldDifference }) => toned(worldDifference, (x) => signed(x, 3), -1)],
      ["seeds lower", ({ worldDifference }) => count(worldDifference, lower)],
      ["random play", ({ worldLossRandom }) => loss(worldLossRandom)],
      ["on-policy", ({ worldLossOnPolicy }) => loss(worldLossOnPolicy)],
      ...excess,
      ["seeds", ({ seeds }) => (seeds === undefined ? "" : String(seeds.length))],
    ],
    "Mean −log p per token of what the environment answers, in nats; lower is better. The fixed episodes are " +
      "the same for all: half of them the expert's, half random play, which also has a column of its own. " +
      "On-policy: in the held-out episodes that the arm itself has just played, whose answers become easier as it " +
      `becomes better.${excess.length > 0 ? EXCESS : ""}`,
  );
}

const EXCESS =
  " Excess: the on-policy loss minus the entropy of the answers themselves; it is 0 for an agent knowing this world.";

function passAtTable(of: EnvironmentResult): Table {
  const ks = Object.keys(of.warm.passAt).toSorted((a, b) => Number(a) - Number(b));
  return tableOf(
    `${of.env}: held-out tasks solved in at least one of k tries`,
    withWarm(of),
    [NAME, ...ks.map((k): Column<Row> => [`pass@${k}`, ({ passAt }) => rate(passAt[k])])],
    `In percent, over seeds; estimated without bias from ${ks.at(-1)!} tries of each task (Chen et al. 2021, ` +
      "arXiv 2107.03374).",
  );
}

function familyTable(of: EnvironmentResult, { baseline }: Results): Table {
  const names = Object.keys(of.warm.families);
  const isRewarded = (name: string): boolean => of.rewarded.includes(name);
  const isTransfer = !names.every(isRewarded);
  return tableOf<string>(
    `${of.env}: success by family of tasks at the end`,
    names,
    [
      ["", (name) => name],
      ...(isTransfer ? [["rewarded", (name) => (isRewarded(name) ? "yes" : "never")] satisfies Column<string>] : []),
      ...withWarm(of).map(({ arm, families }): Column<string> => [arm, (name) => rate(families[name])]),
    ],
    isTransfer
      ? `In percent, over seeds. “Never”: no training task of ${baseline} is of that family; success there is transfer.`
      : "In percent, over seeds.",
  );
}

function overallTable({ baseline, overall, environments }: Results): Table {
  return tableOf(
    `All ${environments.length} environments together`,
    overall,
    [NAME, ["IQM of success", ({ iqm }) => rate(iqm)], [`against ${baseline}`, ({ difference }) => change(difference)]],
    "Interquartile mean over environments and seeds with a stratified bootstrap (arXiv 2108.13264); " +
      "differences: the interquartile mean of the differences seed by seed.",
  );
}

function tuningTable({ env, arm, seeds, axis, budget, trials, chosen, edges }: Tuning): Table {
  const over = axis === "envSteps" ? "environment steps" : "optimiser steps";
  const percent = (x: number): string => (Number.isNaN(x) ? NO_NUMBER : formatPercent(x));
  const at = edges.map(({ key, value, end, of }) => `${key}=${value} (the ${end} of ${of})`).join(" and ");
  const warning = `Warning: the best lies at the edge of what was tried, ${at}, so that a better one may lie outside. `;
  return tableOf<Tuning["trials"][number]>(
    `${env}, ${arm}: what was tried`,
    trials,
    [
      ["", ({ settings }) => settings || "as it is"],
      ["mean success", (trial) => percent(trial.mean)],
      ...seeds.map((seed, i): Column<Tuning["trials"][number]> => [`seed ${seed}`, ({ areas }) => percent(areas[i]!)]),
      ["", ({ settings }) => (settings === chosen ? "chosen" : "")],
    ],
    `${edges.length > 0 ? warning : ""}On seeds that are not reported: the area under the curve of held-out success ` +
      `to ${formatCount(budget)} ${over}, over its width.`,
  );
}

/** The success of every cell, each with a link to the report of its run. */
export function cellsTable({ env, arms }: EnvironmentResult, { cells }: Results, linkOf: LinkOf): Table {
  const own = cells.filter((cell) => cell.env === env);
  const seeds = [...new Set(own.map(({ seed }) => seed))].toSorted((a, b) => a - b);
  const cellOf = (arm: string, seed: number): string | TableCell => {
    const cell = own.find((one) => one.arm === arm && one.seed === seed);
    return cell ? { text: formatPercent(cell.points.at(-1)!.success), href: linkOf(env, arm, seed) } : "–";
  };
  const columns = seeds.map((seed): typeof NAME => [`seed ${seed}`, ({ arm }) => cellOf(arm, seed)]);
  return tableOf(`${env}: success of every cell; each opens the report of its run`, arms, [NAME, ...columns]);
}

/** The address of a cell's own report. */
export type LinkOf = (env: string, arm: string, seed: number) => string;

/** The text where a seed's model is broken: a loss that is not finite has no mean over seeds. */
const NO_NUMBER = "no number";

/** "62.5 [52.4, 71.6]", or nothing where there is nothing to show. */
function spread(of: Interval | null | undefined, format: (x: number) => string): string {
  if (of === null || of === undefined) return "";
  if (Number.isNaN(of.value)) return NO_NUMBER;
  const [v, l, h] = [of.value, of.low, of.high].map((x) => format(x).replace("-", "−"));
  return Number.isNaN(of.low) ? `${v} [one seed]` : `${v} [${l}, ${h}]`;
}

/** An interval in percent. */
const rate = (of: Interval | null | undefined): string => spread(of, (x) => (100 * x).toFixed(1));

const wholeCount = (x: number): string => formatCount(Math.round(x));

const atLeast = ({ reached, seeds }: Ratio, text: string): string => (reached < seeds ? `≥ ${text}` : text);

/** The tone is "good" only if every seed got there: otherwise the ratio is a lower bound. */
function ratioCell(of: Ratio): TableCell {
  const { text, tone } = toned(of, (x) => x.toFixed(2), -1, 1);
  return { text: atLeast(of, text), ...(tone === "bad" || of.reached === of.seeds ? { tone } : {}) };
}

const change = (of: Difference | null | undefined): TableCell => toned(of, (x) => signed(100 * x, 1), 1);

/** @param better the sign of an improvement @param equal the value without a difference */
function toned(
  of: Difference | Ratio | null | undefined,
  format: (x: number) => string,
  better: 1 | -1,
  equal = 0,
): TableCell {
  const text = spread(of, format);
  if (of === null || of === undefined || of.seeds < SEEDS_TO_COLOUR) return { text };
  const side = of.low > equal ? 1 : of.high < equal ? -1 : 0;
  return side === 0 ? { text } : { text, tone: side === better ? "good" : "bad" };
}

const signed = (x: number, digits: number): string =>
  formatSigned(Number(x.toFixed(digits)), (v) => v.toFixed(digits).replace("-", "−"));

/** In how many seeds an arm is on one side of the first. */
const count = (of: Difference | null | undefined, text: (of: Difference) => string): string =>
  of === null || of === undefined || Number.isNaN(of.value) ? "" : text(of);
