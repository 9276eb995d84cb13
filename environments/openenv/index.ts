/**
 * OpenEnv environments (huggingface/OpenEnv) as environments of this library, for acting, training and evaluation like
 * the built-in ones. An episode is a session with its own connection. The server must admit as many at a time as a
 * rollout plays (`max_concurrent_envs` there, `maxConcurrent` of the rollout here); those beyond wait and try again.
 *
 * What OpenEnv leaves open is set here: actions and observations are objects of each environment's own schema, so
 * `action` says how a text becomes one, and `observe` how one becomes a text. An action that does not fit is the
 * agent's mistake and answered in words; a server that fails, dies or says something meaningless ends the episode,
 * which is then masked.
 *
 * The same seed gives the same task only if the environment takes `seed` in its reset: servers silently drop what an
 * environment does not take. There is no expert, and no copy of a live episode.
 */
import { check, fail } from "../../engine/errors.ts";
import { checkKeys, showValue } from "../../engine/options.ts";
import {
  type CallOptions,
  type Environment,
  type EnvironmentOptions,
  type EnvironmentSpec,
  type FamilyInfo,
  SingleUseEnvironment,
  type StepInfo,
  type StepResult,
} from "../../rl/environment.ts";
import { settleOptions } from "../options.ts";
import { selectFamilies, type Split } from "../selection.ts";
import { type Fields, isFields, OpenEnvError } from "./connection.ts";
import { checkConnectOptions, type ConnectOptions, type Observed, OpenEnvSession, type Settings } from "./session.ts";

export { type Fields, OpenEnvError, type SocketConstructor, type SocketLike } from "./connection.ts";
export { connect, type ConnectOptions, type Observed, OpenEnvSession, type ReconnectOptions } from "./session.ts";

/**
 * Options of `openEnv`: where the server is (`url` is needed), and what OpenEnv leaves to each environment: how a text
 * becomes an action (`action` is needed), what the agent reads of an observation, and when an episode counts as solved.
 */
export interface OpenEnvOptions extends ConnectOptions {
  /**
   * The action made from a text: the name of the one field that holds the text ("message", "code", "command"), or a
   * function. What the function throws is told to the agent as the answer to its action.
   */
  readonly action: string | ((text: string) => Fields);
  /**
   * For servers whose actions are calls of tools (OpenEnv's `MCPEnvironment`): the tool that an action calls. `action`
   * is then an argument of it, or a function that returns all its arguments.
   */
  readonly tool?: string;
  /** The text of an observation, which the agent reads. Default: `observationText`. */
  readonly observe?: (observation: Fields) => string;
  /** The data of `reset`. Default: `{ seed }`; held-out tasks are only there if this says how to get them. */
  readonly task?: (seed: number, split: Split) => Fields;
  /**
   * The reward for `reward: null` on an episode's last step. Default NaN: the episode cannot be scored. On earlier
   * steps null is 0.
   */
  readonly missingReward?: number;
  /** Whether an episode is solved; called on its last step. Default: its rewards sum to more than 0. */
  readonly success?: (last: Observed, total: number) => boolean;
  /** Actions of the random baseline. Without them there is none. */
  readonly actions?: readonly string[];
  /** The name in metrics and transcripts; default "openenv". */
  readonly name?: string;
}

/**
 * The answer of a tool (`CallToolObservation`): its texts, or the reason why there are none. As JSON the same answer is
 * several times as long, since servers send it in three forms. Undefined if the observation is no tool's.
 */
function toolText({ tool_name: tool, result, error }: Fields): string | undefined {
  if (typeof tool !== "string") return undefined;
  if (isFields(error)) return `error: ${String(error["message"])}`;
  const { content, is_error: isError } = isFields(result) ? result : {};
  if (!Array.isArray(content)) return undefined;
  const parts = content
    .filter(isFields)
    .map(({ type, text }) => (typeof text === "string" ? text : `[${String(type)}]`));
  return `${isError === true ? "error: " : ""}${parts.join("\n")}`;
}

/**
 * An observation as text: one line `name: value` for each field that says something, values that are not texts as JSON.
 * A sole field stands without its name. A tool's answer is its text alone, after `error: ` if the tool failed.
 */
export function observationText(observation: Fields): string {
  const answer = toolText(observation);
  if (answer !== undefined) return answer;
  const isEmpty = (value: unknown): boolean =>
    value === null || value === "" || (typeof value === "object" && Object.keys(value).length === 0);
  const said = Object.entries(observation).filter(([, value]) => !isEmpty(value));
  const toText = (value: unknown): string => (typeof value === "string" ? value : JSON.stringify(value));
  if (said.length === 1) return toText(said[0]![1]);
  return said.map(([name, value]) => `${name}: ${toText(value)}`).join("\n");
}

/** Options with their defaults. */
interface Rules {
  readonly name: string;
  readonly settings: Settings;
  readonly toAction: (text: string) => Fields;
  readonly observe: (observation: Fields) => string;
  readonly task: (seed: number, split: Split) => Fields;
  readonly missingReward: number;
  readonly success: (last: Observed, total: number) => boolean;
}

/** A live episode on a server. */
export class OpenEnvEnvironment extends SingleUseEnvironment {
  readonly name: string;
  /** The session, for calls beyond the contract: `state`, `mcp`. */
  readonly session: OpenEnvSession;
  readonly #rules: Rules;
  readonly #split: Split;
  #turns = 0;
  #toolErrors = 0;
  #total = 0;

  constructor(rules: Rules, split: Split) {
    super();
    this.name = rules.name;
    this.#rules = rules;
    this.#split = split;
    this.session = new OpenEnvSession(rules.settings);
  }

  /** A server has one kind of task, under the name of its environment. */
  get info(): StepInfo {
    return { family: this.name, level: 1 };
  }

  protected async begin(seed: number, signal?: AbortSignal): Promise<string> {
    const { task, observe, name } = this.#rules;
    const first = await this.#orClose(() => this.session.reset(task(seed, this.#split), callOptions(signal)));
    if (first.done) this.close();
    check(!first.done, () => `${name}.reset: the episode of seed ${seed} is over before its first action`);
    return observe(first.observation);
  }

  protected async act(action: string, signal?: AbortSignal): Promise<StepResult> {
    this.#turns++;
    let fields: Fields;
    try {
      fields = this.#rules.toAction(action);
    } catch (error) {
      return this.#mistake(error instanceof Error ? error.message : String(error));
    }
    try {
      return this.#result(await this.#orClose(() => this.session.step(fields, callOptions(signal))));
    } catch (error) {
      if (error instanceof OpenEnvError && error.code === "VALIDATION_ERROR") return this.#mistake(complaint(error));
      throw error;
    }
  }

  /** Frees the place on the server; for an episode that is left before its end. */
  close(): void {
    this.session.close();
  }

  #result(step: Observed): StepResult {
    const { missingReward, observe, success } = this.#rules;
    const reward = step.reward ?? (step.done ? missingReward : 0);
    this.#total += reward;
    if (step.done) this.close();
    return {
      observation: observe(step.observation),
      reward,
      done: step.done,
      info: this.#stepInfo(step.done && success(step, this.#total)),
    };
  }

  #mistake(what: string): StepResult {
    this.#toolErrors++;
    return { observation: `invalid action: ${what}`, reward: 0, done: false, info: this.#stepInfo(false) };
  }

  #stepInfo(success: boolean): StepInfo {
    return { ...this.info, success, turns: this.#turns, toolErrors: this.#toolErrors };
  }

  /** Frees the place on the server after every error but that of an action that did not fit. */
  async #orClose(call: () => Promise<Observed>): Promise<Observed> {
    try {
      return await call();
    } catch (error) {
      if (!(error instanceof OpenEnvError) || error.code !== "VALIDATION_ERROR") this.close();
      throw error;
    }
  }
}

const callOptions = (signal: AbortSignal | undefined): CallOptions => (signal ? { signal } : {});

/** The complaint of the server's validation: `message: Field required`. */
function complaint({ message, details }: OpenEnvError): string {
  const errors = Array.isArray(details["errors"]) ? (details["errors"] as readonly unknown[]).filter(isFields) : [];
  if (errors.length === 0) return message;
  const place = ({ loc }: Fields): string => (Array.isArray(loc) && loc.length > 0 ? `${loc.join(".")}: ` : "");
  return errors.map((error) => `${place(error)}${String(error["msg"])}`).join("; ");
}

function rulesOf(options: OpenEnvOptions): Rules {
  const { action, tool, observe = observationText, missingReward = NaN, name = "openenv", ...others } = options;
  const { success = (_last, total) => total > 0, task, actions, ...connection } = others;
  check(
    typeof action === "function" || (typeof action === "string" && action !== ""),
    () => `${name}: action must be the name of the field for an action's text, or a function, got ${showValue(action)}`,
  );
  check(
    tool === undefined || (typeof tool === "string" && tool !== ""),
    () => `${name}: tool must be a name, got ${showValue(tool)}`,
  );
  check(
    typeof missingReward === "number",
    () => `${name}: missingReward must be a number, got ${showValue(missingReward)}`,
  );
  check(
    actions === undefined || (Array.isArray(actions) && actions.length > 0),
    () => `${name}: actions must be a list of texts, got ${showValue(actions)}`,
  );
  const toFields = typeof action === "function" ? action : (text: string): Fields => ({ [action]: text });
  return {
    name,
    settings: checkConnectOptions(connection),
    toAction:
      tool === undefined ? toFields : (text) => ({ type: "call_tool", tool_name: tool, arguments: toFields(text) }),
    observe,
    task: task ?? ((seed) => ({ seed })),
    missingReward,
    success,
  };
}

/**
 * The environment of an OpenEnv server. Connects only when an episode begins.
 *
 * @throws WorldgradError on options that make no sense
 *
 * @example
 * const env = openEnv({ url: "http://localhost:8000", action: "message" });
 * const request = { spec: env, options: {}, seed: 0, group: 0, rng };
 * const trajectories = await rollout(model, template, [request], { maxConcurrent: 1 });
 */
export function openEnv(options: OpenEnvOptions): EnvironmentSpec {
  checkKeys("openEnv", options, OPTIONS);
  const rules = rulesOf(options);
  const { name } = rules;
  const families: readonly FamilyInfo[] = [{ name, level: 1, description: `what ${rules.settings.url} serves` }];
  return {
    name,
    description: `an OpenEnv server at ${rules.settings.url}`,
    families,
    make(chosen: EnvironmentOptions = {}): Environment {
      const settled = settleOptions(name, {}, chosen);
      selectFamilies(name, families, settled);
      const { split } = settled;
      check(
        split === "train" || options.task !== undefined,
        () => `${name}: the server knows no held-out tasks; say with \`task\` how to ask for them`,
      );
      return new OpenEnvEnvironment(rules, split);
    },
    expert: () => fail(`${name}: a remote environment has no expert`),
    random: (rng) => rng.choice(options.actions ?? fail(`${name}: the random baseline needs \`actions\``)),
  };
}

const OPTIONS = [
  "url",
  "WebSocket",
  "timeout",
  "reconnect",
  "action",
  "tool",
  "observe",
  "task",
  "missingReward",
  "success",
  "actions",
  "name",
] as const;
