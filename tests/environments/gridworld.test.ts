/** `gridworld`: the contract, the rules of ice, and that the expert's policy is the best there is. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Rng } from "../../engine/random.ts";
import { canonicalGrid, DIRECTIONS, neighbour, readMoves, showGrid, turned } from "../../environments/grid.ts";
import { gridworld, type GridworldOptions } from "../../environments/gridworld/index.ts";
import { glyphs, type Lake, slipped } from "../../environments/gridworld/lake.ts";
import { solve } from "../../environments/gridworld/solve.ts";
import { FAMILIES } from "../../environments/gridworld/episode.ts";
import { drawLake, isHeldOutLake } from "../../environments/gridworld/rules.ts";
import { testContract } from "./contract.ts";
import { GridworldEnvironment } from "./opened.ts";
import { play } from "./suite.ts";
import { tries } from "../support/tries.ts";

/** A lake from its map, `S` or `.` being ground. */
function lakeOf(rows: readonly string[], slip: number): Lake {
  const cells = [...rows.join("")];
  const holes = new Set(cells.flatMap((glyph, cell) => (glyph === "O" ? [cell] : [])));
  return { size: rows.length, goal: cells.indexOf("G"), holes, slip };
}

const mapOf = (task: string): string[] => task.split("\n").slice(1).join(" ").split(" ");

async function begin(seed: number, options: GridworldOptions): Promise<{ env: GridworldEnvironment; task: string }> {
  const env = new GridworldEnvironment(options);
  return { env, task: await env.reset(seed) };
}

describe("gridworld", () => {
  testContract(gridworld, {
    expected: {
      field: { expert: 1, luck: 0.16, tokens: 270 },
      pond: { expert: 1, luck: 0.08, tokens: 350 },
      ice: { expert: 0.78, luck: 0.16, tokens: 700 },
      lake: { expert: 1, luck: 0.02, tokens: 1150 },
      glacier: { expert: 0.78, luck: 0.08, tokens: 1350 },
    },
    // The map without the player, in one orientation for all. A player hides nothing but ground.
    identity: (task) => {
      const map = mapOf(task).map((glyph) => (glyph === "@" ? "." : glyph));
      return [canonicalGrid(map, Math.sqrt(map.length))];
    },
    nearly: [...DIRECTIONS, "Up", "LEFT", " ", ",", "\n", "u", "G"],
  });
});

describe("the best policy", () => {
  it("has the known value of Gym's 4×4 map without a limit of moves, 14/17, and the right first move", () => {
    const lake = lakeOf(["S...", ".O.O", "...O", "O..G"], 2 / 3);
    const policy = solve(lake, 3_000);
    expect(policy.success(0, 3_000)).toBeCloseTo(14 / 17, 9);
    expect(policy.best(0, 3_000)).toBe("left"); // away from everything: only slipping down is wanted
  });

  it("is worked out by hand on two cells: the goal is to the right, half of all moves slip against the edges", () => {
    const lake: Lake = { size: 2, goal: 1, holes: new Set([2, 3]), slip: 0.5 };
    // From 0, right: 1/2 to the goal, 1/4 up (stays), 1/4 down into the hole. Up: 1/2 stays, 1/4 right to the goal, 1/4
    // left (stays).
    const policy = solve(lake, 50);
    expect(policy.success(0, 1)).toBe(0.5);
    expect(policy.best(0, 1)).toBe("right");
    expect(policy.best(0, 50)).toBe("up"); // never falls, and with 50 tries does not run out of them
    expect(policy.success(0, 2)).toBeCloseTo(Math.max(0.5 + 0.25 * 0.5, 0.25 + 0.75 * 0.5), 12);
  });

  it("is a shortest way where nothing slips", async () => {
    for (const family of ["field", "pond", "lake"])
      for (let seed = 0; seed < 100; seed++) {
        const { env, task } = await begin(seed, { families: [family] });
        const map = mapOf(task);
        const size = Math.sqrt(map.length);
        // Breadth first by hand, over sets of cells.
        let [reached, moves] = [new Set([map.indexOf("@")]), 0];
        for (; !reached.has(map.indexOf("G")); moves++)
          reached = new Set(
            [...reached].flatMap((cell) =>
              [cell, ...DIRECTIONS.map((way) => neighbour(cell, way, size) ?? cell)].filter((to) => map[to] !== "O"),
            ),
          );
        expect(env.expertSuccess()).toBe(1);
        expect((await play(env, () => env.expertAction())).last!.info).toMatchObject({ success: true, turns: moves });
      }
  });

  it("succeeds as often as it says", async () => {
    for (const options of [{ families: ["ice", "glacier"] }, { families: ["pond"], slip: 2 / 3, moves: 40 }]) {
      let [said, variance, happened] = [0, 0, 0];
      for (let seed = 0; seed < tries(600); seed++) {
        const { env } = await begin(seed, options);
        const probability = env.expertSuccess();
        said += probability;
        variance += probability * (1 - probability);
        happened += (await play(env, () => env.expertAction(), 40)).total;
      }
      expect(Math.abs(happened - said)).toBeLessThan(4 * Math.sqrt(variance)); // 4 σ, and the seeds are fixed
    }
  });

  it("is never worse with more moves, and tasks on ice are ones that it mostly solves", () => {
    const rng = new Rng(5);
    for (const family of FAMILIES.filter(({ slip }) => slip > 0)) {
      const { lake, start } = drawLake(rng, family, "train");
      const policy = solve(lake, 30);
      for (let left = 1; left <= 30; left++)
        expect(policy.success(start, left)).toBeGreaterThanOrEqual(policy.success(start, left - 1));
      expect(policy.success(start, family.moves)).toBeGreaterThanOrEqual(0.7);
    }
  });
});

describe("ice", () => {
  it("slips as often as it should, to both sides alike", async () => {
    const counts = { ahead: 0, right: 0, left: 0 };
    for (let i = 0; i < 20_000; i++) {
      const went = slipped("up", 0.3, i / 20_000);
      counts[went === "up" ? "ahead" : went === "right" ? "right" : "left"]++;
    }
    expect(counts).toEqual({ ahead: 14_000, right: 3_000, left: 3_000 });
    let slips = 0;
    let moves = 0;
    for (let seed = 0; seed < 300; seed++) {
      const { env } = await begin(seed, { families: ["field"], slip: 0.5 });
      for (let done = false; !done; moves++) {
        const { info, done: over } = await env.step("left");
        slips += Number(info["slipped"]);
        done = over;
      }
    }
    expect(Math.abs(slips / moves - 0.5)).toBeLessThan(0.05);
  });

  it("is the same map with and without slipping", async () => {
    for (let seed = 0; seed < 20; seed++) {
      const { task } = await begin(seed, { slip: 0, moves: 9 });
      const { task: slippery } = await begin(seed, { slip: 2 / 3, moves: 9 });
      expect(task).toMatch(/^Reach G in 9 moves\n/);
      expect(slippery).toBe(task.replace("9 moves", "9 moves on ice"));
    }
  });

  it("a clone slips like its original, one with a seed by that seed", async () => {
    const options: GridworldOptions = { families: ["field"], slip: 0.9, moves: 30 };
    const walk = async (env: GridworldEnvironment): Promise<string> =>
      (await play(env, () => "right", 6)).lines.join("\n");
    let differing = 0;
    for (let seed = 0; seed < 20; seed++) {
      const { env } = await begin(seed, options);
      await env.step("jump");
      const [same, one, oneAgain, other] = [env.clone(), env.clone(1), env.clone(1), env.clone(2)];
      const walks = await Promise.all([env, same, one, oneAgain, other].map(walk));
      expect(walks[1]).toBe(walks[0]);
      expect(walks[3]).toBe(walks[2]);
      if (walks[4] !== walks[2]) differing++;
    }
    expect(differing).toBeGreaterThan(15);
  });
});

describe("the episode", () => {
  it("counts a bad action as a move, and stays", async () => {
    const { env, task } = await begin(0, { families: ["field"], moves: 3 });
    for (const bad of ["up down", "jump"]) {
      const { observation, info, reward } = await env.step(bad);
      expect(observation).toBe("unknown action; use one of up, right, down, left");
      expect([reward, info["success"], info["ending"]]).toEqual([0, false, "none"]);
    }
    const last = await env.step("goal");
    expect(last).toMatchObject({ observation: "No moves left.", reward: 0, done: true });
    expect(last.info).toMatchObject({ turns: 3, toolErrors: 3, ending: "moves", success: false, slipped: false });
    await expect(env.step("up")).rejects.toThrow("gridworld.step: called after the episode ended");
    expect(() => env.expertAction()).toThrow("there are no moves left");
    expect(mapOf(task)).toHaveLength(16);
  });

  it("ends in a hole with nothing, at the goal with 1, and at the edge goes on", async () => {
    const endings = new Set<string>();
    for (let seed = 0; seed < 60; seed++) {
      const { env, task } = await begin(seed, { families: ["pond"] });
      const map = mapOf(task);
      const at = map.indexOf("@");
      for (const direction of DIRECTIONS) {
        const to = neighbour(at, direction, 4);
        const { observation, reward, done, info } = await env.clone().step(direction);
        if (to === undefined) expect(observation).toBe(task.split("\n").slice(1).join("\n"));
        else if (map[to] === "O")
          expect({ observation, reward, done }).toEqual({ observation: "You fall into O.", reward: 0, done: true });
        else expect(mapOf(`\n${observation}`).indexOf("@")).toBe(to);
        endings.add(String(info["ending"]));
      }
      expect((await play(env, () => env.expertAction())).lines.at(-1)).toBe("You reach G.");
    }
    expect(endings).toEqual(new Set(["none", "hole"]));
  });

  it("a blind agent sees the map once, and one thought is its plan, which leads to the goal", async () => {
    for (const family of ["field", "pond", "lake"])
      for (let seed = 0; seed < 10; seed++) {
        const env = gridworld.make({ families: [family], blind: true });
        expect(await env.reset(seed)).toBe(await gridworld.make({ families: [family] }).reset(seed));
        const [, moves] = /^plan ((?:\w+ ?)+)\.$/.exec(gridworld.thoughts!(env, new Rng(seed)))!;
        const plan = moves!.split(" ");
        for (const [i, move] of plan.entries()) {
          expect(gridworld.expert!(env)).toBe(move);
          const isLast = i === plan.length - 1;
          const { observation, done, reward } = await env.step(move);
          expect([observation, done, reward]).toEqual(
            isLast ? ["You reach G.", true, 1] : ["You see nothing.", false, 0],
          );
          if (!isLast) expect(gridworld.thoughts!(env, new Rng(seed))).toBe("");
        }
      }
    const lost = gridworld.make({ families: ["field"], blind: true });
    await lost.reset(0);
    expect((await lost.step("jump")).observation).toMatch(/^unknown action; use one of up/);
  });

  it("shows dense maps if asked, and refuses bad numbers", async () => {
    const { task } = await begin(4, { families: ["lake"], dense: true });
    const { task: spaced } = await begin(4, { families: ["lake"] });
    expect(task).toMatch(/^Reach G in 16 moves\n([.OG@]{6}\n){5}[.OG@]{6}$/);
    expect(mapOf(spaced).join("")).toBe(task.split("\n").slice(1).join(""));
    expect(() => gridworld.make({ slip: 1 })).toThrow("slip must be in [0, 1), got 1");
    expect(() => gridworld.make({ slip: NaN })).toThrow("got NaN");
    expect(() => gridworld.make(JSON.parse('{"dense":"yes"}') as object)).toThrow(
      'dense must be true or false, got "yes"',
    );
    expect(() => gridworld.make({ moves: 0 })).toThrow("moves must be an integer in [1, 1000], got 0");
  });
});

describe("the split", () => {
  it("keeps a quarter of all lakes, whatever their orientation", () => {
    const rng = new Rng(1);
    let held = 0;
    for (let i = 0; i < 2_000; i++) {
      const cells = rng.shuffle(Array.from({ length: 36 }, (_, cell) => cell));
      const lake: Lake = { size: 6, goal: cells[0]!, holes: new Set(cells.slice(1, 8)), slip: 0 };
      if (isHeldOutLake(lake)) held++;
      const mirror = (cell: number): number => (cell % 6) * 6 + Math.floor(cell / 6);
      const mirrored = { ...lake, goal: mirror(lake.goal), holes: new Set([...lake.holes].map(mirror)) };
      expect(isHeldOutLake(mirrored)).toBe(isHeldOutLake(lake));
    }
    expect(held / 2_000).toBeCloseTo(0.25, 1);
  });

  it("the canonical form is one of the eight of a grid, and the same for all eight", () => {
    const grid = fc.integer({ min: 1, max: 5 }).chain((size) =>
      fc.record({
        size: fc.constant(size),
        cells: fc.array(fc.constantFrom("a", "b", "c"), { minLength: size ** 2, maxLength: size ** 2 }),
      }),
    );
    fc.assert(
      fc.property(grid, fc.boolean(), fc.nat(3), ({ size, cells }, flip, quarters) => {
        // The other way to write the symmetries: with coordinates.
        const turn = (all: string[], mirrored: boolean): string[] =>
          all.map((_, i) => {
            const [row, column] = [Math.floor(i / size), i % size];
            return mirrored ? all[column * size + row]! : all[column * size + (size - 1 - row)]!;
          });
        let other = flip ? turn(cells, true) : cells;
        const all = [cells, turn(cells, true)].map((form) => {
          const forms = [form];
          for (let i = 0; i < 3; i++) forms.push(turn(forms.at(-1)!, false));
          return forms;
        });
        for (let i = 0; i < quarters; i++) other = turn(other, false);
        expect(canonicalGrid(other, size)).toBe(canonicalGrid(cells, size));
        expect(all.flat().map((form) => form.join(""))).toContain(canonicalGrid(cells, size));
      }),
    );
  });
});

describe("the grid", () => {
  it("has neighbours that lead back, and an edge", () => {
    for (let cell = 0; cell < 25; cell++)
      for (const direction of DIRECTIONS) {
        const next = neighbour(cell, direction, 5);
        if (next !== undefined) expect(neighbour(next, turned(direction, 2), 5)).toBe(cell);
      }
    expect(DIRECTIONS.map((direction) => neighbour(0, direction, 5))).toEqual([undefined, 1, 5, undefined]);
    expect(DIRECTIONS.map((direction) => neighbour(24, direction, 5))).toEqual([19, undefined, undefined, 23]);
  });

  it("reads moves with spaces and commas, in any case, and nothing else", () => {
    expect(readMoves(" Up,LEFT  down ,right\n", 4)).toEqual(["up", "left", "down", "right"]);
    for (const bad of ["", " ", "up up up", "up,", ",up", "up;down", "upp", "up then down", "u"])
      expect(readMoves(bad, 2), bad).toBeUndefined();
  });

  it("draws what it is given", () => {
    const lake = lakeOf(["..O", "...", "G.."], 0);
    expect(showGrid(glyphs(lake, 4), 3, false)).toBe(". . O\n. @ .\nG . .");
    expect(showGrid(glyphs(lake), 3, true)).toBe("..O\n...\nG..");
  });
});
