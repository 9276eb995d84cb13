/**
 * Arms of a comparison: the runs from one warm start. An arm is one word, `[NAME=]METHOD[SETTING,…]`:
 *
 *     grpo
 *     grpo+echo[lambda=0.2]
 *     random facts=grpo+echo[lambda=0.2,train.facts=random]
 *     grpo[kl=0.05,rl.lr=5e-4,steps=200]
 *     expert
 *
 * A setting is a flag of `npm start` without its dashes, or PART.OPTION as `--set` takes it. An arm cannot set the
 * common parts of all arms: the warm start and the tasks of the evaluation.
 */
import { nearest } from "../engine/options.ts";
import { type Baseline, isBaseline, isOfBaseline } from "./baselines.ts";
import { camel } from "./plugins.ts";
import type { Preset } from "./preset.ts";
import { presetFor } from "./presets.ts";
import { optionRow } from "./settings.ts";
import { FLAG_KEYS, type Said, START_FLAGS, type StartOptions, startOptions } from "./startOptions.ts";
import { UsageError } from "./usage.ts";

export interface Arm {
  /** The text that people read: its name or, without one, the word itself. */
  readonly label: string;
  /** The name of its folder. */
  readonly slug: string;
  readonly method: string;
  /** Flags and PART.OPTION with their values; a switch has no value. */
  readonly settings: Readonly<Record<string, string | undefined>>;
  /** Whether it is a baseline among methods, which leaves the shared options that are about RL to these. */
  readonly isBesideMethods?: boolean;
}

/** A word of a list: `[NAME=]HEAD[KEY=VALUE,…]`. */
export interface Word {
  readonly label: string;
  readonly slug: string;
  readonly head: string;
  readonly settings: Readonly<Record<string, string | undefined>>;
}

/** The flags of `npm start` that an arm may set; all arms have the same rewards and the same source of tasks. */
export const AGENT_FLAGS: readonly string[] = [
  ...Object.keys(FLAG_KEYS).filter((flag) => !["method", "reward", "self-play"].includes(flag)),
  "grpo-config",
];

/** Parts of `--set` that an arm may not set, with the reason. */
const SHARED: Readonly<Record<string, string>> = {
  tokenizer: "the warm start, which all arms share",
  sft: "the warm start, which all arms share",
  demo: "the warm start, which all arms share",
  env: "the tasks that all arms are evaluated on; train.… changes those that it trains on",
};

/** @param text arms with commas between them @throws UsageError in one line that names the arm */
export function parseArms(text: string): Arm[] {
  const words = parseWords("arms", text);
  const isBesideMethods = words.some(({ head }) => !isBaseline(head));
  return words.map(({ label, slug, head, settings }) => {
    for (const key of Object.keys(settings)) checkKey(label, key);
    return { label, slug, method: head, settings, isBesideMethods };
  });
}

function checkKey(label: string, key: string): void {
  const [part, option] = key.split(".");
  if (option !== undefined) {
    // It decides the tasks of the demonstrations; an arm may choose how tasks are proposed and paid.
    if (key === "selfPlay.name") throw new UsageError(`arm ${label}: ${key} belongs to ${SHARED["sft"]!}`);
    if (Object.hasOwn(SHARED, part!)) throw new UsageError(`arm ${label}: ${key} belongs to ${SHARED[part!]!}`);
    return;
  }
  if (AGENT_FLAGS.some((flag) => flag === key)) return;
  const near = nearest(key, AGENT_FLAGS);
  const hint =
    near === undefined ? `expected PART.OPTION or one of ${AGENT_FLAGS.join(", ")}` : `did you mean "${near}"?`;
  throw new UsageError(`arm ${label}: unknown setting "${key}"; ${hint}`);
}

/**
 * The settings of a run of this arm, on top of `base`.
 * @param withFiles replaces the path of a file by its content, where there are files
 * @throws UsageError in one line that names the arm
 */
export function presetOfArm(
  { label, method, settings, isBesideMethods = false }: Arm,
  base: StartOptions,
  withFiles: (flags: Said) => Said = (flags) => flags,
): Preset {
  try {
    const flags = Object.entries(settings).filter(([key]) => !key.includes("."));
    const values = Object.fromEntries(flags.map(([flag, value]) => [flag, valueOf(flag, value)]));
    const parsed = startOptions(withFiles(values)) as StartOptions & Readonly<Record<string, unknown>>;
    const ofArm = Object.fromEntries(flags.map(([flag]) => [camel(flag), parsed[camel(flag)]]));
    const shared = isBesideMethods && isBaseline(method) ? sharedWithBaseline(base, method) : base;
    return presetFor({ ...shared, ...ofArm, method, set: setWith(shared.set ?? [], settings) });
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    throw new UsageError(`arm ${label}: ${error.message}`);
  }
}

/**
 * What a baseline takes of the options that all arms share: what is about RL is about the others. The tasks (`env.…`,
 * `train.…`, `demo.…`) are its own, too, and so are those that self-play would choose, which it refuses.
 */
function sharedWithBaseline(base: StartOptions, method: Baseline): StartOptions {
  const isKept = (text: string): boolean => {
    const key = text.split("=")[0]!;
    return optionRow(key) === undefined || key.startsWith("selfPlay.") || isOfBaseline(key, method);
  };
  return { ...base, reward: undefined, rewardFile: undefined, set: base.set?.filter(isKept) };
}

/** The value of an arm's flag. @throws UsageError if it is missing, or if the flag takes none */
function valueOf(flag: string, value: string | undefined): string | true {
  const { type } = START_FLAGS[flag as keyof typeof START_FLAGS];
  if (type === "string") {
    if (value === undefined) throw new UsageError(`--${flag}: expected a value`);
    return value;
  }
  if (value !== undefined) throw new UsageError(`--${flag}: expected no value, got "${value}"`);
  return true;
}

/** The `--set` entries with these settings, which replace entries of the same name. */
export function setWith(set: readonly string[], settings: Arm["settings"]): string[] {
  const dotted = Object.entries(settings).filter(([key]) => key.includes("."));
  const others = set.filter((text) => !Object.hasOwn(settings, text.split("=")[0]!));
  return [...others, ...dotted.map(([key, value]) => `${key}=${value ?? ""}`)];
}

/** The arm with further settings, which replace its own. */
export function withSettings(arm: Arm, settings: Arm["settings"]): Arm {
  for (const key of Object.keys(settings)) checkKey(arm.label, key);
  return { ...arm, settings: { ...arm.settings, ...settings } };
}

/** Splits words at commas outside of brackets. @throws UsageError in one line */
export function parseWords(flag: string, text: string): Word[] {
  const words = splitOutsideBrackets(flag, text).map((word) => parseWord(flag, word.trim()));
  for (const [i, { label, slug }] of words.entries()) {
    const earlier = words.slice(0, i).find((other) => other.slug === slug);
    if (earlier === undefined) continue;
    if (earlier.label === label) throw new UsageError(`--${flag}: "${label}" is there twice`);
    throw new UsageError(`--${flag}: ${earlier.label} and ${label} would have one folder; give one a NAME=`);
  }
  return words;
}

function splitOutsideBrackets(flag: string, text: string): string[] {
  const parts = [""];
  let depth = 0;
  for (const char of text) {
    if (char === "[") depth++;
    if (char === "]") depth--;
    if (depth < 0 || depth > 1) break;
    if (char === "," && depth === 0) parts.push("");
    else parts[parts.length - 1] += char;
  }
  if (depth !== 0) throw new UsageError(`--${flag}: the brackets do not match in "${text}"`);
  return parts;
}

function parseWord(flag: string, word: string): Word {
  const [, name, head, inside] = /^(?:([^=[\]]+)=)?([^=[\]]+)(?:\[(.*)\])?$/.exec(word) ?? [];
  if (head === undefined)
    throw new UsageError(
      `--${flag}: expected [NAME=]${flag === "arms" ? "METHOD" : "ENVIRONMENT"}[SETTING,…] with commas between ` +
        `them, got "${word}"`,
    );
  const label = name?.trim() ?? word;
  const slug = slugOf(label);
  if (slug === "") throw new UsageError(`--${flag}: expected a name with letters or digits, got "${label}"`);
  return { label, slug, head: head.trim(), settings: settingsIn(`--${flag}: ${label}`, inside) };
}

/** Settings as text for people. */
export const showSettings = (settings: Arm["settings"]): string =>
  Object.entries(settings)
    .map(([key, value]) => (value === undefined ? key : `${key}=${value}`))
    .join(", ");

/**
 * Parses `KEY=VALUE,…`. A schedule contains commas, so a piece that begins with a digit belongs to the value before.
 */
export function settingsIn(where: string, text: string | undefined): Record<string, string | undefined> {
  const pieces: string[] = [];
  for (const piece of (text ?? "").split(",").map((part) => part.trim())) {
    if (/^\d/.test(piece) && pieces.length > 0) pieces[pieces.length - 1] += `,${piece}`;
    else pieces.push(piece);
  }
  if (text === undefined) return {};
  const settings: Record<string, string | undefined> = {};
  for (const piece of pieces) {
    const [, key, value] = /^([A-Za-z][\w+.-]*)(?:=(.+))?$/.exec(piece) ?? [];
    if (key === undefined) throw new UsageError(`${where}: expected SETTING=VALUE, got "${piece}"`);
    if (Object.hasOwn(settings, key)) throw new UsageError(`${where}: ${key} is there twice`);
    settings[key] = value;
  }
  return settings;
}

/** A label as a part of a path: letters, digits, dots within, and single dashes. */
export const slugOf = (label: string): string => label.replace(/[^A-Za-z0-9_.]+/g, "-").replace(/^[-.]+|[-.]+$/g, "");
