/**
 * The three tools (their parameters, the type of each, and how a call is read and written), the tasks, the answers, and
 * the scripted players. It imports no value of ../game.ts.
 */
import type { Rng } from "../../engine/index.ts";
import type { GameRules, Move } from "../game.ts";
import type { SettledOptions } from "../options.ts";
import { drawUntil, isHeldOut, type Split } from "../selection.ts";
import { nameMaker } from "../words.ts";
import type { Call, ToolEpisode, ToolFamily, TOOLS, ToolState, ToolTask } from "./episode.ts";

const ROOMS: readonly string[] = ["hall", "attic", "shed", "loft"];
const DAYS: readonly string[] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];

/** A type: a check of values, and the words for what it expects. */
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
const SIGNATURES: Readonly<Record<string, Readonly<Record<string, ParameterType>>>> = {
  lamp: { room: oneOf(ROOMS), level: count(0, 99) },
  alarm: { at: count(0, 23), day: oneOf(DAYS) },
  buy: { item: { accepts: (value) => /^[a-z]{6}$/.test(value), expected: "a name of six letters" }, n: count(1, 99) },
};

/** A call as the agent writes it: `buy item=lomika n=12`. */
const write = ({ name, parameters }: Call): string =>
  [name, ...Object.entries(parameters).map(([parameter, value]) => `${parameter}=${value}`)].join(" ");

/** Parses a call; undefined if the text is none. It does not check whether a tool takes the call. */
export function readCall(text: string): Call | undefined {
  const [name = "", ...rest] = text.trim().split(/\s+/);
  const pairs = rest.map((part) => /^([a-z]+)=(\S+)$/.exec(part));
  if (!/^[a-z]+$/.test(name) || rest.length === 0 || pairs.includes(null)) return undefined;
  const parameters = Object.fromEntries(pairs.map((pair) => [pair![1]!, pair![2]!]));
  return Object.keys(parameters).length === rest.length ? { name, parameters } : undefined;
}

/** A tool's reason to refuse a call; undefined if it takes the call. */
export function refusal({ name, parameters }: Call): string | undefined {
  if (!Object.hasOwn(SIGNATURES, name)) return `no such tool; there are ${Object.keys(SIGNATURES).join(", ")}`;
  const types = SIGNATURES[name]!;
  const given = Object.keys(parameters);
  if (given.length !== Object.keys(types).length || !given.every((parameter) => Object.hasOwn(types, parameter)))
    return `${name} takes ${Object.keys(types).join(", ")}`;
  const wrong = given.find((parameter) => !types[parameter]!.accepts(parameters[parameter]!));
  return wrong === undefined ? undefined : `${wrong} must be ${types[wrong]!.expected}`;
}

/** The key of a call, which does not depend on the order of its parameters. */
export const keyOf = ({ name, parameters }: Call): string =>
  write({ name, parameters: Object.fromEntries(Object.entries(parameters).toSorted(([a], [b]) => (a < b ? -1 : 1))) });

const NAMES = ["lamp", "alarm", "buy"] as const;
type ToolName = (typeof NAMES)[number];

/** A call of a tool, and words for it. */
function drawCall(rng: Rng, name: ToolName, split: Split): { readonly call: Call; readonly words: string } {
  const make = (parameters: Call["parameters"], ...words: readonly string[]) => ({
    call: { name, parameters },
    words: rng.choice(words),
  });
  switch (name) {
    case "lamp": {
      const [room, level] = [rng.choice(ROOMS), String(rng.int(100))];
      return make({ room, level }, `${room} lamp to ${level}`, `light of ${level} in the ${room}`);
    }
    case "alarm": {
      const [day, at] = [rng.choice(DAYS), String(rng.int(24))];
      return make({ at, day }, `wake me on ${day} at ${at}`, `alarm for ${at}, ${day}`);
    }
    case "buy": {
      const [item, n] = [nameMaker(rng, split)(), String(1 + rng.int(99))];
      return make({ item, n }, `get ${n} ${item}`, `we need ${n} of ${item}`);
    }
  }
}

/** The tools that a family of tasks wants. */
function toolsOf(rng: Rng, family: ToolFamily["name"]): readonly ToolName[] {
  switch (family) {
    case "two":
      return rng.shuffle(NAMES).slice(0, 2);
    case "twice": {
      const name = rng.choice(NAMES);
      return [name, name];
    }
    case "three":
      return rng.shuffle(NAMES);
    case "say":
      return [];
    default:
      return [family];
  }
}

function makeTask(rng: Rng, { name }: ToolFamily, { split }: SettledOptions<typeof TOOLS>): ToolTask {
  return drawUntil("tools", () => {
    if (name === "say") {
      const say = nameMaker(rng, split)();
      return { text: rng.choice([`Just say ${say}`, `The word is ${say}; say it`]), calls: [], say };
    }
    const drawn = toolsOf(rng, name).map((tool) => drawCall(rng, tool, split));
    const calls = drawn.map(({ call }) => call);
    const identity = calls.map(keyOf).toSorted().join("; ");
    if (isHeldOut(identity) !== (split === "heldout") || new Set(calls.map(keyOf)).size < calls.length)
      return undefined;
    return { text: `Please: ${drawn.map(({ words }) => words).join("; ")}`, calls };
  });
}

/** `NAME PARAMETER=VALUE …` calls a tool; `done` ends the episode, and so does `say WORD`. */
function play({ task, state }: ToolEpisode, action: string): Move<ToolState> {
  const said = action.trim();
  const ending = said === "done" ? "done" : /^say [a-z]{1,12}$/.test(said) ? "say" : undefined;
  const call = ending === undefined ? readCall(said) : undefined;
  const kind = ending ?? (call ? "call" : "?");
  const kinds = [...state.kinds, kind];
  if (ending !== undefined) {
    const wanted = task.say === undefined ? said === "done" : said === `say ${task.say}`;
    const isRight = wanted && sameCalls(state.taken, task.calls);
    const after = { ...state, kinds };
    return {
      observation: "",
      state: after,
      ending: { kind: ending, score: isRight ? 1 : 0 },
      info: infoOf(task, after),
    };
  }
  const after = { ...state, kinds, calls: call ? [...state.calls, call] : state.calls };
  const wrong = call ? refusal(call) : "write NAME PARAMETER=VALUE, say WORD or done";
  if (wrong !== undefined)
    return { observation: `error: ${wrong}`, failed: true, state: after, info: infoOf(task, after) };
  const taken = { ...after, taken: [...state.taken, call!] };
  return { observation: "ok", state: taken, info: infoOf(task, taken) };
}

const sameCalls = (calls: readonly Call[], wanted: readonly Call[]): boolean =>
  calls.map(keyOf).toSorted().join("\n") === wanted.map(keyOf).toSorted().join("\n");

/** The info that a reward of calls compares (papers/rewards/toolCalls.ts). */
const infoOf = (task: ToolTask, { calls, kinds }: ToolState) => ({
  calls: JSON.stringify(calls),
  wantedCalls: JSON.stringify(task.calls),
  kinds: kinds.join(" "),
  wantedKinds: [...task.calls.map(() => "call"), task.say === undefined ? "done" : "say"].join(" "),
});

/** The next call that no tool has taken yet, and the ending. */
function expert({ task: { calls, say }, state: { taken } }: ToolEpisode): string {
  const done = new Set(taken.map(keyOf));
  const next = calls.find((call) => !done.has(keyOf(call)));
  return next ? write(next) : say === undefined ? "done" : `say ${say}`;
}

/** A call of a tool with values of the right types, those of the task if it is given; or an ending. */
function random(rng: Rng, task = ""): string {
  const words = task.match(/\b[a-z]{6}\b/g) ?? [nameMaker(rng)()];
  const numbers = task.match(/\d+/g) ?? [String(rng.int(100))];
  const { call } = drawCall(rng, rng.choice(NAMES), "train");
  const parameters = Object.entries(call.parameters).map(([name, value]): [string, string] => [
    name,
    name === "item" ? rng.choice(words) : /^\d/.test(value) ? rng.choice(numbers) : value,
  ]);
  const made = write({ ...call, parameters: Object.fromEntries(parameters) });
  return rng.choice([made, made, "done", `say ${rng.choice(words)}`]);
}

export const rules: GameRules<typeof TOOLS, ToolFamily, ToolTask, ToolState> = {
  makeTask,
  start: () => ({ calls: [], taken: [], kinds: [] }),
  play,
  expert,
  random,
};
