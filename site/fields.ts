/** The fields of the page's form, with the texts, ranges and words of the project's own tables of options. */
import { ENVIRONMENTS } from "../environments/index.ts";
import type { Preset } from "../run/preset.ts";
import { optionRow } from "../run/settings.ts";
import type { Value } from "../run/layout.ts";
import { showSetting } from "../run/shownSettings.ts";
import { DEVICES, MODEL_SIZES } from "../run/startOptions.ts";
import { UsageError } from "../run/usage.ts";
import { BASELINES } from "../run/baselines.ts";
import { TOKEN_WEIGHTS, WORLD } from "../methods/presets.ts";
import { METHODS } from "../methods/choice.ts";
import { experimentOfWords } from "./experiment.ts";
import type { AgentWords, ExperimentWords, Words } from "./words.ts";

export interface Field {
  /** The flag, or PART.OPTION. */
  readonly key: string;
  readonly label: string;
  /** Its meaning and its allowed values, in one line. */
  readonly about: string;
  /** The words to choose from; `open`: others are allowed, too. */
  readonly words?: readonly string[];
  readonly open?: true;
  /** The value that holds while the field is empty. */
  readonly inForce: (preset: Preset) => string;
}

/** The value of a preset's part, as it is written on a command line. */
const at =
  (part: "rl" | "rollout" | "sft" | "tasks", option: string) =>
  (preset: Preset): string => {
    const value = (preset[part] as Readonly<Record<string, Value>> | undefined)?.[option];
    if (value === undefined) return "";
    return Array.isArray(value) ? value.join("-") : showSetting(value);
  };

/** A field of an option that has a table. @param option its name there, if the key is a flag */
function optionField(key: string, label: string, option = key, inForce?: Field["inForce"]): Field {
  const row = optionRow(option);
  if (row === undefined) throw new Error(`fields: there is no option ${option}`);
  const part = row.part as "rl" | "rollout" | "sft";
  return { key, label, about: `${row.about}; ${row.allowed}`, inForce: inForce ?? at(part, row.name) };
}

/** Fields of the settings that all agents share. */
export const SHARED_FIELDS: readonly Field[] = [
  {
    key: "env",
    label: "environment",
    about: "the world in which the agents act",
    words: Object.keys(ENVIRONMENTS),
    inForce: ({ env }) => env,
  },
  {
    key: "env.levels",
    label: "levels",
    about: "how hard the tasks are: the easiest and the hardest level, as in 1-2",
    inForce: at("tasks", "levels"),
  },
  {
    key: "model",
    label: "model",
    about: "the size of the transformer",
    words: MODEL_SIZES,
    inForce: ({ model }) => `${model.layers} layers of ${model.hiddenSize}`,
  },
  {
    key: "seed",
    label: "seed",
    about: "of everything random; a whole number",
    inForce: ({ seed }) => String(seed),
  },
  { key: "steps", label: "RL steps", about: "how many the run has; a whole number", inForce: at("rl", "steps") },
  optionField("rl.groups", "tasks in a step"),
  optionField("rl.groupSize", "group size"),
  {
    key: "device",
    label: "executor",
    about: "what computes; auto is WebAssembly here, which for models this small is faster than most GPUs",
    words: DEVICES.filter((name) => name !== "reference"),
    inForce: () => "auto",
  },
];

const lambdaInForce = ({ rl }: Preset): string => {
  const lambda = rl.options?.["echo"]?.["lambda"];
  if (lambda !== undefined) return showSetting(lambda);
  return rl.method.split("+").includes("echo") ? (optionRow("echo.lambda")?.default ?? "") : "no world model";
};

/** Fields of an agent's own settings, beside its method. */
export const AGENT_FIELDS: readonly Field[] = [
  optionField("lambda", "λ", "echo.lambda", lambdaInForce),
  optionField("rl.lr", "learning rate"),
  optionField("temperature", "temperature", "rollout.temperature"),
];

/** Methods to choose from: each alone and with each world-model loss, GRPO with token weights, and the baselines. */
export const METHOD_WORDS: readonly string[] = [
  ...Object.keys(METHODS).flatMap((name) => [name, ...Object.keys(WORLD).map((world) => `${name}+${world}`)]),
  // The outcome critic judges programs, which the page's environments do not ask for.
  ...Object.keys(TOKEN_WEIGHTS).flatMap((name) => (name === "outcome_critic" ? [] : [`grpo_token+${name}`])),
  ...Object.keys(BASELINES),
];

/** An invalid word, and why. */
export interface Wrong {
  /** Its agent; undefined: all share it. */
  readonly agent?: number;
  /** "method", or a key; undefined: no single word is to blame. */
  readonly key?: string;
  readonly message: string;
}

/** The word to blame for an error: without it the error goes away or changes. null: nothing is wrong. */
export function wrongIn(words: ExperimentWords): Wrong | null {
  const message = problemOf(words);
  if (message === null) return null;
  const without = (own: Words, key: string): Words =>
    Object.fromEntries(Object.entries(own).filter(([k]) => k !== key));
  const isToBlame = (other: ExperimentWords): boolean => problemOf(other) !== message;
  const changed = (agent: number, change: Partial<AgentWords>): ExperimentWords => ({
    ...words,
    agents: words.agents.map((own, i) => (i === agent ? { ...own, ...change } : own)),
  });
  for (const key of Object.keys(words.shared))
    if (isToBlame({ ...words, shared: without(words.shared, key) })) return { key, message };
  for (const [agent, { settings }] of words.agents.entries()) {
    for (const key of Object.keys(settings))
      if (isToBlame(changed(agent, { settings: without(settings, key) }))) return { agent, key, message };
    if (isToBlame(changed(agent, { method: "grpo_token" }))) return { agent, key: "method", message };
    if (isToBlame(changed(agent, { name: `agent ${agent + 1}` }))) return { agent, key: "name", message };
  }
  return { message };
}

/** The error in the words, in one line; null if there is none. */
function problemOf(words: ExperimentWords): string | null {
  try {
    experimentOfWords(words);
    return null;
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    return error.message;
  }
}
