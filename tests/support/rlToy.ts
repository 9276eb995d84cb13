/** A small world for the tests of the RL layer: 17 tokens, models of a few thousand parameters, hand-made episodes. */
import type { Device } from "../../engine/device.ts";
import type { Tensor } from "../../engine/tensor.ts";
import { tensor } from "../../engine/ops/create.ts";
import { Rng } from "../../engine/random.ts";
import { assign } from "../../engine/state.ts";
import { modelConfig, type ModelOptions } from "../../nn/config.ts";
import { initParams } from "../../nn/parameters.ts";
import type { Tokenizer } from "../../nn/tokenizer.ts";
import type { Model } from "../../nn/transformer.ts";
import { type EnvironmentSpec, SingleUseEnvironment, type StepResult } from "../../rl/environment.ts";
import { append, emptyStream, type Role, type TokenStream, type Trajectory } from "../../rl/episode/stream.ts";
import { SPECIAL_TOKENS, Template } from "../../rl/episode/template.ts";
import type { EpisodeRequest } from "../../rl/play/episode.ts";

const ALPHABET = [..."abcdef….!?- "];
const special = Object.fromEntries(SPECIAL_TOKENS.map((name, i) => [name, ALPHABET.length + i]));

const characterId = (c: string): number => ALPHABET.indexOf(ALPHABET.includes(c) ? c : "?");

/** One id per character of the alphabet; other characters become "?". */
export const toyTokenizer: Tokenizer = {
  vocabSize: ALPHABET.length + SPECIAL_TOKENS.length,
  special,
  addedTokens: [],
  normalizer: undefined,
  encode: (text, options) => toyTokenizer.encodeParts!(text, options).flatMap(({ ids }) => ids),
  encodeParts: (text, { specials } = {}) =>
    Array.from(text.matchAll(/<\|\w+\|>|[^]/gu)).flatMap(({ 0: name, index: start }) => {
      const id = specials === "tokens" ? special[name] : undefined;
      const ids = id === undefined ? Array.from(name, characterId) : [id];
      return [{ start, end: start + name.length, ids, isToken: id !== undefined }];
    }),
  tokenToId: (token) => special[token] ?? (ALPHABET.includes(token) ? ALPHABET.indexOf(token) : undefined),
  decode: (ids) => Array.from(ids, (id) => ALPHABET[id] ?? "").join(""),
  decodeBytes: (ids) => new TextEncoder().encode(toyTokenizer.decode(ids)),
  toJSON: () => ({}),
};
export const toyTemplate: Template = new Template(toyTokenizer);
export const V: number = toyTokenizer.vocabSize;

export function toyModel(device: Device, seed = 1, options: Partial<ModelOptions> = {}): Model<Tensor> {
  const config = modelConfig({
    vocabSize: V,
    hiddenSize: 16,
    layers: 2,
    heads: 2,
    kvHeads: 1,
    maxPositions: 64,
    tieEmbeddings: false,
    // Large enough that the distributions are not uniform and that their differences show.
    initializerRange: 0.3,
    ...options,
  });
  return { config, params: initParams(config, new Rng(seed).split("init"), device) };
}

/**
 * A GPT-2-style model that ends about every third action at each token: the bias of its last norm points at <|end|>.
 */
export function endingModel(device: Device): Model<Tensor> {
  const model = toyModel(device, 1, { family: "gpt2", kvHeads: 2 });
  const C = model.config.hiddenSize;
  const ofEnd = model.params.head!.readSync().subarray(toyTemplate.endId * C, (toyTemplate.endId + 1) * C);
  const squared = [...ofEnd].reduce((total, w) => total + w * w, 0);
  assign(
    model.params.norm.bias!,
    tensor(
      [...ofEnd].map((w) => (2.5 * w) / squared),
      { device },
    ),
  );
  return model;
}

/** What the toy environment does with an action, unless a test says otherwise. */
export type Act = (action: string, turn: number, signal?: AbortSignal) => StepResult | Promise<StepResult>;

/** Answers "b!" and goes on for `turns` turns; the reward of a step is the share of letters in the action. */
export const letters =
  (turns: number): Act =>
  (action, turn) => ({
    observation: `${action.slice(0, 2)}b!`,
    reward: action.replace(/[^a-f]/g, "").length / Math.max(1, action.length),
    done: turn + 1 >= turns,
    info: { success: /[a-f]/.test(action) },
  });

export function toySpec(
  act: Act = letters(3),
  task: (seed: number) => string = (seed) => "ab"[seed % 2]!,
): EnvironmentSpec {
  class Toy extends SingleUseEnvironment {
    readonly name = "toy";
    #turn = 0;
    protected begin(seed: number): string {
      return task(seed);
    }
    protected act(action: string, signal?: AbortSignal): StepResult | Promise<StepResult> {
      return act(action, this.#turn++, signal);
    }
  }
  return {
    name: "toy",
    description: "says something about the letter a",
    families: [],
    make: () => new Toy(),
    expert: () => "aa",
    random: () => "b",
  };
}

/** Requests for `count` episodes, two in each group; those of even and of odd number have different tasks. */
export const toyRequests = (spec: EnvironmentSpec, count: number): EpisodeRequest[] =>
  Array.from({ length: count }, (_, e) => ({
    spec,
    options: {},
    seed: e % 2,
    group: Math.floor(e / 2),
    rng: new Rng(3).split(e),
  }));

/** Tokens of an episode as [role, ids, options…] parts. */
export type Part = readonly [role: Role, ids: readonly number[], target?: boolean];

export function episode(
  parts: readonly Part[],
  options: Partial<Trajectory> & { old?: (t: number) => number } = {},
): Trajectory {
  const { old = () => -1, ...rest } = options;
  const stream = emptyStream();
  let turn = 0;
  parts.forEach(([role, ids, target], i) => {
    const sampled = role === "action" || role === "thought";
    if (sampled && parts.slice(0, i).some(([r]) => r === "observation")) turn++;
    append(stream, role, turn, ids, {
      ...(sampled ? { oldLogProbs: ids.map((_, k) => old(stream.ids.length + k)) } : {}),
      ...(target === undefined ? {} : { target }),
    });
  });
  return trajectoryOf(stream, rest);
}

export const trajectoryOf = (stream: TokenStream, options: Partial<Trajectory> = {}): Trajectory => ({
  stream,
  group: 0,
  reward: 0,
  stepRewards: [],
  stopReason: "completed",
  masked: false,
  env: "toy",
  task: "",
  seed: 0,
  info: {},
  ...options,
});

/** A random episode: prompt, then `turns` of action, scaffold, observation. */
export function randomEpisode(rng: Rng, options: Partial<Trajectory> = {}, turns = 2): Trajectory {
  const ids = (most: number, least = 0): number[] =>
    Array.from({ length: least + rng.int(most + 1 - least) }, () => rng.int(V));
  const parts: Part[] = [["prompt", ids(4, 1)]];
  for (let turn = 0; turn < turns; turn++) {
    parts.push(["action", ids(4, 1)], ["scaffold", ids(1, 1)], ["observation", ids(5)], ["observation", ids(1), false]);
  }
  return episode(parts, { old: () => -3 * rng.uniform(), ...options });
}
