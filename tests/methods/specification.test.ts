/**
 * docs/methods.md is complete: everything that the specification of this layer names, section by section (losses,
 * advantages, the three world-model and credit methods, rewards, rollouts and data), is a row with a golden value or a
 * property, or an option of one.
 */
import { describe, expect, it } from "vitest";
import { METHOD_PARTS } from "../../run/parts.ts";
import { methodRows } from "../../scripts/methodTable.ts";
import { ADVANTAGES } from "../../methods/advantages/index.ts";
import { AGGREGATIONS } from "../../rl/objective/aggregation.ts";
import { aggregationByName } from "../../methods/aggregation.ts";
import { POLICY_LOSSES } from "../../methods/losses/index.ts";
import { TERMS, TOKEN_WEIGHTS, WORLD } from "../../methods/presets.ts";
import { METHODS } from "../../methods/choice.ts";

const SPECIFIED: Readonly<Record<string, readonly string[]>> = {
  "1 policy losses": [
    "ppo",
    "dual_clip",
    "gspo",
    "cispo",
    "sapo",
    "dppo_tv",
    "dppo_kl",
    "gmpo",
    "dro",
    "kl_cov",
    "clip_cov",
    "vespo",
    "reinforce",
    "sft",
    "dft",
    "dpo",
    "dpo_ipo",
    "dpo_hinge",
  ],
  "1 around them": [
    "aggregation",
    "k1",
    "k2",
    "k3",
    "abs",
    "k3+",
    "KL in the reward",
    "adaptive and decaying KL",
    "tis",
    "icepop",
    "rejection",
    "off-policy mask",
    "vtrace",
    "clipped value",
    "entropy bonus",
  ],
  "2 advantages": [
    "grpo",
    "centred",
    "rloo",
    "reinforce++",
    "reinforce++-baseline",
    "remax",
    "opo",
    "max_rl",
    "pass_at_k",
    "gpg",
    "gae",
    "vapo",
    "bi_level_gae",
    "gigpo",
    "milestone",
    "gdpo",
    "rae",
    "optimal_token_baseline",
    "trr++",
  ],
  "3 ECHO": ["echo", "echo, λ schedules", "echo, by tool", "echo, verifier-free"],
  "4 PaW": ["paw", "paw, selection", "paw, weight"],
  "5 ActFocus": ["actfocus", "actfocus, uncertainty", "top_entropy", "thoughts and actions"],
  "6 rewards": [
    "maths",
    "code",
    "patch similarity",
    "end states",
    "format",
    "composite",
    "length",
    "tool efficiency",
    "judges",
    "repetition",
    "subgoals",
    "self-play, learnability",
    "self-play, uncertainty",
  ],
  "7 rollouts and data": [
    "the loop",
    "malformed actions",
    "failing environments",
    "long answers",
    "sampling",
    "temperature schedule",
    "ε-tool exploration",
    "recorded log-probabilities",
    "dynamic sampling",
    "learnability",
    "failed tasks",
    "difficulty pools",
    "replay",
    "sft with masks",
    "rft",
    "hindsight",
    "expertPrefix",
    "rewarded predictions",
    "forked rows",
    "truncated rollouts",
  ],
};

describe.each(Object.entries(SPECIFIED))("§%s", (_, names) => {
  it.each(names)("%s is a row, with a golden value or a property", (name) => {
    const rows = methodRows().filter((r) => r.name === name);
    expect(rows.length).toBeGreaterThan(0);
    for (const { golden, properties } of rows) expect(golden.length + properties.length).toBeGreaterThan(0);
  });
});

it("methods of §1 that are a loss with another advantage or aggregation are presets", () => {
  expect(Object.keys(METHODS)).toEqual(
    expect.arrayContaining(["grpo", "dapo", "dr_grpo", "gpg", "luspo", "rloo", "ppo", "vapo"]),
  );
  expect(METHODS["dr_grpo"]).toMatchObject({
    advantage: "centred",
    loss: "ppo",
    aggregation: "seq-mean-token-sum-norm",
  });
  expect(METHODS["gpg"]).toMatchObject({ advantage: "gpg", loss: "reinforce" });
  expect(METHODS["dapo"]).toMatchObject({ lossOptions: { epsilon: 0.2, epsilonHigh: 0.28 } });
});

it("the aggregations are verl's five and SkyRL's, by TRL's names, too", () => {
  expect(AGGREGATIONS).toEqual([
    "token-mean",
    "token-sum",
    "seq-mean-token-sum",
    "seq-mean-token-sum-norm",
    "seq-mean-token-mean",
    "prompt-mean-token-mean",
  ]);
  for (const name of ["grpo", "dr_grpo", "dapo", "bnpo", "cispo", "sapo", "luspo", "vespo"])
    expect(AGGREGATIONS).toContain(aggregationByName(name));
});

describe("the table of options that --set and --list read is the one that the part reads:", () => {
  const tables = { ...POLICY_LOSSES, ...ADVANTAGES, ...WORLD, ...TOKEN_WEIGHTS, ...TERMS };
  it.each(Object.entries(tables))("%s", (_, { make, options }) => {
    const names = Object.keys(options.fields);
    const known = `unknown option 'no such option'; known options: ${names.join(", ") || "none"}`;
    expect(() => make({ "no such option": 1 })).toThrow(known);
    for (const name of names) expect(() => make({ [name]: Symbol("no value") })).toThrow(`: ${name} must be `);
  });

  it("options that text can give are on the command line, functions and objects are not", () => {
    expect(Object.keys(METHOD_PARTS["echo"]!)).toEqual(["lambda", "normalization", "tools"]);
    expect(Object.keys(METHOD_PARTS["gdpo"]!)).toEqual(["ddof", "eps", "batch"]);
    expect(Object.keys(METHOD_PARTS["vapo"]!)).toEqual(["gamma", "alpha", "level", "whiten"]);
    // Pairs and demonstrations have loops of their own.
    for (const name of ["sft", "dft", "dpo", "dpo_ipo", "dpo_hinge"]) expect(METHOD_PARTS).not.toHaveProperty(name);
  });
});
