/**
 * Thoughts and actions in what a model writes: which token is which, what the environment gets, and what ActFocus makes
 * of it.
 */
import { describe, expect, it } from "vitest";
import { device as makeDevice } from "../../engine/device.ts";
import { grad } from "../../engine/grad.ts";
import { tensor } from "../../engine/ops/create.ts";
import { tokenLogProbs } from "../../engine/ops/logProbs.ts";
import { add, mul } from "../../engine/ops/pointwise.ts";
import { sum } from "../../engine/ops/reduce.ts";
import { Rng } from "../../engine/random.ts";
import type { Tensor } from "../../engine/tensor.ts";
import { treeLeaves } from "../../engine/tree.ts";
import type { TransformerParams } from "../../nn/parameters.ts";
import { forward, outputMatrix, pickHidden } from "../../nn/transformer.ts";
import type { TokenRow } from "../../rl/objective/columns.ts";
import { grpo } from "../../rl/objective/grpo.ts";
import { actFocus } from "../../methods/tokenWeights.ts";
import { ppoClip } from "../../rl/objective/clipped.ts";
import { rolloutMetrics } from "../../rl/episode/metrics.ts";
import { rowGradient, weighStep } from "../support/rlBatches.ts";
import { rollout } from "../../rl/play/rollout.ts";
import { emptyStream, policyMask, type Role } from "../../rl/episode/stream.ts";
import { Template } from "../../rl/episode/template.ts";
import { readAll } from "../support/rlExecutors.ts";
import { endingModel, letters, toySpec, toyTokenizer, trajectoryOf } from "../support/rlToy.ts";

const template = new Template(toyTokenizer, { action: ["!", "."] });
const idsOf = (text: string): number[] => [...toyTokenizer.encode(text), template.endId];
/** Roles of the characters of a text, t and a, and of the end token. */
function roles(text: string): string {
  const stream = emptyStream();
  template.appendSampled(stream, 0, idsOf(text), { oldLogProbs: idsOf(text).map((_, t) => -1 - t), temperature: 0.5 });
  expect(stream.ids).toEqual(idsOf(text));
  expect(stream.oldLogProbs).toEqual(idsOf(text).map((_, t) => -1 - t));
  expect(new Set(stream.temperatures)).toEqual(new Set([0.5]));
  return stream.roles.map((role) => role[0]).join("");
}

describe("tags around the action", () => {
  it.each([
    ["ab!cd.", "ttaaaaa", "cd"],
    ["!c.", "aaaa", "c"],
    ["ab!c.de", "ttaaattt", "c"], // text in neither span counts as thought
    ["!a.b!c.", "ttttaaaa", "c"], // the last one is what is meant
    ["ab", "ttt", "ab"], // no action: the environment says so
    ["!ab", "tttt", "!ab"],
    [".ab!", "ttttt", ".ab!"],
    ["", "t", ""],
  ])("%s", (text, expected, action) => {
    expect(roles(text)).toBe(expected);
    expect(template.actionText(idsOf(text))).toBe(action);
  });

  it("an expert's action is written with them; without tags all is action", () => {
    const stream = emptyStream();
    template.appendAction(stream, 0, "ab");
    expect(toyTokenizer.decode(stream.ids)).toContain("!ab.");
    expect(template.actionText(stream.ids)).toBe("ab");
    const plain = emptyStream();
    new Template(toyTokenizer).appendSampled(plain, 0, idsOf("a!b."));
    expect(new Set(plain.roles)).toEqual(new Set(["action"]));
    expect(() => new Template(toyTokenizer, { action: ["", "."] })).toThrow("template: a tag of the action is empty");
  });

  it("an expert's thought has the role of the model's own; only tags tell it from the action", () => {
    const [shown, sampled] = [emptyStream(), emptyStream()];
    template.appendAction(shown, 3, "ab", "cd?");
    template.appendSampled(sampled, 3, idsOf("cd?!ab."));
    expect(shown).toEqual(sampled);
    expect(shown.roles.map((role) => role[0]).join("")).toBe("tttaaaaa");
    expect(() => new Template(toyTokenizer).appendAction(emptyStream(), 0, "ab", "cd")).toThrow(
      'template: a thought needs tags around the action, as in { action: ["[", "]"] }',
    );
  });

  it("a strict template ends the episode where it finds no action; the environment hears nothing", async () => {
    const strict = new Template(toyTokenizer, { action: ["!", "."], strict: true });
    expect(["ab!c.", "ab", ""].map((text) => strict.parseAction(idsOf(text)))).toEqual(["c", undefined, undefined]);
    expect(template.parseAction(idsOf("ab"))).toBe("ab");
    expect(() => new Template(toyTokenizer, { strict: true })).toThrow("strict is about the tags of an action");
    const device = await makeDevice("wasm");
    const requests = Array.from({ length: 12 }, (_, i) => ({
      spec: toySpec(letters(2)),
      options: {},
      seed: 0,
      group: 0,
      rng: new Rng(i),
    }));
    const limits = { maxActionTokens: 4, maxTurns: 2 };
    const [loose, played] = [
      await rollout(endingModel(device), template, requests, limits),
      await rollout(endingModel(device), strict, requests, limits),
    ];
    const unparsed = played.filter(({ stopReason }) => stopReason === "parse_error");
    expect(unparsed.length).toBeGreaterThan(3);
    for (const episode of unparsed) {
      expect(episode.masked).toBe(false);
      expect(episode.stream.roles.at(-1)).toBe("thought"); // no answer behind it
      expect(policyMask(episode).at(-1)).toBe(true); // but it is trained on
    }
    expect(loose.map(({ stopReason }) => stopReason)).not.toContain("parse_error");
    device.dispose();
  });

  it("tokens of several bytes: a token that a tag begins or ends in is action", () => {
    const pieces = ["é", " <", "a", ">x", "</", "a> ", "…"];
    const bytes = pieces.map((piece) => new TextEncoder().encode(piece));
    const tokenizer = {
      ...toyTokenizer,
      decodeBytes: (ids: ArrayLike<number>) => bytes[ids[0]!] ?? new Uint8Array(),
      decode: (ids: ArrayLike<number>) => Array.from(ids, (id) => pieces[id]!).join(""),
    };
    const tagged = new Template(tokenizer, { action: ["<a>", "</a>"] });
    const stream = emptyStream();
    tagged.appendSampled(stream, 0, [0, 1, 2, 3, 4, 5, 6]);
    expect(stream.roles.map((role) => role[0]).join("")).toBe("taaaaat");
    expect(tagged.actionText([0, 1, 2, 3, 4, 5, 6])).toBe("x");
  });
});

it("actions that are not the model's are written as it would write them itself", async () => {
  const device = await makeDevice("wasm");
  const heard: string[] = [];
  const spec = toySpec((action, turn) => (heard.push(action), letters(2)(action, turn)));
  const forced = (turn: number): string | undefined => (turn === 0 ? "cf" : undefined);
  const request = { spec, options: {}, seed: 0, group: 0, rng: new Rng(1), forced };
  const [played] = await rollout(endingModel(device), template, [request], { maxActionTokens: 4, maxTurns: 2 });
  expect(heard[0]).toBe("cf");
  const { ids, roles } = played!.stream;
  expect(ids.filter((_, t) => roles[t] === "prompt" && t > roles.indexOf("scaffold"))).toEqual(idsOf("!cf."));
  device.dispose();
});

it("in a rollout both are sampled and trained; ActFocus weighs thoughts by α", async () => {
  const device = await makeDevice("wasm");
  const heard: string[] = [];
  const spec = toySpec((action, turn) => (heard.push(action), letters(2)(action, turn)));
  const requests = Array.from({ length: 8 }, (_, i) => ({
    spec,
    options: {},
    seed: i,
    group: 0,
    rng: new Rng(3).split(i),
  }));
  const model = endingModel(device);
  const limits = { maxActionTokens: 8, maxTurns: 2 };
  const episodes = await rollout(model, template, requests, limits);
  const plain = await rollout(model, new Template(toyTokenizer), requests, limits);
  // Tags change what a token is, not what is drawn first.
  expect(episodes.map((t) => t.stream.ids.slice(0, 5))).toEqual(plain.map((t) => t.stream.ids.slice(0, 5)));
  const all = episodes.flatMap((t) => t.stream.roles);
  expect(all).toContain("thought");
  expect(plain.flatMap((t) => t.stream.roles)).not.toContain("thought");
  const thoughts = all.filter((role) => role === "thought").length / episodes.length;
  expect(rolloutMetrics(episodes)["completions/mean_thought_length"]).toBeCloseTo(thoughts, 12);
  expect(rolloutMetrics(plain)).not.toHaveProperty("completions/mean_thought_length");
  const weights = actFocus({ alpha: 0.25, beta: 0 }).weights(episodes, {});
  episodes.forEach((t, i) =>
    policyMask(t).forEach((own, k) => own && expect(weights[i]![k]).toBe(t.stream.roles[k] === "thought" ? 0.25 : 1)),
  );
  device.dispose();
});

it("ActFocus with α = 0: the policy's gradient is that of the actions alone, by hand", async () => {
  const device = await makeDevice("reference");
  const model = endingModel(device);
  const episodes = ["ab!cd.", "c!a.", "fade!b.", "!c.d", "ab!f.", "abc"].map((text, i) => {
    const stream = emptyStream();
    template.appendTask(stream, "ab"[i % 2]!);
    template.appendSampled(stream, 0, idsOf(text), { oldLogProbs: idsOf(text).map(() => -2) });
    template.appendObservation(stream, 0, toyTokenizer.encode("b!"));
    template.appendSampled(stream, 1, idsOf(`${text}e!a.`), { oldLogProbs: idsOf(`${text}e!a.`).map(() => -2) });
    return trajectoryOf(stream, { group: i % 2, reward: i >> 1 });
  });
  const count = (role: Role): number =>
    episodes.reduce((n, t) => n + t.stream.roles.filter((r) => r === role).length, 0);
  const gradient = async (alpha: number): Promise<{ rows: readonly TokenRow[]; found: number[] }> => {
    const tokenWeights = actFocus({ alpha, beta: 0 });
    const rows = weighStep(
      { advantage: grpo(), policyLoss: ppoClip(), aggregation: "token-mean", tokenWeights },
      episodes,
      0,
    );
    const update = { lr: 0, padId: template.padId, maxBatchTokens: 1000 };
    return {
      rows,
      found: (await readAll(treeLeaves(rowGradient(model, rows, { policyLoss: ppoClip() }, update)))).flat(),
    };
  };
  const { rows, found } = await gradient(0);
  // ∇ −Σ A·lp / N over the tokens of actions, of which there are N; every episode read by itself.
  const loss = (params: TransformerParams): Tensor =>
    rows
      .map(({ trajectory: { stream }, advantages }) => {
        const T = stream.ids.length;
        const ids = tensor(Int32Array.from(stream.ids), { device, shape: [1, T] });
        const hidden = pickHidden(
          forward(params, model.config, ids),
          Int32Array.from({ length: T - 1 }, (_, t) => t),
        );
        const next = tensor(Int32Array.from(stream.ids.slice(1)), { device });
        const w = stream.roles.map((role, t) => (role === "action" ? -advantages[t]! / count("action") : 0)).slice(1);
        const weights = tensor(w, { device, dtype: device.float });
        return sum(mul(weights, tokenLogProbs(hidden, outputMatrix(params), next, {}).logProbs));
      })
      .reduce((a, b) => add(a, b));
  const byHand = (await readAll(treeLeaves(grad(loss)(model.params)))).flat();
  expect(Math.max(...byHand.map(Math.abs))).toBeGreaterThan(1e-3);
  const far = (other: readonly number[]): number => Math.max(...other.map((g, k) => Math.abs(g - byHand[k]!)));
  expect(far(found)).toBeLessThan(1e-12);
  expect(far((await gradient(0.1)).found)).toBeGreaterThan(1e-4); // with any other α they count
  device.dispose();
});
