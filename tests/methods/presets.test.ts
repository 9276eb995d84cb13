/**
 * Methods by name: the parts of each, every preset through the loop, and what is said when names, options or parts do
 * not fit together.
 */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { device as makeDevice, type Device } from "../../engine/device.ts";
import { gae } from "../../methods/advantages/index.ts";
import { grpo } from "../../rl/objective/grpo.ts";
import { ppoClip } from "../../rl/objective/clipped.ts";
import { type Objective, worldsOf } from "../../rl/objective/objective.ts";
import { listMethods, objectiveOf } from "../../methods/presets.ts";
import { type MethodChoice, METHODS } from "../../methods/choice.ts";
import { trainRl } from "../../rl/train/loop.ts";
import { randomBatch, weighStep } from "../support/rlBatches.ts";
import { fullRlOptions, reportsOf } from "../support/rlRuns.ts";
import { endingModel } from "../support/rlToy.ts";

let device: Device;
beforeAll(async () => {
  device = await makeDevice("wasm");
});
afterAll(() => device.dispose());

describe("by name", () => {
  const combined = ["echo+actfocus", "dapo+echo+paw", "reinforce+++echo"];
  const all = [...Object.keys(METHODS), "echo", "paw", "actfocus", "top_entropy", ...combined];

  it.each(all)("%s trains with finite metrics, one pass and two", async (method) => {
    const objective = objectiveOf({ method, maxLength: 15 });
    for (const iterations of objective.policyLoss.ratio === false ? [1] : [1, 2]) {
      const reports = await reportsOf(trainRl(fullRlOptions(endingModel(device), objective, { iterations })));
      expect(reports.length).toBe(2);
      for (const { metrics } of reports) {
        expect(Object.entries(metrics).filter(([, x]) => !Number.isFinite(x))).toEqual([]);
        expect("value_loss" in metrics).toBe(objective.critic !== undefined);
        expect("world_loss" in metrics).toBe(worldsOf(objective).length > 0);
      }
    }
  });

  it("a method is its parts", () => {
    const { advantage, policyLoss, aggregation, world, tokenWeights } = objectiveOf({
      method: "dr_grpo+echo+actfocus",
      maxLength: 10,
    });
    expect([advantage.name, policyLoss.name, aggregation]).toEqual(["centred", "ppo", "seq-mean-token-sum-norm"]);
    expect(tokenWeights!.name).toBe("actfocus");
    expect(worldsOf({ world: world! }).map((w) => w.name)).toEqual(["echo"]);
    const mixed = objectiveOf({
      method: "paw",
      advantage: "rloo",
      loss: "cispo",
      aggregation: "dapo",
      options: { cispo: { cap: "absolute" } },
    });
    expect([mixed.advantage.name, mixed.policyLoss.name, mixed.aggregation]).toEqual(["rloo", "cispo", "token-mean"]);
    expect(mixed.policyLoss.clip).toEqual({ low: 0, high: 5 });
    expect(objectiveOf({ method: "dapo" }).policyLoss.clip).toEqual({ low: 0.8, high: 1.28 });
    expect(objectiveOf({}).advantage.name).toBe("grpo");
    // An exchanged loss does not get the options of the one that it replaces.
    expect(objectiveOf({ method: "dapo", loss: "sapo" }).policyLoss.name).toBe("sapo");
    expect(objectiveOf({ method: "ppo" }).critic).toEqual({});
  });

  it("is listed with formula and source, one line each", () => {
    const text = listMethods();
    for (const name of [...Object.keys(METHODS), "echo", "paw", "actfocus", "vtrace", "gigpo"]) {
      expect(text).toMatch(new RegExp(`^  ${name.replaceAll("+", "\\+")} +\\S.*\\(.+\\)$`, "m"));
    }
  });

  it.each([
    [{ method: "ecko" }, 'method: unknown name "ecko"; did you mean "echo"?'],
    [{ method: "zzzzz" }, 'method: unknown name "zzzzz"; expected one of the '],
    [{ method: "grpo+dapo" }, 'method: "grpo+dapo" names 2 presets, grpo and dapo; one is possible'],
    [{ method: "echo+echo" }, 'method: "echo" is there twice'],
    [{ method: "actfocus+top_entropy" }, "one token weighting is possible"],
    [{ method: "" }, "method: the name is empty"],
    [{ loss: "pppo" }, 'policy loss: unknown name "pppo"; did you mean "ppo"?'],
    [{ advantage: "rlo" }, 'advantage: unknown name "rlo"; did you mean "rloo"?'],
    [{ aggregation: "mean" }, 'aggregation: unknown name "mean"'],
    [{ method: "dr_grpo" }, "seq-mean-token-sum-norm needs maxLength"],
    [{ loss: "dpo" }, "dpo_sigmoid learns from pairs, not from rewards; use trainPreference"],
    [
      { method: "grpo", options: { echo: { lambda: 1 } } },
      'options for "echo", which is no part of it; its parts are grpo, ppo',
    ],
    [{ method: "echo", options: { echo: { lamda: 1 } } }, "echo: unknown option 'lamda'; did you mean 'lambda'?"],
    [{ metod: "echo" }, "did you mean 'method'?"],
    ...["gdpo", "rft", "none"].map((advantage): [MethodChoice, string] => [
      { advantage, kl: { beta: 0.1, in: "reward", target: 0.05 } },
      `kl: the advantage "${advantage}" does not look at the return, ` +
        "so that a penalty in the reward would change nothing",
    ]),
    [{ method: "vtrace", importanceCorrection: {} }, '"vtrace" and the correction tis_token both correct for π/μ'],
  ])("%j is one clear error", (choice, message) => {
    expect(() => objectiveOf(choice as MethodChoice)).toThrow(message);
  });

  it("parts that do not fit together are one clear error", async () => {
    const base: Objective = { advantage: grpo(), policyLoss: ppoClip(), aggregation: "token-mean" };
    const batch = randomBatch(1);
    const paws = ["paw", "paw"].map((method, i) => objectiveOf({ method, options: { paw: { rho: 0.2 + i / 10 } } }));
    const wrongParts: [parts: Partial<Objective>, message: string][] = [
      [{ advantage: gae() }, 'the advantage "gae" needs a critic'],
      [{ critic: {} }, 'a critic, but the advantage "grpo" reads no values'],
      [{ entropy: -1 }, "entropy must be ≥ 0, got -1"],
      [{ world: paws.flatMap(worldsOf) }, 'two terms of the loss are called "paw"'],
      [{ kl: { beta: 0.1, estimator: "k4" as "k3" } }, 'kl: unknown estimator "k4"'],
    ];
    for (const [parts, message] of wrongParts) {
      expect(() => weighStep({ ...base, ...parts }, batch, 0)).toThrow(message);
    }
    const { heads: _, reference: __, ...bare } = fullRlOptions(endingModel(device), base);
    const missing: [objective: Objective, message: string][] = [
      [objectiveOf({ method: "ppo" }), 'the term "value" needs a head and its optimiser'],
      [objectiveOf({ method: "actfocus" }), "needs a reference model, for refEnergy"],
      [{ ...base, kl: { beta: 1, estimator: "k1" } }, "needs a reference model"],
    ];
    for (const [objective, message] of missing) {
      await expect(reportsOf(trainRl({ ...bare, objective }))).rejects.toThrow(message);
    }
  });
});
