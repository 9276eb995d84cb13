/**
 * ToolRL's reward (Qian et al. 2025, arXiv 2504.13958): 1 if the answer has the form of the right one, plus the
 * correctness of its calls, from −3 to 3: names of tools, names of parameters, and their values. So a call with one
 * wrong value earns more than none, and a group has something to compare before it has a success. No term is about
 * length.
 *
 * Calls are matched with the wanted ones before they are compared. The paper's text has the best matching, the authors'
 * code (qiancheng0/ToolRL) takes for each wanted call in turn the best one that is left; the default is the code's.
 */
import { check } from "../../engine/errors.ts";
import { oneOf, options, type OptionsOf } from "../../engine/optionTable.ts";

/** A call of a tool. */
export interface ToolCall {
  readonly name: string;
  readonly parameters: Readonly<Record<string, string | number | boolean>>;
}

export const TOOL_CALLS = options("toolCallReward", {
  matching: oneOf(["greedy", "best"], "greedy", "how calls are matched: each wanted one in turn, or all at once"),
});
/** Options of `toolCallReward`: calls are matched greedily by default, as the authors' code does. */
export type ToolCallOptions = OptionsOf<typeof TOOL_CALLS>;

/** |a ∩ b| / |a ∪ b| of multisets; 1 if both are empty. */
function jaccard(a: readonly string[], b: readonly string[]): number {
  const left = [...b];
  let both = 0;
  for (const x of a) {
    const at = left.indexOf(x);
    if (at < 0) continue;
    left.splice(at, 1);
    both++;
  }
  const all = a.length + b.length - both;
  return all === 0 ? 1 : both / all;
}

/** Likeness of a call to a wanted one: the Jaccard index of parameter names, and one for each equal value. */
function likeness(wanted: ToolCall, said: ToolCall): number {
  if (said.name !== wanted.name) return 0;
  const [names, saidNames] = [Object.keys(wanted.parameters), Object.keys(said.parameters)];
  const equal = names.filter((name) => sameValue(wanted, said, name));
  return jaccard(names, saidNames) + equal.length;
}

const sameValue = (a: ToolCall, b: ToolCall, name: string): boolean => a.parameters[name] === b.parameters[name];

/** The sum of each wanted call's likeness to the best call that is left. */
function greedy(said: readonly ToolCall[], wanted: readonly ToolCall[]): number {
  const left = [...said];
  let sum = 0;
  for (const call of wanted) {
    const scores = left.map((one) => likeness(call, one));
    const most = Math.max(0, ...scores);
    sum += most;
    if (most > 0) left.splice(scores.indexOf(most), 1);
  }
  return sum;
}

/** The largest sum of likeness over all matchings. */
function best(said: readonly ToolCall[], wanted: readonly ToolCall[]): number {
  const [call, ...others] = wanted;
  if (call === undefined) return 0;
  const without = best(said, others);
  return said.reduce(
    (most, one, i) => Math.max(most, likeness(call, one) + best(said.toSpliced(i, 1), others)),
    without,
  );
}

/**
 * The correctness of calls, from −3 to 3; 0 where no call was wanted. 6·s/S − 3, where s is the Jaccard index of the
 * tools' names plus the likeness of the matched calls, and S its maximum.
 * @param said the calls; undefined if they cannot be read, which gives −3
 */
export function toolCallReward(
  said: readonly ToolCall[] | undefined,
  wanted: readonly ToolCall[],
  given?: ToolCallOptions,
): number {
  const { matching } = TOOL_CALLS.read(given);
  if (said === undefined) return -3;
  if (wanted.length === 0) return 0;
  const most = wanted.reduce((sum, { parameters }) => sum + 1 + Object.keys(parameters).length, 1);
  const isSmall = Math.max(said.length, wanted.length) <= 7; // of more there are too many orders to try all
  const matched = matching === "best" && isSmall ? best(said, wanted) : greedy(said, wanted);
  const names = (calls: readonly ToolCall[]): string[] => calls.map(({ name }) => name);
  return (6 * (jaccard(names(said), names(wanted)) + matched)) / most - 3;
}

type Info = Readonly<Record<string, number | string | boolean>>;

/**
 * Form plus correctness, from −3 to 4, of an episode in an environment with tools (`tools`). Its info has the `kinds`
 * of its actions, in order, and its `calls`, and what was wanted of both (`wantedKinds`, `wantedCalls`). An action that
 * cannot be read has the kind `?`, and so has an episode that said nothing.
 */
export function toolRlReward(info: Info, given?: ToolCallOptions): number {
  const { kinds = "?", wantedKinds, calls = "[]", wantedCalls = "[]" } = info;
  check(typeof kinds === "string", () => `toolRlReward: expected an episode of tools, got kinds ${String(kinds)}`);
  const isReadable = !kinds.split(" ").includes("?");
  const read = (text: unknown): ToolCall[] => JSON.parse(String(text)) as ToolCall[];
  return Number(kinds === wantedKinds) + toolCallReward(isReadable ? read(calls) : undefined, read(wantedCalls), given);
}
