/**
 * The tools of an MCP server as an environment: the agent's action is a tool call (toolCall.ts says how it is written),
 * the observation is the tool's result as text, and a function of the user's computes the reward. Several calls in one
 * action are made one after the other. An action that begins with the word of the option `finish` ("answer" by default)
 * ends the episode; the text after it is the answer. A call of that name among others does so, too.
 *
 * By default each episode has a session of its own, with a server process that is started for it, because most servers
 * keep state. An action that cannot be read, a tool that is not on the list, and a tool that fails are told to the
 * agent. A server that dies or does not answer in time ends the episode, which is then masked (`tool_error`).
 */
import { check, fail } from "../../engine/errors.ts";
import { showValue } from "../../engine/options.ts";
import { flag, inCode, number, options, type OptionsOf, REQUIRED, text } from "../../engine/optionTable.ts";
import {
  type EndResult,
  type Environment,
  type EnvironmentOptions,
  type EnvironmentSpec,
  type FamilyInfo,
  type OutsideEnd,
  SingleUseEnvironment,
  type StepInfo,
  type StepResult,
} from "../../environments/index.ts";
import { McpError, type McpServer, type McpSession, openSession } from "./session.ts";
import {
  describeTools,
  joinResults,
  type McpTool,
  parseToolCalls,
  resultText,
  type ToolCall,
  type ToolResult,
} from "./toolCall.ts";

/** A tool call of an episode, and its result. */
export interface McpTurn extends ToolCall {
  /** The text that the agent read. */
  readonly result: string;
  readonly isError: boolean;
}

/** The episode so far, which the reward function gets. */
export interface McpEpisode {
  readonly seed: number;
  readonly split: "train" | "heldout";
  /** The data that `task` returned beside the text. */
  readonly data: unknown;
  /** The tool calls so far. */
  readonly turns: readonly McpTurn[];
  /** The agent's final answer; undefined while the episode goes on, and if it ran out of turns. */
  readonly answer: string | undefined;
  /** Whether this is the last action: an answer, or the last turn. */
  readonly isOver: boolean;
  /** Calls any tool of the server, to see what the agent has done. @throws McpError */
  call(name: string, args?: Readonly<Record<string, unknown>>): Promise<ToolResult>;
}

/** The result of the reward function; a number is the reward. */
export type McpReward = number | { readonly reward: number; readonly success?: boolean; readonly done?: boolean };

/** A task: what the agent reads, and data for the function `reward`, which the agent does not see. */
export interface McpTask {
  readonly text: string;
  readonly data?: unknown;
}

/** The argument of `task`. `call` calls any tool of the server, to set up its state. */
export interface McpSetup extends Pick<McpEpisode, "call"> {
  readonly split: "train" | "heldout";
  readonly tools: readonly McpTool[];
}

/** The function of the option `server`, for a server that depends on the episode, such as a folder of its own. */
export type McpServerOf = (seed: number, split: "train" | "heldout") => McpServer | Promise<McpServer>;

const isFunction = (value: unknown): boolean => typeof value === "function";
const isTexts = (value: unknown): boolean =>
  Array.isArray(value) && value.length > 0 && value.every((entry) => typeof entry === "string");

const MCP = options("mcp", {
  server: inCode<McpServer | McpServerOf>(
    "the server: { command, args, env, cwd } starts one, { url, headers } is one; or a function of the seed",
    "{ command } or { url } or a function",
    (value) =>
      isFunction(value) || (typeof value === "object" && value !== null && ("command" in value || "url" in value)),
    REQUIRED,
  ),
  tools: inCode<readonly string[] | "all">(
    "the tools that the agent may call",
    'a list of names, or "all"',
    (value) => value === "all" || isTexts(value),
    REQUIRED,
  ),
  task: inCode<(seed: number, setup: McpSetup) => string | McpTask | Promise<string | McpTask>>(
    "makes the task of a seed",
    "a function",
    isFunction,
    REQUIRED,
  ),
  reward: inCode<(episode: McpEpisode) => McpReward | undefined | Promise<McpReward | undefined>>(
    "is called after every action; undefined: nothing was earned",
    "a function",
    isFunction,
    REQUIRED,
  ),
  end: inCode<(episode: McpEpisode, reason: OutsideEnd) => McpReward | undefined | Promise<McpReward | undefined>>(
    "is called instead of `reward` when a run ends the episode from outside; undefined: the run decides what it earns",
    "a function",
    isFunction,
  ),
  finish: text("answer", "the word that ends an episode, with the answer behind it; empty: there is none"),
  maxTurns: number(16, "actions until the episode ends", { integer: true, min: 1 }),
  describe: flag(true, "whether the task ends with a line for each tool"),
  timeout: number(8_000, "milliseconds for starting the server with its list of tools, and for each call", {
    above: 0,
  }),
  late: inCode<"mask" | "tell">(
    "what a call that takes too long does: `mask` (the default) ends the episode, `tell` tells the agent",
    '"mask" or "tell"',
    (value) => value === "mask" || value === "tell",
  ),
  maxResultChars: number(4_000, "characters of a result; more are cut in the middle", { integer: true, min: 1 }),
  maxActionChars: number(16_000, "characters of an action; a longer one is refused", { integer: true, min: 1 }),
  maxMessageBytes: number(10_000_000, "bytes of a message of the server, and of its list of tools", {
    integer: true,
    min: 1,
  }),
  share: flag(false, "whether all episodes have one session; for servers that keep no state"),
  expert: inCode<(episode: McpEpisode) => string>("the expert's next action", "a function", isFunction),
  actions: inCode<readonly string[]>("actions of a novice, for the random baseline", "a list of texts", isTexts),
  name: text("mcp", "the name in metrics and transcripts"),
});
/**
 * Options of `mcp`: the server, the tools that may be called, the tasks, the reward (`server`, `tools`, `task` and
 * `reward` are needed), and the limits of turns, time and size.
 */
export type McpOptions = OptionsOf<typeof MCP>;
type Rules = ReturnType<typeof MCP.read>;

/** The environment of an MCP server. */
export interface McpSpec extends EnvironmentSpec {
  /** The tools that the agent may call, as the server describes them. Opens a session for it unless one is shared. */
  tools(): Promise<readonly McpTool[]>;
  /** Ends the shared session. Episodes end theirs by themselves. */
  close(): Promise<void>;
}

/** Provides the session of an episode. */
interface Sessions {
  open(server: McpServer, signal?: AbortSignal): Promise<McpSession>;
  /** Called when the episode is over. */
  release(session: McpSession): void;
}

/** What came of an action: what the agent reads, and its answer if the action has ended the episode. */
interface Played {
  readonly observation: string;
  readonly answer: string | undefined;
}

/** A live episode on a server. */
export class McpEnvironment extends SingleUseEnvironment {
  readonly name: string;
  readonly #rules: Rules;
  readonly #split: "train" | "heldout";
  readonly #sessions: Sessions;
  readonly #turns: McpTurn[] = [];
  #session: McpSession | undefined;
  #isClosed = false;
  #tools: readonly McpTool[] = [];
  #seed = 0;
  #data: unknown;
  #count = 0;
  #toolErrors = 0;

  constructor(rules: Rules, split: "train" | "heldout", sessions: Sessions) {
    super();
    this.name = rules.name;
    this.#rules = rules;
    this.#split = split;
    this.#sessions = sessions;
  }

  /** There is one kind of task, under the environment's name. */
  get info(): StepInfo {
    return { family: this.name, level: 1 };
  }

  /** The episode so far, for an expert, which has to know what has happened. */
  get episode(): McpEpisode {
    return this.#episode(false, undefined);
  }

  protected async begin(seed: number, signal?: AbortSignal): Promise<string> {
    const { server, task, describe, name, finish } = this.#rules;
    this.#seed = seed;
    const where = typeof server === "function" ? await server(seed, this.#split) : server;
    const session = await this.#sessions.open(where, signal);
    this.#session = session;
    if (this.#isClosed) this.#release(); // closed while the session was being opened
    try {
      this.#tools = allowed(session.tools, this.#rules);
      const setup = { split: this.#split, tools: this.#tools, call: this.#caller(signal) };
      const made = await task(seed, setup);
      const { text: said, data } = typeof made === "string" ? { text: made, data: undefined } : made;
      check(typeof said === "string", () => `${name}: task must return a text or { text }, got ${showValue(made)}`);
      this.#data = data;
      if (!describe) return said;
      const last = finish === "" ? "" : `\n${finish} TEXT: ends with this answer`;
      return `${said}\n${describeTools(this.#tools)}${last}`;
    } catch (error) {
      this.#release();
      throw error;
    }
  }

  protected async act(action: string, signal?: AbortSignal): Promise<StepResult> {
    try {
      const { finish, maxTurns, maxActionChars } = this.#rules;
      this.#count++;
      const isLast = this.#count >= maxTurns;
      const said = action.length <= maxActionChars ? answerOf(action, finish) : undefined;
      if (said !== undefined) return await this.#end("", said, signal);
      const { observation, answer } = await this.#play(action, signal);
      if (isLast || answer !== undefined) return await this.#end(observation, answer, signal);
      return this.#result(observation, await this.#reward(false, undefined, signal), false);
    } catch (error) {
      this.#release();
      throw error;
    }
  }

  protected override async finish(reason: OutsideEnd, signal?: AbortSignal): Promise<EndResult | undefined> {
    const { end } = this.#rules;
    if (!end) return undefined;
    try {
      const earned = await end(this.#episode(true, undefined, signal), reason);
      if (earned === undefined) return undefined;
      const { reward, info } = this.#result("", earned, true);
      return { reward, info };
    } finally {
      this.#release();
    }
  }

  /** Ends the session of an episode that is left before its end. */
  close(): void {
    this.#isClosed = true;
    this.#release();
  }

  /** Plays the tool calls of an action, up to the one that ends the episode. */
  async #play(action: string, signal: AbortSignal | undefined): Promise<Played> {
    const { maxActionChars, finish } = this.#rules;
    if (action.length > maxActionChars) {
      const observation = this.#mistake(`it has ${action.length} characters, at most ${maxActionChars}`);
      return { observation, answer: undefined };
    }
    const end = { name: finish, description: "", inputSchema: {} };
    const calls = parseToolCalls(action, finish === "" ? this.#tools : [...this.#tools, end]);
    const results: string[] = [];
    const observed = (): string => joinResults(results, calls.length);
    for (const { call, mistake } of calls) {
      if (call === undefined) results.push(this.#mistake(mistake));
      else if (finish !== "" && call.name === finish) return { observation: observed(), answer: firstOf(call) };
      else results.push(await this.#call(call, signal));
    }
    return { observation: observed(), answer: undefined };
  }

  #mistake(what: string): string {
    this.#toolErrors++;
    return `invalid action: ${what}`;
  }

  /** Calls a tool; returns what the agent reads. */
  async #call(call: ToolCall, signal: AbortSignal | undefined): Promise<string> {
    const { maxResultChars, timeout, late } = this.#rules;
    let result: string;
    let isError: boolean;
    try {
      const answer = await this.#session!.call(call, { timeout, signal });
      result = resultText(answer, maxResultChars);
      isError = answer.isError === true;
    } catch (error) {
      const isTold =
        error instanceof McpError && (error.code === "REFUSED" || (error.code === "TIMEOUT" && late === "tell"));
      if (!isTold) throw error;
      result = resultText({ content: [{ type: "text", text: error.message.replace(/^mcp: /, "") }] }, maxResultChars);
      isError = true;
    }
    if (isError) this.#toolErrors++;
    this.#turns.push({ ...call, result, isError });
    return result;
  }

  async #end(observation: string, answer: string | undefined, signal?: AbortSignal): Promise<StepResult> {
    const result = this.#result(observation, await this.#reward(true, answer, signal), true);
    this.#release();
    return result;
  }

  async #reward(isOver: boolean, answer: string | undefined, signal?: AbortSignal): Promise<McpReward | undefined> {
    return await this.#rules.reward(this.#episode(isOver, answer, signal));
  }

  #result(observation: string, earned: McpReward | undefined, isOver: boolean): StepResult {
    const {
      reward,
      success,
      done = false,
    }: Exclude<McpReward, number> = typeof earned === "number" ? { reward: earned } : (earned ?? { reward: 0 });
    check(typeof reward === "number", () => `${this.name}: reward must be a number, got ${showValue(reward)}`);
    if (done) this.#release();
    const isDone = isOver || done;
    return {
      observation,
      reward,
      done: isDone,
      info: {
        ...this.info,
        success: isDone && (success ?? reward > 0),
        turns: this.#count,
        toolErrors: this.#toolErrors,
      },
    };
  }

  #episode(isOver: boolean, answer: string | undefined, signal?: AbortSignal): McpEpisode {
    return {
      seed: this.#seed,
      split: this.#split,
      data: this.#data,
      turns: this.#turns,
      answer,
      isOver,
      call: this.#caller(signal),
    };
  }

  #caller(signal: AbortSignal | undefined): McpEpisode["call"] {
    return (name, args = {}) => {
      const session = this.#session ?? fail(`${this.name}: the session has ended`);
      return session.call({ name, arguments: args }, { timeout: this.#rules.timeout, signal });
    };
  }

  #release(): void {
    const session = this.#session;
    this.#session = undefined;
    if (session) this.#sessions.release(session);
  }
}

/** The text after the word that ends an episode, or undefined. */
function answerOf(action: string, finish: string): string | undefined {
  if (finish === "") return undefined;
  const said = action.trim();
  if (said === finish) return "";
  return said.startsWith(finish) && /\s/.test(said[finish.length]!) ? said.slice(finish.length).trim() : undefined;
}

/** The first argument of a call as text. */
function firstOf({ arguments: args }: ToolCall): string {
  const [first = ""] = Object.values(args);
  return typeof first === "string" ? first : JSON.stringify(first);
}

/** The server's tools that the list admits. @throws if the list names one that the server does not have */
function allowed(tools: readonly McpTool[], { tools: wanted, finish, name }: Rules): readonly McpTool[] {
  const known = tools.map((tool) => tool.name);
  const chosen = wanted === "all" ? known : wanted;
  const missing = chosen.filter((each) => !known.includes(each));
  check(
    missing.length === 0,
    () => `${name}: the server has no tool ${missing.join(", ")}; it has ${known.join(", ")}`,
  );
  check(!chosen.includes(finish), () => `${name}: the server has a tool "${finish}"; set \`finish\` to another word`);
  return tools.filter((tool) => chosen.includes(tool.name));
}

/**
 * The tools of an MCP server as an environment. Sessions are opened when episodes begin.
 * @throws WorldgradError on options that make no sense
 *
 * @example
 * const sums = mcp({
 *   server: { command: "npx", args: ["-y", "@modelcontextprotocol/server-everything"] },
 *   tools: ["get-sum"],
 *   task: (seed) => `What is ${seed} + 5? Ask the tool.`,
 *   reward: ({ isOver, answer, seed }) => (isOver ? Number(answer === String(seed + 5)) : undefined),
 * });
 * const env = sums.make();
 * await env.reset(2);
 * await env.step("get-sum a=2 b=5");   // { observation: "The sum of 2 and 5 is 7.", … }
 * await env.step("answer 7");          // { reward: 1, done: true, … }
 */
export function mcp(given: McpOptions): McpSpec {
  const rules = MCP.read(given);
  const { name, server, expert, actions, share, timeout, maxMessageBytes } = rules;
  const families: readonly FamilyInfo[] = [{ name, level: 1, description: "tasks with the tools of an MCP server" }];
  let common: Promise<McpSession> | undefined;
  const start = (where: McpServer, signal?: AbortSignal): Promise<McpSession> =>
    openSession(where, { timeout, signal }, maxMessageBytes);
  // A shared session does not end with the signal of one episode, because the others need it.
  const shared = async (where: McpServer): Promise<McpSession> => {
    for (;;) {
      const opening = (common ??= start(where));
      const session = await opening.catch((error: unknown) => {
        if (common === opening) common = undefined;
        throw error;
      });
      if (!session.isEnded) return session;
      if (common === opening) common = undefined;
    }
  };
  const sessions: Sessions = share
    ? { open: shared, release: () => undefined }
    : { open: start, release: (session) => void session.close() };
  check(!share || typeof server !== "function", () => `${name}: one session for all needs one server, not a function`);
  return {
    name,
    description: "the tools of an MCP server",
    families,
    make({ split = "train", ...rest }: EnvironmentOptions = {}): Environment {
      const [unknown] = Object.keys(rest);
      check(unknown === undefined, () => `${name}: unknown option '${unknown}'; it has split`);
      return new McpEnvironment(rules, split, sessions);
    },
    ...(expert && {
      expert(env: Environment) {
        check(env instanceof McpEnvironment, () => `${name}: this environment is of another kind`);
        return expert(env.episode);
      },
    }),
    random: (rng) => rng.choice(actions ?? fail(`${name}: the random baseline needs \`actions\``)),
    async tools() {
      const session = await sessions.open(typeof server === "function" ? await server(0, "train") : server);
      try {
        return allowed(session.tools, rules);
      } finally {
        sessions.release(session);
      }
    },
    async close() {
      const session = await common?.catch(() => undefined);
      common = undefined;
      await session?.close();
    },
  };
}
