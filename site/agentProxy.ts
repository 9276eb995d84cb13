/** An agent as the page sees it: what its worker has said until now, and what the page can ask of it. */
import type { Evaluation, KnownFact, MetricsRecord, Transcript } from "../run/records.ts";
import type { PageAgent } from "./experiment.ts";
import type { AgentLog, FromAgent, ToAgent } from "./messages.ts";
import { Questions } from "./asking.ts";
import type { WarmStart } from "../run/warmStart.ts";

/** What an agent knew after so many RL steps. */
export interface KnownAfter {
  readonly step: number;
  readonly facts: readonly KnownFact[];
}

export class AgentProxy {
  readonly label: string;
  readonly #own: PageAgent;
  /** Removes the listeners of the worker when aborted. */
  readonly #life = new AbortController();
  readonly #worker = new Worker(new URL("agent.js", import.meta.url), { type: "module" });
  readonly #hear: (message: FromAgent) => void;
  readonly questions = new Questions((order) => this.#post(order));
  /** All metric lines until now, those of the warm start first. */
  metrics: MetricsRecord[] = [];
  /** Its episodes of held-out tasks, in the order in which it played them. */
  ways: Transcript[] = [];
  /** What it knew of its world after some steps, in order. */
  knowledge: KnownAfter[] = [];
  /** RL steps done. */
  step = 0;
  hasBegun = false;
  isReady = false;
  isOver = false;
  /** Its evaluation at the end of the run. */
  after: Evaluation | undefined;
  failure: string | null = null;
  /** The executor's description; "" before the agent is ready. */
  executor = "";
  /** Number of `play` and `goTo` orders that are not done. Each ends with one `rests` message. */
  #orders = 0;
  /** Callbacks that wait for the answer to `tell`. */
  readonly #asking: ((log: AgentLog) => void)[] = [];

  /** @param hear is called after each message, once the fields reflect it */
  constructor(own: PageAgent, hear: (message: FromAgent) => void) {
    this.label = own.arm.label;
    this.#own = own;
    this.#hear = hear;
    const { signal } = this.#life;
    this.#worker.addEventListener("message", ({ data }: MessageEvent<FromAgent>) => this.#receive(data), { signal });
    this.#worker.addEventListener(
      "error",
      (event) => this.#receive({ kind: "failed", message: event.message || "its worker did not start" }),
      { signal },
    );
  }

  /** Its settings, as `config.json` of a run has them. */
  get config(): Readonly<Record<string, unknown>> {
    return { preset: this.#own.preset };
  }

  get isPlaying(): boolean {
    return this.#orders > 0;
  }

  get warmSteps(): number {
    return this.#own.preset.sft.steps;
  }

  /** @param warm undefined: the agent makes its own and sends it */
  begin(device: "wasm" | "webgpu", warm: WarmStart | undefined): void {
    this.hasBegun = true;
    this.#post({ kind: "begin", preset: this.#own.preset, device, ...(warm ? { warm } : {}) });
  }

  /** @param to undefined: to the end */
  play(to?: number): void {
    this.#orders++;
    this.#post({ kind: "play", ...(to === undefined ? {} : { to }) });
  }

  pause(): void {
    this.#post({ kind: "pause" });
  }

  goTo(step: number): void {
    this.#orders++;
    this.isOver = false;
    this.#post({ kind: "goTo", step });
  }

  /** The agent's log so far. */
  log(): Promise<AgentLog> {
    return new Promise((done) => {
      this.#asking.push(done);
      this.#post({ kind: "tell" });
    });
  }

  /**
   * Ends the worker and removes its listeners. Messages under way are dropped, and a browser that keeps an ended worker
   * does not keep the whole experiment with it.
   */
  dispose(): void {
    this.#life.abort();
    this.#worker.terminate();
  }

  #post(order: ToAgent): void {
    this.#worker.postMessage(order);
  }

  #receive(message: FromAgent): void {
    this.questions.hear(message);
    if (message.kind === "ready") {
      this.isReady = true;
      this.executor = message.executor;
      this.metrics = [...message.warm.metrics];
      this.ways = [...message.warm.transcripts];
    } else if (message.kind === "step") {
      this.step = message.step;
      this.metrics.push({ step: this.warmSteps + message.step - 1, phase: "rl", ...message.metrics });
    } else if (message.kind === "evaluation") {
      const { episodes, notPlayed, unscored, successes, worldLossOnPolicy } = message.score;
      const scores = {
        ...(episodes === 0 ? {} : { success: successes / episodes }),
        episodes,
        ...(notPlayed === undefined ? {} : { not_played: notPlayed }),
        ...(unscored === undefined ? {} : { unscored }),
        "world_loss/on_policy": worldLossOnPolicy,
      };
      this.metrics.push({ step: this.warmSteps + message.step, phase: "eval", ...scores });
    } else if (message.kind === "transcript") {
      if (message.record.phase === "eval") this.ways.push(message.record);
    } else if (message.kind === "knows") {
      const { step, facts } = message;
      this.knowledge = [...this.knowledge.filter((own) => own.step < step), { step, facts }];
    } else if (message.kind === "rests") {
      // This replaces what was collected: the agent may have gone back.
      this.step = message.step;
      this.metrics = [...message.metrics];
      this.ways = this.ways.filter((way) => way.step - this.warmSteps <= message.step);
      this.knowledge = this.knowledge.filter(({ step }) => step <= message.step);
      this.#orders--;
      this.after = message.after;
      this.isOver = message.after !== undefined && !this.isPlaying;
    } else if (message.kind === "log") {
      this.#asking.shift()?.(message);
    } else if (message.kind === "failed") {
      this.#orders = 0;
      this.failure = message.message;
    }
    this.#hear(message);
  }
}
