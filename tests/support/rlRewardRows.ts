/**
 * Rows of the table of methods (rlOtherMethods.ts): rewards that are promised, of programs, and of judges in a run;
 * tasks that a model makes itself, and labels of a model; the worlds that these were made for.
 */
type TestName = readonly [file: string, title: string];

const PROGRAM_REWARDS = "tests/papers/programRewards.test.ts";
const ASYNC_REWARDS = "tests/distribute/asyncRewards.test.ts";

const row = (
  formula: string,
  source: string,
  ...tests: readonly TestName[]
): { readonly formula: string; readonly source: string; readonly tests: readonly TestName[] } => ({
  formula,
  source,
  tests,
});

export const REWARD_ROWS: Readonly<Record<string, ReturnType<typeof row>>> = {
  "judges online": row(
    "1 if more than half say yes, else 0 (a tie fails); asked at once, as promises: `--reward judges`",
    "arXiv 2401.10020",
    [PROGRAM_REWARDS, "asks all at once"],
    ["tests/run/rewards.test.ts", "of judges, as a promise"],
  ),
  "promised rewards": row(
    "time limit, so many at a time; what fails is masked and counted, the order does not matter",
    "ours",
    [ASYNC_REWARDS, "gives the run of the same reward at once"],
    [ASYNC_REWARDS, "masks its episode and says why"],
    [ASYNC_REWARDS, "a run in which each fails"],
  ),
  malformed: row(
    "−1 for each malformed action, cut-off ones too: `--set reward.malformed=0.1`, `--method starpo_s`",
    "RAGEN, arXiv 2504.20073",
    ["tests/papers/rewards.test.ts", "counts malformed actions"],
    ["tests/run/recipes.test.ts", "starpo_s"],
  ),
  coderl: row(
    "−1 compile error, −.6 runtime error, −.3 failed test, 1 all pass: `--env code --reward coderl`",
    "CodeRL, arXiv 2207.01780",
    [PROGRAM_REWARDS, "%s: CodeRL"],
    ["tests/environments/code.test.ts", "is judged by as many hidden tests"],
  ),
  ppocoder: row(
    "±1 (compiles) + syntax match + data-flow match with the reference: `--env code --reward ppocoder`",
    "PPOCoder, arXiv 2301.13816; CodeBLEU, arXiv 2009.10297",
    [PROGRAM_REWARDS, "%s: CodeRL"],
    ["tests/environments/program.test.ts", "is all of it for itself"],
  ),
  orm: row(
    "1 if σ(z) ≥ ½, z a logit at an episode's end, learnt by BCE from verified ones: `--reward orm`",
    "WebRL, arXiv 2411.02337",
    ["tests/run/reader.test.ts", "is trained by the mean binary cross-entropy"],
    ["tests/run/reader.test.ts", "learns to tell them apart"],
    ["tests/run/moreRows.long.test.ts", "on "],
  ),
  prm: row(
    "v_k − v_{k−1}, or min_k v_k at its step, or v_k; v_k = σ(z) after step k, learnt by BCE from N = 8 completions",
    "Math-Shepherd, arXiv 2312.08935; differences: Ng et al. 1999; minimum: PURE, arXiv 2504.15275",
    ["tests/papers/process.test.ts", "test vector: of 4 completions"],
    ["tests/papers/process.test.ts", "differences sum to the last value"],
    ["tests/papers/completions.test.ts", "each step is played on from"],
    ["tests/run/processModel.test.ts", "teaches which steps can be completed"],
    ["tests/run/moreRows.long.test.ts", "on "],
  ),
  verification: row(
    "min over steps v_k; argmax_a Σ 1[a_i = a]·score_i over tries: `chosen/best`, `chosen/vote` with `--pass-at K`",
    "Math-Shepherd, arXiv 2312.08935",
    ["tests/papers/process.test.ts", "test vector: A .2, A .3, B .6"],
    ["tests/run/processModel.test.ts", "takes the try with the highest score"],
  ),
  "critic of outcomes": row(
    "−lp·w·(R − R_greedy), w = softmax(logits)[outcome]; logits, max-pooled, learn outcomes: `--method coderl`",
    "CodeRL, arXiv 2207.01780",
    ["tests/methods/outcomeCritic.test.ts", "test vector"],
    ["tests/methods/outcomeCritic.test.ts", "is trained by the cross-entropy"],
    ["tests/run/moreRows.long.test.ts", "on "],
  ),
  toolrl: row(
    "form 1/0 + 6·s/S − 3, s = Jaccard of names + Σ (that of parameters + equal values): `--reward toolrl`",
    "ToolRL, arXiv 2504.13958",
    ["tests/papers/toolCalls.test.ts", "test vectors"],
    ["tests/papers/toolCalls.test.ts", "of an episode"],
    ["tests/run/moreRows.long.test.ts", "on "],
  ),
  swerl: row("similarity of the patches, −1 without one: `--env patch --reward swerl`", "SWE-RL, arXiv 2502.18449", [
    PROGRAM_REWARDS,
    "are worth their similarity",
  ]),
};

export const OTHER_DATA_ROWS: Readonly<Record<string, ReturnType<typeof row>>> = {
  "self-play, learnability": row(
    "1 − s, 0 at s = 0 and 1; then r if r > 0, −.5 if well formed, −1 if malformed",
    "Absolute Zero, arXiv 2505.03335 (formula 7 has 0 for trivial tasks, the authors' code −.5)",
    ["tests/papers/selfPlay.test.ts", "pays the proposer what the solver does not know yet"],
  ),
  "self-play, uncertainty": row(
    "max(0, 1 − 2·abs(p − ½) − rep), p the majority's share, rep the cluster's share of the batch; malformed −1",
    "R-Zero, arXiv 2508.05004 (the authors' code: min(p, 1 − p) − rep)",
    ["tests/papers/selfPlay.test.ts", "2 of 4 questions alike"],
    ["tests/papers/selfPlay.test.ts", "average linkage"],
  ),
  hindsight: row(
    "−log p of a failed episode's tokens after the task that it has achieved, up to there; or after another's",
    "HER, arXiv 1707.01495; imitated as in arXiv 1912.06088",
    ["tests/data/hindsight.test.ts", "has another task before the same tokens"],
    ["tests/data/hindsight.test.ts", "learns them"],
  ),
  "imitated expert": row(
    "−log p of the expert's episodes of a step's tasks, or of others', beside the policy loss: `--imitate-expert 8`",
    "CodeRL, arXiv 2207.01780; PTX of InstructGPT, arXiv 2203.02155; DAPG, arXiv 1709.10087",
    ["tests/data/imitateExpert.test.ts", "plays the tasks of the step"],
    ["tests/data/imitateExpert.test.ts", "learns them"],
  ),
  "general texts": row(
    "η·CE(demonstrations) + (1 − η)·CE(general texts), each a mean over its own tokens: `--set sft.general=0.8`",
    "AgentTuning, arXiv 2310.12823",
    ["tests/data/generalTexts.test.ts", "test vector: losses 2 and 1"],
    ["tests/data/generalTexts.test.ts", "is what `trainSft` learns"],
    ["tests/run/moreRows.long.test.ts", "on "],
  ),
  "negative examples": row(
    "no tool is there or none is needed: a plain answer, any call is wrong: `--set env.negatives=0.5`",
    "Agent-FLAN, arXiv 2403.12881",
    ["tests/environments/plainAnswers.test.ts", "the expert gives them at once"],
    ["tests/data/generalTexts.test.ts", "false calls are counted"],
    ["tests/run/moreRows.long.test.ts", "on "],
  ),
  "inverse dynamics": row(
    "p(a_t | o_1 … o_T) of few episodes labels the others, turns without an effect left out: `--set sft.labelled=N`",
    "VPT, arXiv 2206.11795",
    ["tests/data/inverse.test.ts", "the inverse model reads the episode backwards"],
    ["tests/data/inverse.test.ts", "leaves out turns in which nothing happened"],
    ["tests/run/inverse.long.test.ts", "are made, measured and imitated"],
  ),
};

const EXPERT: TestName = ["tests/environments/contract.ts", "the expert solves it"];

export const WORLD_ROWS: Readonly<Record<string, ReturnType<typeof row>>> = {
  web: row(
    "generated pages as text, `click`, `type`, `select`, `scroll`, `back`; 1 if the end is as asked: `--env web`",
    "the setting of WebGUM, arXiv 2305.11854",
    ["tests/environments/web.test.ts", "the end state"],
    EXPERT,
  ),
  screen: row(
    "12 × 5 cells with windows, `click X Y`, `type`, `scroll`, `key`; 1 if the right button ends it: `--env screen`",
    "the setting of Anthropic's computer use tool, 2025-01-24",
    ["tests/environments/screen.test.ts", "a button ends the episode"],
    EXPERT,
  ),
  code: row(
    "write a program of arithmetic and operations on lists, judged by hidden tests: `--env code`",
    "the setting of CodeRL, arXiv 2207.01780",
    ["tests/environments/code.test.ts", "is judged by as many hidden tests"],
    EXPERT,
  ),
  tools: row(
    "three tools with typed parameters, 1 if exactly the calls that are asked for were taken: `--env tools`",
    "the setting of ToolRL, arXiv 2504.13958",
    ["tests/environments/tools.test.ts", "exactly the calls"],
    EXPERT,
  ),
  patch: row(
    "edit a repository of a few files until hidden tests pass: `--env patch`",
    "the setting of SWE-RL, arXiv 2502.18449",
    ["tests/environments/patch.test.ts", "are judged by as many hidden tests"],
    EXPERT,
  ),
};
