/**
 * The names that flags take beside methods: rewards, curricula, self-play, each with a sentence and its source for
 * `--list`.
 */
import type { SELF_PLAY_NAMES } from "../papers/selfplay/options.ts";
import type { CurriculumName } from "../data/curricula.ts";
import type { REWARDS } from "./rewardOptions.ts";

interface Named {
  readonly about: string;
  readonly source: string;
}
type Names<N extends string> = Readonly<Record<N, Named>>;

const NAMED_REWARDS: Names<(typeof REWARDS)[number]> = {
  coderl: {
    about: "−1, −0.6, −0.3 or 1: a program does not compile, fails, fails a test, passes; in code and patch",
    source: "CodeRL, arXiv 2207.01780",
  },
  ppocoder: {
    about: "±1 for compiling, and likeness of syntax and data flow to the reference program; in code and patch",
    source: "PPOCoder, arXiv 2301.13816",
  },
  swerl: { about: "likeness of a patch to the true one, −1 without a patch; in patch", source: "arXiv 2502.18449" },
  toolrl: {
    about: "form and calls against the wanted ones: names, parameters, values, from −3 to 4; in tools",
    source: "ToolRL, arXiv 2504.13958",
  },
  orm: {
    about: "1 if a model that was trained on verified episodes of the warm start holds it for a success, else 0",
    source: "WebRL, arXiv 2411.02337",
  },
  prm: {
    about: "for each step how likely success is after it, by a model that was trained on completions from each step",
    source: "Math-Shepherd, arXiv 2312.08935",
  },
  judges: { about: "the majority of judges; reward.judges names them", source: "arXiv 2401.10020; majority: ours" },
  file: { about: "a function of one's own: --reward ./my-reward.ts", source: "as TRL's reward_funcs" },
};

const NAMED_CURRICULA: Names<CurriculumName> = {
  learnability: {
    about: "families or levels of tasks by p(1 − p), p their success rate",
    source: "arXiv 2304.12877, 2502.12272",
  },
  failed: {
    about: "a share of the groups tries again what a whole group failed at",
    source: "WebRL, arXiv 2411.02337",
  },
  "failed+learnability": { about: "both", source: "arXiv 2411.02337, 2304.12877" },
  pools: { about: "tasks in pools by success rate, drawn by a pool's weight", source: "prime-rl" },
};

const NAMED_SELF_PLAY: Names<(typeof SELF_PLAY_NAMES)[number]> = {
  "absolute-zero": {
    about: "deduction, abduction and induction over programs; proposals are paid 1 − success rate",
    source: "arXiv 2505.03335",
  },
  "r-zero": {
    about: "a challenger paid for answers that disagree, then a solver that learns from the majority",
    source: "arXiv 2508.05004",
  },
};

/** One line for each name, flag by flag, for `--list`. */
export function listNames(): string {
  const section = (title: string, names: Names<string>): string => {
    const lines = Object.entries(names).map(([name, { about, source }]) => `  ${name.padEnd(24)}${about} (${source})`);
    return [title, ...lines].join("\n");
  };
  return [
    section("The outcome in place of the environment's own (--reward)", NAMED_REWARDS),
    section("Which tasks are played (--curriculum)", NAMED_CURRICULA),
    section("Tasks that the model makes itself (--self-play)", NAMED_SELF_PLAY),
  ].join("\n\n");
}
