/**
 * A run that can be played, paused, stepped and taken back to any step. A run is a function of its settings and its
 * last checkpoint, so going back drops what came later, and going on again gives the same numbers. Nothing here needs a
 * page; agent.ts puts a session into a worker.
 */
import type { Device } from "../engine/index.ts";
import { check } from "../engine/errors.ts";
import { MemoryStore } from "../run/memoryStore.ts";
import type { Observer } from "../run/observer.ts";
import type { Preset } from "../run/preset.ts";
import { knowledgeInRun } from "../run/knowledge.ts";
import type { KnownFact, MetricsRecord, Summary, Transcript } from "../run/records.ts";
import { Run } from "../run/run.ts";
import { putWarmStart, type WarmStart } from "../run/warmStart.ts";
import type { StepWitness } from "../run/runParts.ts";
import { phaseOf } from "../run/baselines.ts";
import { type LastStep, StepKeeper } from "./lastStep.ts";

/**
 * Plays the warm start of these settings to its end, which is its evaluation.
 * @param begun where it stands already; by default at its beginning
 * @returns null if it was stopped
 */
export async function warmUp(
  preset: Preset,
  device: Device,
  observer: Observer,
  signal: AbortSignal,
  begun?: WarmStart,
): Promise<WarmStart | null> {
  const store = new MemoryStore("the warm start", { preset });
  if (begun) putWarmStart(store, begun);
  const run = new Run(store, preset, device, observer, signal);
  try {
    if ((await run.warmUp(begun !== undefined)) === null) return null;
  } finally {
    run.dispose();
  }
  const { step, files } = store.loadLatestCheckpoint()!;
  return { step, files, metrics: store.metrics, transcripts: store.transcripts };
}

/** RL steps between two measurements of what the agent knows. One takes about a tenth of a step. */
export const KNOWLEDGE_EVERY = 4;

/** Is told what an agent knows of its world after so many RL steps, in worlds that have facts to ask for. */
export type HearKnowledge = (step: number, facts: readonly KnownFact[]) => void;

export class Session {
  readonly #preset: Preset;
  readonly #warm: WarmStart;
  readonly #device: Device;
  readonly #observer: Observer;
  readonly #store: MemoryStore;
  readonly #keeper = new StepKeeper();
  #summary: Summary | null = null;
  #stop: AbortController | null = null;
  readonly #hear: HearKnowledge;

  /** @param preset settings with the warm start of `warm` */
  constructor(preset: Preset, warm: WarmStart, device: Device, observer: Observer, hear: HearKnowledge = () => {}) {
    this.#hear = hear;
    this.#preset = preset;
    this.#warm = warm;
    this.#device = device;
    this.#observer = observer;
    // Going back plays the steps since the last kept checkpoint again.
    const isKept = (step: number): boolean => (step - warm.step) % preset.checkpointEvery === 0;
    this.#store = new MemoryStore("this agent", { preset }, isKept);
    putWarmStart(this.#store, warm);
  }

  /** RL steps done. */
  get step(): number {
    return this.#store.loadLatestCheckpoint()!.step - this.#warm.step;
  }

  /** All metric lines up to here, those of the warm start first. */
  get metrics(): readonly MetricsRecord[] {
    return this.#store.metrics;
  }

  get transcripts(): readonly Transcript[] {
    return this.#store.transcripts;
  }

  /** The summary of the run; null before its end. */
  get summary(): Summary | null {
    return this.#summary;
  }

  /**
   * Goes on until `steps` RL steps are done, or to the end and the last evaluation, which is the default. Only one call
   * may be under way.
   * @returns whether the run has come to its end
   */
  async playTo(steps: number = Infinity): Promise<boolean> {
    check(this.#stop === null, () => "playTo: the session is playing; pause it first");
    if (this.#summary !== null || steps <= this.step) return this.#summary !== null;
    const stop = (this.#stop = new AbortController());
    let isRl = false;
    const observer: Observer = {
      ...bound(this.#observer),
      phase: (name, total, done) => {
        isRl = name === phaseOf(this.#preset.rl.method).during;
        this.#observer.phase(name, total, done);
      },
      update: (done, metrics) => {
        this.#observer.update(done, metrics);
        if (isRl && done >= steps) stop.abort();
      },
    };
    let { step } = this;
    const witness: StepWitness = {
      begins: async (model, template) => {
        this.#keeper.begins(model, template);
        if (step % KNOWLEDGE_EVERY !== 0) return;
        const facts = await knowledgeInRun(this.#preset, model, template);
        if (facts) this.#hear(step, facts);
      },
      ended: (report) => {
        this.#keeper.ended(report);
        step = report.step + 1;
      },
    };
    const run = new Run(this.#store, this.#preset, this.#device, observer, stop.signal, { witness });
    try {
      this.#summary = await run.run(true);
    } finally {
      run.dispose();
      this.#stop = null;
    }
    return this.#summary !== null;
  }

  /** Stops after the current step; the call of `playTo` then returns. */
  pause(): void {
    this.#stop?.abort();
  }

  get isPlaying(): boolean {
    return this.#stop !== null;
  }

  /**
   * Holds the last step for inspection; it stays while the run goes on, until another is held. After a jump to a
   * checkpoint nothing is left of its step, which is then played again from the checkpoint before, with the same
   * numbers.
   * @returns null where no step has ended yet
   */
  async holdLastStep(): Promise<LastStep | null> {
    if (this.#keeper.last === null && this.step > 0 && !this.isPlaying) await this.#playLastAgain();
    return this.#keeper.hold();
  }

  /** The held step; null if there is none. */
  get heldStep(): LastStep | null {
    return this.#keeper.held;
  }

  /** Plays the last step again, from the kept checkpoint before it, in a store of its own. */
  async #playLastAgain(): Promise<void> {
    const { step } = this;
    const from = this.#store.checkpointAt(this.#warm.step + step - 1)!;
    const store = new MemoryStore("the last step", { preset: this.#preset });
    store.saveCheckpoint(from.step, from.files);
    const stop = (this.#stop = new AbortController());
    const observer: Observer = {
      ...quiet,
      update: (done) => {
        if (this.#keeper.last?.step === step && done === step) stop.abort();
      },
    };
    const run = new Run(store, this.#preset, this.#device, observer, stop.signal, { witness: this.#keeper });
    try {
      await run.run(true);
    } finally {
      run.dispose();
      this.#stop = null;
    }
  }

  /** Goes back or forward to the point after `steps` RL steps. */
  async goTo(steps: number): Promise<void> {
    check(this.#stop === null, () => "goTo: the session is playing; pause it first");
    if (steps < this.step) {
      this.#keeper.forget();
      this.#store.rewindTo(this.#store.checkpointAt(this.#warm.step + steps));
      this.#summary = null;
    }
    await this.playTo(steps);
  }
}

const quiet: Observer = { phase() {}, update() {}, evaluation() {}, transcript() {}, note() {} };

const bound = (observer: Observer): Observer => ({
  phase: (...args) => observer.phase(...args),
  update: (...args) => observer.update(...args),
  evaluation: (...args) => observer.evaluation(...args),
  transcript: (record) => observer.transcript(record),
  note: (text) => observer.note(text),
});
