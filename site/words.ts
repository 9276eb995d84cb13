/**
 * An experiment as words, as its address has them: `?seed=1&arms=grpo,grpo%2Becho[lambda=0.2]&set=rl.groups=4` is the
 * seed and the option `rl.groups`, which all agents share, and two agents with settings of their own. The controls of
 * the page change these words; experiment.ts turns them into the agents' settings.
 */
import { nearest } from "../engine/options.ts";
import { AGENT_FLAGS, type Arm, parseArms, settingsIn } from "../run/arms.ts";
import { environmentSettings } from "../run/environments.ts";
import { type Said, START_FLAGS } from "../run/startOptions.ts";
import { UsageError } from "../run/usage.ts";
import { AGENTS } from "./messages.ts";

/** Values by flag or by PART.OPTION; a switch has the value undefined. */
export type Words = Readonly<Record<string, string | undefined>>;

export interface AgentWords {
  /** The displayed name; undefined: its method and settings. */
  readonly name: string | undefined;
  readonly method: string;
  readonly settings: Words;
}

export interface ExperimentWords {
  readonly shared: Words;
  readonly agents: readonly AgentWords[];
}

/** Flags that are about files, threads and terminals, which a page does not have. */
const NOT_HERE: readonly string[] = [
  "grpo-config",
  "name",
  "report-to",
  "from",
  "checkpoint",
  "resume",
  "workers",
  "max-staleness",
];
/** Flags about one agent, which stand in its brackets. The number of steps may also be shared. */
const OF_ONE: readonly string[] = ["method", ...AGENT_FLAGS.filter((flag) => flag !== "steps")];
/** The flags that all agents share, `set` and `arms` included. */
const SHARED = Object.keys(START_FLAGS).filter((flag) => !NOT_HERE.includes(flag) && !OF_ONE.includes(flag));

/** @throws UsageError with one line if a word is unknown, is there twice, or belongs to one agent */
export function wordsOf(address: URLSearchParams): ExperimentWords {
  const shared: Record<string, string | undefined> = {};
  const put = (key: string, value: string | undefined): void => {
    if (Object.hasOwn(shared, key)) throw new UsageError(`${key} is there twice in the address`);
    shared[key] = value;
  };
  for (const [flag, value] of address) {
    if (flag.includes(".")) throw new UsageError(`${flag}: an option is written as set=${flag}=${value}`);
    checkShared(flag);
    if (flag === "set") {
      const [, key, text] = /^([\w+-]+\.\w+)=(.*)$/.exec(value) ?? [];
      if (key === undefined)
        throw new UsageError(`set: expected PART.OPTION=VALUE, as in paw.alpha=0.5, got "${value}"`);
      put(key, text);
    } else if (!isSwitch(flag)) put(flag, value);
    else if (value !== "false") put(flag, undefined);
  }
  const { arms, ...rest } = shared;
  return { shared: rest, agents: arms === undefined ? defaultAgents(rest["env"]) : agentsOf(arms) };
}

/** The address of an experiment, the inverse of `wordsOf`; what is a default is left out. */
export function addressOf({ shared, agents }: ExperimentWords): URLSearchParams {
  const address = new URLSearchParams();
  const [sets, flags] = [true, false].map((isSet) =>
    Object.entries(shared).filter(([key]) => key.includes(".") === isSet),
  ) as [[string, string | undefined][], [string, string | undefined][]];
  for (const [flag, value] of flags) address.append(flag, value ?? "true");
  const arms = agents.map(armText).join(",");
  if (arms !== defaultOf(shared["env"])) address.append("arms", arms);
  for (const [key, value] of sets) address.append("set", `${key}=${value ?? ""}`);
  return address;
}

/** The input of `startOptions`, without the agents. */
export function saidBy(shared: Words): Said {
  const sets = Object.entries(shared).filter(([key]) => key.includes("."));
  const flags = Object.entries(shared).filter(([key]) => !key.includes("."));
  return {
    ...Object.fromEntries(flags.map(([flag, value]) => [flag, value ?? true])),
    ...(sets.length === 0 ? {} : { set: sets.map(([key, value]) => `${key}=${value ?? ""}`) }),
  };
}

/** An agent as `--arms` has it: `NAME=METHOD[SETTING,…]`. */
export function armText({ name, method, settings }: AgentWords): string {
  const inside = showWords(settings);
  return `${name === undefined ? "" : `${name}=`}${method}${inside === "" ? "" : `[${inside}]`}`;
}

/** Words on one line, as people write them; the inverse of `readWords`. */
export const showWords = (words: Words): string =>
  Object.entries(words)
    .map(([key, value]) => (value === undefined ? key : `${key}=${value}`))
    .join(",");

/** @throws UsageError that begins with `where` */
export function readWords(where: string, text: string): Words {
  return text.trim() === "" ? {} : settingsIn(where, text);
}

/** @throws UsageError unless agents can share this setting */
export function checkShared(key: string): void {
  if (key.includes(".") || SHARED.includes(key)) return;
  if (OF_ONE.includes(key))
    throw new UsageError(`${key} sets one agent: write it with the agent, as in arms=grpo,grpo+echo[lambda=0.1]`);
  const near = nearest(key, SHARED);
  throw new UsageError(`unknown setting "${key}" in the address${near ? `; did you mean "${near}"?` : ""}`);
}

const isSwitch = (flag: string): boolean => START_FLAGS[flag as keyof typeof START_FLAGS].type === "boolean";

/** @throws UsageError unless there is one for each worker of the page */
function agentsOf(arms: string): AgentWords[] {
  const parsed = parseArms(arms);
  if (parsed.length !== AGENTS) throw new UsageError(`arms: expected ${AGENTS} agents, got "${arms}"`);
  return wordsOfArms(parsed);
}

const wordsOfArms = (arms: readonly Arm[]): AgentWords[] =>
  arms.map(({ label, method, settings }) => {
    const own: AgentWords = { name: undefined, method, settings };
    return armText(own) === label.replace(/\s*,\s*/g, ",") ? own : { ...own, name: label };
  });

/** Names of the first agents that `npm start` compares, for people who do not know what their methods are called. */
const PLAIN_NAMES: Readonly<Record<string, string>> = { grpo: "plain", "grpo+echo": "predictor" };

/**
 * The first agents that `npm start` compares in an environment, by their plain names.
 * @throws UsageError if the environment is unknown or names none
 */
function defaultAgents(env = "home"): AgentWords[] {
  const { arms } = environmentSettings(env);
  if (arms === undefined) throw new UsageError(`env: ${env} names no agents to compare; say which with arms=…`);
  const first = parseArms(arms).slice(0, AGENTS);
  return wordsOfArms(first.map((arm) => ({ ...arm, label: PLAIN_NAMES[arm.label] ?? arm.label })));
}

/** The default arms of an environment, which an address leaves out; undefined if there are none. */
function defaultOf(env = "home"): string | undefined {
  return environmentSettings(env).arms === undefined ? undefined : defaultAgents(env).map(armText).join(",");
}
