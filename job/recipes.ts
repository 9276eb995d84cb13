/**
 * Papers whose method is more than an objective, each under one name for `--method`: the preset, and the settings of
 * data, reward and critic that belong to it. A recipe is an abbreviation of flags; `config.json` contains what these
 * set, and flags that the user gives take precedence. Add-ons are possible: `dapo_full+echo`.
 */
import { ADVANTAGES } from "../rl/methods/advantages/index.ts";
import { POLICY_LOSSES } from "../rl/methods/losses/index.ts";
import { TOKEN_WEIGHTS } from "../rl/methods/presets.ts";
import { isTrained } from "./trainedRewards.ts";
import type { StartOptions } from "./startOptions.ts";
import { UsageError } from "./usage.ts";

/** The flags that a recipe stands for. */
export interface Recipe {
  readonly description: string;
  readonly source: string;
  /** Its preset. */
  readonly method: string;
  /** Whether it has `--dynamic-sampling`. */
  readonly dynamicSampling?: true;
  /** Its `--curriculum`. */
  readonly curriculum?: "failed+learnability";
  /** Texts `PART.OPTION=VALUE`, as `--set` takes them. */
  readonly set: readonly string[];
}

/** All recipes. */
export const RECIPES: Readonly<Record<string, Recipe>> = {
  coderl: {
    description: "REINFORCE against a greedy program, each token weighed by a critic of outcomes; in code and patch",
    source: "arXiv 2207.01780",
    method: "remax+outcome_critic",
    set: ["reward.name=coderl"],
  },
  // An answer is worth 0 or 1 here and ±1 in the paper, so the punishment is half of the paper's: a group's advantages
  // are the same, because GRPO divides by the deviation.
  dapo_full: {
    description: "DAPO with its data: groups of equal outcomes refilled at most 10 times, long answers punished",
    source: "arXiv 2503.14476",
    method: "dapo",
    dynamicSampling: true,
    set: ["dynamicSampling.maxRefills=10", "dynamicSampling.exhausted=fail", "reward.overlong=0.5", "reward.cap=0.5"],
  },
  // The cap lets eight malformed actions count in full.
  starpo_s: {
    description: "PPO on the quarter of the groups of largest spread, clip-higher, −0.1 for each malformed action",
    source: "RAGEN, arXiv 2504.20073",
    method: "ppo",
    set: [
      "gae.gamma=1",
      "gae.lambda=1",
      "ppo.epsilon=0.2",
      "ppo.epsilonHigh=0.28",
      "rl.entropy=0.001",
      "rolloutFilter.strategy=top_k",
      "rolloutFilter.value=0.25",
      "reward.malformed=0.1",
      "reward.cap=0.8",
    ],
  },
  vapo_full: {
    description: "VAPO with 50 steps before it in which only the critic learns, and twice the rate for the critic",
    source: "arXiv 2504.05118",
    method: "vapo",
    set: ["critic.pretrain=50", "critic.rate=2"],
  },
  // The paper adds at most twice as many old episodes as new ones; two groups are less than that, and more than none.
  webrl_full: {
    description:
      "WebRL's loss with failed tasks and others of their kind, and replay of successes of middling perplexity",
    source: "arXiv 2411.02337",
    method: "webrl",
    curriculum: "failed+learnability",
    set: ["curriculum.variants=0.5", "replay.perStep=2", "replay.minProbability=0.5", "replay.maxProbability=0.95"],
  },
};

/** The options with the flags that a recipe among the names of `--method` stands for. @throws UsageError for two */
export function withRecipe(options: StartOptions): StartOptions {
  const { method, set = [], advantage, loss, reward, curriculum, replay } = options;
  const names = method?.split("+") ?? [];
  const [name, second] = names.filter((part) => Object.hasOwn(RECIPES, part));
  if (name === undefined) return options;
  if (second !== undefined) throw new UsageError(`--method ${method!}: ${name} and ${second}; one is possible`);
  const recipe = RECIPES[name]!;
  checkRecipe(name, recipe, options);
  const said = new Set([
    ...set.map(keyOf),
    ...(reward === undefined ? [] : ["reward.name"]),
    ...(replay === undefined ? [] : ["replay.perStep"]),
  ]);
  // If the user replaces a part of the method, the recipe's options of that part do not apply.
  const isExchanged = (part: string): boolean =>
    (part === "curriculum" && curriculum !== undefined) ||
    (part === "replay" && replay === 0) ||
    (advantage !== undefined && Object.hasOwn(ADVANTAGES, part)) ||
    (loss !== undefined && Object.hasOwn(POLICY_LOSSES, part));
  const own = recipe.set.filter((text) => !said.has(keyOf(text)) && !isExchanged(text.split(".")[0]!));
  return {
    ...options,
    method: names.map((part) => (part === name ? recipe.method : part)).join("+"),
    ...(recipe.dynamicSampling ? { dynamicSampling: true } : {}),
    ...(recipe.curriculum ? { curriculum: curriculum ?? recipe.curriculum } : {}),
    set: [...own, ...set],
  };
}

/** Throws a UsageError that names the recipe, where the usual error would name settings that the user did not write. */
function checkRecipe(name: string, recipe: Recipe, options: StartOptions): void {
  const { advantage, selfPlay, set = [] } = options;
  const has = (part: string): boolean => recipe.set.some((text) => text.startsWith(part));
  if (advantage === "gdpo" && has("reward.cap"))
    throw new UsageError(
      `--method ${name} bounds the sum of its rewards, and --advantage gdpo compares them one by one; ` +
        `take --method ${recipe.method}`,
    );
  if (has("replay.")) checkReplay(name, recipe, options);
  if (recipe.method === "webrl" && set.includes("rl.trainObservations=true") && options.loss === undefined)
    throw new UsageError(
      `--method ${name}: trainObservations trains answers as if they were actions, and its loss reads of actions ` +
        "what answers do not have; leave one of them out",
    );
  if (recipe.method.endsWith("outcome_critic")) checkCritic(name, options);
  const isSelfPlay = selfPlay !== undefined || set.some((text) => keyOf(text) === "selfPlay.name");
  if (isSelfPlay && (recipe.dynamicSampling || recipe.curriculum || has("reward.")))
    throw new UsageError(
      `--method ${name} has tasks and rewards of its own, and so has --self-play; take --method ${recipe.method}`,
    );
}

/** Refuses a loss that cannot learn from the earlier episodes that the recipe replays. */
function checkReplay(name: string, recipe: Recipe, options: StartOptions): void {
  const { loss = recipe.method, advantage, replay, importanceCorrection } = options;
  if (replay !== undefined || importanceCorrection !== undefined || advantage === "vtrace") return;
  if (Object.hasOwn(POLICY_LOSSES, loss) && POLICY_LOSSES[loss]!.make().ratio === false)
    throw new UsageError(
      `--method ${name} and --loss ${loss}: ${loss} has no ratio, which replayed episodes of older policies need; ` +
        `take --method ${recipe.method}`,
    );
}

/** Refuses what does not go with the critic of outcomes that the recipe brings along. */
function checkCritic(name: string, { method = "", workers, reward, set = [] }: StartOptions): void {
  const other = method.split("+").find((part) => Object.hasOwn(TOKEN_WEIGHTS, part));
  if (other !== undefined)
    throw new UsageError(`--method ${name} weighs tokens by a critic, and ${other} does it, too; leave +${other} out`);
  if (set.includes("rl.trainObservations=true"))
    throw new UsageError(
      `--method ${name}: trainObservations trains answers as if they were actions, of which its critic says nothing; ` +
        "leave one of them out",
    );
  if (workers !== undefined)
    throw new UsageError(`--method ${name} asks a model on the learner's device; leave --workers out`);
  if (isTrained(reward))
    throw new UsageError(`--method ${name} and --reward ${reward}: a run trains one such model; leave one of them out`);
}

const keyOf = (text: string): string => text.split("=")[0]!;

/** One line for each, for `--list`. */
export function listRecipes(): string {
  const lines = Object.entries(RECIPES).map(
    ([name, { description, source }]) => `  ${name.padEnd(24)}${description} (${source})`,
  );
  return ["Papers with their data and rewards (--method)", ...lines].join("\n");
}
