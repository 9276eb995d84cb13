/** What is asked for in `tools`, what the tools answer, and who calls them. No value of ../game.ts here. */
import type { Rng } from "../../engine/index.ts";
import type { GameRules, Move } from "../game.ts";
import type { SettledOptions } from "../options.ts";
import { drawUntil, isHeldOut, type Split } from "../selection.ts";
import { nameMaker } from "../words.ts";
import type { Call, ToolEpisode, ToolFamily, TOOLS, ToolState, ToolTask } from "./episode.ts";
import { DAYS, keyOf, readCall, refusal, ROOMS, write } from "./tools.ts";

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

/** What a reward of calls compares (papers/rewards/toolCalls.ts). */
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
