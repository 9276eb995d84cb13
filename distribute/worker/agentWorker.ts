/**
 * The page's side of an agent that learns in a worker: each method sends an order and returns its result. It loads
 * nothing of the library into the page: tensors, kernels and training are loaded by the worker alone.
 */
import type { EnvironmentSpec } from "../../rl/environment.ts";
import type { Files } from "../../nn/index.ts";
import {
  type AgentPlayOptions,
  type Answered,
  type Failure,
  failureOf,
  type FromWorker,
  type Order,
  type PlayedEpisode,
  type Port,
  type TrainedStep,
  type ToWorker,
} from "./messages.ts";
import { EnvironmentHost } from "./environmentHost.ts";

/** Milliseconds after which a worker that has said nothing is told of. */
const SILENCE = 10_000;

/** A Worker, or another port behind which an agent is served. */
export interface AgentPort extends Port {
  /** Ends a worker; a MessagePort has none. */
  terminate?(): void;
}

/** Options of `AgentWorker`. */
export interface AgentWorkerOptions {
  /**
   * An environment that lives in the page, for a worker whose agent plays in `page.environment`: the agent acts on what
   * the page has, such as its document. Default: the agent has an environment of its own, in the worker.
   */
  readonly environment?: EnvironmentSpec;
  /**
   * The receiver of warnings about faults that do not end the training: an environment that failed or gave no score, a
   * group with different tasks; one for each kind. Default: the page's console.
   */
  readonly onWarning?: (text: string) => void;
}

/** The error of the worker as the page sees it: its sentence, its code, and the lines of its stack in the worker. */
function errorOf({ error: message, stack, code }: Failure): Error {
  const error = Object.assign(new Error(message), code === undefined ? {} : { code });
  if (stack !== undefined) error.stack = stack;
  return error;
}

interface Waiting {
  readonly done: (value: unknown) => void;
  readonly failed: (error: Error) => void;
  readonly step: (step: TrainedStep) => void;
}

/**
 * An agent that learns in a worker (`serveAgent`), so that its training does not block the page. Orders are carried out
 * one after the other; `pause` and `dispose` do not wait.
 *
 * @example
 * const worker = new Worker(new URL("./agent.js", import.meta.url), { type: "module" });
 * using agent = new AgentWorker<{ seed: number }>(worker);
 * await agent.create({ seed: 1 });
 * for await (const { step, metrics } of agent.train(100)) draw(step, metrics["reward"]);
 * const [episode] = await agent.play({ seeds: [7] });
 */
export class AgentWorker<Settings = void> {
  readonly #port: AgentPort;
  readonly #host: EnvironmentHost;
  readonly #onWarning: (text: string) => void;
  readonly #waiting = new Map<number, Waiting>();
  #ids = 0;
  #over: string | undefined;
  /** Warns of a worker that never listens. */
  readonly #silence: ReturnType<typeof setTimeout>;
  /** Messages to send once the worker listens; undefined from then on. */
  #held: ToWorker[] | undefined = [];

  /** @param port the worker, which nothing else may listen to or order about */
  constructor(port: AgentPort, options: AgentWorkerOptions = {}) {
    const { environment, onWarning = console.warn, ...others } = options;
    // Without the library's checks, which the page would have to load.
    for (const name in others)
      throw new TypeError(`AgentWorker: unknown option '${name}'; known: environment, onWarning`);
    const isSpec = environment === undefined || typeof environment.make === "function";
    if (!isSpec)
      throw new TypeError("AgentWorker: environment must be the spec of an environment, an object with make()");
    if (typeof (port as AgentPort | undefined)?.addEventListener !== "function")
      throw new TypeError(
        'AgentWorker: expected a worker, new Worker(new URL("./agent.js", import.meta.url), { type: "module" }), ' +
          `got ${typeof port}`,
      );
    this.#port = port;
    this.#onWarning = onWarning;
    this.#host = new EnvironmentHost(environment);
    port.addEventListener("message", ({ data }) => this.#hear(data as FromWorker));
    // The event of a worker that does not start, or that dies. A MessagePort never sends it.
    const listen = port as unknown as Pick<EventTarget, "addEventListener">;
    listen.addEventListener("error", (event) => {
      const { message } = event as { readonly message?: string };
      this.#end(`the agent's worker has failed: ${message || "its script could not be loaded"}`);
    });
    const silent = "AgentWorker: the worker has said nothing for 10 seconds; does its script call serveAgent?";
    this.#silence = setTimeout(() => this.#onWarning(silent), SILENCE);
    port.start?.();
    port.postMessage({ to: "hello" } satisfies ToWorker);
  }

  /** Makes the agent; comes first, once. @throws what the worker's `create` throws */
  async create(settings: Settings): Promise<void> {
    await this.#order({ kind: "create", settings, environment: this.#host.spec?.name });
  }

  /**
   * Trains: `steps` further steps, and reports each when it has ended. Leaving the loop early pauses. Steps are the
   * same, bit for bit, however they are divided into calls.
   *
   * @param steps default Infinity: until it is paused
   */
  async *train(steps: number = Infinity): AsyncGenerator<TrainedStep, void, void> {
    const news: TrainedStep[] = [];
    let wake = (): void => {};
    let isOver = false;
    const ended = this.#order({ kind: "train", steps }, (step) => {
      news.push(step);
      wake();
    }).finally(() => {
      isOver = true;
      wake();
    });
    ended.catch(() => {}); // thrown below; until then it is not unhandled
    try {
      for (;;) {
        const next = news.shift();
        if (next !== undefined) yield next;
        else if (isOver) break;
        else await new Promise<void>((resolve) => (wake = resolve));
      }
    } finally {
      if (!isOver) this.pause();
      await ended;
    }
  }

  /** Lets the training step that is under way end; `train` then ends. Orders that come after it are carried out. */
  pause(): void {
    if (this.#over === undefined) this.#send({ to: "pause" });
  }

  /** Plays one episode for each seed, greedily unless told otherwise, and returns them as text. Nothing is learnt. */
  async play(options: AgentPlayOptions): Promise<PlayedEpisode[]> {
    return (await this.#order({ kind: "play", options })) as PlayedEpisode[];
  }

  /**
   * The agent as files: weights and configuration as Hugging Face names them, the optimiser's moments, and the number
   * of steps that it has been trained.
   */
  async save(): Promise<Files> {
    return (await this.#order({ kind: "save" })) as Files;
  }

  /**
   * Restores the agent that `save` gave, which goes on from there, bit for bit.
   *
   * @returns the number of steps that it has been trained
   * @throws if the files are of another agent; it is then as it was
   */
  async load(files: Files): Promise<number> {
    return (await this.#order({ kind: "load", files })) as number;
  }

  /** Ends the worker. What is under way rejects; a second call does nothing. */
  dispose(): void {
    if (this.#over !== undefined) return;
    this.#port.terminate?.();
    this.#end("the agent's worker has been disposed");
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  #order(order: Order, step: Waiting["step"] = () => {}): Promise<unknown> {
    if (this.#over !== undefined) return Promise.reject(new Error(`AgentWorker: ${this.#over}`));
    const id = this.#ids++;
    return new Promise((done, failed) => {
      this.#waiting.set(id, { done, failed, step });
      try {
        this.#send({ to: "order", id, order });
      } catch (error) {
        this.#waiting.delete(id);
        throw error; // of what cannot be cloned, such as a function in the settings
      }
    });
  }

  #send(message: ToWorker): void {
    if (this.#held) this.#held.push(message);
    else this.#port.postMessage(message);
  }

  /** Sends what was held back: once, although the worker says that it listens at its start and when it is asked. */
  #release(): void {
    const held = this.#held ?? [];
    this.#held = undefined;
    for (const message of held) {
      try {
        this.#send(message);
      } catch (error) {
        if (message.to !== "order") throw error;
        this.#waiting.get(message.id)?.failed(error as Error); // of what cannot be cloned
        this.#waiting.delete(message.id);
      }
    }
  }

  #hear(message: FromWorker): void {
    clearTimeout(this.#silence);
    if (message.to === "ready") this.#release();
    else if (message.to === "environment") {
      const { id, call } = message;
      void this.#host.answer(call).then((answer) => {
        if (answer === undefined || this.#over !== undefined) return;
        try {
          this.#send({ to: "answer", id, answer });
        } catch (error) {
          this.#send({ to: "answer", id, answer: failureOf(error) }); // of what cannot be cloned, such as an element
        }
      });
    } else if (message.to === "warning") this.#onWarning(message.text);
    else if (message.to === "step") this.#waiting.get(message.id)?.step(message.step);
    else this.#settle(message.id, message.answer);
  }

  #settle(id: number, answer: Answered<unknown>): void {
    const waiting = this.#waiting.get(id);
    this.#waiting.delete(id);
    if ("error" in answer) waiting?.failed(errorOf(answer));
    else waiting?.done(answer.value);
  }

  #end(why: string): void {
    clearTimeout(this.#silence);
    this.#over ??= why;
    this.#host.close();
    for (const id of this.#waiting.keys()) this.#settle(id, { error: `AgentWorker: ${why}` });
  }
}
