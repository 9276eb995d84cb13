/**
 * learn/00-micro.ts: its derivatives against central differences, its loss and all gradients against nn/ and rl/ on the
 * f64 reference. What it prints when it runs is in micro.long.test.ts.
 */
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Device } from "../../engine/device.ts";
import { device, tensor, valueAndGrad } from "../../engine/index.ts";
import type { Tensor } from "../../engine/tensor.ts";
import {
  add,
  backward,
  type Episode,
  initModel,
  linear,
  logAt,
  lossOf,
  mix,
  type Model,
  play,
  random,
  rmsNorm,
  run,
  softmax,
  swiglu,
  train,
  type Value,
  value,
  WORDS,
} from "../../learn/00-micro.ts";
import { modelConfig, type ModelConfig, type TransformerParams } from "../../nn/index.ts";
import { grpo } from "../../rl/objective/grpo.ts";
import { pack } from "../../rl/train/pack.ts";
import { echo } from "../../rl/objective/echo.ts";
import { lossOf as batchLoss } from "../../rl/train/loss.ts";
import { reinforce } from "../../methods/losses/index.ts";
import type { Objective } from "../../rl/objective/objective.ts";
import { weighStep } from "../support/rlBatches.ts";
import { append, emptyStream, type Trajectory } from "../../rl/episode/stream.ts";
import { importsOf, readSource } from "../project/sources.ts";

const FILE = "learn/00-micro.ts";

it("is at most 200 lines of at most 120 columns and imports nothing", () => {
  const source = readSource(FILE);
  const lines = source.trimEnd().split("\n");
  expect(lines.length).toBeLessThanOrEqual(200);
  expect(lines.filter((line) => [...line].length > 120)).toEqual([]);
  expect(importsOf(FILE, source)).toEqual([]);
  expect(source).not.toMatch(/\brequire\(|\bimport\(|^import\b/m);
});

it("is shown in docs/reading.md with the output that the book keeps of it", () => {
  const shown = /npm run learn\n```\n+```text\n(.*?)```/s.exec(readSource("docs/reading.md"))?.[1];
  expect(shown).toBe(readSource("learn/output/00-micro.txt"));
});

describe("derivatives against central differences", () => {
  const number = fc.double({ min: -2, max: 2, noNaN: true });
  const vector = (n: number): fc.Arbitrary<number[]> => fc.array(number, { minLength: n, maxLength: n });

  /**
   * Each op as a function of vectors of the lengths `sizes`; results are weighed with fixed numbers, so that none
   * cancels.
   */
  const OPS: Record<string, { sizes: number[]; of: (x: Value[]) => Value }> = {
    add: { sizes: [3, 3], of: ([a, b]) => add(a!, b!) },
    linear: { sizes: [3, 3, 3], of: ([a, b, x]) => linear([a!, b!], x!, 0.7) },
    "linear of a row twice": { sizes: [3, 3], of: ([a, x]) => linear([a!, a!, x!], x!) },
    mix: { sizes: [2, 3, 3], of: ([w, a, b]) => mix(w!, [a!, b!]) },
    softmax: { sizes: [4], of: ([x]) => softmax(x!) },
    logAt: { sizes: [4], of: ([x]) => logAt(softmax(x!), 2) },
    swiglu: { sizes: [3, 3], of: ([a, b]) => swiglu(a!, b!) },
    rmsNorm: { sizes: [4], of: ([x]) => rmsNorm(add(x!, value([3, -3, 2, 1]))) },
    "a graph in which values meet again": {
      sizes: [3, 3],
      of: ([a, b]) => {
        const n = rmsNorm(add(a!, value([3, -3, 4])));
        return add(mix(softmax(linear([a!, b!], n)), [n, b!]), swiglu(n, a!));
      },
    },
  };

  it.each(Object.entries(OPS))("%s", (_, { sizes, of }) => {
    const lossAt = (inputs: number[][]): { loss: Value; leaves: Value[] } => {
      const leaves = inputs.map((data) => value([...data]));
      const y = of(leaves);
      return { loss: linear([value(y.data.map((_, i) => 1 + 0.3 * i * i))], y), leaves };
    };
    fc.assert(
      fc.property(fc.tuple(...sizes.map(vector)), (inputs) => {
        const { loss, leaves } = lossAt(inputs);
        backward(loss);
        leaves.forEach(({ grad }, k) =>
          grad.forEach((g, i) => {
            const h = 1e-5;
            const shifted = (by: number): number =>
              lossAt(inputs.map((x, j) => x.map((v, n) => (j === k && n === i ? v + by : v)))).loss.data[0]!;
            const difference = (shifted(h) - shifted(-h)) / (2 * h);
            expect(Math.abs(g - difference)).toBeLessThan(1e-6 * (1 + Math.abs(g)));
          }),
        );
      }),
      { numRuns: 30 },
    );
  });
});

describe("nn/ and rl/ on the f64 reference", () => {
  let on: Device;
  beforeAll(async () => void (on = await device("reference")));
  afterAll(() => on.dispose());

  const config: ModelConfig = {
    ...modelConfig({
      vocabSize: WORDS.length,
      hiddenSize: 16,
      intermediateSize: 32,
      layers: 1,
      heads: 1,
      maxPositions: 13,
      tieEmbeddings: false,
    }),
    positions: "learned", // Llama's but for this; no checkpoint has it, the transformer does
  };

  function treeOf(m: Model): TransformerParams<Tensor> {
    const matrix = (name: keyof Model): Tensor =>
      tensor(
        m[name].flatMap(({ data }) => data),
        { device: on, dtype: "f64", shape: [m[name].length, m[name][0]!.data.length] },
      );
    const norm = { weight: tensor(new Array<number>(16).fill(1), { device: on, dtype: "f64" }) };
    const linear = (name: keyof Model): { weight: Tensor } => ({ weight: matrix(name) });
    return {
      embedding: matrix("words"),
      positions: matrix("positions"),
      layers: [
        {
          inputNorm: norm,
          attention: { q: linear("q"), k: linear("k"), v: linear("v"), o: linear("o") },
          postNorm: { ...norm },
          mlp: { gate: linear("gate"), up: linear("up"), down: linear("down") },
        },
      ],
      norm: { ...norm },
      head: matrix("output"),
    };
  }

  const trajectoryOf = ({ words, reward }: Episode, safe: number): Trajectory => {
    const stream = emptyStream();
    append(stream, "prompt", 0, [safe]);
    words.forEach(({ by, word, logProb }, i) => {
      const isAgent = by === "agent";
      append(
        stream,
        isAgent ? "action" : "observation",
        i < 6 ? 0 : 1,
        [word],
        isAgent ? { oldLogProbs: [logProb.data[0]!] } : {},
      );
    });
    return {
      stream,
      group: 0,
      reward,
      stepRewards: [reward],
      stopReason: "completed",
      masked: false,
      env: "safes",
      task: "",
      seed: 0,
      info: {},
    };
  };

  it.each([
    ["both terms", 0.5, [1, 0.5, 0, 0]],
    ["the policy's alone", 0, [0, 1, 0.5, 0.5]],
    ["the world's alone: a group without spread", 0.5, [0, 0, 0, 0]],
  ])("loss and all gradients are the same: %s", async (_, lambda, rewards) => {
    const rng = random(5);
    const model = initModel(rng);
    for (const { data } of model.positions) data.forEach((_, i) => (data[i] = 0.7 * rng() - 0.35)); // they begin at 0
    // Rewards are given, and the second episode ends after one turn: by chance a safe hardly ever opens.
    const group = rewards.map((reward, i) => {
      const { words } = play(model, 3, [9, 12], false, rng);
      return { words: i === 1 ? words.slice(0, 6) : words, reward };
    });
    const loss = lossOf(group, lambda);
    backward(loss);

    const objective: Objective = {
      advantage: grpo(),
      policyLoss: reinforce(), // what PPO's loss has the gradient of where the ratio is 1
      aggregation: "seq-mean-token-mean",
      world: echo({ lambda }),
    };
    const rows = weighStep(
      objective,
      group.map((episode) => trajectoryOf(episode, 3)),
      0,
    );
    const [batch, ...others] = [...pack(rows, { padId: 0 })];
    expect(others).toEqual([]);
    const params = treeOf(model);
    const { value: expected, grads } = valueAndGrad((p: TransformerParams<Tensor>) =>
      batchLoss({ policy: p }, { config, params: p }, batch!, objective),
    )(params);

    expect(Math.abs(loss.data[0]! - (await expected.item()))).toBeLessThan(1e-12);

    const attention = grads.layers[0]!.attention;
    const { mlp } = grads.layers[0]!;
    const theirs: Record<keyof Model, Tensor> = {
      words: grads.embedding,
      positions: grads.positions!,
      q: attention.q!.weight,
      k: attention.k!.weight,
      v: attention.v!.weight,
      o: attention.o.weight,
      gate: mlp.gate!.weight,
      up: mlp.up.weight,
      down: mlp.down.weight,
      output: grads.head!,
    };
    for (const [name, gradient] of Object.entries(theirs)) {
      const [ours, wanted] = [model[name as keyof Model].flatMap(({ grad }) => grad), await gradient.read()];
      expect(ours.length).toBe(wanted.length);
      expect(Math.max(...ours.map((g, i) => Math.abs(g - wanted[i]!))), name).toBeLessThan(1e-12);
      expect(Math.max(...ours.map(Math.abs)), name).toBeGreaterThan(1e-4); // there is something to compare
    }
  });
});

describe("the world and the runs", () => {
  it("answers with the safe and its code, pays half for the second try, and ends when it is open", () => {
    const rng = random(1);
    const model = initModel(rng);
    // So that it says the same few words again and again, and by chance a code.
    for (const { data } of model.output) data.forEach((v, i) => (data[i] = 6 * v));
    const rewards = new Set<number>();
    for (let i = 0; i < 60; i++) {
      const code = play(model, 2, [8, 13], false, rng)
        .words.slice(0, 2)
        .map(({ word }) => word);
      const { words, reward } = play(model, 2, code, false, rng);
      rewards.add(reward);
      const said = words.map(({ word }) => WORDS[word]!);
      const told = ["c", ...code.map((word) => WORDS[word]!)];
      const isCode = (from: number): boolean => said.slice(from, from + 2).join() === told.slice(1).join();
      expect(said.slice(2, 6)).toEqual([isCode(0) ? "yes" : "no", ...told]);
      expect(said.slice(8)).toEqual(isCode(0) ? [] : [isCode(6) ? "yes" : "no", ...told]);
      expect(words.map(({ by }) => by[0]).join("")).toBe(isCode(0) ? "aawwww" : "aawwwwaawwww");
      expect(reward).toBe(isCode(0) ? 1 : isCode(6) ? 0.5 : 0);
    }
    expect([...rewards].sort((a, b) => a - b)).toEqual([0, 0.5, 1]);
  });

  it("is shown in the book by the first episode of seed 0, word by word", () => {
    const rng = random(0);
    const codes = Array.from({ length: 8 }, () => [0, 1].map(() => WORDS.indexOf("0") + Math.floor(6 * rng())));
    const { words, reward } = play(initModel(rng), 0, codes[0]!, false, rng);
    const text = readSource("learn/exercises/00-micro.ts");
    const shown = [...text.matchAll(/^ \* (agent|world) +(\w+) +([\d.]+)/gm)].map(([, ...row]) => row.join(" "));
    expect(shown).toEqual(
      words.map(({ by, word, logProb }) => `${by} ${WORDS[word]!} ${Math.exp(logProb.data[0]!).toFixed(3)}`),
    );
    expect([text.match(/^ \* reward +(\d)$/m)![1], codes[0]!.map((word) => WORDS[word]).join(" ")]).toEqual([
      String(reward),
      text.match(/whose code is `(.*?)`/)![1],
    ]);
  });

  it("is the same run for the same seed, and each step's episodes are in its tenth", () => {
    const [one, same] = [1, 1].map((seed) => train(0.5, false, seed, 2));
    expect(same).toEqual(one);
    expect(train(0.5, false, 2, 1)[0]).not.toEqual(one![0]);
    expect(one!.map((tenth) => tenth.length)).toEqual([64, 0, 0, 0, 0, 64, 0, 0, 0, 0]); // two steps
    expect(run(3, 1)).toHaveLength(4);
  });
});
