/**
 * What may be combined on the command line: factors, each of whose values is some flags of `npm start`, and what a
 * value is for the others, so that values that nobody else can tell apart need not meet everything.
 */
import { ENVIRONMENTS } from "../../environments/index.ts";
import { CURRICULA } from "../../data/curricula.ts";
import type { Preset } from "../../run/preset.ts";
import { RECIPES } from "../../run/recipes.ts";
import { UsageError } from "../../run/usage.ts";
import { BASELINES } from "../../run/baselines.ts";
import { ADVANTAGES } from "../../methods/advantages/index.ts";
import { AGGREGATIONS } from "../../rl/objective/aggregation.ts";
import { POLICY_LOSSES } from "../../methods/losses/index.ts";
import { PREFERENCE } from "../../methods/losses/preference.ts";
import { SUPERVISED } from "../../methods/losses/supervised.ts";
import { METHODS } from "../../methods/choice.ts";
import type { Factors, Pair, Row } from "./pairwise.ts";
import { presetOfFlags } from "./presetOfFlags.ts";

/** Settings as flags. */
const set = (...settings: readonly string[]): string => settings.map((text) => `--set ${text}`).join(" ");
/** No flag, or a flag with one of these values. */
const flags = (name: string, values: readonly string[]): string[] => ["", ...values.map((v) => `--${name} ${v}`)];

/** Losses of pairs and of demonstrations, which RL refuses one by one; other tests say how. */
const isOfRewards = (name: string): boolean => !Object.hasOwn(PREFERENCE, name) && !Object.hasOwn(SUPERVISED, name);

/** Without `opd`, which needs the folder of another model (tests/run/cli/teacher.long.test.ts). */
const OF_PAPERS = Object.keys(RECIPES).filter((name) => name !== "opd");
const METHOD_NAMES = [...Object.keys(METHODS), ...OF_PAPERS, ...Object.keys(BASELINES)];
/** What a few small steps cannot do of a recipe: find groups with spread, and train the critic for 50 steps. */
const SMALLER: Readonly<Record<string, string>> = {
  dapo_full: " --set dynamicSampling.exhausted=train",
  vapo_full: " --set critic.pretrain=1",
  coderl: " --set outcomeCritic.episodes=8 --set outcomeCritic.steps=2",
};

const CONTROLS_OF_LABELS = ["shuffled", "none"].map((labels) => set("sft.labelled=8", `sft.labels=${labels}`));

/** The flags of a value of each factor; the first is what a user gets who says nothing, or `grpo`. */
export const FACTORS: Factors = {
  env: Object.keys(ENVIRONMENTS).map((name) => `--env ${name}`),
  coordinates: ["", set("env.coordinates=bins")],
  subgoals: ["", set("env.subgoals=0.3")],
  method: METHOD_NAMES.map((name) => `--method ${name}${SMALLER[name] ?? ""}`),
  addOn: ["", "+echo", "+paw", "+actfocus", "+top_entropy", "+outcome_critic"],
  advantage: flags("advantage", Object.keys(ADVANTAGES)),
  loss: flags("loss", Object.keys(POLICY_LOSSES).filter(isOfRewards)),
  aggregation: flags("aggregation", AGGREGATIONS),
  kl: [
    "",
    "--kl 0.1",
    "--kl 0.1 --kl-target 0.01",
    `--kl 0.1 ${set("kl.decay=0.5")}`,
    `--kl 0.1 ${set("kl.in=reward")}`,
  ],
  entropy: ["", set("rl.entropy=0.01"), set("entropy.target=0.5")],
  reward: [
    "",
    "--reward coderl",
    "--reward ppocoder",
    "--reward swerl",
    "--reward toolrl",
    `--reward orm ${set("orm.episodes=8", "orm.steps=2", "orm.batchSize=4")}`,
    `--reward prm ${set("prm.episodes=8", "prm.steps=2", "prm.batchSize=4", "prm.samples=2")}`,
    "--reward judges",
    `--reward judges ${set("reward.judges=approval")}`,
    set("reward.format=0.2", "reward.malformed=0.1"),
    set("reward.overlong=0.5", "reward.cap=0.3"),
  ],
  curriculum: flags("curriculum", Object.keys(CURRICULA)),
  refills: ["", "--dynamic-sampling"],
  prefix: ["", "--expert-prefix"],
  temperature: ["", "--temperature 1.5..0.7@3"],
  explore: ["", "--explore 0.3", `--explore 0.3 ${set("exploration.choose=expert")}`],
  replay: ["", "--replay 2"],
  predict: ["", "--predict 2"],
  hindsight: ["", "--hindsight 4", `--hindsight 4 ${set("hindsight.tasks=shuffled")}`],
  imitate: ["", "--imitate-expert 4", `--imitate-expert 4 ${set("imitateExpert.tasks=shuffled")}`],
  correction: [
    "",
    "--importance-correction tis",
    "--importance-correction icepop",
    set("rejection.level=sum", "rejection.estimator=k1", "rejection.max=2"),
  ],
  filter: ["", set("rolloutFilter.strategy=top_k")],
  iterations: ["", set("rl.iterations=2")],
  loop: ["", set("rl.gradientCheckpointing=true"), set("rl.gradShares=true", "rl.gradEvery=1")],
  masks: ["", set("rl.maskTruncated=true"), set("rl.trainObservations=true"), set("rl.rewardFrom=1")],
  workers: ["", "--workers 1", "--workers 1 --max-staleness 1"],
  lora: ["", set("lora.r=2")],
  sft: [
    "",
    set("sft.thoughts=true"),
    set("sft.labelled=8"),
    ...CONTROLS_OF_LABELS,
    set("sft.loss=dft"),
    set("sft.general=0.5"),
  ],
  negatives: ["", set("env.negatives=0.5")],
  selfPlay: ["", "--self-play absolute-zero", "--self-play r-zero"],
};

/** The words of the command line. */
function wordsOf({ method = "", addOn = "", ...others }: Row): string[] {
  const [flag, name, ...more] = method.split(" ");
  const words = Object.values(others).flatMap((value) => value.split(" ").filter((word) => word !== ""));
  return ["--quick", flag!, `${name!}${addOn}`, ...more, ...words];
}

export const nameOf = (row: Row): string => wordsOf(row).slice(1).join(" ");

/** The settings of a row. @throws UsageError if they do not go together */
export const settingsOf = (row: Row): Preset => presetOfFlags(...wordsOf(row));

/** The answers of `refusalOf`, each of which takes milliseconds, and pairs ask for the same rows again. */
const refusals = new Map<string, string | undefined>();

/** Why a row is refused; undefined if it is not. */
export function refusalOf(row: Row): string | undefined {
  const name = nameOf(row);
  if (!refusals.has(name)) refusals.set(name, findRefusal(row));
  return refusals.get(name);
}

function findRefusal(row: Row): string | undefined {
  try {
    settingsOf(row);
    return undefined;
  } catch (error) {
    if (error instanceof UsageError) return error.message;
    throw error;
  }
}

export const PLAIN: Row = Object.fromEntries(Object.entries(FACTORS).map(([name, [first]]) => [name, first!]));
/** Some values need a world of their own, or a world model. */
const SURROUNDINGS: readonly Row[] = ["", "+echo"].flatMap((addOn) =>
  FACTORS["env"]!.map((env) => ({ ...PLAIN, env, addOn })),
);

const alone = new Map<string, readonly Row[]>();
/** The surroundings in which a value is accepted by itself. */
function homesOf(factor: string, value: string): readonly Row[] {
  const key = `${factor} ${value}`;
  const known = alone.get(key) ?? SURROUNDINGS.filter((row) => refusalOf({ ...row, [factor]: value }) === undefined);
  alone.set(key, known);
  return known;
}

/** What becomes of two values: a row that has them; or why they are refused; or, each needs what the other cannot. */
export type Verdict =
  { readonly row: Row } | { readonly refusal: string; readonly of: Row } | { readonly apart: string };

export function verdictOf({ a, x, b, y }: Pair): Verdict {
  const others = new Set(homesOf(b, y));
  // A value of the surroundings takes the place of the one there.
  const homes = homesOf(a, x).filter((row) => others.has(row));
  // Which of its worlds a value is in is not what makes it refuse another: one world with each add-on is asked.
  const asked = homes.filter((row, i) => homes.findIndex(({ addOn }) => addOn === row["addOn"]) === i);
  const rows = asked.map((row) => ({ ...row, [a]: x, [b]: y }));
  const row = rows.find((one) => refusalOf(one) === undefined);
  if (row) return { row };
  return rows.length === 0 ? { apart: `${a} ${b}` } : { refusal: refusalOf(rows[0]!)!, of: rows[0]! };
}

/** Whether an error names what a value says: one of its flags, options or names. */
export function names(message: string, factor: string, value: string): boolean {
  if (factor === "addOn" && message.includes("add +echo")) return true; // it needs another one
  const words = value.split(/[ =]/).filter((word) => /^(--|\+)?[a-z][\w.+-]+$/i.test(word) && word !== "--set");
  const known = words.flatMap((word) =>
    word === "true" ? [] : [word, ...word.split(".").filter((part) => part.length > 2)],
  );
  // The library calls what `--kl 0.1` says by its option; flags whose values are names are known by these.
  const option = /^--([a-z]+) [\d.]+/.exec(value)?.[1];
  const isNamed = option !== undefined && new RegExp(`\\b${option}\\b`).test(message);
  return isNamed || known.some((word) => message.includes(word.replace(/^\+/, "")));
}

/** Estimators that read more of an episode than its rewards and whether it was a success. */
const READERS = new Set(["gigpo", "milestone", "trr++", "gdpo"]);
const estimator = (name: string): string => {
  const { needs, greedyBaseline, offPolicy, readsReturn, state } = ADVANTAGES[name]!.make();
  return JSON.stringify([needs, greedyBaseline, offPolicy, readsReturn, state !== undefined]);
};
const policyLoss = (name: string): string => {
  const { needs, ratio, clip, prepare } = POLICY_LOSSES[name]!.make();
  return JSON.stringify([needs, ratio, clip?.level, prepare !== undefined]);
};

/** Whoever sees of a method what its advantage reads of an episode. */
const OF_EPISODES = new Set([
  "env",
  "subgoals",
  "reward",
  "curriculum",
  "explore",
  "temperature",
  "prefix",
  "selfPlay",
  "negatives",
]);

/**
 * What a value is for another factor. Everything is itself for a factor of few values. For one of many:
 * - An estimator reads rewards, and says what else it needs and promises (statistics, a memory, a greedy rollout); a
 *   loss sees numbers for each token, and says the same. Those that say the same are one, and a preset is its parts.
 * - Worlds, rewards and choices of tasks reach a method through what its estimator reads, no loss sees them.
 * - Labels are made before RL begins, which sees demonstrations alone; nor do methods see whose they are.
 */
export function seen(factor: string, value: string, other: string): string {
  const word = value.split(" ")[1];
  const isOfEpisodes = OF_EPISODES.has(other);
  if (factor === "sft" && value.includes("labelled") && other !== "env") return other === "method" ? "labelled" : "";
  if (FACTORS[other]!.length <= 3 || word === undefined) return value;
  const reads = (name: string): string => (READERS.has(name) && isOfEpisodes ? name : estimator(name));
  if (factor === "loss") return isOfEpisodes ? "a loss" : policyLoss(word);
  if (factor === "advantage") return reads(word);
  if (factor !== "method" || METHODS[word] === undefined) return value; // recipes and baselines are themselves
  const { advantage, loss, aggregation, critic, dropConstantGroups, imitation } = METHODS[word];
  const more = JSON.stringify([critic, dropConstantGroups, imitation]);
  if (other === "advantage") return policyLoss(loss) + more;
  if (isOfEpisodes) return reads(advantage);
  if (other === "loss") return estimator(advantage) + more;
  return estimator(advantage) + policyLoss(loss) + (other === "aggregation" ? "" : aggregation) + more;
}
