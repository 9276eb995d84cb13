/** Flags that are refused together: the line names both, in the words that the user wrote. */
import { expect, it } from "vitest";
import { UsageError } from "../../run/usage.ts";
import { gae } from "../../methods/advantages/index.ts";
import { grpo } from "../../rl/objective/grpo.ts";
import { POLICY_LOSSES } from "../../methods/losses/index.ts";
import { checkObjective, checkOffPolicy, type Objective } from "../../rl/objective/objective.ts";
import { presetOfFlags, set } from "../support/presetOfFlags.ts";

const code = ["--env", "code", "--self-play", "r-zero"];
const answers = set("rl.trainObservations=true");

it.each([
  [["--method", "rloo", "--replay", "2"], "--method rloo and --replay: reinforce has no ratio"],
  [["--loss", "reinforce", ...set("rl.iterations=2")], "--loss reinforce and --set rl.iterations: reinforce has no"],
  [["--method", "gpg", "--workers", "1", "--max-staleness", "1"], "--method gpg and --max-staleness: reinforce has no"],
  [["--method", "ppo", "--predict", "2"], "--method ppo and --predict: predictions are compared in groups"],
  [["--advantage", "remax", "--predict", "2"], "--advantage remax and --predict: predictions have no greedy rollout"],
  [["--method", "expert+echo"], "--method expert+echo: expert is no RL and takes no add-ons; leave the others out"],
  [["--method", "sft+paw"], "--method sft+paw: sft is no RL and takes no add-ons; leave the others out"],
  [
    ["--method", "dapo_full", "--advantage", "gdpo"],
    "--method dapo_full (reward.cap) bounds a sum, and the advantage gdpo",
  ],
  [[...code, "--method", "dapo_full"], "plays them once; leave --method dapo_full (dynamicSampling.on) out"],
  [
    [...code, "--method", "starpo_s"],
    "--self-play has rewards of its own; leave --method starpo_s (reward.malformed) out",
  ],
  [
    [...code, "--dynamic-sampling"],
    "--self-play makes its own tasks and plays them once; leave --dynamic-sampling out",
  ],
  [[...code, "--explore", "0.1"], "--self-play makes its own tasks and plays them once; leave --explore out"],
  [[...code, "--method", "gdpo"], "--self-play has rewards of its own; leave the advantage gdpo, which compares"],
  [[...code, "--reward", "coderl"], "--self-play has rewards of its own; leave --reward out"],
  [[...code, "--method", "remax"], "--self-play: the advantage remax plays each task once more"],
  [["--method", "sft", ...set("sft.labelled=8")], "--set sft.labelled takes the actions of most demonstrations away"],
  [["--replay", "2", ...answers], "--method grpo_token+echo and --replay: trainObservations trains answers as if"],
  [
    ["--kl", "0.1", ...answers],
    "trainObservations trains answers as if they were actions, and kl reads of actions what",
  ],
])("%j are refused together: %s", (flags, line) => {
  const make = (): unknown => presetOfFlags("--quick", ...flags);
  expect(make).toThrow(UsageError);
  expect(make).toThrow(line);
});

it("answers are trained as actions by what reads nothing of actions", () => {
  const loss = (name: string): Objective["policyLoss"] => POLICY_LOSSES[name]!.make();
  const mistaken: Objective = {
    advantage: grpo(),
    policyLoss: loss("ppo"),
    aggregation: "token-mean",
    trainObservations: true,
  };
  checkObjective(mistaken);
  checkObjective({ ...mistaken, kl: { beta: 0.1, estimator: "k1", in: "reward" } });
  checkObjective({ ...mistaken, advantage: gae(), critic: {} });
  for (const name of ["kl_cov", "clip_cov"])
    expect(() => checkObjective({ ...mistaken, policyLoss: loss(name) })).toThrow(`${name} reads of actions`);
  checkOffPolicy(mistaken, {});
  for (const older of [{ maxStaleness: 1 }, { replay: {} }, { offPolicy: true }, { iterations: 2 }])
    expect(() => checkOffPolicy(mistaken, older)).toThrow("answers have no recorded probability");
});

it("a baseline that does not imitate the warm start's demonstrations goes with labels", () => {
  for (const method of ["expert", "random"])
    expect(presetOfFlags("--quick", "--method", method, ...set("sft.labelled=8")).sft.labelled).toBe(8);
});
