/** Recipes: one name for a paper's method with its data and rewards, and what the user says beside it. */
import { describe, expect, it } from "vitest";
import { inWordsOf, listRecipes, recipeOf, RECIPES } from "../../run/recipes.ts";
import { UsageError } from "../../run/usage.ts";
import { objectiveFor } from "../../run/methods.ts";
import { groupsKept } from "../../methods/filter.ts";
import { presetOfFlags, presetOfStudent, set } from "../support/presetOfFlags.ts";

describe("a recipe", () => {
  it.each(Object.entries(RECIPES))("%s is the settings of the flags that it stands for", (name, recipe) => {
    const env = name === "coderl" ? ["--env", "code"] : [];
    const flags = ["--method", recipe.method, ...env, ...set(...recipe.set)];
    const presetOf = name === "opd" ? presetOfStudent : presetOfFlags;
    expect(presetOf("--method", name, ...env)).toEqual(presetOf(...flags));
  });

  it("opd has no reward and no world model, only the KL to a teacher, whose gradient is that of k2 in the loss", () => {
    const preset = presetOfStudent("--method", "opd");
    const { advantage, world, kl, entropy } = objectiveFor(preset.rl, 100);
    expect([advantage.name, world, entropy]).toEqual(["none", undefined, undefined]);
    expect(kl).toMatchObject({ beta: 1, estimator: "k2" }); // tests/rl/klDirection.test.ts has the gradients
    expect(presetOfStudent("--method", "opd+echo").rl.method).toBe("grpo_token+echo");
    const rewarded = presetOfStudent("--method", "opd", "--advantage", "grpo", "--kl", "0.1");
    expect([rewarded.rl.advantage, rewarded.rl.kl]).toEqual(["grpo", { beta: 0.1, estimator: "k2" }]);
  });

  it("opd needs a teacher, and a teacher a method that asks one", () => {
    expect(() => presetOfFlags("--method", "opd")).toThrow(
      "--method opd learns from another model: name its folder, or its run, by --teacher PATH",
    );
    for (const method of ["grpo", "sft", "echo"])
      expect(() => presetOfStudent("--method", method)).toThrow(
        `--teacher: --method ${method} asks no reference; add --kl X, or choose --method opd`,
      );
    expect(presetOfStudent("--method", "grpo", "--kl", "0.1").teacher).toEqual({ path: "teacher", sha256: "0" });
    expect(() => presetOfStudent("--method", "opd", ...set("tokenizer.vocabSize=300"))).toThrow(
      "--set tokenizer.vocabSize is about a tokenizer that is made, and the run begins with another's",
    );
  });

  it("starpo_s has a critic, no KL, clip-higher, an entropy bonus, a filter and a price for malformed actions", () => {
    const { rl } = presetOfFlags("--method", "starpo_s");
    const { advantage, policyLoss, kl, entropy, critic } = objectiveFor(rl, 100);
    expect([advantage.name, policyLoss.clip, kl, entropy]).toEqual(["gae", { low: 0.8, high: 1.28 }, undefined, 0.001]);
    expect(critic).toBeDefined();
    expect(rl.reward).toEqual({ malformed: 0.1, cap: 0.8 });
    expect(groupsKept([0, 0.2, 0.5, 0.1], rl.rolloutFilter!)).toEqual([2]); // the paper's quarter: the third group
  });

  it("dapo_full refills ten times and then fails, and vapo_full trains its critic first", () => {
    const dapo = presetOfFlags("--method", "dapo_full+echo");
    expect(dapo.data?.dynamicSampling).toEqual({ on: true, maxRefills: 10, exhausted: "fail" });
    expect([dapo.rl.method, dapo.rl.reward]).toEqual(["dapo+echo", { overlong: 0.5, cap: 0.5 }]);
    expect(presetOfFlags("--method", "vapo_full").rl.critic).toEqual({ pretrain: 50, rate: 2 });
  });

  it("comes after what the user sets, and leaves the options of an exchanged part out", () => {
    const own = presetOfFlags("--method", "vapo_full", ...set("critic.pretrain=3"));
    expect(own.rl.critic).toEqual({ pretrain: 3, rate: 2 });
    const exchanged = presetOfFlags("--method", "starpo_s", "--advantage", "bi_level_gae");
    expect(exchanged.rl.options).toEqual({ ppo: { epsilon: 0.2, epsilonHigh: 0.28 } });
    const other = presetOfFlags("--method", "starpo_s", "--loss", "reinforce");
    expect(other.rl.options).toEqual({ gae: { gamma: 1, lambda: 1 } });
    for (const { rl } of [exchanged, other]) expect(rl.rolloutFilter).toEqual({ strategy: "top_k", value: 0.25 });
  });

  it("webrl_full tries failed tasks and their kind again, and replays what is neither strange nor trivial", () => {
    const { rl, data } = presetOfFlags("--method", "webrl_full");
    expect(objectiveFor(rl, 100).policyLoss.name).toBe("webrl");
    expect(data).toEqual({
      curriculum: { name: "failed+learnability", variants: 0.5 },
      replay: { perStep: 2, minProbability: 0.5, maxProbability: 0.95 },
    });
    const own = presetOfFlags("--method", "webrl_full", "--curriculum", "pools", "--replay", "3");
    expect(own.data?.curriculum).toEqual({ name: "pools" });
    expect(own.data?.replay?.perStep).toBe(3);
    expect(own.data?.replay?.minProbability).toBe(0.5);
    const without = presetOfFlags("--method", "webrl_full", "--replay", "0").data;
    expect(without).toEqual({ curriculum: { name: "failed+learnability", variants: 0.5 } });
    expect(() => presetOfFlags("--curriculum", "failed", ...set("curriculum.variants=0.5"))).toThrow(
      "--set curriculum.variants is about --curriculum failed+learnability; add it",
    );
  });

  it("is a layer that says whose it is, and leaves the add-ons", () => {
    const { method, layer } = recipeOf("echo+vapo_full")!;
    expect(method).toBe("echo+vapo");
    expect(layer.values).toEqual({ "critic.pretrain": 50, "critic.rate": 2 });
    expect(layer.by!("critic.rate")).toBe("--method vapo_full (critic.rate)");
    expect(recipeOf("dapo+echo")).toBeUndefined();
  });

  it("coderl weighs tokens by its critic, and takes another reward that is asked for", () => {
    const { rl } = presetOfFlags("--method", "coderl", "--env", "code", ...set("outcomeCritic.steps=3"));
    const { advantage, policyLoss, tokenWeights } = objectiveFor(rl, 100);
    expect([advantage.name, policyLoss.name, tokenWeights!.name]).toEqual(["remax", "reinforce", "outcome_critic"]);
    expect([rl.reward, rl.outcomeCritic]).toEqual([{ name: "coderl" }, { steps: 3 }]);
    const other = presetOfFlags("--method", "coderl", "--env", "patch", "--reward", "swerl");
    expect(other.rl.reward).toEqual({ name: "swerl" });
  });

  it.each<[string[], string]>([
    [
      ["--env", "web", "--method", "grpo+outcome_critic"],
      "outcome_critic is for the environments code, patch, not web",
    ],
    [["--env", "code", "--method", "coderl", "--workers", "1"], "leave --workers out"],
    [["--env", "code", "--method", "coderl", "--reward", "orm"], "a run trains one such model"],
    [["--env", "code", "--self-play", "r-zero", "--method", "grpo+outcome_critic"], "leave outcome_critic out"],
    [["--env", "code", ...set("outcomeCritic.steps=3")], "--set outcomeCritic.steps is about +outcome_critic; add it"],
    [
      ["--env", "code", "--method", "coderl", "--reward", "prm"],
      "outcome_critic and --reward prm: a run trains one such model",
    ],
    [
      ["--env", "code", "--method", "grpo+outcome_critic", "--reward", "prm"],
      "outcome_critic and --reward prm: a run trains one such model; leave one of them out",
    ],
    [["--env", "web", ...set("prm.form=sum")], "--set prm.form is about --reward prm; add it"],
    [["--env", "web", "--reward", "orm", ...set("prm.steps=3")], "--set prm.steps is about --reward prm; add it"],
    [["--env", "web", "--reward", "prm", ...set("orm.steps=3")], "--set orm.steps is about --reward orm; add it"],
    [["--env", "web", "--reward", "prm", "--workers", "1"], "--reward prm asks a model on the learner's device; leave"],
    [
      ["--env", "web", "--method", "sft", ...set("prm.steps=3")],
      "--set prm.steps is about RL, which --method sft is not",
    ],
    [["--env", "web", ...set("orm.steps=3")], "--set orm.steps is about --reward orm; add it"],
    [["--env", "web", "--reward", "orm", "--workers", "1"], "leave --workers out"],
    [["--env", "tools", ...set("reward.matching=best")], "--set reward.matching is about --reward toolrl; add it"],
    [["--env", "web", "--reward", "toolrl"], "--reward toolrl is for the environments tools, not web"],
    [
      ["--method", "dapo_full", "--advantage", "gdpo"],
      "--method dapo_full (reward.cap) bounds a sum, and the advantage",
    ],
    [
      ["--method", "webrl_full", "--loss", "reinforce"],
      "--loss reinforce and --method webrl_full (replay.perStep): reinforce has no ratio",
    ],
    [
      ["--method", "dapo_full", "--env", "code", ...set("selfPlay.name=r-zero")],
      "plays them once; leave --method dapo_full (dynamicSampling.on) out",
    ],
    [["--env", "code", "--method", "coderl+actfocus"], "one token weighting is possible"],
    [["--env", "code", "--method", "coderl", ...set("rl.trainObservations=true")], "trainObservations"],
    [["--method", "webrl_full", ...set("rl.trainObservations=true")], "trainObservations"],
    [set("sft.generalTexts=shuffled"), "--set sft.generalTexts is about --set sft.general=0.5; add it"],
    [["--kl", "0.1", "--kl-target", "1", ...set("kl.decay=0.5")], "kl: target and decay both change beta"],
  ])("%j is refused: %s", (flags, message) => expect(() => presetOfFlags(...flags)).toThrow(message));

  it("is named by an error about one of its methods, unless the error names it already; others stay", () => {
    const chosen = recipeOf("starpo_s")!;
    const { method } = RECIPES["starpo_s"]!;
    const said = (error: Error, recipe: ReturnType<typeof recipeOf> | null = chosen): unknown => {
      try {
        return inWordsOf(recipe ?? undefined, () => {
          throw error;
        });
      } catch (thrown) {
        return thrown === error ? "the same" : (thrown as Error).message;
      }
    };
    const [first] = method.split("+");
    expect(chosen.name).toBe("starpo_s");
    expect(said(new UsageError(`${first}: no`))).toBe(`${first}: no (--method starpo_s is ${method})`);
    expect(said(new UsageError(`starpo_s and ${first}: no`))).toBe("the same");
    expect(said(new UsageError("--steps: no"))).toBe("the same");
    expect(said(new Error(`${first}: no`))).toBe("the same");
    expect(said(new UsageError(`${first}: no`), null)).toBe("the same");
    const two = Object.entries(RECIPES).find(([, recipe]) => recipe.method.includes("+"))!;
    const parts = two[1].method.split("+");
    for (const part of parts) expect(said(new UsageError(`${part}: no`), recipeOf(two[0]))).toContain(`(--method`);
    expect(inWordsOf(chosen, () => 3)).toBe(3);
  });

  it("stands alone", () => {
    expect(() => presetOfFlags("--method", "dapo_full+vapo_full")).toThrow("dapo_full and vapo_full; one is possible");
    expect(listRecipes()).toMatch(/^ {2}starpo_s +\S.*\(RAGEN, arXiv 2504\.20073\)$/m);
  });
});
