/** Self-play: what proposals are worth, the buffer, and a step of each kind with scripted players. */
import { describe, expect, it } from "vitest";
import { Rng } from "../../engine/random.ts";
import { isHeldOut } from "../../environments/selection.ts";
import type { Riddle } from "../../environments/riddle/selfPlay.ts";
import { trrPlusPlus } from "../../methods/advantages/group.ts";
import { playScripted } from "../../data/demonstrations.ts";
import type { PlayEpisodes } from "../../rl/tasks/play.ts";
import { absoluteZero } from "../../papers/selfplay/absoluteZero.ts";
import { checkSelfPlay, SELF_PLAY, SelfPlayBuffer } from "../../papers/selfplay/options.ts";
import {
  bleu,
  challengerReward,
  composite,
  learnability,
  repetition,
  uncertainty,
} from "../../papers/selfplay/rewards.ts";
import { majority, rZero } from "../../papers/selfplay/rZero.ts";
import type { Trajectory } from "../../rl/episode/stream.ts";
import { episode, toyTemplate } from "../support/rlToy.ts";

describe("Absolute Zero's rewards", () => {
  it.each([
    [0, 0],
    [0.25, 0.75],
    [0.875, 0.125],
    [1, 0],
  ])("a success rate of %d is worth %d", (s, r) => expect(learnability(s)).toBe(r));

  it.each([
    [true, 0.75, 0.75],
    [true, 0, -0.5],
    [false, 0, -1],
    [false, 1, -1],
  ])("well formed: %s, %d: %d", (isWellFormed, r, worth) => expect(composite(isWellFormed, r)).toBe(worth));
});

describe("R-Zero's rewards", () => {
  it("p = .6 and 2 of 4 questions alike: .3", () => {
    const [rep] = repetition(["what is 2 + 3 now", "what is 2 + 3 now", "name all even primes", "count to ten"]);
    expect(rep).toBe(0.5);
    expect(challengerReward(0.6, rep!)).toBeCloseTo(0.3, 12);
    expect(challengerReward(0.6, 0.9)).toBe(0); // not below
  });

  it.each([
    [0, 0],
    [0.25, 0.5],
    [0.5, 1],
    [0.9, 0.2],
    [1, 0],
  ])("uncertainty of %d is %d", (p, worth) => expect(uncertainty(p)).toBeCloseTo(worth, 12));

  // Worked out by hand from the definition: e^(mean of log precisions), times e^(1 − r/c) for a short hypothesis.
  it.each([
    ["a b c d", "a b c d", 1],
    ["a b c d", "x y z w", 0],
    ["a b c d", "", 0],
    ["a b c d e", "a b c d x", ((4 / 5) * (3 / 4) * (2 / 3) * (1 / 2)) ** 0.25],
    ["a b c d", "a b", Math.exp(1 - 4 / 2) * (1 * 1 * 0.1 * 0.1) ** 0.25], // of no triple 0.1 counts, of one
    ["a b", "a a a", ((1 / 3) * (0.1 / 2) * (0.1 / 1) * (0.1 / 1)) ** 0.25], // a word counts as often as the other has
  ])("BLEU of %j, %j", (reference, hypothesis, value) => {
    expect(bleu(reference, hypothesis)).toBeCloseTo(value, 12);
  });

  it("average linkage: a text joins a cluster if it is near on average, not if it is near to one of them", () => {
    const [a, b, c] = ["a b c d e f", "a b c d e g", "a b c d h g"];
    expect(1 - bleu(b, a)).toBeLessThan(0.5);
    expect(1 - bleu(c, b)).toBeLessThan(0.5);
    expect((1 - bleu(c, a) + 1 - bleu(c, b)) / 2).toBeGreaterThan(0.4);
    expect(repetition([a, "p q r s t u"])).toEqual([0.5, 0.5]);
    expect(repetition([a, a, b, "p q r s t u"])).toEqual([0.75, 0.75, 0.75, 0.25]);
    expect(repetition([])).toEqual([]);
  });

  it("the label is the most frequent answer; what cannot be read counts against it", () => {
    expect(majority(["7", "8", "7", undefined])).toEqual({ label: "7", share: 0.5 });
    expect(majority(["8", "7"])).toEqual({ label: "8", share: 0.5 });
    expect(majority([undefined])).toEqual({ share: 0 });
  });
});

describe("trr++", () => {
  it("(R − μ)/σ within a family of tasks, whatever the groups", () => {
    const of = (family: string, reward: number, group: number, masked = false): Trajectory =>
      episode(
        [
          ["prompt", [1]],
          ["action", [2]],
        ],
        { reward, group, masked, info: { family } },
      );
    const rows = [of("a", 1, 0), of("a", -1, 1), of("b", 5, 0), of("b", 5, 1), of("c", 3, 2), of("a", 9, 3, true)];
    const { perToken } = trrPlusPlus().estimate(rows);
    expect(perToken.map(([, x]) => x)).toEqual([
      expect.closeTo(Math.SQRT1_2, 6),
      expect.closeTo(-Math.SQRT1_2, 6),
      0,
      0,
      0,
      0,
    ]);
  });
});

const riddle = (n: number): Riddle => ({ kind: "deduction", program: `x+${n}`, inputs: [1], outputs: [n + 1] });

describe("the buffer", () => {
  it("keeps each task once, drops the oldest of a kind, and comes back from JSON", () => {
    const buffer = new SelfPlayBuffer({ capacity: 2 });
    buffer.add([{ riddle: riddle(1) }, { riddle: riddle(2) }, { riddle: riddle(1) }]);
    expect(buffer.of("deduction").map((kept) => kept.riddle.program)).toEqual(["x+2", "x+1"]);
    buffer.add([{ riddle: riddle(3), label: "9" }, { riddle: { ...riddle(1), kind: "abduction" } }]);
    expect(buffer.of("deduction").map((kept) => kept.riddle.program)).toEqual(["x+1", "x+3"]);
    const copy = new SelfPlayBuffer({ capacity: 2 });
    copy.restore(JSON.parse(JSON.stringify(buffer.state())));
    expect(copy.state()).toEqual(buffer.state());
    expect(copy.size).toBe(3);
    expect(() => copy.restore([{}])).toThrow("selfPlay: expected a list of riddles in the checkpoint");
  });
});

/** Plays every episode with what `say` makes of its task. */
const scripted =
  (say: (task: string, rng: Rng) => string): PlayEpisodes =>
  (requests) =>
    Promise.all(
      requests.map(async ({ spec, options, seed, group, rng }) => {
        const played = await playScripted(spec, options, seed, toyTemplate, (_env, _turn, task) => say(task, rng));
        return { ...played, group };
      }),
    );

const run = (playEpisodes: PlayEpisodes, groups = 3, groupSize = 4): Parameters<typeof absoluteZero>[0] => ({
  playEpisodes,
  rollout: {},
  groups,
  groupSize,
  rng: new Rng(7),
});

describe("a step of Absolute Zero", () => {
  /** Proposes x+1 for 2, and inputs; solves a deduction in half of the attempts, an abduction always, no induction. */
  const player = scripted((task, rng) => {
    if (task.startsWith("Propose inputs")) return "propose 1 2 3 4";
    if (task.startsWith("Propose")) return "propose x+1 for 2";
    if (task.startsWith("Say x")) return "say 2";
    if (task.startsWith("Say")) return rng.bits() % 2 === 0 ? "say 3" : "say 4";
    return "submit";
  });

  it("pays the proposer what the solver does not know yet, and the solver for being right", async () => {
    const buffer = new SelfPlayBuffer();
    const { trajectories, metrics } = (await absoluteZero(
      run(player),
      SELF_PLAY.read({ name: "absolute-zero" }),
      buffer,
    ).play(3))!;
    const [deduction, abduction, induction] = trajectories;
    expect(trajectories).toHaveLength(3 + 12);
    const rate = metrics["self_play/success/deduction"]!;
    expect(deduction!.reward).toBe(composite(true, learnability(rate)));
    expect(abduction!.reward).toBe(-0.5); // all solve it
    expect(induction!.reward).toBe(-0.5); // nobody does
    const own = trajectories.slice(3);
    expect(own.slice(0, 4).map((t) => t.reward)).toEqual(own.slice(0, 4).map((t) => (t.info["success"] ? 1 : -0.5)));
    expect(own.slice(4, 8).map((t) => t.reward)).toEqual([1, 1, 1, 1]);
    expect(own.slice(8).map((t) => t.reward)).toEqual([-1, -1, -1, -1]); // no program was submitted
    expect(new Set(trajectories.map((t) => t.info["family"])).size).toBe(6);
    expect(new Set(own.map((t) => t.group)).size).toBe(3);
    expect(metrics).toMatchObject({ "self_play/valid": 1, "self_play/malformed": 0, "self_play/kept": 3 });
    expect(buffer.of("induction")[0]!.riddle.outputs).toEqual([1, 2, 3, 4]); // the program is the identity, as yet
  });

  it("a proposal that makes no task costs, and an earlier task takes its place", async () => {
    const buffer = new SelfPlayBuffer();
    buffer.add([{ riddle: riddle(4) }]);
    const asked: string[] = [];
    const none = scripted((task) => {
      if (!task.startsWith("Propose")) asked.push(task);
      return task.startsWith("Propose deduction") ? "propose x/0 for 1" : "what?";
    });
    const { trajectories, metrics } = (await absoluteZero(
      run(none),
      SELF_PLAY.read({ name: "absolute-zero" }),
      buffer,
    ).play(0))!;
    expect(trajectories.slice(0, 3).map((t) => t.reward)).toEqual([-0.5, -1, -1]);
    expect(asked).toContain("Say p(1): p(x)=x+4");
    expect(asked).toContain("Say x: p(x)=5 p(x)=x"); // nothing was proposed of this kind: the identity
    expect(metrics).toMatchObject({ "self_play/valid": 0, "self_play/kept": 1 });
  });

  it("a held-out program is neither kept nor learnt from", async () => {
    const program = Array.from({ length: 50 }, (_, i) => `x+${i}`).find(isHeldOut)!;
    const held = scripted((task) => (task.startsWith("Propose") ? `propose ${program} for 1` : "say 1"));
    const buffer = new SelfPlayBuffer();
    const { trajectories } = (await absoluteZero(run(held), SELF_PLAY.read({ name: "absolute-zero" }), buffer).play(
      0,
    ))!;
    expect(trajectories.slice(0, 2).map((t) => t.masked)).toEqual([true, true]);
    expect(buffer.of("deduction")).toEqual([]);
  });

  it("controls: a constant, chance, and the generator in the proposer's place", async () => {
    const settings = (more: object) => SELF_PLAY.read({ name: "absolute-zero", ...more });
    const play = async (more: object) =>
      (await absoluteZero(run(player), settings(more), new SelfPlayBuffer()).play(1))!.trajectories;
    expect((await play({ reward: "constant" })).slice(0, 3).map((t) => t.reward)).toEqual([0.5, 0.5, 0.5]);
    const chance = (await play({ reward: "random" })).slice(0, 3).map((t) => t.reward);
    expect(chance).toEqual((await play({ reward: "random" })).slice(0, 3).map((t) => t.reward));
    expect(new Set(chance).size).toBe(3);
    const drawn = await play({ proposer: "generator" });
    expect(drawn).toHaveLength(12);
    expect(drawn.every((t) => !String(t.info["family"]).startsWith("propose"))).toBe(true);
  });
});

describe("R-Zero's phases", () => {
  /** Asks one of two questions, and answers 3 in about half of the attempts. */
  const player = scripted((task, rng) => {
    if (task.startsWith("Propose")) return ["propose x+1 for 2", "propose x.sum for [1 2 3]", "no"][rng.bits() % 3]!;
    return rng.bits() % 2 === 0 ? "say 3" : rng.bits() % 3 === 0 ? "say 4" : "say 5";
  });
  const settled = SELF_PLAY.read({ name: "r-zero", challengerSteps: 1, solverSteps: 2, answers: 6 });

  it("the challenger is paid for uncertainty; questions get the majority's label, and it is learnt", async () => {
    const buffer = new SelfPlayBuffer();
    const source = rZero(run(player), settled, buffer);
    const asked = (await source.play(0))!;
    expect(asked.trajectories).toHaveLength(12);
    expect(new Set(asked.trajectories.map((t) => t.group))).toEqual(new Set([0]));
    for (const { reward, info } of asked.trajectories) {
      if (info["form"] === "valid") expect(reward).toBeGreaterThanOrEqual(0);
      else expect(reward).toBe(-1);
    }
    expect(asked.metrics["self_play/kept"]).toBeGreaterThan(0);
    const labels = buffer.of("deduction").map((kept) => kept.label);
    expect(labels.every((label) => label !== undefined)).toBe(true);
    const answered = (await source.play(1))!;
    expect(answered.trajectories).toHaveLength(12);
    for (const t of answered.trajectories) {
      const kept = buffer.of("deduction").filter((one) => t.task.includes(`p(x)=${one.riddle.program}`));
      const isLabel = kept.some((one) => one.label === t.info["answer"]);
      expect(t.reward).toBeCloseTo(isLabel ? 1 : 0.1, 12);
    }
    expect((await source.play(3))!.trajectories[0]!.info["family"]).toBe("propose-deduction"); // the phases begin anew
  });
});

describe("refused in one line", () => {
  const objective = { advantage: trrPlusPlus() };
  it.each([
    [
      { name: "absolute-zero" },
      4,
      "selfPlay: absolute-zero has three kinds of tasks; groups must be a multiple of 3, got 4",
    ],
    [{ name: "absolute-zero", answers: 5 }, 3, "selfPlay: answers is about r-zero, and absolute-zero has no phases"],
    [{ name: "zero" }, 3, 'selfPlay: name must be "absolute-zero" or "r-zero", got "zero"'],
  ])("%j", (choice, groups, message) => {
    expect(() => checkSelfPlay(choice as never, { groups, objective })).toThrow(message);
  });

  it("a baseline that plays a task again", () => {
    const greedy = { advantage: { ...trrPlusPlus(), greedyBaseline: true } };
    expect(() => checkSelfPlay({ name: "r-zero" }, { groups: 4, objective: greedy })).toThrow("has no such baseline");
  });
});
