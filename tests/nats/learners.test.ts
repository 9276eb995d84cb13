/** Several learners through a real server, in this process; those that are killed are in faults.long.test.ts. */
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { device as makeDevice, type Device } from "../../engine/device.ts";
import { mul } from "../../engine/ops/pointwise.ts";
import { arraysFromBytes, arraysToBytes, jsonToArray } from "../../nats/arrays.ts";
import type { LossOf } from "../../nats/follower.ts";
import { natsLearners } from "../../nats/learners.ts";
import { gradientFromBytes, gradientToBytes, turnFromJson, workFromBytes, workToBytes } from "../../nats/passes.ts";
import { serveLearner } from "../../nats/serve.ts";
import type { LossParts } from "../../rl/train/loss.ts";
import { pack } from "../../rl/train/pack.ts";
import { trainRl, type RlOptions } from "../../rl/train/loop.ts";
import { rowOf } from "../../rl/methods/columns.ts";
import { Rng } from "../../engine/random.ts";
import { type NatsServer, natsServer } from "../support/natsServer.ts";
import { paramsOf, reportsOf, toyObjective, toyRlOptions } from "../support/rlRuns.ts";
import { endingModel, randomEpisode, V } from "../support/rlToy.ts";

vi.setConfig({ testTimeout: 120_000 });

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

describe("what learners send", () => {
  const episodes = [1, 2].map((seed) => randomEpisode(new Rng(seed)));
  const rows = episodes.map((episode) =>
    rowOf(episode, { wWorld: new Float64Array(episode.stream.ids.length).fill(0.5) }),
  );
  const [batch] = [...pack(rows, { padId: 0 })];
  const how = { lr: 0.1, ratios: "exact", dropout: undefined, gradientCheckpointing: false } as const;
  const work = { how, batches: [{ n: 3, batch: batch! }] };

  it("comes back as it was", () => {
    const back = workFromBytes(workToBytes(work), V).batches[0]!;
    const { episode: _, token: __, ...rest } = batch!;
    expect(back).toMatchObject({ n: 3, batch: rest });
    const floats = new Float32Array([1, NaN, -0]);
    const gradient = { gradient: [floats], logProbs: floats, entropy: floats, terms: [1, 2, 3, undefined, NaN] };
    const finite = { ...gradient, terms: [1, 2, 3, undefined, -0.5] };
    expect(gradientFromBytes(gradientToBytes(4, 2, finite), 4, 2, 3)).toEqual(finite);
    expect(gradientFromBytes(gradientToBytes(4, 2, gradient), 4, 2, 3)).toEqual(gradient);
  });

  it.each<[string, () => unknown]>([
    ["ids of micro-batch 0 must be in [0, 4)", () => workFromBytes(workToBytes(work), 4)],
    ["places of micro-batch 0", () => workFromBytes(workToBytes(wrong({ index: batch!.index.map(() => 999) })), V)],
    ["segments of micro-batch 0", () => workFromBytes(workToBytes(wrong({ segments: 1 })), V)],
    ["ids for 9 rows of", () => workFromBytes(workToBytes(wrong({ rows: 9 })), V)],
    ['"temperatures" has not', () => workFromBytes(workToBytes(wrong({ targets: new Int32Array(1) })), V)],
    ["of another micro-batch than 2 of turn 4", () => gradientFromBytes(made(4, 3), 4, 2, 1)],
    ["log-probabilities and entropies of 2 tokens", () => gradientFromBytes(made(4, 2), 4, 2, 2)],
    ["the facts are missing", () => gradientFromBytes(arraysToBytes([new Float32Array(1)]), 4, 2, 1)],
    ["the header is missing", () => arraysFromBytes("here", new Uint8Array(3))],
    ["array 0 has no type and length", () => arraysFromBytes("here", new TextEncoder().encode('[["f16",1]]\n'))],
    ["expected 5 terms", () => gradientFromBytes(arraysToBytes([jsonToArray({ turn: 1, n: 1, terms: [] })]), 1, 1, 0)],
    ["protocol must|speaks protocol", () => turnFromJson('{"protocol":9}')],
  ])("is refused: %s", (why, read) => expect(read).toThrow(new RegExp(why.replace(/[[\]()]/g, "\\$&"))));

  const wrong = (more: object): typeof work => ({ how, batches: [{ n: 0, batch: { ...batch!, ...more } }] });
  const made = (turn: number, n: number): Uint8Array =>
    gradientToBytes(turn, n, {
      gradient: [],
      logProbs: new Float32Array(1),
      entropy: new Float32Array(1),
      terms: [0, 0, 0, undefined, undefined],
    });
});
