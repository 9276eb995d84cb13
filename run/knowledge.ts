/**
 * How much a model knows of a world of unknown facts: the probability that it gives to the right name, fact by fact, at
 * the place in a command where the name stands (environments/facts/questions.ts). A success rate counts tasks, whose
 * commands need several facts at once; this shows which facts an agent has.
 */
import type { FactQuestion, WorldFact } from "../environments/index.ts";
import { encodeWithOffsets, type Model } from "../nn/index.ts";
import { rowOf } from "../rl/objective/columns.ts";
import { append, emptyStream, type Trajectory } from "../rl/episode/stream.ts";
import type { Template } from "../rl/episode/template.ts";
import { score } from "../rl/train/score.ts";
import type { Preset } from "./preset.ts";
import type { KnownFact } from "./records.ts";
import { environmentOf, taskOptions } from "./worlds.ts";

/** A question as a row of tokens, and for each of its facts the tokens of the right name. */
interface AskedRow {
  readonly trajectory: Trajectory;
  readonly names: readonly { readonly fact: WorldFact; readonly tokens: readonly number[] }[];
}

interface AskingOptions {
  /** The largest number of tokens in a micro-batch. */
  readonly maxTokens?: number;
  readonly signal?: AbortSignal | undefined;
}

/**
 * What the model of a run knows of the world of its held-out tasks.
 * @returns undefined if there are no facts to ask for
 */
export async function knowledgeInRun(
  preset: Preset,
  model: Model,
  template: Template,
  options?: AskingOptions,
): Promise<KnownFact[] | undefined> {
  const questions = await environmentOf(preset).facts?.(taskOptions(preset, "heldout"));
  return questions?.length ? knowledgeOf(model, template, questions, options) : undefined;
}

/** The facts in the order of their kinds, each with its probability under the model. */
export async function knowledgeOf(
  model: Model,
  template: Template,
  questions: readonly FactQuestion[],
  options: AskingOptions = {},
): Promise<KnownFact[]> {
  const asked = questions.map((question) => rowOfQuestion(template, question));
  const rows = asked.map(({ trajectory }) => rowOf(trajectory));
  const wanted = new Map(rows.map((row, i) => [row, new Set(asked[i]!.names.flatMap(({ tokens }) => tokens))]));
  const scored = { padId: template.padId, scored: (row: (typeof rows)[number], t: number) => wanted.get(row)!.has(t) };
  const { logProbs } = await score(model, rows, { ...scored, ...options });
  const found = new Map<string, { readonly fact: WorldFact; readonly all: number[] }>();
  for (const [i, { names }] of asked.entries()) {
    for (const { fact, tokens } of names) {
      const p = Math.exp(tokens.reduce((sum, t) => sum + logProbs[i]![t]!, 0));
      const known = found.get(fact.says) ?? { fact, all: [] };
      known.all.push(p);
      found.set(fact.says, known);
    }
  }
  const facts = [...found.values()].map(({ fact, all }) => ({ ...fact, p: all.reduce((a, b) => a + b) / all.length }));
  const kinds = [...new Set(facts.map(({ kind }) => kind))];
  return kinds.flatMap((kind) => facts.filter((fact) => fact.kind === kind));
}

function rowOfQuestion(template: Template, { task, action, places }: FactQuestion): AskedRow {
  const stream = emptyStream();
  template.appendTask(stream, task);
  // The question is asked behind a thought that the format has begun.
  const given = emptyStream();
  template.appendAction(given, 0, action);
  append(stream, "thought", 0, given.ids.slice(0, given.roles.indexOf("action")));
  const start = stream.ids.length;
  const [open = "", close = ""] = template.options.action ?? [];
  const { ids, offsets } = encodeWithOffsets(template.tokenizer, open + action + close);
  append(stream, "action", 0, ids);
  const names = places.map(({ fact, at }) => {
    const [from, to] = [open.length + at, open.length + at + fact.right.length];
    const tokens = offsets.flatMap(([first, end], k) => (first < to && end > from ? [start + k] : []));
    return { fact, tokens };
  });
  const trajectory: Trajectory = {
    stream,
    group: 0,
    reward: 0,
    stepRewards: [],
    stopReason: "completed",
    masked: false,
    env: "",
    task,
    seed: 0,
    info: {},
  };
  return { trajectory, names };
}
