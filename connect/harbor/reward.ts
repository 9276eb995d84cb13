/** The reward that a verifier has written: reward.json, else reward.txt. What is no number is never a reward. */
import { showValue } from "../../engine/options.ts";
import type { FoundFile } from "./machine.ts";

/** What a verifier says. */
export interface Verdict {
  readonly reward: number;
  /** The numbers of an object in reward.json, by key; empty otherwise. */
  readonly keys: Readonly<Record<string, number>>;
  /** Why there is no reward, in which case it is 0. */
  readonly problem?: string;
  /** Files that the agent may have made so that the tests load them, with commas between them. */
  readonly suspects?: string;
}

/** Bytes of a reward's file, keys of an object in it, and letters of a key. */
export const MOST_REWARD_BYTES = 2 ** 16;
const MOST_KEYS = 100;
const MOST_LETTERS = 100;

export const without = (problem: string): Verdict => ({ reward: 0, keys: {}, problem });

/** The verdict of the two files; undefined stands for one that is not there. */
export function verdictOf(json: FoundFile, text: FoundFile): Verdict {
  const [name, file] = json === undefined ? ["reward.txt", text] : ["reward.json", json];
  if (file === undefined) return without("the verifier has written no reward");
  if ("problem" in file) return without(`${name} ${file.problem}`);
  const content = file.bytes
    .toString("utf8")
    .replace(/^\ufeff/, "")
    .trim();
  if (content === "") return without(`${name} is empty`);
  return json === undefined ? ofText(content) : ofJson(content);
}

const NUMBER = /^[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?$/i;

function ofText(content: string): Verdict {
  const reward = NUMBER.test(content) ? Number(content) : NaN;
  if (!Number.isFinite(reward)) return without(`reward.txt is no finite number: ${showValue(content.slice(0, 40))}`);
  return { reward: reward + 0, keys: {} };
}

const isFinite = (value: unknown): value is number => typeof value === "number" && Number.isFinite(value);

function ofJson(content: string): Verdict {
  let value: unknown;
  try {
    value = JSON.parse(content);
  } catch {
    return without(`reward.json is no JSON: ${showValue(content.slice(0, 40))}`);
  }
  if (isFinite(value)) return { reward: value, keys: {} };
  if (typeof value !== "object" || value === null || Array.isArray(value))
    return without("reward.json is neither a finite number nor an object of such numbers");
  const entries = Object.entries(value as Readonly<Record<string, unknown>>);
  if (entries.length === 0) return without("reward.json is an object without keys");
  if (entries.length > MOST_KEYS) return without(`reward.json has ${entries.length} keys, at most ${MOST_KEYS}`);
  if (entries.some(([key]) => key.length > MOST_LETTERS))
    return without(`reward.json has a key of more than ${MOST_LETTERS} letters`);
  const wrong = entries.find(([, each]) => !isFinite(each));
  if (wrong) return without(`reward.json: ${showValue(wrong[0].slice(0, 40))} is no finite number`);
  const numbers = entries as [string, number][];
  const mean = numbers.reduce((sum, [, each]) => sum + each / numbers.length, 0);
  return { reward: numbers.find(([key]) => key === "reward")?.[1] ?? mean, keys: Object.fromEntries(numbers) };
}
