/** The tables of `npm run stories`, in Markdown, from its lines of results. */
import { mean, meanOver, pairedDifference, type Interval } from "../../run/figures/statistics.ts";
import { ARMS, type Job, type RunRecord, START } from "./arms.ts";

const JOBS: readonly Job[] = ["tell", "cast"];
const TITLES: Readonly<Record<Job, string>> = {
  tell: "A story about a word",
  cast: "A story that two write",
};
/** The figure that is trained, and the control that its rise has to be told from. */
const TRAINED: Readonly<Record<Job, string>> = { tell: "reward", cast: "right" };
const CONTROLS: Readonly<Record<Job, string>> = {
  tell: "control: rewards shuffled, β = 0",
  cast: "control: ECHO on meaningless sentences",
};

const digits = (x: number): string => x.toFixed(Math.abs(x) >= 10 ? 1 : 2).replace(/^-/, "−");
const signed = (x: number): string => (x > 0 ? "+" : "") + digits(x);
const cell = ({ value, low, high }: Interval, show: (x: number) => string = digits): string =>
  Number.isNaN(low) ? show(value) : `${show(value)} [${show(low)}, ${show(high)}]`;
const row = (cells: readonly string[]): string => `| ${cells.join(" | ")} |`;
const table = (head: readonly string[], rows: readonly (readonly string[])[]): string =>
  [row(head), row(head.map((_, i) => (i === 0 ? "---" : "--:"))), ...rows.map(row)].join("\n");

/** Names of the arms that have results, the untouched model first. */
const armsOf = (job: Job, runs: readonly RunRecord[]): string[] =>
  [START, ...Object.keys(ARMS[job])].filter((name) => runs.some(({ arm }) => arm === name));

const bySeed = (runs: readonly RunRecord[], arm: string, figure: string): Map<number, number> =>
  new Map(runs.filter((run) => run.arm === arm).map(({ seed, figures }) => [seed, figures[figure]!]));

/** `arm` − `other` in the seeds that both have, and in how many it is above 0. */
function difference(runs: readonly RunRecord[], [arm, other]: readonly [string, string], figure: string): string {
  const others = bySeed(runs, other, figure);
  const shared = [...bySeed(runs, arm, figure)].filter(([seed]) => others.has(seed));
  const found = pairedDifference([shared.map(([seed, value]) => value - others.get(seed)!)]);
  return found === null || arm === other ? "" : `${cell(found, signed)}, ${found.higher} of ${found.seeds}`;
}

function figuresTable(job: Job, runs: readonly RunRecord[]): string {
  const arms = armsOf(job, runs);
  const figures = Object.keys(runs[0]!.figures);
  const rows = figures.map((figure) => [
    figure,
    ...arms.map((arm) => cell(meanOver([...bySeed(runs, arm, figure).values()]))),
  ]);
  return table(["after training", ...arms], rows);
}

function differencesTable(job: Job, runs: readonly RunRecord[]): string {
  const rows = armsOf(job, runs)
    .filter((arm) => arm !== START)
    .map((arm) => [arm, ...[START, CONTROLS[job]].map((other) => difference(runs, [arm, other], TRAINED[job]))]);
  return table([`held-out ${TRAINED[job]}`, "against before", "against the control"], rows);
}

/** Mean reward of the episodes in training, in five stretches. */
function curvesTable(job: Job, runs: readonly RunRecord[]): string {
  const arms = armsOf(job, runs).filter((arm) => arm !== START);
  const { steps } = runs[0]!.settings;
  const stretches = Math.min(5, steps);
  const bounds = Array.from({ length: stretches + 1 }, (_, i) => Math.round((i * steps) / stretches));
  const rows = arms.map((arm) => [
    arm,
    ...bounds.slice(1).map((to, i) => {
      const own = runs.filter((run) => run.arm === arm).map(({ curve }) => mean(curve.slice(bounds[i], to)));
      return cell(meanOver(own));
    }),
  ]);
  return table(["reward in training", ...bounds.slice(1).map((to, i) => `steps ${bounds[i]! + 1}–${to}`)], rows);
}

/** Held-out tasks of the first seed, arm by arm, with one set of random numbers. */
function samplesOf(job: Job, runs: readonly RunRecord[], count: number): string {
  const seed = Math.min(...runs.map((run) => run.seed));
  const own = armsOf(job, runs).flatMap((arm) => runs.filter((run) => run.arm === arm && run.seed === seed));
  const tasks = own[0]!.samples.slice(0, count);
  const one = ({ task }: { readonly task: string }, i: number): string =>
    [
      `*${task}*\n`,
      ...own.map(({ arm, samples }) => `- ${arm}: ${samples[i]!.text.trim().replaceAll(/\s*\n\s*/g, " / ")}`),
    ].join("\n");
  return tasks.map(one).join("\n\n");
}

/** The whole report. Markdown; intervals are 95 % bootstraps over seeds. */
export function reportOf(all: readonly RunRecord[], samples = 3): string {
  const parts = JOBS.flatMap((job) => {
    const runs = all.filter((run) => run.job === job);
    if (runs.length === 0) return [];
    const { steps, groups, groupSize } = runs[0]!.settings;
    const seeds = new Set(runs.map(({ seed }) => seed)).size;
    return [
      `## ${TITLES[job]}`,
      `${seeds} seeds, ${steps} steps of ${groups} × ${groupSize} episodes; mean [95 % bootstrap over seeds].`,
      figuresTable(job, runs),
      ...(runs.some(({ arm }) => arm !== START) ? [differencesTable(job, runs), curvesTable(job, runs)] : []),
      samplesOf(job, runs, samples),
    ];
  });
  return `${parts.join("\n\n")}\n`;
}
