/** The three tools: their parameters, the type of each, and how a call is read and written. */
import type { Call } from "./episode.ts";

export const ROOMS: readonly string[] = ["hall", "attic", "shed", "loft"];
export const DAYS: readonly string[] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];

/** A type: which values it takes, and what it says of others. */
interface ParameterType {
  readonly accepts: (value: string) => boolean;
  readonly expected: string;
}

const oneOf = (values: readonly string[]): ParameterType => ({
  accepts: (value) => values.includes(value),
  expected: `one of ${values.join(", ")}`,
});
const count = (low: number, high: number): ParameterType => ({
  accepts: (value) => /^\d{1,2}$/.test(value) && Number(value) >= low && Number(value) <= high,
  expected: `a number from ${low} to ${high}`,
});

/** The parameters of each tool, in the order in which they are written. */
export const SIGNATURES: Readonly<Record<string, Readonly<Record<string, ParameterType>>>> = {
  lamp: { room: oneOf(ROOMS), level: count(0, 99) },
  alarm: { at: count(0, 23), day: oneOf(DAYS) },
  buy: { item: { accepts: (value) => /^[a-z]{6}$/.test(value), expected: "a name of six letters" }, n: count(1, 99) },
};

/** A call as the agent writes it: `buy item=lomika n=12`. */
export const write = ({ name, parameters }: Call): string =>
  [name, ...Object.entries(parameters).map(([parameter, value]) => `${parameter}=${value}`)].join(" ");

/** The call that a text is; undefined if it is none. Whether a tool takes it is another question. */
export function readCall(text: string): Call | undefined {
  const [name = "", ...rest] = text.trim().split(/\s+/);
  const pairs = rest.map((part) => /^([a-z]+)=(\S+)$/.exec(part));
  if (!/^[a-z]+$/.test(name) || rest.length === 0 || pairs.includes(null)) return undefined;
  const parameters = Object.fromEntries(pairs.map((pair) => [pair![1]!, pair![2]!]));
  return Object.keys(parameters).length === rest.length ? { name, parameters } : undefined;
}

/** What a tool has against a call; undefined if it takes it. */
export function refusal({ name, parameters }: Call): string | undefined {
  if (!Object.hasOwn(SIGNATURES, name)) return `no such tool; there are ${Object.keys(SIGNATURES).join(", ")}`;
  const types = SIGNATURES[name]!;
  const given = Object.keys(parameters);
  if (given.length !== Object.keys(types).length || !given.every((parameter) => Object.hasOwn(types, parameter)))
    return `${name} takes ${Object.keys(types).join(", ")}`;
  const wrong = given.find((parameter) => !types[parameter]!.accepts(parameters[parameter]!));
  return wrong === undefined ? undefined : `${wrong} must be ${types[wrong]!.expected}`;
}

/** A key of the call: calls that differ in the order of their parameters only have one key. */
export const keyOf = ({ name, parameters }: Call): string =>
  write({ name, parameters: Object.fromEntries(Object.entries(parameters).toSorted(([a], [b]) => (a < b ? -1 : 1))) });
