/** Several learners through a real server, in this process. Some are killed in learnersKilled.long.test.ts. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { device as makeDevice, type Device } from "../../engine/device.ts";
import { mul } from "../../engine/ops/pointwise.ts";
import { treeLeaves } from "../../engine/tree.ts";
import { trainableOf } from "../../nn/transformer.ts";
import type { LossOf } from "../../nats/follower.ts";
import { natsLearners } from "../../nats/learners.ts";
import { serveLearner } from "../../nats/serve.ts";
import type { LossParts } from "../../rl/train/loss.ts";
import { trainRl, type RlOptions } from "../../rl/train/loop.ts";
import { type NatsServer, natsServer } from "../support/natsServer.ts";
import { readAll } from "../support/rlExecutors.ts";
import { packedAdapter, paramsOf, reportsOf, toyObjective, toyRlOptions } from "../support/rlRuns.ts";
import { endingModel } from "../support/rlToy.ts";

let device: Device;
let server: NatsServer;
beforeAll(async () => {
  device = await makeDevice("wasm");
  server = await natsServer();
});
afterAll(async () => {
  await server.close();
  device.dispose();
});

/** Learners in this process, until `ended`. */
function followers(queue: string, count: number, objective: LossOf = toyObjective) {
  const stop = new AbortController();
  const notes: string[] = [];
  const served = Array.from({ length: count }, (_, i) =>
    serveLearner({
      server: `${server.url}/${queue}`,
      objective,
      name: `l${i}`,
      signal: stop.signal,
      note: (line) => void notes.push(line),
    }),
  );
  const ended = () => {
    stop.abort();
    return Promise.all(served);
  };
  return { ended, notes };
}

const outcome = async (options: RlOptions) => {
  const reports = await reportsOf(trainRl(options));
  const params = await paramsOf(options.model);
  return { metrics: reports.map((r) => r.metrics), scores: reports.map((r) => r.scores), params };
};
const run = (more: Partial<RlOptions> = {}): RlOptions => toyRlOptions(endingModel(device), more);

/** A run with others: its outcome and what it said. */
async function shared(queue: string, more: Partial<RlOptions> = {}) {
  const notes: string[] = [];
  const learners = await natsLearners({ server: `${server.url}/${queue}`, note: (line) => void notes.push(line) });
  try {
    return { ...(await outcome(run({ ...more, learners }))), notes };
  } finally {
    await learners.close();
  }
}

describe("learners behind a server", () => {
  it("are one learner, bit for bit: two and three, and in a later run", async () => {
    const alone = await outcome(run());
    for (const count of [1, 2]) {
      const others = followers("same", count);
      const { notes, ...result } = await shared("same");
      expect(result).toEqual(alone);
      expect(notes.filter((line) => line.endsWith("is here"))).toHaveLength(count);
      expect(await shared("same")).toMatchObject(alone); // the same followers, another life
      for (const { steps, microBatches } of await others.ended()) {
        // Each turn begins with a comparison of weights. The last step of a run may be left out: the run is over.
        expect(steps).toBeGreaterThanOrEqual(4);
        expect(microBatches).toBeGreaterThan(2);
      }
    }
  });

  it.each(["bf16", "q8"] as const)("learn an adapter on a model in %s, which is sent as it is", async (format) => {
    const options = async (): Promise<RlOptions> => toyRlOptions(await packedAdapter(device, format));
    const one = await options();
    const metrics = (await reportsOf(trainRl(one))).map((r) => r.metrics);
    const others = followers(format, 1);
    const learners = await natsLearners({ server: `${server.url}/${format}` });
    const other = { ...(await options()), learners };
    const reports = await reportsOf(trainRl(other));
    await learners.close();
    expect((await others.ended())[0]!.microBatches).toBeGreaterThan(2);
    expect(reports.map((r) => r.metrics)).toEqual(metrics);
    const adapterOf = ({ model }: RlOptions): Promise<number[][]> => readAll(treeLeaves(trainableOf(model).params));
    expect(await adapterOf(other)).toEqual(await adapterOf(one));
  });

  it("join and leave in the middle of a run", async () => {
    const steps = 6;
    const alone = await outcome(run({ steps }));
    const early = followers("change", 1);
    const learners = await natsLearners({ server: `${server.url}/change` });
    const options = run({ steps, learners });
    let late: ReturnType<typeof followers> | undefined;
    const metrics: unknown[] = [];
    for await (const report of trainRl(options)) {
      metrics.push(report.metrics);
      if (report.step === 0) late = followers("change", 1);
      if (report.step === 1) expect((await early.ended())[0]!.steps).toBeGreaterThan(0);
      if (report.step <= 2) await new Promise((resolve) => setTimeout(resolve, 400)); // the other one finds its way
    }
    await learners.close();
    expect((await late!.ended())[0]!.steps).toBeGreaterThan(0);
    expect(metrics).toEqual(alone.metrics);
    expect(await paramsOf(options.model)).toEqual(alone.params);
  });

  it("that compute something else take no part, in one line each", async () => {
    const steps = 6;
    const alone = await outcome(run({ steps }));
    const { policyLoss } = toyObjective;
    const liar: LossParts = {
      ...toyObjective,
      policyLoss: { ...policyLoss, tokenLoss: (tokens) => mul(policyLoss.tokenLoss(tokens), 1.0001) },
    };
    const others = [
      followers("lies", 1, liar),
      followers("lies", 1, { policyLoss: { ...policyLoss, name: "another" } }),
    ];
    const notes: string[] = [];
    const saying = (text: string): string[] => notes.filter((line) => line.includes(text));
    const lie = "not, to the last bit, what this learner computes";
    const refusal = "refuses: this learner has another loss";
    const learners = await natsLearners({ server: `${server.url}/lies`, note: (line) => void notes.push(line) });
    const options = run({ steps, learners });
    const metrics: unknown[] = [];
    for await (const report of trainRl(options)) {
      metrics.push(report.metrics);
      // They find their way meanwhile, however busy the machine is; the last steps are played without them.
      for (let i = 0; i < 20 && report.step < 4 && (saying(lie).length === 0 || saying(refusal).length === 0); i++)
        await new Promise((resolve) => setTimeout(resolve, 50));
    }
    await learners.close();
    for (const { ended } of others) await ended();
    expect(metrics).toEqual(alone.metrics);
    expect(await paramsOf(options.model)).toEqual(alone.params);
    expect(saying(lie)).toHaveLength(1);
    expect(saying(refusal).length).toBeGreaterThan(0);
  });
});
