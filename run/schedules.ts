/**
 * Numbers that change with the steps, as text and as plain data for `config.json`. `0.05` is constant. `1..0.6@100`
 * goes linearly from 1 to 0.6 over 100 steps and stays there; `1..0.6@100:cosine` and `1..0.6@100:exponential` have
 * other shapes. `0:0.05,50:0.02` changes at step 50.
 */
import type { Schedule } from "../nn/index.ts";
import { temperatureSchedule } from "../data/exploration.ts";
import { constantLambda, linearLambda, stepLambda } from "../rl/objective/echo.ts";
import { showValue } from "../engine/options.ts";
import { isRecord } from "./records.ts";
import { UsageError } from "./usage.ts";

const SHAPES = ["linear", "cosine", "exponential"] as const;
type Shape = (typeof SHAPES)[number];

/** A schedule as plain data. */
export type ScheduleData =
  | number
  | { readonly from: number; readonly to: number; readonly steps: number; readonly shape: Shape }
  | { readonly at: readonly (readonly [step: number, value: number])[] };

const EXPECTED = "expected numbers ≥ 0: one, FROM..TO@STEPS or STEP:VALUE,STEP:VALUE";

/** Reads a schedule. @throws UsageError with one line; numbers must be ≥ 0, steps integers */
export function parseSchedule(where: string, text: string): ScheduleData {
  const wrong = (): UsageError => new UsageError(`${where}: ${EXPECTED}, got "${text}"`);
  const number = (part: string | undefined): number => {
    const n = Number(part);
    if (part === undefined || part.trim() === "" || !Number.isFinite(n) || n < 0) throw wrong();
    return n;
  };
  const step = (part: string | undefined): number => {
    if (!Number.isInteger(number(part))) throw wrong();
    return number(part);
  };
  const line = /^(.+)\.\.(.+)@(\d+)(?::(\w+))?$/.exec(text);
  if (line) {
    const shape = SHAPES.find((name) => name === (line[4] ?? "linear"));
    const [from, to, steps] = [number(line[1]), number(line[2]), step(line[3])];
    if (shape === undefined)
      throw new UsageError(`${where}: expected ${SHAPES.join(", ")} after the colon, got "${line[4]!}"`);
    if (steps === 0) throw wrong();
    if (shape !== "linear" && (from === 0 || to === 0))
      throw new UsageError(`${where}: ${shape} is between numbers > 0, got "${text}"`);
    return { from, to, steps, shape };
  }
  if (!text.includes(":")) return number(text);
  const at = text.split(",").map((entry) => {
    const [when, value, ...more] = entry.split(":");
    if (more.length > 0) throw wrong();
    return [step(when), number(value)] as const;
  });
  if (at[0]![0] !== 0) throw new UsageError(`${where}: the first of the steps must be 0, got "${text}"`);
  if (at.some(([s], i) => i > 0 && s <= at[i - 1]![0]))
    throw new UsageError(`${where}: the steps must ascend, got "${text}"`);
  return { at };
}

/** Whether a value is a schedule as plain data. */
export function isSchedule(data: unknown): data is ScheduleData {
  const isNumber = (x: unknown): boolean => typeof x === "number" && Number.isFinite(x);
  if (!isRecord(data)) return isNumber(data);
  const { at, from, to, steps, shape } = data;
  if (at === undefined) return [from, to, steps].every(isNumber) && SHAPES.includes(shape as Shape);
  return (
    Array.isArray(at) &&
    at.length > 0 &&
    at.every((pair) => Array.isArray(pair) && pair.length === 2 && pair.every(isNumber))
  );
}

/** The schedule as a function of the step. */
export function scheduleOf(data: ScheduleData): Schedule {
  if (!isSchedule(data))
    throw new UsageError(`schedule: expected a number, { from, to, steps, shape } or { at }, got ${showValue(data)}`);
  if (typeof data === "number") return constantLambda(data);
  if ("at" in data) return stepLambda(data.at);
  const { from, to, steps, shape } = data;
  return shape === "linear" ? linearLambda(from, to, steps) : temperatureSchedule({ from, to, steps, shape });
}

/**
 * The values at which a schedule begins, ends or stays. They bound its range, because every shape is monotonic between
 * them.
 */
export const valuesOfSchedule = (data: ScheduleData): readonly number[] =>
  typeof data === "number" ? [data] : "at" in data ? data.at.map(([, value]) => value) : [data.from, data.to];

/** A schedule as it is written on the command line. */
export function showSchedule(data: ScheduleData): string {
  if (typeof data === "number") return String(data);
  if ("at" in data) return data.at.map((entry) => entry.join(":")).join(",");
  return `${data.from}..${data.to}@${data.steps}${data.shape === "linear" ? "" : `:${data.shape}`}`;
}
