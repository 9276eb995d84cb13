/**
 * Models with several end tokens, as `eos_token_id` of many a generation_config.json lists them (TRL#7039): whichever
 * is drawn ends the action, and stays as it was drawn.
 */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Device } from "../../engine/device.ts";
import { emptyStream, isAgentToken } from "../../rl/episode/stream.ts";
import { rolloutMetrics } from "../../rl/episode/metrics.ts";
import { Template } from "../../rl/episode/template.ts";
import { evaluate } from "../../rl/evaluate.ts";
import { rollout } from "../../rl/play/rollout.ts";
import { reference } from "../support/rlExecutors.ts";
import { endingModel, letters, toyRequests, toySpec, toyTemplate, toyTokenizer } from "../support/rlToy.ts";
import { Rng } from "../../engine/random.ts";

const [END, B] = [toyTemplate.endId, 1];
const template = new Template(toyTokenizer, { ends: ["b", "<|end|>"] });

let device: Device;
beforeAll(async () => {
  device = await reference.open();
});
afterAll(() => device.dispose());

it("the template's own end comes first, and each is there once; an unknown one is an error", () => {
  expect(template.endIds).toEqual([END, B]);
  expect(toyTemplate.endIds).toEqual([END]);
  expect(() => new Template(toyTokenizer, { ends: ["<|eot|>"] })).toThrow("the tokenizer has no special token <|eot|>");
});

describe("a rollout", () => {
  it("ends an action at any of them, keeps the one that was drawn; the world gets the text before it", async () => {
    const said: string[] = [];
    const spec = toySpec((action, turn) => {
      said.push(action);
      return letters(3)(action, turn);
    });
    const played = await rollout(endingModel(device), template, toyRequests(spec, 12), { maxActionTokens: 40 });
    const actions = played.flatMap(({ stream }) =>
      [0, 1, 2].map((turn) => {
        const places = stream.ids.flatMap((_, t) =>
          stream.turns[t] === turn && isAgentToken(stream.roles[t]!) ? [t] : [],
        );
        return {
          ids: places.map((t) => stream.ids[t]!),
          lps: places.map((t) => stream.oldLogProbs[t]!),
          next: stream.ids[places.at(-1)! + 1],
        };
      }),
    );
    expect(new Set(actions.map(({ ids }) => ids.at(-1)))).toEqual(new Set([END, B]));
    for (const { ids, lps, next } of actions) {
      expect(ids.findIndex((id) => template.isEnd(id))).toBe(ids.length - 1);
      expect(lps.every((lp) => lp < 0)).toBe(true); // all were drawn, and are trained
      expect(next).toBe(toyTokenizer.special["<|obs|>"]); // no other end is put behind it
    }
    expect(said.toSorted()).toEqual(actions.map(({ ids }) => toyTokenizer.decode(ids.slice(0, -1))).toSorted());
    expect(played.every(({ stopReason }) => stopReason === "completed")).toBe(true);
    expect(rolloutMetrics(played)["completions/clipped_ratio"]).toBe(0);
  });

  it("with one end only writes on", async () => {
    const spec = toySpec(letters(1));
    const played = await rollout(endingModel(device), toyTemplate, toyRequests(spec, 12), { maxActionTokens: 40 });
    expect(
      played.some(({ stream }) =>
        stream.ids.some((id, t) => id === B && stream.oldLogProbs[t]! < 0 && t < stream.ids.length - 1),
      ),
    ).toBe(true);
  });

  it("is what an evaluation plays", async () => {
    const said: string[] = [];
    const spec = toySpec((action, turn) => {
      said.push(action);
      return letters(1)(action, turn);
    });
    const seeds = Array.from({ length: 12 }, (_, i) => i);
    await evaluate({
      model: endingModel(device),
      template,
      env: spec,
      envOptions: {},
      rollout: { maxActionTokens: 40 },
      seeds,
      rng: new Rng(1),
    });
    expect(said.length).toBe(12);
    expect(said.every((text) => !text.includes("b"))).toBe(true);
  });
});

it("thoughts and tags: an end has the role of the token before it", () => {
  const tagged = new Template(toyTokenizer, { action: ["!", "?"], strict: true, ends: ["b"] });
  const stream = emptyStream();
  const ids = [...toyTokenizer.encode("a!c?d"), B];
  tagged.appendSampled(stream, 0, ids);
  expect(stream.roles.map((role) => role[0]).join("")).toBe("taaatt");
  expect(tagged.parseAction(ids)).toBe("c");
  expect(tagged.actionText(toyTokenizer.encode("!cb"))).toBe("!c");
});
