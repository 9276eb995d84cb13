/** Inverse dynamics: what is seen, the labelling world, episodes with labels. Training: inverse.long.test.ts. */
import { describe, expect, it } from "vitest";
import { web } from "../../environments/web/index.ts";
import { byteTokenizer } from "../../nn/tokenizer.ts";
import { playScripted } from "../../data/demonstrations.ts";
import { actionsOf, inverseEpisode, labelAccuracy, labellingWorld, relabelled, seenOf } from "../../data/inverse.ts";
import type { Trajectory } from "../../rl/episode/stream.ts";
import { SPECIAL_TOKENS, Template } from "../../rl/episode/template.ts";
import { episode as toyEpisode, toySpec, toyTemplate } from "../support/rlToy.ts";

const template = new Template(byteTokenizer({ specials: SPECIAL_TOKENS }));

/** How many equal elements in a row begin here. */
function lengthAt(all: readonly unknown[], from: number): number {
  const end = all.findIndex((one, i) => i > from && one !== all[from]);
  return (end < 0 ? all.length : end) - from;
}

/** "Enter feleki as name" on a page with two fields and a button. */
function episode(...actions: readonly string[]): Promise<Trajectory> {
  const options = { families: ["enter"] };
  return playScripted(web, options, 0, template, (_env, turn) => actions[turn]!, { maxTurns: actions.length });
}

const SOLVED = ['type 1 "feleki"', "click 3"];

it("sees the answers, and a test sees the actions", async () => {
  const solved = await episode(...SOLVED);
  expect(seenOf(solved, template)).toEqual({ task: solved.task, answers: ["<input 1 name=feleki>", "<p sent>"] });
  expect(actionsOf(solved, template)).toEqual(SOLVED);
});

it("tells turns apart that stand side by side, without tags between them", () => {
  const bare = toyEpisode([
    ["prompt", [1]],
    ["action", [2]],
    ["observation", [3]],
    ["action", [4]],
    ["observation", [5]],
  ]);
  expect(seenOf(bare, toyTemplate).answers).toEqual(["d", "f"]);
  expect(actionsOf(bare, toyTemplate)).toEqual(["c", "e"]);
});

it("the inverse model reads the episode backwards, and then writes each action behind the answer to it", async () => {
  const { stream, task } = inverseEpisode(await episode(...SOLVED), template);
  const first = stream.roles.indexOf("action");
  const before = template.tokenizer.decode(stream.ids.slice(0, first));
  expect(before.indexOf(`${task}\n~\n<p sent>\n~\n<input 1 name=feleki>`)).toBeGreaterThan(-1);
  expect(before).not.toContain("click 3");
  const behind = template.tokenizer.decode(stream.ids.slice(first));
  expect(behind).toMatch(/^type 1 "feleki".*<p sent>.*click 3/s);
});

it("the inverse model's episode has the form of any other, from the first action to its end", async () => {
  const solved = await episode(...SOLVED);
  const marks = ({ roles }: Trajectory["stream"]): number[] => {
    const tail = roles.slice(roles.indexOf("action"));
    return tail.flatMap((role, t) => (role === "scaffold" && tail[t - 1] !== "scaffold" ? [lengthAt(tail, t)] : []));
  };
  // Behind the first action, behind its answer with the mark of the next action, and around the last answer.
  expect(marks(solved.stream)).toEqual([1, 2, 1, 1]);
  // There the last answer, which would be what was seen before everything, is empty.
  expect(marks(inverseEpisode(solved, template).stream)).toEqual([1, 2, 1 + 1]);
});

it("labelling is an episode that takes any action and tells what was seen", async () => {
  const solved = await episode(...SOLVED);
  const env = labellingWorld([seenOf(await episode("back", "back"), template), seenOf(solved, template)]).make();
  expect(await env.reset(1)).toBe(`${solved.task}\n~\n<p sent>\n~\n<input 1 name=feleki>`);
  expect(await env.step("anything")).toMatchObject({ observation: "<p sent>", reward: 0, done: false });
  expect(await env.step("anything")).toMatchObject({ observation: "", done: true });
});

describe("an episode with labels", () => {
  it("is the episode itself if they are right", async () => {
    const solved = await episode(...SOLVED);
    const again = relabelled(solved, SOLVED, template);
    expect(again.stream.ids).toEqual(solved.stream.ids);
    expect(again.stream.roles).toEqual(solved.stream.roles);
    expect(again.stream.targets).toEqual(solved.stream.targets);
  });

  it("has labels in the place of actions, and the answers that were seen", async () => {
    const again = relabelled(await episode(...SOLVED), ["click 1", "back"], template);
    expect(actionsOf(again, template)).toEqual(["click 1", "back"]);
    expect(seenOf(again, template).answers).toEqual(["<input 1 name=feleki>", "<p sent>"]);
  });

  it("leaves out turns in which nothing happened, but not the last", async () => {
    const idle = await episode("click 9", "click 8", ...SOLVED, "click 1");
    expect(actionsOf(relabelled(idle, ["a", "b", "c", "d"], template), template)).toEqual(["a", "c", "d"]);
    const stuck = await episode("click 9", "click 8");
    expect(actionsOf(relabelled(stuck, ["a", "b"], template), template)).toEqual(["a", "b"]);
  });
});

it("an empty answer is no answer that says what the one before it said", async () => {
  const answers = ["a", "a", "", "", "b"];
  const world = toySpec((_, turn) => ({ observation: answers[turn]!, reward: 0, done: turn === 4, info: {} }));
  const played = await playScripted(world, {}, 0, toyTemplate, () => "c");
  const again = relabelled(played, ["a", "b", "c", "d", "e"], toyTemplate);
  expect(actionsOf(again, toyTemplate)).toEqual(["a", "c", "d", "e"]);
});

it("counts labels that are right to the letter", () => {
  expect(labelAccuracy([["a", "b"], ["c"]], [["a", "x"], ["c"]])).toBeCloseTo(2 / 3, 12);
  expect(labelAccuracy([], [])).toBeNaN();
});
