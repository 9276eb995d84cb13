/**
 * Rewards of programs, from the info of the last step in an environment with programs (`code`, `patch`): the `outcome`
 * of the submitted program, its match with a reference (`syntaxMatch`, `dataFlowMatch`), and for repositories the
 * `patch` and the `solution` as unified diffs. An episode that submitted nothing counts as a compile error.
 */
import { check } from "../../engine/errors.ts";
import type { Rng } from "../../engine/index.ts";
import { patchSimilarity } from "./similarity.ts";

type Info = Readonly<Record<string, number | string | boolean>>;

/** CodeRL's reward of each outcome (Le et al. 2022, arXiv 2207.01780). */
const CODERL: Readonly<Record<string, number>> = {
  "compile error": -1,
  "runtime error": -0.6,
  "failed test": -0.3,
  passed: 1,
};

const outcomeOf = (info: Info): string => (info["outcome"] as string | undefined) ?? "compile error";

/** −1 if the program does not compile, −0.6 if it fails in a run, −0.3 if a test fails, 1 if all pass (CodeRL). */
export function codeRlReward(info: Info): number {
  const reward = CODERL[outcomeOf(info)];
  check(reward !== undefined, () => `codeRlReward: expected an outcome of a program, got "${outcomeOf(info)}"`);
  return reward;
}

/**
 * PPOCoder's reward without unit tests (Shojaee et al. 2023, arXiv 2301.13816): 1 if the program compiles, else −1, and
 * the shares of the reference's syntax and data flow that it has, each in [0, 1]. Its KL penalty is the objective's
 * (`kl.in: "reward"`).
 */
export function ppoCoderReward(info: Info): number {
  const compiles = outcomeOf(info) === "compile error" ? -1 : 1;
  return compiles + Number(info["syntaxMatch"] ?? 0) + Number(info["dataFlowMatch"] ?? 0);
}

/** The similarity of the patch to the right one, in [0, 1]; −1 if there is no patch (SWE-RL, arXiv 2502.18449). */
export function sweRlReward(info: Info): number {
  const [patch, solution] = [info["patch"] as string | undefined, info["solution"] as string | undefined];
  return patch === undefined || solution === undefined ? -1 : patchSimilarity(patch, solution);
}

/** Rewards of programs, by their names in `--reward`. */
export const PROGRAM_REWARDS = { coderl: codeRlReward, ppocoder: ppoCoderReward, swerl: sweRlReward } as const;
export type ProgramRewardName = keyof typeof PROGRAM_REWARDS;

const { passed: _, ...FAILURES } = CODERL;

/**
 * Random grades of a failed episode, for the control: `coderl` draws the failure, `ppocoder` both matches, `swerl` the
 * similarity.
 */
const DRAWN: Readonly<Record<ProgramRewardName, (info: Info, rng: Rng) => number>> = {
  coderl: (_, rng) => rng.choice(Object.values(FAILURES)),
  ppocoder: (info, rng) => ppoCoderReward({ ...info, syntaxMatch: rng.uniform(), dataFlowMatch: rng.uniform() }),
  swerl: (info, rng) => (sweRlReward(info) < 0 ? -1 : rng.uniform()),
};

/**
 * The control of a graded reward: a success, and for `swerl` an episode without a patch, is paid as usual, and any
 * other episode gets a random grade.
 */
export const chanceReward = (name: ProgramRewardName, info: Info, rng: Rng): number =>
  info["success"] === true ? PROGRAM_REWARDS[name](info) : DRAWN[name](info, rng);
