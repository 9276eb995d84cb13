/** Self-play in detail: what each kind of step asks, pays, keeps and tells, with players that do as they are told. */
import { describe, expect, it } from "vitest";
import { Rng } from "../../engine/random.ts";
import { isHeldOut } from "../../environments/selection.ts";
import type { Riddle, RiddleKind } from "../../environments/riddle/selfPlay.ts";
import type { EpisodeRequest } from "../../rl/play/rollout.ts";
import { playScripted } from "../../data/demonstrations.ts";
import { grpo } from "../../rl/objective/grpo.ts";
import { absoluteZero } from "../../papers/selfplay/absoluteZero.ts";
import {
  checkSelfPlay,
  type KeptRiddle,
  SELF_PLAY,
  SelfPlayBuffer,
  type SelfPlayChoice,
} from "../../papers/selfplay/options.ts";
import { bleu, challengerReward, repetition } from "../../papers/selfplay/rewards.ts";
import { drawKept, isAnswered, type SelfPlayed, solve } from "../../papers/selfplay/rounds.ts";
import { majority, rZero } from "../../papers/selfplay/rZero.ts";
import type { Trajectory } from "../../rl/episode/stream.ts";
import type { EpisodeSource } from "../../rl/train/episodes.ts";
import { episode, toyTemplate } from "../support/rlToy.ts";

describe("BLEU", () => {
  it("counts a repeated word as often as both have it, and words whatever blanks are around them", () => {
    expect(bleu("a a a a", "a a a a")).toBe(1);
    expect(bleu("a b c d", " a b  c d ")).toBe(1);
  });

  it("a long hypothesis is not made longer", () => {
    // Precisions 2/3, 1/2, ε/1, ε/1.
    expect(bleu("a b", "a b c")).toBeCloseTo(((2 / 3) * (1 / 2) * 0.1 * 0.1) ** 0.25, 12);
  });
});

describe("clusters of questions", () => {
  it("may take all", () => expect(repetition(["a b c d", "a b c d", "a b c d"])).toEqual([1, 1, 1]));

  it("of equally near pairs the first is joined", () => {
    const [a, b, c] = ["a b c d x y", "a b c d e f", "w z c d e f"];
    expect(bleu(b, a)).toBeCloseTo(bleu(c, b), 12);
    expect(repetition([a, b, c])).toEqual([2 / 3, 2 / 3, 1 / 3]);
  });
});

it("without answers there is no majority, and no label", () => {
  expect(majority([])).toStrictEqual({ share: 0 });
  expect(majority([undefined])).toStrictEqual({ share: 0 });
});

it("an answer is what ended the episode and can be read", () => {
  const ended = (stopReason: Trajectory["stopReason"], form: string): boolean =>
    isAnswered(episode([["action", [1]]], { stopReason, info: { form } }));
  expect(ended("completed", "answer")).toBe(true);
  expect(ended("completed", "malformed")).toBe(false);
  expect(ended("max_turns", "answer")).toBe(false);
});

it("R-Zero may ask for two answers; its options are its own", () => {
  const checked = (choice: SelfPlayChoice): void =>
    checkSelfPlay(choice, { groups: 3, objective: { advantage: grpo() } });
  expect(() => checked({ name: "r-zero", answers: 2 })).not.toThrow();
  expect(() => checked({ name: "absolute-zero", answers: 2 })).toThrow("answers is about r-zero");
  expect(() => checked({ name: "absolute-zero" })).not.toThrow();
});

const riddleOf = (kind: RiddleKind, n: number): Riddle => ({ kind, program: `x+${n}`, inputs: [1], outputs: [n + 1] });
const bufferOf = (...kept: KeptRiddle[]): SelfPlayBuffer => {
  const buffer = new SelfPlayBuffer();
  buffer.add(kept);
  return buffer;
};

it("before anybody has proposed there is the identity", () => {
  const first = (kind: RiddleKind): Riddle => drawKept(bufferOf(), kind, new Rng(1)).riddle;
  expect(first("deduction")).toEqual({ kind: "deduction", program: "x", inputs: [5], outputs: [5] });
  expect(first("abduction")).toEqual({ kind: "abduction", program: "x", inputs: [5], outputs: [5] });
  const four = [5, 3, 8, 2];
  expect(first("induction")).toEqual({ kind: "induction", program: "x", inputs: four, outputs: four });
});

/** A player that writes what `say` returns, what it was asked call by call, and what came of it. */
interface Told {
  readonly options: SelfPlayed;
  readonly calls: EpisodeRequest[][];
  readonly tasks: () => string[];
}
interface Settings {
  readonly groups?: number;
  readonly groupSize?: number;
  /** The call behind which the run is stopped. */
  readonly stopAfter?: number;
  readonly masked?: (task: string) => boolean;
}
function told(say: (task: string, nth: number) => string, settings: Settings = {}): Told {
  const { groups = 3, groupSize = 4, stopAfter = Infinity, masked = () => false } = settings;
  const stop = new AbortController();
  const calls: EpisodeRequest[][] = [];
  const times = new Map<string, number>();
  const seen: string[] = [];
  const playEpisodes: SelfPlayed["playEpisodes"] = async (requests) => {
    calls.push([...requests]);
    const played = await Promise.all(
      requests.map(async ({ spec, options, seed, group }) => {
        const one = await playScripted(spec, options, seed, toyTemplate, (_env, turn, task) => {
          if (turn > 0) return "submit";
          const nth = times.get(task) ?? 0;
          times.set(task, nth + 1);
          seen.push(task);
          return say(task, nth);
        });
        return { ...one, group, masked: masked(one.task) };
      }),
    );
    if (calls.length >= stopAfter) stop.abort();
    return played;
  };
  const rollout = { signal: stop.signal };
  return { options: { playEpisodes, rollout, groups, groupSize, rng: new Rng(7) }, calls, tasks: () => seen };
}
type Step = NonNullable<Awaited<ReturnType<EpisodeSource["play"]>>>;

describe("what is asked", () => {
  const kinds = ["deduction", "abduction", "induction"] as const;
  const zero = async (player: Told, buffer: SelfPlayBuffer, step = 0): Promise<unknown> =>
    absoluteZero(player.options, SELF_PLAY.read({ name: "absolute-zero" }), buffer).play(step);

  it("a proposer is shown two tasks of its kind, and for an induction a program of any kind", async () => {
    const buffer = bufferOf(...kinds.map((kind, n) => ({ riddle: riddleOf(kind, n) })));
    const player = told(() => "no");
    for (let step = 0; step < 12; step++) await zero(player, buffer, step);
    const proposals = player.tasks().filter((task) => task.startsWith("Propose"));
    expect(new Set(proposals)).toEqual(
      new Set([
        "Propose deduction, not x+0 for 1, x+0 for 1",
        "Propose abduction, not x+1 for 1, x+1 for 1",
        "Propose inputs: p(x)=x+0",
        "Propose inputs: p(x)=x+1",
        "Propose inputs: p(x)=x+2",
      ]),
    );
  });

  it("attempts have streams of chance of their own, and groups behind those of the proposals", async () => {
    const player = told(() => "no");
    const riddles = [riddleOf("deduction", 1), riddleOf("deduction", 2), riddleOf("deduction", 3)];
    const attempts = await solve(player.options, riddles, 2, new Rng(3), { version: 0, first: 5 });
    expect(attempts.map((members) => members.map(({ group }) => group))).toEqual([
      [5, 5],
      [6, 6],
      [7, 7],
    ]);
    const draws = player.calls[0]!.map(({ rng }) => rng.bits());
    expect(draws).toEqual([0, 1, 2, 3, 4, 5].map((n) => new Rng(3).split("attempt").split(n).bits()));
  });
});

describe("a step of Absolute Zero", () => {
  const play = async (player: Told, more: Partial<SelfPlayChoice> = {}, buffer = bufferOf()): Promise<Step | null> =>
    absoluteZero(player.options, SELF_PLAY.read({ name: "absolute-zero", ...more }), buffer).play(0);
  const proposing = (task: string): string =>
    task.startsWith("Propose inputs") ? "propose 1 2 3 4" : "propose x+1 for 2";

  it("tries what was proposed, each kind in its place, and tells the shares", async () => {
    const player = told((task, nth) => {
      if (task.startsWith("Propose")) return proposing(task);
      return nth === 0 ? (task.startsWith("Say x") ? "say 2" : "say 3") : "what?";
    });
    const { trajectories, metrics } = (await play(player))!;
    expect(player.tasks().filter((task) => !task.startsWith("Propose"))).toEqual([
      ...Array.from({ length: 4 }, () => "Say p(2): p(x)=x+1"),
      ...Array.from({ length: 4 }, () => "Say x: p(x)=3 p(x)=x+1"),
      ...Array.from({ length: 4 }, () => "Write p(x): p(1)=1 p(2)=2"),
    ]);
    expect(trajectories.map(({ reward }) => reward)).toEqual([
      0.75, 0.75, -0.5, 1, -1, -1, -1, 1, -1, -1, -1, -1, -1, -1, -1,
    ]);
    expect(trajectories.some(({ masked }) => masked)).toBe(false);
    expect(metrics).toEqual({
      "self_play/valid": 1,
      "self_play/malformed": 0,
      "self_play/learnable": 2 / 3,
      "self_play/kept": 3,
      "self_play/success/deduction": 0.25,
      "self_play/success/abduction": 0.25,
      "self_play/success/induction": 0,
    });
  });

  it("a proposal that makes no task is paid nothing for the earlier task in its place", async () => {
    const player = told((task, nth) => {
      if (task.startsWith("Propose")) return task.startsWith("Propose inputs") ? "what?" : "propose x/0 for 1";
      return nth === 0 ? "say 5" : "say 6";
    });
    const { trajectories, metrics } = (await play(player))!;
    expect(trajectories.slice(0, 3).map(({ reward }) => reward)).toEqual([-0.5, -0.5, -1]);
    expect(metrics).toMatchObject({
      "self_play/valid": 0,
      "self_play/malformed": 1 / 3,
      "self_play/learnable": 0,
      "self_play/success/deduction": 0.25,
    });
  });

  it("attempts that all failed for reasons of the environment count as none that succeeded", async () => {
    const player = told(proposing, { masked: (task) => !task.startsWith("Propose") });
    const { trajectories, metrics } = (await play(player))!;
    expect(trajectories.slice(0, 3).map(({ reward }) => reward)).toEqual([-0.5, -0.5, -0.5]);
    expect(metrics["self_play/success/deduction"]).toBe(0);
  });

  it("with the generator the tasks are its own, in their kinds, and nothing is said of proposals", async () => {
    const player = told(() => "what?");
    const { metrics } = (await play(player, { proposer: "generator" }))!;
    expect(player.calls.length).toBe(1);
    const tasks = [0, 4, 8].map((at) => player.tasks()[at]!);
    expect(tasks[0]).toMatch(/^Say p\(/);
    expect(tasks[1]).toMatch(/^Say x: /);
    expect(tasks[2]).toMatch(/^Write p\(x\): /);
    expect(tasks).not.toContain("Say p(5): p(x)=x");
    expect(Object.keys(metrics)).toEqual(
      ["deduction", "abduction", "induction"].map((kind) => `self_play/success/${kind}`),
    );
  });

  it.each([1, 2])("stopped behind call %d it does nothing more", async (stopAfter) => {
    const player = told(proposing, { stopAfter });
    const buffer = bufferOf();
    expect(await play(player, {}, buffer)).toBeNull();
    expect(player.calls.length).toBe(stopAfter);
    expect(buffer.size).toBe(0);
  });
});

describe("a step of R-Zero's challenger", () => {
  const play = async (player: Told, more: Partial<SelfPlayChoice> = {}, buffer = bufferOf()): Promise<Step | null> => {
    const settled = SELF_PLAY.read({ name: "r-zero", challengerSteps: 1, solverSteps: 1, answers: 10, ...more });
    return rZero(player.options, settled, buffer).play(0);
  };
  /** Programs that are not held out; of the first attempts at the question of each as many are answered. */
  const programs = Array.from({ length: 90 }, (_, i) => `x+${i + 10}`).filter((program) => !isHeldOut(program));
  const [A, B, C, D] = programs as [string, string, string, string];
  const ANSWERED = new Map([A, B, C, D].map((program, i) => [program, [2, 3, 8, 9][i]!]));
  /** Proposes these, one after the other, and answers what `say` has for the program. */
  const asking = (proposals: readonly string[], say: (program: string) => string, settings?: Settings): Told => {
    let next = 0;
    return told((task, nth) => {
      if (task.startsWith("Propose")) return proposals[next++ % proposals.length]!;
      const program = task.split("=")[1]!;
      return nth < ANSWERED.get(program)! ? `say ${say(program)}` : "what?";
    }, settings);
  };
  const questions = [A, B, C, D].map((program) => `propose ${program} for 2`);
  const four = { groups: 2, groupSize: 2 };

  it("keeps questions whose majority has a share from 0.3 to 0.8, with its answer as their label", async () => {
    const buffer = bufferOf();
    const right = String(2 + Number(B.slice(2)));
    const player = asking(questions, (program) => (program === B ? right : "6"), four);
    const { trajectories, metrics } = (await play(player, {}, buffer))!;
    expect(buffer.of("deduction").map(({ riddle, label }) => [riddle.program, label])).toEqual([
      [B, right],
      [C, "6"],
    ]);
    const texts = [A, B, C, D].map((program) => `${program.replace("+", " + ")} for 2`);
    const repeated = repetition(texts);
    const shares = [0.2, 0.3, 0.8, 0.9];
    trajectories.forEach(({ reward, group }, i) => {
      expect(reward).toBeCloseTo(challengerReward(shares[i]!, repeated[i]!), 12);
      expect(group).toBe(0);
    });
    expect(metrics).toEqual({
      "self_play/valid": 1,
      "self_play/majority": expect.closeTo(0.55, 12) as number,
      "self_play/repetition": expect.closeTo(repeated.reduce((a, b) => a + b, 0) / 4, 12) as number,
      "self_play/label_accuracy": 0.25,
      "self_play/learnable": 0.5,
      "self_play/kept": 2,
    });
  });

  it("what is no question costs, what makes none is paid nothing, and of nothing nothing is told", async () => {
    const player = asking(["what?", "propose x/0 for 2"], () => "1", { groups: 1, groupSize: 2 });
    const { trajectories, metrics } = (await play(player))!;
    expect(trajectories.map(({ reward }) => reward)).toEqual([-1, 0]);
    expect(player.calls.length).toBe(1);
    expect(metrics).toEqual({ "self_play/valid": 0, "self_play/learnable": 0, "self_play/kept": 0 });
  });

  it("a step of one question", async () => {
    const player = asking([`propose ${B} for 2`], () => "7", { groups: 1, groupSize: 1 });
    const { trajectories } = (await play(player))!;
    expect(trajectories.map(({ info, reward }) => [info["form"], reward])).toEqual([["valid", 0]]);
  });

  it("one question is paid by its uncertainty; others do not count", async () => {
    const player = asking([`propose ${B} for 2`, "what?", "propose x/0 for 2"], () => "7", { groups: 1, groupSize: 3 });
    const { trajectories, metrics } = (await play(player, { answers: 12 }))!;
    expect(trajectories[0]!.reward).toBeCloseTo(challengerReward(0.25, 1), 12);
    expect(metrics["self_play/valid"]).toBeCloseTo(1 / 3, 12);
    expect(metrics["self_play/repetition"]).toBe(1);
    const half = asking([`propose ${B} for 2`, "what?", `propose ${C} for 9`], () => "7", { groups: 1, groupSize: 3 });
    const paid = (await play(half, { reward: "constant" }))!.trajectories.map(({ reward }) => reward);
    expect(paid).toEqual([0.5, -1, 0.5]);
  });

  it("with the generator nobody is paid: attempts are told, and not learnt from", async () => {
    const player = told(() => "say 1", four);
    const { trajectories, metrics } = (await play(player, { proposer: "generator" }))!;
    expect(player.calls.length).toBe(1);
    expect(player.tasks().every((task) => task.startsWith("Say p("))).toBe(true);
    expect(trajectories.length).toBe(40);
    expect(trajectories.every(({ masked }) => masked)).toBe(true);
    expect(new Set(trajectories.map(({ group }) => group))).toEqual(new Set([0, 1, 2, 3]));
    expect("self_play/valid" in metrics).toBe(false);
    expect(metrics["self_play/majority"]).toBe(1);
  });

  it.each([1, 2])("stopped behind call %d it does nothing more", async (stopAfter) => {
    const player = asking(questions, () => "1", { ...four, stopAfter });
    const buffer = bufferOf();
    expect(await play(player, {}, buffer)).toBeNull();
    expect(player.calls.length).toBe(stopAfter);
    expect(buffer.size).toBe(0);
  });
});

describe("a step of R-Zero's solver", () => {
  const settled = SELF_PLAY.read({ name: "r-zero", challengerSteps: 1, solverSteps: 1 });
  const ANSWERS = ["say 5", "say 4", "what?", "what?"];

  it("pays the label, which is the machine's for the identity alone, and a little for what can be read", async () => {
    const player = told((_task, nth) => ANSWERS[nth % 4]!, { groups: 2 });
    const { trajectories, metrics } = (await rZero(player.options, settled, bufferOf()).play(1))!;
    expect(trajectories.map(({ reward }) => reward)).toEqual([1, 0.1, 0, 0, 1, 0.1, 0, 0]);
    expect(trajectories.map(({ group }) => group)).toEqual([0, 0, 0, 0, 1, 1, 1, 1]);
    expect(metrics).toEqual({ "self_play/success/deduction": 0.25, "self_play/kept": 0 });
  });

  it("pays the kept label, right or wrong, and tells how many are right", async () => {
    const player = told((_task, nth) => ANSWERS[nth % 4]!, { groups: 1 });
    const buffer = bufferOf({ riddle: riddleOf("deduction", 4), label: "4" }); // 1 + 4 is 5
    const { trajectories, metrics } = (await rZero(player.options, settled, buffer).play(1))!;
    expect(trajectories.map(({ reward }) => reward)).toEqual([0.1, 1, 0, 0]);
    expect(metrics).toEqual({ "self_play/success/deduction": 0.25, "self_play/kept": 1 });
  });

  it("stopped, it has no episodes", async () => {
    const player = told(() => "say 5", { stopAfter: 1 });
    expect(await rZero(player.options, settled, bufferOf()).play(1)).toBeNull();
  });
});

it("the options that are left out", () => {
  expect(SELF_PLAY.read({ name: "r-zero" })).toEqual({
    name: "r-zero",
    proposer: "model",
    reward: "learnability",
    capacity: 256,
    answers: 10,
    challengerSteps: 6,
    solverSteps: 20,
  });
});

it("a full kind drops its own oldest task, and no other kind's; null is no task", () => {
  const buffer = new SelfPlayBuffer({ capacity: 1 });
  buffer.add([
    { riddle: riddleOf("abduction", 1) },
    { riddle: riddleOf("deduction", 1) },
    { riddle: riddleOf("deduction", 2) },
  ]);
  expect(buffer.of("abduction").length).toBe(1);
  expect(buffer.of("deduction").map(({ riddle }) => riddle.program)).toEqual(["x+2"]);
  expect(() => buffer.restore([null])).toThrow("expected a list of riddles in the checkpoint");
});
