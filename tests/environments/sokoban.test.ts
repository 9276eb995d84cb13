/** `sokoban`: the contract, the rules, and that the solver is right about every position. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Rng } from "../../engine/random.ts";
import { canonicalGrid, DIRECTIONS } from "../../environments/grid.ts";
import { sokoban, type SokobanOptions } from "../../environments/sokoban/index.ts";
import { boxesOnGoals, glyphs, move, type Position, type Room } from "../../environments/sokoban/room.ts";
import { DistanceTable } from "../../environments/sokoban/solver.ts";
import { FAMILIES } from "../../environments/sokoban/episode.ts";
import { drawRoom } from "../../environments/sokoban/rules.ts";
import { testContract } from "./contract.ts";
import { SokobanEnvironment } from "./opened.ts";
import { play } from "./suite.ts";
import { tries } from "../support/tries.ts";

const boardOf = (task: string): string[] => task.split("\n").slice(1).join(" ").split(" ");

/** A room and a position from a square board in XSB. */
function read(rows: readonly string[]): { room: Room; position: Position } {
  const cells = [...rows.join("")];
  const cellsWith = (wanted: string): number[] =>
    cells.flatMap((glyph, cell) => (wanted.includes(glyph) ? [cell] : []));
  return {
    room: { size: rows.length, walls: new Set(cellsWith("#")), goals: new Set(cellsWith(".*+")) },
    position: { player: cellsWith("@+")[0]!, boxes: cellsWith("$*") },
  };
}

/** Boards after moves, without spaces between cells. */
function after(rows: readonly string[], ...moves: (typeof DIRECTIONS)[number][]): string {
  const { room, position } = read(rows);
  const last = moves.reduce((from, direction) => move(room, from, direction), position);
  return glyphs(room, last)
    .join("")
    .replace(new RegExp(`.{${rows.length}}(?!$)`, "g"), "$&/");
}

/** The cell at the end of a way such as `$ right 1 up 2`. */
function walk(from: number, way: string, size: number): number {
  const steps = { up: -size, right: 1, down: size, left: -1 };
  const parts = [...way.matchAll(/(\w+) (\d+)/g)];
  return parts.reduce((cell, [, name, n]) => cell + steps[name as keyof typeof steps] * Number(n), from);
}

/** Moves to a solved position by plain breadth-first search forwards, or undefined. */
function search(room: Room, position: Position): number | undefined {
  const seen = new Set<string>();
  let layer = [position];
  for (let moves = 0; layer.length > 0; moves++) {
    if (layer.some((one) => boxesOnGoals(room, one) === room.goals.size)) return moves;
    layer = layer
      .flatMap((one) => DIRECTIONS.map((direction) => move(room, one, direction)))
      .filter((one) => {
        const key = `${one.player}:${one.boxes.join()}`;
        return !seen.has(key) && seen.add(key);
      });
  }
  return undefined;
}

async function begin(seed: number, options: SokobanOptions): Promise<{ env: SokobanEnvironment; task: string }> {
  const env = new SokobanEnvironment(options);
  return { env, task: await env.reset(seed) };
}

describe("sokoban", () => {
  testContract(sokoban, {
    expected: {
      push: { expert: 1, luck: 0.16, tokens: 250 },
      walk: { expert: 1, luck: 0.04, tokens: 630 },
      pair: { expert: 1, luck: 0.02, tokens: 750 },
      room: { expert: 1, luck: 0.01, tokens: 1330 },
      trio: { expert: 1, luck: 0.01, tokens: 970 },
    },
    // The room without boxes and player, in one orientation for all.
    identity: (task) => {
      const room = boardOf(task).map((glyph) => (".*+".includes(glyph) ? "." : glyph === "#" ? "#" : "-"));
      return [canonicalGrid(room, Math.sqrt(room.length))];
    },
    nearly: [...DIRECTIONS, "Up", "LEFT", " ", ",", "\n", "push", "$"],
  });
});

describe("the rules", () => {
  it("step, push, and refuse: walls, the edge, two boxes in a row", () => {
    expect(after(["@$-", "---", "-.-"], "right")).toBe("-@$/---/-.-");
    expect(after(["@$-", "---", "-.-"], "right", "right")).toBe("-@$/---/-.-");
    expect(after(["@--", "$--", "#.-"], "down")).toBe("@--/$--/#.-");
    expect(after(["@$$-", "----", "..--", "----"], "right")).toBe("@$$-/----/..--/----");
    expect(after(["@#-", "---", "---"], "right", "up", "left")).toBe("@#-/---/---");
    expect(after(["---", "-@-", "---"], "up", "up", "right", "down")).toBe("---/--@/---");
    expect(after(["-$@", "---", "-.-"], "right", "left")).toBe("$@-/---/-.-");
  });

  it("show goals under the player and under boxes, and never pull", () => {
    expect(after(["@$.", "---", "---"], "right")).toBe("-@*/---/---");
    expect(after(["@.-", "---", "---"], "right")).toBe("-+-/---/---");
    expect(after(["@*-", "---", "---"], "right", "left")).toBe("@.$/---/---");
    const { room, position } = read(["+*-", "-$-", "---"]);
    expect(glyphs(room, position).join("")).toBe("+*--$----");
    expect(glyphs(room).join("")).toBe("..-------");
  });

  it("keep boxes in order, so that equal positions are equal", () => {
    // The box at 6 is pushed past the one at 8, to 11.
    const { room, position } = read(["-@---", "-$-$-", "-----", "..---", "-----"]);
    expect(move(room, position, "down")).toEqual({ player: 6, boxes: [8, 11] });
  });
});

describe("the solver", () => {
  it("needs 33 moves for the first level of Microban (David W. Skinner), the known optimum", () => {
    const { room, position } = read(["-.###", "--###", "*@--#", "--$-#", "--###"]);
    expect(new DistanceTable(room).distance(position)).toBe(33);
  });

  it("agrees with a search forwards, for solvable and unsolvable positions", () => {
    let dead = 0;
    fc.assert(
      fc.property(
        fc.integer({ min: 3, max: 4 }),
        fc.integer({ min: 1, max: 2 }),
        fc.nat(2 ** 31),
        (size, boxes, seed) => {
          const cells = new Rng(seed).shuffle(Array.from({ length: size ** 2 }, (_, cell) => cell));
          const room: Room = { size, walls: new Set(cells.splice(0, 2)), goals: new Set(cells.splice(0, boxes)) };
          const [player, ...rest] = new Rng(seed).split(1).shuffle([...cells, ...room.goals]);
          const position: Position = { player: player!, boxes: rest.slice(0, boxes).sort((a, b) => a - b) };
          const distance = search(room, position);
          const table = new DistanceTable(room);
          expect(table.distance(position)).toBe(distance);
          const best = table.bestMove(position);
          expect(best === undefined).toBe(distance === undefined || distance === 0);
          if (best) expect(search(room, move(room, position, best))).toBe(distance! - 1);
          if (distance === undefined) dead++;
        },
      ),
      { numRuns: tries(150) },
    );
    expect(dead).toBeGreaterThan(tries(20));
  });

  it("draws positions at the distance that is asked for, and every one of them", () => {
    const { room } = read(["---", "-@.", "#--"]);
    const table = new DistanceTable(room);
    for (const distance of [1, 2, 3]) {
      const drawn = new Set<string>();
      for (let seed = 0; seed < 300; seed++) {
        const position = table.draw(distance, new Rng(seed))!;
        expect(table.distance(position)).toBe(distance);
        drawn.add(JSON.stringify(position));
      }
      let there = 0;
      for (let player = 0; player < 9; player++)
        for (let box = 0; box < 9; box++)
          if (player !== box && table.distance({ player, boxes: [box] }) === distance) there++;
      expect(drawn.size).toBe(there);
    }
    expect(table.draw(200, new Rng(0))).toBeUndefined();
  });

  it("refuses rooms that it cannot search", () => {
    const room: Room = { size: 8, walls: new Set(), goals: new Set([1, 2, 3, 4]) };
    expect(() => new DistanceTable(room)).toThrow(
      "sokoban: 4 boxes on 8×8 make 1073741824 codes, the search takes 4194304",
    );
  });
});

describe("tasks", () => {
  it("are as long as their family says, with no box on a goal", () => {
    for (const family of FAMILIES)
      for (let seed = 0; seed < 60; seed++) {
        const { room, start, table } = drawRoom(new Rng(seed), family, seed % 2 === 0 ? "train" : "heldout");
        const [least, most] = family.solution;
        expect(table.distance(start)).toBeGreaterThanOrEqual(least);
        expect(table.distance(start)).toBeLessThanOrEqual(most);
        expect(boxesOnGoals(room, start)).toBe(0);
        expect([room.walls.size, start.boxes.length]).toEqual([family.walls, family.boxes]);
        expect(family.moves).toBeGreaterThan(most);
      }
  });
});

describe("the episode", () => {
  it("ends when all boxes are on goals, and the expert uses the fewest moves", async () => {
    for (let seed = 0; seed < 100; seed++) {
      const { env } = await begin(seed, { levels: [1, 4] });
      const moves = env.movesToSolve();
      const { last } = await play(env, () => env.expertAction());
      expect(last).toMatchObject({ observation: "All boxes are on goals.", reward: 1, done: true });
      expect(last!.info).toMatchObject({ moves, turns: moves, success: true, ending: "solved", deadlock: false });
      await expect(env.step("up")).rejects.toThrow("sokoban.step: called after the episode ended");
    }
  });

  it("leads the expert back after a detour, unless that was a dead end, and says which", async () => {
    let [solved, dead] = [0, 0];
    for (let seed = 0; seed < 250; seed++) {
      const { env } = await begin(seed, { moves: 60, levels: [2, 4] });
      const rng = new Rng(seed);
      const detour = await play(env, () => rng.choice(DIRECTIONS), 8);
      if (detour.last!.done) continue;
      const left = env.movesToSolve();
      expect(detour.last!.info["deadlock"]).toBe(left === undefined);
      const { last } = await play(env, () => env.expertAction(), 60);
      expect(last!.info["success"]).toBe(left !== undefined);
      expect(last!.info["moves"]).toBe(left === undefined ? 60 : 8 + left);
      if (left === undefined) dead++;
      else solved++;
    }
    expect(Math.min(solved, dead)).toBeGreaterThan(20);
  });

  it("counts bad actions as moves, and stops when there are none left", async () => {
    const { env, task } = await begin(0, { families: ["push"], moves: 3 });
    for (const bad of ["up down", "dance"]) {
      const { observation, reward, done } = await env.step(bad);
      expect({ observation, reward, done }).toEqual({
        observation: "unknown action; use one of up, right, down, left",
        reward: 0,
        done: false,
      });
    }
    expect(task).toMatch(/^Push \$ onto \. in 3 moves\n/);
    const last = await env.step("solved");
    expect(last).toMatchObject({ observation: "No moves left.", reward: 0, done: true });
    expect(last.info).toMatchObject({ moves: 3, turns: 3, toolErrors: 3, ending: "moves", success: false });
  });

  it("has as many moves to spare as asked, and gives up where they are too few", async () => {
    let wrong = 0;
    for (let seed = 0; seed < 60; seed++) {
      const { env, task } = await begin(seed, { families: ["push"], spare: 1, giveUp: true });
      const least = env.movesToSolve()!;
      expect(task).toContain(` in ${least + 1} moves\n`);
      const rng = new Rng(seed);
      const { last } = await play(env, () => rng.choice(DIRECTIONS), 16);
      const left = env.movesToSolve() ?? Infinity;
      const { moves, ending } = last!.info;
      expect(last!.done).toBe(true);
      if (ending === "hopeless") expect(left).toBeGreaterThan(least + 1 - Number(moves));
      expect(ending).toBe(left === 0 ? "solved" : moves === least + 1 ? "moves" : "hopeless");
      if (ending === "hopeless") wrong++;
    }
    expect(wrong).toBeGreaterThan(20);
  });

  it("says in brief where the boxes and the goals are, and shows the board but once", async () => {
    for (let seed = 0; seed < 40; seed++) {
      const { env, task } = await begin(seed, { families: ["pair"], brief: true });
      const lines = task.split("\n");
      let { player, boxes } = read(lines.slice(1, -1).map((row) => row.replaceAll(" ", ""))).position;
      const { room } = read(lines.slice(1, -1).map((row) => row.replaceAll(" ", "")));
      let said = lines.at(-1)!;
      for (let turn = 0; turn < 4; turn++) {
        const [toBoxes, toGoals] = [said.match(/\$[^$.]*/g)!, said.match(/\.[^$.]*/g)!];
        expect(toBoxes.map((way) => walk(player, way, room.size))).toEqual(boxes);
        expect(new Set(toGoals.map((way) => walk(boxes[0]!, way, room.size)))).toEqual(room.goals);
        const action = env.expertAction() as (typeof DIRECTIONS)[number];
        ({ player, boxes } = move(room, { player, boxes }, action));
        const { observation, done } = await env.step(action);
        if (done) break;
        said = observation;
      }
    }
  });

  it("takes several moves in an action if asked, up to the solution and the limit", async () => {
    for (let seed = 0; seed < 50; seed++) {
      const { env } = await begin(seed, { families: ["pair"], movesPerAction: 4 });
      const moves = env.movesToSolve()!;
      const copy = env.clone();
      const { last } = await play(env, () => env.expertAction());
      expect(last!.info).toMatchObject({ success: true, moves, turns: Math.ceil(moves / 4) });
      expect((await copy.step("up up up up up")).observation).toBe(
        "unknown action; use 1 to 4 of up, right, down, left",
      );
    }
    const { env } = await begin(1, { families: ["push"], movesPerAction: 16 });
    const overshoot = await env.step(`${env.expertAction()} up down up down`);
    expect(overshoot.info).toMatchObject({ success: true, turns: 1 });
    const short = await begin(1, { families: ["walk"], movesPerAction: 16, moves: 2 });
    expect((await short.env.step("up up up up up up")).info).toMatchObject({ moves: 2, ending: "moves" });
  });

  it("pays for boxes on goals only if asked, and takes it back", async () => {
    for (let seed = 0; seed < 60; seed++) {
      const { env } = await begin(seed, { families: ["pair"], boxReward: 0.25, moves: 40 });
      const rng = new Rng(seed);
      const { last, total } = await play(
        env,
        () => (rng.int(3) === 0 ? rng.choice(DIRECTIONS) : env.expertAction()),
        40,
      );
      const { boxesOnGoals: onGoals, success } = last!.info;
      expect(total).toBeCloseTo(0.25 * Number(onGoals) + Number(success), 12);
    }
    expect(() => sokoban.make({ boxReward: 1 })).toThrow("boxReward must be in [0, 1), got 1");
    expect(() => sokoban.make(JSON.parse('{"dense":"yes"}') as object)).toThrow(
      'dense must be true or false, got "yes"',
    );
    expect(() => sokoban.make({ moves: 1.5 })).toThrow("moves must be an integer in [1, 1000], got 1.5");
    expect(() => sokoban.make({ movesPerAction: 17 })).toThrow("movesPerAction must be an integer in [1, 16], got 17");
  });

  it("shows dense boards if asked", async () => {
    const { task } = await begin(2, { families: ["walk"], dense: true });
    const { task: spaced } = await begin(2, { families: ["walk"] });
    expect(task).toMatch(/\n([-#$.@+*]{5}\n){4}[-#$.@+*]{5}$/);
    expect(boardOf(spaced).join("")).toBe(task.split("\n").slice(1).join(""));
  });
});
