/** Parts of one's own that are wrong: each is refused in the first step, by its name, in one line. */
import { afterAll, beforeAll, expect, it, test } from "vitest";
import { device as makeDevice, type Device } from "../../engine/device.ts";
import { mean, type Tensor, tensor } from "../../engine/index.ts";
import type { PolicyLoss } from "../../rl/objective/policyLoss.ts";
import type { Objective } from "../../rl/objective/objective.ts";
import { Template } from "../../rl/episode/template.ts";
import type { Trajectory } from "../../rl/episode/stream.ts";
import { trainRl } from "../../rl/train/loop.ts";
import { trainSft } from "../../methods/sft.ts";
import { rewardFunction } from "../../run/ownReward.ts";
import { reportsOf, toyObjective, toyRlOptions } from "../support/rlRuns.ts";
import { endingModel } from "../support/rlToy.ts";

let device: Device;
beforeAll(async () => void (device = await makeDevice("reference")));
afterAll(() => device.dispose());

const trained = (parts: Record<string, unknown>): Promise<unknown> => {
  const objective = { ...toyObjective, ...parts } as Objective;
  return reportsOf(trainRl({ ...toyRlOptions(endingModel(device)), objective }));
};
type Rows = readonly Trajectory[];
const columns = (of: (t: Trajectory) => number[]) => (rows: Rows) => ({
  perToken: rows.map((t) => Float64Array.from(of(t))),
  fracRewardZeroStd: 0,
});
const plain = (t: Trajectory): number[] => t.stream.ids.map(() => 1);

it.each([
  ["no number", columns(() => [])],
  ["a number less for each episode", columns((t) => plain(t).slice(1))],
  ["a row less", (rows: Rows) => columns(plain)(rows.slice(1))],
  ["a row more", (rows: Rows) => columns(plain)([...rows, rows[0]!])],
  ["a number for each episode", (rows: Rows) => rows.map((t) => t.reward)],
])("an advantage of %s", async (_, estimate) => {
  await expect(trained({ advantage: { name: "mine", estimate } })).rejects.toThrow(
    /^advantagesOf: expected of mine in perToken a row for each of the \d+ episodes, with a number for each /,
  );
});

it("an advantage of NaN is said once: such steps are not trained", async () => {
  const told: string[] = [];
  const objective = { ...toyObjective, advantage: { name: "mine", estimate: columns((t) => plain(t).map(() => NaN)) } };
  const options = { ...toyRlOptions(endingModel(device)), objective, warn: (text: string) => void told.push(text) };
  const reports = await reportsOf(trainRl(options));
  expect(reports.map(({ metrics }) => metrics["grad_norm"])).toEqual([NaN, NaN, NaN]);
  expect(told).toEqual([expect.stringMatching(/^trainRl: the gradient of step 0 is NaN, /)]);
});

it("an advantage of 0 for all is none, and trains nothing", async () => {
  const estimate = columns((t) => plain(t).map(() => 0));
  await expect(trained({ advantage: { name: "mine", estimate } })).resolves.toHaveLength(3);
});

const loss = (tokenLoss: (tokens: { readonly logProbs: Tensor }) => unknown): unknown => ({
  policyLoss: { name: "mine", clip: null, ratio: false, tokenLoss } as unknown as PolicyLoss,
});
it.each([
  ["a number", () => 1],
  ["nothing", () => undefined],
  ["one number for all tokens", ({ logProbs }: { readonly logProbs: Tensor }) => mean(logProbs)],
  ["two numbers", () => tensor([1, 2], { device })],
])("a loss that returns %s", async (_, tokenLoss) => {
  await expect(trained(loss(tokenLoss) as Record<string, unknown>)).rejects.toThrow(
    /^the term "policy": expected of tokenLoss a tensor, the loss of each of the \d+ tokens, got /,
  );
});

test("a loss without `clip`, a KL penalty without `estimator`", async () => {
  const { clip: _, ...withoutClip } = toyObjective.policyLoss;
  await expect(trained({ policyLoss: withoutClip })).rejects.toThrow(
    "objective: policyLoss.clip must be { low, high }, or null without a clip, got missing",
  );
  await expect(trained({ kl: { beta: 0.1 } })).rejects.toThrow(
    "kl: estimator is missing, expected k1, k2, k3, abs, k3+",
  );
});

test("demonstrations that are still promises, or texts; a template or a reward without its part", async () => {
  const { model, template, optimizer, lr, rng } = toyRlOptions(endingModel(device));
  const options = { model, template, optimizer, lr, rng, batchSize: 4, steps: 1 };
  for (const wrong of [
    [Promise.resolve()],
    Promise.resolve([]),
    ["text"],
    [{ prompt: "a", completion: "b" }],
    [undefined],
  ])
    await expect(reportsOf(trainSft({ ...options, demonstrations: wrong as never }))).rejects.toThrow(
      /^trainSft: expected demonstrations to be a list of episodes, got .*await Promise\.all\(\[…\]\)$/,
    );
  expect(() => new Template(undefined as never)).toThrow(
    "Template: expected a tokenizer, with encode, decode and special, got missing",
  );
  expect(() => rewardFunction(() => 1, undefined as never)).toThrow(
    "rewardFunction: expected the template of the episodes, got missing",
  );
});
