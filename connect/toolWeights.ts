/**
 * A world-model loss whose weight depends on the tool that wrote the answer: λ for what `cat` says, half of it for a
 * search, nothing for `ls`. The tool of an answer is read from the action that it answers:
 *
 * - Calls in one of the forms of chat/toolCalls.ts: the names in the calls, tools of an MCP server or Harbor's `bash`.
 * - Words: the first one, `cat` of `cat notes.txt`; of commands in a fence for a shell, the first word in the fence.
 * - No tool: the action is empty, a thought alone, or a call that cannot be read.
 *
 * An answer to several calls has parts, each with the weight of its own call: the parts that MCP servers and Harbor
 * number (`[2/3]`), or messages of their own. An answer without such parts is the first call's.
 *
 * Names are compared letter by letter: `cat` is neither `Cat` nor `catalog`. A weight changes the gradient of its own
 * tool's answers only: it is a factor on the world model's weights, whose denominators stay.
 */
import { check } from "../engine/errors.ts";
import { checkMethods, showValue } from "../engine/options.ts";
import { mean } from "../rl/episode/groups.ts";
import type { Metrics } from "../rl/episode/metrics.ts";
import { isAgentToken, rolloutRows, type TokenStream, type Trajectory } from "../rl/episode/stream.ts";
import type { Template } from "../rl/episode/template.ts";
import type { WorldObjective } from "../rl/objective/echo.ts";
import type { StepReport } from "../rl/train/report.ts";
import { isFields } from "./fields.ts";
import { fenced } from "./harbor/action.ts";
import { isCall, namesCalled, withoutThought } from "./mcp/toolCall.ts";

/** The name of all tools without a weight of their own, and of answers to no tool. */
const OTHERS = "*";

/** A factor ≥ 0 for each tool, by its name; `*` for all others, default 1. */
export type ToolWeights = Readonly<Record<string, number>>;

/** The weights, and the template by which actions are read. */
export interface ToolWeighting {
  readonly weights: ToolWeights;
  readonly template: Template;
}

/**
 * The tools that an action calls, in order; none if no name can be read, and undefined for a call among others that
 * cannot be read.
 */
export function toolsCalled(action: string): readonly (string | undefined)[] {
  const text = withoutThought(action.trim()) ?? "";
  return namesCalled(isCall(text) ? text : (fenced(text) ?? text));
}

/**
 * The tool that wrote each token, per row and token: for tokens of answers, warnings of the harness included, a name,
 * or undefined if the action names none; undefined for all other tokens. An answer may stand in a later row of its
 * rollout than the action.
 */
export function toolsOfTokens(
  trajectories: readonly Trajectory[],
  template: Template,
): readonly (readonly (string | undefined)[])[] {
  const tools = trajectories.map(({ stream }) => new Array<string | undefined>(stream.ids.length).fill(undefined));
  for (const rows of rolloutRows(trajectories)) {
    const actions = actionsOf(rows.map((row) => trajectories[row]!.stream));
    for (const row of rows) {
      const { stream } = trajectories[row]!;
      for (const [turn, messages] of answersIn(stream)) {
        const names = toolsCalled(template.actionText(actions.get(turn) ?? []));
        messages.forEach((places, n) => {
          const calls = messages.length === 1 ? callsOfParts(stream, places, names.length, template) : [];
          places.forEach((t, k) => (tools[row]![t] = names[names.length === 1 ? 0 : (calls[k] ?? n)]));
        });
      }
    }
  }
  return tools;
}

/** The tokens of the action of each turn: those that the model sampled, or else those of an action that was given. */
function actionsOf(streams: readonly TokenStream[]): ReadonlyMap<number, readonly number[]> {
  const [given, sampled] = [new Map<number, number[]>(), new Map<number, number[]>()];
  for (const { ids, roles, turns } of streams) {
    ids.forEach((id, t) => {
      const turn = turns[t]!;
      const isGiven = roles[t] === "prompt";
      if (!isGiven && !isAgentToken(roles[t]!)) return;
      const into = isGiven ? given : sampled;
      // A given action follows the tag that asks for it; what stands before that tag is the task.
      const begins = isGiven && (roles[t - 1] !== "prompt" || turns[t - 1] !== turn);
      if (begins || !into.has(turn)) into.set(turn, []);
      into.get(turn)!.push(id);
    });
  }
  return new Map([...given, ...sampled]);
}

/** The places of the answers of each turn, message by message. */
function answersIn({ roles, turns }: TokenStream): ReadonlyMap<number, readonly (readonly number[])[]> {
  const answers = new Map<number, number[][]>();
  roles.forEach((role, t) => {
    if (role !== "observation") return;
    const turn = turns[t]!;
    const messages = answers.get(turn) ?? [];
    answers.set(turn, messages);
    if (messages.at(-1)?.at(-1) === t - 1) messages.at(-1)!.push(t);
    else messages.push([t]);
  });
  return answers;
}

/** The number of the call that each token of a message answers, from 0, as the numbers above its parts say. */
function callsOfParts(
  { ids }: TokenStream,
  places: readonly number[],
  calls: number,
  { tokenizer }: Template,
): readonly number[] {
  if (calls < 2) return places.map(() => 0);
  // A character for each byte, because a token may hold a part of a character only.
  const pieces = places.map((t) => String.fromCharCode(...tokenizer.decodeBytes([ids[t]!])));
  const text = pieces.join("");
  const [, count] = /^\[1\/(\d{1,4})\]\n/.exec(text) ?? [];
  const starts = [0];
  let [from, end] = [0, 0];
  for (let n = 1; n < Math.min(calls, Number(count ?? 1)); n++) {
    const at = text.indexOf(`\n[${n + 1}/${count}]\n`, from);
    starts.push(at < 0 ? Infinity : at + 1); // it was cut out of a long answer, or the episode had ended
    if (at >= 0) from = at + 1;
  }
  return pieces.map((piece) => {
    end += piece.length;
    return starts.findLastIndex((start) => start < end);
  });
}

/** The factor of a tool. */
function factorsOf({ weights, template }: ToolWeighting): (tool: string | undefined) => number {
  checkMethods("weighByTool", "template", template, "the Template of the run", ["actionText"]);
  check(
    isFields(weights),
    () => `weighByTool: weights must be numbers by tool, as in { cat: 1 }, got ${showValue(weights)}`,
  );
  for (const [name, weight] of Object.entries(weights))
    check(
      Number.isFinite(weight) && weight >= 0,
      () => `weighByTool: the weight of ${showValue(name)} must be a number ≥ 0, got ${showValue(weight)}`,
    );
  const factors = new Map(Object.entries(weights));
  const others = factors.get(OTHERS) ?? 1;
  return (tool) => (tool === undefined ? others : (factors.get(tool) ?? others));
}

/**
 * The world model with a factor on the weight of each answer, by the tool that wrote it. Factors of 1 change nothing,
 * not a bit; factors of 0 leave a tool's answers out.
 *
 * @example
 * const world = weighByTool(echo({ lambda: 0.05 }), { weights: { cat: 1, ls: 0, "*": 0.5 }, template });
 * @throws if a weight is no number ≥ 0
 */
export function weighByTool(world: WorldObjective, weighting: ToolWeighting): WorldObjective {
  const factorOf = factorsOf(weighting);
  return {
    ...world,
    weights(trajectories, step, statistics) {
      const tools = toolsOfTokens(trajectories, weighting.template);
      return world
        .weights(trajectories, step, statistics)
        .map((row, i) => row.map((w, t) => (w === 0 ? 0 : w * factorOf(tools[i]![t]))));
    },
  };
}

/**
 * `world_loss/NAME` of a step: the mean of −lp over the answers of each tool that has a weight, in nats per token, and
 * `world_loss/*` over those of all others. What no loss reads, as with a weight of 0, has no −lp and is left out.
 */
export function worldLossByTool(
  { rows, scores }: Pick<StepReport, "rows" | "scores">,
  { weights, template }: ToolWeighting,
): Metrics {
  const trajectories = rows.map(({ trajectory }) => trajectory);
  const losses = new Map<string, number[]>([...Object.keys(weights), OTHERS].map((name) => [name, []]));
  toolsOfTokens(trajectories, template).forEach((tools, i) => {
    const { targets } = trajectories[i]!.stream;
    tools.forEach((tool, t) => {
      const loss = -scores.logProbs[i]![t]!;
      if (targets[t] && Number.isFinite(loss)) (losses.get(tool ?? OTHERS) ?? losses.get(OTHERS)!).push(loss);
    });
  });
  const known = [...losses].filter(([, all]) => all.length > 0);
  return Object.fromEntries(known.map(([name, all]) => [`world_loss/${name}`, mean(all)]));
}
