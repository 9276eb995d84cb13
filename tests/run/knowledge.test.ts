/** What a model knows of its world, against the truth: facts that it was told by hand, and facts that it was not. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { device as makeDevice, type Device, mapTree, Rng, type Tensor, zerosLike } from "../../engine/index.ts";
import { castle, type EnvironmentOptions, ENVIRONMENTS, home } from "../../environments/index.ts";
import { type FactQuestion, question, type WorldFact } from "../../environments/facts/questions.ts";
import { AdamW, byteTokenizer, initParams, type Model, modelConfig } from "../../nn/index.ts";
import { trainSft } from "../../methods/sft.ts";
import { emptyStream, type Trajectory } from "../../rl/episode/stream.ts";
import { SPECIAL_TOKENS, Template } from "../../rl/episode/template.ts";
import { knowledgeOf } from "../../run/knowledge.ts";
import { isKnown } from "../../run/knownFacts.ts";

let device: Device;
beforeAll(async () => void (device = await makeDevice("wasm")));
afterAll(() => device.dispose());

const tokenizer = byteTokenizer({ specials: SPECIAL_TOKENS });
const template = new Template(tokenizer);
const DIRECTORIES = ["red", "tan", "sky", "ink"] as const;

const fact = (known: string, right: string): WorldFact => {
  return { kind: "where files are", known, right, says: `${known} is in ${right}` };
};
const taskOf = (file: string): string => `Read ${file}`;
const asked = (file: string, right: string): FactQuestion =>
  question(taskOf(file), `read ${file} in ${right}`, [fact(file, right)]);

function episodeOf(task: string, action: string): Trajectory {
  const stream = emptyStream();
  template.appendTask(stream, task);
  template.appendAction(stream, 0, action);
  const outcome = { reward: 1, stepRewards: [1], stopReason: "completed", masked: false, info: {} } as const;
  return { stream, group: 0, env: "", task, seed: 0, ...outcome };
}

const newModel = (): Model => {
  const config = modelConfig({
    family: "llama",
    vocabSize: tokenizer.vocabSize,
    hiddenSize: 32,
    layers: 1,
    heads: 2,
    maxPositions: 64,
  });
  return { config, params: initParams(config, new Rng(1), device) };
};

describe("knowledgeOf", () => {
  it("shows the fact that an agent was told by hand, and not the one that it was not", async () => {
    const model = newModel();
    // Of `a` each demonstration says the same; of `b` the form is shown, and each directory as often as the others.
    const told = DIRECTORIES.map(() => episodeOf(taskOf("a"), "read a in sky"));
    const untold = DIRECTORIES.map((name) => episodeOf(taskOf("b"), `read b in ${name}`));
    const learning = trainSft({
      model,
      template,
      optimizer: new AdamW(model.params),
      demonstrations: [...told, ...untold],
      observationWeight: 0,
      steps: 220,
      batchSize: 8,
      lr: (step) => 8e-3 * Math.min(1, (220 - step) / 80),
      rng: new Rng(2),
    });
    for await (const _ of learning);
    const found = await knowledgeOf(model, template, [
      asked("a", "sky"),
      ...DIRECTORIES.map((name) => asked("b", name)),
    ]);
    expect(found.map(({ says }) => says)[0]).toBe("a is in sky");
    expect(found[0]!.p).toBeGreaterThan(0.95);
    expect(found.map(isKnown)).toEqual([true, false, false, false, false]);
    for (const { p } of found.slice(1)) expect(Math.abs(p - 0.25)).toBeLessThan(0.1);
  });

  it("of a model without weights is what chance gives: 1 / V for each token of a name, and no more", async () => {
    const { config, params } = newModel();
    const empty = { config, params: mapTree(params, (x: Tensor) => zerosLike(x)) };
    const found = await knowledgeOf(empty, template, [asked("a", "red"), asked("b", "longer")]);
    const chance = 1 / tokenizer.vocabSize;
    expect(found[0]!.p / chance ** 3).toBeCloseTo(1, 4);
    expect(found[1]!.p / chance ** 6).toBeCloseTo(1, 4);
  });

  it("is the mean over the questions about a fact, with thoughts' tags or without, kind by kind", async () => {
    const model = newModel();
    const other = { kind: "who owns a directory", known: "red", right: "bo", says: "red belongs to bo" };
    const both = question("Lock a", "lock a in red as bo", [fact("a", "red"), other]);
    const single = await Promise.all([[asked("a", "red")], [both]].map((one) => knowledgeOf(model, template, one)));
    const together = await knowledgeOf(model, template, [both, asked("a", "red")]);
    expect(together.map(({ says }) => says)).toEqual(["a is in red", "red belongs to bo"]);
    expect(together[0]!.p).toBeCloseTo((single[0]![0]!.p + single[1]![0]!.p) / 2, 10);
    const tagged = new Template(tokenizer, { action: ["[", "]"] });
    const inTags = await knowledgeOf(model, tagged, [both]);
    expect(inTags.map(({ p }) => p > 0 && p < 1)).toEqual([true, true]);
    expect(inTags[0]!.p).not.toBe(single[1]![0]!.p);
  });

  it("of no questions is nothing", async () => {
    expect(await knowledgeOf(newModel(), template, [])).toEqual([]);
  });
});

describe.each([
  ["home", async (seed: number, size: number) => home.facts!({ home: seed, size })],
  ["castle", async (seed: number, size: number) => castle.facts!({ castle: seed, size })],
] as const)("the questions of %s", (_name, ask) => {
  it.each([1, 2, 3])("have each name where they say that it stands, size %i", async (size) => {
    for (const { action, places } of await ask(3, size))
      for (const { fact, at } of places) {
        expect(action.slice(at, at + fact.right.length)).toBe(fact.right);
        expect([undefined, " "]).toContain(action[at + fact.right.length]);
      }
  });

  it("are none where each episode has a world of its own", async () => {
    expect(await ask(-1, 1)).toEqual([]);
  });
});

it("the questions of home are about each fact, as held-out tasks ask for it, and its commands are right", async () => {
  const options = { home: 5, size: 2, levels: [2, 2] } as const;
  const questions = await home.facts!(options);
  const facts = new Set(questions.flatMap(({ places }) => places.map(({ fact }) => `${fact.kind} ${fact.known}`)));
  expect(facts.size).toBe(32 + 6 + 12);
  const texts = new Map(questions.map(({ task, action }) => [task, action]));
  for (let seed = 0; seed < 200; seed++) {
    const env = home.make({ ...options, split: "heldout" });
    const task = await env.reset(seed);
    expect(texts.get(task)).toBe(home.expert!(env));
  }
});

it("the questions of castle are its held-out tasks of one step, with the expert's command", async () => {
  const options = { castle: 5, families: ["go", "send", "open", "seal", "take", "clean"] } as const;
  const questions = await castle.facts!(options);
  const texts = new Map(questions.map(({ task, action }) => [task, action]));
  expect(new Set(questions.flatMap(({ places }) => places.map(({ fact }) => fact.kind)))).toEqual(
    new Set(["which word leads where", "which key opens a chest", "where things are"]),
  );
  for (let seed = 0; seed < 200; seed++) {
    const env = castle.make({ ...options, split: "heldout" });
    expect(texts.get(await env.reset(seed))).toBe(castle.expert!(env));
  }
});

it("questions are asked through the options of faults, and change nothing: noise is no fact of a world", async () => {
  const noisy = await ENVIRONMENTS["home"]!.facts!({ home: 5, noise: 0.5, falsePositives: 1 } as EnvironmentOptions);
  expect(noisy).toEqual(await home.facts!({ home: 5 }));
  expect(ENVIRONMENTS["terminal"]!.facts).toBeUndefined();
});
