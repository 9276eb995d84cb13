/** The command line of `npm start`. Values are checked one by one; a mistake is one line. */
import { folderName, numberFrom, oneOf, parse, UsageError, wholeNumber } from "../flags.ts";

export const MODEL_SIZES = ["tiny", "small", "base"] as const;
export type ModelSize = (typeof MODEL_SIZES)[number];
export const DEVICES = ["auto", "wasm", "webgpu", "reference"] as const;

/** The flags about a method; what is undefined is left to the method (methods.ts). */
export interface MethodFlags {
  readonly method?: string | undefined;
  readonly advantage?: string | undefined;
  readonly loss?: string | undefined;
  readonly aggregation?: string | undefined;
  readonly lambda?: number | undefined;
  readonly kl?: number | undefined;
  readonly klTarget?: number | undefined;
  readonly importanceCorrection?: string | undefined;
  /** A file of TRL's GRPOConfig. */
  readonly grpoConfig?: string | undefined;
  /** Texts `PART.OPTION=VALUE` (settings.ts). */
  readonly set?: readonly string[] | undefined;
}

/** The flags about the data (data.ts). */
export interface DataFlags {
  /** A number or a schedule (schedules.ts). */
  readonly temperature?: string | undefined;
  readonly explore?: string | undefined;
  readonly curriculum?: string | undefined;
  readonly dynamicSampling?: boolean | undefined;
  readonly expertPrefix?: boolean | undefined;
  readonly replay?: number | undefined;
  readonly predict?: number | undefined;
}

/** All flags of `npm start`. */
export interface StartOptions extends MethodFlags, DataFlags {
  /** The number of threads that play; undefined: none. */
  readonly workers?: number | undefined;
  /** Needs workers. */
  readonly maxStaleness?: number | undefined;
  readonly device: (typeof DEVICES)[number];
  readonly seed: number;
  /** The number of RL steps; undefined: the preset's. */
  readonly steps: number | undefined;
  /** Default `home`. */
  readonly env?: string | undefined;
  /** The agents to compare (tools/arms/arms.ts); undefined: the environment's, unless a method is named. */
  readonly arms?: string | undefined;
  readonly model: ModelSize;
  readonly resume: string | undefined;
  readonly name: string | undefined;
  readonly quick: boolean;
}

/** The text of `--help`. */
export const HELP = `worldgrad: train small language agents in text worlds, and see what predicting the world is worth

By default two agents are trained in the same unknown home, from the same warm start, with the same number of
episodes: one learns from rewards only, the other also learns to predict the environment's answers. With --method, or
any other flag about a method, one agent is trained.

  npm start -- [flags]

  --device NAME       auto | wasm | webgpu | reference      (default auto: WebGPU on real hardware, else WebAssembly)
  --seed N            seed of everything random             (default 0)
  --steps N           optimiser steps of the RL phase       (default: sized for 5 minutes on two CPU cores)
  --model SIZE        tiny | small | base                   (default small)
  --env NAME          the environment                       (default home)
  --arms LIST         the agents to compare: methods, with settings in brackets, commas between them, as in
                      "grpo,grpo+echo[lambda=0.1],random facts=grpo+echo[lambda=0.2,train.facts=random]"
                                                            (default: the environment's)
  --method NAMES      grpo_token, grpo, dapo, ppo, …; world models and token weightings with a plus: dapo+echo+actfocus
                                                            (one agent; default with other flags: grpo_token+echo)
                      or a yardstick for RL: sft, expert, random
  --loss NAME         a policy loss in place of the method's
  --advantage NAME    an advantage estimator in place of the method's
  --aggregation NAME  an aggregation over tokens in place of the method's
  --lambda X          weight of the world-model loss, ECHO  (default 0.05; 0 is plain GRPO)
  --kl X              weight of a KL penalty that keeps the policy near the warm start
                                                            (default 0)
  --kl-target X       adapts that weight so that the KL comes near X
  --importance-correction NAME
                      tis | icepop: weights for episodes of an older policy (--replay, --workers)
  --temperature X     sampling temperature, or a schedule: 1..0.6@100 goes from 1 to 0.6 in 100 steps, and evaluations
                      stay at 1                             (default 1)
  --explore X         share of actions that a random player chooses, or a schedule
                                                            (default 0)
  --curriculum NAME   learnability | failed | failed+learnability | pools: which tasks are played
  --dynamic-sampling  plays further tasks in place of those that all episodes solve, or none
  --expert-prefix     plays tasks that no episode solves again, with the expert's first actions given
  --replay N          also learns from N earlier groups in every step
                                                            (default 0)
  --predict N         rewards predictions of N answers in every step
                                                            (default 0)
  --workers N         plays in N threads                    (default: plays and learns in turn, in one thread)
  --max-staleness N   lets workers play ahead: a step learns from episodes that are at most N steps old
                                                            (default 0: the same run as without workers)
  --set PART.X=VALUE  any other option, as often as needed: paw.alpha=0.5, ppo.epsilonHigh=0.3, rl.entropy=0.01;
                      env.levels=1-2 for the environment, train.… for training only, demo.… for demonstrations only;
                      sft.thoughts=true: agents that think before they act (gridworld, sokoban)
  --grpo-config FILE  the method as a file of TRL's GRPOConfig, in JSON
  --list              a line for every method, loss, advantage and environment, with its source; all options of --set
  --name NAME         name of the run folder in runs/       (default: from the settings)
  --resume PATH       continue the run in this folder from its last checkpoint
  --quick             a run of a few seconds that goes through every part
  --help              this text
`;

const FLAGS = {
  device: { type: "string" },
  seed: { type: "string" },
  steps: { type: "string" },
  model: { type: "string" },
  env: { type: "string" },
  arms: { type: "string" },
  method: { type: "string" },
  loss: { type: "string" },
  advantage: { type: "string" },
  aggregation: { type: "string" },
  lambda: { type: "string" },
  kl: { type: "string" },
  "kl-target": { type: "string" },
  "importance-correction": { type: "string" },
  temperature: { type: "string" },
  explore: { type: "string" },
  curriculum: { type: "string" },
  "dynamic-sampling": { type: "boolean" },
  "expert-prefix": { type: "boolean" },
  replay: { type: "string" },
  predict: { type: "string" },
  workers: { type: "string" },
  "max-staleness": { type: "string" },
  set: { type: "string", multiple: true },
  "grpo-config": { type: "string" },
  list: { type: "boolean" },
  name: { type: "string" },
  resume: { type: "string" },
  quick: { type: "boolean" },
  help: { type: "boolean" },
} as const;

/**
 * Reads the command line.
 * @returns the options, or what to print instead
 * @throws UsageError with one line that says what was expected
 */
export function parseStart(args: readonly string[]): StartOptions | "help" | "list" {
  const values = parse(args, FLAGS);
  if (values["help"]) return "help";
  if (values["list"]) return "list";
  const text = (name: keyof typeof FLAGS): string | undefined => values[name] as string | undefined;
  const number = (name: keyof typeof FLAGS): number | undefined =>
    text(name) === undefined ? undefined : numberFrom(name, text(name)!);
  const resume = text("resume");
  if (resume !== undefined) {
    const others = Object.keys(values).filter((name) => name !== "resume" && name !== "device");
    if (others.length > 0)
      throw new UsageError(`--resume continues a run with its own settings; remove --${others[0]}`);
  }
  return {
    device: oneOf("device", text("device") ?? "auto", DEVICES),
    seed: wholeNumber("seed", text("seed") ?? "0", 0),
    steps: text("steps") === undefined ? undefined : wholeNumber("steps", text("steps")!, 0),
    method: text("method"),
    loss: text("loss"),
    advantage: text("advantage"),
    aggregation: text("aggregation"),
    lambda: number("lambda"),
    kl: number("kl"),
    klTarget: number("kl-target"),
    importanceCorrection: text("importance-correction"),
    temperature: text("temperature"),
    explore: text("explore"),
    curriculum: text("curriculum"),
    dynamicSampling: values["dynamic-sampling"] === true,
    expertPrefix: values["expert-prefix"] === true,
    replay: text("replay") === undefined ? undefined : wholeNumber("replay", text("replay")!, 0),
    predict: text("predict") === undefined ? undefined : wholeNumber("predict", text("predict")!, 0),
    workers: text("workers") === undefined ? undefined : wholeNumber("workers", text("workers")!, 1),
    maxStaleness:
      text("max-staleness") === undefined ? undefined : wholeNumber("max-staleness", text("max-staleness")!, 0),
    set: values["set"] as readonly string[] | undefined,
    grpoConfig: text("grpo-config"),
    env: text("env"),
    arms: text("arms"),
    model: oneOf("model", text("model") ?? "small", MODEL_SIZES),
    name: text("name") === undefined ? undefined : folderName(text("name")!),
    resume,
    quick: values["quick"] === true,
  };
}
