/** Thoughts and actions in what a model writes: which token is which, what the environment gets, and what ActFocus makes of it. */
import { describe, expect, it } from "vitest";
import { device as makeDevice } from "../../engine/device.ts";
import { Rng } from "../../engine/random.ts";
import { actFocus } from "../../rl/focus.ts";
import { rollout } from "../../rl/rollout.ts";
import { emptyStream, policyMask } from "../../rl/stream.ts";
import { Template } from "../../rl/template.ts";
import { endingModel, letters, toySpec, toyTokenizer } from "../support/rlToy.ts";

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

  it("a strict template ends the episode where it finds no action, and the environment hears nothing of it", async () => {
    const strict = new Template(toyTokenizer, { action: ["!", "."], strict: true });
    expect(["ab!c.", "ab", ""].map((text) => strict.parseAction(idsOf(text)))).toEqual(["c", undefined, undefined]);
    expect(template.parseAction(idsOf("ab"))).toBe("ab");
    expect(() => new Template(toyTokenizer, { strict: true })).toThrow("strict is about the tags of an action");
    const device = await makeDevice("wasm");
    const requests = Array.from({ length: 12 }, (_, i) => ({ spec: toySpec(letters(2)), options: {}, seed: 0, group: 0, rng: new Rng(i) })); // prettier-ignore
    const limits = { maxActionTokens: 4, maxTurns: 2 };
    const [loose, played] = [await rollout(endingModel(device), template, requests, limits), await rollout(endingModel(device), strict, requests, limits)]; // prettier-ignore
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
    const tokenizer = { ...toyTokenizer, decodeBytes: (ids: ArrayLike<number>) => bytes[ids[0]!]!, decode: (ids: ArrayLike<number>) => Array.from(ids, (id) => pieces[id]!).join("") }; // prettier-ignore
    const tagged = new Template(tokenizer, { action: ["<a>", "</a>"] });
    const stream = emptyStream();
    tagged.appendSampled(stream, 0, [0, 1, 2, 3, 4, 5, 6]);
    expect(stream.roles.map((role) => role[0]).join("")).toBe("taaaaat");
    expect(tagged.actionText([0, 1, 2, 3, 4, 5, 6])).toBe("x");
  });
});

it("in a rollout both are sampled and trained; ActFocus weighs thoughts by α", async () => {
  const device = await makeDevice("wasm");
  const heard: string[] = [];
  const spec = toySpec((action, turn) => (heard.push(action), letters(2)(action, turn)));
  const requests = Array.from({ length: 8 }, (_, i) => ({ spec, options: {}, seed: i, group: 0, rng: new Rng(3).split(i) })); // prettier-ignore
  const model = endingModel(device);
  const limits = { maxActionTokens: 8, maxTurns: 2 };
  const episodes = await rollout(model, template, requests, limits);
  const plain = await rollout(model, new Template(toyTokenizer), requests, limits);
  // Tags change what a token is, not what is drawn first.
  expect(episodes.map((t) => t.stream.ids.slice(0, 5))).toEqual(plain.map((t) => t.stream.ids.slice(0, 5)));
  const all = episodes.flatMap((t) => t.stream.roles);
  expect(all).toContain("thought");
  expect(plain.flatMap((t) => t.stream.roles)).not.toContain("thought");
  const weights = actFocus({ alpha: 0.25, beta: 0 }).weights(episodes, {});
  episodes.forEach((t, i) =>
    policyMask(t).forEach((own, k) => own && expect(weights[i]![k]).toBe(t.stream.roles[k] === "thought" ? 0.25 : 1)),
  );
  device.dispose();
});
