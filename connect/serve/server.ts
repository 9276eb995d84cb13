/**
 * A policy behind the OpenAI API, for agents of other people:
 *
 *     GET  /health   GET /v1/models   POST /v1/completions   POST /v1/chat/completions
 *     POST /rollouts                    opens an episode: { id, base_url }; its agent talks to base_url
 *     …    /rollouts/ID/v1/…            the same API, kept as the episode
 *     POST /rollouts/ID/reward          ends it: { reward, step_rewards?, success?, masked? }
 *     GET  /rollouts/ID                 its state
 *     POST /pause_generation { mode }   POST /continue_generation   POST /update_weights_from_disk { weight_version? }
 *
 * The last three have the names and the modes of SGLang (sgl-project/sglang, managers/io_struct.py): `abort` ends what
 * is being written; `retract` keeps it, and it is read again with the new weights afterwards. There is no `in_place`,
 * which would continue with keys and values that the old weights computed.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import { LONGEST_TIMER } from "../../engine/options.ts";
import { check } from "../../engine/errors.ts";
import { Rng } from "../../engine/index.ts";
import { inCode, number, oneOf, options, type OptionsOf, text } from "../../engine/optionTable.ts";
import type { Model, SamplingOptions, Tokenizer } from "../../nn/index.ts";
import { SAMPLING } from "../../nn/sampler.ts";
import type { Trajectory } from "../../rl/episode/stream.ts";
import type { Template } from "../../rl/episode/template.ts";
import { endOfCall } from "../../rl/play/deadline.ts";
import type { Fields } from "../fields.ts";
import { type ChatFormat, episodeChat } from "./chat.ts";
import { GenerationEngine, OverloadedError } from "./engine.ts";
import {
  allowOrigins,
  asHttpError,
  checkHost,
  checkKey,
  HttpError,
  isOrigin,
  listen,
  type Listening,
  readJson,
  sendJson,
} from "./http.ts";
import { OpenAiApi } from "./openai.ts";
import { Rollout, type RolloutEnd, type RolloutFacts } from "./rollouts.ts";

const SERVE = options("servePolicy", {
  name: text("worldgrad", "the model's name in requests and answers"),
  host: text("127.0.0.1", "the address to listen to; the default is this machine alone"),
  port: number(0, "the port; 0: any that is free", { integer: true, min: 0, max: 65535 }),
  apiKey: text(undefined, "a key that requests must bring"),
  allowedOrigins: inCode<readonly string[]>(
    'origins of pages that may use this server from a browser, such as "https://example.com"; default none, "*" all',
    'a list of origins (scheme, host and port), or ["*"]',
    (value) => Array.isArray(value) && value.every((one) => typeof one === "string" && (one === "*" || isOrigin(one))),
  ),
  rows: number(8, "answers that are written at the same time", { integer: true, min: 1 }),
  maxWaiting: number(256, "answers that may wait for a row; more are refused with 429", { integer: true, min: 0 }),
  capacity: number(undefined, "tokens of a prompt and its answer; by default the model's positions", { integer: true }),
  maxBodyBytes: number(4_000_000, "bytes of a request", { integer: true, min: 1 }),
  requestTimeout: number(600_000, "milliseconds that an answer may take", { above: 0 }),
  readTimeout: number(30_000, "milliseconds after which a client is dropped that takes nothing of its answer", {
    integer: true,
    min: 1,
  }),
  rolloutTimeout: number(3_600_000, "milliseconds without a request after which an episode is given up", { above: 0 }),
  maxRollouts: number(1024, "episodes that may be open", { integer: true, min: 1 }),
  onFork: oneOf(
    ["split", "refuse"],
    "split",
    "what a prompt does that does not continue what was sampled in its episode: a row of its own, or an error 409",
  ),
  logProbs: oneOf(["raw_logprobs", "processed_logprobs"], "raw_logprobs", "what `logprobs` of answers are"),
  seed: number(0, "seed of answers whose request has none", { integer: true, min: 0 }),
  version: number(0, "version of the weights", { integer: true, min: 0 }),
  sampling: inCode<SamplingOptions>(
    "how tokens are drawn where a request does not say it; episodes (/rollouts) are sampled from the model as it is",
    "an object",
    isObject,
  ),
  chat: inCode<ChatFormat>("how messages become tokens; by default the template's way", "a ChatFormat", isObject),
  onTrajectories: inCode<(trajectories: readonly Trajectory[]) => void | Promise<void>>(
    "is called with the rows of every episode that has ended; if it throws, the agent gets an error",
    "a function",
    isFunction,
  ),
  reload: inCode<Reload>(
    "loads weights for /update_weights_from_disk; without it there is no such address",
    "a function",
    isFunction,
  ),
});

/**
 * Loads newer weights. It is called between two tokens, changes the model's parameters and returns their version.
 */
export type Reload = (request: { readonly modelPath: string | undefined }) => number | Promise<number>;

/**
 * Options of `servePolicy` beside the model, its tokenizer and its template: the address, limits of size, number and
 * time, a key, and what happens with episodes.
 */
export type ServePolicyOptions = OptionsOf<typeof SERVE>;

/** The subject of a server: a model, its tokenizer, and the template if its prompts are episodes of the library. */
export interface ServedModel {
  readonly model: Model;
  readonly tokenizer: Tokenizer;
  readonly template?: Template;
  /** Tokens that end an answer; by default the template's. */
  readonly stopIds?: readonly number[];
}

function isObject(value: unknown): boolean {
  return typeof value === "object" && value !== null;
}
function isFunction(value: unknown): boolean {
  return typeof value === "function";
}

/** Starts a server. @throws if an option makes no sense or the port is taken */
export async function servePolicy(served: ServedModel, given: ServePolicyOptions = {}): Promise<PolicyServer> {
  const settings = SERVE.read(given);
  const server = new PolicyServer(served, settings);
  await server.listen();
  return server;
}

type Settings = ReturnType<typeof SERVE.read>;

/** A policy behind the OpenAI API; `servePolicy` starts one. It has to be closed. */
export class PolicyServer {
  readonly engine: GenerationEngine;
  readonly #settings: Settings;
  readonly #api: OpenAiApi;
  readonly #template: Template | undefined;
  readonly #rollouts = new Map<
    string,
    { readonly rollout: Rollout; timer: ReturnType<typeof setTimeout> | undefined; kept: Promise<void> }
  >();
  #opened = 0;
  #listening: Listening | undefined;

  constructor({ model, tokenizer, template, stopIds }: ServedModel, settings: Settings) {
    const { rows, maxWaiting, capacity, version, seed, name, logProbs } = settings;
    this.#settings = settings;
    SAMPLING.read(settings.sampling); // throws
    this.#template = template;
    const limit = capacity === undefined ? {} : { capacity };
    this.engine = new GenerationEngine(model, { rows, maxWaiting, version, ...limit, onFailure: console.error });
    const chat = settings.chat ?? (template && episodeChat(template));
    this.#api = new OpenAiApi({
      engine: this.engine,
      tokenizer,
      chat,
      model: name,
      stopIds: stopIds ?? chat?.stopIds ?? [],
      rng: new Rng(seed).split("serve"),
      logProbs,
      sampling: settings.sampling ?? {},
      now: Date.now,
    });
  }

  /** The address on which it listens: `http://127.0.0.1:PORT`. The API is at `${url}/v1`. */
  get url(): string {
    return this.#listening?.url ?? "";
  }

  /** @throws if the port is taken */
  async listen(): Promise<void> {
    const { host, port, readTimeout } = this.#settings;
    const handle = (request: IncomingMessage, response: ServerResponse): Promise<void> =>
      this.#handle(request, response);
    this.#listening = await listen(host, port, handle, readTimeout);
  }

  /**
   * Opens an episode for an agent, which is given `baseUrl` as the address of its API.
   * @throws HttpError 409 if the id is taken, 429 if too many are open
   */
  openRollout(facts: RolloutFacts = {}): { readonly rollout: Rollout; readonly baseUrl: string } {
    const { onFork, maxRollouts, onTrajectories } = this.#settings;
    if (this.#rollouts.size >= maxRollouts) throw new HttpError(429, `${maxRollouts} rollouts are open already`);
    const rollout = new Rollout(this.#opened++, facts, this.#template, onFork);
    const { id } = rollout;
    check(
      /^[\w.~-]{1,128}$/.test(id),
      () => `rollout: id must be of letters, digits and "_.~-", got ${JSON.stringify(id)}`,
    );
    if (this.#rollouts.has(id))
      throw new HttpError(409, `there is a rollout ${id} already`, { code: "rollout_exists" });
    const kept = rollout.finished.then(async (trajectories) => {
      clearTimeout(this.#rollouts.get(id)?.timer);
      this.#rollouts.delete(id);
      await onTrajectories?.(trajectories);
    });
    // Nobody waits for an episode that ended by itself, so its error is logged.
    kept.catch((error: unknown) => console.error(`the episode ${id} was not kept:`, error));
    this.#rollouts.set(id, { rollout, timer: undefined, kept });
    this.#touch(id);
    return { rollout, baseUrl: `${this.url}/rollouts/${id}/v1` };
  }

  /** Ends all connections, episodes and answers. */
  async close(): Promise<void> {
    for (const { rollout } of this.#rollouts.values()) rollout.end({ reward: 0, masked: true, stopReason: "aborted" });
    await this.engine.close();
    await this.#listening?.close();
  }

  /** Masks episodes that have had no request for a long time. */
  #touch(id: string): void {
    const entry = this.#rollouts.get(id);
    if (!entry) return;
    clearTimeout(entry.timer);
    const giveUp = (): void => void entry.rollout.end({ reward: 0, masked: true, stopReason: "timeout" });
    entry.timer = setTimeout(giveUp, Math.min(this.#settings.rolloutTimeout, LONGEST_TIMER));
    entry.timer.unref();
  }

  async #handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { host, apiKey, maxBodyBytes, name, allowedOrigins = [] } = this.#settings;
    if (allowOrigins(request, response, allowedOrigins)) return;
    const address = request.url ?? "/";
    if (!URL.canParse(address, "http://server")) throw new HttpError(400, `${JSON.stringify(address)} is no address`);
    const { pathname } = new URL(address, "http://server");
    if (pathname === "/health") return sendJson(response, 200, { status: "ok", ...this.engine.load });
    checkHost(request, host);
    checkKey(request, apiKey);
    const [, id, within] = /^\/rollouts\/([^/]+)(\/.*)?$/.exec(pathname) ?? [];
    const rollout = id === undefined ? undefined : this.#known(id);
    const path = rollout === undefined ? pathname : `/rollouts/ID${within ?? ""}`;
    const route = `${request.method} ${path.replace(/^\/rollouts\/ID\/v1\//, "/v1/")}`;
    if (route === "GET /v1/models") return sendJson(response, 200, { object: "list", data: [this.#model(name)] });
    if (route === `GET /v1/models/${name}`) return sendJson(response, 200, this.#model(name));
    if (route === "GET /rollouts/ID")
      return sendJson(response, 200, { id, ...rollout!.state, end: rollout!.state.end ?? null });
    const action = this.#actions[route];
    if (action === undefined) throw new HttpError(404, `there is no ${request.method} ${pathname}`);
    const body = await readJson(request, maxBodyBytes);
    if (id !== undefined) this.#touch(id);
    await action(body, response, rollout);
  }

  #known(id: string): Rollout {
    const known = this.#rollouts.get(plain(id));
    if (known) return known.rollout;
    throw new HttpError(404, `there is no open rollout ${id}; POST /rollouts opens one`, { code: "rollout_not_found" });
  }

  #model(id: string): Fields {
    const { capacity, version } = this.engine;
    return {
      id,
      object: "model",
      created: 0,
      owned_by: "worldgrad",
      max_model_len: capacity,
      weight_version: String(version),
    };
  }

  readonly #actions: Readonly<
    Record<string, (body: Fields, response: ServerResponse, rollout: Rollout | undefined) => Promise<void>>
  > = {
    "POST /v1/completions": (body, response, rollout) => this.#generate("completions", body, response, rollout),
    "POST /v1/chat/completions": (body, response, rollout) => this.#generate("chat", body, response, rollout),
    "POST /rollouts": async (body, response) => {
      const { rollout, baseUrl } = this.openRollout(ROLLOUT.read(body));
      sendJson(response, 200, { id: rollout.id, group: rollout.group, base_url: baseUrl });
    },
    "POST /rollouts/ID/reward": async (body, response, rollout) => {
      const { id } = rollout!;
      const kept = this.#rollouts.get(id)?.kept;
      const trajectories = rollout!.end(endOf(body));
      await kept?.catch((error: unknown) => {
        const why = error instanceof Error ? error.message : String(error);
        throw new HttpError(500, `the episode was not kept: ${why}`, { code: "rollout_not_kept" });
      });
      sendJson(response, 200, { id, rows: trajectories.length });
    },
    "POST /pause_generation": async (body, response) => {
      const { mode } = PAUSE.read(body);
      await this.engine.pause({ abort: mode === "abort" });
      sendJson(response, 200, { status: "ok", message: "Generation paused successfully." });
    },
    "POST /continue_generation": async (_, response) => {
      this.engine.resume();
      sendJson(response, 200, { status: "ok", message: "Generation continued successfully." });
    },
    "POST /update_weights_from_disk": async (body, response) => {
      const { reload } = this.#settings;
      if (reload === undefined) throw new HttpError(404, "this server has no place to load weights from");
      const { model_path: modelPath, weight_version: wanted } = UPDATE.read(body);
      let version = this.engine.version;
      await this.engine.replaceWeights(
        async () => {
          version = await reload({ modelPath });
          check(
            wanted === undefined || wanted === String(version),
            () =>
              `update_weights_from_disk: weight_version must be that of the newest weights, ${version}, got ${wanted}`,
          );
        },
        () => version,
      );
      sendJson(response, 200, {
        success: true,
        message: `version ${version}`,
        num_paused_requests: this.engine.load.running,
      });
    },
  };

  async #generate(
    kind: "completions" | "chat",
    body: Fields,
    response: ServerResponse,
    rollout: Rollout | undefined,
  ): Promise<void> {
    const { requestTimeout } = this.#settings;
    const late = (): Error => new HttpError(504, `no answer within ${requestTimeout} ms`, { code: "timeout" });
    const end = endOfCall(requestTimeout, rollout?.signal, late);
    const { signal } = end;
    response.on("close", () => end.abort(new Error("the client is gone")));
    try {
      await this.#api[kind]({ body, response, signal, rollout });
    } catch (error) {
      if (!response.headersSent) {
        throw error instanceof OverloadedError ? new HttpError(429, error.message, { code: "overloaded" }) : error;
      }
      // The status is sent already: the stream ends with an error and without [DONE].
      const { body: said } = asHttpError(error);
      response.end(`data: ${JSON.stringify(said)}\n\n`);
    } finally {
      end.forget();
    }
  }
}

/** A part of an address without its escapes; as it is if they are no text (`%E0` is half a character). */
function plain(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

const ROLLOUT = options("rollouts", {
  id: text(undefined, "its name in the address"),
  group: number(undefined, "episodes of the same task share it", { integer: true, min: 0 }),
  env: text(undefined, "the environment's name, for metrics"),
  task: text(undefined, "the task, for transcripts"),
  seed: number(undefined, "the task's seed", { integer: true, min: 0 }),
});

const END = options("reward", {
  reward: number(undefined, "what the episode is worth"),
  step_rewards: inCode<readonly number[]>("the reward of each turn", "a list of numbers", Array.isArray),
  success: inCode<boolean>("whether it was solved", "true or false", (value) => typeof value === "boolean"),
  masked: inCode<boolean>("whether nothing of it is trained", "true or false", (value) => typeof value === "boolean"),
});

const PAUSE = options("pause_generation", {
  mode: oneOf(["abort", "retract"], "abort", "what happens to what is being written"),
});

const UPDATE = options("update_weights_from_disk", {
  model_path: text(undefined, "where the weights are; by default the newest of the run"),
  weight_version: text(undefined, "the version that is expected"),
  flush_cache: inCode("", "true", (value) => value === true),
  abort_all_requests: inCode("", "false", (value) => value === false),
});

function endOf(body: Fields): RolloutEnd {
  const { reward, step_rewards: stepRewards, success, masked } = END.read(body);
  check(reward !== undefined || masked === true, () => "reward: reward must be a number, got missing");
  return {
    reward: reward ?? 0,
    ...(stepRewards ? { stepRewards } : {}),
    ...(success === undefined ? {} : { success }),
    ...(masked === undefined ? {} : { masked }),
  };
}
