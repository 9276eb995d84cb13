/**
 * What would train nothing, or nonsense, and look like training: parts of a run that do not belong together, and
 * environments that fail, pay no score, or give the members of a group different tasks. It is refused, said once, or
 * ends the run with the environment's own words.
 */
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { device as makeDevice, type Device } from "../../engine/device.ts";
import { reasonOf } from "../../engine/errors.ts";
import { AdamW } from "../../nn/optimizer.ts";
import { modelConfig } from "../../nn/config.ts";
import { initParams } from "../../nn/parameters.ts";
import { Rng } from "../../engine/random.ts";
import type { Model } from "../../nn/transformer.ts";
import type { EnvironmentSpec, StepResult } from "../../rl/environment.ts";
import { trainRlAsync } from "../../distribute/async/train.ts";
import { grpo, none } from "../../rl/objective/grpo.ts";
import { rae, reinforcePlusPlus, remax } from "../../methods/advantages/index.ts";
import { dpo } from "../../methods/losses/index.ts";
import { AdaptiveKl } from "../../methods/kl.ts";
import type { Objective } from "../../rl/objective/objective.ts";
import { paw } from "../../methods/paw.ts";
import { rollout } from "../../rl/play/rollout.ts";
import { type RlOptions, trainRl } from "../../rl/train/loop.ts";
import { trainPreference } from "../../methods/preference.ts";
import { trainSft } from "../../methods/sft.ts";
import { trainStep } from "../../rl/train/step.ts";
import { mixedMembers } from "../../rl/train/watch.ts";
import { paramsOf, reportsOf, toyObjective, toyRlOptions } from "../support/rlRuns.ts";
import {
  type Act,
  endingModel,
  letters,
  toyModel,
  toyRequests,
  toySpec,
  toyTemplate,
  V,
  trajectoryOf,
} from "../support/rlToy.ts";
import { append, emptyStream, type Trajectory } from "../../rl/episode/stream.ts";

let device: Device;
beforeAll(async () => {
  device = await makeDevice("wasm");
});
afterAll(() => device.dispose());

const withoutWorld: Objective = { ...toyObjective, world: [] };

/** So long that every action ends by itself, and the environment sees it. */
const WHOLE = { maxActionTokens: 40, maxTurns: 3 } as const;

/** Trains, and gives what was said and the metrics of each step. */
async function run(
  overrides: Partial<RlOptions>,
  model: Model = endingModel(device),
): Promise<{ said: string[]; metrics: Record<string, number>[] }> {
  const said: string[] = [];
  const options = toyRlOptions(model, { warn: (text) => void said.push(text), rollout: WHOLE, ...overrides });
  const reports = await reportsOf(trainRl(options));
  return { said, metrics: reports.map(({ metrics }) => metrics) };
}

const always =
  (result: unknown): Act =>
  () =>
    result as StepResult;

describe("parts that do not belong together are refused", () => {
  it("an optimiser of another model of the same shape, which would move that one", async () => {
    const [model, other] = [endingModel(device), endingModel(device)];
    const foreign = new AdamW(other.params);
    const refused = 'it was made of another model\'s parameters, and "embedding" of this one would never change';
    await expect(run({ optimizer: foreign }, model)).rejects.toThrow(refused);
    const { template, lr } = toyRlOptions(model);
    const shared = { model, template, lr, optimizer: foreign, batchSize: 1, steps: 1, rng: new Rng(1) };
    const shown = trajectoryOf({ ...emptyStream(), ...(await oneEpisode(model)).stream });
    await expect(reportsOf(trainSft({ ...shared, demonstrations: [shown] }))).rejects.toThrow(refused);
    await expect(
      trainStep(toyRlOptions(model, { optimizer: foreign }), { play: async () => episodesOf(model) }, 0),
    ).rejects.toThrow(refused);
  });

  it("a demonstration that is longer than the model has positions; one that just fits is learnt", async () => {
    const model = endingModel(device);
    const { template, lr } = toyRlOptions(model);
    const { maxPositions } = model.config;
    const shown = trajectoryOf({ ...emptyStream(), ...(await oneEpisode(model)).stream });
    const ofLength = (n: number): Trajectory => {
      const stream = emptyStream();
      append(stream, "prompt", 0, Array<number>(n - 1).fill(1));
      append(stream, "action", 0, [2]);
      return trajectoryOf(stream);
    };
    const learn = (demonstrations: readonly Trajectory[]): Promise<unknown> => {
      const shared = {
        model,
        template,
        lr,
        optimizer: new AdamW(model.params),
        batchSize: 1,
        steps: 1,
        rng: new Rng(1),
      };
      return reportsOf(trainSft({ ...shared, demonstrations }));
    };
    await expect(learn([shown, ofLength(maxPositions + 1)])).rejects.toThrow(
      "trainSft: demonstration 1 has 65 tokens, the model has 64 positions (maxPositions)",
    );
    await expect(learn([ofLength(maxPositions)])).resolves.toHaveLength(1);
  });

  it("the model in training as its own reference (TRL: `ref_model` cannot be the same object)", async () => {
    const model = endingModel(device);
    const kl = { beta: 0.1, estimator: "k3" } as const;
    const moved = "reference: it is the model in training itself";
    await expect(run({ reference: model, objective: { ...toyObjective, kl } }, model)).rejects.toThrow(moved);
    const sameTensors = { config: model.config, params: { ...model.params } };
    await expect(run({ reference: sameTensors }, model)).rejects.toThrow(moved);
    await expect(
      reportsOf(
        trainPreference({
          ...(({ template, optimizer, lr }) => ({ template, optimizer, lr }))(toyRlOptions(model)),
          model,
          reference: model,
          pairs: [{ chosen: await oneEpisode(model), rejected: await oneEpisode(model) }],
          policyLoss: dpo(),
          batchSize: 1,
          steps: 1,
          rng: new Rng(1),
        }),
      ),
    ).rejects.toThrow(moved);
    const { metrics } = await run({ reference: endingModel(device), objective: { ...toyObjective, kl } }, model);
    expect(metrics.at(-1)!["kl"]).toBeGreaterThan(0);
  });

  it("more embeddings than the tokenizer has tokens (NVIDIA-NeMo/RL#237, verl#7882), or than the model", async () => {
    const config = modelConfig({ vocabSize: V + 3, hiddenSize: 16, layers: 1, heads: 2, maxPositions: 64 });
    const padded = { config, params: initParams(config, new Rng(1), device) };
    const refused = `the model has embeddings of ${V + 3} tokens and the tokenizer has ${V}`;
    await expect(run({}, padded)).rejects.toThrow(`trainRl: ${refused}`);
    await expect(rollout(padded, toyTemplate, toyRequests(toySpec(), 2))).rejects.toThrow(`rollout: ${refused}`);
    await expect(run({ reference: padded })).rejects.toThrow(
      `reference: it has ${V + 3} tokens in its vocabulary, the model has ${V}`,
    );
  });

  it("groups of one where an estimator compares, and groups of one and a half", async () => {
    await expect(run({ groupSize: 1 })).rejects.toThrow(
      "groupSize=1: the advantage grpo compares the episodes of a group, which needs at least 2",
    );
    await expect(run({ groupSize: 1.5 })).rejects.toThrow(/groupSize must be (an integer|integers) ≥ 1/);
    for (const advantage of [none(), reinforcePlusPlus(), rae(), grpo({ singleton: "raw" })])
      expect((await run({ groupSize: 1, steps: 1, objective: { ...toyObjective, advantage } })).metrics).toHaveLength(
        1,
      );
  });

  it("an estimator or a coefficient that has learnt in another run; the same run may go on", async () => {
    const beta = new AdaptiveKl({ beta: 0.1, target: 0.05 });
    const learning: readonly [string, Objective][] = [
      ["advantage rae", { ...toyObjective, advantage: rae() }],
      ["coefficient kl.beta", { ...toyObjective, kl: { beta, estimator: "k1" } }],
    ];
    for (const [name, objective] of learning) {
      const model = endingModel(device);
      const optimizer = new AdamW(model.params);
      const reference = toyModel(device, 1, { family: "gpt2", kvHeads: 2 });
      const mine = { objective, optimizer, reference, steps: 1 };
      await run(mine, model);
      await run({ ...mine, startStep: 1, steps: 2 }, model);
      await run(mine, model); // a second call of the same run
      await expect(run({ objective, reference, steps: 1 })).rejects.toThrow(
        `objective: the ${name} has learnt in another run`,
      );
    }
  });
});

const oneEpisode = async (model: Model) => (await rollout(model, toyTemplate, toyRequests(toySpec(), 1)))[0]!;
const episodesOf = async (model: Model) => ({
  trajectories: (
    await rollout(
      model,
      toyTemplate,
      toyRequests(
        toySpec(letters(3), () => "a"),
        4,
      ),
    )
  ).map((t, i) => ({ ...t, reward: i })),
  metrics: {},
});

describe("an environment that fails in every episode", () => {
  const broken: readonly [what: string, spec: EnvironmentSpec, error: RegExp][] = [
    [
      "reset throws",
      toySpec(letters(2), () => {
        throw new Error("no licence");
      }),
      /no licence/,
    ],
    [
      "step throws",
      toySpec(() => {
        throw new Error("server down");
      }),
      /server down/,
    ],
    [
      "step throws no error",
      toySpec(() => {
        throw { code: 7 } as unknown;
      }),
      /\{"code":7\}/,
    ],
    [
      "step throws an error without words",
      toySpec(() => {
        throw new TypeError();
      }),
      /TypeError without a message/,
    ],
    ["a Gym tuple", toySpec(always(["b", 1, true, {}])), /toy\.step: expected observation to be a string, got missing/],
    [
      "no info",
      toySpec(always({ observation: "b", reward: 1, done: true })),
      /expected info to be an object, got missing/,
    ],
    [
      "a number as observation",
      toySpec(always({ observation: 3, reward: 1, done: true, info: {} })),
      /a string, got 3/,
    ],
  ];

  it.each(broken)("%s: said in the first step, and the third ends the run with its error", async (_, env, error) => {
    const model = endingModel(device);
    const before = await paramsOf(model);
    const said: string[] = [];
    const seen: Record<string, number>[] = [];
    const training = async (): Promise<void> => {
      const options = toyRlOptions(model, { env, steps: 20, rollout: WHOLE, warn: (text) => void said.push(text) });
      for await (const { metrics } of trainRl(options)) seen.push(metrics);
    };
    const ended = training();
    await expect(ended).rejects.toThrow("trainRl: every episode of 3 steps in a row failed. The first error:");
    await expect(ended).rejects.toThrow(error);
    expect(seen).toEqual(Array.from({ length: 2 }, () => expect.objectContaining({ masked: 6 }) as object));
    expect(said).toEqual([expect.stringMatching(/^trainRl: an episode of toy in step 0.* failed \(tool_error\): /)]);
    expect(said[0]).toMatch(error);
    expect(await paramsOf(model)).toEqual(before);
  });

  it("ends the asynchronous loop, too, and loops over trainStep with options that are made anew", async () => {
    const env = toySpec(
      () => {
        throw new Error("gone");
      },
      () => "a",
    );
    const ended = "trainRl: every episode of 3 steps in a row failed. The first error: gone";
    const warn = vi.fn<(text: string) => void>();
    const asynchronous = trainRlAsync({
      ...toyRlOptions(endingModel(device), { env, steps: 9, rollout: WHOLE, warn }),
      workers: 1,
      maxStaleness: 0,
    });
    await expect(reportsOf(asynchronous)).rejects.toThrow(ended);
    const model = endingModel(device);
    const { optimizer } = toyRlOptions(model);
    const step = async (n: number) => {
      const trajectories = await rollout(model, toyTemplate, toyRequests(env, 2), WHOLE);
      return trainStep(
        toyRlOptions(model, { optimizer, warn }),
        { play: async () => ({ trajectories, metrics: {} }) },
        n,
      );
    };
    expect([(await step(0))!.step, (await step(1))!.step]).toEqual([0, 1]);
    await expect(step(2)).rejects.toThrow(ended);
  });

  it("counts steps in a row: one that is played begins anew", async () => {
    let steps = 0;
    const env = toySpec(letters(1), (seed) => {
      if (Math.floor(steps++ / 6) % 3 < 2) throw new Error("down"); // two steps of six episodes, then one that works
      return "ab"[seed % 2]!;
    });
    const { said, metrics } = await run({ env, steps: 9 });
    expect(metrics.map(({ masked }) => masked)).toEqual([6, 6, 0, 6, 6, 0, 6, 6, 0]);
    expect(said).toHaveLength(1);
  });

  it("belongs to its run: the next with the same optimiser begins anew, one that goes on counts on", async () => {
    const env = toySpec(() => {
      throw new Error("down");
    });
    const said: string[] = [];
    const shared = toyRlOptions(endingModel(device), { env, rollout: WHOLE, warn: (text) => void said.push(text) });
    const train = (steps: number, startStep?: number) =>
      reportsOf(trainRl({ ...shared, steps, ...(startStep === undefined ? {} : { startStep }) }));
    for (let i = 1; i <= 4; i++) {
      await train(1);
      expect(said).toHaveLength(i);
    }
    await train(2, 1);
    expect(said).toHaveLength(4);
    await expect(train(3, 2)).rejects.toThrow("every episode of 3 steps in a row failed");
  });

  it("is told on the console unless somebody else listens", async () => {
    const warn = vi.spyOn(console, "warn").mockImplementation(() => undefined);
    const env = toySpec(() => {
      throw new Error("down");
    });
    const { warn: _, ...options } = toyRlOptions(endingModel(device), { env, steps: 1, rollout: WHOLE });
    await reportsOf(trainRl(options));
    // With the error itself, whose stack says where the environment threw it.
    expect(warn.mock.calls).toEqual([[expect.stringContaining("down"), expect.objectContaining({ message: "down" })]]);
    warn.mockRestore();
  });
});

describe("steps in which nothing is learnt", () => {
  const pays = (reward: (episode: number) => number): EnvironmentSpec => {
    let episodes = 0;
    return toySpec(() => ({ observation: "b", reward: reward(episodes++), done: true, info: {} }));
  };
  const nothing = (said: readonly string[]): string[] => said.filter((text) => text.includes("nothing was learnt"));

  it.each([0, 1])("all %i for ten steps: said once, in the tenth", async (reward) => {
    const plain = { objective: withoutWorld, lr: () => 0 };
    expect(nothing((await run({ ...plain, env: pays(() => reward), steps: 9 })).said)).toEqual([]);
    const { said } = await run({ ...plain, env: pays(() => reward), steps: 12 });
    expect(nothing((await run({ env: pays(() => reward), steps: 12, lr: () => 0 })).said)).toEqual([]);
    expect(nothing(said)).toEqual([expect.stringMatching(/^trainRl: in 10 steps in a row nothing was learnt/)]);
  });

  it("one other reward in ten steps is enough, and a world loss; without any loss nothing is learnt", async () => {
    const once = { objective: withoutWorld, env: pays((n) => Number(n === 25)), steps: 12 };
    expect(nothing((await run(once)).said)).toEqual([]);
    const unpaid = { env: pays(() => 0), steps: 12 };
    const worldAlone = { ...toyObjective, advantage: none() };
    expect(nothing((await run({ ...unpaid, objective: worldAlone })).said)).toEqual([]);
    const nothingAtAll = { ...withoutWorld, advantage: none() };
    expect(nothing((await run({ ...unpaid, objective: nothingAtAll })).said)).toHaveLength(1);
  });

  it("a penalty learns although rewards are equal, and so does a group of one with an advantage", async () => {
    const kl = { ...withoutWorld, kl: { beta: 0.1, estimator: "k3" as const } };
    const [model, reference] = [endingModel(device), toyModel(device, 9)];
    expect(nothing((await run({ objective: kl, reference, env: pays(() => 0), steps: 11 }, model)).said)).toEqual([]);
    const raw = { ...withoutWorld, advantage: grpo({ singleton: "raw" }) };
    const alone = { objective: raw, groups: 4, groupSize: 1, steps: 11 };
    expect(nothing((await run({ ...alone, env: pays(() => 1) })).said)).toEqual([]);
    expect(nothing((await run({ ...alone, env: pays(() => 0) })).said)).toHaveLength(1);
  });

  it("actions that are all cut off are counted", async () => {
    const model = toyModel(device, 1);
    const cuts = { objective: withoutWorld, steps: 10, rollout: { maxActionTokens: 1, maxTurns: 2 } };
    const { said, metrics } = await run(cuts, model);
    const cut = Math.round(metrics.at(-1)!["completions/clipped_ratio"]! * 6);
    expect(cut).toBeGreaterThan(0);
    expect(nothing(said)[0]).toContain(`Of the last 6 episodes ${cut} ran out of tokens (maxActionTokens)`);
  });
});

it("episodes that do not fit into the model's positions: said once, and counted", async () => {
  const long = toySpec(() => ({ observation: "b".repeat(30), reward: 0, done: false, info: {} }));
  const { said, metrics } = await run({ env: long, rollout: { maxActionTokens: 20, maxTurns: 9 }, steps: 2 });
  expect(metrics.map((of) => of["context/clipped_ratio"]! > 0.1)).toEqual([true, true]);
  const told = said.filter((text) => text.includes("context_overflow"));
  expect(told).toEqual([expect.stringMatching(/^trainRl: \d of 6 episodes of toy in step 0, .*more maxPositions/)]);
  expect((await run({ steps: 1 })).metrics[0]).toMatchObject({ "context/clipped_ratio": 0 });
});

it("steps is where training ends, not how many there are: to begin behind it is refused", async () => {
  const refused = "trainRl: steps is where training ends: expected ≥ startStep 150, got 50";
  await expect(run({ steps: 50, startStep: 150 })).rejects.toThrow(refused);
  expect((await run({ steps: 3, startStep: 3 })).metrics).toEqual([]);
});

it("the error that ends a run has the environment's own as its cause", async () => {
  const own = new TypeError("x is undefined");
  const env = toySpec(() => {
    throw own;
  });
  const error = await run({ env, steps: 9 }).catch((error: unknown) => error as Error);
  expect(error).toMatchObject({ code: "INVALID", cause: own });
});

it("a close that throws masks its episode, as a step does; a rejected one ends nothing", async () => {
  const closing = (close: (n: number) => void): EnvironmentSpec => {
    const spec = toySpec(letters(1));
    let n = 0;
    return { ...spec, make: () => Object.assign(spec.make(), { close: () => close(n++) }) };
  };
  const thrown = closing((n) => {
    if (n === 4) throw new Error("socket hang up");
  });
  const { said, metrics } = await run({ env: thrown, steps: 2 });
  expect(metrics.map(({ masked }) => masked)).toEqual([1, 0]);
  expect(said).toEqual([expect.stringContaining("failed (tool_error): close: socket hang up")]);
  const rejected = closing(() => Promise.reject(new Error("late")) as unknown as void);
  expect((await run({ env: rejected, steps: 1 })).metrics[0]!["masked"]).toBe(0);
});

describe("episodes without a score", () => {
  const paying = (rewards: readonly number[]): EnvironmentSpec => {
    let n = 0;
    return toySpec(() => ({
      observation: "b",
      reward: rewards[n++ % rewards.length]!,
      done: true,
      info: { success: true },
    }));
  };

  it("are counted, and said once with environment and task (TRL#5902, ms-swift#8123)", async () => {
    const { said, metrics } = await run({ env: paying([1, NaN]), steps: 2, groupSize: 4 });
    for (const one of metrics) expect(one).toMatchObject({ unscored: 4, masked: 0, reward: 1, success: 1 });
    expect(said).toEqual([expect.stringMatching(/^trainRl: an episode of toy in step 0, task "[ab]" has no score/)]);
  });

  it("end a run that has nothing else to learn from, after as many steps as failures do", async () => {
    const ended =
      /^trainRl: every episode of 3 steps in a row has no score. The reward is NaN in toy, for the task "[ab]"/;
    await expect(run({ env: paying([NaN]), steps: 9, objective: withoutWorld })).rejects.toThrow(ended);
    // A world model learns from them.
    const { metrics } = await run({ env: paying([NaN]), steps: 4 });
    expect(metrics.map(({ unscored }) => unscored)).toEqual([6, 6, 6, 6]);
    expect(metrics.at(-1)!["world_loss"]!).toBeLessThan(metrics[0]!["world_loss"]!);
  });

  it("and failures together, too", async () => {
    let n = 0;
    const env = toySpec(() => {
      if (n++ % 2 === 0) throw new Error("down");
      return { observation: "b", reward: NaN, done: true, info: {} };
    });
    await expect(run({ env, steps: 9, objective: withoutWorld })).rejects.toThrow(
      "every episode of 3 steps in a row failed or has no score. The first error: down",
    );
  });
});

describe("members of a group with different tasks (TRL#6420, rllm#924)", () => {
  /** `reset` ignores its seed. */
  const unseeded = (): EnvironmentSpec => {
    let resets = 0;
    return toySpec(letters(1), () => "ab"[resets++ % 2]!);
  };

  it("are refused where the advantage compares them, with both tasks", async () => {
    const refused = 'two episodes of one group have different tasks, "a" and "b"';
    const model = endingModel(device);
    const before = await paramsOf(model);
    await expect(run({ env: unseeded() }, model)).rejects.toThrow(refused);
    expect(await paramsOf(model)).toEqual(before);
    await expect(run({ env: unseeded(), objective: { ...toyObjective, advantage: remax() } })).rejects.toThrow(refused);
  });

  it("are allowed by an option, which is said once, and where nothing compares them", async () => {
    const { said, metrics } = await run({ env: unseeded(), mixedGroups: true });
    expect(metrics).toHaveLength(3);
    expect(said).toEqual([expect.stringContaining("mixedGroups allows it")]);
    for (const advantage of [reinforcePlusPlus(), rae()])
      expect((await run({ env: unseeded(), objective: { ...toyObjective, advantage } })).said).toEqual([]);
  });

  it("an episode that has got no task is in no contradiction", () => {
    const played = (group: number, task: string) => trajectoryOf(emptyStream(), { group, task });
    expect(mixedMembers([played(0, "a"), played(0, ""), played(0, "a"), played(1, "b")])).toBeUndefined();
    expect(mixedMembers([played(0, ""), played(0, "a"), played(1, "b"), played(0, "c")])?.map((t) => t.task)).toEqual([
      "a",
      "c",
    ]);
  });
});

it("PaW says once that a return is above rewardMax: λ = 1 − R̄/R_max is cut off at 0 there", async () => {
  const env = toySpec(() => ({ observation: "b", reward: 5, done: true, info: {} }));
  const { said, metrics } = await run({ env, objective: { ...toyObjective, world: paw() } });
  expect(said).toEqual([expect.stringMatching(/earned 5, more than paw.rewardMax 1: its group's weight/)]);
  expect(metrics[0]).not.toHaveProperty("world_loss");
  const enough = await run({ env, steps: 1, objective: { ...toyObjective, world: paw({ rewardMax: 10 }) } });
  expect(enough.said).toEqual([]);
  expect(enough.metrics[0]).toHaveProperty("world_loss");
});

it("whatever was thrown has words", () => {
  const refusal = Object.assign(new AggregateError([new Error("a")]), { code: "ECONNREFUSED" });
  const cyclic: Record<string, unknown> = {};
  cyclic["self"] = cyclic;
  const nameless = { toString: () => expect.fail("no words") as string };
  expect(
    [new Error("down"), new Error(), new RangeError(), refusal, { code: 7 }, "text", "", undefined, null, 7].map(
      reasonOf,
    ),
  ).toEqual([
    "down",
    "Error without a message",
    "RangeError without a message",
    "AggregateError without a message (ECONNREFUSED)",
    '{"code":7}',
    "text",
    "an empty text",
    "undefined",
    "null",
    "7",
  ]);
  for (const odd of [cyclic, nameless, Object.create(null)]) expect(reasonOf(odd)).toContain("object");
});
