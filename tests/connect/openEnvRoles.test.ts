/** Streams and the world-model loss in the terms of OpenEnv's RFC 010, against its definitions worked out by hand. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Rng } from "../../engine/random.ts";
import { echo } from "../../rl/objective/echo.ts";
import { fromTokenRoles, type TokenRoleRecord, toTokenRoles, worldModelObjective } from "../../connect/openEnvRoles.ts";
import { isAgentToken } from "../../rl/episode/stream.ts";
import { episode, randomEpisode } from "../support/rlToy.ts";

const F = false;
const T = true;

/** prompt 1 2, tag 3, thought 4, action 5 6, tag 7, answer 8 9, warning 10, tag 11, action 12, answer 13 */
const example = episode(
  [
    ["prompt", [1, 2]],
    ["scaffold", [3]],
    ["thought", [4]],
    ["action", [5, 6]],
    ["scaffold", [7]],
    ["observation", [8, 9]],
    ["observation", [10], false],
    ["scaffold", [11]],
    ["action", [12]],
    ["observation", [13]],
  ],
  { old: (t) => -t, reward: 0.5 },
);

describe("the record", () => {
  it("has a role for each token and the masks of the reference code", () => {
    expect(toTokenRoles(example)).toEqual({
      input_ids: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13],
      roles: [
        ..."context context context action action action context".split(" "),
        ..."env_output env_output warning context action env_output".split(" "),
      ],
      action_mask: [F, F, F, T, T, T, F, F, F, F, F, T, F],
      obs_mask: [F, F, F, F, F, F, F, T, T, F, F, F, T],
      warning_mask: [F, F, F, F, F, F, F, F, F, T, F, F, F],
      reward: 0.5,
      old_log_probs: [0, 0, 0, -3, -4, -5, 0, 0, 0, 0, 0, -11, 0],
    });
    expect(toTokenRoles(example, "all").obs_mask).toEqual([F, F, F, F, F, F, F, T, T, T, F, F, T]);
    expect(toTokenRoles({ ...example, reward: NaN }).reward).toBeNull();
  });

  it("survives JSON and comes back, but for what the RFC cannot say", () => {
    fc.assert(
      fc.property(fc.nat(), fc.constantFrom("env_only", "all"), fc.boolean(), (seed, target, byMasks) => {
        const before = randomEpisode(new Rng(seed), { reward: seed % 3 === 0 ? NaN : seed });
        const { roles, ...masks } = JSON.parse(JSON.stringify(toTokenRoles(before, target))) as TokenRoleRecord;
        const after = fromTokenRoles(byMasks ? masks : { ...masks, roles: roles! });
        expect(after.reward).toEqual(before.reward);
        const { stream } = before;
        expect(after.stream).toMatchObject({ ids: stream.ids, targets: stream.targets, turns: stream.turns });
        expect(after.stream.oldLogProbs.map((x) => x + 0)).toEqual(stream.oldLogProbs.map((x) => x + 0));
        expect(after.stream.roles.map(isAgentToken)).toEqual(stream.roles.map(isAgentToken));
        expect(toTokenRoles({ ...before, ...after }, target)).toEqual(toTokenRoles(before, target));
      }),
    );
  });

  it("refuses columns that do not fit, unknown roles and masks that contradict each other", () => {
    const record = toTokenRoles(example);
    const { roles: _, ...masks } = record;
    const bad =
      (more: object): (() => unknown) =>
      () =>
        fromTokenRoles({ ...masks, ...more });
    expect(bad({ roles: ["action"] })).toThrow("fromTokenRoles: 13 tokens but 1 roles");
    expect(bad({ old_log_probs: [0] })).toThrow("13 tokens but 1 old_log_probs");
    expect(bad({ obs_mask: [T] })).toThrow("13 tokens, but obs_mask is [true]");
    expect(bad({ warning_mask: undefined })).toThrow("13 tokens, but warning_mask is missing");
    expect(bad({ action_mask: record.obs_mask })).toThrow("token 7 is in action_mask and in the environment's masks");
    expect(bad({ roles: record.roles!.map(() => "agent") })).toThrow(
      'the role of token 0 is "agent", expected context',
    );
    expect(() => toTokenRoles(episode([["pad", [0]]]))).toThrow("token 0 is padding");
  });
});

describe("world_model_coeff", () => {
  const batch = [
    example,
    episode([
      ["prompt", [1]],
      ["action", [2]],
      ["observation", [3]],
      ["observation", [4], false],
    ]),
  ];

  it("weighs every target of the batch alike: coefficient over their number", () => {
    const weights = worldModelObjective({ world_model_coeff: 0.08 }).weights(batch, 0);
    expect(weights.map((row) => [...row])).toEqual([
      [0, 0, 0, 0, 0, 0, 0, 0.02, 0.02, 0, 0, 0, 0.02],
      [0, 0, 0.02, 0],
    ]);
    expect(weights).toEqual(echo({ lambda: 0.08, normalization: "token-mean" }).weights(batch, 0));
  });

  it("includes warnings if the target is all, and is nothing at 0", () => {
    const all = worldModelObjective({ world_model_coeff: 0.6, world_loss_target: "all" });
    expect(all.weights(batch, 0).map((row) => [...row].flatMap((w, t) => (w > 0 ? [[t, w]] : [])))).toEqual([
      [7, 8, 9, 12].map((t) => [t, 0.6 / 6]),
      [2, 3].map((t) => [t, 0.6 / 6]),
    ]);
    expect(
      worldModelObjective({ world_model_coeff: 0 })
        .weights(batch, 0)
        .flatMap((row) => [...row])
        .every((w) => w === 0),
    ).toBe(true);
  });

  it("defaults to 0.05 on the environment's own output, follows schedules, refuses what it does not know", () => {
    expect(worldModelObjective().weights(batch, 0)[1]![2]).toBe(0.05 / 4);
    expect(worldModelObjective({ world_model_coeff: (step) => step }).weights(batch, 8)[1]![2]).toBe(2);
    expect(() => worldModelObjective({ world_model_coef: 1 } as object)).toThrow("did you mean 'world_model_coeff'?");
    expect(() => worldModelObjective({ world_loss_target: "env" as "all" })).toThrow('must be "env_only" or "all"');
  });
});
