/** The command line of `npm start`: its help and the parser of its flags. */
import { methodFromGrpoConfig } from "../../connect/grpoConfig.ts";
import { camel, PLUGINS, showFlag } from "../plugins.ts";
import { isRecord } from "../records.ts";
import { optionRows } from "../settings.ts";
import { type Said, START_FLAGS, type StartOptions, startOptions } from "../startOptions.ts";
import { usage, UsageError } from "../usage.ts";
import { parse } from "./flags.ts";
import { readData, withConfig } from "./flagsFile.ts";
import { withWorldOf } from "./fromRun.ts";

/** The flags of plug-ins, in the form of the text below. */
const PLUGIN_FLAGS = PLUGINS.flatMap(({ flag }) => {
  const isNumber = flag.kind === "count" || flag.kind === "schedule";
  return [`  ${showFlag(flag).padEnd(19)} ${flag.about}`, ...(isNumber ? [`${" ".repeat(60)}(default 0)`] : [])];
}).join("\n");

/** The text of `--help`. */
export const HELP = `worldgrad: train small language agents in text worlds, and see what predicting the world is worth

By default two agents are trained in the same unknown home, from the same warm start, with the same number of
episodes: one learns from rewards only, the other also learns to predict the environment's answers. With --method, or
any other flag about a method, one agent is trained.

  npm start -- [flags]

  --device NAME       auto | wasm | webgpu | reference      (default auto: WebGPU on real hardware, else WebAssembly)
  --tune              measures the GPU's schedules first; for one agent; later runs find them in runs/schedules.json
  --seed N            seed of everything random             (default 0)
  --steps N           optimiser steps of the RL phase       (default: sized for minutes on two CPU cores)
  --model SIZE        tiny | small | base                   (default small)
  --model-path DIR    begins with the pretrained model in this folder (as transformers or llama2.c write it) instead of
                      a new one; --set lora.r=16 trains an adapter instead of all weights
  --storage FORM      f32 | bf16 | f16 | q8: how the matrices under an adapter are stored in memory
                                                            (default f32)
  --system TEXT       system message of its episodes        (default: a line about the environment)
  --thinking          it thinks before it acts, as its chat template says; thoughts are trained, and stay in the context
                      unless --set history.thoughts=false
  --env NAME          the environment                       (default home)
  --env A:3+B         several in one run: three episodes in A for one in B
  --env ./FILE.ts     an environment of your own: the default export of this file
  --arms LIST         the agents to compare: methods, with settings in brackets, commas between them, as in
                      "grpo,grpo+echo[lambda=0.1],random facts=grpo+echo[lambda=0.2,train.facts=random]"
                                                            (default: the environment's)
  --method NAMES      grpo_token, grpo, dapo, ppo, …; world models and token weightings with a plus: dapo+echo+actfocus
                                                            (one agent; default with other flags: grpo_token+echo)
                      or a paper's method with its data and rewards: dapo_full, starpo_s, vapo_full
                      or a baseline for RL: sft, expert, random
  --loss NAME         a policy loss in place of the method's
  --advantage NAME    an advantage estimator in place of the method's
  --aggregation NAME  an aggregation over tokens in place of the method's
  --lambda X          weight of the world-model loss, ECHO  (default 0.05; 0 is plain GRPO)
  --kl X              weight of a KL penalty that keeps the policy near the warm start
                                                            (default 0)
  --kl-target X       adapts that weight so that the KL comes near X
  --importance-correction NAME
                      tis | icepop: weights for episodes of an older policy (--replay, --workers)
  --reward NAME       replaces the environment's own outcome: coderl | ppocoder | swerl for submitted programs
                      (--env code, --env patch), toolrl (--env tools), orm or prm: a model of outcomes or of steps that
                      is trained first, judges: a majority vote; or a file with a function of your own, ./mine.ts
  --temperature X     sampling temperature, or a schedule: 1..0.6@100 goes from 1 to 0.6 in 100 steps, and evaluations
                      stay at 1                             (default 1)
${PLUGIN_FLAGS}
  --self-play NAME    absolute-zero | r-zero: the model proposes the tasks that it learns from (--env code)
  --workers N         plays in N threads                    (default: plays and learns in turn, in one thread)
  --workers nats://HOST:PORT
                      plays on other machines, through a NATS server: npm run worker -- --server nats://HOST:PORT
  --max-staleness N   lets workers play ahead: a step learns from episodes that are at most N steps old
                                                            (default 0: the same run as without workers)
  --set PART.X=VALUE  any other option, as often as needed: paw.alpha=0.5, ppo.epsilonHigh=0.3, rl.entropy=0.01;
                      env.levels=1-2 for the environment, train.… for training only, demo.… for demonstrations only;
                      sft.thoughts=true: agents that think before they act (gridworld, sokoban);
                      history.turns=8: how many earlier turns the model reads (history.keep, history.thoughts)
  --grpo-config FILE  the method as a file of TRL's GRPOConfig, in JSON or YAML
  --config FILE       flags in JSON or YAML; each run writes its own into its flags.json; flags beside it win
  --list              a line for every method, loss, advantage and environment, with its source; all options of --set
  --name NAME         name of the run folder in runs/       (default: from the settings)
  --report-to LIST    tensorboard, csv: also writes the metrics for these, into the run folder
  --from PATH         begin a new run with the weights, and otherwise the settings, of the run in this folder: more
                      steps, other rates, another method or world; --steps 0 evaluates it
  --teacher PATH      the run, or the folder of a model, whose probabilities --method opd and --kl compare with, in
                      place of the agent as it was before RL; with a run, in its world
  --checkpoint NAME   with --from: newest | best (on held-out tasks) | a step
                                                            (default newest)
  --resume PATH       continue the run in this folder from its last checkpoint
  --quick             alone: two agents learn from a warm start that lies here already, in a minute; with settings that
                      need another one: every part in a few seconds, and nothing is learnt
  --help [WORD]       this text, or what there is about a flag, a kind of thing, a name or an option: --help methods,
                      --help sokoban, --help ppo
`;

const FLAGS = {
  ...START_FLAGS,
  config: { type: "string" },
  list: { type: "boolean" },
  help: { type: "boolean" },
} as const;

/** What TRL and PEFT call by other names than the command line. */
const ELSEWHERE: Readonly<Record<string, string>> = {
  learningRate: "set rl.lr=VALUE",
  numGenerations: "set rl.groupSize=VALUE",
  numIterations: "set rl.iterations=VALUE",
  maxSteps: "steps N",
  maxCompletionLength: "set rollout.maxActionTokens=VALUE",
  beta: "kl VALUE",
  lora: "set lora.r=VALUE",
  loraR: "set lora.r=VALUE",
  loraAlpha: "set lora.alpha=VALUE",
  outputDir: "name NAME",
  modelNameOrPath: "model-path DIR",
};

/** What an unknown flag is meant for: the option of `--set` of its name, of RL if several parts have one, as `--lr`. */
function optionOf(flag: string): string | undefined {
  const word = camel(flag.replaceAll("_", "-"));
  if (Object.hasOwn(ELSEWHERE, word)) return ELSEWHERE[word];
  const named = optionRows().filter(({ name }) => name === word);
  const { part, name } = named.find((row) => row.part === "rl") ?? named[0] ?? {};
  return part && `set ${part}.${name}=VALUE`;
}

/** What a command line says, with the flags of a file that it names. @throws UsageError with one line */
export const saidIn = (args: readonly string[]): Said => withConfig(parse(args, FLAGS, optionOf));

/**
 * Reads the command line.
 * @returns the options, or the name of the text to print instead
 * @throws UsageError with one line that names what was expected
 */
export function parseStart(args: readonly string[]): StartOptions | "help" | "list" {
  const values = saidIn(args);
  if (values["help"]) return "help";
  if (values["list"]) return "list";
  if (values["resume"] !== undefined) {
    const others = Object.keys(values).filter((name) => !["resume", "device", "report-to"].includes(name));
    if (others.length > 0)
      throw new UsageError(
        `--resume continues a run with its own settings; remove --${others[0]}, or begin another run with its ` +
          `weights: --from ${values["resume"] as string} --${others[0]} …`,
      );
  }
  return startOptions(withFiles(withWorldOf(values)));
}

/** The flags, in which the content of a file replaces its path. @throws UsageError if it cannot be read */
export function withFiles(flags: Said): Said {
  const path = flags["grpo-config"] as string | undefined;
  return path === undefined ? flags : { ...flags, "grpo-config": readGrpoConfig(path) };
}

/** Reads the method and the numbers of TRL's configuration from a file. @throws UsageError with one line */
function readGrpoConfig(path: string): ReturnType<typeof methodFromGrpoConfig> {
  const config = readData("--grpo-config", path);
  if (!isRecord(config)) throw new UsageError(`--grpo-config: ${path}: expected an object of GRPOConfig's fields`);
  return usage(() => methodFromGrpoConfig(config));
}
