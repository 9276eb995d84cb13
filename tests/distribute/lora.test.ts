/** Adapters in the training loops: what they meet there, and what must stay untouched. */
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { gradientProbe } from "../../methods/gradients.ts";
import { type Device, device as makeDevice, treeLeaves } from "../../engine/index.ts";
import { Rng } from "../../engine/random.ts";
import { AdamW, initValueHead, type Model, optimizerToFiles, restoreOptimizer, trainableOf } from "../../nn/index.ts";
import { addLora, loraFromFiles, type LoraModel, type LoraOptions, loraToFiles } from "../../pretrained/index.ts";
import { policyOf } from "../../distribute/async/messages.ts";
import { serveRollouts } from "../../distribute/async/serve.ts";
import { trainRlAsync } from "../../distribute/async/train.ts";
import { messageWorkers, type WebWorkerLike } from "../../distribute/async/workers.ts";
import { gae } from "../../methods/advantages/index.ts";
import type { Objective } from "../../rl/objective/objective.ts";
import { frozenCopy } from "../../papers/preferences/loop.ts";
import { type RlOptions, trainRl } from "../../rl/train/loop.ts";
import { common, toyAsyncOptions } from "../support/rlAsync.ts";
import { readAll } from "../support/rlExecutors.ts";
import { packedAdapter, paramsOf, reportsOf, toyObjective, toyRlOptions } from "../support/rlRuns.ts";
import { endingModel, letters, toySpec, toyTemplate } from "../support/rlToy.ts";

vi.setConfig({ testTimeout: 120_000, hookTimeout: 300_000 }); // whole runs, on a machine that may be busy

let device: Device;
let exact: Device;
beforeAll(async () => {
  device = await makeDevice("wasm", { threads: 1 });
  exact = await makeDevice("reference");
});
afterAll(() => {
  device.dispose();
  exact.dispose();
});

const HOW: LoraOptions = { r: 2, loraAlpha: 8, targetModules: "all-linear" };
const adapted = (on: Device = device, how: LoraOptions = HOW): LoraModel => addLora(endingModel(on), how, new Rng(1));
const adapterOf = (model: Model): Promise<number[][]> => readAll(treeLeaves(trainableOf(model).params));
const metricsOf = async (options: RlOptions): Promise<object[]> =>
  (await reportsOf(trainRl(options))).map(({ metrics }) => metrics);
const withKl: Objective = { ...toyObjective, kl: { beta: 0.5, estimator: "k3" } };

describe("a model with an adapter", () => {
  it("with dropout learns the same when activations are computed again, from the same masks", async () => {
    const ends: number[][][] = [];
    for (const [loraDropout, gradientCheckpointing] of [
      [0.3, false],
      [0.3, true],
      [0, true],
    ] as const) {
      const model = adapted(device, { ...HOW, loraDropout });
      await metricsOf(toyRlOptions(model, { objective: withKl, gradientCheckpointing }));
      ends.push(await adapterOf(model));
    }
    expect(ends[1]).toEqual(ends[0]);
    expect(ends[2]).not.toEqual(ends[1]); // something was dropped
  });

  it("under a KL penalty and a world model has the model without it as reference, and alone is trained", async () => {
    const model = adapted();
    const [base, start] = [await paramsOf(model.trainable.base), await adapterOf(model)];
    const reports = await metricsOf(toyRlOptions(model, { objective: withKl }));
    expect(await paramsOf(model.trainable.base)).toEqual(base);
    const end = await adapterOf(model);
    end.forEach((values, i) => expect(values).not.toEqual(start[i]));
    expect(reports.map((r) => (r as { kl: number }).kl)).toSatisfy(
      ([a, b, c]: number[]) => a === 0 && b! > 0 && c! > 0,
    );

    // The same with a copy of the model as the reference.
    const other = adapted();
    const given = toyRlOptions(other, { objective: withKl, reference: endingModel(device) });
    expect(await metricsOf(given)).toEqual(reports);
    expect(await adapterOf(other)).toEqual(end);
  });

  it("has a critic beside it, whose loss reaches the adapter if it may", async () => {
    const of = async (trunk: boolean): Promise<{ head: number[][]; adapter: number[][] }> => {
      const model = adapted();
      const base = await paramsOf(model.trainable.base);
      const head = initValueHead(model.config, device);
      const objective: Objective = { ...toyObjective, advantage: gae({ gamma: 1, lambda: 1 }), critic: { trunk } };
      await metricsOf(toyRlOptions(model, { objective, heads: { value: { head, optimizer: new AdamW(head) } } }));
      expect(await paramsOf(model.trainable.base)).toEqual(base);
      return { head: await readAll(treeLeaves(head)), adapter: await adapterOf(model) };
    };
    const [apart, together] = [await of(false), await of(true)];
    expect(together.head.flat().some((x) => x !== 0)).toBe(true);
    expect(together.adapter).not.toEqual(apart.adapter);
  });

  it("has the same gradient in one batch and in many", async () => {
    const step = async (maxBatchTokens: number): Promise<object> => {
      const report = await metricsOf(
        toyRlOptions(adapted(exact), {
          steps: 1,
          maxBatchTokens,
          objective: withKl,
          probes: [gradientProbe({ shares: true })],
        }),
      );
      return Object.fromEntries(
        Object.entries(report[0]!).map(([name, x]) => [name, Math.round((x as number) * 1e10) / 1e10]),
      );
    };
    const whole = await step(10_000);
    expect(whole).toHaveProperty("grad_share/world");
    expect(await step(20)).toEqual(whole);
  });

  it("drops inputs from the step's own stream: twice the same run, and another than without", async () => {
    const run = async (loraDropout: number): Promise<object[]> =>
      metricsOf(toyRlOptions(adapted(device, { ...HOW, loraDropout }), { iterations: 2 }));
    expect(await run(0.3)).toEqual(await run(0.3));
    expect(await run(0.3)).not.toEqual(await run(0));
  });

  it.each([{}, { useDora: true, loraDropout: 0.2 }])("resumes bitwise from its files: %o", async (more) => {
    const how = { ...HOW, ...more };
    const whole = adapted(device, how);
    const reports = await metricsOf(toyRlOptions(whole, { steps: 4 }));
    const half = toyRlOptions(adapted(device, how), { steps: 2 });
    await metricsOf(half);
    const files = await loraToFiles(half.model as LoraModel);
    const { [`optimizer.safetensors`]: moments } = await optimizerToFiles(half.model.config, half.optimizer);
    const elsewhere = await makeDevice("wasm", { threads: 1 });
    const { "adapter_config.json": config, "adapter_model.safetensors": weights } = files;
    const model = loraFromFiles(endingModel(elsewhere), config as string, weights as Uint8Array);
    const resumed = toyRlOptions(model, { steps: 4, startStep: 2 });
    restoreOptimizer(model.config, resumed.optimizer, moments as Uint8Array);
    expect(await metricsOf(resumed)).toEqual(reports.slice(2));
    expect(await adapterOf(model)).toEqual(await adapterOf(whole));
    elsewhere.dispose();
  });

  it("is copied without what it shares", async () => {
    const model = adapted();
    const copy = frozenCopy(model);
    expect(copy.trainable!.base).toBe(model.trainable.base);
    expect(await adapterOf(copy)).toEqual(await adapterOf(model));
    for (const x of treeLeaves(trainableOf(copy).params)) x.dispose();
    expect(treeLeaves(model.params).some((x) => x.disposed)).toBe(false);
  });

  it("refuses an optimiser of all weights, before anything changes", async () => {
    const model = adapted();
    const before = await paramsOf(model);
    const optimizer = new AdamW(model.trainable.base.params);
    await expect(metricsOf(toyRlOptions(model, { optimizer }))).rejects.toThrow(
      /^optimizer: it was made of \d+ parameters, but \d+ of the model are trained: trainableOf\(model\)\.params$/,
    );
    expect(await paramsOf(model)).toEqual(before);
  });
});

/** A worker in this thread, to which every message is cloned as a real one's is. */
function workerBeside(log: unknown[]): WebWorkerLike {
  type Listener = (event: { readonly data: unknown }) => void;
  const spec = toySpec(letters(2));
  let [toWorker, toPage]: [Listener, Listener] = [() => undefined, () => undefined];
  const later = (to: () => Listener, message: unknown): void => {
    const data: unknown = structuredClone(message);
    setTimeout(() => to()({ data }), 0);
  };
  const stop = serveRollouts(
    {
      postMessage: (message) => later(() => toPage, message),
      addEventListener: (_, listener) => (toWorker = listener),
    },
    { environments: { [spec.name]: spec }, template: toyTemplate },
  );
  return {
    postMessage(message) {
      log.push(message);
      later(() => toWorker, message);
    },
    addEventListener(type: string, listener: (event: never) => void) {
      if (type === "message") toPage = listener as Listener;
    },
    terminate: () => void stop(),
  };
}

describe("staleness 0 is the synchronous run, bitwise", () => {
  it.each(["on this thread", "by messages"])("with workers %s, which get the adapter alone", async (where) => {
    const [one, other] = [adapted(), adapted()];
    const sync = await reportsOf(trainRl(toyRlOptions(one, { objective: withKl })));
    const sent: { kind: string; policy?: { weights: ArrayLike<number>[] }; adapter?: { frozen: object } }[] = [];
    const workers = where === "by messages" ? messageWorkers(1, () => workerBeside(sent)) : 2;
    const async = await reportsOf(trainRlAsync(toyAsyncOptions(other, { objective: withKl }, { workers })));
    expect(async.map(common)).toEqual(sync.map((r) => r.metrics));
    expect(async.map((r) => r.rows)).toEqual(sync.map((r) => r.rows));
    expect(await adapterOf(other)).toEqual(await adapterOf(one));
    expect((await policyOf(other, 0)).weights.length).toBe(treeLeaves(other.trainable.params).length);
    if (where !== "by messages") return;
    const [setup, ...rest] = sent;
    expect(Object.keys(setup!.adapter!.frozen).length).toBe(treeLeaves(other.trainable.base.params).length);
    const policies = rest.filter(({ kind }) => kind === "policy");
    expect(policies.length).toBe(3);
    const numbers = (weights: ArrayLike<number>[]): number => weights.reduce((n, w) => n + w.length, 0);
    const own = treeLeaves(other.trainable.params).reduce((n, x) => n + x.size, 0);
    for (const { policy } of policies) expect(numbers(policy!.weights)).toBe(own);
  });

  it.each(["bf16", "q8"] as const)("with workers by messages, which get what is frozen once, in %s", async (format) => {
    const [one, other] = [await packedAdapter(device, format), await packedAdapter(device, format)];
    const sync = await reportsOf(trainRl(toyRlOptions(one, { objective: withKl })));
    const sent: { kind: string; adapter?: { frozen: Record<string, object> } }[] = [];
    const workers = messageWorkers(1, () => workerBeside(sent));
    const async = await reportsOf(trainRlAsync(toyAsyncOptions(other, { objective: withKl }, { workers })));
    expect(async.map(common)).toEqual(sync.map((r) => r.metrics));
    expect(await adapterOf(other)).toEqual(await adapterOf(one));
    const setups = sent.filter(({ kind }) => kind === "setup");
    expect(setups.length).toBe(1);
    expect(setups[0]!.adapter!.frozen["layers.1.mlp.up.weight"]).toMatchObject({ format, transposed: true });
  });
});
