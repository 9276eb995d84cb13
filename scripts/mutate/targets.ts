/** The files that `npm run mutate` edits, and the tests that have to notice. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { packageFolder } from "../packageFolder.ts";
import { type Mutant, mutantsOf } from "./mutants.ts";

/**
 * Losses, estimators, and all that is between them and the gradient. A folder stands for its files without index.ts.
 */
const TARGETS = [
  "rl/methods/losses",
  "rl/methods/advantages",
  "rl/methods/aggregation.ts",
  "rl/methods/importanceCorrection.ts",
  "rl/methods/world/echo.ts",
  "rl/methods/world/paw.ts",
  "rl/methods/tokenWeights.ts",
  "rl/train/advantages.ts",
  "rl/train/weights.ts",
  "rl/train/supervised.ts",
  "rl/episode/stream.ts",
  "rl/episode/groups.ts",
  "rl/train/pack.ts",
  "rl/train/score.ts",
  "rl/train/loss.ts",
  "rl/train/update.ts",
  "rl/train/gradients.ts",
  "rl/rewards/behaviour.ts",
  "rl/rewards/composite.ts",
  "rl/rewards/hindsight.ts",
  "rl/rewards/judge.ts",
  "rl/rewards/length.ts",
  "rl/rewards/subgoals.ts",
  "rl/rewards/turns.ts",
];

/** Fast tests run first, as a mutant is done with the first test that fails; the others of tests/rl follow. */
const FIRST = [
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
  "learner",
  "gradients",
  "golden",
  "components",
  "weights",
  "echo",
  "stream",
  "rewards",
  "rewards-outcome",
  "supervised",
  "properties",
  "methods",
];
/** Slow tests of code around losses and estimators. */
const LEFT_OUT = /Gpu|codeReward|async|smoke|search|selfReward|memory|dataLoop|rollout|evaluation|specification/;

const listed = (folder: string): string[] =>
  readdirSync(join(packageFolder, folder))
    .toSorted()
    .map((name) => `${folder}/${name}`);

export const targetFiles = (): string[] =>
  TARGETS.flatMap((path) =>
    path.endsWith(".ts") ? [path] : listed(path).filter((file) => !file.endsWith("/index.ts")),
  );

export const readTarget = (file: string): string => readFileSync(join(packageFolder, file), "utf8");

export const fastTestFiles = (): string[] => FIRST.map((name) => `tests/rl/${name}.test.ts`);

export function testFiles(): string[] {
  const all = listed("tests/rl").filter((path) => path.endsWith(".test.ts") && !LEFT_OUT.test(path));
  const first = fastTestFiles();
  return [...first, ...all.filter((path) => !first.includes(path))];
}

export const allMutants = (): Mutant[] => targetFiles().flatMap((file) => mutantsOf(file, readTarget(file)));
