/** The live page: two agents in workers of their own, their curves, and how both go about the same task. */
import type { MetricsRecord, Transcript } from "../job/records.ts";
import { formatAs } from "../tools/figures/format.ts";
import { element } from "../tools/page/dom.ts";
import { WayColumn } from "../tools/compare/ways.ts";
import { LiveChart, type ChartChoice } from "./curves.ts";
import { experimentOf, type PageAgent, type PageExperiment } from "./experiment.ts";
import type { FromAgent, ToAgent } from "./messages.ts";
import type { WarmStart } from "./session.ts";
import { loadWarmStart } from "./warmStart.ts";

const CHARTS: readonly ChartChoice[] = [
  {
    title: "Success on held-out tasks",
    about: "The share of tasks solved that are never trained on; the same tasks at every point.",
    format: "percent",
    phase: "eval",
    metric: "success",
  },
  {
    title: "Reward in training",
    about: "What the agent earns in the episodes that it learns from: the mean over the last ten steps.",
    format: "number",
    phase: "rl",
    metric: "reward",
    window: 10,
  },
  {
    title: "Surprise at its own episodes",
    about: "Nats per token of what the world answers to the agent, on held-out tasks. Lower is better predicted.",
    format: "number",
    phase: "eval",
    metric: "world_loss/on_policy",
  },
  {
    title: "Entropy of the policy",
    about: "How many ways it still tries, in nats per token. Near 0 it always does the same.",
    format: "number",
    phase: "rl",
    metric: "entropy",
    window: 10,
  },
];

const byId = (id: string): HTMLElement => document.getElementById(id)!;
const say = (text: string): void => void (byId("status").textContent = text);

/** An agent as the page sees it. */
class Agent {
  readonly label: string;
  readonly #own: PageAgent;
  readonly #worker = new Worker(new URL("agent.js", import.meta.url), { type: "module" });
  readonly #hear: (message: FromAgent) => void;
  /** All metric lines until now, those of the warm start first. */
  metrics: MetricsRecord[] = [];
  /** How it went about held-out tasks, in the order in which it played them. */
  ways: Transcript[] = [];
  /** RL steps done. */
  step = 0;
  hasBegun = false;
  isReady = false;
  isPlaying = false;
  isOver = false;
  failure: string | null = null;

  /** @param hear is called after each message, when the fields are as it says */
  constructor(own: PageAgent, hear: (message: FromAgent) => void) {
    this.label = own.arm.label;
    this.#own = own;
    this.#hear = hear;
    this.#worker.addEventListener("message", ({ data }: MessageEvent<FromAgent>) => this.#receive(data));
    this.#worker.addEventListener("error", (event) =>
      this.#receive({ kind: "failed", message: event.message || "its worker did not start" }),
    );
  }

  get warmSteps(): number {
    return this.#own.preset.sft.steps;
  }

  /** @param warm undefined: it makes its own, and tells */
  begin(device: "wasm" | "webgpu", warm: WarmStart | undefined): void {
    this.hasBegun = true;
    this.#post({ kind: "begin", preset: this.#own.preset, device, ...(warm ? { warm } : {}) });
  }

  /** @param to undefined: to the end */
  play(to?: number): void {
    this.isPlaying = true;
    this.#post({ kind: "play", ...(to === undefined ? {} : { to }) });
  }

  pause(): void {
    this.#post({ kind: "pause" });
  }

  goTo(step: number): void {
    this.isPlaying = true;
    this.isOver = false;
    this.#post({ kind: "goTo", step });
  }

  #post(order: ToAgent): void {
    this.#worker.postMessage(order);
  }

  #receive(message: FromAgent): void {
    if (message.kind === "ready") {
      this.isReady = true;
      this.ways = [...message.warm.transcripts];
    } else if (message.kind === "step") {
      this.step = message.step;
      this.metrics.push({ step: this.warmSteps + message.step - 1, phase: "rl", ...message.metrics });
    } else if (message.kind === "evaluation") {
      const { episodes, successes, worldLossOnPolicy } = message.score;
      const scores = { success: successes / episodes, episodes, "world_loss/on_policy": worldLossOnPolicy };
      this.metrics.push({ step: this.warmSteps + message.step, phase: "eval", ...scores });
    } else if (message.kind === "transcript") {
      if (message.record.phase === "eval") this.ways.push(message.record);
    } else if (message.kind === "rests") {
      // What it says now counts: it may have gone back.
      this.step = message.step;
      this.metrics = [...message.metrics];
      this.ways = this.ways.filter((way) => way.step - this.warmSteps <= message.step);
      this.isPlaying = false;
      this.isOver = message.after !== undefined;
    } else if (message.kind === "failed") {
      this.isPlaying = false;
      this.failure = message.message;
    }
    this.#hear(message);
  }
}

class LivePage {
  readonly #experiment: PageExperiment;
  readonly #agents: readonly Agent[];
  readonly #charts: readonly LiveChart[];
  readonly #columns: readonly WayColumn[];
  readonly #play = element("button", { type: "button", disabled: true }, "Play");
  readonly #one = element("button", { type: "button", disabled: true }, "One step");
  readonly #reset = element("button", { type: "button", disabled: true }, "Reset");
  readonly #place = element("input", { type: "range", min: 0, max: 0, value: 0, disabled: true });
  readonly #shown = element("output", {}, "0");
  /** The step that was reached furthest: so far the slider goes. */
  #furthest = 0;
  #warming = "";

  constructor(experiment: PageExperiment) {
    this.#experiment = experiment;
    const names = experiment.agents.map(({ arm }) => arm.label);
    this.#agents = experiment.agents.map((own) => new Agent(own, (message) => this.#hear(message)));
    this.#charts = CHARTS.map((chart) => new LiveChart(chart, names));
    this.#columns = names.map(() => new WayColumn());
    byId("charts").append(...this.#charts.map(({ card }) => card));
    byId("ways").append(element("div", { class: "ways" }, ...this.#columns.map(({ view }) => view)));
    const place = element("label", { class: "field" }, element("span", {}, "RL step"), this.#place, this.#shown);
    byId("controls").append(this.#play, this.#one, this.#reset, place);
    this.#play.addEventListener("click", () => this.#toggle());
    this.#one.addEventListener("click", () => this.#agents.forEach((agent) => agent.play(this.#step() + 1)));
    this.#reset.addEventListener("click", () => this.#goTo(0));
    this.#place.addEventListener("change", () => this.#goTo(Number(this.#place.value)));
  }

  /** The RL steps that all agents have done. */
  #step(): number {
    return Math.min(...this.#agents.map(({ step }) => step));
  }

  /** Fetches the warm start; where there is none for these settings, the first agent makes it for all. */
  async begin(): Promise<void> {
    say("Loading the warm start …");
    const warm = await loadWarmStart(this.#experiment.warm);
    for (const agent of warm ? this.#agents : this.#agents.slice(0, 1)) agent.begin(this.#device(), warm);
  }

  #device(): "wasm" | "webgpu" {
    return this.#experiment.options.device === "webgpu" ? "webgpu" : "wasm";
  }

  #toggle(): void {
    const playing = this.#agents.filter(({ isPlaying }) => isPlaying);
    if (playing.length > 0) playing.forEach((agent) => agent.pause());
    else this.#agents.filter(({ isOver }) => !isOver).forEach((agent) => agent.play());
    this.#showState();
  }

  #goTo(step: number): void {
    for (const agent of this.#agents) {
      agent.pause();
      agent.goTo(step);
    }
    this.#showState();
  }

  #hear(message: FromAgent): void {
    if (message.kind === "warming")
      this.#warming = `Warm start: ${message.step} of ${message.total} steps of imitation, in other homes.`;
    if (message.kind === "ready") {
      for (const agent of this.#agents) if (!agent.hasBegun) agent.begin(this.#device(), message.warm);
      if (this.#agents.every(({ isReady }) => isReady)) this.#agents.forEach((agent) => agent.play());
    }
    this.#furthest = Math.max(this.#furthest, this.#step());
    this.#showState();
    if (message.kind === "step" || message.kind === "evaluation" || message.kind === "rests")
      this.#agents.forEach(({ metrics, warmSteps }, i) => {
        for (const chart of this.#charts) chart.show(i, metrics, warmSteps);
      });
    if (message.kind === "transcript" || message.kind === "rests") this.#showWays();
  }

  /** The newest task that all agents have tried after as many steps. */
  #showWays(): void {
    const [first, ...others] = this.#agents;
    const met = first!.ways.findLast(({ task, step }) =>
      others.every(({ ways }) => ways.some((way) => way.task === task && way.step === step)),
    );
    if (met === undefined) return;
    this.#agents.forEach(({ label, ways, warmSteps }, i) => {
      const way = ways.findLast(({ task, step }) => task === met.task && step === met.step)!;
      this.#columns[i]!.show(label, way, ` after ${met.step - warmSteps} steps of RL`);
    });
  }

  #showState(): void {
    const failed = this.#agents.find(({ failure }) => failure !== null);
    const areReady = this.#agents.every(({ isReady }) => isReady) && failed === undefined;
    const isPlaying = this.#agents.some((agent) => agent.isPlaying);
    const isOver = this.#agents.every((agent) => agent.isOver);
    this.#play.textContent = isPlaying ? "Pause" : "Play";
    this.#play.disabled = !areReady || isOver;
    this.#one.disabled = !areReady || isPlaying || isOver;
    this.#reset.disabled = !areReady || this.#furthest === 0;
    this.#place.disabled = !areReady || this.#furthest === 0;
    this.#place.max = String(this.#furthest);
    this.#shown.textContent = String(this.#step());
    if (document.activeElement !== this.#place) this.#place.value = String(this.#step());
    if (failed) return say(`${failed.label} has stopped: ${failed.failure}`);
    if (!areReady) return say(this.#warming || "Loading the warm start …");
    say(this.#agents.map(({ label, step, metrics }) => `${label}: step ${step}, ${successIn(metrics)}`).join(" · "));
  }
}

/** The newest held-out success in words. */
function successIn(metrics: readonly MetricsRecord[]): string {
  const success = metrics.findLast(({ phase }) => phase === "eval")?.["success"];
  return typeof success === "number" ? `solves ${formatAs("percent", success)}` : "not tried yet";
}

const textOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

try {
  const page = new LivePage(experimentOf(new URLSearchParams(location.search)));
  page.begin().catch((error: unknown) => say(textOf(error)));
} catch (error) {
  say(textOf(error));
}
