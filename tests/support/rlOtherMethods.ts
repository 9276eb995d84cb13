/**
 * The rest of the table of methods: what is there beside losses, penalties and estimators (rlMethods.ts), each with its
 * formula, its source, and the tests that hold it. docs/methods.md is made of these rows, too.
 */
import { OTHER_DATA_ROWS, REWARD_ROWS, WORLD_ROWS } from "./rlRewardRows.ts";

/** A test by its file and the beginning of its title. */
type TestName = readonly [file: string, title: string];

export interface OtherRow {
  readonly formula: string;
  readonly source: string;
  readonly tests: readonly TestName[];
}

const VECTORS = "tests/methods/weightVectors.test.ts";
const OBJECTIVE_TERMS = "tests/rl/objectiveTerms.test.ts";
const ROLLOUT_ENDS = "tests/rl/rolloutEnds.test.ts";
const SUPERVISED = "tests/methods/supervised.test.ts";
const ECHO = "tests/rl/echo.test.ts";
const HOST = "tests/methods/goldenHost.test.ts";
const SPLIT_AND_FORK: TestName = ["tests/methods/methods.test.ts", "split and fork"];
const REWARDS = "tests/papers/rewards.test.ts";
const ROLLOUT = "tests/rl/rollout.test.ts";
const COMPONENTS = "tests/methods/components.test.ts";
const STEP_PARTS = "tests/rl/stepParts.test.ts";
const GRADIENTS = "tests/methods/gradients.test.ts";
const DATA = "tests/data/data.test.ts";
const DATA_LOOP = "tests/data/dataLoop.test.ts";
const KEPT = "tests/data/dataReplay.test.ts";
const SEARCH = "tests/papers/search.test.ts";
const SEARCH_TRAINING = "tests/papers/searchTraining.test.ts";
const SELF_REWARD = "tests/papers/selfReward.test.ts";

const row = (formula: string, source: string, ...tests: readonly TestName[]): OtherRow => ({ formula, source, tests });

/** Rows by their names, section by section. */
export const OTHER_ROWS: Readonly<Record<string, Readonly<Record<string, OtherRow>>>> = {
  "World models and token weights": {
    echo: row(
      "λ·mean over episodes of −(1/abs(O))·Σ lp over the targets; `full-observation`, `selected`, `token-mean`",
      "arXiv 2605.24517",
      [ECHO, "test vector"],
      [ECHO, "on a target's logit is λ(p − 1)"],
      SPLIT_AND_FORK,
    ),
    "echo, λ schedules": row("constant, linear, step", "arXiv 2605.24517", [ECHO, "constant, linear, step"]),
    "echo, by tool": row("λ·w of the tool that wrote the answer, by its name: `echo.tools`", "worldgrad", [
      "tests/connect/toolWeights.test.ts",
      "a factor of 0 is a gradient without ECHO",
    ]),
    "echo, verifier-free": row("the λ term alone: advantage `none`", "arXiv 2605.24517", [
      "tests/methods/properties.test.ts",
      "zero advantage is the next-observation language model",
    ]),
    paw: row(
      "E_g[λ_g·mean over selected transitions of Σ 1[p ≤ ρ]·(1 − p)/abs(o)], λ_g = 1 − R̄_g/R_max",
      "arXiv 2606.02388",
      [VECTORS, "ℓ = .44"],
      [VECTORS, "selects over the whole update"],
      SPLIT_AND_FORK,
    ),
    "paw, selection": row(
      "top α by action entropy, `full` or `sampled`; `random`; `all`",
      "arXiv 2606.02388",
      [VECTORS, "entropy of sampled tokens"],
      [VECTORS, "each switch by itself"],
    ),
    "paw, weight": row("1 − R̄/R_max, clamped to [0, 1] or not; `constant`", "arXiv 2606.02388", [
      VECTORS,
      "λ_g of R̄ 0",
    ]),
    actfocus: row(
      "w = α on thoughts, 1 + β·sigmoid((E − μ)/σ) on actions; −(1/Σw)Σ w·ℓ",
      "arXiv 2605.14558",
      [VECTORS, "weights of four action tokens"],
      [VECTORS, "weighted loss .0986363949"],
      SPLIT_AND_FORK,
    ),
    "actfocus, uncertainty": row(
      "energy, entropy, nll, kl of the frozen reference",
      "arXiv 2605.14558",
      [VECTORS, "uniform is no weighting"],
      ["tests/rl/tokenStatistics.test.ts", "are what a plain forward pass says"],
    ),
    top_entropy: row(
      "1 from the (1 − share) quantile of the entropy upwards, 0 below",
      "arXiv 2506.01939; TRL",
      [VECTORS, "top entropy"],
      SPLIT_AND_FORK,
    ),
  },
  "Around the loss": {
    aggregation: row(
      "token-mean, token-sum, seq-mean-token-sum, seq-mean-token-sum-norm, seq-mean-token-mean, prompt-mean-token-mean",
      "verl; TRL `loss_type`; SkyRL",
      ["tests/methods/golden.test.ts", "verl agg_loss"],
      [COMPONENTS, "prompt-mean-token-mean"],
      SPLIT_AND_FORK,
    ),
    "KL in the reward": row(
      "r̃_t = r_t − β·k1_t on the agent's tokens",
      "Ziegler et al. 2019, arXiv 1909.08593; k1: arXiv 2512.21852",
      [OBJECTIVE_TERMS, "a KL in the reward"],
      ["tests/rl/klDirection.test.ts", "k1, the default, has the gradient of the KL"],
    ),
    "adaptive and decaying KL": row(
      "β ← β·(1 + clip(kl/target − 1, ±.2)·n/horizon); or β ← decay·β (`kl.decay`)",
      "arXiv 1909.08593; decay: VPT, arXiv 2206.11795",
      [VECTORS, "the adaptive coefficient"],
      [VECTORS, "the decaying coefficient"],
      [OBJECTIVE_TERMS, "an adaptive coefficient moves"],
      [OBJECTIVE_TERMS, "a decaying coefficient falls"],
    ),
    "entropy bonus": row(
      "−coefficient·H, H over the whole vocabulary",
      "Williams & Peng 1991",
      [OBJECTIVE_TERMS, "an entropy bonus raises"],
      SPLIT_AND_FORK,
    ),
    "entropy bonus, adaptive": row(
      "c ± Δ as the entropy is at most or above a target, applied only where it is at most",
      "Skywork-OR1, arXiv 2505.22312; TRL `use_adaptive_entropy`",
      [STEP_PARTS, "a bonus that follows the entropy"],
    ),
    "positive-example NLL": row(
      "+ μ·mean of −lp over the tokens of successful rollouts, μ = .1",
      "VAPO, arXiv 2504.05118, eq. 10",
      [STEP_PARTS, "successes are imitated"],
    ),
    "explained variance": row("1 − Var(R − V)/Var(R), `critic/vf_explained_var`", "verl; CleanRL", [
      STEP_PARTS,
      "the explained variance",
    ]),
    "world and policy gradients": row(
      "cosine and ratio of norms before the sum: `grad_cosine/world_policy`, `grad_ratio/world_policy`",
      "ActObs, arXiv 2609.20715",
      [GRADIENTS, "two gradients taken apart"],
    ),
    "shares of the gradient": row(
      "length of a term's gradient over the sum of all terms' lengths: `grad_share/TERM`, with `shares`",
      "worldgrad",
      ["tests/methods/gradientShares.test.ts", "are the lengths of the gradients of the loss's own terms"],
    ),
    "singleton groups": row("0, or R/(1 + eps) with `singleton: raw`", "verl", [STEP_PARTS, "a group of one"]),
    "rollout filter": row(
      "groups by the deviation of their rewards: top_p (linear, softmax), top_k, min_p",
      "RAGEN, arXiv 2504.20073",
      [STEP_PARTS, "RAGEN's filter"],
    ),
    "clipped value": row(
      "½·max((v − R)², (clip(v, v_old ± ε) − R)²)",
      "PPO, arXiv 1707.06347",
      ["tests/methods/golden.test.ts", "verl.value_loss_clip0.1"],
      [OBJECTIVE_TERMS, "a critic learns returns"],
    ),
    tis: row(
      "min(π/μ, max), per token or the product over a sequence; normalised by its mean or not",
      "Yao et al. 2025; verl",
      [HOST, "trl.seq_is_ratio"],
      [VECTORS, "IcePop keeps"],
      SPLIT_AND_FORK,
    ),
    icepop: row("π/μ within [min, max], else 0", "arXiv 2510.18855", [VECTORS, "IcePop keeps"], SPLIT_AND_FORK),
    rejection: row(
      "drop by k1, k2 or k3 of a token, or their sum, mean or maximum over the sequence",
      "verl rollout correction",
      [HOST, "$entry is $method"],
    ),
    "off-policy mask": row("drop sequences with A < 0 and mean ln(μ/π) > δ", "DeepSeek-V3.2, arXiv 2512.02556", [
      HOST,
      "trl.off_policy_mask_thr0.1",
    ]),
    whitening: row("(x − mean)/√(var + 1e-8), ddof 1", "verl", [HOST, "verl.masked_whiten"]),
    "value pre-training": row(
      "the first `critic.pretrain` steps train the value head only; targets are whole returns, λ = γ = 1: " +
        "`--method vapo_full`",
      "VAPO, arXiv 2504.05118, §4.1",
      ["tests/methods/valuePretraining.test.ts", "leaves the policy alone"],
      ["tests/methods/valuePretraining.test.ts", "whole returns"],
    ),
    "dynamic sampling, denominators": row(
      "groups without spread do not count in the policy term",
      "DAPO, arXiv 2503.14476",
      [OBJECTIVE_TERMS, "groups without spread can be left out"],
    ),
    "truncated rollouts": row(
      "left out of the policy term and of all statistics; in the world model",
      "TRL `mask_truncated_completions`, which keeps them in the statistics",
      [COMPONENTS, "rollouts that ran out of tokens"],
    ),
    GRPOConfig: row("TRL's field names", "TRL", ["tests/connect/grpoConfig.test.ts", "gives an objective"]),
  },
  "Preference and supervised": {
    "dpo, ipo, hinge": row(
      "a pair is a segment; weights of its tokens sum to 1/pairs",
      "arXiv 2305.18290, 2310.12036, 2305.10425",
      [SUPERVISED, "DPO, %s: prefers"],
      [SUPERVISED, "a pair's loss is the same in any micro-batch"],
    ),
    "sft with masks": row("−lp on the agent's tokens that are to be imitated", "Agent-FLAN, arXiv 2403.12881", [
      SUPERVISED,
      "SFT leaves out",
    ]),
    dft: row("−sg(p)·lp", "arXiv 2508.05629", [SUPERVISED, "SFT leaves out"]),
    "dpo, imitation": row("+ weight·(−lp of the chosen answer), a mean over its tokens", "RPO, arXiv 2404.19733", [
      SEARCH_TRAINING,
      "imitation is the gradient",
    ]),
    "tree search": row(
      "argmax Q + c·√(ln N(h)/(1 + N(h, a))), Q = α·Q̃ + (1 − α)·Q̂ over clones of the environment",
      "Agent Q, arXiv 2408.07199; WU-UCT, arXiv 1810.11755",
      [SEARCH, "is Q + c·√"],
      [SEARCH, "finds the optimum"],
      [SEARCH, "visits add up"],
    ),
    "agent q": row(
      "DPO on sibling actions whose Q differ by more than a threshold; the history is prompt",
      "Agent Q, arXiv 2408.07199",
      [SEARCH, "are siblings whose Q differ"],
      [SEARCH_TRAINING, "raises the better action's"],
      [SEARCH_TRAINING, "improves what the simulations earn"],
    ),
    "self-rewarding": row(
      "best and worst of a group by an ensemble of judges, DPO against the policy before; " +
        "`hacking/gap` = win rate before the judges − in truth",
      "arXiv 2401.10020",
      [SELF_REWARD, "majority: each two"],
      [SELF_REWARD, "learns the task from a truthful judge"],
      [SELF_REWARD, "with a corrupt judge"],
    ),
  },
  Rewards: {
    code: row(
      "weighted share of unit tests that pass, in a process without permissions",
      "APPS, arXiv 2105.09938",
      ["tests/papers/codeReward.test.ts", "gives the weighted share"],
      ["tests/run/node/sandbox.test.ts", "find nothing of Node"],
    ),
    "end states": row(
      "the environment says whether its goal is reached",
      "ours",
      ["tests/environments/contract.ts", "the expert solves it"],
      ["tests/environments/contract.ts", "no reward without success"],
    ),
    "reward parts": row("components kept apart, weights and names in the metrics", "TRL `reward_weights`", [
      COMPONENTS,
      "components come from the option reward",
    ]),
    maths: row("exact equality after normalisation", "ours", [
      "tests/papers/rewards-outcome.test.ts",
      "numbers are exact",
    ]),
    "patch similarity": row("mean over files of the similarity of sequences", "SWE-RL, arXiv 2502.18449", [
      "tests/papers/rewards-outcome.test.ts",
      "is the mean over the files",
    ]),
    composite: row("Σ weight·component, 1 : .2 : .1, shaping capped", "ours", [REWARDS, "never lets shaping outweigh"]),
    format: row("share of well-formed actions", "ours", [REWARDS, "is the share of well-formed"]),
    repetition: row("share of repeated n-grams", "TRL", [REWARDS, "is the share of repeated n-grams"]),
    length: row(
      "linear, sigmoid, soft overlong (piecewise linear), cosine",
      "DAPO, arXiv 2503.14476; TRL",
      [REWARDS, "soft overlong"],
      [REWARDS, "linear: nothing up to the target"],
    ),
    "tool efficiency": row("−.05 per consecutive duplicate, −.3 per unknown tool, capped", "ours", [
      REWARDS,
      "takes other costs",
    ]),
    subgoals: row(
      "each paid once (`env.subgoals`); as a potential that is taken back (`env.shaping`)",
      "Ng et al. 1999",
      ["tests/environments/subgoals.test.ts", "is paid when it is first reached"],
    ),
    judges: row("majority vote, abstentions, a quorum", "ours", [REWARDS, "counts votes"]),
    ...REWARD_ROWS,
  },
  Rollouts: {
    "the loop": row(
      "who wrote what, in which turn; stop reasons",
      "ours",
      [ROLLOUT, "the columns"],
      [ROLLOUT_ENDS, "completed"],
      [ROLLOUT_ENDS, "max_turns"],
      [ROLLOUT_ENDS, "context_overflow"],
    ),
    "recorded log-probabilities": row(
      "at the sampling temperature, over the full vocabulary; truncation never enters",
      "ours",
      [ROLLOUT, "sampled log-probabilities are the full forward's"],
      [ROLLOUT, "truncation (top-k, top-p)"],
    ),
    "failing environments": row(
      "an environment that throws or takes too long masks its own episode",
      "ours",
      [ROLLOUT_ENDS, "tool_error"],
      [ROLLOUT_ENDS, "timeout"],
    ),
    "ends that nobody judged": row(
      "out of tokens, or no action: twice the lowest return of the group, at most 0; or `truncatedReward`",
      "ours; 0 in arXiv 2605.24517; words of UniRL#19",
      ["tests/rl/truncatedReward.test.ts", "by default it is twice the lowest"],
      ["tests/rl/truncatedReward.test.ts", "words and numbers"],
    ),
    "ends from outside": row(
      "the environment is told, and may score them; limits of turns, tokens and context, and no action found",
      "ours; verifiers#1751",
      ["tests/rl/outsideEnds.test.ts", "says nothing of the reward"],
      ["tests/rl/outsideEnds.test.ts", "the contract: once"],
    ),
    "strict templates": row(
      "no action between the tags: `parse_error`, and the environment hears nothing",
      "tinker's stop reasons",
      ["tests/methods/thoughts.test.ts", "a strict template ends"],
    ),
    "malformed actions": row("never throw: the error is the answer, and is counted", "ours", [
      "tests/environments/contract.ts",
      "takes any text as an action",
    ]),
    sampling: row(
      "temperature, top-k, top-p, min-p",
      "Holtzman et al. 2020; Nguyen et al. 2024",
      ["tests/nn/sampler.test.ts", "frequencies and both log-probabilities"],
      [ROLLOUT, "truncation (top-k, top-p)"],
    ),
    "thoughts and actions": row(
      "tokens of the action's span, tags included, are action; other sampled text is thought",
      "ActFocus, arXiv 2605.14558; RAGEN",
      ["tests/methods/thoughts.test.ts", "tags around the action"],
      ["tests/methods/thoughts.test.ts", "ActFocus weighs thoughts by α"],
      ["tests/methods/thoughts.test.ts", "ActFocus with α = 0"],
    ),
    "long answers": row("cut in the middle, with a marker", "ours", [ROLLOUT_ENDS, "an empty answer"]),
    "greedy baseline": row("each task once more at temperature 0", "ReMax, arXiv 2310.10505", [
      OBJECTIVE_TERMS,
      "ReMax plays each task once more",
    ]),
    "forked rows": row("a rewritten history starts a new row; statistics per rollout", "ours", SPLIT_AND_FORK),
  },
  Data: {
    ...OTHER_DATA_ROWS,
    "binned actions": row(
      "a number in [−1, 1] is the count of 256 edges at or below it, and token V − count (`tokenOf`); " +
        "`--env screen --set env.coordinates=bins` writes the count in digits, not as a token of its own",
      "OpenVLA, arXiv 2406.09246",
      ["tests/environments/screen.test.ts", "%s is token %i of 32,000"],
      ["tests/environments/screen.test.ts", "are the cells of a screen"],
    ),
    "dynamic sampling": row(
      "groups without spread are left out of the policy term and refilled, at most `maxRefills` times; " +
        "the world model learns from them",
      "DAPO, arXiv 2503.14476",
      [DATA, "draws until enough groups have spread"],
      [DATA_LOOP, "refills, drops constant groups"],
    ),
    "ε-tool exploration": row(
      "with probability ε the action is a tool chooser's; its tokens are prompt, outside the policy mask",
      "ε-soft policies; Sutton & Barto, §5.4",
      [DATA, "forces an action with probability ε"],
      [DATA_LOOP, "the chooser's actions are prompt"],
    ),
    "temperature schedule": row(
      "linear, cosine, exponential; each token is scored at the temperature that it was drawn at",
      "ours",
      [DATA, "begin and end where they should"],
      [DATA_LOOP, "follows its schedule"],
    ),
    learnability: row(
      "Pr(k) = floor/K + (1 − floor)·p(1 − p)/Σ over families or levels, p a running success rate",
      "arXiv 2304.12877, 2502.12272",
      [DATA, "probabilities sum to 1"],
      [DATA, "draws with these probabilities"],
      [DATA, "follows a learner"],
      [DATA, "continues from its JSON"],
    ),
    "failed tasks": row(
      "a share of the groups tries tasks again at which a whole group failed, until they are solved",
      "WebRL, arXiv 2411.02337",
      [DATA, "come back until they are solved"],
      [DATA, "are tried with their share"],
    ),
    "difficulty pools": row(
      "tasks in pools by success rate; a pool by weight, then a task of it",
      "prime-rl",
      [DATA, "sort tasks by their success"],
      [DATA, "a retired pool"],
    ),
    replay: row(
      "earlier groups with spread, oldest or highest mean reward first; bounds on size, age, uses; " +
        "ratios against the recorded log-probabilities",
      "TRL `GRPOWithReplayBuffer`; Schaul et al. 2015, arXiv 1511.05952",
      [KEPT, "is bounded in size, age and uses"],
      [KEPT, "fifo: oldest first"],
      [KEPT, "a group waits until the probability of its successes"],
      [DATA_LOOP, "earlier groups come back"],
    ),
    expertPrefix: row(
      "a group without a success is played again with the shortest prefix of expert actions that helps; " +
        "the prefix is prompt",
      "after ActGuide-RL, arXiv 2605.12004",
      [DATA, "tries 1, 2, … actions"],
      [DATA_LOOP, "are played again from the expert's first action on"],
    ),
    "rewarded predictions": row(
      "reward 1[d(ŝ, s) < τ] for generated answers ŝ to the agent's own actions, d the edits per token; " +
        "the guesses at one answer are a group",
      "RWML, arXiv 2602.05842 (d there is another)",
      ["tests/data/predictions.test.ts", "pay where the edits per token"],
      ["tests/data/predictions.long.test.ts", "are learnt"],
    ),
    rft: row(
      "SFT on the successes, the shortest `perTask` of each task, no duplicates",
      "arXiv 2308.01825, 2304.06767",
      [KEPT, "keep the shortest successes"],
      [DATA_LOOP, "filtered rollouts are demonstrations"],
    ),
  },
  Worlds: WORLD_ROWS,
};
