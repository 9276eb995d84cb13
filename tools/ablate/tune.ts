/**
 * Tuning before a comparison: every arm gets the same number of trials, on seeds that are not reported, and goes on with the best one.
 *
 * `--tune "lambda=0.05|0.2,rl.lr=5e-4|1e-3"` tries every combination. A setting that an arm does not have (λ without ECHO), or that
 * its own brackets fix, is none of its trials. Where that leaves arms with different numbers of them nothing is trained: the arm with
 * fewer is given as many of its own with `--tune-for "ARM=rl.lr=2e-4|5e-4|1e-3|2e-3"`. Who learns nothing has nothing to tune.
 *
 * The best trial has the largest area under its curve of held-out success, the mean over the tuning seeds, in each environment by
 * itself; of equals the first. Where a chosen number is the smallest or the largest of those that were tried, a better one may lie
 * outside the grid, and that is said.
 */
import { type Arm, presetOfArm, settingsIn, showSettings, withSettings } from "../arms/arms.ts";
import { UsageError } from "../../node/flags.ts";
import type { StartOptions } from "../../node/job/commandLine.ts";
import { areaUnder, type Point } from "./points.ts";
import { mean } from "../figures/statistics.ts";

/** A setting and the values to try. */
export interface Knob {
  readonly key: string;
  readonly values: readonly string[];
}

/** What a trial changes of its arm. */
export type TrialSettings = Readonly<Record<string, string>>;

export interface TuneOptions {
  readonly seeds: readonly number[];
  readonly knobs: readonly Knob[];
  /** In the place of `knobs`, by the label of the arm. */
  readonly own: Readonly<Record<string, readonly Knob[]>>;
}

/** `KEY=A|B,KEY=…` */
export function parseKnobs(flag: string, text: string): Knob[] {
  return Object.entries(settingsIn(`--${flag}`, text)).map(([key, value]) => {
    const values = (value ?? "").split("|").map((one) => one.trim());
    if (values.includes("")) throw new UsageError(`--${flag}: expected ${key}=VALUE|VALUE, got "${value ?? ""}"`);
    return { key, values };
  });
}

/** `ARM=KEY=A|B,…`: an arm's label may hold all of these signs itself. */
export function parseOwnKnobs(text: string, arms: readonly Arm[]): [label: string, knobs: Knob[]] {
  const labels = arms.map(({ label }) => label).toSorted((a, b) => b.length - a.length);
  const label = labels.find((one) => text.startsWith(`${one}=`));
  if (label === undefined) throw new UsageError(`--tune-for: expected ARM=SETTING=VALUE|VALUE with one of the arms ${arms.map((arm) => arm.label).join(", ")}, got "${text}"`); // prettier-ignore
  return [label, parseKnobs("tune-for", text.slice(label.length + 1))];
}

/**
 * The trials of every arm.
 * @throws UsageError if a setting is no arm's, or if the budgets differ
 */
export function trialsOf(arms: readonly Arm[], tune: TuneOptions, base: StartOptions): Map<Arm, TrialSettings[]> {
  const tuned = arms.filter(({ method }) => method !== "random");
  const refused = new Map<string, UsageError>();
  const had = new Set<string>();
  const has = (arm: Arm, { key, values }: Knob): boolean => {
    if (Object.hasOwn(arm.settings, key)) return false;
    try {
      presetOfArm(withSettings(arm, { [key]: values[0]! }), base);
      had.add(key);
      return true;
    } catch (error) {
      if (!(error instanceof UsageError)) throw error;
      refused.set(key, error);
      return false;
    }
  };
  const knobsOf = new Map(
    tuned.map((arm) => [arm, tune.own[arm.label] ?? tune.knobs.filter((knob) => has(arm, knob))]),
  );
  const nobodys = tune.knobs.find(({ key }) => !had.has(key) && refused.has(key));
  if (nobodys) throw new UsageError(`--tune: no arm has ${nobodys.key}; ${refused.get(nobodys.key)!.message}`);
  const trials = new Map([...knobsOf].map(([arm, knobs]) => [arm, combinations(knobs)]));
  const most = Math.max(...[...trials.values()].map(({ length }) => length));
  const poor = [...trials].find(([, { length }]) => length < most);
  if (poor) {
    const rich = [...trials].find(([, { length }]) => length === most)!;
    const about = ([arm, { length }]: typeof rich): string => `${arm.label} has ${length} (${knobsOf.get(arm)!.map(({ key }) => key).join(", ") || "nothing to tune"})`; // prettier-ignore
    throw new UsageError(`--tune: every arm gets as many trials as the others, and ${about(rich)} while ${about(poor)}; give --tune-for "${poor[0].label}=SETTING=VALUE|VALUE" with ${most} combinations`); // prettier-ignore
  }
  for (const [arm, all] of trials) for (const settings of all) presetOfArm(withSettings(arm, settings), base);
  return trials;
}

function combinations(knobs: readonly Knob[]): TrialSettings[] {
  let all: TrialSettings[] = [{}];
  for (const { key, values } of knobs) {
    all = all.flatMap((settings) => values.map((value): TrialSettings => ({ ...settings, [key]: value })));
  }
  return all;
}

/** A chosen number with nothing tried beyond it. */
interface Edge {
  readonly key: string;
  readonly value: string;
  readonly end: "smallest" | "largest";
  /** How many were tried, itself included. */
  readonly of: number;
}

/** What the trials of an arm came to in an environment. */
export interface Tuning {
  readonly env: string;
  readonly arm: string;
  readonly seeds: readonly number[];
  /** What the areas are over, and how far: what the most sparing of these trials took. Who plays nothing is judged by optimiser steps. */
  readonly axis: "envSteps" | "step";
  readonly budget: number;
  readonly trials: readonly { readonly settings: string; readonly areas: readonly number[]; readonly mean: number }[];
  readonly chosen: string;
  /** Of its settings, those that lie at an edge of the grid. */
  readonly edges: readonly Edge[];
}

/** Numbers of which so many were tried have an edge: of two each is one. */
const EDGE_FROM = 3;

/** @param tried the settings of all trials, the chosen ones among them */
function edgesOf(chosen: TrialSettings, tried: readonly TrialSettings[]): Edge[] {
  return Object.entries(chosen).flatMap(([key, value]): Edge[] => {
    const numbers = [...new Set(tried.map((settings) => Number(settings[key])))];
    if (numbers.length < EDGE_FROM || !numbers.every(Number.isFinite)) return [];
    const [own, of] = [Number(value), numbers.length];
    if (own === Math.min(...numbers)) return [{ key, value, end: "smallest", of }];
    return own === Math.max(...numbers) ? [{ key, value, end: "largest", of }] : [];
  });
}

/** @param played the curve of each tuning seed, for every trial */
export function chooseTrial(
  at: Pick<Tuning, "env" | "arm" | "seeds">,
  played: readonly { readonly settings: TrialSettings; readonly curves: readonly (readonly Point[])[] }[],
): { readonly tuning: Tuning; readonly settings: TrialSettings } {
  const ends = (axis: Tuning["axis"]): number[] => played.flatMap(({ curves }) => curves.map((points) => points.at(-1)![axis])); // prettier-ignore
  const axis = Math.min(...ends("envSteps")) > 0 ? "envSteps" : "step";
  const budget = Math.min(...ends(axis));
  const trials = played.map(({ settings, curves }) => {
    const areas = curves.map((points) => areaUnder(points, budget, axis));
    return { settings: showSettings(settings), areas, mean: mean(areas) };
  });
  const best = trials.reduce((found, trial, i) => (trial.mean > trials[found]!.mean ? i : found), 0);
  const { settings } = played[best]!;
  const edges = edgesOf(settings, played.map((trial) => trial.settings)); // prettier-ignore
  return { tuning: { ...at, axis, budget, trials, chosen: trials[best]!.settings, edges }, settings };
}
