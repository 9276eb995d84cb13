/** Files that `npm run mutate` edits, and the tests that must notice. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { packageFolder } from "../packageFolder.ts";
import { type Mutant, mutantsOf } from "./mutants.ts";

/** Paths of the named files of a folder. */
const within = (folder: string, names: string): string[] => names.split(" ").map((name) => `${folder}/${name}.ts`);

/**
 * Losses, estimators, and all that lies between them and the gradient; the plan of a decoder; recomputation. A folder
 * stands for its files without index.ts.
 */
const TARGETS = [
  ...within("engine", "capture"),
  ...within("nn", "decodingPlan"),
  "methods/losses",
  "methods/advantages",
  "environments/program",
  ...within("rl/objective", "aggregation clipped crossEntropy echo estimator grpo kl policyLoss value"),
  ...within(
    "methods",
    "entropy gradients importanceCorrection kl outcomeCritic paw preference reader sft tokenWeights",
  ),
  ...within("rl/train", "advantages imitation loss pack score update valuePretraining weights"),
  ...within("rl/episode", "groups stream turns"),
  ...within("rl", "evaluate tasks/scoring"),
  ...within("papers/rewards", "behaviour composite judge length process program similarity toolCalls"),
  ...within("papers/selfplay", "absoluteZero options rZero rewards rounds"),
  "papers/completions.ts",
  ...within("data", "generalTexts hindsight imitateExpert inverse pools replay"),
  ...within("environments", "household/hindsight riddle/proposal screen/bins web/hindsight"),
  ...within("run", "failures heldOut inverse judgements processModel recipes rewards verification"),
];

/** Tests of one formula or function each, in milliseconds. They run first, whatever their folder. */
const FAST = (
  "optionTables goldenHost goldenTrl lossVectors advantageVectors weightVectors lossDetails advantageDetails " +
  "weightDetails packing columns rewardDetails golden echo stream weights rewards rewards-outcome programRewards " +
  "components supervised learner selfPlay selfPlayDetails scoring data pools dataReplay inverse generalTexts " +
  "toolCalls reader outcomeCritic hindsight imitateExpert process completions capture decodingPlan decoder achieved " +
  "screen program riddle failures heldOut recipes processModel"
).split(" ");
/** Tests that train for seconds and reach nearly every mutant. They run last, when few mutants are left. */
const LAST = "methods properties trainer gradientShares gradients lora presets predictions".split(" ");
/** Slow tests of code around losses and estimators. */
const LEFT_OUT = /Gpu|codeReward|cost|async|smoke|search|selfReward|memory|dataLoop|rollout|specification/;
/** Folders of the tests of the edited files. */
const FOLDERS = ["engine", "nn", "rl", "methods", "data", "papers", "environments", "run"].map(
  (name) => `tests/${name}`,
);

const listed = (folder: string): string[] =>
  readdirSync(join(packageFolder, folder))
    .toSorted()
    .map((name) => `${folder}/${name}`);

export const targetFiles = (): string[] =>
  TARGETS.flatMap((path) =>
    path.endsWith(".ts") ? [path] : listed(path).filter((file) => !file.endsWith("/index.ts")),
  );

export const readTarget = (file: string): string => readFileSync(join(packageFolder, file), "utf8");

const nameOf = (path: string): string => path.replace(/^.*\/(.*)\.test\.ts$/, "$1");

export function testFiles(): string[] {
  const all = FOLDERS.flatMap(listed).filter((path) => /(?<!\.long)\.test\.ts$/.test(path) && !LEFT_OUT.test(path));
  const named = (names: readonly string[]): string[] =>
    names.flatMap((name) => all.filter((path) => nameOf(path) === name));
  const [first, last] = [named(FAST), named(LAST)];
  const others = all.filter(
    (path) => /^tests\/(rl|methods|data|papers)\//.test(path) && !first.includes(path) && !last.includes(path),
  );
  return [...first, ...others, ...last];
}

export const allMutants = (): Mutant[] => targetFiles().flatMap((file) => mutantsOf(file, readTarget(file)));
