/**
 * Papers whose method is more than an objective, each under one name for `--method`: the preset, and the settings of
 * data, reward and critic that belong to it. A recipe is a layer of settings below the user's; its options of parts
 * that the user replaces do not apply. Add-ons are possible: `dapo_full+echo`.
 */
import type { Layer } from "./layers.ts";
import { parseSettings } from "./settings.ts";
import { UsageError } from "./usage.ts";

/** The settings that a recipe stands for. */
export interface Recipe {
  readonly description: string;
  readonly source: string;
  /** Its preset. */
  readonly method: string;
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
  // An answer earns 0 or 1 here and ±1 in the paper, so the punishment is half of the paper's: a group's advantages are
  // the same, because GRPO divides by the deviation.
  dapo_full: {
    description: "DAPO with its data: groups of equal outcomes refilled at most 10 times, long answers punished",
    source: "arXiv 2503.14476",
    method: "dapo",
    set: [
      "dynamicSampling.on=true",
      "dynamicSampling.maxRefills=10",
      "dynamicSampling.exhausted=fail",
      "reward.overlong=0.5",
      "reward.cap=0.5",
    ],
  },
  // The gradient of k2, ½(lp − lp_T)², is that of the reverse KL on the student's own samples (arXiv 2506.09477).
  opd: {
    description: "on-policy distillation: the reverse KL to --teacher at each token that the agent wrote; no rewards",
    source: "GKD, arXiv 2306.13649; MiniLLM, arXiv 2306.08543",
    method: "grpo_token",
    set: ["rl.advantage=none", "kl.beta=1", "kl.estimator=k2"],
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
    set: [
      "curriculum.name=failed+learnability",
      "curriculum.variants=0.5",
      "replay.perStep=2",
      "replay.minProbability=0.5",
      "replay.maxProbability=0.95",
    ],
  },
};

/** A recipe among the names of a method: its settings, and the names with its preset in its place. */
export interface ChosenRecipe {
  readonly name: string;
  readonly method: string;
  readonly layer: Layer;
}

/** @throws UsageError for two */
export function recipeOf(method: string): ChosenRecipe | undefined {
  const names = method.split("+");
  const [name, second] = names.filter((part) => Object.hasOwn(RECIPES, part));
  if (name === undefined) return undefined;
  if (second !== undefined) throw new UsageError(`--method ${method}: ${name} and ${second}; one is possible`);
  const recipe = RECIPES[name]!;
  return {
    name,
    method: names.map((part) => (part === name ? recipe.method : part)).join("+"),
    layer: { values: parseSettings(recipe.set).values, by: (key) => `--method ${name} (${key})` },
  };
}

/**
 * The result of `make`.
 * @throws UsageError that names the recipe where the usual one would name a method that the user did not write
 */
export function inWordsOf<T>(recipe: ChosenRecipe | undefined, make: () => T): T {
  try {
    return make();
  } catch (error) {
    if (!(error instanceof UsageError) || recipe === undefined) throw error;
    const { name } = recipe;
    const { method } = RECIPES[name]!;
    const isOfParts = !error.message.includes(name) && method.split("+").some((part) => error.message.includes(part));
    throw isOfParts ? new UsageError(`${error.message} (--method ${name} is ${method})`) : error;
  }
}

/** One line for each, for `--list`. */
export function listRecipes(): string {
  const lines = Object.entries(RECIPES).map(
    ([name, { description, source }]) => `  ${name.padEnd(24)}${description} (${source})`,
  );
  return ["Papers with their data and rewards (--method)", ...lines].join("\n");
}
