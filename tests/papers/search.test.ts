/**
 * Tree search over cloned environments: optima of small games, the statistics of a tree, bounds, failures, preference
 * pairs.
 */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Rng } from "../../engine/random.ts";
import { startEpisode } from "../../papers/preferences/search/position.ts";
import { rankCritic, judgeCritic } from "../../papers/preferences/search/critic.ts";
import {
  type SearchOptions,
  type SearchResult,
  treeSearch,
  treeSearches,
} from "../../papers/preferences/search/mcts.ts";
import { searchPairs } from "../../papers/preferences/search/pairs.ts";
import {
  makeNode,
  mixedValue,
  nodesOf,
  principalLine,
  type SearchNode,
  searchValue,
  uctScore,
} from "../../papers/preferences/search/tree.ts";
import { isAgentToken, policyMask } from "../../rl/episode/stream.ts";
import { preferenceRows } from "../../methods/preference.ts";
import { toyTemplate as template } from "../support/rlToy.ts";
import {
  allPaths,
  PathGame,
  type PathGameOptions,
  pathReward,
  pathSpec,
  uniformActor,
} from "../support/searchGames.ts";

const settings = (game: PathGameOptions, options: Partial<SearchOptions> = {}): SearchOptions => ({
  actor: uniformActor(game.letters),
  template,
  maxTurns: game.turns,
  candidates: 12,
  iterations: 60,
  rng: new Rng(3),
  ...options,
});
const run = async (game: PathGameOptions, options: Partial<SearchOptions> = {}): Promise<SearchResult> =>
  treeSearch(await startEpisode(pathSpec(game), {}, 0, template), settings(game, options));

const textOf = ({ action }: SearchNode): string => template.actionText(action!.ids);
const play = (line: readonly SearchNode[]): string => line.map(textOf).join("");
/** Everything of a tree that does not hold an environment. */
const outline = ({ root }: SearchResult): unknown[] =>
  [...nodesOf(root)].map(({ id, parent, action, draws, status, visits, total, position }) => ({
    id,
    parent: parent?.id,
    ids: action?.ids,
    draws,
    status,
    visits,
    total,
    stream: position?.stream,
  }));

describe("UCT", () => {
  it("is Q + c·√(ln N / (1 + n)), Q = α·Q̃ + (1 − α)·Q̂", () => {
    const parent = makeNode({
      id: 0,
      parent: undefined,
      action: undefined,
      draws: 1,
      status: "open",
      position: undefined,
    });
    const child = makeNode({ id: 1, parent, action: undefined, draws: 1, status: "open", position: undefined });
    Object.assign(parent, { visits: 9, total: 4 });
    Object.assign(child, { visits: 3, total: 2 });
    expect(uctScore(parent, child, 2, 1)).toBeCloseTo(2 / 3 + 2 * Math.sqrt(Math.log(9) / 4), 12);
    expect(uctScore(parent, child, 2, 0.25)).toBeCloseTo(2 / 3 + 2 * Math.sqrt(Math.log(9) / 4), 12); // no critic
    child.critic = 0.2;
    expect(mixedValue(child, 0.25)).toBeCloseTo(0.25 * (2 / 3) + 0.75 * 0.2, 12);
    [parent.pending, child.pending] = [2, 1]; // under way: counted in N and n, not in Q
    expect(uctScore(parent, child, 1, 1)).toBeCloseTo(2 / 3 + Math.sqrt(Math.log(11) / 5), 12);
  });
});

describe("the search", () => {
  it.each([1, 2, 3, 4])("finds the optimum of a small game with a uniform policy (game %i)", async (seed) => {
    const game = { letters: "abc", turns: 3, reward: pathReward(seed, 3) };
    const [[bestPath, bestReturn]] = allPaths(game) as [[string, number]];
    const result = await run(game, { iterations: 400 });
    expect(result.best!.reward).toBe(bestReturn);
    expect(result.best!.info["path"]).toBe(bestPath);
    // Where the search spent its visits: in the limit on the optimum, by then on a path that is hardly worse.
    expect(game.reward(play(principalLine(result.root)))).toBeGreaterThan(bestReturn - 0.1);
    // As many episodes as were played: an end in the tree is one, however often it is visited.
    expect(result.episodes.length).toBeLessThan(result.root.visits);
  });

  it("has Q̃ near the expected return of policy and tree, in the limit that of the best", async () => {
    const game: PathGameOptions = { letters: "ab", turns: 1, reward: (path) => (path === "a" ? 0.25 : 0.75) };
    const { root } = await run(game, { iterations: 50 });
    expect(Object.fromEntries(root.children!.map((node) => [textOf(node), searchValue(node)]))).toEqual({
      a: 0.25,
      b: 0.75,
    });
    const [a, b] = ["a", "b"].map((text) => root.children!.find((node) => textOf(node) === text)!.visits) as [
      number,
      number,
    ];
    expect(b).toBeGreaterThan(2 * a);
  });

  it("rewards on the way count, as does what the critic knows", async () => {
    const game: PathGameOptions = {
      letters: "abcd",
      turns: 2,
      reward: (path) => (path === "a" ? 0.6 : path === "bb" ? 0.5 : 0),
    };
    expect((await run(game, { iterations: 200 })).best!.reward).toBe(0.6);
    const knows = rankCritic(async ({ actions }) =>
      actions.map((_, i) => i).toSorted((i, j) => actions[i]!.charCodeAt(0) - actions[j]!.charCodeAt(0)),
    );
    const { root, alpha } = await run(game, { iterations: 1, critic: knows });
    expect(alpha).toBe(0.5);
    expect(root.children!.find(({ visits }) => visits === 1)).toMatchObject({ critic: 1 });
    expect(textOf(root.children!.find(({ visits }) => visits === 1)!)).toBe("a");
    const votes = await run(game, {
      iterations: 1,
      critic: judgeCritic([async ({ action, history }) => action === "d" && history.ids.length > 0]),
    });
    expect(textOf(votes.root.children!.find(({ visits }) => visits === 1)!)).toBe("d");
  });

  it("a critic that throws or says nothing has no opinion", async () => {
    const game: PathGameOptions = { letters: "ab", turns: 2 };
    const without = await run(game);
    const throwing = await run(game, { critic: () => Promise.reject(new Error("no")) });
    expect(throwing.stats.criticFailures).toBeGreaterThan(1);
    expect(outline(throwing)).toEqual(outline(without));
    expect(outline(await run(game, { critic: async ({ actions }) => actions.map(() => NaN) }))).toEqual(
      outline(without),
    );
  });

  it("a leaf value takes the place of simulations", async () => {
    const game: PathGameOptions = { letters: "ab", turns: 3, reward: (path) => (path === "aba" ? 1 : 0) };
    const actor = uniformActor("ab");
    const { root, episodes } = await run(game, {
      actor,
      iterations: 60,
      leafValue: async (positions) => positions.map(({ info }) => ("aba".startsWith(String(info["path"])) ? 0.5 : 0)),
    });
    expect(play(principalLine(root))).toBe("aba");
    // No simulations: only candidates are drawn, once for each of the 7 points at most; ends in the tree are episodes.
    expect(actor.calls).toBeLessThanOrEqual(7);
    expect(episodes.every(({ stopReason }) => stopReason === "completed")).toBe(true);
  });
});

describe("statistics", () => {
  const games = fc.record({
    seed: fc.nat(1000),
    letters: fc.constantFrom("a", "ab", "abc"),
    turns: fc.integer({ min: 1, max: 4 }),
    iterations: fc.integer({ min: 1, max: 40 }),
    parallel: fc.integer({ min: 1, max: 5 }),
    candidates: fc.integer({ min: 1, max: 6 }),
    exploration: fc.constantFrom(0, 0.5, 2),
    failing: fc.constantFrom("", "ab", "b"),
  });

  it("visits add up, values are in the range of the returns, clones do not leak", async () => {
    await fc.assert(
      fc.asyncProperty(games, async ({ seed, letters, turns, failing, ...options }) => {
        const game: PathGameOptions = {
          letters,
          turns,
          reward: pathReward(seed, turns),
          onStep: (path) => {
            if (failing && path.startsWith(failing)) throw new Error("broken");
          },
        };
        const start = await startEpisode(pathSpec(game), {}, 0, template);
        const before = structuredClone(start.stream);
        const { root, stats, episodes } = await treeSearch(start, settings(game, { ...options, rng: new Rng(seed) }));
        // The real episode stands where it stood, and can be played.
        expect(start.stream).toEqual(before);
        expect(start.env).toMatchObject({ path: "", closed: false });
        if (!failing) expect((await start.env.step("a")).info["path"]).toBe("a");
        const returns = episodes.map(({ reward }) => reward);
        expect(stats.iterations).toBeLessThanOrEqual(options.iterations);
        if (stats.stop === "iterations") expect(stats.iterations).toBe(options.iterations);
        else expect(stats.stop).toBe("failed");
        expect(root.visits + stats.failures).toBe(stats.iterations);
        if (!failing) expect(stats.failures).toBe(0);
        for (const node of nodesOf(root)) {
          expect(node.pending).toBe(0);
          expect(node.position?.env).toBeUndefined(); // all given back
          const below = (node.children ?? []).reduce((n, child) => n + child.visits, 0);
          if (node === root) expect(below).toBe(root.visits);
          else if (node.children) expect([below, below + 1]).toContain(node.visits); // its own first simulation
          if (node.status === "untried") expect(node.visits).toBe(0);
          if (node.status === "failed" && node !== root && node.children === undefined) expect(node.visits).toBe(0);
          if (node.visits > 0) {
            expect(searchValue(node)).toBeGreaterThanOrEqual(Math.min(...returns) - 1e-12);
            expect(searchValue(node)).toBeLessThanOrEqual(node.best + 1e-12);
            expect(node.best).toBeLessThanOrEqual(Math.max(...returns));
          }
          expect((node.children ?? []).reduce((n, child) => n + child.draws, 0)).toBe(
            node.children ? options.candidates : 0,
          );
          expect(new Set((node.children ?? []).map(textOf)).size).toBe(node.children?.length ?? 0);
        }
        expect(new Set([...nodesOf(root)].map(({ id }) => id)).size).toBe([...nodesOf(root)].length);
        expect(stats.nodes).toBe([...nodesOf(root)].filter(({ depth, position }) => depth > 0 && position).length);
      }),
      { numRuns: 60 },
    );
  });

  it("the same seed gives the same tree; company and the number of trees do not matter", async () => {
    const game: PathGameOptions = { letters: "abc", turns: 3 };
    expect(outline(await run(game))).toEqual(outline(await run(game)));
    expect(outline(await run(game, { rng: new Rng(4) }))).not.toEqual(outline(await run(game)));
    const starts = await Promise.all(
      [0, 1, 2].map((seed) => startEpisode(pathSpec(game), {}, seed, template, { group: seed })),
    );
    const actor = uniformActor("abc");
    const rng = new Rng(3);
    const together = await treeSearches(starts, settings(game, { actor, rng }));
    for (const [i, result] of together.entries()) {
      const alone = await treeSearch(starts[i]!, settings(game, { rng: rng.split(i) }));
      expect(outline(result)).toEqual(outline(alone));
    }
    expect(actor.calls).toBeLessThan(0.5 * 3 * 2 * 60); // one decode for all leaves
  });
});

describe("where every turn costs", () => {
  const game: PathGameOptions = { letters: "ab", turns: 3, reward: () => -0.2 };
  /** Every third action runs out of tokens. */
  const babbling = (): SearchOptions["actor"] => {
    const actor = uniformActor("abc");
    const isCut = (ids: readonly number[]): boolean => template.actionText(ids) === "c";
    const act: (typeof actor)["act"] = async (requests) =>
      (await actor.act(requests)).map((drawn) =>
        drawn.map((a) => (isCut(a.ids) ? { ...a, ids: [a.ids[0]!, a.ids[0]!], complete: false } : a)),
      );
    return { ...actor, act };
  };

  it("an action that runs out of tokens is never the better one, nor such an episode the best", async () => {
    for (const seed of [1, 2, 3]) {
      const result = await run(game, { actor: babbling(), iterations: 80, rng: new Rng(seed) });
      const cut = result.root.children!.filter(({ action, visits }) => !action!.complete && visits > 0);
      expect(cut.map(searchValue)).toEqual(cut.map(() => expect.closeTo(-1.2, 12))); // twice the lowest return
      expect(cut.length).toBeGreaterThan(0);
      for (const node of nodesOf(result.root)) if (node.visits > 0) expect(searchValue(node)).toBeGreaterThan(-1.2001);
      expect(result.best!).toMatchObject({ stopReason: "completed", reward: expect.closeTo(-0.6, 12) });
      expect(result.episodes.some(({ stopReason }) => stopReason === "max_tokens")).toBe(true);
      const pairs = searchPairs(result, { threshold: 0.05 });
      expect(pairs.length).toBeGreaterThan(0);
      expect(pairs.every(({ chosen }) => chosen.stream.ids.at(-1) === template.endId)).toBe(true);
    }
  });

  it("episodes without a score do not count, and make no value NaN", async () => {
    const unscored: PathGameOptions = { letters: "ab", turns: 2, reward: (path) => (path === "ab" ? NaN : 0.1) };
    const { root, stats, episodes } = await run(unscored, { iterations: 40 });
    expect(stats.failures).toBeGreaterThan(0);
    expect(root.visits + stats.failures).toBe(stats.iterations);
    expect([...nodesOf(root)].map(searchValue).filter(Number.isNaN)).toEqual([]);
    expect(episodes.filter(({ reward }) => Number.isNaN(reward))).toEqual([]);
  });
});

describe("bounds", () => {
  const game: PathGameOptions = { letters: "ab", turns: 4 };

  it("tokens, turns and a signal end it, with what there is", async () => {
    const few = await run(game, { maxDrawnTokens: 60 });
    expect(few.stats).toMatchObject({ stop: "tokens" });
    expect(few.stats.drawnTokens).toBeGreaterThanOrEqual(60);
    expect(few.stats.drawnTokens).toBeLessThan(60 + 2 * (12 + 4));
    const shallow = await run(game, { maxTurns: 2 });
    expect(shallow.stats.maxDepth).toBe(2);
    expect(shallow.episodes.every(({ stopReason }) => stopReason === "max_turns")).toBe(true);
    const controller = new AbortController();
    let calls = 0;
    const onStep = (): void => void (++calls === 20 && controller.abort());
    const stopped = await run({ ...game, onStep }, { iterations: 10_000, signal: controller.signal });
    expect(stopped.stats.stop).toBe("aborted");
    expect(stopped.root.visits).toBeGreaterThan(0);
    expect(stopped.root.visits).toBeLessThan(10);
    expect(
      (await run(game, { maxTokens: 12 })).episodes.every((t) => t.stopReason === "context_overflow" && t.reward === 0),
    ).toBe(true);
  });

  it("an environment that throws or never answers costs its branch, not the search", async () => {
    const broken = await run({
      ...game,
      onStep: () => {
        throw new Error("broken");
      },
    });
    expect(broken.stats.stop).toBe("failed");
    expect([broken.root.visits, broken.best, broken.episodes.length]).toEqual([0, undefined, 0]);
    expect(searchPairs(broken)).toEqual([]);
    const half = await run({
      ...game,
      onStep: (path) => {
        if (path.startsWith("a")) throw new Error("broken");
      },
    });
    expect(half.stats.stop).toBe("iterations");
    expect(half.episodes.every(({ info }) => String(info["path"]).startsWith("b"))).toBe(true);
    const hanging = await run(
      { ...game, turns: 2, onStep: (path) => (path === "ab" ? new Promise<void>(() => {}) : undefined) },
      { timeout: 15, iterations: 20 },
    );
    expect(hanging.root.visits).toBeGreaterThan(10);
    expect([...nodesOf(hanging.root)].some(({ position }) => position?.stop === "timeout")).toBe(true);
  });

  it("says what is wrong", async () => {
    const start = await startEpisode(pathSpec(game), {}, 0, template);
    const fixed = { name: "fixed", reset: start.env.reset, step: start.env.step };
    await expect(treeSearch({ ...start, env: fixed }, settings(game))).rejects.toThrow(
      'the environment "fixed" cannot be cloned',
    );
    for (const [options, message] of [
      [{ candidates: 0 }, "candidates must be an integer ≥ 1, got 0"],
      [{ alpha: 0.5 }, "alpha 0.5 mixes in a critic, and there is none"],
      [{ exploration: -1 }, "exploration must be ≥ 0, got -1"],
      [{ maxTokens: 100 }, "maxTokens must be in [1, 64]"],
    ] as const) {
      await expect(treeSearch(start, settings(game, options))).rejects.toThrow(message);
    }
    await expect(treeSearches([], settings(game))).rejects.toThrow("expected at least one start, got none");
    const rank = rankCritic(async () => [0, 0.5]);
    await expect(rank({ task: "", history: start.stream, actions: ["a", "b"] })).rejects.toThrow(
      "expected the places 0 to 1, each once, got 0, 0.5",
    );
    let closed = 0;
    const late = {
      ...pathSpec(game),
      make: () =>
        Object.assign(new PathGame(game), { reset: () => new Promise<string>(() => {}), close: () => void closed++ }),
    };
    await expect(startEpisode(late, {}, 5, template, { timeout: 5 })).rejects.toThrow(
      "search: path did not begin an episode with seed 5 (timeout)",
    );
    expect(closed).toBe(1);
    const result = await treeSearch(start, settings(game));
    expect(() => searchPairs(result, { threshold: -1 })).toThrow("threshold must be ≥ 0, got -1");
  });
});

describe("pairs", () => {
  const game: PathGameOptions = { letters: "ab", turns: 2, reward: (path) => ({ ab: 1, aa: 0.4 })[path] ?? 0 };

  it("are siblings whose Q differ by more than the threshold; only the action that differs is trained", async () => {
    const result = await run(game, { iterations: 80 });
    const pairs = searchPairs(result, { threshold: 0.3 });
    const texts = pairs.map(({ chosen, rejected }) =>
      [chosen, rejected].map((t) => template.actionText(t.stream.ids.filter((_, k) => policyMask(t)[k]))),
    );
    expect(texts).toEqual([
      ["a", "b"],
      ["b", "a"],
    ]); // first a rather than b, then b rather than a: bb and ba are equal
    expect(pairs.map(({ depth }) => depth)).toEqual([0, 1]);
    expect(pairs[1]!.difference).toBeCloseTo(0.6, 12);
    for (const { chosen, rejected } of pairs) {
      const own = policyMask(chosen).indexOf(true);
      expect(policyMask(rejected).indexOf(true)).toBe(own);
      // One history, of which nothing counts; behind the action there is nothing.
      expect(chosen.stream.ids.slice(0, own)).toEqual(rejected.stream.ids.slice(0, own));
      expect(chosen.stream.roles.slice(0, own).some(isAgentToken)).toBe(false);
      expect(chosen.stream.targets.some(Boolean)).toBe(false);
      expect(policyMask(chosen).slice(own).every(Boolean)).toBe(true);
      expect(chosen.stream.ids.at(-1)).toBe(template.endId);
      for (const column of Object.values(chosen.stream)) expect(column.length).toBe(chosen.stream.ids.length);
      const rows = preferenceRows([{ chosen, rejected }]);
      expect(rows.map(({ wPolicy }) => [...wPolicy].findIndex((w) => w !== 0))).toEqual([own, own]);
    }
    expect(searchPairs(result, { threshold: 0.7 }).length).toBe(
      pairs.filter(({ difference }) => difference > 0.7).length,
    );
    expect(searchPairs(result, { threshold: 1 })).toEqual([]);
  });

  it("Q is mixed with the critic's score; best-worst is one pair for each point; few visits do not count", async () => {
    const three: PathGameOptions = { letters: "abc", turns: 1, reward: (path) => ({ a: 0, b: 0.5 })[path] ?? 1 };
    const backwards = rankCritic(async ({ actions }) =>
      actions.map((_, i) => i).toSorted((i, j) => actions[i]!.charCodeAt(0) - actions[j]!.charCodeAt(0)),
    );
    const result = await run(three, { iterations: 40, critic: backwards });
    const letter = (t: { stream: { ids: readonly number[] } }): string => template.actionText(t.stream.ids.slice(-2));
    const names = (options: Parameters<typeof searchPairs>[1]): string[] =>
      searchPairs(result, options).map(({ chosen, rejected }) => letter(chosen) + letter(rejected));
    expect(names({ alpha: 1 })).toEqual(["cb", "ca", "ba"]);
    expect(names({ alpha: 0 })).toEqual(["ab", "ac", "bc"]);
    expect(names({ alpha: 0.5 })).toEqual([]); // they contradict each other exactly
    expect(names({ alpha: 1, pairing: "best-worst" })).toEqual(["ca"]);
    expect(names({ alpha: 1, threshold: 0.5 })).toEqual(["ca"]); // more than, not as much as
    expect(names({ alpha: 1, minVisits: 1000 })).toEqual([]);
  });

  it("of a search that begins in the middle of an episode, the earlier actions are history", async () => {
    const start = await startEpisode(pathSpec(game), {}, 0, template);
    const stream = structuredClone(start.stream);
    template.appendAction(stream, 0, "a");
    const { observation } = await start.env.step("a");
    template.appendObservation(stream, 0, template.encodeObservation(observation, 9));
    const result = await treeSearch({ ...start, stream, turns: 1 }, settings(game));
    expect(start.env).toBeInstanceOf(PathGame);
    const [pair] = searchPairs(result);
    expect(pair!.chosen.stream.roles.filter(isAgentToken).length).toBe(2);
    expect(pair!.chosen.stream.turns.at(-1)).toBe(1);
    expect(pair!.difference).toBeCloseTo(0.6, 12);
  });
});
