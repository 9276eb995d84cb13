/**
 * Episodes that other people's agents play through the server come back as trajectories: the very tokens, roles and
 * log-probabilities of a rollout of our own; forks and retokenised prompts as rows of their own; and an agent in
 * another process becomes better at its task.
 */
import OpenAI from "openai";
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from "vitest";
import type { Device } from "../../../engine/device.ts";
import { Rng } from "../../../engine/random.ts";
import type { Model } from "../../../nn/transformer.ts";
import type { Trajectory } from "../../../rl/episode/stream.ts";
import { rollout as play } from "../../../rl/play/rollout.ts";
import { optimizerStep, trainStep } from "../../../rl/train/step.ts";
import { Template } from "../../../rl/episode/template.ts";
import { echo } from "../../../rl/objective/echo.ts";
import { advantagesOf } from "../../../rl/train/advantages.ts";
import { weigh } from "../../../rl/train/weights.ts";
import {
  agentEpisodes,
  type PolicyServer,
  servePolicy,
  type ServePolicyOptions,
} from "../../../connect/serve/index.ts";
import { wasm } from "../../support/rlExecutors.ts";
import { paramsOf, toyObjective, toyRlOptions } from "../../support/rlRuns.ts";
import { endingModel, letters, toyModel, toySpec, toyTemplate, toyTokenizer } from "../../support/rlToy.ts";

let device: Device;
beforeAll(async () => {
  device = await wasm.open();
});
afterAll(() => device.dispose());

let server: PolicyServer;
afterEach(() => server.close(), 60_000);
async function start(model: Model, options: ServePolicyOptions = {}, template = toyTemplate): Promise<PolicyServer> {
  server = await servePolicy({ model, tokenizer: toyTokenizer, template }, { name: "toy", ...options });
  return server;
}
const clientOf = (baseURL: string): OpenAI => new OpenAI({ baseURL, apiKey: "none", maxRetries: 0 });
const reward = (baseUrl: string, body: object): Promise<Response> =>
  fetch(baseUrl.replace(/v1$/, "reward"), {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });

/** What OpenAI's types do not know. */
const WITH_IDS = { return_token_ids: true, ignore_eos: true };

/** A world of letters, played by an agent that only knows the API; all its turns have the same stream. */
async function agent(baseUrl: string, seed: number, stream: number): Promise<number> {
  const env = toySpec(letters(3)).make();
  const client = clientOf(baseUrl);
  const messages: { role: "user" | "assistant"; content: string }[] = [
    { role: "user", content: await env.reset(seed) },
  ];
  let total = 0;
  for (;;) {
    const { choices } = await client.chat.completions.create({ model: "toy", messages, max_tokens: 6, seed: stream });
    const { content } = choices[0]!.message;
    if (choices[0]!.finish_reason !== "stop") return total;
    const step = await env.step(content!);
    total += step.reward;
    if (step.done) return total;
    messages.push({ role: "assistant", content: content! }, { role: "user", content: step.observation });
  }
}

it.each([
  ["one end", toyTemplate],
  ["several ends", new Template(toyTokenizer, { ends: ["<|pad|>", "<|obs|>"] })],
])("an episode over HTTP is our own rollout, with its gradient: %s", async (_, template) => {
  const model = endingModel(device);
  await start(model, {}, template);
  const spec = toySpec(letters(3));
  const requests = Array.from({ length: 8 }, (_, i) => {
    const rng = new Rng(0).split(`seed ${i}`).split(0); // as the server makes it of the request's seed
    return { spec, options: {}, seed: i % 2, group: 0, rng };
  });
  const own = await play(model, template, requests, { maxActionTokens: 6, maxTurns: 3 });
  const drawn = new Set(
    own.flatMap(({ stream }) => stream.ids.filter((id, t) => template.isEnd(id) && stream.oldLogProbs[t]! < 0)),
  );
  expect(drawn.size > 1).toBe(template.endIds.length > 1);
  expect(own.some(({ stepRewards }) => stepRewards.length > 1)).toBe(true);

  const theirs: Trajectory[] = [];
  for (const [i, { seed }] of requests.entries()) {
    const { rollout, baseUrl } = server.openRollout({ group: 0, seed, env: "toy" });
    const earned = await agent(baseUrl, seed, i);
    expect((await reward(baseUrl, { reward: earned })).status).toBe(200);
    theirs.push(...(await rollout.finished));
    expect((await reward(baseUrl, { reward: 1 })).status).toBe(404);
  }
  // Agents do not tell the last answer of their world.
  const cut = own.map((trajectory): Trajectory => {
    const { stream } = trajectory;
    const end = stream.roles.lastIndexOf("action") + 1;
    const short = Object.fromEntries(
      Object.entries(stream).map(([k, column]) => [k, (column as unknown[]).slice(0, end)]),
    );
    return { ...trajectory, stream: short as unknown as Trajectory["stream"] };
  });
  expect(theirs.map(({ stream }) => stream)).toEqual(cut.map(({ stream }) => stream));

  const trained = async (trajectories: readonly Trajectory[]): Promise<number[][]> => {
    const copy = endingModel(device);
    const { optimizer } = toyRlOptions(copy);
    const advantages = advantagesOf(toyObjective, trajectories, 0, {});
    const rows = weigh(toyObjective, trajectories, advantages, 0, {}, "exact");
    await optimizerStep(copy, optimizer, rows, toyObjective, { padId: toyTemplate.padId, lr: 0.01 });
    return paramsOf(copy);
  };
  const after = await trained(theirs.map((t, i) => ({ ...t, reward: i })));
  expect(after).toEqual(await trained(cut.map((t, i) => ({ ...t, stepRewards: [], reward: i }))));
  expect(after).not.toEqual(await paramsOf(model));
});

it("prompts that do not continue are rows of their own, in which nothing is trained twice, or refused", async () => {
  await start(toyModel(device));
  const { rollout, baseUrl } = server.openRollout({ id: "mine" });
  const client = clientOf(baseUrl);
  const ask = async (prompt: number[], n = 1): Promise<number[][]> => {
    const { choices } = await client.completions.create({
      model: "toy",
      prompt,
      max_tokens: 3,
      n,
      ...WITH_IDS,
    });
    return choices.map((choice) => (choice as unknown as { token_ids: number[] }).token_ids);
  };
  const [first] = await ask([12, 0]);
  const [second] = await ask([12, 0, ...first!, 14, 3]); // continues
  const [third, fourth] = await ask([12, 0, ...first!, 15], 2); // the answer was rewritten
  await ask([12, 0, ...first!, 15, ...fourth!, 1]); // continues the last
  expect(rollout.state).toMatchObject({ turns: 5, rows: 3 });
  await reward(baseUrl, { reward: 2, step_rewards: [1, 1], success: true });
  const rows = await rollout.finished;
  expect(rows.map(({ stream }) => stream.roles.map((role) => role[0]).join(""))).toEqual([
    "ppaaasoaaa",
    "ppppppaaa",
    "ppppppaaaoaaa",
  ]);
  expect(rows[0]!.stream.ids).toEqual([12, 0, ...first!, 14, 3, ...second!]);
  expect(rows[1]!.stream.ids.slice(-3)).toEqual(third);
  expect(new Set(rows.map((row) => row.rollout)).size).toBe(1);
  expect(rows[0]).toMatchObject({ reward: 2, stepRewards: [1, 1], info: { success: true } });
  for (const { stream } of rows) {
    stream.roles.forEach((role, t) => expect(stream.oldLogProbs[t]! < 0).toBe(role === "action"));
  }
  await server.close();

  await start(toyModel(device), { onFork: "refuse" });
  const strict = server.openRollout();
  const asked = { model: "toy", prompt: [12, 0], max_tokens: 2 };
  await clientOf(strict.baseUrl).completions.create(asked);
  const refused = clientOf(strict.baseUrl).completions.create({ ...asked, prompt: [12, 1] });
  await expect(refused).rejects.toMatchObject({ status: 409, code: "prompt_is_no_continuation" });
});

it("an agent that goes silent is given up, masked; nothing of a rollout that is over is answered", async () => {
  const ended: (readonly Trajectory[])[] = [];
  await start(toyModel(device), { rolloutTimeout: 3_000, onTrajectories: (rows) => void ended.push(rows) });
  const { rollout, baseUrl } = server.openRollout();
  await clientOf(baseUrl).completions.create({ model: "toy", prompt: [1], max_tokens: 2 });
  expect(await rollout.finished).toMatchObject([{ masked: true, stopReason: "timeout" }]);
  await expect(clientOf(baseUrl).completions.create({ model: "toy", prompt: [1] })).rejects.toMatchObject({
    status: 404,
  });
  expect(ended).toHaveLength(1);
  const opened = await fetch(`${server.url}/rollouts`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ id: "a/b" }),
  });
  expect(opened.status).toBe(400);
});

/** prime-rl#2842: who rewrites the history, as Qwen3's template strips thoughts, still tells the world's news. */
it("answers that are new in a rewritten history are the world's there; nothing is a target twice", async () => {
  const model = endingModel(device);
  const say = async (client: OpenAI, history: readonly string[]): Promise<string> => {
    const messages = history.map((content, i) => ({ role: i % 2 === 0 ? "user" : "assistant", content }) as const);
    const { choices } = await client.chat.completions.create({ model: "toy", messages, max_tokens: 6 });
    return choices[0]!.message.content!;
  };
  await start(model);
  const { rollout, baseUrl } = server.openRollout();
  const client = clientOf(baseUrl);
  const first = await say(client, ["a"]);
  await say(client, ["a", `${first}!`, "bc"]); // rewritten: "bc" is new
  await say(client, ["a", `${first}?`, "bc", "d", "ef"]); // again: "ef" is new
  await say(client, ["a", "c", "bc", "c", "ef", "c", "bc"]); // "bc" came a second time
  await say(client, ["a", "d", "bc", "d", "ef"]); // nothing new
  await reward(baseUrl, { reward: 1 });
  const rows = await rollout.finished;
  const targets = rows.map(({ stream }) => toyTokenizer.decode(stream.ids.filter((_, t) => stream.targets[t])));
  expect(targets).toEqual(["", "bc", "ef", "bc", ""]);
  const weights = echo({ lambda: 1 }).weights(rows, 0);
  expect(weights.map((row) => row.filter((w) => w > 0).length)).toEqual([0, 2, 2, 2, 0]);
  for (const { stream } of rows) {
    stream.roles.forEach((role, t) => expect(stream.targets[t]).toBe(role === "observation"));
    expect(stream.roles.filter((role) => role === "action").length).toBeGreaterThan(0);
  }
  // A prompt of tokens, whose answers the template's own tokens show.
  const { act, obs, end } = {
    act: toyTokenizer.special["<|act|>"]!,
    obs: toyTokenizer.special["<|obs|>"]!,
    end: toyTemplate.endId,
  };
  const tokens = server.openRollout();
  const ask = async (prompt: number[]): Promise<void> =>
    void (await clientOf(tokens.baseUrl).completions.create({ model: "toy", prompt, max_tokens: 3 }));
  const answer = (...ids: number[]): number[] => [obs, ...ids, end, act];
  await ask([12, 0, act]);
  await ask([12, 0, act, 5, end, ...answer(1, 2)]);
  await ask([12, 0, act, 6, end, ...answer(1, 2), 7, end, ...answer(3)]);
  await reward(tokens.baseUrl, { reward: 1 });
  const raw = await tokens.rollout.finished;
  expect(raw.map(({ stream }) => stream.ids.filter((_, t) => stream.targets[t]))).toEqual([[], [1, 2], [3]]);
});

describe("agents that fail (agent-lightning#448, SkyRL#1613)", () => {
  const TASK: { role: "user"; content: string }[] = [{ role: "user", content: "a" }];
  const training = (model: Model) => ({ ...toyRlOptions(model), warn: vi.fn<(text: string) => void>() });

  it("say why, also before their first token; a loop of steps in which all fail ends", async () => {
    const model = endingModel(device);
    await start(model);
    const options = training(model);
    const failing = () =>
      agentEpisodes(server, {
        groups: 1,
        groupSize: 2,
        play: async ({ baseUrl }) => {
          await clientOf(baseUrl).chat.completions.create({ model: "gpt-4", messages: TASK });
          return 1;
        },
      });
    const report = await trainStep(options, failing(), 0);
    expect(report!.metrics).toMatchObject({ masked: 2, "agents/without_tokens": 2 });
    expect(report!.rows.map(({ trajectory }) => trajectory.info["error"])).toEqual(
      Array.from({ length: 2 }, () => expect.stringContaining("404") as string),
    );
    expect(options.warn.mock.calls).toEqual([[expect.stringMatching(/^trainRl: an episode of agent .*404/)]]);
    await trainStep(options, failing(), 1);
    await expect(trainStep(options, failing(), 2)).rejects.toThrow(/every episode of 3 steps in a row failed.*404/);
  });

  it("mask what they have sampled, and one that throws at once, or pays no number, fails like the others", async () => {
    const model = endingModel(device);
    await start(model);
    const source = agentEpisodes(server, {
      groups: 1,
      groupSize: 4,
      play: ({ baseUrl, member }) => {
        if (member === 0) throw new Error("not installed");
        const answered = clientOf(baseUrl).chat.completions.create({ model: "toy", messages: TASK, max_tokens: 4 });
        if (member === 1) return answered.then(() => Promise.reject(new Error("crashed")));
        return answered.then(() => (member === 2 ? NaN : 1));
      },
    });
    const { trajectories, metrics } = (await source.play(0))!;
    expect(trajectories.map(({ masked, info, stream }) => [masked, info["error"], stream.ids.length > 0])).toEqual([
      [true, "not installed", false],
      [true, "crashed", true],
      [true, "reward must be a number, got NaN", true],
      [false, undefined, true],
    ]);
    expect(metrics).toEqual({ "agents/without_tokens": 1 });
  });

  it("which never ask for a token have not found the server", async () => {
    const model = endingModel(device);
    await start(model);
    const source = agentEpisodes(server, { groups: 1, groupSize: 2, play: () => Promise.resolve(1) });
    await expect(trainStep(training(model), source, 7)).rejects.toThrow("no agent of step 7 has asked for a token");
  });
});
