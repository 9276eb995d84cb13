/** The files that `npm run mutate` edits, and the tests that have to notice. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { packageFolder } from "../packageFolder.ts";
import { type Mutant, mutantsOf } from "./mutants.ts";

/**
 * Losses, estimators, and all that is between them and the gradient; what a decoder reads where, and what is done again
 * of it. A folder stands for its files without index.ts.
 */
const TARGETS = [
  "engine/capture.ts",
  "nn/decodingPlan.ts",
  "rl/evaluate.ts",
  "methods/losses",
  "methods/advantages",
  "rl/objective/aggregation.ts",
  "rl/objective/clipped.ts",
  "rl/objective/crossEntropy.ts",
  "methods/entropy.ts",
  "rl/objective/estimator.ts",
  "rl/objective/grpo.ts",
  "rl/objective/kl.ts",
  "rl/objective/policyLoss.ts",
  "rl/objective/value.ts",
  "methods/importanceCorrection.ts",
  "rl/objective/echo.ts",
  "methods/paw.ts",
  "methods/tokenWeights.ts",
  "rl/train/advantages.ts",
  "rl/train/weights.ts",
  "rl/train/imitation.ts",
  "methods/sft.ts",
  "methods/preference.ts",
  "rl/episode/stream.ts",
  "rl/episode/groups.ts",
  "rl/train/pack.ts",
  "rl/train/score.ts",
  "rl/train/loss.ts",
  "rl/train/update.ts",
  "methods/gradients.ts",
  "papers/rewards/behaviour.ts",
  "papers/rewards/composite.ts",
  "papers/rewards/judge.ts",
  "papers/rewards/length.ts",
  "papers/rewards/process.ts",
  "papers/rewards/program.ts",
  "papers/rewards/similarity.ts",
  "papers/rewards/toolCalls.ts",
  "rl/episode/turns.ts",
  "papers/selfplay/absoluteZero.ts",
  "papers/selfplay/options.ts",
  "papers/selfplay/rZero.ts",
  "papers/selfplay/rewards.ts",
  "papers/selfplay/rounds.ts",
  "papers/completions.ts",
  "data/generalTexts.ts",
  "data/inverse.ts",
  "methods/outcomeCritic.ts",
  "rl/train/reader.ts",
  "rl/train/valuePretraining.ts",
  "data/hindsight.ts",
  "data/imitateExpert.ts",
  "data/pools.ts",
  "data/replay.ts",
  "rl/tasks/scoring.ts",
  "environments/household/hindsight.ts",
  "environments/program",
  "environments/riddle/proposal.ts",
  "environments/screen/bins.ts",
  "environments/web/hindsight.ts",
  "run/failures.ts",
  "run/heldOut.ts",
  "run/inverse.ts",
  "run/processModel.ts",
  "run/readers.ts",
  "run/recipes.ts",
  "run/rewards.ts",
  "run/verification.ts",
];

/** Tests of a formula or a function each, in milliseconds. They run first. */
const FAST = [
  "optionTables",
  "goldenHost",
  "goldenTrl",
  "lossVectors",
  "advantageVectors",
  "weightVectors",
  "lossDetails",
  "advantageDetails",
  "weightDetails",
  "packing",
  "columns",
  "rewardDetails",
  "golden",
  "echo",
  "stream",
  "weights",
  "rewards",
  "rewards-outcome",
  "programRewards",
  "components",
  "supervised",
  "learner",
  "selfPlay",
  "selfPlayDetails",
  "scoring",
  "data",
  "pools",
  "dataReplay",
  "inverse",
  "generalTexts",
  "toolCalls",
  "reader",
  "outcomeCritic",
  "hindsight",
  "imitateExpert",
  "process",
  "completions",
];
/** Tests that train for seconds, and come by nearly every mutant. They run last, when few are left. */
const LAST = ["methods", "properties", "trainer", "gradientShares", "gradients", "lora", "presets", "predictions"];
/** Tests of what is edited outside of rl/. They run after the fast ones. */
const ELSEWHERE = [
  "tests/engine/capture.test.ts",
  "tests/nn/decodingPlan.test.ts",
  "tests/nn/decoder.test.ts",
  "tests/environments/achieved.test.ts",
  "tests/environments/screen.test.ts",
  "tests/environments/program.test.ts",
  "tests/environments/riddle.test.ts",
  "tests/run/failures.test.ts",
  "tests/run/heldOut.test.ts",
  "tests/run/rewards.test.ts",
  "tests/run/recipes.test.ts",
  "tests/run/inverse.test.ts",
  "tests/run/processModel.test.ts",
];
/** Slow tests of code around losses and estimators. */
const LEFT_OUT = /Gpu|codeReward|cost|async|smoke|grpoExample|search|selfReward|memory|dataLoop|rollout|specification/;

const listed = (folder: string): string[] =>
  readdirSync(join(packageFolder, folder))
    .toSorted()
    .map((name) => `${folder}/${name}`);

export const targetFiles = (): string[] =>
  TARGETS.flatMap((path) =>
    path.endsWith(".ts") ? [path] : listed(path).filter((file) => !file.endsWith("/index.ts")),
  );

export const readTarget = (file: string): string => readFileSync(join(packageFolder, file), "utf8");

/** Tests of losses and estimators, and of the code between them and the gradient. */
const testsOfMethods = (): string[] => ["tests/rl", "tests/methods", "tests/data", "tests/papers"].flatMap(listed);
const paths = (names: readonly string[]): string[] => {
  const all = testsOfMethods();
  return names.flatMap((name) => all.filter((path) => path.endsWith(`/${name}.test.ts`)));
};

const fastTestFiles = (): string[] => paths(FAST);

export function testFiles(): string[] {
  const all = testsOfMethods().filter((path) => /(?<!\.long)\.test\.ts$/.test(path) && !LEFT_OUT.test(path));
  const [first, last] = [fastTestFiles(), paths(LAST)];
  const others = all.filter((path) => !first.includes(path) && !last.includes(path));
  return [...first, ...ELSEWHERE, ...others, ...last];
}

export const allMutants = (): Mutant[] => targetFiles().flatMap((file) => mutantsOf(file, readTarget(file)));
