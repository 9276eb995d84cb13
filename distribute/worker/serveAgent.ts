/**
 * The worker's side of an agent that learns beside a page: it does what `AgentWorker` asks, one thing after the other,
 * so that training never blocks the page.
 */
import { check, fail } from "../../engine/errors.ts";
import { checkKeys, showValue } from "../../engine/options.ts";
import type { EnvironmentOptions, EnvironmentSpec } from "../../rl/environment.ts";
import { type Files, optimizerToFiles, restoreOptimizer, type Tokenizer } from "../../nn/index.ts";
import { modelFromFiles, modelToFiles } from "../../pretrained/index.ts";
import { assign, treeEntries } from "../../engine/index.ts";
import { succeeded } from "../../rl/episode/outcomes.ts";
import type { Trajectory } from "../../rl/episode/stream.ts";
import type { Template } from "../../rl/episode/template.ts";
import { EventLoop } from "../../rl/play/eventLoop.ts";
import { rollout } from "../../rl/play/rollout.ts";
import { turnsOf } from "../../rl/episode/turns.ts";
import { checkRl, type RlOptions, trainRl } from "../../rl/train/loop.ts";
import {
  type AgentPlayOptions,
  type Answered,
  failureOf,
  type EnvironmentCall,
  type FromWorker,
  type Order,
  type PageAnswer,
  type PlayedEpisode,
  type Port,
  type ToWorker,
} from "./messages.ts";
import { pageEnvironment } from "./pageEnvironment.ts";

/** A part of an agent that remembers earlier steps, such as a replay buffer: saved with the agent, as JSON. */
export interface Memory {
  state(): unknown;
  restore(state: unknown): void;
}

/**
 * The agent that `serveAgent` is given, as `trainRl` trains it. The page decides how many steps are trained, so
 * `steps` and `startStep` are not here.
 */
export interface ServedAgent<Own extends EnvironmentOptions = EnvironmentOptions> extends Omit<
  RlOptions<Own>,
  "steps" | "startStep"
> {
  /**
   * Parts that remember earlier steps, by name, so that a loaded agent goes on as the saved one would have. The model,
   * its optimiser and the number of steps are saved without being named. Default none. Heads cannot be saved.
   */
  readonly memories?: Readonly<Record<string, Memory>>;
}

/** The part of the page that an agent may use beside its settings. */
export interface PageSide {
  /** The environment that the page gave to `AgentWorker`: its episodes are played there. It has no expert. */
  readonly environment: EnvironmentSpec;
}

const STATE = "agent.json";

/**
 * Serves one agent to the page that started this worker; call it once, at the worker's top level.
 *
 * @example
 * // agent.ts, the worker
 * serveAgent(async ({ seed }: { seed: number }) => {
 *   const on = await device("wasm");
 *   …
 *   return { model, template, optimizer, objective, env, envOptions: {}, groups: 4, groupSize: 8, rollout, lr, rng };
 * });
 *
 * @param create makes the agent from the settings that the page sends; what it throws is what the page is told
 * @param port where the page is; default the worker's own global object
 */
export function serveAgent<Own extends EnvironmentOptions>(
  // `never`: any type of settings will do, and the type of the parameter is all that checks them.
  create: (settings: never, page: PageSide) => ServedAgent<Own> | Promise<ServedAgent<Own>>,
  port: Port = globalThis,
): void {
  check(
    typeof (port as Port | undefined)?.addEventListener === "function",
    () => "serveAgent: this is no worker of a page; in a thread of Node's pass its parentPort",
  );
  const send = (message: FromWorker): void => port.postMessage(message);
  const asked = new Map<number, (answer: Answered<PageAnswer>) => void>();
  let calls = 0;
  const ask = async (call: EnvironmentCall): Promise<PageAnswer> => {
    const id = calls++;
    send({ to: "environment", id, call });
    if (call.kind === "close") return "";
    const answer = await new Promise<Answered<PageAnswer>>((resolve) => asked.set(id, resolve));
    return "error" in answer ? fail(answer.error) : answer.value;
  };

  let agent: Agent | undefined;
  /** Counts pauses: training that was asked for before the last of them ends. */
  let pauses = 0;
  let work: Promise<void> = Promise.resolve();

  const perform = async (order: Order, id: number, asOf: number): Promise<unknown> => {
    if (order.kind === "create") {
      check(agent === undefined, () => "serveAgent: the agent is there already; a worker has one");
      const page = { environment: pageEnvironment(order.environment, ask) };
      agent = new Agent(await create(order.settings as never, page), (text) => send({ to: "warning", text }));
      return undefined;
    }
    const own = agent ?? fail(`AgentWorker.${order.kind}: there is no agent: call create first, and await it`);
    if (order.kind === "train") {
      const isPaused = (): boolean => pauses > asOf;
      return own.train(order.steps, isPaused, (step) => send({ to: "step", id, step }));
    }
    if (order.kind === "play") return own.play(order.options);
    return order.kind === "save" ? own.save() : own.load(order.files);
  };

  port.addEventListener("message", (event) => {
    const message = event.data as ToWorker;
    if (message.to === "hello") send({ to: "ready" });
    else if (message.to === "pause") pauses++;
    else if (message.to === "answer") {
      asked.get(message.id)?.(message.answer);
      asked.delete(message.id);
    } else {
      const { id, order } = message;
      const asOf = pauses;
      work = work
        .then(() => perform(order, id, asOf))
        .then(
          (value) => send({ to: "result", id, answer: { value } }),
          (error: unknown) => send({ to: "result", id, answer: failureOf(error) }),
        );
    }
  });
  port.start?.();
  send({ to: "ready" });
}

/** The agent of a worker, and the number of steps that it has been trained. */
class Agent {
  readonly #served: ServedAgent;
  readonly #memories: Readonly<Record<string, Memory>>;
  /** Without `memories`, which `trainRl` does not know. */
  readonly #options: Omit<RlOptions, "steps" | "startStep">;
  #step = 0;

  /** @param warn where warnings go, unless the agent has a place of its own */
  constructor(served: ServedAgent, warn: (text: string) => void) {
    const isAgent = typeof served === "object" && (served as unknown) !== null;
    check(isAgent, () => `serveAgent: create must return an agent, options of trainRl, got ${showValue(served)}`);
    const { memories = {}, ...rest } = served;
    const counted = ["steps", "startStep"].find((name) => name in rest);
    check(
      counted === undefined,
      () => `serveAgent: the page says how long to train; create must return no ${counted!}`,
    );
    const options = { warn, ...rest };
    checkRl({ ...options, steps: 0 });
    this.#served = options;
    this.#memories = memories;
    this.#options = options;
  }

  /** @returns the number of steps that it has been trained in all */
  async train(
    steps: number,
    isPaused: () => boolean,
    tell: (step: { step: number; metrics: Readonly<Record<string, number>> }) => void,
  ): Promise<number> {
    const isCount = (steps === Infinity || Number.isInteger(steps)) && steps >= 0;
    check(isCount, () => `AgentWorker.train: steps must be a whole number or Infinity, got ${showValue(steps)}`);
    const loop = new EventLoop();
    try {
      await loop.turn(); // a pause that was sent together with the order has come by then
      if (isPaused() || steps === 0) return this.#step;
      const options = { ...this.#options, startStep: this.#step, steps: this.#step + steps };
      for await (const { step, metrics } of trainRl(options)) {
        this.#step = step + 1;
        tell({ step, metrics });
        await loop.turn();
        if (isPaused()) break;
      }
    } finally {
      loop.close();
    }
    return this.#step;
  }

  async play(options: AgentPlayOptions): Promise<PlayedEpisode[]> {
    checkKeys("AgentWorker.play", options, ["seeds", "temperature", "split"]);
    const { seeds, temperature = 0, split = "heldout" } = options;
    const areSeeds: boolean = Array.isArray(seeds);
    check(areSeeds, () => `AgentWorker.play: seeds must be a list of integers, got ${showValue(seeds)}`);
    const { model, template, env, envOptions, rng, rollout: limits } = this.#served;
    const requests = seeds.map((seed, i) => ({
      spec: env,
      options: { ...envOptions, split },
      seed,
      group: i,
      rng: rng.split("play").split(seed),
    }));
    const played = await rollout(model, template, requests, { ...limits, temperature });
    return played.map((trajectory) => inWords(trajectory, template));
  }

  async save(): Promise<Files> {
    const { model, template, optimizer, heads } = this.#served;
    check(heads === undefined, () => "AgentWorker.save: an agent with heads of terms (a critic) cannot be saved");
    const memories = Object.fromEntries(Object.entries(this.#memories).map(([name, part]) => [name, part.state()]));
    return {
      ...(await modelToFiles(model)),
      ...(await optimizerToFiles(model.config, optimizer)),
      [STATE]: JSON.stringify({ step: this.#step, memories, tokenizer: fingerprintOf(template.tokenizer) }),
    };
  }

  load(files: Files): number {
    const areFiles = typeof files === "object" && (files as unknown) !== null;
    check(areFiles, () => `AgentWorker.load: expected the files that save gave, got ${showValue(files)}`);
    const bytes = (name: string): Uint8Array => {
      const file = files[name] ?? fail(`AgentWorker.load: ${name} is missing`);
      return typeof file === "string" ? new TextEncoder().encode(file) : file;
    };
    const text = (name: string): string => new TextDecoder().decode(bytes(name));
    const { model, optimizer } = this.#served;
    const state = JSON.parse(text(STATE)) as {
      readonly step: number;
      readonly memories: Record<string, unknown>;
      /** Missing in files of before it was kept. */
      readonly tokenizer?: number;
    };
    check(
      state.tokenizer === undefined || state.tokenizer === fingerprintOf(this.#served.template.tokenizer),
      () => "AgentWorker.load: the files are of an agent with another tokenizer: its ids would mean other texts",
    );
    const found = Object.keys(state.memories).join(", ");
    const own = Object.keys(this.#memories).join(", ");
    check(found === own, () => `AgentWorker.load: expected the memories "${own}", the files have "${found}"`);
    const saved = modelFromFiles(text("config.json"), bytes("model.safetensors"), model.params.embedding.device);
    const values = new Map(treeEntries(saved.params));
    try {
      const shapes = (params: typeof model.params): string[] =>
        treeEntries(params).map(([path, x]) => `${path} [${x.shape.join(", ")}]`);
      const [theirs, ours] = [shapes(saved.params), shapes(model.params)];
      const other = theirs.findIndex((shape, i) => shape !== ours[i]);
      check(
        other < 0 && theirs.length === ours.length,
        () =>
          "AgentWorker.load: the files are of a model of another size: " +
          (other < 0
            ? `${theirs.length} tensors, and this agent's has ${ours.length}`
            : `${theirs[other]!}, and this agent's has ${ours[other] ?? "none of it"}`),
      );
      restoreOptimizer(model.config, optimizer, bytes("optimizer.safetensors"));
      for (const [path, x] of treeEntries(model.params)) assign(x, values.get(path)!);
    } finally {
      for (const x of values.values()) x.dispose();
    }
    for (const [name, memory] of Object.entries(this.#memories)) memory.restore(state.memories[name]);
    this.#step = state.step;
    return this.#step;
  }
}

/** A number that tokenizers whose ids mean the same have in common: FNV-1a of the texts of all ids. */
function fingerprintOf(tokenizer: Tokenizer): number {
  let hash = 0x811c9dc5;
  for (let id = 0; id < tokenizer.vocabSize; id++)
    for (const letter of `${tokenizer.decode([id])}\n`) hash = Math.imul(hash ^ letter.codePointAt(0)!, 0x01000193);
  return hash >>> 0;
}

function inWords(trajectory: Trajectory, template: Template): PlayedEpisode {
  const { task, reward, info, stopReason } = trajectory;
  return { task, turns: turnsOf(trajectory, template), reward, success: succeeded(trajectory), stopReason, info };
}
