/** Rows of the table of methods (rlOtherMethods.ts): rewards that are promised, of programs, and of judges in a run. */
type TestName = readonly [file: string, title: string];

const PROGRAM_REWARDS = "tests/rl/programRewards.test.ts";
const ASYNC_REWARDS = "tests/rl/asyncRewards.test.ts";

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
    ["tests/job/rewards.test.ts", "of judges, as a promise"],
  ),
  "promised rewards": row(
    "time limit, so many at a time; what fails is masked and counted, the order does not matter",
    "–",
    [ASYNC_REWARDS, "gives the run of the same reward at once"],
    [ASYNC_REWARDS, "masks its episode and says why"],
    [ASYNC_REWARDS, "a run in which each fails"],
  ),
  malformed: row(
    "−1 for each malformed action, cut-off ones too: `--set reward.malformed=0.1`, `--method starpo_s`",
    "RAGEN, arXiv 2504.20073",
    ["tests/rl/rewards.test.ts", "counts malformed actions"],
    ["tests/job/recipes.test.ts", "starpo_s"],
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
  swerl: row("similarity of the patches, −1 without one: `--env patch --reward swerl`", "SWE-RL, arXiv 2502.18449", [
    PROGRAM_REWARDS,
    "are worth their similarity",
  ]),
};
