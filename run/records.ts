/**
 * The records of a run as plain data: metric lines, transcripts, and the evaluations that the final table compares. Run
 * folder, terminal display and report page read these types and nothing of the trainer.
 *
 * A transcript is a list of tokens in memory and a set of columns on disk, because three hundred objects with ten keys
 * each would make a line five times as long. `packTranscript` and `unpackTranscript` are inverse to each other, except
 * that numbers are rounded to 6 digits.
 */
import { check, fail } from "../engine/errors.ts";
import { showValue } from "../engine/options.ts";
import type { WorldFact } from "../environments/index.ts";

/** The phase of a run that a record belongs to. */
export type Phase = "sft" | "rl" | "eval";

/**
 * One line of `metrics.jsonl`: the step (optimiser steps since the start of the run, SFT included), the phase, and
 * metrics under TRL's names. Lines of phase "eval" have
 *
 * - `success` and `episodes`, of the episodes that were played and scored; `reward` and `reward_std`: mean and
 *   deviation of their returns (`evaluatedReturns` in rl/evaluate.ts), if there are any; `num_turns/mean`; `not_played`
 *   and `unscored`: how many could not be played, because their environment failed, and how many had a reward of NaN,
 *   if there are such
 * - `world_loss`: on fixed episodes; `world_loss/random`: on those of them that are random play
 * - `world_loss/on_policy`: on the policy's own episodes
 * - `world_loss_excess`: the same minus the entropy of the answers, if the environment reports it
 * - `facts_known`: how many facts of its world the model knows (run/knowledge.ts), if the environment has such facts
 * - `general_loss`: on answers of general texts, if the run has any
 * - `tools/false_call_frequency`: of tasks that want a plain answer, if there are any
 * - `pass@k`: if tasks were tried more than once
 * - `chosen/best`, `chosen/vote`, `chosen/majority`: the success of one of these tries, if an outcome or process model
 *   is there to choose it: the one of the highest score, the vote weighted by scores, and the vote without it
 */
export interface MetricsRecord {
  readonly step: number;
  readonly phase: Phase;
  readonly [metric: string]: number | string | null | undefined;
}

/** The programs, or kinds of file, that metrics are also written for (run/node/reporters.ts). */
export const REPORTERS = ["tensorboard", "csv"] as const;
export type ReporterName = (typeof REPORTERS)[number];

/** The roles of tokens, in the order of the letters in `ROLE_LETTERS`. */
export const ROLES = ["prompt", "thought", "action", "observation", "scaffold", "pad"] as const;
export type Role = (typeof ROLES)[number];
const ROLE_LETTERS = "ptaos_";

/**
 * A token of a transcript. Log-probabilities are natural logarithms at the sampling temperature. A value that is absent
 * was not computed.
 */
export interface TranscriptToken {
  readonly id: number;
  readonly text: string;
  readonly role: Role;
  /** The turn that it belongs to; the prompt is in turn 0. */
  readonly turn: number;
  /** The log-probability under the policy that is trained. */
  readonly logProb?: number;
  /** The log-probability under the policy that sampled it. */
  readonly oldLogProb?: number;
  readonly advantage?: number;
  /** The weight in the policy loss; 0 or absent means that the token is masked there. */
  readonly wPolicy?: number;
  /** The weight of −log p in the world-model loss. */
  readonly wWorld?: number;
  /** The weight of the clipped error in the world-model loss (PaW). */
  readonly wClipped?: number;
  /** −log p of the token under the model at temperature 1, in nats; observation tokens have it too. */
  readonly surprise?: number;
  /** The entropy of the distribution that it was drawn from, in nats. */
  readonly entropy?: number;
}

/**
 * One trajectory. `family` is the kind of task, `task` its text, `group` the number of the prompt's group in its batch.
 */
export interface Transcript {
  readonly step: number;
  readonly phase: Phase;
  readonly env: string;
  readonly family: string;
  readonly task: string;
  readonly group: number;
  readonly reward: number;
  readonly success: boolean;
  readonly stopReason: string;
  readonly turns: number;
  /** The answer to each action that the model expected, in order, if that was computed. */
  readonly expected?: readonly string[];
  readonly tokens: readonly TranscriptToken[];
}

/** The success on held-out tasks of one family, or of all families. */
export interface Score {
  /** The number that were played and scored; the others say nothing about the policy. */
  readonly episodes: number;
  /** The number that could not be played, because their environment failed; absent for none. */
  readonly notPlayed?: number;
  /** The number that were played and have no score, as their reward is NaN; absent for none. */
  readonly unscored?: number;
  readonly successes: number;
  /** The mean return (`evaluatedReturns`) and its standard deviation; absent if no return is known. */
  readonly meanReward?: number;
  readonly rewardStd?: number;
  readonly meanTurns?: number;
  /** The world-model loss on fixed episodes: the mean of −log p over observation tokens, in nats. */
  readonly worldLoss?: number;
  /** World-model loss on the fixed episodes that are random play. */
  readonly worldLossRandom?: number;
  /** World-model loss on the episodes of this evaluation. */
  readonly worldLossOnPolicy?: number;
  /** `worldLossOnPolicy` minus the entropy of the answers themselves. */
  readonly worldLossExcess?: number;
  /** The estimated probability that at least one of k tries solves a task, by k. */
  readonly passAt?: Readonly<Record<string, number>>;
  /** The facts of the world, each with what the model knows of it, if the environment has such facts. */
  readonly facts?: readonly KnownFact[];
}

/** A fact of the world, and the probability that a model gives to it. */
export interface KnownFact extends WorldFact {
  /** Of the right name, at temperature 1; the mean over the questions that need the fact (run/knowledge.ts). */
  readonly p: number;
}

/** One evaluation of one policy on held-out tasks. */
export interface Evaluation extends Score {
  /** The name of the evaluated policy, as the heading of a column: "warm start", "after RL". */
  readonly label: string;
  readonly families?: Readonly<Record<string, Score>>;
}

/** The part of a checkpoint that is not tensors. */
export interface State {
  readonly phase: "sft" | "rl";
  /** The number of finished steps of that phase. */
  readonly done: number;
  readonly optimizerStep: number;
  /** The RL step that was evaluated last. */
  readonly evaluated: number;
  /** The evaluation of the warm start. */
  readonly before: Evaluation | null;
  /** The wall time of all sessions so far, without what a killed one did after its last checkpoint. */
  readonly seconds: number;
}

/**
 * The summary at the end of a run. `baselines` are further columns that are not compared (random play, the scripted
 * expert).
 */
export interface Summary {
  readonly before: Evaluation;
  readonly after: Evaluation;
  readonly baselines?: readonly Evaluation[];
  /** Short facts for the head of the report: executor, number of parameters, wall time and so on. */
  readonly facts?: Readonly<Record<string, string | number>>;
}

/** JSON has no NaN and no infinities, so they are written as these strings. */
const NON_FINITE: ReadonlyMap<unknown, number> = new Map([
  ["NaN", NaN],
  ["Infinity", Infinity],
  ["-Infinity", -Infinity],
]);

/** A metrics line as JSON text, without the line end. Non-finite numbers become "NaN", "Infinity", "-Infinity". */
export function encodeMetrics(record: MetricsRecord): string {
  return JSON.stringify(record, (_key, value: unknown) =>
    typeof value === "number" && !Number.isFinite(value) ? String(value) : value,
  );
}

/** The inverse of `encodeMetrics`. Throws on text that is not a metrics line. */
export function decodeMetrics(line: string): MetricsRecord {
  const value: unknown = JSON.parse(line);
  check(isRecord(value), () => `metrics line: expected an object, got ${line.slice(0, 60)}`);
  const { step, phase, ...rest } = value;
  check(typeof step === "number", () => `metrics line: expected a number "step", got ${JSON.stringify(step)}`);
  check(phase === "sft" || phase === "rl" || phase === "eval", () => `metrics line: unknown phase ${String(phase)}`);
  const metrics: Record<string, number | string | null> = {};
  for (const [name, raw] of Object.entries(rest)) {
    const metric = NON_FINITE.get(raw) ?? raw;
    if (typeof metric === "number" || typeof metric === "string" || metric === null) metrics[name] = metric;
  }
  return { step, phase, ...metrics };
}

type Cell = number | string | null;
/**
 * A column of numbers: cell by cell, or as [value, count, value, count, …] if that is shorter. null stands for an
 * absent value.
 */
type Column = readonly Cell[] | { readonly runs: readonly Cell[] };

/** The optional numbers of a token, each a column on disk. */
const NUMBERS = ["logProb", "oldLogProb", "advantage", "wPolicy", "wWorld", "wClipped", "surprise", "entropy"] as const;

/** A transcript as a line of `transcripts.jsonl`: columns, with one letter per role in `roles`. */
export interface PackedTranscript extends Omit<Transcript, "tokens" | "reward"> {
  readonly reward: Cell;
  readonly tokens: {
    readonly ids: readonly number[];
    readonly texts: readonly string[];
    readonly roles: string;
    readonly turns: Column;
  } & { readonly [K in (typeof NUMBERS)[number]]?: Column };
}

/** A transcript in the format of `transcripts.jsonl`. */
export function packTranscript(transcript: Transcript): PackedTranscript {
  const { tokens, ...head } = transcript;
  const columns: { [K in (typeof NUMBERS)[number]]?: Column } = {};
  for (const name of NUMBERS) {
    if (tokens.some((token) => token[name] !== undefined)) {
      columns[name] = packColumn(tokens.map((token) => packNumber(token[name])));
    }
  }
  return {
    ...head,
    reward: packNumber(head.reward),
    tokens: {
      ids: tokens.map((token) => token.id),
      texts: tokens.map((token) => token.text),
      roles: tokens
        .map((token) => ROLE_LETTERS[ROLES.indexOf(token.role)] ?? fail(`unknown role ${token.role}`))
        .join(""),
      turns: packColumn(tokens.map((token) => token.turn)),
      ...columns,
    },
  };
}

/** The inverse of `packTranscript`. Throws if the columns do not agree in length. */
export function unpackTranscript(packed: PackedTranscript): Transcript {
  check(isRecord(packed) && isRecord(packed.tokens), () => "transcript: expected an object with tokens");
  const isText = (value: unknown): boolean => typeof value === "string";
  for (const name of ["env", "family", "task", "stopReason"] as const)
    check(isText(packed[name]), () => `transcript: ${name} is ${showValue(packed[name])}, expected a text`);
  const { expected } = packed;
  const isExpected = expected === undefined || (Array.isArray(expected) && expected.every(isText));
  check(isExpected, () => `transcript: expected is ${showValue(expected)}, expected a list of texts`);
  check(typeof packed.step === "number", () => `transcript: step is ${showValue(packed.step)}, expected a number`);
  const { ids, texts, roles, turns, ...columns } = packed.tokens;
  const areColumns = [ids, texts].every((column: unknown) => Array.isArray(column)) && typeof roles === "string";
  check(areColumns, () => "transcript: tokens need lists of ids and texts, and roles as a string");
  const wrong = texts.findIndex((text) => !isText(text));
  check(wrong < 0, () => `transcript: texts[${wrong}] is ${showValue(texts[wrong])}, expected a text`);
  const length = ids.length;
  const agree = (name: string, found: number): void =>
    check(found === length, () => `transcript: ${length} ids but ${found} ${name}`);
  agree("texts", texts.length);
  agree("roles", roles.length);
  const turnColumn = unpackColumn("turns", turns, length);
  const numbers = NUMBERS.flatMap((name) => {
    const column = columns[name];
    if (column === undefined) return [];
    return [{ name, cells: unpackColumn(`values of ${name}`, column, length) }];
  });
  const tokens = ids.map((id, i): TranscriptToken => {
    const values: { [K in (typeof NUMBERS)[number]]?: number } = {};
    for (const { name, cells } of numbers) {
      const cell = cells[i] ?? null;
      if (cell !== null) values[name] = unpackNumber(cell);
    }
    const letter = roles[i] ?? "";
    const role = ROLES[ROLE_LETTERS.indexOf(letter)] ?? fail(`transcript: unknown role letter "${letter}"`);
    return { id, text: texts[i] ?? "", role, turn: unpackNumber(turnColumn[i] ?? 0), ...values };
  });
  return { ...packed, reward: unpackNumber(packed.reward), tokens };
}

function packNumber(value: number | undefined): Cell {
  if (value === undefined) return null;
  return Number.isFinite(value) ? Number(value.toPrecision(6)) : String(value);
}

function unpackNumber(cell: Cell): number {
  return typeof cell === "number" ? cell : (NON_FINITE.get(cell) ?? NaN);
}

function packColumn(cells: readonly Cell[]): Column {
  const runs: Cell[] = [];
  let count = 0;
  cells.forEach((cell, i) => {
    count++;
    if (i + 1 < cells.length && cells[i + 1] === cell) return;
    runs.push(cell, count);
    count = 0;
  });
  return runs.length < cells.length ? { runs } : cells;
}

/** @throws before anything is unpacked, if the counts are none or give another length */
function unpackColumn(name: string, column: Column, length: number): readonly Cell[] {
  const agree = (found: number): void =>
    check(found === length, () => `transcript: ${length} ids but ${found} ${name}`);
  if (Array.isArray(column)) {
    agree(column.length);
    return column as readonly Cell[];
  }
  check(
    isRecord(column) && Array.isArray(column.runs),
    () => `transcript: ${name}: expected a list, or { runs: a list }`,
  );
  const runs = column.runs as readonly Cell[];
  let total = 0;
  for (let i = 1; i < runs.length; i += 2) {
    const count = runs[i];
    const isCount = Number.isSafeInteger(count) && Number(count) > 0;
    check(isCount, () => `transcript: ${name}: ${String(count)} is no count of a run`);
    total += Number(count);
  }
  agree(total);
  const cells: Cell[] = [];
  for (let i = 0; i + 1 < runs.length; i += 2) {
    for (let n = Number(runs[i + 1]); n > 0; n--) cells.push(runs[i] ?? null);
  }
  return cells;
}

/** True for a plain JSON object. */
export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
