/**
 * An OpenEnv server as an environment of the programs (`--env openenv`), with plain options instead of the functions of
 * `openEnv`. A server has no expert, so one list of actions serves as the demonstration for the warm start; everything
 * beyond it has to be learnt from rewards. Held-out tasks are other seeds, provided that the server uses seeds.
 *
 * The number of episodes at a time is limited to the sessions that the server admits.
 */
import { check, fail } from "../../engine/errors.ts";
import { showValue } from "../../engine/options.ts";
import { number, REQUIRED, text } from "../../engine/optionTable.ts";
import {
  type CallOptions,
  type Environment,
  type EnvironmentSpec,
  type FamilyInfo,
  SingleUseEnvironment,
  type StepInfo,
  type StepResult,
} from "../../rl/environment.ts";
import { option, type OptionsWith, settleOptions, type SettledOptions } from "../options.ts";
import { selectFamilies } from "../selection.ts";

const NAME = "openenv";
const isTexts = (value: unknown): boolean =>
  Array.isArray(value) && value.length > 0 && value.every((x) => typeof x === "string" && x !== "");

const OPTIONS = {
  url: text(REQUIRED, "address of the server, http://HOST:PORT"),
  field: text("message", "field of the server's action that holds the agent's text; of a tool, the argument"),
  tool: text(undefined, "the tool that an action calls, where the server's actions are calls of tools"),
  demonstration: option.inCode<readonly string[]>(
    "actions that end an episode well, played in turn as the demonstration; needed",
    "texts with + between them",
    isTexts,
  ),
  actions: option.inCode<readonly string[]>(
    "what the random player chooses from; by default the actions of the demonstration",
    "texts with + between them",
    isTexts,
  ),
  sessions: number(1, "sessions that the server admits at a time", { integer: true, min: 1 }),
  timeout: number(60_000, "milliseconds for connecting and for each answer", { above: 0 }),
};
type WorldOptions = OptionsWith<typeof OPTIONS>;
type Settled = SettledOptions<typeof OPTIONS> & { readonly demonstration: readonly string[] };

const FAMILIES: readonly FamilyInfo[] = [{ name: NAME, level: 1, description: "what the server serves" }];

function settle(given: Partial<WorldOptions> = {}): Settled {
  const settled = settleOptions(NAME, OPTIONS, given as WorldOptions);
  selectFamilies(NAME, FAMILIES, settled);
  const { demonstration } = settled;
  check(
    demonstration !== undefined,
    () => `${NAME}: demonstration is missing: actions that end an episode well, as in --set env.demonstration=UP+UP`,
  );
  return { ...settled, demonstration };
}

/** Episodes that have a session, by the server's address, and those that wait for one. */
const places = new Map<string, { busy: number; readonly waiting: (() => void)[] }>();

/** Resolves to a function that gives the place back. */
async function placeAt({ url, sessions }: Settled): Promise<() => void> {
  const at = places.get(url) ?? { busy: 0, waiting: [] };
  places.set(url, at);
  if (at.busy >= sessions) await new Promise<void>((resolve) => at.waiting.push(resolve));
  else at.busy++;
  let isBack = false;
  return () => {
    if (isBack) return;
    isBack = true;
    const next = at.waiting.shift();
    if (next) next();
    else at.busy--;
  };
}

/**
 * Further attempts to reach a server or to find room on it; they take eight seconds. A rollout gives an environment
 * ten, so that the environment's own error comes first, which names the cause.
 */
const ATTEMPTS = 5;

/** A server that was not reached, or let an answer wait for too long. */
interface Away {
  readonly error: Error;
  /** `performance.now()` when that was noticed. */
  readonly since: number;
  /** `performance.now()` up to which nobody tries it. */
  readonly until: number;
}
/**
 * Servers that do not answer. The next episode tries once, without further attempts, and learns at once if there is
 * nobody. If it waits in vain, episodes fail at once for as long as that try took; then one tries again. A step has
 * many episodes, and behind a server that accepts connections and says nothing each would wait until its time is up.
 */
const away = new Map<string, Away>();
/** The time of each server's last answer. A server that answers others is there, however late it is with one answer. */
const heard = new Map<string, number>();

function answered({ url }: Settled): void {
  heard.set(url, performance.now());
  away.delete(url);
}

/** The code of an OpenEnvError. */
const codeOf = (error: Error): string => String((error as { code?: unknown }).code);

/** An OpenEnvError of no connection or no answer, or the end of the time that a rollout gives. */
const isSilence = (error: unknown): error is Error =>
  error instanceof Error && (error.name === "TimeoutError" || ["CONNECT_FAILED", "TIMEOUT"].includes(codeOf(error)));

/** Records the error of a call that began at `start`, if it shows that the server does not answer. */
function unanswered({ url }: Settled, error: unknown, start: number): void {
  if (!isSilence(error) || (heard.get(url) ?? -1) >= start) return;
  const now = performance.now();
  const { since = now, until = now } = away.get(url) ?? {};
  // Episodes that waited beside the first one say nothing new; one that began when it ended is a second try. A refused
  // connection costs no time (several attempts at one do), so the server is asked again as soon as it may be back.
  const isAgain = codeOf(error) !== "CONNECT_FAILED" && since < (start + now) / 2;
  away.set(url, { error, since, until: isAgain ? Math.max(until, now + (now - start)) : until });
}

/** @throws if the server did not answer a moment ago */
function checkThere({ url }: Settled): void {
  const { error, until } = away.get(url) ?? {};
  if (error === undefined || performance.now() >= until!) return;
  fail(`${NAME}: ${url} does not answer, and is not asked for a while: ${error.message}`);
}

/** An episode; the server is asked when it begins. */
class Remote extends SingleUseEnvironment {
  readonly name = NAME;
  readonly info: StepInfo = { family: NAME, level: 1 };
  readonly options: Settled;
  #inner: Environment | undefined;
  #back: () => void = () => {};
  #isClosed = false;
  turn = 0;
  /** The answer to the last action. */
  answer = "";

  constructor(options: Settled) {
    super();
    this.options = options;
  }

  protected async begin(seed: number, signal?: AbortSignal): Promise<string> {
    const { url, field, tool, timeout } = this.options;
    this.#back = await placeAt(this.options);
    const { openEnv } = await import("./index.ts");
    const start = performance.now();
    try {
      checkThere(this.options);
      check(!this.#isClosed, () => `${NAME}: the episode was closed before it began`);
      const action = { action: field, ...(tool === undefined ? {} : { tool }) };
      const patience = { timeout, reconnect: { attempts: away.has(url) ? 0 : ATTEMPTS } };
      this.#inner = openEnv({ url, ...action, ...patience, name: NAME, missingReward: 0 }).make();
      const task = await this.#inner.reset(seed, callOf(signal));
      answered(this.options);
      return task;
    } catch (error) {
      this.close();
      unanswered(this.options, error, start);
      throw error;
    }
  }

  protected async act(action: string, signal?: AbortSignal): Promise<StepResult> {
    this.turn++;
    const start = performance.now();
    try {
      const result = await this.#inner!.step(action, callOf(signal));
      answered(this.options);
      this.answer = result.observation;
      if (result.done) this.close();
      return result;
    } catch (error) {
      this.close();
      unanswered(this.options, error, start);
      throw error;
    }
  }

  close(): void {
    this.#isClosed = true;
    this.#inner?.close?.();
    this.#back();
  }
}

const callOf = (signal: AbortSignal | undefined): CallOptions => (signal ? { signal } : {});

/** `--env openenv`; see above. */
export const openEnvWorld: EnvironmentSpec = {
  name: NAME,
  description: "whatever an OpenEnv server serves: --set env.url=http://HOST:PORT",
  source: "huggingface/OpenEnv",
  families: FAMILIES,
  options: OPTIONS,
  atOnce: (given) => settle(given).sessions,
  make: (given) => new Remote(settle(given)),
  expert(env) {
    if (!(env instanceof Remote)) return fail(`${NAME}: expert of another environment`);
    const { demonstration } = env.options;
    const over = `${NAME}: the episode is not over after the ${demonstration.length} actions of env.demonstration`;
    // The usual cause is a field that the server does not have; its answer then names the right one.
    return demonstration[env.turn] ?? fail(`${over}; the last was answered ${showValue(env.answer)}`);
  },
  random(rng, _task, given) {
    const { actions, demonstration } = settle(given);
    return rng.choice(actions ?? [...new Set(demonstration)]);
  },
};
