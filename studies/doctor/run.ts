/**
 * A run as the doctor reads it, and the statistics that its detectors share. A detector is a pure function from a run
 * to a finding or null. The modules beside this one have the detectors, and `diagnose.ts` lists them.
 */
import { formatNumber } from "../../run/figures/format.ts";
import { visible } from "../../run/visible.ts";
import { isRecord, type MetricsRecord, type Transcript } from "../../run/records.ts";

/** The contents of a run folder. */
export interface RunLog {
  readonly config: Readonly<Record<string, unknown>>;
  readonly metrics: readonly MetricsRecord[];
  readonly transcripts: readonly Transcript[];
}

/** A detector's finding. `harmless`: it looks like a fault but is none. */
export interface Finding {
  readonly kind: "problem" | "harmless";
  /** Figures, steps, and perhaps an episode. */
  readonly evidence: readonly string[];
  /** Advice on what to change, the likeliest first. */
  readonly change: readonly string[];
  /** The step at which it shows first, or most. */
  readonly step: number;
}

/** Finds one failure mode, or null. Pure. */
export type Detector = (run: RunLog) => Finding | null;

export const rlLines = (run: RunLog): readonly MetricsRecord[] => run.metrics.filter((line) => line.phase === "rl");

export interface Point {
  readonly step: number;
  readonly value: number;
}

/**
 * Whether a step learnt only from episodes of the current policy: neither replay nor rollout workers brought episodes
 * of an older one. (Several passes over a batch do not matter, as metrics are those of the first.)
 */
export function isFresh(line: MetricsRecord): boolean {
  const isPositive = (name: string): boolean => Number(line[name] ?? 0) > 0;
  return !isPositive("replay/groups") && !isPositive("async/staleness_max");
}

/** The finite values of a metric on the RL lines, or on some of them. */
export function series(
  run: RunLog,
  name: string,
  where: (line: MetricsRecord) => boolean = () => true,
): readonly Point[] {
  return rlLines(run)
    .filter(where)
    .flatMap((line) => {
      const value = line[name];
      return typeof value === "number" && Number.isFinite(value) ? [{ step: line.step, value }] : [];
    });
}

/** Least number of steps for comparing the beginning with the end. */
export const MIN_STEPS = 16;
/**
 * A change counts if it is this many standard errors of the two means. By chance that happens in one trend of 250 with
 * 30 steps in a quarter, but in one of 40 with 4 steps, so every detector also requires a size that matters.
 */
export const CLEAR = 3;

/** The first and the last quarter of a metric's values. */
export interface Trend {
  readonly early: number;
  readonly late: number;
  readonly change: number;
  /** The change in standard errors, from the scatter of steps within each quarter. */
  readonly z: number;
  /** First step of the last quarter. */
  readonly since: number;
}

/** The trend of a metric over the RL phase; null with fewer than `MIN_STEPS` values. */
export function trend(points: readonly Point[]): Trend | null {
  if (points.length < MIN_STEPS) return null;
  const size = Math.floor(points.length / 4);
  const early = points.slice(0, size).map(({ value }) => value);
  const late = points.slice(-size).map(({ value }) => value);
  const change = mean(late) - mean(early);
  const error = Math.sqrt((variance(early) + variance(late)) / size);
  const z = change === 0 ? 0 : change / Math.max(error, 1e-12);
  return { early: mean(early), late: mean(late), change, z, since: points[points.length - size]!.step };
}

/** The aim of the run: the verified outcome if it is logged, else the reward. */
export function outcome(run: RunLog): { readonly name: string; readonly points: readonly Point[] } {
  const success = series(run, "success");
  return success.length > 0 ? { name: "success", points: success } : { name: "reward", points: series(run, "reward") };
}

/** Success from which a run counts as solved: then flat groups and low entropy are no faults. */
export const SOLVED = 0.9;

export function isSolved(run: RunLog): boolean {
  const success = trend(series(run, "success"));
  return success !== null && success.late >= SOLVED;
}

export const mean = (values: readonly number[]): number => values.reduce((a, b) => a + b, 0) / values.length;

function variance(values: readonly number[]): number {
  const centre = mean(values);
  return values.reduce((sum, value) => sum + (value - centre) ** 2, 0) / Math.max(1, values.length - 1);
}

/** "reward 0.2 → 0.9" */
export const arrow = (name: string, { early, late }: Trend): string =>
  `${name} ${formatNumber(early)} → ${formatNumber(late)}`;

/** Episodes that the policy played in the later half of the RL phase, which show its present state. */
export function laterEpisodes(run: RunLog): readonly Transcript[] {
  const played = run.transcripts.filter(({ phase }) => phase === "rl");
  const [first, last] = [played[0]?.step ?? 0, played.at(-1)?.step ?? 0];
  return played.filter(({ step }) => step >= (first + last) / 2);
}

/** One action of an episode and what the environment answered. */
export interface Call {
  readonly call: string;
  readonly answer: string;
}

/** The calls of an episode, in order, without the tags of the chat template. */
export function callsOf({ tokens }: Pick<Transcript, "tokens">): readonly Call[] {
  const turns = new Map<number, { call: string; answer: string }>();
  for (const { role, text, turn } of tokens) {
    if (role !== "action" && role !== "observation") continue;
    const part = turns.get(turn) ?? { call: "", answer: "" };
    if (role === "action") part.call += text.replace(/<\|\w+\|>/g, "");
    else part.answer += text;
    turns.set(turn, part);
  }
  return [...turns.values()].map(({ call, answer }) => ({ call: call.trim(), answer: answer.trim() }));
}

const QUOTE = 60;

/** Text of a model or an environment for a person to read: on one line, shortened, without control characters. */
export function quote(text: string): string {
  const line = visible(text.replace(/\s*\n\s*/g, " ⏎ "));
  return `“${line.length > QUOTE ? `${line.slice(0, QUOTE - 1)}…` : line}”`;
}

/** An episode in one line: its place in the report, its result, and its first calls. */
export function describe(episode: Transcript): string {
  const calls = callsOf(episode).slice(0, 4);
  const told = calls.map(({ call, answer }) => (answer === "" ? quote(call) : `${quote(call)} → ${quote(answer)}`));
  const { step, group, reward, success } = episode;
  return (
    `episode of step ${step}, group ${group} (reward ${formatNumber(reward)}, ` +
    `${success ? "success" : "no success"}): ${told.join("; ")}`
  );
}

/** A setting of the run's config.json for advice, as in `setting(run, "rl", "lr")`; "" if the config has none. */
export function setting(run: RunLog, part: string, name: string): string {
  const preset = run.config["preset"];
  const settings = isRecord(preset) ? preset[part] : undefined;
  const value = isRecord(settings) ? settings[name] : undefined;
  return typeof value === "number" || typeof value === "string" ? ` (${part}.${name} is ${value})` : "";
}

export const percent = (share: number): string => `${Math.round(100 * share)} %`;

/** The most frequent item, and how often it occurs. */
export function commonest(items: readonly string[]): readonly [item: string, count: number] | null {
  const counts = new Map<string, number>();
  for (const item of items) counts.set(item, (counts.get(item) ?? 0) + 1);
  return [...counts].reduce<readonly [string, number] | null>(
    (best, one) => (best && best[1] >= one[1] ? best : one),
    null,
  );
}
