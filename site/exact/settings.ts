/** The page's settings, and the address that holds them: `exact.html?state=half&method=grpo&group=8`. */
import { nearest } from "../../engine/options.ts";
import type { Plane, Question } from "./laboratory.ts";
import type { Scale } from "./figures.ts";
import { PAGE_METHODS } from "./methods.ts";

export const GROUPS = [2, 4, 8, 16, 32] as const;
export const LAMBDAS = [0, 0.05, 0.2, 0.5, 1] as const;
/** Steps that a press of the button adds, and the largest number of steps. */
export const STEPS_ADDED = 100;
export const STEPS_AT_MOST = 2000;

export interface Settings extends Question {
  readonly plane: Plane;
  readonly scale: Scale;
  /** Methods that are drawn beside each other, by name. */
  readonly compare: readonly string[];
  /** Sampled steps. */
  readonly steps: number;
}

export const DEFAULTS: Settings = {
  state: "half",
  player: "self",
  method: "grpo",
  group: 8,
  lambda: 0,
  plane: "bias",
  scale: "equal",
  compare: ["reinforce", "rloo", "grpo_length", "grpo", "max_rl"],
  steps: STEPS_ADDED,
};

/** The methods that are drawn, the chosen one among them, in the order of the list. */
export const comparedIn = ({ method, compare }: Settings): string[] =>
  names.filter((name) => name === method || compare.includes(name));

const names = PAGE_METHODS.map(({ name }) => name);
const CHOICES: { readonly [K in keyof Settings]?: readonly string[] } = {
  state: ["start", "half", "sure"],
  player: ["self", "older"],
  method: names,
  group: GROUPS.map(String),
  lambda: LAMBDAS.map(String),
  plane: ["bias", "noise", "world"],
  scale: ["equal", "own"],
};

/** @throws an error of one sentence that says what was expected and what came */
export function settingsIn(address: URLSearchParams): Settings {
  const said: Record<string, unknown> = {};
  for (const [name, value] of address) {
    if (!Object.hasOwn(DEFAULTS, name)) {
      const near = nearest(name, Object.keys(DEFAULTS));
      throw new Error(`unknown setting "${name}" in the address${near ? `; did you mean "${near}"?` : ""}`);
    }
    if (Object.hasOwn(said, name)) throw new Error(`${name} is there twice in the address`);
    said[name] = read(name as keyof Settings, value);
  }
  const settings = { ...DEFAULTS, ...said } as Settings;
  if (settings.state === "start" && settings.player === "older")
    throw new Error('player: expected "self" with state=start, which has no older policy, got "older"');
  return settings;
}

function read(name: keyof Settings, value: string): unknown {
  if (name === "compare") {
    const list = value === "" ? [] : value.split(",");
    for (const item of list) checkChoice("compare", item, names);
    return names.filter((method) => list.includes(method));
  }
  if (name === "steps") {
    const steps = Number(value);
    if (!Number.isInteger(steps) || steps < 2 || steps > STEPS_AT_MOST)
      throw new Error(`steps: expected a whole number from 2 to ${STEPS_AT_MOST}, got "${value}"`);
    return steps;
  }
  checkChoice(name, value, CHOICES[name]!);
  return typeof DEFAULTS[name] === "number" ? Number(value) : value;
}

function checkChoice(name: string, value: string, choices: readonly string[]): void {
  if (!choices.includes(value)) throw new Error(`${name}: expected ${choices.join(", ")}, got "${value}"`);
}

/** The address of these settings: what differs from the page's defaults. */
export function addressOf(settings: Settings): string {
  const said = new URLSearchParams();
  for (const [name, value] of Object.entries(settings)) {
    const [own, usual] = [String(value), String(DEFAULTS[name as keyof Settings])];
    if (own !== usual) said.set(name, own);
  }
  const text = said.toString().replaceAll("%2C", ",");
  return text === "" ? "" : `?${text}`;
}
