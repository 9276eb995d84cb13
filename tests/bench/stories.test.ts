/** The parts of `npm run stories`: its judge, its world, its control, its report, and runs of two steps. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Common, runArm, type RunRecord, shuffledGrpo, START } from "../../bench/stories/arms.ts";
import { reportOf } from "../../bench/stories.ts";
import {
  disposeModel,
  judge,
  perplexity,
  sharedSentences,
  startModel,
  story,
  storyTemplate,
  toldIn,
} from "../../bench/stories/tell.ts";
import { type Device, device, Rng } from "../../engine/index.ts";
import { demonstrate } from "../../data/index.ts";
import { rolloutsOf, type Trajectory } from "../../rl/index.ts";
import { BOS, STORY, tokenizer } from "../support/stories.ts";

const GOOD = " The cat ran to mom. Mom gave it some milk. They were happy.";
const told = (text: string, ended = true): { word: string; text: string; ended: boolean } => ({
  word: "cat",
  text,
  ended,
});

describe("a story about a word", () => {
  it("is judged by four rules, each worth a quarter", () => {
    expect(judge(told(GOOD))).toMatchObject({ reward: 1, parts: { again: 1, ends: 1, whole: 1, fresh: 1 } });
    const failing = {
      again: told(GOOD.replace("cat", "catfish")),
      ends: told(GOOD, false),
      whole: told(" The cat ran to mom. Mom gave it milk."),
      fresh: told(`${GOOD} Mom gave it some tea.`),
    };
    for (const [name, one] of Object.entries(failing)) {
      const { reward, parts } = judge(one);
      expect([name, reward, parts[name]]).toEqual([name, 0.75, 0]);
    }
    expect(judge(told(GOOD.slice(0, -1))).parts["ends"]).toBe(0); // in mid-sentence
    expect(judge(told("", false))).toMatchObject({ reward: 0.25, parts: { fresh: 1 } });
  });

  it("is its own, or one that was learnt by heart", () => {
    expect(sharedSentences([told(GOOD), { ...told(GOOD.replace("cat", "dog")), word: "dog" }])).toBe(1);
    expect(sharedSentences([told(GOOD), told(" It was a big day.")])).toBe(0);
    expect(sharedSentences([told("")])).toBe(0);
  });

  it("asks for other words when held out, and is read back from the episode", async () => {
    const template = storyTemplate();
    const wordsOf = async (split: "train" | "heldout"): Promise<Set<string>> => {
      const words = new Set<string>();
      for (let seed = 0; seed < 40; seed++) words.add(/(\w+)\.$/.exec(await story.make({ split }).reset(seed))![1]!);
      return words;
    };
    const [train, heldout] = [await wordsOf("train"), await wordsOf("heldout")];
    expect([train.size, heldout.size]).toEqual([18, 18]);
    expect([...train].filter((word) => heldout.has(word))).toEqual([]);
    const episode = await demonstrate(story, { split: "heldout" }, 0, template);
    const text = "Once upon a time, there was a little dog. It was happy. It ran home. It slept.\n";
    expect(tokenizer.decode(episode.stream.ids, { specials: "skip" }).startsWith(text.slice(0, 41))).toBe(true);
    expect(toldIn(episode, template)).toEqual({
      word: "dog",
      text: "It was happy. It ran home. It slept.",
      ended: true,
    });
  });
});

it("the control gives every reward of a group away, within the group", async () => {
  const one = await demonstrate(story, {}, 0, storyTemplate());
  const episodes = Array.from({ length: 12 }, (_, i): Trajectory => ({ ...one, group: i % 2, reward: i }));
  const advantageOf = (perToken: readonly Float64Array[]): number[] => {
    const tokens = rolloutsOf(episodes).map(({ tokens: [first] }) => first!.t);
    return perToken.map((row, i) => row[tokens[i]!]!);
  };
  const control = shuffledGrpo(new Rng(0));
  const [first, second] = [control.estimate(episodes), control.estimate(episodes)].map((a) => advantageOf(a.perToken));
  expect(first).not.toEqual(second);
  for (const group of [0, 1]) {
    const own = (all: readonly number[]): number[] => all.filter((_, i) => i % 2 === group);
    const sorted = (all: readonly number[]): number[] => own(all).toSorted((a, b) => a - b);
    expect(own(first!)).not.toEqual(sorted(first!));
    expect(sorted(first!)).toEqual(sorted(second!));
  }
});

describe("runs", () => {
  let on: Device;
  let common: Common;
  const tiny = { steps: 2, groups: 1, groupSize: 4, times: 1 };
  beforeAll(async () => {
    on = await device("wasm");
    const text = [[BOS, ...tokenizer.encode(STORY)]]; // drawing the program's own texts takes a second
    common = { device: on, start: startModel(on), texts: { own: text, byHand: text } };
  });
  afterAll(() => {
    disposeModel(common.start);
    on.dispose();
  });

  it("of two steps: what they move, what they leave, and a report of it", async () => {
    const known = await perplexity(common.start, common.texts.own);
    expect(known).toBeLessThan(5);
    const runs: RunRecord[] = [await runArm(common, START, 0, tiny)];
    const before = on.backend.stats().liveBytes; // tables of positions are made once and kept
    for (const arm of ["GRPO, all weights", "GRPO, LoRA"]) runs.push(await runArm(common, arm, 0, tiny));
    const [start, full, lora] = runs.map(({ figures }) => figures);
    expect(start).toMatchObject({ "KL to start": 0, "ppl, own stories": known });
    for (const figures of [full!, lora!]) {
      expect(figures["KL to start"]).toBeGreaterThan(0);
      expect(figures["ppl, own stories"]).not.toBe(known);
      expect(figures["reward"]).toBeCloseTo(
        (figures["again"]! + figures["ends"]! + figures["whole"]! + figures["fresh"]!) / 4,
        12,
      );
    }
    expect(runs.map(({ curve }) => curve.length)).toEqual([0, 2, 2]);
    // The same tasks with the same random numbers: the samples of all arms stand side by side.
    expect(runs[1]!.samples.map(({ task }) => task)).toEqual(runs[0]!.samples.map(({ task }) => task));
    // Neither the reference nor the adapter's base was trained, and all else was given back.
    expect(await perplexity(common.start, common.texts.own)).toBe(known);
    expect(on.backend.stats().liveBytes).toBe(before);

    const other = runs.map((run) => ({ ...run, seed: 1 }));
    const text = reportOf([...runs, ...other]);
    expect(text).toContain("2 seeds, 2 steps of 1 × 4 episodes");
    expect(text).toMatch(/\| after training \| before \| GRPO, all weights \| GRPO, LoRA \|/);
    expect(text).toContain(`- before: ${runs[0]!.samples[0]!.text.trim().split("\n")[0]!.trim()}`);
  }, 120_000);
});
