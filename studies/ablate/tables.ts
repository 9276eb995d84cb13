/** The results of an ablation as tables, the same in the terminal and on the page. */
import type { Table, TableCell } from "../../run/display/table.ts";
import { formatCount, formatDuration, formatNumber, formatPercent, formatSigned } from "../../run/figures/format.ts";
import { type Interval, type Difference, mean, type Ratio, type TimeTo } from "../../run/figures/statistics.ts";
import { SMOOTHING } from "./points.ts";
import type { ArmResult, EnvironmentResult, Results } from "./results.ts";
import type { Tuning } from "./tune.ts";

/** With fewer seeds an interval excludes 0 too easily: with two, in half of the comparisons of equal arms. */
const SEEDS_TO_COLOUR = 5;

/**
 * Seconds of RL for each seed of an arm in an environment. They depend on the machine, so the results do not have them.
 */
export type Times = (env: string, arm: string) => readonly number[];

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
  const rest = overall.length > 0 ? [overallTable(results)] : [];
  return [...all, ...rest, ...tuning.map(tuningTable)];
}

/** The measure that was fixed beforehand: how soon an arm succeeds, and how well on the way. */
function speedTable({ env, budget, arms }: EnvironmentResult, { baseline }: Results): Table {
  return {
    title: `${env}: environment steps until ${baseline}'s own best success`,
    head: [
      "",
      "env. steps",
      `as a part of ${baseline}'s`,
      "reached",
      `mean success to ${formatCount(budget)}`,
      `against ${baseline}`,
    ],
    rows: arms.flatMap(({ arm, speed, area, areaDifference }) =>
      speed === null || area === null
        ? []
        : [
            [
              arm,
              atLeast(speed, spread(speed.mean, wholeCount)),
              arm === baseline ? "" : ratioCell(speed),
              `${speed.reached} of ${speed.seeds}`,
              rate(area),
              change(areaDifference),
            ],
          ],
    ),
    note:
      `For each seed: the commands in training until held-out success (a centred moving mean over ${SMOOTHING} ` +
      `evaluations, linear between them) is as high as the best of ${baseline} with that seed. Ratios are ` +
      "geometric means over seeds: 0.5 is twice as fast. “≥”: some seed never got there and counts with all its " +
      `steps, which is too little. Mean success is the area under the curve to ${formatCount(budget)} commands, ` +
      "over its width.",
  };
}

function successTable({ env, warm, arms }: EnvironmentResult, { baseline, heldOutEpisodes }: Results): Table {
  return {
    title: `${env}: success on held-out tasks at the end`,
    head: [
      "",
      "mean over seeds",
      `against ${baseline}`,
      "IQM",
      `IQM against ${baseline}`,
      "seeds higher",
      "seeds",
      "RL steps",
    ],
    rows: [
      ["warm start", rate(warm.success), "", "", "", "", "", ""],
      ...arms.map((of) => [
        of.arm,
        rate(of.success),
        change(of.difference),
        rate(of.iqm),
        change(of.iqmDifference),
        wins(of.difference),
        String(of.seeds.length),
        String(of.steps),
      ]),
    ],
    note:
      `In percent, with a 95 % bootstrap interval over seeds (each ${heldOutEpisodes} episodes); differences are ` +
      `in points, seed by seed, and coloured if there are ${SEEDS_TO_COLOUR} seeds or more and the interval ` +
      "excludes 0.",
  };
}

function effortTable({ env, budget, arms }: EnvironmentResult, { baseline, threshold }: Results, times: Times): Table {
  const seconds = (arm: string): string => {
    const all = times(env, arm);
    return all.length === 0 ? "" : formatDuration(mean(all));
  };
  return {
    title: `${env}: what it takes, and RL steps to ${formatPercent(threshold)}`,
    head: [
      "",
      "env. steps",
      "FLOPs",
      "wall time",
      `success at ${formatCount(budget)}`,
      `against ${baseline}`,
      "reached",
      "median",
      "mean",
    ],
    rows: arms.map(({ arm, steps, plays, envSteps, flops, atBudget, budgetDifference, threshold: time }) => [
      arm,
      plays ? formatCount(Math.round(envSteps.value)) : "none",
      flops.value > 0 ? flops.value.toExponential(1).replace("e+", "e") : "none",
      seconds(arm),
      atBudget === null ? "" : rate(atBudget),
      change(budgetDifference),
      `${time.reached} of ${time.seeds}`,
      medianText(time, steps),
      spread(time.restricted, (x) => x.toFixed(0)),
    ]),
    note:
      "Equal numbers of episodes are not equal numbers of commands (environment steps): the policy decides how " +
      `many an episode has. The column at ${formatCount(budget)} commands compares all arms that play after ` +
      "equally many. FLOPs: parameters × tokens of training episodes × (2 to play them, 6 to learn from them, 2 " +
      "for each pass that only scores them). Wall time is that of the RL steps and includes whatever else the " +
      `machine did. A seed that never reached ${formatPercent(threshold)} counts in the median as later than all ` +
      "others, and in the mean as all its steps, which is too little.",
  };
}

const EXCESS =
  " Excess: the on-policy loss minus the entropy of the answers themselves; it is 0 for an agent knowing this world.";

function worldTable({ env, warm, arms }: EnvironmentResult, { baseline }: Results): Table {
  const loss = (of: Interval): string => spread(of, (x) => x.toFixed(3));
  const hasExcess = [warm, ...arms].some(({ worldLossExcess }) => worldLossExcess !== null);
  const excess = ({ worldLossExcess: of }: Pick<ArmResult, "worldLossExcess">): string[] =>
    hasExcess ? [of === null ? "" : loss(of)] : [];
  return {
    title: `${env}: world-model loss on held-out observations`,
    head: [
      "",
      "fixed episodes",
      `against ${baseline}`,
      "seeds lower",
      "random play",
      "on-policy",
      ...(hasExcess ? ["excess"] : []),
      "seeds",
    ],
    rows: [
      [
        "warm start",
        loss(warm.worldLoss),
        "",
        "",
        loss(warm.worldLossRandom),
        loss(warm.worldLossOnPolicy),
        ...excess(warm),
        "",
      ],
      ...arms.map(
        ({ arm, worldLoss, worldDifference: d, worldLossRandom, worldLossOnPolicy, worldLossExcess, seeds }) => [
          arm,
          loss(worldLoss),
          lossChange(d),
          d === null || Number.isNaN(d.value) ? "" : `${d.seeds - d.higher - d.equal} of ${d.seeds}`,
          loss(worldLossRandom),
          loss(worldLossOnPolicy),
          ...excess({ worldLossExcess }),
          String(seeds.length),
        ],
      ),
    ],
    note:
      "Mean −log p per token of what the environment answers, in nats; lower is better. The fixed episodes are " +
      "the same for all: half of them the expert's, half random play, which also has a column of its own. " +
      "On-policy: in the held-out episodes that the arm itself has just played, whose answers become easier as it " +
      `becomes better.${hasExcess ? EXCESS : ""}`,
  };
}

function passAtTable({ env, warm, arms }: EnvironmentResult): Table {
  const ks = Object.keys(warm.passAt).toSorted((a, b) => Number(a) - Number(b));
  const row = (name: string, { passAt }: Pick<ArmResult, "passAt">): string[] => [
    name,
    ...ks.map((k) => (passAt[k] ? rate(passAt[k]) : "")),
  ];
  return {
    title: `${env}: held-out tasks solved in at least one of k tries`,
    head: ["", ...ks.map((k) => `pass@${k}`)],
    rows: [row("warm start", warm), ...arms.map((of) => row(of.arm, of))],
    note:
      `In percent, over seeds; estimated without bias from ${ks.at(-1)!} tries of each task (Chen et al. 2021, ` +
      "arXiv 2107.03374).",
  };
}

function familyTable({ env, warm, arms, rewarded }: EnvironmentResult, { baseline }: Results): Table {
  const names = Object.keys(warm.families);
  const isTransfer = names.some((name) => !rewarded.includes(name));
  return {
    title: `${env}: success by family of tasks at the end`,
    head: ["", ...(isTransfer ? ["rewarded"] : []), "warm start", ...arms.map(({ arm }) => arm)],
    rows: names.map((name) => [
      name,
      ...(isTransfer ? [rewarded.includes(name) ? "yes" : "never"] : []),
      rate(warm.families[name]!),
      ...arms.map(({ families }) => (families[name] ? rate(families[name]) : "")),
    ]),
    note: isTransfer
      ? `In percent, over seeds. “Never”: no training task of ${baseline} is of that family; success there is transfer.`
      : "In percent, over seeds.",
  };
}

function overallTable({ baseline, overall, environments }: Results): Table {
  return {
    title: `All ${environments.length} environments together`,
    head: ["", "IQM of success", `against ${baseline}`],
    rows: overall.map(({ arm, iqm, difference }) => [arm, rate(iqm), change(difference)]),
    note:
      "Interquartile mean over environments and seeds with a stratified bootstrap (arXiv 2108.13264); " +
      "differences: the interquartile mean of the differences seed by seed.",
  };
}

function tuningTable({ env, arm, seeds, axis, budget, trials, chosen, edges }: Tuning): Table {
  const over = axis === "envSteps" ? "environment steps" : "optimiser steps";
  return {
    title: `${env}, ${arm}: what was tried`,
    head: ["", "mean success", ...seeds.map((seed) => `seed ${seed}`), ""],
    rows: trials.map(({ settings, areas, mean: value }) => [
      settings || "as it is",
      percent(value),
      ...areas.map(percent),
      settings === chosen ? "chosen" : "",
    ]),
    note:
      `${edgeWarning(edges)}On seeds that are not reported: the area under the curve of held-out success to ` +
      `${formatCount(budget)} ${over}, over its width.`,
  };
}

/** The warning about settings at an edge of the grid; empty without any. */
function edgeWarning(edges: Tuning["edges"]): string {
  if (edges.length === 0) return "";
  const which = edges.map(({ key, value, end, of }) => `${key}=${value} (the ${end} of ${of})`).join(" and ");
  return `Warning: the best lies at the edge of what was tried, ${which}, so that a better one may lie outside. `;
}

/** The text where a seed's model is broken: a loss that is not finite has no mean over seeds. */
const NO_NUMBER = "no number";

const percent = (x: number): string => (Number.isNaN(x) ? NO_NUMBER : formatPercent(x));

/** "62.5 [52.4, 71.6]", in percent. */
const rate = (of: Interval): string => spread(of, (x) => (100 * x).toFixed(1));

function spread({ value, low, high }: Interval, format: (x: number) => string): string {
  if (Number.isNaN(value)) return NO_NUMBER;
  const [v, l, h] = [value, low, high].map((x) => format(x).replace("-", "−"));
  return Number.isNaN(low) ? `${v} [one seed]` : `${v} [${l}, ${h}]`;
}

const wholeCount = (x: number): string => formatCount(Math.round(x));

const atLeast = ({ reached, seeds }: Ratio, text: string): string => (reached < seeds ? `≥ ${text}` : text);

/** The tone is "good" only if every seed got there: otherwise the ratio is a lower bound. */
function ratioCell(of: Ratio): TableCell {
  const text = atLeast(
    of,
    spread(of, (x) => x.toFixed(2)),
  );
  if (of.seeds < SEEDS_TO_COLOUR) return { text };
  if (of.low > 1) return { text, tone: "bad" };
  return of.high < 1 && of.reached === of.seeds ? { text, tone: "good" } : { text };
}

function change(of: Difference | null): TableCell {
  return of === null ? { text: "" } : toned(of, (x) => signed(100 * x, 1), 1);
}

function lossChange(of: Difference | null): TableCell {
  return of === null ? { text: "" } : toned(of, (x) => signed(x, 3), -1);
}

/** @param better the sign of an improvement */
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
