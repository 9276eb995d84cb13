/** An agent that acts for a caller who is the environment: the same actions as in an environment that says the same. */
import { spawnSync } from "node:child_process";
import process from "node:process";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { act } from "../../data/index.ts";
import { type Device, device as makeDevice, Rng } from "../../engine/index.ts";
import type { Trajectory } from "../../rl/episode/stream.ts";
import { turnsOf } from "../../rl/episode/turns.ts";
import { rollout } from "../../rl/play/rollout.ts";
import { endingModel, toyModel, toySpec, toyTemplate } from "../support/rlToy.ts";

let on: Device;
beforeAll(async () => void (on = await makeDevice("reference")));
afterAll(() => on.dispose());

const LIMITS = { maxActionTokens: 40, maxTurns: 3 };
const answerTo = (action: string): string => (action.length % 2 === 0 ? "b" : "ab");

/** The actions, and the episode. */
async function played(model = endingModel(on), options: object = {}): Promise<[string[], Trajectory]> {
  const episode = act(model, toyTemplate, "a", { ...LIMITS, ...options });
  const actions: string[] = [];
  for (let next = await episode.next(); ; next = await episode.next(answerTo(actions.at(-1)!))) {
    if (next.done) return [actions, next.value!];
    actions.push(next.value);
  }
}

describe("act", () => {
  it.each([0, 1])(
    "at temperature %i says what it says in an environment with the same answers",
    async (temperature) => {
      const model = endingModel(on);
      const spec = toySpec(
        (action) => ({ observation: answerTo(action), reward: 0, done: false, info: {} }),
        () => "a",
      );
      const request = { spec, options: {}, seed: 0, group: 0, rng: new Rng(4) };
      const [inWorld] = await rollout(model, toyTemplate, [request], { ...LIMITS, temperature });
      const [actions, episode] = await played(model, { temperature, rng: new Rng(4) });
      expect(actions).toEqual(turnsOf(inWorld!, toyTemplate).map(({ action }) => action));
      expect(actions).toHaveLength(3);
      expect(episode.stream.ids).toEqual(inWorld!.stream.ids);
      expect(episode).toMatchObject({ stopReason: "max_turns", task: "a" });
    },
  );

  it("waits for the caller, who may return at once, after some actions, or after none", async () => {
    const episode = act(endingModel(on), toyTemplate, "a", { ...LIMITS, timeout: 5 });
    const first = await episode.next();
    expect(first.done).toBe(false);
    await new Promise((resolve) => setTimeout(resolve, 60));
    expect((await episode.next("b")).done).toBe(false);
    expect(await episode.return(undefined)).toMatchObject({ done: true });
    expect(await episode.next("b")).toMatchObject({ done: true });
    const unused = act(endingModel(on), toyTemplate, "a", LIMITS);
    expect(await unused.return(undefined)).toMatchObject({ done: true });
  });

  it("does not keep a program from ending that leaves it", () => {
    const code =
      'import { act, byteTokenizer, device, initParams, modelConfig } from "./index.ts";' +
      'import { Rng, SPECIAL_TOKENS, Template } from "./index.ts";' +
      "const template = new Template(byteTokenizer({ specials: SPECIAL_TOKENS }));" +
      "const config = modelConfig({ vocabSize: template.tokenizer.vocabSize, hiddenSize: 8, layers: 1, heads: 1 });" +
      'const params = initParams(config, new Rng(1), await device("wasm"));' +
      "const rollout = { maxActionTokens: 400, temperature: 1 };" +
      'console.log((await act({ config, params }, template, "a", rollout).next()).done);';
    const { stdout, status } = spawnSync(process.execPath, ["--import", "tsx", "--input-type=module", "-e", code], {
      encoding: "utf8",
      timeout: 60_000,
    });
    expect([status, stdout]).toEqual([0, "false\n"]);
  }, 70_000);

  it("an action that does not end is the end of the episode, with nothing to answer", async () => {
    const [actions, episode] = await played(toyModel(on, 1), { maxActionTokens: 1 });
    expect(actions).toEqual([]);
    expect(episode.stopReason).toBe("max_tokens");
  });

  it("a signal ends it while it waits", async () => {
    const stop = new AbortController();
    const episode = act(endingModel(on), toyTemplate, "a", { ...LIMITS, signal: stop.signal });
    await episode.next();
    stop.abort();
    expect(await episode.next("b")).toMatchObject({ done: true, value: { stopReason: "aborted" } });
    const late = act(endingModel(on), toyTemplate, "a", { ...LIMITS, signal: AbortSignal.abort() });
    expect(await late.next()).toMatchObject({ done: true, value: { stopReason: "aborted" } });
  });

  it("what cannot be is told: an option, an answer, a task that does not fit", async () => {
    await expect(act(endingModel(on), toyTemplate, "a", { maxTurn: 2 } as object).next()).rejects.toThrow("maxTurn");
    const episode = act(endingModel(on), toyTemplate, "a", LIMITS);
    await episode.next();
    await expect(episode.next(5 as never)).rejects.toThrow(
      "act: next takes what was observed of the action, a text; got 5",
    );
    const long = act(endingModel(on), toyTemplate, "a".repeat(500), LIMITS);
    const told = await long.next().catch((error: unknown) => error);
    expect(told).toBeInstanceOf(Error);
  });
});
