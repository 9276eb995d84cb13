/**
 * What somebody new gives to the training loops: an option left out, a number or a name where a function is expected,
 * an environment's episode in the place of its spec. Each is one error that names what was expected and what came,
 * before anything is played; the mistakes are those of a first afternoon with the library in plain JavaScript.
 */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { device as makeDevice, type Device, WorldgradError } from "../../engine/index.ts";
import { ppoClip } from "../../rl/objective/clipped.ts";
import { iteratePreferences } from "../../papers/preferences/loop.ts";
import { trainRlAsync } from "../../distribute/async/train.ts";
import { AgentWorker, serveAgent } from "../../distribute/worker/index.ts";
import { trainPreference } from "../../methods/preference.ts";
import { trainRl } from "../../rl/train/loop.ts";
import { trainSft } from "../../methods/sft.ts";
import { FailedTasks } from "../../data/pools.ts";
import { ReplayBuffer } from "../../data/replay.ts";
import { toyObjective, toyRlOptions } from "../support/rlRuns.ts";
import { letters, toyModel, toySpec } from "../support/rlToy.ts";

let on: Device;
beforeAll(async () => void (on = await makeDevice("wasm", { threads: 1 })));
afterAll(() => on.dispose());

/** Options as plain JavaScript gives them; undefined: left out. */
type Loose = Readonly<Record<string, unknown>>;

/** Overrides of the options of `trainRl`, and what the error says of them, after `trainRl: `. */
const MISTAKES: readonly (readonly [string, Loose, string])[] = [
  ["no model", { model: undefined }, "model must be a model { config, params }, got missing"],
  ["a model's parameters alone", { model: { embedding: 1 } }, 'model { config, params }, got {"embedding":1}'],
  ["no template", { template: undefined }, "template must be new Template(tokenizer), got missing"],
  ["no optimizer", { optimizer: undefined }, "optimizer must be an optimiser, new AdamW(trainableOf(model).params)"],
  ["lr, a number", { lr: 1e-3 }, "lr must be a function of the step, schedule({ lr: 1e-3 }), got 0.001"],
  ["no lr", { lr: undefined }, "lr must be a function of the step, schedule({ lr: 1e-3 }), got missing"],
  ["no rng", { rng: undefined }, "rng must be a stream of random numbers, new Rng(0), got missing"],
  ["rng, a seed", { rng: 3 }, "rng must be a stream of random numbers, new Rng(0), got 3"],
  ["no steps", { steps: undefined }, "steps must be an integer ≥ 0, got missing"],
  ["steps, a part", { steps: 1.5 }, "steps must be an integer ≥ 0, got 1.5"],
  ["startStep, a text", { startStep: "3" }, 'startStep must be an integer ≥ 0, got "3"'],
  ["no env", { env: undefined }, "env must be the spec of an environment, an object with make(), got missing"],
  [
    "env, a name",
    { env: "gridworld" },
    'env must be the spec of an environment, an object with make(), got "gridworld"',
  ],
  ["env, a class", { env: Map }, "env must be the spec of an environment, an object with make(), got function"],
  [
    "env, an episode",
    { env: toySpec(letters(2)).make() },
    "env must be the environment's spec and not what its make()",
  ],
  ["no groups", { groups: undefined }, "groups and groupSize must be integers ≥ 1, got missing and 3"],
  ["groups, a part", { groups: 1.5 }, "groups and groupSize must be integers ≥ 1, got 1.5 and 3"],
  ["no rollout", { rollout: undefined }, "rollout must be options of `rollout`, {} for its defaults, got missing"],
  ["temperature, a number", { temperature: 0.7 }, "temperature must be a function of the step"],
  ["no objective", { objective: undefined }, "objective: expected options { advantage, policyLoss,"],
  ["reference, a path", { reference: "runs/a" }, 'reference must be a model { config, params }, got "runs/a"'],
  ["heads, switched on", { heads: true }, "heads must be { TERM: { head, optimizer } }, got true"],
  ["a head, switched on", { heads: { value: true } }, "heads.value must be { head, optimizer }, got true"],
  ["plugins, a number", { plugins: 2 }, "plugins must be a list of plug-ins, got 2"],
  [
    "a plug-in by name",
    { plugins: ["replay"] },
    'plugins[0] must be a plug-in, such as new ReplayBuffer(), got "replay"',
  ],
  ["a plug-in's class", { plugins: [ReplayBuffer] }, "plugins[0] must be a plug-in, such as new ReplayBuffer(), got"],
  ["a hook misspelt", { plugins: [{ name: "x", extends: () => ({}) }] }, "plugins[0] must be a plug-in, such as new"],
  [
    "two plug-ins of a name",
    { plugins: [new ReplayBuffer(), new ReplayBuffer()] },
    "two plugins have the name replay, under which one would be saved",
  ],
  [
    "two that choose tasks",
    { plugins: [new FailedTasks(), { name: "own", task: () => ({ name: "a" }) }] },
    "the plugins curriculum and own choose tasks; leave one of them out",
  ],
];

/** Parts of the objective, and what the error says of them, after `objective: `. */
const PARTS: readonly (readonly [string, Loose, string])[] = [
  ["advantage, a name", { advantage: "grpo" }, 'advantage must be an advantage estimator, such as grpo(), got "grpo"'],
  ["no advantage", { advantage: undefined }, "advantage must be an advantage estimator, such as grpo(), got missing"],
  ["the maker itself", { policyLoss: ppoClip }, "policyLoss must be a policy loss, such as ppoClip(), got function"],
  ["no policyLoss", { policyLoss: undefined }, "policyLoss must be a policy loss, such as ppoClip(), got missing"],
  ["aggregation misspelt", { aggregation: "mean" }, "aggregation must be token-mean, token-sum, seq-mean-token-sum,"],
  ["no aggregation", { aggregation: undefined }, "prompt-mean-token-mean, got missing"],
  ["world, a name", { world: "echo" }, 'world must be a world model\'s loss, such as echo(), got "echo"'],
  ["tokenWeights, a name", { tokenWeights: "actfocus" }, "tokenWeights must be a token weighting, such as actFocus()"],
  ["a correction by name", { importanceCorrection: "tis" }, 'importanceCorrection(…), got "tis"'],
  ["kl, a number", { kl: 0.1 }, "kl: expected options { beta, estimator, in, clamp, importance }, got 0.1"],
  ["kl without beta", { kl: { estimator: "k3" } }, "kl.beta must be ≥ 0, got missing"],
];

describe("trainRlAsync says what workers are", () => {
  const each: readonly (readonly [unknown, string])[] = [
    [undefined, "workers must be a number of workers, or what localWorkers(2) makes, got missing"],
    [null, "workers must be a number of workers, or what localWorkers(2) makes, got null"],
    ["two", 'workers must be a number of workers, or what localWorkers(2) makes, got "two"'],
    [{}, "workers must be a number of workers, or what localWorkers(2) makes, got {}"],
    [{ start: () => undefined }, "expected 1 to 64 workers, got missing"],
  ];
  for (const [workers, message] of each)
    it(JSON.stringify(workers) ?? "none", async () => {
      const options = { ...toyRlOptions(toyModel(on), { steps: 1 }), maxStaleness: 0, workers };
      const first = trainRlAsync(options as never).next();
      await expect(first).rejects.toThrow(WorldgradError);
      await expect(first).rejects.toThrow(`trainRlAsync: ${message}`);
    });
});

describe("trainRl says what it needs", () => {
  const once = async (overrides: Loose): Promise<unknown> =>
    trainRl({ ...toyRlOptions(toyModel(on), { steps: 1 }), ...overrides }).next();

  for (const [name, overrides, message] of MISTAKES)
    it(name, async () => {
      const caught = await once(overrides).catch((error: unknown) => error);
      expect(caught).toBeInstanceOf(WorldgradError);
      expect((caught as Error).message).toContain(message);
      expect((caught as Error).message).toMatch(/^(trainRl|objective): /);
    });

  for (const [name, overrides, message] of PARTS)
    it(`objective: ${name}`, async () => {
      const caught = await once({ objective: { ...toyObjective, ...overrides } }).catch((error: unknown) => error);
      expect(caught).toBeInstanceOf(WorldgradError);
      expect((caught as Error).message).toContain(message);
    });

  it("an option of the rollout, before an episode begins", async () => {
    let begun = 0;
    const env = toySpec((action, turn) => (begun++, letters(2)(action, turn)));
    await expect(once({ env, rollout: { maxTurns: 0 } })).rejects.toThrow("rollout: maxTurns must be");
    expect(begun).toBe(0);
  });

  it("through a worker, with the worker's own stack", async () => {
    const { port1, port2 } = new MessageChannel();
    const { steps: _, ...options } = toyRlOptions(toyModel(on));
    serveAgent(() => ({ ...options, lr: 1e-3 }) as never, port2);
    const agent = new AgentWorker(port1);
    const caught = await agent.create().catch((error: unknown) => error);
    expect((caught as Error).message).toContain("trainRl: lr must be a function of the step");
    expect((caught as Error).stack).toContain("serveAgent.ts");
    port1.close();
  });

  it("a worker whose create gives nothing", async () => {
    const { port1, port2 } = new MessageChannel();
    serveAgent(() => undefined as never, port2);
    const agent = new AgentWorker(port1);
    await expect(agent.create()).rejects.toThrow(
      "serveAgent: create must return an agent, options of trainRl, got miss",
    );
    port1.close();
  });
});

it("the other loops refuse the same", async () => {
  const { model, template, optimizer, rng } = toyRlOptions(toyModel(on));
  const shared = { model, template, optimizer, rng, steps: 1, batchSize: 1 };
  const wrong = { ...shared, lr: 1e-3, iterations: 1 } as never;
  const message = "lr must be a function of the step, schedule({ lr: 1e-3 }), got 0.001";
  const { iterations: _, ...once } = wrong as { iterations: number };
  await expect(trainSft(once as never).next()).rejects.toThrow(`trainSft: ${message}`);
  await expect(trainPreference(once as never).next()).rejects.toThrow(`trainPreference: ${message}`);
  await expect(iteratePreferences("trainAgentQ", wrong, {} as never).next()).rejects.toThrow(`trainAgentQ: ${message}`);
  const named = { ...shared, lr: () => 0.1, pairs: [1], policyLoss: "dpo" } as never;
  await expect(trainPreference(named).next()).rejects.toThrow("trainPreference: policyLoss must be a policy loss");
});
