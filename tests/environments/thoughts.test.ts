/** Thoughts before actions: every statement of a trace checked by a search that knows the printed board alone. */
import { describe, expect, it } from "vitest";
import { Rng } from "../../engine/random.ts";
import type { EnvironmentOptions, EnvironmentSpec } from "../../rl/environment.ts";
import { ENVIRONMENTS } from "../../environments/index.ts";

const WAYS = { up: [-1, 0], right: [0, 1], down: [1, 0], left: [0, -1] } as const;
type Way = keyof typeof WAYS;
const FILLERS = "hmm|well|now|look|wait|maybe|ok|see";
const THOUGHT = new RegExp(
  `^(?:(?:(?:${FILLERS}) ){0,2}try (?:up|right|down|left) (?:[a-z]+|\\d+ more)\\.(?: |$)){4}$`,
);

/** What a thought says of each direction; it says nothing else. */
function read(thought: string): Record<string, string> {
  expect(thought).toMatch(THOUGHT);
  const said = [...thought.matchAll(/try (\w+) ([^.]+)\./g)].map(([, way, meets]) => [way!, meets!] as const);
  expect(said.map(([way]) => way).toSorted()).toEqual(Object.keys(WAYS).toSorted());
  return Object.fromEntries(said);
}

type Cell = readonly [row: number, column: number];
const key = (cells: readonly Cell[]): string => cells.map((cell) => cell.join()).join(" ");
const cellsOf = (board: readonly string[][], glyphs: string): Cell[] =>
  board.flatMap((row, r) => row.flatMap((glyph, c): Cell[] => (glyphs.includes(glyph) ? [[r, c]] : [])));
const ahead = ([r, c]: Cell, way: Way): Cell => [r + WAYS[way][0], c + WAYS[way][1]];

/** Moves from `start` to where `isEnd` holds, breadth first; undefined if it is nowhere. */
function moves<State>(
  start: State,
  next: (state: State) => State[],
  name: (s: State) => string,
  isEnd: (s: State) => boolean,
): number | undefined {
  const seen = new Set([name(start)]);
  let edge = [start];
  for (let n = 0; edge.length > 0; n++) {
    if (edge.some(isEnd)) return n;
    edge = edge.flatMap(next).filter((state) => !seen.has(name(state)) && seen.add(name(state)));
  }
  return undefined;
}

/** What one move on a lake meets. */
function onLake(board: readonly string[][], way: Way): string {
  const at = ([r, c]: Cell): string | undefined => board[r]?.[c];
  const to = ahead(cellsOf(board, "@")[0]!, way);
  if (at(to) === undefined) return "edge";
  if (at(to) === "O") return "hole";
  const next = (cell: Cell): Cell[] =>
    Object.keys(WAYS)
      .map((w) => ahead(cell, w as Way))
      .filter((c) => ![undefined, "O"].includes(at(c)));
  const n = moves(
    to,
    next,
    (cell) => cell.join(),
    (cell) => at(cell) === "G",
  );
  return n === 0 ? "goal" : `${n} more`;
}

/** What one move in a room meets. */
function inRoom(board: readonly string[][], way: Way): string {
  interface State {
    readonly player: Cell;
    readonly boxes: readonly Cell[];
  }
  const goals = key(cellsOf(board, ".*+"));
  const isWall = ([r, c]: Cell): boolean => (board[r]?.[c] ?? "#") === "#";
  const step = ({ player, boxes }: State, to: Way): State | "wall" | "stuck" => {
    const next = ahead(player, to);
    if (isWall(next)) return "wall";
    const pushed = boxes.find((box) => key([box]) === key([next]));
    if (!pushed) return { player: next, boxes };
    const behind = ahead(next, to);
    if (isWall(behind) || boxes.some((box) => key([box]) === key([behind]))) return "stuck";
    return { player: next, boxes: boxes.map((box) => (box === pushed ? behind : box)) };
  };
  const after = step({ player: cellsOf(board, "@+")[0]!, boxes: cellsOf(board, "$*") }, way);
  if (typeof after === "string") return after;
  const next = (state: State): State[] =>
    Object.keys(WAYS)
      .map((w) => step(state, w as Way))
      .filter((s) => typeof s === "object");
  const sorted = (boxes: readonly Cell[]): string => key([...boxes].toSorted(([a, b], [c, d]) => a - c || b - d));
  const n = moves(
    after,
    next,
    ({ player, boxes }) => `${key([player])} ${sorted(boxes)}`,
    ({ boxes }) => sorted(boxes) === goals,
  );
  return n === undefined ? "dead" : n === 0 ? "done" : `${n} more`;
}

const boardOf = (text: string): string[][] => text.split("\n").map((line) => line.split(" "));
const stepsIn = (meets: string): number =>
  /^(goal|done)$/.test(meets) ? 0 : meets.endsWith("more") ? parseInt(meets) : Infinity;

interface World {
  readonly name: string;
  readonly meets: (board: readonly string[][], way: Way) => string;
  readonly options: readonly EnvironmentOptions[];
  /** On ice the best move is not the shortest. */
  readonly ice?: EnvironmentOptions;
  readonly kinds: readonly string[];
}
const WORLDS: readonly World[] = [
  {
    name: "gridworld",
    meets: onLake,
    options: [{ levels: [1, 1] }, { levels: [2, 2] }, { levels: [4, 4], split: "heldout" }],
    ice: { levels: [3, 3] },
    kinds: ["edge", "hole", "goal", "more"],
  },
  {
    name: "sokoban",
    meets: inRoom,
    options: [{ levels: [1, 1] }, { levels: [2, 2], split: "heldout" }, { levels: [3, 3] }],
    kinds: ["wall", "stuck", "dead", "done", "more"],
  },
];

describe.each(WORLDS)("$name", ({ name, meets, options, ice, kinds }) => {
  const spec: EnvironmentSpec = ENVIRONMENTS[name]!;

  /** Plays the expert, whom chance interrupts; looks at what would be thought before the action. */
  async function walk(
    seed: number,
    option: EnvironmentOptions,
    look: (board: string[][], expert: string, thought: string, left: number) => void,
  ): Promise<void> {
    const rng = new Rng(seed).split("walk");
    const env = spec.make(option);
    const [head, ...lines] = (await env.reset(seed)).split("\n");
    let board = boardOf(lines.join("\n"));
    let left = Number(/in (\d+) moves/.exec(head!)![1]);
    for (let turn = 0; turn < 10; turn++, left--) {
      const expert = spec.expert!(env);
      look(board, expert, spec.thoughts!(env, rng.split(turn)), left);
      const { observation, done } = await env.step(rng.uniform() < 0.3 ? spec.random(rng) : expert);
      if (done) return;
      board = boardOf(observation);
    }
  }

  it("says of every direction what is there, wherever it stands, and nothing of what to do", async () => {
    const seen = new Set<string>();
    for (const option of [...options, ...(ice ? [ice] : [])])
      for (let seed = 0; seed < 15; seed++)
        await walk(seed, option, (board, _expert, thought) => {
          const truth = Object.keys(WAYS).map((way) => [way, meets(board, way as Way)] as const);
          expect(read(thought), board.map((row) => row.join(" ")).join("\n")).toEqual(Object.fromEntries(truth));
          for (const [, found] of truth) seen.add(found.replace(/^\d+ /, ""));
        });
    expect([...seen].toSorted()).toEqual([...kinds].toSorted()); // each has come up
  });

  it("the expert's action is one that its trace says is the nearest", async () => {
    let checked = 0;
    for (const option of options)
      for (let seed = 0; seed < 15; seed++)
        await walk(seed, option, (_board, expert, thought, left) => {
          const said = read(thought);
          const least = Math.min(...Object.values(said).map(stepsIn));
          if (least + 1 > left) return; // lost: nothing is the best any more
          expect(stepsIn(said[expert]!)).toBe(least);
          checked++;
        });
    expect(checked).toBeGreaterThan(120);
  });

  it("filler words follow from the stream of random numbers alone, none to two before each look", async () => {
    const counts: number[] = [];
    const words = new Set<string>();
    for (let seed = 0; seed < 60; seed++) {
      const [env, again] = [spec.make(options[0]), spec.make(options[0])];
      await Promise.all([env.reset(3), again.reset(3)]);
      const thought = spec.thoughts!(env, new Rng(seed));
      expect(spec.thoughts!(again, new Rng(seed))).toBe(thought);
      const silent = spec.make(options[0]);
      await silent.reset(3);
      expect(await env.step("up")).toEqual(await silent.step("up")); // thinking changes nothing
      const fillers = thought.match(new RegExp(`\\b(${FILLERS})\\b`, "g")) ?? [];
      counts.push(fillers.length);
      for (const word of fillers) words.add(word);
    }
    expect(words.size).toBe(FILLERS.split("|").length);
    expect(Math.max(...counts)).toBeGreaterThan(5);
    expect(Math.min(...counts)).toBeLessThan(3);
    const mean = counts.reduce((a, b) => a + b, 0) / counts.length;
    expect(Math.abs(mean - 4)).toBeLessThan(4 * Math.sqrt((4 * (2 / 3)) / 60)); // 4 σ of the mean
  });

  it("goes through the faults that a run may ask for, and belongs to episodes of this world", async () => {
    const [plain, faulty] = [spec.make(options[0]), spec.make({ ...options[0], noise: 1 } as EnvironmentOptions)];
    await Promise.all([plain.reset(5), faulty.reset(5)]);
    expect(spec.thoughts!(faulty, new Rng(1))).toBe(spec.thoughts!(plain, new Rng(1)));
    expect(() => spec.thoughts!(ENVIRONMENTS["terminal"]!.make(), new Rng(1))).toThrow(
      `${name}.thoughts: expected a ${name} episode, got "terminal"`,
    );
    expect(() => spec.thoughts!(spec.make(), new Rng(1))).toThrow("call reset first");
  });
});

it("no other environment claims to have thoughts", () => {
  const names = Object.keys(ENVIRONMENTS).filter((name) => ENVIRONMENTS[name]!.thoughts !== undefined);
  expect(names).toEqual(WORLDS.map(({ name }) => name));
});
