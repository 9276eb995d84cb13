/** One experiment on the page: agents in workers of their own, their curves, and their episodes of the same task. */
import type { Transcript } from "../run/records.ts";
import { formatAs } from "../run/figures/format.ts";
import { element } from "../run/page/dom.ts";
import { visible } from "../run/visible.ts";
import type { WayColumn } from "../run/compare/ways.ts";
import { AgentProxy } from "./agentProxy.ts";
import type { Curves } from "./curves.ts";
import type { Diagnoses } from "./diagnosis.ts";
import type { FactMap } from "../run/page/factMap.ts";
import { EXAMPLE, teachersOf } from "./lead.ts";
import { lastTest, milestones, standing } from "./milestones.ts";
import type { PageExperiment } from "./experiment.ts";
import type { FromAgent } from "./messages.ts";
import { missingFor, threadsInWords } from "./machine.ts";
import { Playback, type Player } from "./playback.ts";
import type { LoggedAgent } from "./saveReport.ts";
import { TokenSection } from "./tokenSection.ts";
import { recordedFor } from "./recorded.ts";
import { loadWarmStart } from "./warmStart.ts";

/** RL steps between two diagnoses, and before the first: until then every agent looks ill. */
const DIAGNOSE_EVERY = 4;
const DOCTOR_WAITS = 24;
/** Least milliseconds between two diagnoses: each reads the whole log of every agent. */
const DOCTOR_RESTS = 1000;

/** The places of the page that an experiment fills. */
export interface Places {
  readonly controls: HTMLElement;
  /** What the agents know of their world. */
  readonly knowledge: HTMLElement;
  /** The curve of success, what happened, and a summary at the end. */
  readonly success: HTMLElement;
  readonly events: HTMLElement;
  /** How it stands, in one sentence. */
  readonly verdict: HTMLElement;
  readonly end: HTMLElement;
  readonly charts: HTMLElement;
  readonly further: HTMLElement;
  readonly ways: HTMLElement;
  readonly doctor: HTMLElement;
  /** The last step, token by token. */
  readonly tokens: HTMLElement;
  /** The executor and its speed. */
  readonly machine: HTMLElement;
  /** Shows one line about the run. */
  readonly say: (text: string) => void;
}

/** The drawn parts: the curves, what the agents know, and each agent's episode of one task. */
interface Drawn {
  readonly curves: Curves;
  readonly map: FactMap;
  readonly task: HTMLElement;
  readonly columns: readonly WayColumn[];
}

export class LiveRun implements Player {
  readonly experiment: PageExperiment;
  readonly #say: (text: string) => void;
  readonly #agents: readonly AgentProxy[];
  readonly #places: Places;
  /** Made at the first message of an agent, so that no agent waits for the drawing code. */
  #drawn: Promise<Drawn> | undefined;
  readonly #tokens: TokenSection;
  readonly #playback = new Playback(this);
  #begun: ((run: LiveRun) => void) | undefined;
  readonly #doctor: HTMLElement;
  readonly #machine: HTMLElement;
  #diagnoses: Diagnoses | undefined;
  #isWithDoctor = false;
  #doctorIsWanted = false;
  /** The highest step reached: the end of the slider. */
  #furthest = 0;
  #warming = "";
  #curvesAreDue = false;
  /** The first agent's episode that is shown; the same one again would be revealed again. */
  #shown: Transcript | undefined;
  /** The message about a part of the page that could not be shown; "" if there is none. */
  #lost = "";
  /** The message about what this browser lacks; "" if there is none. */
  #missing = "";
  #pause = 0;
  /** Whether `dispose` has been called. */
  #isOff = false;
  /** Whether the next step follows after a pause once all agents rest, and the timer of that pause. */
  #isStepping = false;
  #timer = 0;

  /**
   * Replaces what the places showed.
   * @param begun is called once, when the first step is done
   */
  constructor(experiment: PageExperiment, places: Places, begun: (run: LiveRun) => void = () => {}) {
    this.#begun = begun;
    const { controls, doctor, tokens, machine, say } = places;
    this.experiment = experiment;
    this.#places = places;
    this.#doctor = doctor;
    this.#machine = machine;
    doctor.replaceChildren(element("p", { class: "muted" }, "The doctor looks when the first steps are done."));
    this.#say = say;
    this.#agents = experiment.agents.map((own) => new AgentProxy(own, (message) => this.#hear(message)));
    this.#tokens = new TokenSection(tokens, this.#agents);
    const { knowledge, success, events, verdict, end, charts, further, ways } = places;
    for (const place of [knowledge, success, events, verdict, end, charts, further, ways]) place.replaceChildren();
    controls.replaceChildren(...this.#playback.views);
  }

  /** Fetches the warm start; where there is none for these settings, the first agent makes it for all. */
  async begin(): Promise<void> {
    this.#say("Loading the warm start …");
    const missing = await missingFor(this.#device(), globalThis);
    if (missing !== null) {
      this.#missing = missing;
      return this.#say(missing);
    }
    const warm = await loadWarmStart(this.experiment.warm);
    for (const agent of warm ? this.#agents : this.#agents.slice(0, 1)) agent.begin(this.#device(), warm);
  }

  /** Ends the agents' workers. */
  dispose(): void {
    this.#isOff = true;
    clearTimeout(this.#timer);
    for (const agent of this.#agents) agent.dispose();
    this.#tokens.dispose();
    // A part that failed to load was reported already and has nothing to dispose of.
    void this.#drawn?.then(
      ({ curves, columns }) => [curves, ...columns].forEach((own) => own.dispose()),
      () => {},
    );
  }

  toggle(): void {
    if (this.#isPlaying()) this.#stop();
    else this.#go();
    this.#showState();
  }

  oneStep(): void {
    for (const agent of this.#agents) agent.play(this.#step() + 1);
    this.#showState();
  }

  goTo(step: number): void {
    this.#stop();
    for (const agent of this.#agents) agent.goTo(step);
    this.#showState();
  }

  pauseBetweenSteps(milliseconds: number): void {
    const isPlaying = this.#isPlaying();
    this.#pause = milliseconds;
    if (!isPlaying) return;
    // Agents at full speed are stopped and go on step by step once they rest; resting agents go on after the new pause.
    this.#stop();
    this.#isStepping = true;
    this.#goOn();
  }

  /** The RL steps of the whole run. */
  get #steps(): number {
    return Math.max(...this.experiment.agents.map(({ preset }) => preset.rl.steps));
  }

  /** The RL steps that all agents have done. */
  #step(): number {
    return Math.min(...this.#agents.map(({ step }) => step));
  }

  #isPlaying(): boolean {
    return this.#isStepping || this.#agents.some((agent) => agent.isPlaying);
  }

  #go(): void {
    this.#isStepping = this.#pause > 0;
    const to = this.#isStepping ? this.#step() + 1 : undefined;
    for (const agent of this.#agents) if (!agent.isOver) agent.play(to);
  }

  #stop(): void {
    this.#isStepping = false;
    clearTimeout(this.#timer);
    for (const agent of this.#agents) if (agent.isPlaying) agent.pause();
  }

  /** Starts the next step after the pause, if all agents rest. */
  #goOn(): void {
    if (!this.#isStepping || this.#agents.some(({ isPlaying }) => isPlaying)) return;
    if (this.#agents.every(({ isOver }) => isOver)) this.#isStepping = false;
    else this.#timer = window.setTimeout(() => this.#go(), this.#pause);
  }

  #device(): "wasm" | "webgpu" {
    return this.experiment.options.device === "webgpu" ? "webgpu" : "wasm";
  }

  #hear(message: FromAgent): void {
    if (message.kind === "warming")
      this.#warming = `Warm start: ${message.step} of ${message.total} steps of imitation, in other worlds.`;
    if (message.kind === "ready") {
      for (const agent of this.#agents) if (!agent.hasBegun) agent.begin(this.#device(), message.warm);
      if (this.#agents.every(({ isReady }) => isReady)) this.#go();
    }
    this.#furthest = Math.max(this.#furthest, this.#step());
    if (message.kind === "step" && this.#begun) {
      this.#begun(this);
      this.#begun = undefined;
    }
    // Each agent has a step that the inspector can show.
    if (message.kind === "step" && this.#agents.every(({ step }) => step > 0)) this.#tokens.openOnce();
    if (message.kind === "rests") this.#goOn();
    if (message.kind === "rests" || (message.kind === "step" && message.step % DIAGNOSE_EVERY === 0)) this.#diagnose();
    this.#showState();
    const isMeasured = ["ready", "step", "evaluation", "rests"].includes(message.kind);
    if (isMeasured || this.#drawn === undefined) this.#showCurves().catch(this.#withoutPart("curves"));
    if (["ready", "transcript", "rests"].includes(message.kind)) this.#showWays().catch(this.#withoutPart("ways"));
    if (["knows", "rests"].includes(message.kind)) this.#showKnowledge().catch(this.#withoutPart("map"));
    if (["ready", "knows", "evaluation", "rests"].includes(message.kind)) this.#showEvents();
    if (message.kind === "rests") this.#showEnd().catch(this.#withoutPart("summary"));
  }

  /** Draws the curves at most once per frame of the browser: steps may come faster than frames. */
  async #showCurves(): Promise<void> {
    if (this.#curvesAreDue) return;
    this.#curvesAreDue = true;
    const { curves } = await this.#draw();
    requestAnimationFrame(() => {
      this.#curvesAreDue = false;
      const events = milestones(this.#agents).map(({ step }) => step);
      if (!this.#isOff) curves.show(this.#steps, events, lastTest(this.#agents));
    });
  }

  /** How it stands, and what happened, the newest first, with the numbers that they have in the curve. */
  #showEvents(): void {
    const { every } = this.experiment.warm.evaluation;
    this.#places.verdict.textContent = standing(this.#agents, every, this.#steps);
    const items = milestones(this.#agents)
      .map(({ step, text }, i) =>
        element("li", { value: i + 1 }, element("span", { class: "muted" }, `step ${step}: `), text),
      )
      .toReversed();
    const { events } = this.#places;
    // The same sentences again would be read out again.
    if (events.textContent === items.map(({ textContent }) => textContent).join("")) return;
    events.replaceChildren(...items);
    events.scrollTop = 0;
  }

  /** The summary, while all agents are at their end. */
  async #showEnd(): Promise<void> {
    const ended = this.#agents.flatMap(({ label, after }) => (after === undefined ? [] : [{ label, after }]));
    if (ended.length < this.#agents.length) return this.#places.end.replaceChildren();
    const { endView } = await import("./ending.ts");
    if (!this.#isOff) this.#places.end.replaceChildren(endView(ended, this.experiment.isUnchanged));
  }

  /** Shows what each agent knew when it was last asked. */
  async #showKnowledge(): Promise<void> {
    if (this.#agents.every(({ knowledge }) => knowledge.length === 0)) return;
    const { map } = await this.#draw();
    if (this.#isOff) return;
    const about = this.experiment.agents.map(({ preset }) => teachersOf(preset.rl.method)[0]);
    map.show(
      this.#agents.map(({ label, knowledge }, i) => ({
        label,
        about: about[i]!,
        facts: knowledge.at(-1)?.facts ?? null,
      })),
    );
  }

  #draw(): Promise<Drawn> {
    return (this.#drawn ??= this.#makeDrawn());
  }

  async #makeDrawn(): Promise<Drawn> {
    const { Curves, FactMap, WayColumn } = await import("./drawing.js");
    const curves = new Curves(this.#agents, recordedFor(this.experiment));
    const map = new FactMap(EXAMPLE.fact);
    const task = element("p", { class: "task" });
    const columns = this.#agents.map(() => new WayColumn({ tokens: false }));
    // Another experiment may have come to the page meanwhile.
    if (!this.#isOff) {
      const { success, charts, further, knowledge, ways } = this.#places;
      success.replaceChildren(curves.views.success);
      charts.replaceChildren(...curves.views.first);
      further.replaceChildren(...curves.views.further);
      knowledge.replaceChildren(map.view);
      ways.replaceChildren(task, ...columns.map(({ view }) => view));
    }
    return { curves, map, task, columns };
  }

  /** Shows each agent's episode of the newest task that all agents tried after the same number of steps. */
  async #showWays(): Promise<void> {
    const { task: shown, columns } = await this.#draw();
    const [first, ...others] = this.#agents;
    const met = first!.ways.findLast(({ task, step }) =>
      others.every(({ ways }) => ways.some((way) => way.task === task && way.step === step)),
    );
    if (met === undefined || met === this.#shown) return;
    this.#shown = met;
    const after = met.step - this.#agents[0]!.warmSteps;
    const when = element("span", { class: "muted" }, after === 0 ? ", before training" : `, after ${after} steps`);
    shown.replaceChildren(element("strong", {}, visible(met.task)), when);
    this.#agents.forEach(({ label, ways }, i) => {
      const way = ways.findLast(({ task, step }) => task === met.task && step === met.step)!;
      columns[i]!.show(label, way, ` ${teachersOf(this.experiment.agents[i]!.preset.rl.method)[0]}`);
    });
  }

  /** Diagnoses all agents. A request that comes meanwhile leads to one more diagnosis afterwards. */
  #diagnose(): void {
    if (this.#isWithDoctor || this.#step() < Math.min(DOCTOR_WAITS, this.#steps)) {
      this.#doctorIsWanted = this.#isWithDoctor;
      return;
    }
    this.#isWithDoctor = true;
    this.#askDoctor()
      .catch(this.#withoutPart("doctor"))
      .finally(() => setTimeout(() => this.#doctorIsBack(), DOCTOR_RESTS));
  }

  #doctorIsBack(): void {
    this.#isWithDoctor = false;
    if (this.#doctorIsWanted && !this.#isOff) this.#diagnose();
  }

  /** Says that a part of the page could not be loaded. The agents go on without it. */
  #withoutPart(part: string): (error: unknown) => void {
    return (error) => {
      this.#lost = `The ${part} could not be shown: ${error instanceof Error ? error.message : String(error)}`;
      this.#showState();
    };
  }

  async #askDoctor(): Promise<void> {
    this.#doctorIsWanted = false;
    const [{ Diagnoses }, ...logs] = await Promise.all([
      import("./diagnosis.ts"),
      ...this.#agents.map((agent) => agent.log()),
    ]);
    if (this.#diagnoses === undefined) {
      this.#diagnoses = new Diagnoses(this.#agents.map(({ label }) => label));
      this.#doctor.replaceChildren(this.#diagnoses.view);
    }
    for (const [i, { metrics, transcripts }] of logs.entries()) {
      const { config, warmSteps } = this.#agents[i]!;
      this.#diagnoses.show(i, { config, metrics, transcripts }, warmSteps);
    }
  }

  /** The agents' logs so far, and what they knew, for reports. */
  async logs(): Promise<readonly LoggedAgent[]> {
    return Promise.all(this.#agents.map(async (agent) => ({ ...(await agent.log()), knowledge: agent.knowledge })));
  }

  #showMachine(): void {
    const speeds = this.#agents.map(
      ({ metrics }) => metrics.findLast(({ phase }) => phase === "rl")?.["tokens_per_second"],
    );
    const total = speeds.reduce<number>((sum, speed) => sum + (typeof speed === "number" ? speed : 0), 0);
    const speed =
      total === 0 ? "" : ` · ${Math.round(total).toLocaleString("en")} tokens per second, both agents together`;
    const { executor } = this.#agents[0]!;
    const threads = executor.startsWith("wasm") ? ` · ${threadsInWords(this.#agents.length, globalThis)}` : "";
    this.#machine.textContent = executor === "" ? "" : `${executor}${speed}${threads}`;
  }

  #showState(): void {
    const failed = this.#agents.find(({ failure }) => failure !== null);
    const isReady = this.#agents.every(({ isReady }) => isReady) && failed === undefined;
    const isOver = this.#agents.every((agent) => agent.isOver);
    const isPlaying = this.#isPlaying();
    this.#showMachine();
    this.#playback.show({
      isReady,
      isPlaying,
      isOver,
      step: this.#step(),
      furthest: this.#furthest,
      steps: this.#steps,
    });
    if (failed) return this.#say(`${failed.label} has stopped: ${failed.failure}`);
    if (this.#missing !== "") return this.#say(this.#missing);
    if (!isReady) return this.#say(this.#warming || "Loading the warm start …");
    const tested = lastTest(this.#agents);
    const own = this.#agents.map((agent) => `${agent.label}: step ${agent.step}, ${successOf(agent, tested)}`);
    this.#say([...own, ...(this.#lost === "" ? [] : [this.#lost])].join(" · "));
  }
}

/** An agent's held-out success after `tested` RL steps, in words. */
function successOf({ metrics, warmSteps }: AgentProxy, tested = NaN): string {
  const success = metrics.find(({ phase, step }) => phase === "eval" && step === warmSteps + tested)?.["success"];
  return typeof success === "number" ? `solves ${formatAs("percent", success)}` : "not tried yet";
}
