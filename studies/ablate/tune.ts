/**
 * Tuning before a comparison (docs/ablations.md): every arm gets the same number of trials on seeds that are not
 * reported and continues with its best. Settings that an arm does not have (λ without ECHO), or that its own brackets
 * fix, are left out of its trials; an arm that learns nothing has nothing to tune. The best trial has the largest area
 * under its curve of held-out success, as the mean over the tuning seeds, in each environment separately; the first of
 * equals wins.
 */
import { type Arm, presetOfArm, settingsIn, showSettings, withSettings } from "../../run/arms.ts";
import { withFiles } from "../../run/node/commandLine.ts";
import { UsageError } from "../../run/usage.ts";
import type { StartOptions } from "../../run/startOptions.ts";
import { areaUnder, type Axis, type Point } from "./points.ts";
import { mean } from "../../run/figures/statistics.ts";

/** A setting and the values to try. */
export interface Knob {
  readonly key: string;
  readonly values: readonly string[];
}

/** The settings with which a trial differs from its arm. */
export type TrialSettings = Readonly<Record<string, string>>;

export interface TuneOptions {
  readonly seeds: readonly number[];
  readonly knobs: readonly Knob[];
  /** Grids that replace `knobs`, by the label of the arm. */
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

/** Parses `ARM=KEY=A|B,…`. An arm's label may contain all of these signs itself. */
export function parseOwnKnobs(text: string, arms: readonly Arm[]): [label: string, knobs: Knob[]] {
  const labels = arms.map(({ label }) => label).toSorted((a, b) => b.length - a.length);
  const label = labels.find((one) => text.startsWith(`${one}=`));
  if (label === undefined) {
    const known = arms.map((arm) => arm.label).join(", ");
    throw new UsageError(`--tune-for: expected ARM=SETTING=VALUE|VALUE with one of the arms ${known}, got "${text}"`);
  }
  return [label, parseKnobs("tune-for", text.slice(label.length + 1))];
}

/**
 * The trials of every arm.
 * @throws UsageError if no arm has a setting, or if arms have different numbers of trials
 */
export function trialsOf(arms: readonly Arm[], tune: TuneOptions, base: StartOptions): Map<Arm, TrialSettings[]> {
  const check = (arm: Arm, settings: TrialSettings): void =>
    void presetOfArm(withSettings(arm, settings), base, withFiles);
  const refused = new Map<string, UsageError>();
  const had = new Set<string>();
  const has = (arm: Arm, { key, values }: Knob): boolean => {
    if (Object.hasOwn(arm.settings, key)) return false;
    try {
      check(arm, { [key]: values[0]! });
      had.add(key);
      return true;
    } catch (error) {
      if (!(error instanceof UsageError)) throw error;
      refused.set(key, error);
      return false;
    }
  };
  const grids = arms.flatMap((arm) => {
    if (arm.method === "random") return [];
    const knobs = tune.own[arm.label] ?? tune.knobs.filter((knob) => has(arm, knob));
    const keys = knobs.map(({ key }) => key).join(", ");
    return [{ arm, trials: combinations(knobs), keys: keys || "nothing to tune" }];
  });
  const nobodys = tune.knobs.find(({ key }) => !had.has(key) && refused.has(key));
  if (nobodys) throw new UsageError(`--tune: no arm has ${nobodys.key}; ${refused.get(nobodys.key)!.message}`);
  const most = Math.max(...grids.map(({ trials }) => trials.length));
  const poor = grids.find(({ trials }) => trials.length < most);
  if (poor) {
    const rich = grids.find(({ trials }) => trials.length === most)!;
    const about = ({ arm, trials, keys }: typeof rich): string => `${arm.label} has ${trials.length} (${keys})`;
    throw new UsageError(
      `--tune: all arms need the same number of trials, but ${about(rich)} and ${about(poor)}; give --tune-for ` +
        `"${poor.arm.label}=SETTING=VALUE|VALUE" with ${most} combinations`,
    );
  }
  for (const { arm, trials } of grids) for (const settings of trials) check(arm, settings);
  return new Map(grids.map(({ arm, trials }) => [arm, trials]));
}

const combinations = (knobs: readonly Knob[]): TrialSettings[] =>
  knobs.reduce<TrialSettings[]>(
    (all, { key, values }) => all.flatMap((settings) => values.map((value) => ({ ...settings, [key]: value }))),
    [{}],
  );

/** The outcome of the trials of an arm in an environment. */
export interface Tuning {
  readonly env: string;
  readonly arm: string;
  readonly seeds: readonly number[];
  /**
   * The axis of the areas and its length: the least total of these trials. Without play the axis is optimiser steps.
   */
  readonly axis: Axis;
  readonly budget: number;
  readonly trials: readonly { readonly settings: string; readonly areas: readonly number[]; readonly mean: number }[];
  readonly chosen: string;
  /** Chosen numbers that are the smallest or the largest of those that were tried. */
  readonly edges: ReturnType<typeof edgesOf>;
}

/** The least number of values for which an edge is reported: both of two values are edges. */
const EDGE_FROM = 3;

function edgesOf(chosen: TrialSettings, tried: readonly { readonly settings: TrialSettings }[]) {
  return Object.entries(chosen).flatMap(([key, value]) => {
    const numbers = [...new Set(tried.map(({ settings }) => Number(settings[key])))];
    const at = [Math.min(...numbers), Math.max(...numbers)].indexOf(Number(value));
    if (numbers.length < EDGE_FROM || !numbers.every(Number.isFinite) || at < 0) return [];
    return [{ key, value, end: at === 0 ? "smallest" : "largest", of: numbers.length }];
  });
}

/** @param played the curve of each tuning seed, for every trial */
export function chooseTrial(
  at: Pick<Tuning, "env" | "arm" | "seeds">,
  played: readonly { readonly settings: TrialSettings; readonly curves: readonly (readonly Point[])[] }[],
): { readonly tuning: Tuning; readonly settings: TrialSettings } {
  const ends = (axis: Axis): number[] => played.flatMap(({ curves }) => curves.map((points) => points.at(-1)![axis]));
  const axis = Math.min(...ends("envSteps")) > 0 ? "envSteps" : "step";
  const budget = Math.min(...ends(axis));
  const trials = played.map(({ settings, curves }) => {
    const areas = curves.map((points) => areaUnder(points, budget, axis));
    return { settings: showSettings(settings), areas, mean: mean(areas) };
  });
  const best = trials.reduce((found, trial, i) => (trial.mean > trials[found]!.mean ? i : found), 0);
  const { settings } = played[best]!;
  const edges = edgesOf(settings, played);
  return { tuning: { ...at, axis, budget, trials, chosen: trials[best]!.settings, edges }, settings };
}
