/**
 * Rollouts on vLLM and SGLang, and Atropos' trajectories, against servers that follow their sources
 * (tests/support/remoteServers.ts): tokens and log-probabilities are kept as they came, weights go over with a version
 * that is checked, what differs from our own forward pass is measured and corrected, and nonsense is refused.
 */
import { getEventListeners } from "node:events";
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from "vitest";
import type { Device } from "../../../engine/device.ts";
import type { Model } from "../../../nn/transformer.ts";
import {
  atropos,
  fromScoredData,
  mismatch,
  remoteRollout,
  type RemoteSampler,
  sglang,
  toScoredData,
  vllm,
} from "../../../connect/remote/index.ts";
import { request } from "../../../connect/remote/sampler.ts";
import type { Trajectory } from "../../../rl/episode/stream.ts";
import { importanceCorrection } from "../../../methods/importanceCorrection.ts";
import { trainStep } from "../../../rl/train/step.ts";
import {
  type FakeOptions,
  type FakeServer,
  fakeAtropos,
  fakeSglang,
  fakeVllm,
  silentServer,
} from "../../support/remoteServers.ts";
import { wasm } from "../../support/rlExecutors.ts";
import { toyObjective, toyRlOptions } from "../../support/rlRuns.ts";
import { endingModel, letters, toyRequests, toySpec, toyTemplate } from "../../support/rlToy.ts";

let device: Device;
let model: Model;
beforeAll(async () => {
  device = await wasm.open();
  model = endingModel(device);
});
afterAll(() => device.dispose());

const open: Pick<FakeServer, "close">[] = [];
afterEach(async () => {
  for (const server of open.splice(0)) await server.close();
});
async function kept<T extends Pick<FakeServer, "close">>(server: Promise<T>): Promise<T> {
  open.push(await server);
  return server;
}

const LIMITS = { maxTokens: 64, maxActionTokens: 6, maxTurns: 3 };
const play = (sampler: RemoteSampler, count = 6): Promise<Trajectory[]> =>
  remoteRollout(sampler, toyTemplate, toyRequests(toySpec(letters(2)), count), LIMITS);

const CASES: readonly [string, (options: FakeOptions) => Promise<FakeServer>, (url: string) => RemoteSampler][] = [
  ["vllm", fakeVllm, (url) => vllm({ url, model: "toy", logProbs: "processed_logprobs" })],
  ["sglang", fakeSglang, (url) => sglang({ url })],
];

describe.each(CASES)("%s", (_, fake, sampler) => {
  it("plays episodes whose log-probabilities are our own forward pass's", async () => {
    const server = await kept(fake({ model }));
    const played = await play(sampler(server.url));
    expect(played.map(({ group }) => group)).toEqual([0, 0, 1, 1, 2, 2]);
    expect(played.some(({ stepRewards }) => stepRewards.length === 2)).toBe(true);
    expect(played.every(({ masked }) => !masked)).toBe(true);
    const measured = await mismatch(model, toyTemplate, played);
    expect(measured["rollout_corr/max_abs_diff"]).toBeLessThan(1e-5);
    expect(await play(sampler(server.url))).toEqual(played);
  });

  it("a server with other kernels: the mismatch is measured, and weighed in the step", async () => {
    const server = await kept(fake({ model, shift: -0.25 }));
    const played = await play(sampler(server.url));
    const measured = await mismatch(model, toyTemplate, played);
    // ln r = 0.25 for every token: KL(sampler ‖ learner) is estimated as −0.25.
    expect(measured["rollout_corr/kl"]).toBeCloseTo(-0.25, 4);
    expect(measured["rollout_corr/max_abs_diff"]).toBeCloseTo(0.25, 4);
    const step = async (max: number): Promise<number> => {
      const { world: _, ...alone } = toyObjective;
      const objective = { ...alone, importanceCorrection: importanceCorrection({ max }) };
      const options = { ...toyRlOptions(endingModel(device), { objective, mixedGroups: true }), offPolicy: true };
      const report = await trainStep(
        options,
        { play: () => Promise.resolve({ trajectories: played, metrics: {} }) },
        0,
      );
      return report!.metrics["grad_norm"]!;
    };
    // Every weight is e^0.25, or 1 where it is cut there; the loss itself is nearly 0, as advantages are.
    const [whole, cut] = [await step(2), await step(1)];
    expect(whole / cut).toBeCloseTo(Math.exp(0.25), 3);
  });

  it("refuses answers that mean nothing; episodes that failed are masked", async () => {
    const spoils: readonly [(answer: Record<string, unknown>) => unknown, RegExp][] = [
      [() => ({}), /expected (choices|meta_info)/],
      [
        (a) => JSON.parse(JSON.stringify(a).replaceAll(/-\d+\.\d+(e-\d+)?/g, "null")) as unknown,
        /expected a log-probability/,
      ],
      [
        (a) => JSON.parse(JSON.stringify(a).replaceAll(/-\d+\.\d+(e-\d+)?/g, "3")) as unknown,
        /expected a log-probability/,
      ],
      [() => "no JSON", /expected JSON/],
    ];
    for (const [spoil, message] of spoils) {
      const server = await kept(fake({ model, spoil }));
      await expect(play(sampler(server.url), 2)).rejects.toThrow(message);
    }
    let count = 0;
    const once = await kept(fake({ model, spoil: (a) => (count++ === 0 ? {} : a) }));
    const played = await play(sampler(once.url), 4);
    expect(played.filter(({ masked }) => masked)).toMatchObject([{ stopReason: "tool_error" }]);
    await expect(play(sampler("http://127.0.0.1:9"), 1)).rejects.toThrow(new RegExp("127.0.0.1:9"));
  });
});

describe("a request", () => {
  it("a thousand on the signal of a run leave one listener there, and end when the run does", async () => {
    const run = new AbortController();
    vi.stubGlobal("fetch", () => Promise.resolve(new Response("{}")));
    for (let i = 0; i < 1000; i++) await request({ url: "http://x" }, "GET", "/", { signal: run.signal });
    expect(getEventListeners(run.signal, "abort")).toHaveLength(1);
    // Where Node keeps the signals that depend on this one, each for ever (AbortSignal.any, Node 20).
    const own = Object.getOwnPropertySymbols(run.signal).map((key) => (run.signal as never)[key] as unknown);
    expect(own.flatMap((value) => (value instanceof Set ? [value.size] : []))).toEqual([]);
    vi.unstubAllGlobals();

    const silent = await kept(silentServer());
    const asked = request({ url: silent.url }, "GET", "/", { signal: run.signal });
    await silent.asked;
    run.abort(new Error("Ctrl-C"));
    await expect(asked).rejects.toThrow("Ctrl-C");
    await expect(request({ url: silent.url }, "GET", "/", { signal: run.signal })).rejects.toThrow("Ctrl-C");
    await expect(request({ url: silent.url, timeout: 20 }, "GET", "/")).rejects.toThrow("no answer within 20 ms");
  });

  it("has a connection of its own: an idle one may be closed while a training step holds the event loop", async () => {
    const server = await kept(fakeAtropos());
    const { batch } = atropos({ url: server.url });
    for (let i = 0; i < 3; i++) await expect(batch()).rejects.toThrow("not registered");
    expect(server.connections()).toBe(3);
  });
});

describe("weights", () => {
  it("go to SGLang by a folder, between pause and continue, and its version is checked", async () => {
    const folders: string[] = [];
    const server = await kept(fakeSglang({ model, load: (folder) => folder !== "bad" && folders.push(folder) > 0 }));
    const sampler = sglang({ url: server.url });
    const prompt = { prompt: [12, 0], maxTokens: 3, temperature: 1, endIds: toyTemplate.endIds, seed: 1 };
    expect((await sampler.sample(prompt)).version).toBe("default");
    await sampler.load("runs/x/step-3", "3");
    expect(server.received.slice(1).map(({ route }) => route)).toEqual([
      "POST /pause_generation",
      "POST /update_weights_from_disk",
      "POST /continue_generation",
    ]);
    expect((await sampler.sample(prompt)).version).toBe("3");
    await expect(sampler.load("bad", "4")).rejects.toThrow("status 400");
    expect((await sampler.sample(prompt)).version).toBe("3"); // it goes on with what it has
    await sglang({ url: server.url }).load("runs/x/step-5", "5");
    await expect(sampler.sample(prompt)).rejects.toThrow('expected weights of version 3, "5" answered');
  });

  it("go to vLLM as adapters, each version under a name of its own", async () => {
    const server = await kept(fakeVllm({ model }));
    const sampler = vllm({ url: server.url, model: "toy" });
    const prompt = { prompt: [12, 0], maxTokens: 3, temperature: 1, endIds: toyTemplate.endIds, seed: 1 };
    expect((await sampler.sample(prompt)).version).toBeUndefined();
    await sampler.load("adapters/1", "1");
    await sampler.load("adapters/2", "2");
    expect((await sampler.sample(prompt)).version).toBe("2");
    expect(
      server.received.map(({ route, body }) => [route.split("/").at(-1), body["model"] ?? body["lora_name"]]),
    ).toEqual([
      ["completions", "toy"],
      ["load_lora_adapter", "worldgrad-1"],
      ["load_lora_adapter", "worldgrad-2"],
      ["unload_lora_adapter", "worldgrad-1"],
      ["completions", "worldgrad-2"],
    ]);
    await expect(sampler.sample({ ...prompt, temperature: 0.5 })).rejects.toThrow("temperature must be 1");
    await expect(vllm({ url: server.url, model: "other" }).sample(prompt)).rejects.toThrow("status 404");
  });
});

describe("Atropos", () => {
  it("takes our groups and gives them back as batches", async () => {
    const server = await kept(fakeAtropos());
    const client = atropos({ url: server.url });
    await expect(client.batch()).rejects.toThrow("Trainer not registered");
    await client.register({
      wandb_group: "g",
      wandb_project: "p",
      batch_size: 4,
      max_token_len: 64,
      checkpoint_dir: "",
      save_checkpoint_interval: 1,
      starting_step: 0,
      num_steps: 1,
    });
    const sampling = await kept(fakeSglang({ model }));
    const played = await play(sglang({ url: sampling.url }), 4);
    expect(await client.send(played.slice(0, 2), 0)).toBe("received");
    expect(await client.batch()).toBeUndefined();
    await client.send(played.slice(2));
    const back = (await client.batch(7))!;
    expect(back.map(({ group }) => group)).toEqual([0, 0, 1, 1]);
    back.forEach(({ stream, reward }, i) => {
      const { stream: sent, reward: earned } = played[i]!;
      expect([stream.ids, stream.oldLogProbs, reward]).toEqual([sent.ids, sent.oldLogProbs, earned]);
      const isAction = (roles: readonly string[]): boolean[] => roles.map((role) => role === "action");
      expect(isAction(stream.roles)).toEqual(isAction(sent.roles));
      expect(stream.turns.filter((_, t) => stream.roles[t] === "action")).toEqual(
        sent.turns.filter((_, t) => sent.roles[t] === "action"),
      );
      stream.versions.forEach((version, t) => expect(version).toBe(stream.roles[t] === "action" ? 7 : -1));
    });
    await expect(client.send([{ ...played[0]!, masked: true }])).rejects.toThrow("no episode of the group");
  });

  it("marks tokens as its environments do, and refuses lists that do not fit", () => {
    const stream = { ids: [5, 6, 7], roles: ["prompt", "action", "observation"], oldLogProbs: [0, -0.5, 0] };
    const group = [{ masked: false, reward: 1, stream } as unknown as Trajectory];
    const data = toScoredData(group, 3);
    expect(data).toEqual({
      tokens: [[5, 6, 7]],
      masks: [[-100, 6, -100]],
      scores: [1],
      inference_logprobs: [[1, -0.5, 1]],
      env_id: 3,
    });
    expect(fromScoredData(data, 2)).toMatchObject([{ group: 2, reward: 1, stream: { roles: stream.roles } }]);
    for (const [wrong, message] of [
      [{ ...data, inference_logprobs: null }, "inference_logprobs must be"],
      [{ ...data, scores: [] }, "scores must be 1 numbers"],
      [{ ...data, masks: [[-100, 6]] }, "3 tokens, 2 masks"],
      [{ ...data, masks: [[-100, 9, -100]] }, "token 1 is trained, but its mask is 9"],
      [{ ...data, inference_logprobs: [[1, 1, 1]] }, "its log-probability 1"],
      [null, "tokens must be lists"],
    ] as const) {
      expect(() => fromScoredData(wrong, 0)).toThrow(message);
    }
  });
});
