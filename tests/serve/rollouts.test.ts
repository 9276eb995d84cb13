/**
 * Episodes that other people's agents play through the server come back as trajectories: the very tokens, roles and
 * log-probabilities of a rollout of our own; forks and retokenised prompts as rows of their own; and an agent in
 * another process becomes better at its task.
 */
import OpenAI from "openai";
import { afterAll, afterEach, beforeAll, expect, it } from "vitest";
import type { Device } from "../../engine/device.ts";
import { Rng } from "../../engine/random.ts";
import type { Model } from "../../nn/transformer.ts";
import type { Trajectory } from "../../rl/episode/stream.ts";
import { rollout as play } from "../../rl/play/rollout.ts";
import { optimizerStep } from "../../rl/train/step.ts";
import { advantagesOf } from "../../rl/train/advantages.ts";
import { weigh } from "../../rl/train/weights.ts";
import { type PolicyServer, servePolicy, type ServePolicyOptions } from "../../serve/index.ts";
import { wasm } from "../support/rlExecutors.ts";
import { paramsOf, toyObjective, toyRlOptions } from "../support/rlRuns.ts";
import { endingModel, letters, toyModel, toySpec, toyTemplate, toyTokenizer } from "../support/rlToy.ts";

let device: Device;
beforeAll(async () => {
  device = await wasm.open();
});
afterAll(() => device.dispose());

let server: PolicyServer;
afterEach(() => server.close(), 60_000);
async function start(model: Model, options: ServePolicyOptions = {}): Promise<PolicyServer> {
  server = await servePolicy({ model, tokenizer: toyTokenizer, template: toyTemplate }, { name: "toy", ...options });
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

it("an episode over HTTP has the tokens, roles, log-probabilities and the gradient of our own rollout", async () => {
  const model = endingModel(device);
  await start(model);
  const spec = toySpec(letters(3));
  const requests = Array.from({ length: 8 }, (_, i) => {
    const rng = new Rng(0).split(`seed ${i}`).split(0); // as the server makes it of the request's seed
    return { spec, options: {}, seed: i % 2, group: 0, rng };
  });
  const own = await play(model, toyTemplate, requests, { maxActionTokens: 6, maxTurns: 3 });
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
