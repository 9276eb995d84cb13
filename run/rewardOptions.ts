/** The options of a run's rewards (rewards.ts), and of the models that are trained for them before RL begins. */
import { number, oneOf, options, type OptionsOf, text } from "../engine/optionTable.ts";
import { PROCESS_FORMS, STEP_LABELS } from "../papers/rewards/process.ts";

const COUNT = { integer: true, min: 1 };
const WHOLE = { integer: true, min: 0 };

/** The names that `--reward` takes, in place of the environment's own return (rewards.ts). */
export const REWARDS = ["coderl", "ppocoder", "swerl", "toolrl", "orm", "prm", "judges", "file"] as const;

/** The judges that can vote in `--reward judges`. */
export const JUDGES = ["verifier", "form", "tools", "approval"] as const;

/** The outcome, and the weights of components that are added to it; its own weight is 1 (rewards.ts). */
export const REWARD = options("--set reward", {
  name: oneOf(
    REWARDS,
    undefined,
    "the outcome in place of the environment's own: see --reward; file: the one of --reward FILE",
  ),
  judges: text(
    undefined,
    `who votes in --reward judges, with a plus between them: ${JUDGES.join(", ")}; by default the first three`,
  ),
  control: oneOf(
    ["chance"],
    undefined,
    "with --reward coderl, ppocoder or swerl: the grade of what does not solve the task is drawn, a control",
  ),
  timeout: number(undefined, "milliseconds that a reward may take, where others say it; by default 60000", {
    above: 0,
  }),
  matching: oneOf(
    ["greedy", "best"],
    undefined,
    "how --reward toolrl matches calls with the wanted ones; by default greedy",
  ),
  format: number(undefined, "weight of well-formed actions", { min: 0 }),
  malformed: number(undefined, "what each malformed action costs", { min: 0 }),
  tools: number(undefined, "weight of calls without errors", { min: 0 }),
  overlong: number(undefined, "weight of the punishment for long completions (DAPO)", { min: 0 }),
  repetition: number(undefined, "weight of the punishment for repeated text", { min: 0 }),
  cap: number(undefined, "largest absolute value of the weighted sum of these components", { min: 0 }),
});

/** The training of the model of `--reward orm` before RL begins (outcomeModel.ts). */
export const ORM = options("--set orm", {
  episodes: number(256, "episodes of the warm start that it learns from; a quarter more measures it", COUNT),
  steps: number(100, "number of updates; 0: it has learnt nothing, a control", WHOLE),
  batchSize: number(16, "number of episodes in an update", COUNT),
  lr: number(1e-3, "learning rate", { above: 0 }),
  labels: oneOf(["own", "shuffled"], "own", "the verifier's judgements, or the same dealt out anew, a control"),
});
export type OrmOptions = OptionsOf<typeof ORM>;

/** The training of the model of `--reward prm` before RL begins, and its rewards (processModel.ts). */
export const PRM = options("--set prm", {
  ...ORM.fields,
  episodes: number(64, "episodes of the warm start whose steps it learns from; a quarter more measures it", COUNT),
  samples: number(8, "N, how many times each step of these is completed", COUNT),
  labels: oneOf(
    [...STEP_LABELS, "shuffled"],
    "hard",
    "of a step: whether a completion succeeds; their share that does; or the first dealt out anew, a control",
  ),
  form: oneOf(
    PROCESS_FORMS,
    "difference",
    "a step's reward: how far its value rises; the lowest value at its step; or the value, so that length pays",
  ),
});
export type PrmOptions = OptionsOf<typeof PRM>;

/** The training of the critic of `+outcome_critic` before RL begins (outcomeModel.ts). */
export const OUTCOME_CRITIC_TRAINING = options("--set outcomeCritic", {
  ...ORM.fields,
  labels: oneOf(
    ["own", "shuffled", "uniform"],
    "own",
    "the outcomes, the same dealt out anew, or 1/4 of each: controls",
  ),
});
export type OutcomeCriticOptions = OptionsOf<typeof OUTCOME_CRITIC_TRAINING>;

/** The settings of rewards, with those of the models that `--reward orm` or `--reward prm` trains. */
export type RewardSettings = OptionsOf<typeof REWARD> & { readonly orm?: OrmOptions; readonly prm?: PrmOptions };
