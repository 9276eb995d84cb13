/** Questions about the last step: what is answered belongs together, and is the same after a rewind. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { device as makeDevice, type Device } from "../../engine/index.ts";
import type { Observer } from "../../run/observer.ts";
import { POLICY_LOSSES } from "../../methods/losses/index.ts";
import { presetFor } from "../../run/presets.ts";
import { startOptions } from "../../run/startOptions.ts";
import { answer } from "../../site/answers.ts";
import type { Answers } from "../../site/questions.ts";
import type { WarmStart } from "../../run/warmStart.ts";
import { Session, warmUp } from "../../site/session.ts";

// Too early to be right, but completions of different length are rewarded differently, so that advantages are not 0.
const set = ["reward.overlong=1", "sft.steps=40", "rl.groups=2", "rl.groupSize=8"];
const words = { quick: true, steps: "6", method: "grpo_token+echo+return_prediction", set };
const preset = { ...presetFor(startOptions(words)), checkpointEvery: 3 };
const quiet: Observer = { phase() {}, update() {}, evaluation() {}, transcript() {}, note() {} };

let on: Device;
let warm: WarmStart;
beforeAll(async () => {
  on = await makeDevice("wasm", { threads: 1 });
  warm = (await warmUp(preset, on, quiet, new AbortController().signal))!;
}, 120_000);
afterAll(() => on.dispose());

const stepOf = (session: Session): Promise<Answers["step"]> =>
  answer({ about: "step" }, session, preset) as Promise<Answers["step"]>;
const episodeOf = (session: Session, episode: number): Promise<Answers["episode"]> =>
  answer({ about: "episode", episode }, session, preset) as Promise<Answers["episode"]>;
const tokenOf = (session: Session, episode: number, token: number): Promise<Answers["token"]> =>
  answer({ about: "token", episode, token }, session, preset) as Promise<Answers["token"]>;

/** All that is said of a step, but times. */
async function everything(session: Session): Promise<unknown> {
  const { metrics, ...step } = (await stepOf(session))!;
  const { step_time: _time, tokens_per_second: _rate, ...same } = metrics;
  return [same, step, await episodeOf(session, 1), await tokenOf(session, 1, 20)];
}

test("a step, an episode and a token are one: terms, weights, logits, attention", async () => {
  const session = new Session(preset, warm, on, quiet);
  expect(await stepOf(session)).toBe(null); // nothing has been played
  await expect(episodeOf(session, 0)).rejects.toThrow("a question about episode: no step is held");
  let step: Answers["step"] = null;
  for (let n = 1; n <= 6; n++) {
    await session.playTo(n);
    step = await stepOf(session);
    expect(step!.step).toBe(n);
    if (step!.episodes.some(({ advantage }) => Math.abs(advantage) > 0.1)) break;
  }
  const { episodes, metrics, terms: views } = step!;
  expect(episodes).toHaveLength(16);
  expect(Object.keys(views)).toEqual(["policy", "world", "return_prediction"]);
  expect(views["policy"]).toMatchObject({ title: "policy", moves: "log p", source: POLICY_LOSSES["ppo"]!.source });
  expect(structuredClone(views)).toEqual(views); // as it comes to the page
  const at = episodes.findIndex(({ advantage }) => Math.abs(advantage) > 0.1);
  expect(at).toBeGreaterThanOrEqual(0);

  let loss = 0;
  for (const [i] of episodes.entries()) {
    const { terms } = await episodeOf(session, i);
    loss += terms.flat().reduce((sum, { weight, value }) => sum + weight * value, 0);
  }
  expect(loss).toBeCloseTo(metrics["loss"]!, 5);

  const { tokens, terms } = await episodeOf(session, at);
  /** The number that a term's formula has for a symbol. */
  const numberOf = (t: number, name: string, symbol: string): number => {
    const at = views[name]!.formula.inputs.findIndex((one) => one.symbol === symbol);
    return terms[t]!.find((term) => term.name === name)!.inputs[at]!;
  };
  const acted = tokens.findIndex(({ role }, t) => t > 0 && role === "action");
  expect(terms[acted]!.map(({ name }) => name)).toEqual(["policy", "return_prediction"]);
  for (const { weight, ofWeight } of terms[acted]!) expect(ofWeight!.value).toBeCloseTo(weight, 9);
  expect(numberOf(acted, "policy", "A")).toBe(episodes[at]!.advantage);
  for (const [symbol, value] of [
    ["ε_low", 0.2],
    ["ε_high", 0.28],
  ] as const)
    expect(numberOf(acted, "policy", symbol)).toBe(value);
  const told = tokens.findIndex(({ role }) => role === "observation");
  expect(terms[told]!.map(({ name }) => name)).toEqual(["world"]);
  expect(tokens[told]!.expected).toBeTypeOf("string");
  expect(tokens[acted]!.expected).toBeUndefined();

  for (const [t, name] of [
    [acted, "policy"],
    [told, "world"],
  ] as const) {
    const { logits, temperature, attention, vocabulary } = await tokenOf(session, at, t);
    const own = logits.filter(({ isOwn }) => isOwn);
    expect(own).toHaveLength(1);
    expect(Math.log(own[0]!.p)).toBeCloseTo(numberOf(t, name, "log p"), 4);
    expect(own[0]!.gradient.value).toBeCloseTo((terms[t]![0]!.gradient * (1 - own[0]!.p)) / temperature, 9);
    expect(logits.map(({ p }) => p)).toEqual(logits.map(({ p }) => p).toSorted((a, b) => b - a));
    expect(vocabulary).toBeGreaterThan(logits.length);
    expect(attention).toHaveLength(preset.model.layers);
    for (const heads of attention) {
      expect(heads).toHaveLength(preset.model.heads);
      for (const head of heads) {
        expect(head).toHaveLength(t);
        expect(head.reduce((a, b) => a + b, 0)).toBeCloseTo(1, 5);
      }
    }
  }
  await expect(tokenOf(session, at, 0)).rejects.toThrow("nothing predicts the first");
  await expect(episodeOf(session, 99)).rejects.toThrow("expected an episode below 16, got 99");
});

test("a session that went back answers the same; what is held stays while it plays on", async () => {
  const session = new Session(preset, warm, on, quiet);
  await session.playTo(3);
  const third = await everything(session);
  const before = on.backend.stats().liveBytes;
  await session.playTo(5);
  // The question about a token is about the step that is held, not about the newest.
  expect(await tokenOf(session, 1, 20)).toEqual((third as unknown[])[3]);
  const fifth = await everything(session);
  expect(fifth).not.toEqual(third);
  await session.goTo(3); // a checkpoint: nothing is played, so the step is played again when it is asked for
  expect(await everything(session)).toEqual(third);
  await session.goTo(5);
  expect(await everything(session)).toEqual(fifth);
  await session.goTo(3);
  expect(await everything(session)).toEqual(third);
  await session.goTo(0);
  expect(await stepOf(session)).toBe(null);
  await session.goTo(3);
  await everything(session);
  expect(on.backend.stats().liveBytes).toBeLessThanOrEqual(before); // no model is left behind
});
